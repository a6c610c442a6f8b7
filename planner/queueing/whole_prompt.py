"""Whole prompts go first while decoding stands still, open arrivals (QUEUEING §4.3)."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from planner.queueing.gaps import BatchSpread, StalledGaps
from planner.queueing.routing import in_flight_wait
from planner.queueing.service import Floats, ServiceLaw
from planner.queueing.shared_engine import PASSES, Behind, Colocated, behind_of, engine_points, met_fraction, prudent
from planner.queueing.trust import IN_FLIGHT
from planner.queueing.waiting import Jobs, fitted_wait

_SHARES = np.linspace(0.0, 1.0, 9)  # fixed part of a prefill for which residual minima are tabulated


def whole_prompt(
    arrivals_per_s: ArrayLike,
    input_tokens: ArrayLike,
    input_weights: ArrayLike,
    mean_output_tokens: ArrayLike,
    step_base_s: ArrayLike,
    step_sequence_s: ArrayLike,
    prefill_token_s: ArrayLike,
    replicas: ArrayLike = 1,
    counted_others: float = 1.0,
    input_stretch: ArrayLike = 1.0,
) -> Colocated:
    """Prompts go first, each whole, in a step of its own while decoding stands still (QUEUEING §4.3).

    A prefill lasts `step_base_s` + `prefill_token_s` tokens, a decode step `step_base_s` + `step_sequence_s` b.
    Arguments, shapes and errors as `chunked`.
    """
    lengths = ServiceLaw(np.asarray(input_tokens, dtype=float), np.asarray(input_weights, dtype=float))
    rates, outputs, a, c, token_s, stretch, counts = engine_points(
        arrivals_per_s,
        mean_output_tokens,
        step_base_s,
        step_sequence_s,
        prefill_token_s,
        input_stretch,
        replicas,
    )
    rate, e = rates / counts, token_s * stretch
    jobs = _affine_jobs(lengths, counts, a, e)
    prefill = rate * jobs.moments[0]
    steps = outputs - 1.0
    token_rate = rate * steps
    free = 1.0 - prefill - token_rate * c  # of the time, once prefill and the decode of each token are done
    stable = free > 0.0
    left, rest = np.where(stable, free, 1.0), np.where(stable, 1.0 - prefill, 1.0)
    batch = token_rate * a / left
    for _ in range(PASSES):
        wait = fitted_wait(counts, rates, jobs, in_flight_wait(counted_others * batch), IN_FLIGHT)
        behind = behind_of(wait, jobs)
        # before the first decode step of a request that has one, as means over all decode steps
        behind_s = np.where(stable, behind.chance * behind.mean_s, 0.0) / np.maximum(steps, 1.0)
        prompts = rate * (np.where(stable, wait.mean_s, 0.0) + jobs.moments[0])
        met = met_fraction(counts, batch + prompts, counted_others)
        longer = 1.0 + met * prefill / rest  # the decode of each token, by the prompts it meets
        batch = token_rate * (a * longer + met * behind_s) / np.where(stable, 1.0 - token_rate * c * longer, 1.0)
    td = a + c * batch
    spread = BatchSpread(batch, batch / np.clip(1.0 - token_rate * c * longer, 0.05, 1.0))
    gaps = _stalled_gaps(rate, rest, td, c, jobs, spread, behind, steps, prudent(met))
    return Colocated(
        stable=stable,
        load=prefill + token_rate * c,
        mean_batch=np.where(stable, batch, np.inf),
        mean_itl_s=np.where(stable, td * longer + met * behind_s, np.inf),
        mixed_share=gaps.stall_share,
        wait=wait,
        residual_s=td / 2.0,
        own_weights=lengths.weights,
        behind_s=met * behind_s,
        read_own=lambda: a[..., None] + e[..., None] * lengths.values_s,
        read_gaps=lambda: gaps,
    )


def _stalled_gaps(
    rate: Floats,
    rest: Floats,
    decode_s: Floats,
    slope_s: Floats,
    jobs: Jobs,
    spread: BatchSpread,
    behind: Behind,
    steps: Floats,
    met: Floats,
) -> StalledGaps:
    """`rest` is the share of time that prefill leaves. A stall is a delay busy period: m and v of QUEUEING §4.3.

    The first of a request's `steps` gaps also holds the prompts behind it. `met` of all stalls are.
    """
    m1, m2 = jobs.moments[0], jobs.moments[1]
    share = -np.expm1(-rate * decode_s)
    mean = rate * decode_s * m1 / rest
    variance = rate * decode_s * m2 / rest**2 + rate * decode_s * m1 * rate * m2 / rest**3
    first = np.minimum(behind.chance / np.maximum(steps, 1.0), 1.0) * (1.0 - share)
    either = np.maximum(share + first, 1e-300)
    stall_mean = (mean + first * behind.mean_s) / either
    second = (variance + mean**2 + first * 2.0 * behind.mean_s**2) / either
    return StalledGaps(met * (share + first), decode_s, slope_s, np.maximum(stall_mean, m1), second, spread)


def _affine_jobs(lengths: ServiceLaw, counts: Floats, a: Floats, e: Floats) -> Jobs:
    """Moments of a + e I at every point. The least of k residuals is tabulated over the share that a has in the mean,
    because the shape of the law depends on that share and k alone."""
    i1, i2, i3, i4 = (lengths.moment(order) for order in (1, 2, 3, 4))
    m1 = a + e * i1
    m2 = a**2 + 2.0 * a * e * i1 + e**2 * i2
    m3 = a**3 + 3.0 * a**2 * e * i1 + 3.0 * a * e**2 * i2 + e**3 * i3
    m4 = a**4 + 4.0 * a**3 * e * i1 + 6.0 * a**2 * e**2 * i2 + 4.0 * a * e**3 * i3 + e**4 * i4
    if np.all(counts == 1.0):
        minima = (m2 / (2.0 * m1), m3 / (3.0 * m1), m4 / (4.0 * m1))
    else:
        distinct, place = np.unique(counts, return_inverse=True)
        laws = _partly_fixed((lengths.values_s / i1).tobytes(), lengths.weights.tobytes())
        table = np.stack([law.residual_minimum_moments(distinct) for law in laws])
        at = a / m1 * (_SHARES.size - 1)
        left = np.minimum(at.astype(np.intp), _SHARES.size - 2)
        part, column = at - left, place.reshape(counts.shape)
        low, high = table[left, :, column], table[left + 1, :, column]
        scaled = low + (high - low) * part[..., None]
        minima = (scaled[..., 0] * m1, scaled[..., 1] * m1**2, scaled[..., 2] * m1**3)
    return Jobs((m1, m2, m3, m4), minima, lengths.heavy_share, lengths.long_job_work)


@lru_cache(maxsize=16)
def _partly_fixed(relative: bytes, weights: bytes) -> tuple[ServiceLaw, ...]:
    """Laws of mean 1 of which `_SHARES` are fixed, the rest in proportion to lengths: a search asks again and again."""
    lengths, chances = np.frombuffer(relative), np.frombuffer(weights)
    return tuple(ServiceLaw(share + (1.0 - share) * lengths, chances) for share in _SHARES)
