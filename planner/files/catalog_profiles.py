"""Engine documents to engine profiles."""

from __future__ import annotations

from typing import Any

from planner.errors import Fault
from planner.files.catalog_engines import read_launch_rules
from planner.files.catalog_fields import Fields, finish
from planner.files.yamlfile import Document
from planner.records import EngineConstants, EngineProfile, IntervalFactors, MemoryRule

_CONSTANT_TIMES = ("kernel_gap", "host_step", "host_sequence", "prefill_kernel", "ttft_fixed", "ttft_sequence")
_CONSTANT_FACTORS = (
    "gemm_memory_factor", "compute_factor", "start_up_factor", "collective_factor", "experts_factor",
    "decode_attention_factor", "prefill_factor", "ttft_steps", "own_prefill_factor",
)  # fmt: skip
# Of closed loops only; a profile that leaves them out keeps the defaults of the record.
_CONSTANT_EXTRAS = {
    "uniform_window": "uniform_window_fraction", "fixed_window": "fixed_window_fraction",
    "burst_wait_factor": "burst_wait_factor", "burst_ahead": "burst_ahead_fraction",
    "held_back": "held_back_requests",
}  # fmt: skip
# Columns of a deviation, in the order in which a profile lists its constants.
_DEVIATION_FIELDS = (
    "gemm_memory_factor", "compute_factor", "kernel_gap_s", "start_up_factor", "host_step_s", "host_sequence_s",
    "collective_factor", "experts_factor", "decode_attention_factor", "prefill_kernel_s", "prefill_factor",
    "ttft_fixed_s", "ttft_steps", "own_prefill_factor", "ttft_sequence_s", "uniform_window_fraction",
    "fixed_window_fraction", "burst_wait_factor", "burst_ahead_fraction", "held_back_requests",
)  # fmt: skip
_LARGEST_LOG = 8.0  # a factor of 3,000: nothing measured deviates so far
_BASES = ("total", "free-before-load", "free-after-load")
_SCHEDULING = ("mixed", "prefill-first", "whole-prompt")


def read_engine(document: Document, stem: str) -> EngineProfile:
    """The engine profile of `document`. Raises InputError with every fault of the file."""
    faults: list[Fault] = []
    fields = Fields(document, faults)
    fields.text("kind", choices=("engine",))
    reading: dict[str, Any] = {
        "id": fields.require_id(stem),
        "version": fields.text("version", example="0.33.0"),
        "scheduling": fields.text("scheduling", "mixed", _SCHEDULING, "mixed"),
        "memory": _memory_rule(fields),
        "reserved_output_fraction": fields.ratio("reserved_output_fraction", "0.5", 1.0),
        "token_budget": fields.count("token_budget", example="8192"),
        "max_batch": fields.count("max_batch", example="1024"),
        "colocated": _constants(fields, "colocated"),
        "disaggregated": _constants(fields, "disaggregated"),
        "interval_coverage": fields.ratio("interval_coverage", "0.8", 1.0),
        "intervals": _intervals(fields),
        "interval_widths": _widths(fields),
        "interval_growth": _growth(fields),
        "measured_cells": _cells(fields),
        "deviations": _deviations(fields),
        "provenance": fields.origin("provenance"),
        **read_launch_rules(fields, read_memory_rule),
    }
    fields.known["provenance"] = None
    fields.refuse_unknown()
    finish(faults)
    return EngineProfile(**reading, sha256=document.sha256)


def _memory_rule(fields: Fields) -> MemoryRule | None:
    inner = fields.inner("memory", required=True)
    return None if inner is None else read_memory_rule(inner)


def read_memory_rule(inner: Fields) -> MemoryRule:
    """One memory rule, of the current version or of older ones."""
    reading: dict[str, Any] = {
        "basis": inner.text("basis", "total", _BASES, "total"),
        "fraction": inner.ratio("fraction", "0.9", 1.0),
        "context_bytes": inner.quantity("context", "bytes", example="1 GB"),
        "collective_bytes": inner.quantity("collective", "bytes", example="2.1 GiB"),
        "block_tokens": inner.count("block_tokens", example="16"),
    }
    inner.refuse_unknown()
    return MemoryRule(**reading)


def _constants(fields: Fields, key: str) -> EngineConstants | None:
    inner = fields.inner(key, required=True)
    if inner is None:
        return None
    reading = {f"{name}_s": inner.time(name, "1.8 us") for name in _CONSTANT_TIMES}
    reading |= {name: inner.ratio(name, "1.0") for name in _CONSTANT_FACTORS}
    extras = {field: inner.ratio(name) for name, field in _CONSTANT_EXTRAS.items()}
    reading |= {field: value for field, value in extras.items() if value > 0}
    inner.refuse_unknown()
    return EngineConstants(**reading)


def _intervals(fields: Fields) -> dict[str, IntervalFactors]:
    inner = fields.inner("intervals", required=True)
    intervals: dict[str, IntervalFactors] = {}
    for name, values in (inner.values if inner else {}).items():
        numbers = values if isinstance(values, list) else []
        good = len(numbers) == 4 and all(isinstance(x, int | float) and x > 0 for x in numbers)
        if not good or numbers[0] > numbers[1] or numbers[2] > numbers[3]:
            fields.fault(("intervals", name), "want [step low, step high, TTFT low, TTFT high], low before high")
            continue
        intervals[name] = IntervalFactors(*(float(x) for x in numbers))
    return intervals


def _stretches(fields: Fields, key: str, ends: str) -> dict[str, list[float]]:
    """Factors on log intervals, one for each of `ends`."""
    inner = fields.inner(key)
    found: dict[str, list[float]] = {}
    for name, values in (inner.values if inner else {}).items():
        numbers = values if isinstance(values, list) else []
        good = len(numbers) == len(ends.split(", ")) and all(isinstance(x, int | float) and x > 0 for x in numbers)
        if not good:
            fields.fault((key, str(name)), f"want [{ends}], factors on log intervals")
            continue
        found[str(name)] = [float(x) for x in numbers]
    return found


def _widths(fields: Fields) -> dict[str, IntervalFactors]:
    found = _stretches(fields, "interval_widths", "step low, step high, TTFT low, TTFT high")
    return {name: IntervalFactors(*numbers) for name, numbers in found.items()}


def _growth(fields: Fields) -> dict[float, tuple[float, float]]:
    """Coverage -> factors, coverage a share such as 0.9."""
    found: dict[float, tuple[float, float]] = {}
    for name, (step, ttft) in _stretches(fields, "interval_growth", "step width, TTFT width").items():
        try:
            share = float(name)
        except ValueError:
            share = 0.0
        if not 0 < share < 1:
            fields.fault(("interval_growth", str(name)), "want a share between 0 and 1")
            continue
        found[share] = (step, ttft)
    return found


def _deviations(fields: Fields) -> dict[str, dict[str, float]]:
    """Log deviations of measured groups: a list with one number per constant, or a mapping of a few."""
    inner = fields.inner("deviations")
    found: dict[str, dict[str, float]] = {}
    for name, values in (inner.values if inner else {}).items():
        named = dict(zip(_DEVIATION_FIELDS, values, strict=False)) if isinstance(values, list) else values
        whole = isinstance(named, dict) and (not isinstance(values, list) or len(values) == len(_DEVIATION_FIELDS))
        if not whole or not all(key in _DEVIATION_FIELDS and _is_log(value) for key, value in named.items()):
            fields.fault(("deviations", name), f"want {len(_DEVIATION_FIELDS)} log factors, or a mapping of some")
            continue
        found[str(name)] = {key: float(value) for key, value in named.items() if value}
    return found


def _is_log(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _LARGEST_LOG


def _cells(fields: Fields) -> frozenset[tuple[str, str]]:
    inner = fields.inner("measured_cells")
    cells = set()
    for model, accelerators in (inner.values if inner else {}).items():
        if not isinstance(accelerators, list):
            fields.fault(("measured_cells", model), "want a list of accelerator ids")
            continue
        cells |= {(model, str(accelerator)) for accelerator in accelerators}
    return frozenset(cells)
