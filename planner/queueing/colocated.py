"""Prefill and decode on the same engine, open arrivals (QUEUEING §4.2 and §4.3)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from planner.queueing.gaps import BatchSpread, ChunkedGaps, StalledGaps
from planner.queueing.service import Floats, ServiceLaw
from planner.queueing.total import total_mean_s, total_quantile_s
from planner.queueing.waiting import Jobs, Wait, checked_points, jobs_of, wait_of

_BISECTIONS = 36
_SHARES = np.linspace(0.0, 1.0, 9)  # fixed part of a prefill for which residual minima are tabulated


@dataclass(frozen=True, slots=True, eq=False)
class Colocated:
    """One engine kind under load; arrays have the points' shape, and everything is inf where not `stable`.

    Attributes
    ----------
    load : share of the time that the slower of prefill and decode needs.   mean_batch : decoding requests, per replica.
    mixed_share : share of tokens that share their step with a prefill (chunked), or that are followed by a prefill
        (whole prompts).
    wait : for the first chunk to start.   residual_s : of the step in progress, mean.
    own_s : (points, atoms) the prefill of each prompt itself.   own_weights : (atoms,).
    itl_trust, itl_trust_reason : "caution" where a quantile of the gaps sits on an edge (P50 or P99).
    """

    stable: NDArray[np.bool_]
    load: Floats
    mean_batch: Floats
    mean_itl_s: Floats
    mixed_share: Floats
    wait: Wait
    residual_s: Floats
    own_s: Floats
    own_weights: Floats
    itl_trust: NDArray[np.str_]
    itl_trust_reason: NDArray[np.str_]
    gaps: ChunkedGaps | StalledGaps

    def itl_quantile_s(self, q: float) -> Floats:
        """q-quantile of the gaps over tokens."""
        return np.where(self.stable, self.gaps.quantile_s(q), np.inf)

    @property
    def ttft_mean_s(self) -> Floats:
        """Mean time from arrival to the end of the prompt's own prefill."""
        return np.where(self.stable, total_mean_s(self.wait, self._own(), self.own_weights), np.inf)

    def ttft_quantile_s(self, q: float) -> Floats:
        """q-quantile of the same, averaged over prompts: P(W > t - R - own) (QUEUEING §4.2)."""
        total = total_quantile_s(self.wait, self._own(), self.own_weights, q)
        return np.where(self.stable, total, np.inf)

    def _own(self) -> Floats:
        return np.where(self.stable[..., None], self.own_s + self.residual_s[..., None], 1.0)


@dataclass(frozen=True, slots=True, eq=False)
class _ChunkedPoint:
    """The engine at one trial batch (QUEUEING §4.2): rates per second and step times."""

    prefill_share: Floats  # f
    mixed_per_s: Floats  # r
    last_per_s: Floats  # of these, steps with a prompt's last, partial chunk
    decode_per_s: Floats  # rd
    decode_step_s: Floats  # td
    full_step_s: Floats  # tf
    room_tokens: Floats  # C'


def _chunked_at(
    batch: Floats, rate: Floats, lengths: ServiceLaw, a: Floats, c: Floats, e: Floats, budget: Floats
) -> _ChunkedPoint:
    room = np.maximum(budget - batch, 1e-9)
    td = a + c * batch
    u = rate * lengths.mean_s
    chunks = np.ceil(lengths.values_s / room[..., None]) @ lengths.weights
    spare = np.maximum(0.0, chunks - lengths.mean_s / room)  # chunks more than if prompts packed
    alone = -np.expm1(-rate * td) / td  # per second of decode time: steps that start prefill from idle
    packed = u / room
    busy = packed + rate * spare
    idle = (packed + alone * spare * (1.0 - e * u)) / (1.0 + alone * spare * td)
    mixed = np.minimum(busy, idle)
    share = mixed * td + e * u
    return _ChunkedPoint(
        prefill_share=share,
        mixed_per_s=mixed,
        last_per_s=np.where(spare > 0.0, (mixed - packed) / np.maximum(spare, 1e-300), 0.0),
        decode_per_s=np.maximum(0.0, 1.0 - share) / td,
        decode_step_s=td,
        full_step_s=td + e * room,
        room_tokens=room,
    )


def chunked(
    arrivals_per_s: ArrayLike,
    input_tokens: ArrayLike,
    input_weights: ArrayLike,
    mean_output_tokens: ArrayLike,
    step_base_s: ArrayLike,
    step_sequence_s: ArrayLike,
    prefill_token_s: ArrayLike,
    token_budget: ArrayLike,
    replicas: ArrayLike = 1,
) -> Colocated:
    """Chunked prefill: every step decodes first and fills the rest of its token budget with prompts (QUEUEING §4.2).

    A step with b decoding requests and q prompt tokens lasts `step_base_s` + `step_sequence_s` b +
    `prefill_token_s` q. Prompts wait as an M/G/k queue of chunk work behind a least-requests router.

    Parameters
    ----------
    arrivals_per_s : to all replicas together, >= 0.   mean_output_tokens : >= 1.   token_budget : tokens per step.
    input_tokens, input_weights : one law of prompt lengths, shape (atoms,), tokens > 0.
    The others broadcast to the points' shape.

    Raises
    ------
    ValueError
        For negative or NaN arguments, or replicas that are not whole numbers.
    """
    lengths = ServiceLaw(np.asarray(input_tokens, dtype=float), np.asarray(input_weights, dtype=float))
    rates, outputs, a, c, e, budget, counts = _points(
        arrivals_per_s, mean_output_tokens, step_base_s, step_sequence_s, prefill_token_s, token_budget, replicas
    )
    rate = rates / counts

    def at(batch: Floats) -> _ChunkedPoint:
        return _chunked_at(batch, rate, lengths, a, c, e, budget)

    def next_batch(point: _ChunkedPoint) -> Floats:
        return rate * (outputs - 1.0) / (point.mixed_per_s + point.decode_per_s)

    low, high = np.zeros(rate.shape), budget.copy()
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2.0
        point = at(middle)
        short = (next_batch(point) > middle) & (point.prefill_share < 1.0)
        low, high = np.where(short, middle, low), np.where(short, high, middle)
    batch = low
    point = at(batch)
    steps = point.mixed_per_s + point.decode_per_s
    load = rate * lengths.mean_s * point.full_step_s / point.room_tokens
    settled = next_batch(point) - batch <= 1e-3 * (1.0 + batch)
    stable = settled & (point.prefill_share < 1.0) & (load < 1.0) & (budget - batch > 1e-3)
    scale = np.where(stable, point.full_step_s / point.room_tokens, 1.0)
    mixed = point.mixed_per_s / steps
    reach = 1e-3 * (1.0 + batch)
    growth = (next_batch(at(batch + reach)) - next_batch(point)) / reach
    chunk = rate * lengths.mean_s / np.maximum(point.mixed_per_s, 1e-300)
    mixed_step = point.decode_step_s + e * chunk
    residual = (point.decode_per_s * point.decode_step_s**2 + point.mixed_per_s * mixed_step**2) / 2.0
    chunks = np.ceil(lengths.values_s / point.room_tokens[..., None])
    trust, reason = _edge(mixed, ((0.4, 0.6, "P50"), (0.005, 0.02, "P99")))
    return Colocated(
        stable=stable,
        load=np.where(stable, load, np.maximum(load, 1.0)),
        mean_batch=np.where(stable, batch, np.inf),
        mean_itl_s=np.where(stable, 1.0 / steps, np.inf),
        mixed_share=mixed,
        wait=wait_of(counts, rates, jobs_of(lengths, counts, scale), shortest=True),
        residual_s=residual,
        own_s=point.decode_step_s[..., None] * chunks + e[..., None] * lengths.values_s,
        own_weights=lengths.weights,
        itl_trust=trust,
        itl_trust_reason=reason,
        gaps=_chunked_gaps(point, lengths, c, e, BatchSpread(batch, batch / np.clip(1.0 - growth, 0.05, 1.0))),
    )


def _chunked_gaps(point: _ChunkedPoint, lengths: ServiceLaw, c: Floats, e: Floats, batch: BatchSpread) -> ChunkedGaps:
    steps = point.mixed_per_s + point.decode_per_s
    room = point.room_tokens[..., None]
    last = lengths.values_s - room * (np.ceil(lengths.values_s / room) - 1.0)
    order = np.argsort(last, axis=-1)
    return ChunkedGaps(
        decode_share=point.decode_per_s / steps,
        full_share=np.maximum(0.0, point.mixed_per_s - point.last_per_s) / steps,
        decode_s=point.decode_step_s,
        full_s=point.full_step_s,
        decode_slope_s=c,
        full_slope_s=c - e,
        partial_s=point.decode_step_s[..., None] + e[..., None] * np.take_along_axis(last, order, axis=-1),
        partial_weights=lengths.weights[order],
        batch=batch,
    )


def whole_prompt(
    arrivals_per_s: ArrayLike,
    input_tokens: ArrayLike,
    input_weights: ArrayLike,
    mean_output_tokens: ArrayLike,
    step_base_s: ArrayLike,
    step_sequence_s: ArrayLike,
    prefill_token_s: ArrayLike,
    replicas: ArrayLike = 1,
) -> Colocated:
    """Prompts go first, each whole, in a step of its own while decoding stands still (QUEUEING §4.3).

    A prefill lasts `step_base_s` + `prefill_token_s` tokens, a decode step `step_base_s` + `step_sequence_s` b.
    Arguments, shapes and errors as `chunked`.
    """
    lengths = ServiceLaw(np.asarray(input_tokens, dtype=float), np.asarray(input_weights, dtype=float))
    rates, outputs, a, c, e, counts = _points(
        arrivals_per_s, mean_output_tokens, step_base_s, step_sequence_s, prefill_token_s, replicas
    )
    rate = rates / counts
    jobs = _affine_jobs(lengths, counts, a, e)
    m1, m2 = jobs.moments[0], jobs.moments[1]
    prefill = rate * m1
    token_rate = rate * (outputs - 1.0)
    free = 1.0 - prefill - token_rate * c  # of the time, once prefill and the decode of each token are done
    stable = free > 0.0
    left, rest = np.where(stable, free, 1.0), np.where(stable, 1.0 - prefill, 1.0)
    batch = token_rate * a / left
    td = a + c * batch
    stall = -np.expm1(-rate * td)
    mean = rate * td * m1 / rest
    variance = rate * td * m2 / rest**2 + rate * td * m1 * rate * m2 / rest**3
    safe = np.maximum(stall, 1e-300)
    trust, reason = _edge(stall, ((0.005, 0.02, "P99"),))
    spread = BatchSpread(batch, batch / np.clip(1.0 - token_rate * c / rest, 0.05, 1.0))
    gaps = StalledGaps(stall, td, c, np.maximum(mean / safe, m1), (variance + mean**2) / safe, spread)
    return Colocated(
        stable=stable,
        load=prefill + token_rate * c,
        mean_batch=np.where(stable, batch, np.inf),
        mean_itl_s=np.where(stable, td / rest, np.inf),
        mixed_share=stall,
        wait=wait_of(counts, rates, jobs, shortest=True),
        residual_s=td / 2.0,
        own_s=a[..., None] + e[..., None] * lengths.values_s,
        own_weights=lengths.weights,
        itl_trust=trust,
        itl_trust_reason=reason,
        gaps=gaps,
    )


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
        relative = lengths.values_s / i1
        table = np.stack(
            [
                ServiceLaw(share + (1.0 - share) * relative, lengths.weights).residual_minimum_moments(distinct)
                for share in _SHARES
            ]
        )
        at = a / m1 * (_SHARES.size - 1)
        left = np.minimum(at.astype(np.intp), _SHARES.size - 2)
        part, column = at - left, place.reshape(counts.shape)
        low, high = table[left, :, column], table[left + 1, :, column]
        scaled = low + (high - low) * part[..., None]
        minima = (scaled[..., 0] * m1, scaled[..., 1] * m1**2, scaled[..., 2] * m1**3)
    return Jobs((m1, m2, m3, m4), minima, lengths.heavy_share, lengths.long_job_work)


def _edge(share: Floats, edges: tuple[tuple[float, float, str], ...]) -> tuple[NDArray[np.str_], NDArray[np.str_]]:
    masks = [(share >= low) & (share <= high) for low, high, _ in edges]
    texts = [np.array(f"{name} of the gaps sits between steps with and without prefill") for _, _, name in edges]
    return np.where(np.any(masks, axis=0), "caution", "ok"), np.select(masks, texts, default="")


def _points(*arguments: ArrayLike) -> tuple[Floats, ...]:
    """All of one shape, the last being replicas and the first the rate."""
    points = np.broadcast_arrays(*(np.asarray(argument, dtype=float) for argument in arguments))
    checked_points(points[-1], points[0], 1.0)
    for argument, value in zip(arguments[1:-1], points[1:-1], strict=True):
        if not np.all((value >= 0.0) & np.isfinite(value)):
            raise ValueError(f"outputs, step times and budget must be finite and >= 0, got {argument!r}")
    if np.any(points[1] < 1.0):
        raise ValueError(f"mean_output_tokens must be >= 1, got {arguments[1]!r}")
    return tuple(points)
