"""Waits under load that moves: a trace's own backlog, corrected for several servers (MODELLING §7.2)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from planner.queueing.routing import join_shortest_queue
from planner.queueing.service import Floats, ServiceLaw
from planner.queueing.tabled import Tabled
from planner.queueing.trust import IN_FLIGHT, SHORTEST
from planner.queueing.waiting import Wait, checked_level, checked_points

_WINDOW_ARRIVALS = 300  # over so many arrivals the load at a moment is measured for up to `_FEW` servers
_FEW = 4
_STATIONARY_LOADS = 0.98 * np.linspace(0.0, 1.0, 65)[1:] ** 0.7
_LOADS = np.append(_STATIONARY_LOADS, 1.0)  # at 1 no server ever rests: the backlog is the wait
_SAMPLES = 40_000  # at most so many arrivals are asked for their wait; the backlog counts all
_CELLS = 800  # of the tabulated law, spread evenly over the log of the wait
_DECADES = 5.0
_NEVER = 1e-250
_RESIDUAL_ATOMS = 8
_RESIDUAL_SHARE = 1.0 / 3.0  # of those that wait behind the shortest queue, as far as the backlog does not say it
_NOISE = 0.95  # the load of the moment is measured with noise, on which the chance to wait bends upward
_EXACT, _BAND, _CROWD_BAND = 1.02, 1.28, 1.5  # factors on a quantile: one server, several, many seldom all busy
_EITHER = 0.65  # of those that wait behind the shortest of many queues so many meet more than a residual; all, of two

WaitAt = Callable[[Floats, Floats, ServiceLaw], Wait]


@dataclass(frozen=True, slots=True, eq=False)
class MovingWait(Tabled):
    """Wait of the requests of a trace, each weighing the same; arrays have the shape of `servers`.

    `load` is the work of the whole trace over what the servers can do in its duration; the wait is inf from 1 on.
    `times_s` and `tails`, of that shape and one more axis, tabulate P(W > t).
    """

    servers: Floats
    load: Floats
    probability: Floats
    mean_s: Floats
    times_s: Floats
    tails: Floats

    def band(self, q: float) -> tuple[Floats, Floats]:
        """Lowest and highest true q-quantile in s, by the largest errors seen against simulated traces.

        One server is exact but for the table; several are within 28 %, and within a factor of 1.5 where they are many
        and seldom all busy.
        """
        estimate = self.quantile_s(q)
        reach = np.where(self.servers <= 1, _EXACT, np.where(self._crowd, _CROWD_BAND, _BAND))
        return np.asarray(estimate / reach), np.asarray(estimate * reach)

    def trust_at(self, q: float) -> tuple[NDArray[np.str_], NDArray[np.str_]]:
        """The mark and its reason for a quantile: the same for all."""
        checked_level(q)
        return self.trust, self.trust_reason

    @property
    def _crowd(self) -> NDArray[np.bool_]:
        return np.asarray((self.servers >= 8) & (self.load < 0.75))

    @property
    def trust(self) -> NDArray[np.str_]:
        """ "ok", "caution" or "no closed form" at every point."""
        marks = [np.array("no closed form"), np.array("caution")]
        return np.select([self.load >= 1.0, self._crowd], marks, default="ok")

    @property
    def trust_reason(self) -> NDArray[np.str_]:
        """Why `trust` is not "ok"; empty where it is."""
        saturated = "saturated: more work arrives over the whole trace than the servers can do"
        many = "many servers that seldom are all busy: the short waits are right to a factor of 1.5"
        return np.select([self.load >= 1.0, self._crowd], [np.array(saturated), np.array(many)], default="")


def backlog_composite(
    arrival_s: ArrayLike,
    service_s: ArrayLike,
    servers: ArrayLike,
    duration_s: float,
    service_law: ServiceLaw,
    wait_at: WaitAt = join_shortest_queue,
    window_s: float | None = None,
) -> MovingWait:
    """Wait of the requests of a trace in front of several servers.

    One server with the speed of all of them would work off the trace with a backlog V that is known exactly
    (Lindley's recursion on work). Several servers differ when they are not all busy, so V becomes the wait of only
    a share of the arrivals, and is stretched, both by what the stationary law at the load of the moment says:
    P(W > 0) / load, and E[W | W > 0] against that of the fast server. For one server the result is exact; for load
    that does not move it is `wait_at`, on average.

    Parameters
    ----------
    arrival_s : shape (n,), ascending, within [0, duration_s].   service_s : shape (n,), > 0.
    servers : any shape, whole numbers >= 1.   duration_s : of the trace, > 0.
    service_law : law of the service time (of `service_s`, or compressed from it).
    wait_at : `central_queue`, `least_work`, `join_shortest_queue`, or `fewest_in_flight` with its others.
    window_s : time over which the load of the moment is measured; by default that of 300 arrivals, and of more with
        more than 4 servers, because the chance that all are busy then bends more sharply with the load.

    Raises
    ------
    ValueError
        Unequal or empty arrays, times out of order or outside the duration, or any domain above.
    """
    arrivals, service = _checked_trace(arrival_s, service_s, duration_s)
    counts, _, _ = checked_points(servers, 0.0, 1.0)
    flat = np.ravel(counts)
    windows = _windows(flat, duration_s / arrivals.size, window_s)
    load = float(np.sum(service)) / (flat * duration_s)
    every = -(-arrivals.size // _SAMPLES)
    work_rates = {window: _work_rate(arrivals, service, window, duration_s, every) for window in set(windows)}
    corrections = _corrections(flat, service_law, wait_at)
    gaps = np.diff(arrivals, prepend=arrivals[0])
    done = np.append(0.0, service[:-1])
    rows = []
    for row, (count, window) in enumerate(zip(flat, windows, strict=True)):
        level = np.cumsum(done / count - gaps)
        backlog = (level - np.minimum.accumulate(level))[::every]
        local = work_rates[window] / count
        waiting = np.where(backlog > 0.0, np.minimum(1.0, np.interp(local, _LOADS, corrections.share[row])), 0.0)
        stretched = backlog * np.interp(local, _LOADS, corrections.stretch[row])
        rows.append(_tabulate(stretched, waiting, corrections.residuals[row], count))
    table = np.array([row[0] for row in rows]), np.array([row[1] for row in rows])
    mean = np.where(load < 1.0, [row[2] for row in rows], np.inf)
    return MovingWait(
        servers=counts,
        load=load.reshape(counts.shape),
        probability=np.where(load < 1.0, table[1][:, 0], 1.0).reshape(counts.shape),
        mean_s=mean.reshape(counts.shape),
        times_s=table[0].reshape((*counts.shape, -1)),
        tails=table[1].reshape((*counts.shape, -1)),
    )


def window_rates(arrival_s: ArrayLike, weight: ArrayLike, window_s: float, duration_s: float) -> Floats:
    """Sum of `weight` per second in equal windows of about `window_s` that fill the duration.

    `arrival_s` and `weight` broadcast; the result has shape (windows,). ValueError for a window or duration <= 0.
    """
    if not (window_s > 0.0 and duration_s > 0.0):
        raise ValueError(f"window_s and duration_s must be > 0, got {window_s} and {duration_s}")
    arrivals, weights = np.broadcast_arrays(np.asarray(arrival_s, dtype=float), np.asarray(weight, dtype=float))
    windows = max(1, round(duration_s / window_s))
    totals, _ = np.histogram(arrivals, bins=windows, range=(0.0, duration_s), weights=weights)
    return np.asarray(totals * windows / duration_s, dtype=float)


def index_of_dispersion(arrival_s: ArrayLike, window_s: float, duration_s: float) -> float:
    """Variance over mean of the arrivals per window: 1 for a Poisson stream, more when load moves (NaN if none)."""
    counts = window_rates(arrival_s, 1.0, window_s, duration_s)
    mean = float(np.mean(counts))
    return float(np.var(counts)) / mean * duration_s / counts.size if mean > 0.0 else float("nan")


def _checked_trace(arrival_s: ArrayLike, service_s: ArrayLike, duration_s: float) -> tuple[Floats, Floats]:
    arrivals, service = np.asarray(arrival_s, dtype=float), np.asarray(service_s, dtype=float)
    if arrivals.ndim != 1 or arrivals.size == 0 or arrivals.shape != service.shape:
        raise ValueError(
            f"arrival_s and service_s must be equally long 1-D arrays, got {arrivals.shape} and {service.shape}"
        )
    if not (
        duration_s > 0.0 and arrivals[0] >= 0.0 and arrivals[-1] <= duration_s and np.all(np.diff(arrivals) >= 0.0)
    ):
        raise ValueError(f"arrival_s must ascend within [0, duration_s], duration_s = {duration_s}")
    if not np.all((service > 0.0) & np.isfinite(service)):
        raise ValueError("service_s must be finite and > 0")
    return arrivals, service


def _windows(servers: Floats, gap_s: float, window_s: float | None) -> list[float]:
    """Window of every server count; defaults are powers of two apart so that counts share them."""
    if window_s is None:
        doublings = np.round(np.log2(np.maximum(1.0, servers / _FEW)) / 2.0)
        return [float(window) for window in _WINDOW_ARRIVALS * 2.0**doublings * gap_s]
    if not (window_s > 0.0 and np.isfinite(window_s)):
        raise ValueError(f"window_s must be finite and > 0, got {window_s}")
    return [float(window_s)] * servers.size


def _work_rate(arrivals: Floats, service: Floats, window_s: float, duration_s: float, every: int) -> Floats:
    """Work per second in the window about each `every`-th arrival, cut at the ends of the trace."""
    total = np.append(0.0, np.cumsum(service))
    asked = arrivals[::every]
    first, last = np.maximum(0.0, asked - window_s / 2.0), np.minimum(duration_s, asked + window_s / 2.0)
    inside = total[np.searchsorted(arrivals, last, side="right")] - total[np.searchsorted(arrivals, first)]
    return np.asarray(inside / (last - first))


@dataclass(frozen=True, slots=True, eq=False)
class _Corrections:
    """From the backlog of one fast server to the wait behind several, per server count.

    `share`, `stretch`, (counts, loads) on `_LOADS`: P(W > 0) / load, and the stretch of the backlog. `residuals`,
    (counts, atoms): what joining the shortest queue adds in a third of the cases, equally likely times.
    """

    share: Floats
    stretch: Floats
    residuals: Floats


def _corrections(servers: Floats, law: ServiceLaw, wait_at: WaitAt) -> _Corrections:
    counts, loads = servers[:, None], _STATIONARY_LOADS
    stationary = wait_at(counts, loads * counts / law.mean_s, law)
    joins = np.logical_and(stationary.policy in (SHORTEST, IN_FLIGHT), servers > 1)[:, None]
    quantiles = (np.arange(_RESIDUAL_ATOMS) + 0.5) / _RESIDUAL_ATOMS
    residuals = np.where(joins, _residual_quantiles(law, quantiles), 0.0)
    extra = np.where(joins, _RESIDUAL_SHARE * law.residual_moment(1), 0.0)
    full = np.ones(counts.shape)
    fast = law.residual_moment(1) / (counts * (1.0 - loads))
    busy = np.maximum(stationary.probability, _NEVER)  # of thousands of servers all are busy next to never
    conditional = np.where(stationary.probability > _NEVER, stationary.mean_s / busy, fast)
    share = np.concatenate([stationary.probability / loads, full], axis=1)
    stretch = np.where(joins, _NOISE, 1.0) * np.maximum(0.0, conditional - extra) / fast
    return _Corrections(share, np.concatenate([stretch, full], axis=1), residuals)


def _residual_quantiles(law: ServiceLaw, levels: Floats) -> Floats:
    times = np.append(0.0, np.geomspace(1e-4 * law.mean_s, 40.0 * float(law.values_s[-1]), 2000))
    tails = law.residual_survival(times)
    return np.asarray(np.interp(levels - 1.0, -tails, times))


def _tabulate(waits: Floats, weights: Floats, residuals: Floats, servers: float) -> tuple[Floats, Floats, float]:
    """Times, P(W > time) and the mean of a law that is `waits[i]` with chance `weights[i]`, 0 otherwise.

    With `residuals`, a third of those that wait meet one of them besides; and since the shortest queue is either there
    or not, the backlog is met by fewer and is longer for them.
    """
    shared = bool(np.any(residuals > 0.0))
    either = _EITHER + (1.0 - _EITHER) * min(1.0, 2.0 / servers) if shared else 1.0
    waits = waits / either
    top = max(float(np.max(waits)), 1e-12) * (1.0 + 1e-9)
    cells = (_CELLS - 1) * (1.0 + np.log10(np.maximum(waits / top, 1e-300)) / _DECADES)
    cell = np.clip(np.ceil(cells), 0, _CELLS - 1).astype(np.intp)  # the last cell ends at the longest wait
    mass = np.bincount(cell, weights, _CELLS) / waits.size
    times = np.append(0.0, top * 10.0 ** (_DECADES * (np.arange(_CELLS) / (_CELLS - 1.0) - 1.0)))
    tails = np.append(np.cumsum(mass[::-1])[::-1], 0.0)
    mean = float(np.dot(waits, weights)) / waits.size
    if not shared:
        return times, tails, mean
    anyone = float(tails[0])
    longest = top + float(residuals[-1])
    grid = np.append(0.0, np.geomspace(longest * 10.0**-_DECADES, longest, _CELLS))
    later = grid[:, None] - residuals
    behind = either * np.interp(grid, times, tails) + (1.0 - either) * np.where(grid > 0.0, 0.0, anyone)
    with_residual = np.where(later < 0.0, anyone, either * np.interp(later, times, tails)).mean(axis=1)
    joined = (1.0 - _RESIDUAL_SHARE) * behind + _RESIDUAL_SHARE * with_residual
    return grid, joined, either * mean + _RESIDUAL_SHARE * anyone * float(np.mean(residuals))
