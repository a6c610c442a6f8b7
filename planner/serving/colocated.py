"""One pool that prefills and decodes: in chunks beside the decodes, or whole prompts in front of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from planner.queueing.colocated import Colocated, chunked, whole_prompt
from planner.queueing.gaps import TabledGaps
from planner.queueing.mean_gap import averaged_gap_quantile_s, mean_gap_quantile_s
from planner.queueing.moving import MovingWait, backlog_composite
from planner.queueing.occupancy import kv_tokens_quantile
from planner.queueing.routing import fewest_in_flight
from planner.queueing.service import ServiceLaw
from planner.queueing.total import total_mean_s, total_quantile_s
from planner.queueing.waiting import Wait
from planner.records import STATISTICS, Floats, Mode, Note, PoolState
from planner.serving.bands import AnyWait, formula_bands
from planner.serving.colocated_ranks import SharedRanks, ranks_law
from planner.serving.doubts import Mark, worst
from planner.serving.outcome import Outcome
from planner.serving.role import Role
from planner.serving.shared_doubts import Doubts, doubts
from planner.serving.statistics import over_windows, statistics, stay_atoms
from planner.serving.traffic import trace_work

REFINEMENTS = 1  # passes that move the linear step law to the batch it is used at
SHORTEST_TOKEN_S = 1e-9
LONE_BATCH = 1.5
ROUTER_NOTE = (
    "the router goes by requests in flight and hardly sees which replica has prompts waiting; one that goes by waiting "
    "prompts shortens TTFT: router: queue-aware"
)
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
    """Solve the pool at every budget and size.

    The forms of QUEUEING §4.2-4.3 want a step that is linear in batch and prompt tokens; the roofline step bends, so
    it is linearized where the pool settles, in a few passes.
    """
    traffic = role.traffic
    rate = np.asarray(traffic.window_requests_per_s)[None, None, :]
    budget, count = np.asarray(budgets, dtype=float)[:, None, None], np.asarray(replicas, dtype=float)[None, :, None]
    count = count * role.batches
    if role.dp > 1:
        together, token_s = ranks_law(role, rate, budget, count)
        return ColocatedLaw(role, mode, np.ravel(budget), np.ravel(count) / role.batches, together, token_s)
    shape = np.broadcast_shapes(rate.shape, budget.shape, count.shape)
    largest = max(role.memory_batch, 2)
    curve = role.decode_curve_s(largest)
    sizes = np.arange(1.0, largest + 1.0)
    batch = np.broadcast_to(rate / count * traffic.mean_steps * curve[0] * 1.5, shape)
    for _ in range(REFINEMENTS + 1):
        batch = np.clip(np.where(np.isfinite(batch), batch, largest), 1.0, np.minimum(largest, 0.9 * budget))
        base, slope = _tangent(sizes, curve, batch)
        token_s = _prefill_token_s(role, mode, batch, budget, (base, slope))
        law = _solve(role, mode, rate, base, slope, token_s, budget, count)
        batch = law.mean_batch
    return ColocatedLaw(role, mode, np.asarray(budgets, dtype=float), np.asarray(replicas, dtype=float), law, token_s)


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
    return chunked(rate, role.chunk_work_tokens, *laws, base, slope, token_s, budget, count, role.counted_others)


def outcome(role: Role, mode: Mode, replicas: int, max_batch: int, with_e2e: bool = True) -> Outcome:
    """One colocated deployment under load."""
    traffic = role.traffic
    pool = colocated_law(role, mode, np.array([float(role.token_budget)]), np.array([float(replicas)]))
    if not pool.usable[0, 0] or float(pool.mean_batch[0, 0]) > max_batch:
        return _saturated(pool)
    mean_itl_s = float(pool.mean_itl_s[0, 0])
    own_s, shift_s = pool.own_s[0, 0], float(pool.shift_s[0, 0])
    joint_s = traffic.at_inputs(traffic.joint_input_tokens, own_s)
    per_step = traffic.step_tokens
    paces_s = stay_atoms(mean_itl_s, lambda q: _pace_quantile_s(pool, q)) / per_step
    stay_s = np.maximum(traffic.joint_output_tokens - 1.0, 0.0)[:, None] * paces_s
    e2e_s = (joint_s[:, None] + stay_s).ravel()
    wait = pool.waits[0]

    def total_quantile(atoms: Floats, weights: Floats) -> Callable[[float], float]:
        return lambda q: float(np.ravel(total_quantile_s(wait, atoms, weights, q))[0]) + shift_s

    def total(atoms: Floats, weights: Floats) -> dict[str, float]:
        mean = float(np.ravel(total_mean_s(wait, atoms, weights))[0]) + shift_s
        return statistics(mean, total_quantile(atoms, weights))

    quantiles: dict[str, Callable[[float], float]] = {
        "ttft_s": total_quantile(own_s, traffic.input_weights),
        "itl_s": lambda q: float(pool.itl_quantile_s(q)[0, 0]),
    }
    latencies = {
        "ttft_s": total(own_s, traffic.input_weights),
        "itl_s": statistics(mean_itl_s, quantiles["itl_s"]),
        "tpot_s": statistics(mean_itl_s / per_step, lambda q: _pace_quantile_s(pool, q) / per_step),
        "e2e_s": total(e2e_s, np.repeat(traffic.joint_weights / paces_s.size, paces_s.size)) if with_e2e else {},
    }
    seen = doubts(pool)
    return Outcome(
        **latencies,
        formula_bands=formula_bands(mode, latencies, pool.waits[0], seen.gaps, seen.first, seen.pace, seen.edges),
        ttft_parts_s=_ttft_parts(pool),
        step_parts_s=_step_parts(pool),
        prefill=None,
        decode=_state(pool, seen.first),
        transfer=None,
        prefill_time_fraction=_prefill_fraction(pool),
        notes=_notes(pool, seen),
        quantile_s=quantiles,
    )


def _pace_quantile_s(pool: ColocatedLaw, q: float) -> float:
    """Mean gap over requests between their outputs, at the mean load of the windows."""
    traffic = pool.role.traffic
    steps = np.maximum(traffic.joint_output_tokens - 1.0, 0.0) / traffic.step_tokens
    if isinstance(pool.law.gaps, TabledGaps):
        single, many = pool.token_weights @ pool.law.gaps.variance[0, 0]
        most_s = float(pool.itl_quantile_s(0.9999)[0, 0])
        mean_s = float(pool.mean_itl_s[0, 0])
        return averaged_gap_quantile_s(q, steps, traffic.joint_weights, mean_s, (float(single), float(many)), most_s)
    added = pool.prefill_token_s[0, 0] @ pool.token_weights * pool.role.chunk_work_tokens
    if pool.mode == "colocated-whole-prompt":
        added = pool.role.service_s
    moments = (float(traffic.input_weights @ added), float(traffic.input_weights @ added**2))
    step_s = float(pool.role.decode(pool.mean_batch[0]).total_s[0]) * pool.role.step_factor
    load = min(_prefill_fraction(pool), 0.95)
    longest = float(pool.itl_quantile_s(0.9999)[0, 0]) if pool.mode == "colocated-chunked" else np.inf
    return mean_gap_quantile_s(
        q, steps, traffic.joint_weights, step_s, float(pool.mean_itl_s[0, 0]), moments, load, longest
    )


def _prefill_fraction(pool: ColocatedLaw) -> float:
    """Share of the busy time that prefill adds to the steps.

    Id: load.prefill_time_fraction.  share of the busy time of a shared pool that prefill adds to its steps
        (MODELLING §11)
    """
    return float(pool.prefill_share[0, 0] @ pool.role.traffic.window_weights)


def _ttft_parts(pool: ColocatedLaw) -> dict[str, float]:
    constants = pool.role.constants
    fetched = pool.role.fetch_part_s(float(pool.replicas[0]))
    return {
        "wait_s": float(np.ravel(pool.waits[0].mean_s)[0]),
        "prefill_s": float(pool.role.traffic.input_weights @ pool.own_s[0, 0]) - sum(fetched.values()),
        "transfer_s": 0.0,
        "admission_s": 0.0,
        "first_steps_s": constants.ttft_steps * float(pool.mean_itl_s[0, 0]),
        "front_end_s": constants.ttft_fixed_s + constants.ttft_sequence_s * float(pool.mean_batch[0, 0]),
    } | fetched


def _step_parts(pool: ColocatedLaw) -> dict[str, float]:
    """A decode step at the mean batch, and what prefill adds to the mean gap.

    Id: step.prefill_in_gap.  mean gap - a decode step at the mean batch  (QUEUEING §4.3)
    """
    parts = pool.role.decode(np.maximum(pool.mean_batch[0], 1.0)).parts_s
    named = {name: float(np.ravel(value)[0]) * pool.role.step_factor for name, value in parts.items()}
    return named | {"prefill_interference_s": max(float(pool.mean_itl_s[0, 0]) - sum(named.values()), 0.0)}


def _state(pool: ColocatedLaw, first: Mark) -> PoolState:
    role = pool.role
    spread = pool.law.gaps.batch
    mean, variance = over_windows(spread.mean[0, 0], spread.variance[0, 0], role.traffic.window_weights)
    p99_bytes = float(np.ravel(kv_tokens_quantile(mean, variance, role.resident_bytes_moments, 0.99))[0])
    trust, reason = _trust(pool, first)
    return PoolState(
        utilization=float(pool.utilization[0, 0]),
        mean_batch=mean * role.batches,
        kv_capacity_tokens=role.kv_capacity_tokens,
        kv_mean_tokens=mean * role.batches * role.traffic.context_moments[0],
        kv_p99_tokens=min(p99_bytes, role.memory.kv_bytes) / role.kv_bytes_per_resident_token * role.batches,
        memory_bytes=role.memory.parts(),
        trust=trust,
        trust_reason=reason,
    )


def _trust(pool: ColocatedLaw, first: Mark) -> Mark:
    if float(pool.utilization[0, 0]) > 0.9:
        return "caution", "over 90 % busy in the worst window"
    wait = pool.waits[0]
    return worst(((str(np.ravel(wait.trust)[0]), str(np.ravel(wait.trust_reason)[0])), first))


def _notes(pool: ColocatedLaw, seen: Doubts) -> tuple[Note, ...]:
    reasons = dict.fromkeys(reason for _, reason in (seen.gaps, seen.pace, *seen.edges.values()) if reason)
    notes = [Note("caution", reason) for reason in reasons if reason != seen.first[1]]
    if pool.servers[0] > 1 and pool.role.counted_others:
        notes.append(Note("info", ROUTER_NOTE))
    return tuple(notes)


def _saturated(pool: ColocatedLaw) -> Outcome:
    """A pool that never settles: every latency is unbounded."""
    role = pool.role
    endless = dict.fromkeys(STATISTICS, np.inf)
    largest = float(role.memory_batch)
    state = PoolState(
        utilization=float(pool.utilization[0, 0]),
        mean_batch=largest * role.batches,
        kv_capacity_tokens=role.kv_capacity_tokens,
        kv_mean_tokens=role.kv_capacity_tokens,
        kv_p99_tokens=role.kv_capacity_tokens,
        memory_bytes=role.memory.parts(),
        trust="no closed form",
        trust_reason="saturated: prefill and decode together need more than all of the time, or more KV memory",
    )
    parts = role.decode(np.array([largest])).parts_s
    return Outcome(
        ttft_s=endless,
        itl_s=endless,
        tpot_s=endless,
        e2e_s=endless,
        ttft_parts_s={"wait_s": np.inf, "prefill_s": float(role.traffic.input_weights @ role.own_prefill_s)},
        step_parts_s={name: float(np.ravel(value)[0]) for name, value in parts.items()},
        prefill=None,
        decode=state,
        transfer=None,
    )
