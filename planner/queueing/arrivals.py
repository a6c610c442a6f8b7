"""What a trace says about its arrivals: rate and regularity per window, and whether a renewal stream could be so."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from planner.queueing.moving import index_of_dispersion
from planner.queueing.service import Floats

_FEWEST_GAPS = 8  # a window with fewer says nothing about its SCV
_FEWEST_WINDOWS = 16
_RENEWAL_EXCESS = 2.0  # dispersion over SCV beyond which arrivals are taken as correlated


@dataclass(frozen=True, slots=True, eq=False)
class ArrivalProfile:
    """Arrivals of a trace in equal windows.

    Attributes
    ----------
    start_s, requests_per_s, scv : (windows,); the SCV of the gaps inside a window is NaN where it holds too few.
    gap_scv : SCV of all gaps.   spans_s, dispersion : variance over mean of the count per span, for growing spans.
    """

    start_s: Floats
    requests_per_s: Floats
    scv: Floats
    gap_scv: float
    spans_s: Floats
    dispersion: Floats

    @property
    def long_dispersion(self) -> float:
        """Largest index of dispersion over the spans: what `central_queue` takes as `arrival_dispersion`."""
        return float(np.max(self.dispersion))

    @property
    def renewal(self) -> bool:
        """Whether the counts spread no more than those of a renewal stream with these gaps: its dispersion tends to the
        SCV of its gaps. Where it is False no closed form holds; see `backlog_composite`."""
        known = self.gap_scv if np.isfinite(self.gap_scv) else 1.0
        return self.long_dispersion <= _RENEWAL_EXCESS * max(known, 1.0)


def arrival_profile(arrival_s: ArrayLike, window_s: float, duration_s: float) -> ArrivalProfile:
    """Rate, SCV and dispersion of a trace.

    Parameters
    ----------
    arrival_s : shape (n,), n >= 3, ascending within [0, duration_s].   window_s : > 0, at most `duration_s`.

    Raises
    ------
    ValueError
        Too few arrivals, times out of order or outside the duration, a window that is not in (0, duration_s].
    """
    arrivals = np.asarray(arrival_s, dtype=float)
    if arrivals.ndim != 1 or arrivals.size < 3 or not np.all(np.isfinite(arrivals)):
        raise ValueError(f"arrival_s must be at least 3 finite times, got shape {arrivals.shape}")
    if not 0.0 < window_s <= duration_s:
        raise ValueError(f"window_s must lie in (0, duration_s = {duration_s}], got {window_s}")
    if np.any(np.diff(arrivals) < 0.0) or arrivals[0] < 0.0 or arrivals[-1] > duration_s:
        raise ValueError(f"arrival_s must ascend within [0, duration_s], duration_s = {duration_s}")
    windows = max(1, round(duration_s / window_s))
    edges = np.linspace(0.0, duration_s, windows + 1)
    first = np.searchsorted(arrivals, edges)
    counts = np.diff(first)
    scv = np.array([gap_scv(arrivals[a:b]) for a, b in pairwise(first)])
    mean_gap = duration_s / arrivals.size
    longest = max(duration_s / _FEWEST_WINDOWS, 2.0 * mean_gap)
    spans = np.geomspace(min(4.0 * mean_gap, longest), longest, 12)
    dispersion = np.array([index_of_dispersion(arrivals, float(span), duration_s) for span in spans])
    return ArrivalProfile(
        start_s=edges[:-1],
        requests_per_s=np.asarray(counts * windows / duration_s, dtype=float),
        scv=scv,
        gap_scv=gap_scv(arrivals),
        spans_s=spans,
        dispersion=dispersion,
    )


def gap_scv(arrival_s: NDArray[np.float64]) -> float:
    """Squared coefficient of variation of the gaps of ascending times; NaN for fewer than 8 gaps or one moment."""
    gaps = np.diff(arrival_s)
    if gaps.size < _FEWEST_GAPS:
        return float("nan")
    mean = float(np.mean(gaps))
    return float(np.var(gaps)) / mean**2 if mean > 0.0 else float("nan")
