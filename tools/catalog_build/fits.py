"""`operator_fits.csv` to one small efficiency file per accelerator.

One row per engine that was measured with usable trust, and one row `any`: the median over those engines, so that an
engine without a row of its own uses what its neighbours reach. Rows of low trust are used only where an operator has
nothing better, and then only inside `any`, marked low.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import median
from typing import NamedTuple

from catalog_build.writing import Row, read_csv, rounded, scalar, write

_DTYPES = {
    "bfloat16": "bf16", "bf16": "bf16", "fp8": "fp8", "fp8_block": "fp8_block", "nvfp4": "nvfp4", "int4_wo": "int4",
    "int8_wo": "int8", "w4a16_mxfp4": "mxfp4", "w4a8_mxfp4_mxfp8": "mxfp4_fp8", "bf16/half": "bf16",
}  # fmt: skip
_ENGINES = {"vllm": "vllm", "sglang": "sglang", "trtllm": "tensorrt-llm"}
_LIBRARIES = ("nccl", "oneccl")
# The peak that a dtype's compute fraction is of; weight-only formats compute in bf16.
_PEAK = {"fp8": "fp8_tflops", "fp8_block": "fp8_tflops", "mxfp4_fp8": "fp8_tflops", "nvfp4": "fp4_tflops"}
_OPERATORS = {
    "gemm": "gemm",
    "context_attention": "prefill_attention",
    "context_attention_window128": "prefill_attention",
    "generation_attention_gqa": "decode_attention",
    "generation_attention_mha": "decode_attention_mha",
    "context_mla": "prefill_mla",
    "generation_mla": "decode_mla",
    "moe_power_law_1.2": "experts",
    "all_reduce": "all_reduce",
    "all_gather": "all_gather",
    "reduce_scatter": "reduce_scatter",
    "alltoall": "all_to_all",
    "moe_dispatch": "moe_dispatch",
    "moe_combine": "moe_combine",
    "gdn_context": "recurrent_prefill",
    "gdn_generation": "recurrent_decode",
}
_FORM_NAMES = {"E1": "_low_latency", "E2": ""}  # bytes per routed copy, or once per rank reached
_MLA = ("prefill_mla", "decode_mla")
_COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
_USABLE = ("high", "medium")
# One-shot all-reduce was timed on small messages only; the two-shot kernel covers every size within a microsecond.
_SMALL_MESSAGES = "MNNVL_oneshot"
_HOST_SPECIFIC = "host-specific"
_HIGHEST_START_UP_US = 6.0  # above it the tables time eager launches or separate quantise kernels (FIDELITY §2)

_SHAPE_COLUMNS = ("dtype", "kv_dtype", "head_dim", "window", "ranks", "engine")
_VALUE_COLUMNS = (
    "start_up", "compute_fraction", "memory_fraction", "exponent", "sequence", "softmax_tokens", "gather_factor",
    "latency", "link_fraction",
)  # fmt: skip
_TIMES = ("start_up", "sequence", "latency")


class Shape(NamedTuple):
    """What a fit is for; the engine comes beside it."""

    operator: str
    dtype: str
    kv_dtype: str
    head_dim: int
    window: bool
    ranks: int


class Fit(NamedTuple):
    """Constants of one engine at one shape, already clipped. Times in microseconds."""

    values: dict[str, float]
    trust: str
    source: str


def build(facts: Path, out: Path) -> list[str]:
    """Write an efficiency file for every accelerator with fits of its own; returns their ids."""
    accelerators = {row["name"]: row for row in read_csv(facts / "accelerators.csv")}
    by_sku: dict[str, list[Row]] = defaultdict(list)
    for row in read_csv(facts / "operator_fits.csv"):
        by_sku[row["sku"]].append(row)
    written = []
    for sku, rows in sorted(by_sku.items()):
        fits = _fits(rows, accelerators[sku])
        if any(shape.operator == "gemm" for shape in fits):
            write(out / "efficiency" / f"{sku}.yaml", _lines(sku, fits))
            written.append(sku)
    return written


def _fits(rows: Iterable[Row], accelerator: Row) -> dict[Shape, dict[str, Fit]]:
    groups: dict[Shape, dict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        shape = _shape(row)
        if shape is not None and _counts(row, shape, accelerator):
            groups[shape][_ENGINES.get(row["backend"], row["backend"])].append(row)
    fits = {}
    for shape, engines in groups.items():
        chosen = {engine: _fit(_best(candidates), shape, accelerator) for engine, candidates in engines.items()}
        fits[shape] = _with_median(chosen)
    return fits


def _shape(row: Row) -> Shape | None:
    operator = _OPERATORS.get(row["op"])
    dtype = _DTYPES.get(row["dtype"])
    if operator is None or dtype is None or row["backend"] not in (*_ENGINES, *_LIBRARIES):
        return None
    if row["op_family"] == "all_to_all":
        operator += _FORM_NAMES[row["form"]]
    ranks = int(row["n_gpus"]) if row["op_family"] in ("collective", "all_to_all") else 0
    return Shape(
        operator=operator,
        dtype=dtype,
        kv_dtype=_DTYPES.get(row["kv_dtype"], ""),
        head_dim=int(row["head_dim"] or 0),
        window="window" in row["op"],
        ranks=ranks,
    )


def _counts(row: Row, shape: Shape, accelerator: Row) -> bool:
    """False for rows that no engine pays: eager collectives, dtypes the part lacks, 8-bit latents."""
    peak = accelerator[_PEAK.get(shape.dtype, "bf16_tflops")]
    if not peak or (row["peak_tflops"] and float(row["peak_tflops"]) != float(peak)):
        return False
    if shape.operator in _MLA:
        return shape.kv_dtype == "bf16"
    if shape.operator in _COLLECTIVES:
        return "eager" not in f"{row['kernel']} {row['note']}" and _SMALL_MESSAGES not in row["kernel"]
    if shape.operator.startswith("moe_"):
        return "eager" not in row["note"] and row["trust"] in _USABLE
    return True


def _best(rows: list[Row]) -> Row:
    """Usable trust first, then the row the table prefers, then the one with most measurements behind it."""
    return max(rows, key=lambda row: (row["trust"] in _USABLE, row["preferred"] == "1", int(row["n_rows"] or 0)))


def _fit(row: Row, shape: Shape, accelerator: Row) -> Fit:
    trust = row["trust"] if row["trust"] in _USABLE and _HOST_SPECIFIC not in row["note"] else "low"
    return Fit(_clipped(_values(row, shape, accelerator), shape.operator), trust, row["source"])


def _values(row: Row, shape: Shape, accelerator: Row) -> dict[str, float]:
    if shape.ranks:
        link_gbs = float(accelerator["scaleup_gbs_uni"])
        eager_free = shape.operator in _COLLECTIVES
        latency = row["alpha_us_c3"] if eager_free else row["alpha_us"]
        achieved = row["eff_gbs_c3"] if eager_free else row["eff_gbs"]
        exponent = {"exponent": float(row["q"])} if eager_free else {}
        return {**exponent, "latency": float(latency), "link_fraction": float(achieved) / link_gbs}
    columns = {
        "start_up": row["t0_us"],
        "compute_fraction": row["eff_compute"],
        "memory_fraction": row["eff_mem"],
        "exponent": row["q"],
        "sequence": row["c_ns"],
        "softmax_tokens": row["S_tokens"],
        "gather_factor": row["g"],
    }
    values = {name: float(text) for name, text in columns.items() if text}
    if "sequence" in values:
        values["sequence"] /= 1000
    return values


def _clipped(values: dict[str, float], operator: str) -> dict[str, float]:
    """Fitted constants inside what engines can pay and physics allows (FIDELITY §2)."""
    limits: dict[str, tuple[float, float]] = {
        "compute_fraction": (0.0, 1.0), "memory_fraction": (0.0, 1.0), "link_fraction": (0.0, 1.1),
    }  # fmt: skip
    if operator == "gemm":
        limits |= {"start_up": (0.0, _HIGHEST_START_UP_US), "memory_fraction": (0.0, 0.95), "exponent": (1.2, 6.0)}
    elif operator == "experts":
        limits |= {"exponent": (1.0, 6.0), "gather_factor": (0.0, 12.0)}
    elif operator in _MLA:
        limits |= {"compute_fraction": (0.0, 0.8), "memory_fraction": (0.0, 0.9)}
    return {name: min(max(value, limits[name][0]), limits[name][1]) if name in limits else value
            for name, value in values.items()}  # fmt: skip


def _with_median(engines: dict[str, Fit]) -> dict[str, Fit]:
    """Engines of usable trust and their median; libraries, then low trust, where no engine is usable."""
    tiers: tuple[Callable[[str, Fit], bool], ...] = (
        lambda engine, fit: engine not in _LIBRARIES and fit.trust in _USABLE,
        lambda engine, fit: fit.trust in _USABLE,
        lambda engine, fit: engine not in _LIBRARIES,
        lambda engine, fit: True,
    )
    for keep in tiers:
        used = {engine: fit for engine, fit in engines.items() if keep(engine, fit)}
        if used:
            break
    values = {name: median(fit.values[name] for fit in used.values()) for name in next(iter(used.values())).values}
    trusts = {fit.trust for fit in used.values()}
    trust = "low" if "low" in trusts else "medium" if "medium" in trusts else "high"
    own = {engine: fit for engine, fit in used.items() if engine not in _LIBRARIES and fit.trust in _USABLE}
    source = "" if own else "; ".join(dict.fromkeys(fit.source for fit in used.values()))
    return {**dict(sorted(own.items())), "any": Fit(values, trust, source)}


def _lines(sku: str, fits: dict[Shape, dict[str, Fit]]) -> list[str]:
    lines = [
        f"# Fitted operator constants of {sku}, one row per engine. `any` is the median over the engines above it, or,",
        "# where none stands there, from its own sources. Fractions are of the accelerator's own dense peak, memory",
        "# rate or one-way scale-up rate. Keys: hardware/README.md",
        f"id: {sku}",
        "fits:",
    ]
    operators = dict.fromkeys(operator for operator in _ordered(fits))
    for operator in operators:
        lines += _operator_lines({shape: rows for shape, rows in fits.items() if shape.operator == operator})
    return lines


def _ordered(fits: Iterable[Shape]) -> list[str]:
    names = {shape.operator for shape in fits}
    order = list(dict.fromkeys(name + end for name in _OPERATORS.values() for end in ("", "_low_latency")))
    return [name for name in order if name in names]


def _operator_lines(fits: dict[Shape, dict[str, Fit]]) -> list[str]:
    operator = next(iter(fits)).operator
    every = [(shape, engine, fit) for shape in sorted(fits) for engine, fit in fits[shape].items()]
    used = {name for _, _, fit in every for name in fit.values}
    keys = [key for key in _SHAPE_COLUMNS if key == "engine" or any(getattr(shape, key) for shape, _, _ in every)]
    values = [name for name in _VALUE_COLUMNS if name in used]
    lines = [f"  {operator}:", "    sources:"]
    for engine, sources in _sources(every).items():
        lines.append(f"      {engine}: {scalar('; '.join(sources))}")
    lines += [f"    columns: [{', '.join([*keys, *values, 'trust'])}]", "    rows:"]
    for shape, engine, fit in every:
        identity = [engine if key == "engine" else _cell(getattr(shape, key)) for key in keys]
        numbers = [_value(name, fit.values.get(name, 0.0)) for name in values]
        lines.append(f"      - [{', '.join([*identity, *numbers, fit.trust])}]")
    return lines


def _sources(every: list[tuple[Shape, str, Fit]]) -> dict[str, list[str]]:
    found: dict[str, dict[str, None]] = defaultdict(dict)
    for _, engine, fit in every:
        if fit.source:
            found[engine] |= dict.fromkeys(fit.source.split("; "))
    return {engine: sorted(found[engine]) for engine in sorted(found)}


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if value != "" else '""'


def _value(name: str, value: float) -> str:
    return f"{rounded(value)} us" if name in _TIMES else rounded(value)
