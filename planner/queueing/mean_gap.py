"""TPOT of one request when prefill shares its engine: the mean of its gaps, prefills included."""

from __future__ import annotations

from dataclasses import dataclass
from math import log

import numpy as np
from numpy.typing import ArrayLike

from planner.queueing.roots import falling_root
from planner.queueing.service import Floats
from planner.queueing.waiting import checked_level

_MOST_LOAD = 0.95


def mean_gap_quantile_s(
    q: float,
    gaps: ArrayLike,
    weights: ArrayLike,
    decode_step_s: float,
    mean_gap_s: float,
    prefill_moments: tuple[float, float],
    load: float,
    longest_gap_s: float = np.inf,
) -> float:
    """q-quantile over requests of (sum of gaps) / gaps [s].

    A request finds behind itself the prompts that came while it waited and was read; they go first and lengthen its
    first gaps. Later it meets a Poisson number of prefill periods, their rate set so that the mean gap comes out.
    Either is a busy period of prefills. Their sum is zero with the chance of meeting none, else a gamma with its mean
    and variance; no gap outlasts `longest_gap_s`.

    Parameters
    ----------
    gaps, weights : atoms of the decode steps of a request.
    decode_step_s, mean_gap_s : a gap without prefill, and the mean over all gaps.
    prefill_moments : first two moments of the time one prompt adds to the steps of others [s, s^2].
    load : share of time that prefill takes, in [0, 1).
    longest_gap_s : a step filled up to the token budget; inf where prompts are read whole.

    Notes
    -----
    Derivation: compound Poisson with busy-period jumps, behind the queue that a departure of M/G/1 leaves. Errors
    against the step simulations of data/queueing/serve_steps.csv are in docs/queueing.md.
    """
    from scipy.special import gammaincc

    level = float(checked_level(q))
    count, share = np.asarray(gaps, dtype=float), np.asarray(weights, dtype=float)
    kept = count > 0.0
    count, share = count[kept], share[kept] / max(share[kept].sum(), 1e-300)
    extra_s = mean_gap_s - decode_step_s
    if count.size == 0 or extra_s <= 0.0 or not np.isfinite(mean_gap_s):
        return float(mean_gap_s)
    if longest_gap_s <= decode_step_s:  # prompts are met so rarely that no step seen here carries one
        return decode_step_s
    extra = _extra(count, share, extra_s, decode_step_s, prefill_moments, load, longest_gap_s)

    shape, per_s = extra.mean**2 / extra.variance, count * extra.mean / extra.variance

    def excess(gap_s: float) -> float:
        """log of the share of requests with a longer mean gap, over the share asked for."""
        tail = float(share @ (extra.chance * gammaincc(shape, (gap_s - decode_step_s) * per_s)))
        return log(max(tail, 1e-300) / (1.0 - level))

    low, high = decode_step_s, decode_step_s + extra_s
    if excess(low) <= 0.0:
        return decode_step_s
    while high < longest_gap_s and excess(high) > 0.0:
        low, high = high, decode_step_s + 2.0 * (high - decode_step_s)
    if high >= longest_gap_s and excess(longest_gap_s) > 0.0:
        return longest_gap_s
    return falling_root(excess, low, min(high, longest_gap_s))


def averaged_gap_quantile_s(
    q: float,
    gaps: ArrayLike,
    weights: ArrayLike,
    mean_gap_s: float,
    variance: tuple[float, float],
    longest_gap_s: float,
) -> float:
    """q-quantile over requests of (sum of gaps) / gaps [s], of a chain of steps that forgets itself.

    Parameters
    ----------
    gaps, weights : atoms of the decode steps of a request.
    variance : of one gap, and of the mean of n gaps times n for many n [s^2].

    Notes
    -----
    The mean of n gaps is a gamma law whose variance is the second over n, at most the first (central limit theorem of
    Markov chains).
    """
    from scipy.special import gammaincc

    level = float(checked_level(q))
    count, share = np.asarray(gaps, dtype=float), np.asarray(weights, dtype=float)
    kept = count > 0.0
    count, share = count[kept], share[kept] / max(share[kept].sum(), 1e-300)
    if count.size == 0 or not np.isfinite(mean_gap_s):
        return float(mean_gap_s)
    spread = np.maximum(np.minimum(variance[0], variance[1] / count), 1e-9 * mean_gap_s**2)

    def above(gap_s: float) -> float:
        return float(share @ gammaincc(mean_gap_s**2 / spread, gap_s * mean_gap_s / spread))

    if above(longest_gap_s) >= 1.0 - level:
        return longest_gap_s
    return falling_root(lambda gap_s: above(gap_s) - (1.0 - level), 1e-9 * mean_gap_s, longest_gap_s)


@dataclass(frozen=True, slots=True)
class _Extra:
    """Time that prefill adds to all gaps of requests with so many: positive with `chance`, and its law given that."""

    chance: Floats
    mean: Floats
    variance: Floats


def _extra(
    count: Floats,
    share: Floats,
    extra_s: float,
    decode_step_s: float,
    prefill: tuple[float, float],
    load: float,
    longest_gap_s: float,
) -> _Extra:
    added_1, added_2 = prefill
    # share of a full step that its prompts make: a chunk of work takes 1/portion as long as it adds to a step
    portion = 1.0 if not np.isfinite(longest_gap_s) else max(0.05, 1.0 - decode_step_s / longest_gap_s)
    busy = min(load / portion, _MOST_LOAD)
    rate = load / added_1
    idle = 1.0 - busy
    first, second = added_1 / idle, added_2 / idle**3
    left_mean, left_variance, left_chance = _left_behind(added_1, added_2, rate, portion, busy)
    if np.isfinite(longest_gap_s):
        # what is behind starts in the room that the request's own last chunk leaves: E[(W - U)+], U uniform on a chunk
        chunk_s = longest_gap_s - decode_step_s
        usual = left_mean / max(left_chance, 1e-9)
        after = usual / chunk_s * -np.expm1(-chunk_s / usual)
        left_mean, left_variance, left_chance = after * left_mean, after * left_variance, after * left_chance
    # what a request with many gaps meets on average is given; the queue behind it is part of that
    left_mean = min(left_mean, 0.9 * extra_s * float(share @ count))
    rest_s = extra_s - left_mean / float(share @ count)
    met = rest_s / first * count
    # a request cannot be delayed more than its gaps allow
    none = (1.0 - left_chance) * np.exp(-met)
    chance = np.maximum(1.0 - none, 1e-300)
    total = left_mean + met * first
    square = left_variance + met * second + total**2
    mean = total / chance
    return _Extra(chance, mean, np.maximum(square / chance - mean**2, 1e-12 * mean**2))


def _left_behind(m1: float, m2: float, rate: float, portion: float, busy: float) -> tuple[float, float, float]:
    """Mean and variance of the prefill time that a request finds behind itself, and the chance that there is any.

    Prompts arrive during its time in M/G/1 (the third moment is that of a gamma law) and start a busy period each.
    """
    s1, s2 = m1 / portion, m2 / portion**2
    scv = max(s2 / s1**2 - 1.0, 1e-9)
    s3 = s1**3 * (1.0 + scv) * (1.0 + 2.0 * scv)
    arrivals = busy / s1
    wait = arrivals * s2 / (2.0 * (1.0 - busy))
    stay = s1 + wait
    stay_variance = s1**2 * scv + arrivals * s3 / (3.0 * (1.0 - busy)) + wait**2
    work = rate * stay * m1
    work_variance = rate * stay * m2 + (rate * m1) ** 2 * stay_variance
    idle = 1.0 - busy
    variance = work_variance / idle**2 + work * rate * m2 / idle**3
    shape = stay**2 / stay_variance
    return work / idle, variance, 1.0 - (1.0 + rate * stay / shape) ** -shape
