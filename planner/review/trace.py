"""A trace as plain values: how its requests come, how long they are, and what of their prompts a cache would hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from planner import __version__
from planner.queueing.arrivals import gap_scv
from planner.queueing.moving import index_of_dispersion
from planner.records import PROBABILITY, Arrivals, Floats, InputFile, Note, Trace
from planner.reuse import BlockRequests, HitCurve, WorkingSet, reuse_curve, working_set
from planner.reuse.records import Eviction

SCHEMA_VERSION = 1

Document = dict[str, Any]

_WINDOWS_S = (1.0, 10.0, 60.0, 600.0, 3600.0, 21600.0)
_FEWEST_WINDOWS = 16  # of one length in a trace; fewer say nothing about how counts vary
_MOSTLY_COLD = 0.5  # share of a trace that fills the cache, from which on a ratio is said to be low


def trace_document(
    trace: Trace, files: Sequence[InputFile], eviction: Eviction, capacities: Sequence[int] | None
) -> Document:
    """Everything `planner trace show` says.

    Parameters
    ----------
    files : what the trace was read from.
    capacities : in blocks, for the hit curve; None for 20 log-spaced ones.

    Raises ValueError when capacities are asked of a trace without blocks.
    """
    if trace.blocks is None and capacities is not None:
        raise ValueError(f"a {trace.format} trace has no block ids, so it has no hit curve")
    reuse, notes = _reuse(trace, eviction, capacities)
    arrivals = trace.arrivals
    return {
        "schema_version": SCHEMA_VERSION,
        "tool": {"name": "planner", "version": __version__},
        "files": [asdict(file) for file in files],
        "format": trace.format,
        "requests": int(trace.input_tokens.size),
        "duration_s": None if arrivals is None else arrivals.duration_s,
        "requests_per_s": None if arrivals is None else (arrivals.time_s.size - 1) / arrivals.duration_s,
        "arrivals": None if arrivals is None else _arrivals(arrivals),
        "input_tokens": _lengths(trace.input_tokens),
        "output_tokens": _lengths(trace.output_tokens),
        "length_correlation": _correlation(trace.input_tokens, trace.output_tokens),
        "provider_hit_ratio": _provider(trace),
        "reuse": reuse,
        "notes": [asdict(note) for note in (*trace.notes, *notes)],
    }


def _arrivals(arrivals: Arrivals) -> Document:
    scv = gap_scv(arrivals.time_s)
    windows = [window for window in _WINDOWS_S if arrivals.duration_s >= _FEWEST_WINDOWS * window]
    return {
        "gap_scv": scv if np.isfinite(scv) else None,
        "dispersion": [
            {
                "window_s": window,
                "index_of_dispersion": index_of_dispersion(arrivals.time_s, window, arrivals.duration_s),
            }
            for window in windows
        ],
    }


def _lengths(tokens: Floats) -> Document:
    mean = float(tokens.mean())
    quantiles = np.quantile(tokens, list(PROBABILITY.values()))
    return {
        "mean": mean,
        **{name: float(value) for name, value in zip(PROBABILITY, quantiles, strict=True)},
        "max": float(tokens.max()),
        "scv": float(tokens.var()) / mean**2,
    }


def _correlation(inputs: Floats, outputs: Floats) -> float | None:
    """Pearson's coefficient; None where one side does not vary."""
    if inputs.size < 2 or np.ptp(inputs) == 0.0 or np.ptp(outputs) == 0.0:
        return None
    return float(np.corrcoef(inputs, outputs)[0, 1])


def _provider(trace: Trace) -> float | None:
    if trace.cached_tokens is None:
        return None
    return float(trace.cached_tokens.sum() / trace.input_tokens.sum())


# ------------------------------------------------------------------------------------------------------------ reuse


def _reuse(
    trace: Trace, eviction: Eviction, capacities: Sequence[int] | None
) -> tuple[Document | None, tuple[Note, ...]]:
    if trace.blocks is None or not trace.blocks.ids.size:
        return None, ()
    time_s = None if trace.arrivals is None else trace.arrivals.time_s
    blocks = trace.blocks
    requests = BlockRequests(
        blocks.ids, blocks.offsets, trace.input_tokens, trace.output_tokens, blocks.block_tokens, time_s
    )
    times = _times(requests, time_s is not None)  # before the curve, so that not both take memory at once
    reuse = reuse_curve(requests, eviction)
    curve = reuse.hit_curve(capacities)
    document = {
        "eviction": eviction,
        "block_tokens": curve.block_tokens,
        "block_references": int(requests.blocks.size),
        "distinct_blocks": reuse.distinct_blocks,
        "ceiling": curve.ceiling,
        "token_ceiling": curve.token_ceiling,
        "curve": _curve(curve),
        **times,
    }
    return document, _cold(curve, reuse.distinct_blocks) if capacities is not None else ()


def _curve(curve: HitCurve) -> list[Document]:
    tokens, ratios = curve.capacity_tokens, curve.token_hit_ratio
    return [
        {
            "capacity_blocks": int(curve.capacity_blocks[place]),
            "capacity_tokens": None if tokens is None else int(tokens[place]),
            "hit_ratio": float(curve.hit_ratio[place]),
            "token_hit_ratio": None if ratios is None else float(ratios[place]),
            "cold_start_fraction": float(curve.cold_start_fraction[place]),
        }
        for place in range(curve.capacity_blocks.size)
    ]


def _times(requests: BlockRequests, in_seconds: bool) -> Document:
    """Times between uses, None where nothing comes back, and the working set within some windows."""
    used = working_set(requests, in_seconds=in_seconds)
    probabilities = list(PROBABILITY.values())
    quantiles = used.between_quantiles(probabilities).tolist() if used.between.size else None
    return {
        "reuse_time_s": quantiles and dict(zip(PROBABILITY, quantiles, strict=True)),
        "working_set": _working_set(used, requests.block_tokens),
    }


def _working_set(used: WorkingSet, block_tokens: int | None) -> list[Document]:
    windows = [window for window in _WINDOWS_S if window < used.duration] + [used.duration]
    blocks = used.blocks(windows)
    return [
        {
            "window_s": window,
            "working_set_blocks": float(count),
            "working_set_tokens": None if block_tokens is None else float(count) * block_tokens,
        }
        for window, count in zip(windows, blocks, strict=True)
    ]


def _cold(curve: HitCurve, distinct_blocks: int) -> tuple[Note, ...]:
    """What the trace is too short to say at the capacities asked."""
    notes = []
    never = [capacity for capacity in curve.capacity_blocks if capacity > distinct_blocks]
    if never:
        text = (
            f"a cache of {_listed(never)} blocks never fills: the trace has {distinct_blocks:,} different blocks, too "
            "few to say what longer traffic would find there"
        )
        notes.append(Note("caution", text))
    cold = [
        capacity
        for capacity, share in zip(curve.capacity_blocks, curve.cold_start_fraction, strict=True)
        if capacity <= distinct_blocks and share > _MOSTLY_COLD
    ]
    if cold:
        text = (
            f"a cache of {_listed(cold)} blocks is still filling for more than half of the trace: its ratio is that of "
            "a cold start, and lower than longer traffic would see"
        )
        notes.append(Note("caution", text))
    return tuple(notes)


def _listed(capacities: Sequence[float]) -> str:
    return " or ".join(f"{capacity:,.0f}" for capacity in capacities)
