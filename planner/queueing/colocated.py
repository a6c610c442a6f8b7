"""Prompts in chunks beside decoding on the same engine, open arrivals (QUEUEING §4.2)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from planner.queueing.gaps import BatchSpread, ChunkedGaps, packed_steps
from planner.queueing.routing import in_flight_wait
from planner.queueing.service import Floats, ServiceLaw
from planner.queueing.shared_engine import PASSES, Behind, Colocated, behind_of, engine_points, met_fraction, prudent
from planner.queueing.trust import IN_FLIGHT
from planner.queueing.waiting import fitted_wait, jobs_of

_SELDOM_PER_S = 1e-12
_NEARLY_ALL = 0.95  # of prompts fit into one step
_ENDLESS_S = 1e9  # time of one token where the engine never settles: its wait is then inf


@dataclass(frozen=True, slots=True, eq=False)
class _ChunkedPoint:
    """The engine at one batch (QUEUEING §4.2): rates per second and step times."""

    batch: Floats  # b
    prefill_share: Floats  # f
    mixed_per_s: Floats  # r
    last_per_s: Floats  # of these, steps with a prompt's last, partial chunk
    decode_per_s: Floats  # rd
    decode_step_s: Floats  # td
    full_step_s: Floats  # tf
    room_tokens: Floats  # C'

    @property
    def steps_per_s(self) -> Floats:
        return self.mixed_per_s + self.decode_per_s


@dataclass(frozen=True, slots=True, eq=False)
class _ChunkedEngine:
    """One replica: its load and its step law a + c b + e q under a token budget C; arrays of one shape."""

    rate: Floats
    outputs: Floats
    base_s: Floats  # a
    sequence_s: Floats  # c
    token_s: Floats  # e
    budget: Floats  # C
    lengths: ServiceLaw
    stretch: Floats  # on every length
    claims: Floats  # what a token of each prompt takes over a mean one, (points, atoms)
    slowdown: Floats | float = 1.0  # mean gap over what the shares of steps say

    @property
    def mean_tokens(self) -> Floats:
        return self.stretch * self.lengths.mean_s

    @property
    def tokens(self) -> Floats:
        """Prompt lengths, (points, atoms)."""
        return self.stretch[..., None] * self.lengths.values_s

    def at(self, batch: Floats) -> _ChunkedPoint:
        rate, mean = self.rate, self.mean_tokens
        room = np.maximum(self.budget - batch, 1e-9)
        td = self.base_s + self.sequence_s * batch
        tokens = rate * mean
        chunks = np.ceil(self.lengths.values_s * (self.stretch / room)[..., None]) @ self.lengths.weights
        spare = np.maximum(0.0, chunks - mean / room)  # chunks more than if prompts were packed
        alone = -np.expm1(-rate * td) / td  # per second of decode time: steps that start prefill from idle
        packed = tokens / room
        # r = packed + rd (1 - e^(-rate td)) spare with rd = (1 - r td - e u)/td, solved for r; the bound of one
        # partial chunk per prompt never binds, because rd td <= 1
        ends = alone * (1.0 - self.token_s * tokens - packed * td) / (1.0 + alone * spare * td)
        mixed = packed + ends * spare
        share = mixed * td + self.token_s * tokens
        return _ChunkedPoint(
            batch=batch,
            prefill_share=share,
            mixed_per_s=mixed,
            last_per_s=np.where(spare > 0.0, ends, 0.0),
            decode_per_s=np.maximum(0.0, 1.0 - share) / td,
            decode_step_s=td,
            full_step_s=td + self.token_s * room,
            room_tokens=room,
        )

    def next_batch(self, point: _ChunkedPoint) -> Floats:
        """The batch that the steps at `point` would lead to."""
        return self.tokens_per_s / point.steps_per_s

    @property
    def free_share(self) -> Floats:
        """Share of the time that prompt tokens leave: 1 - e u."""
        return np.maximum(0.0, 1.0 - self.token_s * self.rate * self.mean_tokens)

    @property
    def tokens_per_s(self) -> Floats:
        """Tokens to decode, each for as long as its gap outlasts a mean step."""
        return self.rate * (self.outputs - 1.0) * self.slowdown

    def settle(self) -> _ChunkedPoint:
        """The batch that leads to itself, or where prefill leaves no time to decode.

        Each step, with a prefill or without, takes td beside its prompt tokens, and these take e u of the time. So
        (1 - e u)/td steps start per second however prompts fall into them, and with td = a + c b the batch that leads
        to itself solves (1 - e u) b = tokens_per_s (a + c b). Prefill takes all time where packed steps alone do:
        u (a + c b) = (1 - e u)(C - b).
        """
        free, tokens, wanted = self.free_share, self.rate * self.mean_tokens, self.tokens_per_s
        left = free - wanted * self.sequence_s
        steady = np.where(left > 0.0, wanted * self.base_s / np.where(left > 0.0, left, 1.0), np.inf)
        most = (free * self.budget - tokens * self.base_s) / np.maximum(free + tokens * self.sequence_s, 1e-30)
        return self.at(np.minimum(steady, np.clip(most, 0.0, self.budget)))

    def load(self, point: _ChunkedPoint) -> Floats:
        return self.rate * self.mean_tokens * point.full_step_s / point.room_tokens

    def stable(self, point: _ChunkedPoint) -> NDArray[np.bool_]:
        settled = self.next_batch(point) - point.batch <= 1e-3 * (1.0 + point.batch)
        roomy = self.budget - point.batch > 1e-3
        return settled & roomy & (point.prefill_share < 1.0) & (self.load(point) < 1.0)

    def spread(self, point: _ChunkedPoint) -> BatchSpread:
        """Linear noise about the fixed point: variance b / (1 - h'), h' the growth of the next batch with this one."""
        growth = self.tokens_per_s * self.sequence_s / np.maximum(self.free_share, 1e-300)
        return BatchSpread(point.batch, point.batch / np.clip(1.0 - growth, 0.05, 1.0))

    def residual_s(self, point: _ChunkedPoint) -> Floats:
        """R, mean time until the step in progress ends."""
        chunk = self.rate * self.mean_tokens / np.maximum(point.mixed_per_s, 1e-30)
        mixed_step = point.decode_step_s + self.token_s * chunk
        return (point.decode_per_s * point.decode_step_s**2 + point.mixed_per_s * mixed_step**2) / 2.0

    def own_s(self, point: _ChunkedPoint) -> Floats:
        """S0 of every prompt, (points, atoms)."""
        chunks = np.ceil(self.tokens / point.room_tokens[..., None])
        return point.decode_step_s[..., None] * chunks + self.token_s[..., None] * self.tokens

    def mixed_token_share(self, point: _ChunkedPoint, behind: Behind) -> Floats:
        """Share of tokens given out in a step that prefills.

        A request starts to decode when its prefill ends, with other prompts behind it by chance `behind.chance`; from
        there the engine forgets, over as many steps as those prompts take, towards the share of all steps.
        """
        share = point.mixed_per_s / point.steps_per_s
        steps = np.maximum(self.outputs - 1.0, 1e-9)
        remembered = behind.mean_s / self.mixed_step_s(point)
        passed = steps / np.maximum(remembered, 1e-12)
        return np.clip(share + (behind.chance - share) * -np.expm1(-passed) / passed, 0.0, 1.0)

    def mixed_step_s(self, point: _ChunkedPoint) -> Floats:
        """A step that prefills, on average; of at most a full one, also where prompts are rare."""
        tokens = self.rate * self.mean_tokens / np.maximum(point.mixed_per_s, _SELDOM_PER_S)
        return point.decode_step_s + self.token_s * np.minimum(tokens, point.room_tokens)

    def gaps(self, point: _ChunkedPoint, mixed_share: Floats) -> ChunkedGaps:
        more = mixed_share / np.maximum(point.mixed_per_s / point.steps_per_s, 1e-300)
        room, lengths = point.room_tokens[..., None], self.tokens
        last = lengths - room * (np.ceil(lengths / room) - 1.0)
        order = np.argsort(last, axis=-1)
        partial = self.token_s[..., None] * np.take_along_axis(last, order, axis=-1)
        added = tuple(self.token_s**order * self.lengths.moment(order) for order in (1, 2))
        full = point.decode_step_s[..., None] + self.token_s[..., None] * room * self.claims
        longest = np.argsort(full, axis=-1)
        tokens = np.broadcast_to(self.lengths.weights * self.lengths.values_s / self.lengths.mean_s, full.shape)
        fits = (lengths <= room) @ self.lengths.weights >= _NEARLY_ALL
        steps = point.mixed_per_s / point.steps_per_s
        return ChunkedGaps(
            packed=packed_steps(point.decode_step_s, self.rate, (added[0], added[1]), steps, fits),
            decode_share=1.0 - mixed_share,
            full_share=more * np.maximum(0.0, point.mixed_per_s - point.last_per_s) / point.steps_per_s,
            decode_s=point.decode_step_s,
            full_s=np.take_along_axis(full, longest, axis=-1),
            full_weights=np.take_along_axis(tokens, longest, axis=-1),
            mixed_s=self.mixed_step_s(point),
            decode_slope_s=self.sequence_s,
            full_slope_s=self.sequence_s - self.token_s,
            partial_s=point.decode_step_s[..., None] + partial,
            partial_weights=self.lengths.weights[order],
            batch=self.spread(point),
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
    counted_others: float = 1.0,
    input_stretch: ArrayLike = 1.0,
    token_claims: ArrayLike = 1.0,
) -> Colocated:
    """Chunked prefill: every step decodes first and fills the rest of its token budget with prompts (QUEUEING §4.2).

    A step with b decoding requests and q prompt tokens lasts `step_base_s` + `step_sequence_s` b +
    `prefill_token_s` q. Prompts wait behind a router that sends each request to the replica
    with the fewest in flight, decoding ones included, for engine time in proportion to their tokens.

    Which tokens share their step with prompts is not what shares of steps say: a request starts to decode when its
    prefill ends, so it meets the prompts that queued behind it (`mixed_token_share`).

    Parameters
    ----------
    arrivals_per_s : to all replicas together, >= 0.   mean_output_tokens : >= 1.   token_budget : tokens per step.
    input_tokens, input_weights : one law of prompt lengths, shape (atoms,), tokens > 0.   input_stretch : on all of
        them, point by point.   token_claims : what a token of each prompt takes over a mean one,
        (..., atoms): those of long prompts attend to more, so steps that they fill last longer.
    counted_others : share of the decoding requests that the router counts beside prompts; 0: it goes by prompts alone.
    The others broadcast to the points' shape.

    Raises
    ------
    ValueError
        For negative or NaN arguments, or replicas that are not whole numbers.
    """
    lengths = ServiceLaw(np.asarray(input_tokens, dtype=float), np.asarray(input_weights, dtype=float))
    rates, outputs, a, c, e, budget, stretch, counts = engine_points(
        arrivals_per_s,
        mean_output_tokens,
        step_base_s,
        step_sequence_s,
        prefill_token_s,
        token_budget,
        input_stretch,
        replicas,
    )
    claims = np.broadcast_to(np.asarray(token_claims, dtype=float), (*rates.shape, lengths.values_s.size))
    engine = _ChunkedEngine(rates / counts, outputs, a, c, e, budget, lengths, stretch, claims)
    point = engine.settle()
    for _ in range(PASSES):
        stable, load = engine.stable(point), engine.load(point)
        chunk_s = np.where(stable, point.full_step_s / point.room_tokens, _ENDLESS_S)
        jobs = jobs_of(lengths, counts, chunk_s * stretch)
        wait = fitted_wait(counts, rates, jobs, in_flight_wait(counted_others * point.batch), IN_FLIGHT)
        prompts = engine.rate * (np.where(stable, wait.mean_s, 0.0) + engine.own_s(point) @ lengths.weights)
        met = met_fraction(counts, point.batch + prompts, counted_others)
        lone = engine.mixed_token_share(point, behind_of(wait, jobs))
        mixed, often = met * lone, prudent(met) * lone
        mean_itl = point.decode_step_s + mixed * (engine.mixed_step_s(point) - point.decode_step_s)
        engine = replace(engine, slowdown=np.where(stable, mean_itl * point.steps_per_s, 1.0))
        point = engine.settle()
    return Colocated(
        stable=stable,
        load=np.where(stable, load, np.maximum(load, 1.0)),
        mean_batch=np.where(stable, engine.rate * (outputs - 1.0) * mean_itl, np.inf),
        mean_itl_s=np.where(stable, mean_itl, np.inf),
        mixed_share=often,
        wait=wait,
        residual_s=engine.residual_s(point),
        own_weights=lengths.weights,
        behind_s=(mixed - point.mixed_per_s / point.steps_per_s) * (engine.mixed_step_s(point) - point.decode_step_s),
        read_own=lambda: engine.own_s(point),
        read_gaps=lambda: engine.gaps(point, often),
    )
