"""One pool that prefills and decodes: in chunks beside the decodes, or whole prompts in front of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from planner.queueing.colocated import chunked
from planner.queueing.moving import MovingWait, backlog_composite
from planner.queueing.routing import fewest_in_flight
from planner.queueing.service import ServiceLaw
from planner.queueing.shared_engine import Colocated
from planner.queueing.total import total_mean_s, total_quantile_s
from planner.queueing.waiting import Wait
from planner.queueing.whole_prompt import whole_prompt
from planner.records import Floats, Mode
from planner.serving.bands import AnyWait
from planner.serving.colocated_ranks import SharedRanks, ranks_law
from planner.serving.role import Role
from planner.serving.traffic import trace_work

REFINEMENTS = 1  # passes that move the linear step law to the batch it is used at
BATCH_NODES = 32  # where a batch that leads to itself is looked for
SHORTEST_TOKEN_S = 1e-9
LONE_BATCH = 1.5
MEMORY_SIGMAS = 3.1  # batch above its mean that must still fit, as MEMORY_QUANTILE of a normal


@dataclass(frozen=True, eq=False)
class ColocatedLaw:
    """A colocated pool at token budgets and replicas; the law's points are (budgets C, replicas m, windows w).

    Every batch of a worker is one server, and with attention DP every rank.
    """

    role: Role
    mode: Mode
    budgets: Floats  # (C,) tokens of one step of a rank
    replicas: Floats  # (m,) workers
    law: Colocated | SharedRanks
    prefill_token_s: Floats  # (C, m, w) what one prompt token adds to a step

    def at(self, rows: NDArray[np.intp], columns: NDArray[np.intp]) -> ColocatedLaw:
        """The same pool at some of its budgets and replicas."""
        budgets, replicas = self.budgets[rows], self.replicas[columns]
        if isinstance(self.law, SharedRanks):
            return chained_law(self.role, self.mode, budgets, replicas)
        index = np.ix_(rows, columns)
        law, token_s = self.law.at(index), self.prefill_token_s[index]
        return ColocatedLaw(self.role, self.mode, budgets, replicas, law, token_s)

    @property
    def workers(self) -> Floats:
        return self.replicas * self.role.batches

    @property
    def servers(self) -> Floats:
        return self.workers * self.role.dp

    @cached_property
    def token_weights(self) -> Floats:
        traffic = self.role.traffic
        weights = traffic.window_requests_per_s * traffic.window_weights
        return np.asarray(weights / weights.sum())

    @cached_property
    def usable(self) -> NDArray[np.bool_]:
        """(C, m): settles in every window, and the batch fits the KV memory."""
        spread = self.law.gaps.batch
        fits = spread.mean + MEMORY_SIGMAS * np.sqrt(spread.variance) <= self.role.memory_batch
        return np.asarray((self.law.stable & fits).all(axis=-1))

    @cached_property
    def utilization(self) -> Floats:
        return np.asarray(self.law.load.max(axis=-1))

    @cached_property
    def prefill_share(self) -> Floats:
        """(C, m, w): share of a worker's time that prompt tokens add to its steps."""
        traffic = self.role.traffic
        tokens_per_s = traffic.window_requests_per_s / self.workers[:, None] * traffic.mean_new_tokens
        return np.minimum(self.prefill_token_s * tokens_per_s, 1.0)

    @cached_property
    def mean_itl_s(self) -> Floats:
        return np.asarray(self.law.mean_itl_s @ self.token_weights)

    @cached_property
    def mean_batch(self) -> Floats:
        """Mean size of one batch; a worker has `role.batches` of them."""
        return np.asarray(self.law.mean_batch @ self.role.traffic.window_weights)

    def itl_quantile_s(self, q: float) -> Floats:
        """Quantile over the tokens of all windows, from above: half of 1-q is left to the busiest (union bound)."""
        if self.token_weights.size == 1:
            return np.asarray(self.law.itl_quantile_s(q)[..., 0])
        half = (1.0 - q) / 2.0
        order = np.argsort(self.role.traffic.window_requests_per_s)
        inside = np.cumsum(self.token_weights[order][::-1])[::-1] > half
        return np.asarray(self.law.itl_quantile_s(1.0 - half)[..., order[inside]].max(axis=-1))

    @cached_property
    def prompt_s(self) -> Floats:
        """Time from a prompt's first chunk to its last, (C, m, atoms), at the mean of the windows."""
        if self.mode == "colocated-whole-prompt":
            return np.broadcast_to(self.role.service_s, (*self.usable.shape, self.role.service_s.size))
        own = np.where(self.usable[..., None, None], self.law.own_s, 1.0)
        return np.asarray(np.einsum("cmwa,w->cma", own, self.token_weights))

    @cached_property
    def own_s(self) -> Floats:
        """What a request feels of it: kT own, never below physics (FIDELITY §3), and the fetch of what is cached."""
        own = np.maximum(self.role.constants.own_prefill_factor * self.prompt_s, self.role.prefill_floor_s)
        own = own + self.role.look_up_s
        if not self.role.tiers:
            return own
        return own + np.stack([self.role.fetch_s(float(count)) for count in self.replicas])[None]

    @cached_property
    def shift_s(self) -> Floats:
        """f0 + fr step + fN b (HOUSE §7). The step in progress on arrival is one of the fr steps."""
        constants = self.role.constants
        steps_s, sequences_s = constants.ttft_steps * self.mean_itl_s, constants.ttft_sequence_s * self.mean_batch
        return np.asarray(constants.ttft_fixed_s + steps_s + sequences_s)

    @cached_property
    def waits(self) -> list[AnyWait]:
        """Wait for the first chunk: stationary over all points at once, or one law of shape (m,) per budget."""
        if self.role.traffic.arrivals is None:
            return [self.law.wait]
        every = np.ones(self.replicas.shape, dtype=bool)
        return [self._moving_wait(index, every) for index in range(self.budgets.size)]

    def _moving_wait(self, index: int, asked: NDArray[np.bool_]) -> MovingWait:
        """The trace's own backlog (MODELLING §7.2) at one budget and the sizes `asked`, (m,)."""
        traffic = self.role.traffic
        work_s = self._work_s(index)
        times_s, prompts_s, duration_s = trace_work(traffic, work_s)
        service = ServiceLaw(work_s, traffic.input_weights)
        batch = np.where(np.isfinite(self.mean_batch[index]), self.mean_batch[index], 0.0)[asked, None]
        others = self.role.counted_others * batch

        def routed(servers: Floats, arrivals_per_s: Floats, law: ServiceLaw) -> Wait:
            return fewest_in_flight(servers, arrivals_per_s, law, others)

        return backlog_composite(times_s, prompts_s, self.servers[asked], duration_s, service, routed)

    def _work_s(self, index: int) -> Floats:
        """Engine time that a prompt of each atom claims while others wait: whole, or its share of full steps.

        In chunks it is the load per token that the law settled at, at the smallest usable pool, where it is longest.
        """
        traffic, role = self.role.traffic, self.role
        if self.mode == "colocated-whole-prompt":
            return role.service_s
        tokens_per_s = np.maximum(traffic.window_requests_per_s * traffic.mean_new_tokens, 1e-12)
        per_token_s = (self.law.load[index] / tokens_per_s) @ self.token_weights * self.servers
        usable = self.usable[index]
        return role.chunk_work_tokens * float(per_token_s[usable].max() if usable.any() else per_token_s[-1])

    def surely_later(self, q: float, limit_s: float) -> NDArray[np.bool_]:
        """(C, m): where the q-quantile of TTFT passes the limit even if nobody waits."""
        late = (self.own_s + self.shift_s[..., None] > limit_s) @ self.role.traffic.input_weights
        return np.asarray(late > 1.0 - q + 1e-9)

    def ttft_quantile_s(self, q: float, asked: NDArray[np.bool_]) -> Floats:
        """(C, m), at the points `asked`; inf elsewhere."""
        return self._ttft(lambda wait, own, weights: total_quantile_s(wait, own, weights, q), asked)

    def ttft_mean_s(self, asked: NDArray[np.bool_]) -> Floats:
        """(C, m), at the points `asked`; inf elsewhere."""
        return self._ttft(total_mean_s, asked)

    def _ttft(self, total: Callable[[AnyWait, Floats, Floats], Floats], asked: NDArray[np.bool_]) -> Floats:
        weights = self.role.traffic.input_weights
        asked = asked & self.usable
        values = np.full(asked.shape, np.inf)
        if self.role.traffic.arrivals is None:
            values[asked] = total(self.law.wait.at(np.s_[:, :, 0]).at(asked), self.own_s[asked], weights)
        else:
            for row in np.flatnonzero(asked.any(axis=1)):
                wait = self._moving_wait(int(row), asked[row])
                values[row, asked[row]] = total(wait, self.own_s[row, asked[row]], weights)
        return np.where(asked, values + self.shift_s, np.inf)


def colocated_law(role: Role, mode: Mode, budgets: Floats, replicas: Floats) -> ColocatedLaw:
    """Solve the pool at every budget and size."""
    if role.dp > 1:
        return chained_law(role, mode, budgets, replicas)
    budget, count = np.asarray(budgets, dtype=float), np.asarray(replicas, dtype=float)
    law, token_s = linear_law(role, mode, role.traffic.window_requests_per_s, budget, count)
    return ColocatedLaw(role, mode, budget, count, law, token_s)


def linear_law(
    role: Role, mode: Mode, requests_per_s: Floats, budgets: Floats, replicas: Floats
) -> tuple[Colocated, Floats]:
    """The law at (budgets, replicas, requests/s), and what a prompt token adds to a step there.

    The forms of QUEUEING §4.2-4.3 want a step that is linear in batch and prompt tokens; the roofline step bends, so
    it is linearized where the pool settles, in a few passes.
    """
    rate, budget = requests_per_s[None, None, :], budgets[:, None, None]
    count = replicas[None, :, None] * role.batches
    shape = np.broadcast_shapes(rate.shape, budget.shape, count.shape)
    largest = max(role.memory_batch, 2)
    curve = role.decode_curve_s(largest)
    sizes = np.arange(1.0, largest + 1.0)
    batch = np.broadcast_to(_first_settled(role, mode, sizes, curve, rate / count, budget), shape)
    for _ in range(REFINEMENTS + 1):
        batch = np.clip(batch, 1.0, np.minimum(largest, 0.9 * budget))
        base, slope = _tangent(sizes, curve, batch)
        token_s = _prefill_token_s(role, mode, batch, budget, (base, slope))
        law = _solve(role, mode, rate, base, slope, token_s, budget, count)
        batch = np.where(np.isfinite(law.mean_batch), law.mean_batch, batch)
    return law, token_s


def chained_law(role: Role, mode: Mode, budgets: Floats, replicas: Floats, rough: bool = False) -> ColocatedLaw:
    """The same by the chain on steps of any shape, point by point: for ranks in step, and for steps that bend.

    `rough` ends sooner, for searches, and takes what is far beyond the headroom as unsettled.
    """
    rate = np.asarray(role.traffic.window_requests_per_s)[None, None, :]
    budget, count = np.asarray(budgets, dtype=float), np.asarray(replicas, dtype=float)
    law, token_s = ranks_law(role, rate, budget[:, None, None], count[None, :, None] * role.batches, rough)
    return ColocatedLaw(role, mode, budget, count, law, token_s)


def _first_settled(role: Role, mode: Mode, sizes: Floats, curve: Floats, rate: Floats, budget: Floats) -> Floats:
    """Smallest batch that leads to itself or less, of servers with `rate` each; the largest where none does.

    Steps start as often as the prompt tokens beside them leave time, so a batch b leads to (tokens to decode) td(b) /
    (1 - prompt tokens e(b)) (QUEUEING §4.2).
    """
    nodes = np.asarray(np.unique(np.round(np.geomspace(1.0, sizes[-1], BATCH_NODES))), dtype=float)
    decode_s = np.interp(nodes, sizes, curve)
    rate, budget = rate[..., None], budget[..., None]
    if mode == "colocated-whole-prompt":
        prompt_s = np.asarray(float(role.traffic.input_weights @ role.service_s))
    else:
        within, line = np.minimum(nodes, 0.9 * budget), _tangent(sizes, curve, nodes)
        prompt_s = role.traffic.mean_new_tokens * _prefill_token_s(role, mode, within, budget, line)
    free = np.maximum(1.0 - rate * prompt_s, 1e-9)
    settles = rate * role.traffic.mean_steps * decode_s / free <= nodes
    first = np.where(settles.any(axis=-1), settles.argmax(axis=-1), nodes.size - 1)
    return np.asarray(nodes[first])


def _tangent(sizes: Floats, curve: Floats, batch: Floats) -> tuple[Floats, Floats]:
    """Base and slope of the step time about a batch, from the secant over +-25 %; neither is negative."""
    low, high = np.maximum(0.75 * batch, 1.0), np.minimum(1.25 * batch + 1.0, sizes[-1])
    at = np.interp(batch, sizes, curve)
    rise = np.interp(high, sizes, curve) - np.interp(low, sizes, curve)
    slope = np.clip(rise / np.maximum(high - low, 1e-9), 0.0, at / batch)
    slope = np.where(batch < LONE_BATCH, 0.0, slope)  # below one request there is no shorter step
    return at - slope * batch, slope


def _prefill_token_s(role: Role, mode: Mode, batch: Floats, budget: Floats, decode: tuple[Floats, Floats]) -> Floats:
    """Seconds that one prompt token adds to the worker, so that a full step (or a mean whole prompt) comes out."""
    base, slope = decode
    if mode == "colocated-whole-prompt":
        mean_s = float(role.traffic.input_weights @ role.service_s)
        return np.asarray(np.maximum(mean_s - base, SHORTEST_TOKEN_S) / role.traffic.mean_new_tokens)
    room = np.maximum(budget - batch, 1.0)
    full_s = np.asarray(role.mixed(batch, room).total_s) * role.step_factor
    return np.asarray(np.maximum(full_s - base - slope * batch, SHORTEST_TOKEN_S) / room)


def _solve(
    role: Role, mode: Mode, rate: Floats, base: Floats, slope: Floats, token_s: Floats, budget: Floats, count: Floats
) -> Colocated:
    traffic = role.traffic
    laws = (traffic.input_weights, traffic.mean_steps + 1.0)
    if mode == "colocated-whole-prompt":
        steps = (base, slope, token_s, count + 0.0 * budget)
        return whole_prompt(rate, role.whole_work_tokens, *laws, *steps, role.counted_others)
    work = role.chunk_work_tokens
    claims = work / traffic.new_tokens
    return chunked(rate, work, *laws, base, slope, token_s, budget, count, role.counted_others, token_claims=claims)
