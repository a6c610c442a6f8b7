"""Wait plus the request's own time: the quantile of the sum, never the sum of two quantiles."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from planner.queueing.service import Floats
from planner.queueing.waiting import WaitLike, checked_level

_TABLE = 256  # points of the tabulated tail of the wait
_ROUNDS = 60


def total_mean_s(wait: WaitLike, own_s: ArrayLike, weights: ArrayLike) -> Floats:
    """E[W] + E[S]; arguments as `total_quantile_s`."""
    own, share = _own(own_s, weights)
    return wait.mean_s + own @ share


def total_quantile_s(wait: WaitLike, own_s: ArrayLike, weights: ArrayLike, q: ArrayLike) -> Floats:
    """The t with sum_i w_i P(W > t - s_i) = 1 - q: the q-quantile of W + S, with S independent of the wait.

    Parameters
    ----------
    wait : waits of shape (n,) or (), from any law of this room.
    own_s : shape (atoms,) or the waits' shape and (atoms,), s, >= 0.
    weights : shape (atoms,), normalized to sum to 1.
    q : in (0, 1); shape () or (levels,).

    Returns
    -------
    The waits' shape, and one more axis for several levels; inf where the wait or an own time is. The tail of the wait
    is tabulated (linear in its log), which is good to 1e-4 of the result, 1e-3 for the most uneven laws.
    """
    level = checked_level(q)
    own, share = _own(own_s, weights)
    points = np.shape(wait.mean_s)
    levels = np.tile(np.ravel(level), int(np.prod(points)))  # a row for every point and level
    tail = 1.0 - levels
    far = np.ravel(wait.quantile_s(1.0 - (1.0 - level) / 2.0))  # W + S passes q only if W or S passes (1+q)/2
    own = np.broadcast_to(own, (*points, share.size)).reshape(-1, share.size)
    order = np.argsort(own, axis=1)
    own, shares = np.take_along_axis(own, order, axis=1), share[order]
    own, shares = (np.repeat(one, level.size, axis=0) for one in (own, shares))
    finite = np.isfinite(far) & np.isfinite(own[:, -1])
    own = np.where(finite[:, None], own, 0.0)
    cumulative = np.cumsum(shares, axis=1)
    low = np.maximum(np.ravel(wait.quantile_s(level)), _own_quantile(own, cumulative, levels))
    high = far + _own_quantile(own, cumulative, 1.0 - tail / 2.0)
    low, high = np.where(finite, low, 0.0), np.where(finite, high, 0.0)
    table = _TailTable(wait, finite, 1.0 - (1.0 - level) / 100.0)
    low, high = _between_atoms(table, own, shares, tail, low, high)
    total = _solve(table, own, shares, tail, low, high)
    return np.where(finite, total, np.inf).reshape((*points, *level.shape))


class _TailTable:
    """log P(W > t) of every point and level on t = reach (i/n)^2, read back linearly, and on along the last slope."""

    def __init__(self, wait: WaitLike, finite: NDArray[np.bool_], far_level: Floats) -> None:
        reach = np.ravel(wait.quantile_s(far_level))
        self.reach = np.where(finite, np.maximum(reach, 1e-12), 1.0)[:, None]
        steps = np.linspace(0.0, 1.0, _TABLE) ** 2
        times = (self.reach * steps).reshape((*np.shape(wait.mean_s), far_level.size * _TABLE))
        self.logs = np.log(np.maximum(wait.survival(times).reshape(-1, _TABLE), 1e-200))

    def __call__(self, rows: NDArray[np.intp], t_s: Floats) -> tuple[Floats, Floats]:
        """P(W > t) and its slope for some rows, with `t_s` of shape (rows, atoms)."""
        reach = self.reach[rows]
        scaled = np.sqrt(np.clip(t_s / reach, 0.0, 1.0)) * (_TABLE - 1)
        index = np.minimum(scaled.astype(np.intp), _TABLE - 2)
        left, right = self.logs[rows[:, None], index], self.logs[rows[:, None], index + 1]
        width = reach * (2.0 * index + 1.0) / (_TABLE - 1) ** 2
        start = reach * (index / (_TABLE - 1.0)) ** 2
        slope = (right - left) / width
        tail = np.exp(left + slope * np.maximum(t_s - start, 0.0))
        return np.where(t_s < 0.0, 1.0, tail), np.where(t_s < 0.0, 0.0, tail * slope)


def _between_atoms(
    table: _TailTable, own: Floats, shares: Floats, tail: Floats, low: Floats, high: Floats
) -> tuple[Floats, Floats]:
    """A bracket without atoms of S inside, where the tail would jump; bisection over the atoms, which ascend."""
    low, high = low.copy(), high.copy()
    first, last = np.sum(own <= low[:, None], axis=1), np.sum(own < high[:, None], axis=1)
    rows = np.flatnonzero(last > first)
    while rows.size:
        middle = (first[rows] + last[rows]) // 2
        t = own[rows, middle]
        beyond = np.sum(table(rows, t[:, None] - own[rows])[0] * shares[rows], axis=1) <= tail[rows]
        low[rows], high[rows] = np.where(beyond, low[rows], t), np.where(beyond, t, high[rows])
        first[rows], last[rows] = np.where(beyond, first[rows], middle + 1), np.where(beyond, middle, last[rows])
        rows = rows[last[rows] > first[rows]]
    return low, high


def _solve(table: _TailTable, own: Floats, shares: Floats, tail: Floats, low: Floats, high: Floats) -> Floats:
    """Newton on the log of the tail, kept inside the bracket; bisection where its steps do not halve."""
    t, low, high = high.copy(), low.copy(), high.copy()
    rows = np.flatnonzero(high > 0.0)
    # just before its upper end, where an atom there still waits: passed only by a jump at the end itself
    ahead = np.where(own[rows] >= high[rows, None], 1.0, table(rows, high[rows, None] - own[rows])[0])
    rows = rows[np.sum(ahead * shares[rows], axis=1) <= tail[rows]]
    t[rows], moved = low[rows], 2.0 * (high - low)
    for _ in range(_ROUNDS):
        if rows.size == 0:
            break
        tails, slopes = table(rows, t[rows, None] - own[rows])
        total, slope = np.sum(tails * shares[rows], axis=1), np.sum(slopes * shares[rows], axis=1)
        asked = tail[rows]
        beyond = total <= asked
        low[rows], high[rows] = np.where(beyond, low[rows], t[rows]), np.where(beyond, t[rows], high[rows])
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            step = t[rows] - np.log(total / asked) * total / slope
        below, above = low[rows], high[rows]
        moving = (np.abs(total / asked - 1.0) >= 1e-10) & (above - below > 1e-9 * above)
        inside = (step > below) & (step < above) & (np.abs(step - t[rows]) < moved[rows] / 2.0)
        target = np.where(inside, step, (below + above) / 2.0)
        moved[rows] = np.abs(target - t[rows])
        t[rows] = np.where(moving, target, t[rows])
        rows = rows[moving]
    return t


def _own(own_s: ArrayLike, weights: ArrayLike) -> tuple[Floats, Floats]:
    own, share = np.asarray(own_s, dtype=float), np.asarray(weights, dtype=float)
    if share.ndim != 1 or own.shape[-1:] != share.shape:
        raise ValueError(f"own_s must end in the axis of weights, got {own.shape} and {share.shape}")
    if not np.all(own >= 0.0):
        raise ValueError(f"own_s must be >= 0, got a minimum of {np.min(own)}")
    if np.any(share < 0.0) or not np.sum(share) > 0.0:
        raise ValueError("weights must be >= 0 and not all 0")
    return own, share / np.sum(share)


def _own_quantile(ordered: Floats, cumulative: Floats, q: Floats) -> Floats:
    index = np.minimum(np.sum(cumulative < q[:, None] - 1e-12, axis=1), ordered.shape[1] - 1)
    return np.asarray(ordered[np.arange(ordered.shape[0]), index])
