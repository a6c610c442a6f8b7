"""Wait for a rank of workers that step together, behind a router that sees every rank."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from planner.queueing.lockstep import Lockstep
from planner.queueing.service import Floats
from planner.queueing.tabled import Tabled
from planner.queueing.waiting import checked_level, checked_points

_ATOMS = (np.arange(6) + 0.5) / 6.0  # levels of the step in progress, in front of whole prompts
_BINS = 16  # of states with prompts in front
_COARSE = 64  # times of the table beyond a step
_DEEP = 1e-9
_PHASED = 0.7  # of the whole effect of workers in turn; fitted to the runs of docs/queueing.md
_HEAVY_POWER = 8  # of the load: from Poisson-like counts to those of heavy traffic; fitted likewise
_MOST_SPREAD, _MOST_LOAD = 2.5, 0.9
_BAND, _BAND_STEPS = 0.30, 0.3
_MEAN_ERROR = 0.35


@dataclass(frozen=True, slots=True, eq=False)
class LockstepWait(Tabled):
    """Wait for the first chunk; arrays have the shape of `workers`.

    `load` is of the ranks of a worker that is busy on all; the wait is inf from 1 on. `servers` counts ranks.
    `residual_s` is the part of `mean_s` that is the step in progress. `own_s`, (points, atoms), is the prefill of each
    prompt beside the others it meets. `step_s` is a step with all ranks busy, `spread` the SCV of `Lockstep.spread`.
    """

    servers: Floats
    load: Floats
    probability: Floats
    mean_s: Floats
    residual_s: Floats
    own_s: Floats
    times_s: Floats
    tails: Floats
    step_s: Floats
    spread: Floats

    def band(self, q: float) -> tuple[Floats, Floats]:
        """Lowest and highest true q-quantile in s: wide enough for 19 of 20 checked runs (docs/queueing.md)."""
        estimate, reach = self.quantile_s(q), _BAND_STEPS * self.step_s
        return np.maximum(0.0, estimate * (1.0 - _BAND) - reach), estimate * (1.0 + _BAND) + reach

    @property
    def mean_error(self) -> float:
        """Largest relative error of the mean, by the same runs."""
        return _MEAN_ERROR

    def trust_at(self, q: float) -> tuple[NDArray[np.str_], NDArray[np.str_]]:
        """The mark and its reason for a quantile: the same for all."""
        checked_level(q)
        return self.trust, self.trust_reason

    @property
    def trust(self) -> NDArray[np.str_]:
        """ "ok", "caution" or "no closed form" at every point."""
        marks = [np.array("no closed form"), np.array("caution")]
        doubtful = (self.spread > _MOST_SPREAD) | (self.load > _MOST_LOAD)
        return np.select([self.load >= 1.0, doubtful], marks, default="ok")

    @property
    def trust_reason(self) -> NDArray[np.str_]:
        """Why `trust` is not "ok"; empty where it is."""
        saturated = "saturated: ranks that step together clear less than arrives; more workers, or fewer ranks in each"
        uneven = "a long prompt holds up every rank of its worker for many steps"
        reasons = [np.array(saturated), np.array(uneven), np.array("ranks that step together, over 90 % busy")]
        masks = [self.load >= 1.0, self.spread > _MOST_SPREAD, self.load > _MOST_LOAD]
        return np.select(masks, reasons, default="")

    def at(self, index: Any) -> LockstepWait:
        """The waits at some of the points: `index` goes to every array as in ``array[index]``."""
        return replace(self, **{field.name: getattr(self, field.name)[index] for field in fields(self)})


def lockstep_wait(workers: ArrayLike, arrivals_per_s: float, steps: Lockstep) -> LockstepWait:
    """Poisson prompts to the rank with the fewest, of equals to the worker with the fewest.

    The number of prompts is a birth-death chain over all workers, evenly spread: of n on a worker j step and the others
    wait for its next step. A prompt that finds a worker empty starts at once. Any other waits for the step in
    progress, and behind a prompt on every rank also for whole prompts.

    Parameters
    ----------
    workers : whole numbers >= 1, shape (points,).   arrivals_per_s : to all of them together, > 0.

    Notes
    -----
    With a arrivals per step and worker, those that wait have mean a f and variance a f + a^2 (1/3m - 1/4m^2), f the
    share of a step that they wait, those that step a E[n]; so E[j | n] is linear in n, and a death takes E[n] T(j)/j.
    f is 1/2 for one worker. Of m the one that has just ended a step has the fewest and takes all arrivals until it
    has as many as the others, f = 1 - 1/2m, once steps see more than one arrival. Where all ranks are busy, counts
    spread by (1 + SCV)/2 as in heavy traffic. Derivation; two constants are fitted.

    Raises
    ------
    ValueError
        For workers that are not whole numbers, or a rate that is not positive and finite.
    """
    counts, _, _ = checked_points(workers, arrivals_per_s, 1.0)
    if not arrivals_per_s > 0.0:
        raise ValueError(f"arrivals_per_s must be > 0, got {arrivals_per_s!r}")
    points = [_point(float(count), float(arrivals_per_s), steps) for count in counts.ravel()]
    capacity = counts * steps.ranks / (steps.mean_chunks * steps.full_step_s)
    return LockstepWait(
        servers=counts * steps.ranks,
        load=arrivals_per_s / capacity,
        probability=np.array([point.tails[0] for point in points]),
        mean_s=np.array([point.mean_s for point in points]),
        residual_s=np.array([point.residual_s for point in points]),
        own_s=np.stack([point.own_s for point in points]),
        times_s=np.stack([point.times_s for point in points]),
        tails=np.stack([point.tails for point in points]),
        step_s=np.full(counts.shape, steps.full_step_s),
        spread=np.full(counts.shape, steps.spread),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Point:
    mean_s: float
    residual_s: float
    own_s: Floats
    times_s: Floats
    tails: Floats


def _point(workers: float, rate: float, steps: Lockstep) -> _Point:
    load = rate * steps.mean_chunks * steps.full_step_s / (workers * steps.ranks)
    if load >= 1.0:
        times = np.linspace(0.0, 1.0, steps.residuals[0].size + _COARSE)
        return _Point(np.inf, np.inf, steps.work_s, times, np.ones(times.size))
    counts = _counts(workers, rate, load, steps)
    states = _states(counts, steps)
    mean, square = steps.moments_s
    place = np.interp(states.stepping, steps.busy, np.arange(steps.busy.size)).round().astype(np.intp)
    step = states.share * square[place] / mean[place]
    residual = float(states.chance @ step)
    queued = float(states.chance @ states.steps) * steps.full_step_s
    times, tails = _table(states, place, steps)
    return _Point(residual + queued, residual, _own_s(counts, steps), times, tails)


@dataclass(frozen=True, slots=True, eq=False)
class _Counts:
    """Prompts in all workers: each count with its chance, how many ranks of a worker step (of all, below one each),
    and the share of the step in progress that a new prompt waits."""

    number: Floats
    chance: Floats
    stepping: Floats
    share: Floats
    workers: float


def _counts(workers: float, rate: float, load: float, steps: Lockstep) -> _Counts:
    """The birth-death chain of `lockstep_wait`."""
    ranks, chunks = float(steps.ranks), steps.mean_chunks
    mean_step = steps.moments_s[0]
    needed = rate / workers * chunks * mean_step  # ranks that step, if steps take that long
    stepping = min(float(np.interp(0.0, steps.busy - needed, steps.busy)), ranks)
    stepping = stepping if needed[0] > 1.0 else float(needed[0])
    arrivals = stepping / chunks
    in_turn = _PHASED * max(0.0, 1.0 - 1.0 / max(arrivals, 1e-12))
    share = 0.5 + (0.5 - 0.5 / workers) * in_turn
    waiting = arrivals * share + arrivals**2 * (1.0 / (3.0 * workers) - 0.25 / workers**2)
    slope = stepping / (stepping + waiting)
    mean = stepping + arrivals * share
    heavy = max(1.0, (1.0 + steps.spread) / 2.0)
    number = np.arange(int(workers * (3.0 * ranks + 2.0 * mean + 40.0 * heavy / (1.0 - load))) + 50.0)
    each = number / workers
    per_worker = np.clip(stepping + slope * (each - mean), np.minimum(each, 1.0), np.minimum(each, ranks))
    step_s = steps.step_s(np.maximum(per_worker, 1.0))
    deaths = np.where(number < workers, number / mean_step[0], workers * per_worker / step_s) / chunks
    growth = np.log(rate / deaths[1:])
    evenly = 1.0 + (2.0 / (1.0 + steps.spread) - 1.0) * load**_HEAVY_POWER
    growth = np.where((per_worker[1:] >= ranks - 1e-9) & (number[1:] >= workers), growth * evenly, growth)
    logs = np.append(0.0, np.cumsum(growth))
    chance = np.exp(logs - logs.max())
    late = np.clip(share - slope / (12.0 * workers) * (each - mean), 0.02, 0.98)
    kept = chance > _DEEP * 1e-3
    return _Counts(number[kept], chance[kept] / chance[kept].sum(), per_worker[kept], late[kept], workers)


def _own_s(counts: _Counts, steps: Lockstep) -> Floats:
    """Prefill of each kind, averaged over the steps that prompts meet."""
    busy = np.maximum(counts.stepping, 1.0)
    met = counts.chance * counts.stepping / steps.step_s(busy)
    place = np.interp(busy, steps.busy, np.arange(steps.busy.size))
    low = np.minimum(place.astype(np.intp), max(steps.busy.size - 2, 0))
    part = place - low
    weights = np.bincount(low, met * (1.0 - part), steps.busy.size + 1)[: steps.busy.size]
    weights[1:] += np.bincount(low, met * part, steps.busy.size + 1)[: steps.busy.size - 1]
    return np.asarray(weights @ steps.own_at_busy_s / weights.sum())


@dataclass(frozen=True, slots=True, eq=False)
class _States:
    """What prompts meet that wait: with `chance`, a step by so many ranks, of which they wait a share, and then further
    `steps`, of which the variance is given."""

    chance: Floats
    stepping: Floats
    share: Floats
    steps: Floats
    variance: Floats


def _states(counts: _Counts, steps: Lockstep) -> _States:
    """A rank with k prompts: the first one steps with the chance that a rank does, else all k are still to come."""
    waits = counts.number >= counts.workers
    chance, stepping, share = counts.chance[waits], np.maximum(counts.stepping[waits], 1.0), counts.share[waits]
    before = np.floor(counts.number[waits] / (counts.workers * steps.ranks))
    begun = np.where(before > 0.0, np.clip(stepping / steps.ranks, 0.0, 1.0), 1.0)
    n1, n2, n3 = (float(steps.weights @ steps.chunks**power) for power in (1, 2, 3))
    left, left_square = (n2 / n1 - 1.0) / 2.0, (2.0 * n3 - 3.0 * n2 + n1) / (6.0 * n1)
    some, more = before > 0.0, np.maximum(before - 1.0, 0.0)
    first = np.where(some, left + more * n1, 0.0)
    first_variance = np.where(some, left_square - left**2 + more * (n2 - n1**2), 0.0)
    return _States(
        np.concatenate([chance * begun, chance * (1.0 - begun)]),
        np.tile(stepping, 2),
        np.tile(share, 2),
        np.concatenate([first, before * n1]),
        np.concatenate([first_variance, before * (n2 - n1**2)]),
    )


def _table(states: _States, place: NDArray[np.intp], steps: Lockstep) -> tuple[Floats, Floats]:
    """Times, and P(W > time)."""
    grid, left, whole = steps.residuals
    behind = states.steps * steps.full_step_s > 1e-12
    mean, square = (float(moment[-1]) for moment in steps.moments_s)
    queue_s = states.steps * mean
    variance = states.steps * (square - mean**2) + states.variance * mean**2
    known = states.chance > _DEEP
    top = float(grid[-1]) + float(np.max((queue_s + 8.0 * np.sqrt(variance))[known], initial=0.0))
    times = np.append(grid, np.linspace(float(grid[-1]), max(top, 1.001 * float(grid[-1])), _COARSE + 1)[1:])
    part, all_of = _portions(states.share)
    chance = np.where(behind, 0.0, states.chance)
    tails = np.zeros(times.size)
    by_place = np.bincount(place, chance * part, left.shape[0]), np.bincount(place, chance * all_of, left.shape[0])
    tails[: grid.size] = by_place[0] @ left + by_place[1] @ whole
    order = np.flatnonzero(behind & (states.chance > 0.0))
    order = order[np.argsort(queue_s[order])]
    for group in np.array_split(order, _BINS):
        if group.size:
            tails += _queued(states, group, place, steps, times, queue_s, variance)
    return times, np.minimum(np.maximum.accumulate(tails[::-1])[::-1], 1.0)


def _queued(
    states: _States,
    group: NDArray[np.intp],
    place: NDArray[np.intp],
    steps: Lockstep,
    times: Floats,
    queue_s: Floats,
    variance: Floats,
) -> Floats:
    """P(W > time, in this group of states): a step in progress, as a few atoms, and prompts as a gamma law."""
    grid, left, whole = steps.residuals
    weights = states.chance[group]
    total = float(weights.sum())
    mean = float(weights @ queue_s[group]) / total
    spread = float(weights @ (variance[group] + queue_s[group] ** 2)) / total - mean**2
    part, all_of = (float(weights @ portion[group]) / total for portion in _portions(states.share))
    row = round(float(weights @ place[group]) / total)
    atoms = np.interp(_ATOMS - 1.0, -(part * left[row] + all_of * whole[row]), grid)
    later = np.maximum(times - atoms[:, None], 0.0)
    tails = np.where(times < atoms[:, None], 1.0, gamma_tail(mean, spread, later))
    return np.asarray(total * tails.mean(axis=0))


def _portions(share: Floats) -> tuple[Floats, Floats]:
    """A wait of a given share of the step in progress: with what chance it is a residual, and with what all of it.

    Below one half the rest come when the step ends. Means are right, and no wait passes its step.
    """
    return np.minimum(2.0 * share, 2.0 - 2.0 * share), np.maximum(2.0 * share - 1.0, 0.0)


def gamma_tail(mean: float, variance: float, values: Floats) -> Floats:
    """P(X > value) of a gamma law, by the cube-root normal form (Wilson and Hilferty 1931)."""
    from scipy.special import ndtr

    shape = mean**2 / max(variance, 1e-6 * mean**2)
    normal = (np.cbrt(values / mean) - 1.0 + 1.0 / (9.0 * shape)) * 3.0 * np.sqrt(shape)
    return np.asarray(ndtr(-normal))
