"""What is repaired in a trace, and said: failed requests, rows out of order, times that come in ticks."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from planner.errors import Fault, InputError
from planner.records import Arrivals, Floats, Note
from planner.units import format_seconds


def rate_per_s(arrivals: Arrivals) -> float:
    """Requests per second between the first and the last arrival: (n - 1) / duration."""
    return (arrivals.time_s.size - 1) / arrivals.duration_s


def rescaled(arrivals: Arrivals, requests_per_s: float) -> Arrivals:
    """The same requests with time stretched evenly so that they arrive at `requests_per_s`."""
    factor = rate_per_s(arrivals) / requests_per_s
    return Arrivals(
        arrivals.time_s * factor, arrivals.input_tokens, arrivals.output_tokens, arrivals.duration_s * factor
    )


def served_requests(inputs: Floats, outputs: Floats, path: str) -> tuple[NDArray[np.bool_], list[Note]]:
    """Which requests have a prompt and an output, and notes on those left out.

    Raises
    ------
    InputError
        When none has.
    """
    served = (inputs > 0) & (outputs > 0)
    if not served.any():
        raise InputError([Fault(f"none of its {served.size:,} requests has output tokens (0 means it failed)", path)])
    failed, unprompted = int((outputs == 0).sum()), int(((inputs == 0) & (outputs > 0)).sum())
    notes = []
    if failed:
        share = f"{failed:,} of {served.size:,} requests have no output tokens"
        notes.append(Note("caution", f"{share}: taken as failed and left out"))
    if unprompted:
        notes.append(
            Note("caution", f"{unprompted:,} of {served.size:,} requests have no input tokens and are left out")
        )
    return np.asarray(served, dtype=bool), notes


def late_rows(time_s: Floats) -> list[Note]:
    """A note on rows of one file that stand before an earlier one."""
    late = int((np.diff(time_s) < 0).sum())
    return [Note("info", f"{late:,} rows stand before an earlier one; sorted by time")] if late else []


def clocked(time_s: Floats, path: str, *, ticks: bool = True) -> tuple[Floats, list[Note]]:
    """Times in order, from 0, and where they come in `ticks` with ties spread over theirs.

    Raises
    ------
    InputError
        When fewer than two requests are left, or all come at one time.
    """
    time_s = time_s - time_s[0]
    if time_s.size < 2:
        raise InputError([Fault("holds one served request; want at least 2 to know their rate", path)])
    if time_s[-1] == 0:
        raise InputError([Fault(f"its {time_s.size:,} requests all have one time, so they have no rate", path)])
    spread_s, tied, tick_s = spread_ties(time_s) if ticks else (time_s, 0, 0.0)
    if not tied:
        return spread_s, []
    share = f"{tied:,} of {time_s.size:,} requests share a time with another"
    return spread_s, [Note("info", f"{share}; spread evenly over the tick of {format_seconds(tick_s)}")]


def spread_ties(time_s: Floats) -> tuple[Floats, int, float]:
    """Times in order with equal ones spread evenly over the tick they came in.

    The tick is the smallest step between two different times: k requests at t become t, t + tick/k, … and stay before
    the next different time.

    Returns
    -------
    tuple
        New times, the number of requests that shared a time, the tick (s).
    """
    distinct_s, first, counts = np.unique(time_s, return_index=True, return_counts=True)
    tick_s = float(np.diff(distinct_s).min())
    place = np.arange(time_s.size) - np.repeat(first, counts)
    return time_s + tick_s * place / np.repeat(counts, counts), int(counts[counts > 1].sum()), tick_s
