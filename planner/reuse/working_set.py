"""Denning's working set of a trace: how much is in use within a window, how long until it is used again, and the hit
ratio that follows when a capacity is read as a window.

A cache of X blocks that evicts the least recently used keeps, on average, what was used within its characteristic
time: the window whose working set is X. The share of references that come back within that window is then its hit
ratio (MODELLING §9; Denning and Schwartz, Properties of the working-set model, CACM 15(3), 1972). On Mooncake's trace
that is within 0.015 of the exact curve; with few agents the exact curve is steps, which this rounds. Che's
approximation takes references as independent and promises too much for sessions, because one that ends never returns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from planner.reuse.counting import Ints
from planner.reuse.records import BlockRequests, Floats

_HALVINGS = 200  # of the bracket around a root: more than the digits of a double
_TOLERANCE = 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class WorkingSet:
    """Times between uses of the same block, and how long each use keeps its block in a window.

    Clocks are seconds where the trace has them, and references otherwise.

    Attributes
    ----------
    between : ascending times from a use to the next one.   between_uses : how many references come back after each.
    to_the_end : ascending times from a use to the end of the trace.   last_uses : how many with each are the last of
        their block.
    duration : from the first use to the last.   references : uses in all.   in_seconds : which clock it is.
    """

    between: Floats
    between_uses: Ints
    to_the_end: Floats
    last_uses: Ints
    duration: float
    references: int
    in_seconds: bool

    def blocks(self, window: ArrayLike) -> Floats:
        """Mean number of different blocks used within the last `window`, over the whole trace; its shape.

        s(T) = sum over uses of min(time to the next use, or to the end, T) / duration.
        """
        windows = np.asarray(window, dtype=float)
        total = _capped(self.between, self.between_uses, windows) + _capped(self.to_the_end, self.last_uses, windows)
        return np.asarray(total / self.duration, dtype=float)

    def reused_within(self, window: ArrayLike) -> Floats:
        """Share of all references whose block was used within `window` before: F(T), below 1 for first uses."""
        uses = np.concatenate(([0], np.cumsum(self.between_uses)))
        below = np.searchsorted(self.between, np.asarray(window, dtype=float), side="right")
        return np.asarray(uses[below] / self.references, dtype=float)

    def between_quantiles(self, probabilities: ArrayLike) -> Floats:
        """Quantiles over references of the time since the block's last use; there must be one that comes back."""
        uses = np.cumsum(self.between_uses)
        place = np.asarray(probabilities, dtype=float) * (uses[-1] - 1)
        low, high = (
            self.between[np.searchsorted(uses, edge, side="right")] for edge in (np.floor(place), np.ceil(place))
        )
        return np.asarray(low + (high - low) * (place - np.floor(place)), dtype=float)

    def characteristic_time(self, capacity_blocks: ArrayLike) -> Floats:
        """Window whose working set is the capacity; the whole duration where all fits. Shape of `capacity_blocks`."""
        capacity = np.asarray(capacity_blocks, dtype=float)
        low, high = np.zeros(capacity.shape), np.full(capacity.shape, self.duration)
        for _ in range(_HALVINGS):
            middle = (low + high) / 2.0
            below = self.blocks(middle) < capacity
            low, high = np.where(below, middle, low), np.where(below, high, middle)
            if np.all(high - low <= _TOLERANCE * self.duration):
                break
        return high

    def hit_ratio(self, capacity_blocks: ArrayLike) -> Floats:
        """Estimate of the least-recently-used hit ratio: the share reused within the characteristic time."""
        return self.reused_within(self.characteristic_time(capacity_blocks))


def working_set(requests: BlockRequests, *, in_seconds: bool = True) -> WorkingSet:
    """The working set of a trace.

    Parameters
    ----------
    requests : with at least two references at different times.   in_seconds : by its clock, or else by references.

    Raises
    ------
    ValueError
        When seconds are asked of a trace without times, or nothing lies between its first and its last reference.
    """
    if in_seconds and requests.time_s is None:
        raise ValueError("requests have no time_s; ask with in_seconds=False")
    references = requests.blocks.size
    clock = _clock(requests, in_seconds)
    duration = (
        float(clock(np.array([references - 1]))[0] - clock(np.zeros(1, dtype=np.int64))[0]) if references else 0.0
    )
    if duration <= 0.0:
        raise ValueError("requests all come at one time; a working set needs a duration")
    starts, sizes = requests.stretches
    used = requests.previous[starts]
    starts, uses, used = starts[used >= 0], sizes[used >= 0], used[used >= 0]
    between = clock(starts) - clock(used)
    ascending = np.argsort(between)
    between, uses = between[ascending], uses[ascending]
    to_the_end, last_uses = _last_uses(requests, used[ascending], uses, in_seconds)
    return WorkingSet(between, uses, to_the_end, last_uses, duration, references, in_seconds)


def _capped(times: Floats, uses: Ints, windows: Floats) -> Floats:
    """Sum over uses of their time, at most the window; ascending `times`, the shape of `windows`."""
    below = np.searchsorted(times, windows, side="right")
    counted = np.concatenate(([0], np.cumsum(uses)))
    summed = np.concatenate(([0.0], np.cumsum(times * uses)))
    return np.asarray(summed[below] + windows * (counted[-1] - counted[below]))


def _clock(requests: BlockRequests, in_seconds: bool) -> Callable[[Ints], Floats]:
    """When references are made."""
    time_s = requests.time_s if in_seconds else None
    return (
        (lambda places: places.astype(float)) if time_s is None else lambda places: time_s[requests.request_of(places)]
    )


def _last_uses(requests: BlockRequests, used: Ints, uses: Ints, in_seconds: bool) -> tuple[Floats, Ints]:
    """Ascending times to the end of uses that are not followed by another, and how many there are of each."""
    if in_seconds and requests.time_s is not None:
        followed = np.bincount(requests.request_of(used), uses, minlength=requests.requests)
        unfollowed = np.diff(requests.offsets) - followed.astype(np.int64)
        return (requests.time_s[-1] - requests.time_s)[::-1], unfollowed[::-1]
    last = np.ones(requests.blocks.size, dtype=np.int64)
    last[requests.previous[requests.previous >= 0]] = 0
    return np.arange(float(last.size)), last[::-1]


def independent_hit_ratio(popularity: ArrayLike, capacity_blocks: float) -> float:
    """Che's approximation: hit ratio of a least-recently-used cache under independent references.

    Of use for prompts that are shared and do not change, such as system prompts of many tenants; sessions are not
    independent references, and for them it promises too much.

    Parameters
    ----------
    popularity : shape (blocks,), relative frequency of each block, >= 0.   capacity_blocks : >= 0.

    Raises
    ------
    ValueError
        When no block has a positive popularity, or one is negative.

    Notes
    -----
    sum_i (1 - exp(-p_i t)) = C gives t, and the hit ratio is sum_i p_i (1 - exp(-p_i t)) (Che, Tung and Wang,
    Hierarchical web caching systems, IEEE JSAC 20(7), 2002).
    """
    weights = np.asarray(popularity, dtype=float)
    if weights.size == 0 or np.any(weights < 0.0) or not np.any(weights > 0.0):
        raise ValueError("popularity must be at least 0, and positive for some block")
    shares = weights[weights > 0.0] / weights.sum()
    if capacity_blocks >= shares.size:
        return 1.0
    low, high = 0.0, 1.0
    while float(np.sum(-np.expm1(-shares * high))) < capacity_blocks:
        high *= 2.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        if float(np.sum(-np.expm1(-shares * middle))) < capacity_blocks:
            low = middle
        else:
            high = middle
    return float(np.sum(shares * -np.expm1(-shares * high)))
