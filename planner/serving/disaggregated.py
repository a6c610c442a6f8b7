"""Two pools: prefill as M/G/k, decode as a state-dependent batch, and the hand-over between them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from planner.queueing.lockstep_wait import LockstepWait, lockstep_wait
from planner.queueing.moving import MovingWait, backlog_composite
from planner.queueing.occupancy import BatchLaw, batch_law, kv_tokens_quantile
from planner.queueing.routing import join_shortest_queue
from planner.queueing.service import ServiceLaw
from planner.queueing.total import total_mean_s, total_quantile_s
from planner.queueing.waiting import Wait
from planner.records import Floats, PoolState, Scenario, TransferState
from planner.serving.bands import formula_bands
from planner.serving.doubts import Mark, ranks_mark, spread_mark, worst
from planner.serving.outcome import Outcome
from planner.serving.role import Role
from planner.serving.statistics import (
    LEVELS,
    averaged_over_stay_s,
    combined,
    over_windows,
    statistics,
    stay_atoms,
    waiting_atoms,
    with_stay,
)
from planner.serving.traffic import Traffic, trace_work
from planner.serving.transfer import Transfer, transfer

LARGEST_SIGMAS = 6.0


@dataclass(frozen=True, eq=False)
class PrefillLaw:
    """The prefill pool at each entry of `replicas`."""

    role: Role
    replicas: Floats
    wait: Wait | MovingWait | LockstepWait
    own_s: Floats  # (replicas, atoms) what each prompt feels of its own prefill

    @property
    def utilization(self) -> Floats:
        return np.asarray(self.wait.load)

    def total_quantile_s(self, after_s: Floats, q: float) -> Floats:
        """Quantile of wait + own prefill + `after_s` (per input atom), one value per entry of `replicas` [s]."""
        return total_quantile_s(self.wait, self.own_s + after_s, self.role.traffic.input_weights, q)

    def total_mean_s(self, after_s: Floats) -> Floats:
        return total_mean_s(self.wait, self.own_s + after_s, self.role.traffic.input_weights)


def prefill_law(role: Role, replicas: Floats) -> PrefillLaw:
    """M/G/k with the whole service histogram, join-shortest-queue, on moving load where there is a trace.

    Each attention-DP rank and each pipeline stage prefills its own prompt, so servers = replicas * dp * pp (HOUSE §7).
    Ranks step together: a prompt also waits for the step in progress, and its own steps last as long as the slowest
    rank's.
    Source: QUEUEING §2-3, MODELLING §7.2, `queueing.lockstep_wait`.
    """
    traffic = role.traffic
    counts = np.asarray(replicas, dtype=float)
    own_s = np.broadcast_to(role.own_prefill_s, (*counts.shape, role.own_prefill_s.size))
    together = None if role.lockstep is None else lockstep_wait(counts, traffic.requests_per_s, role.lockstep)
    if together is not None:
        own_s = role.felt_s(together.own_s)
    if traffic.arrivals is None:
        return PrefillLaw(role, counts, together or _stationary(role, counts), own_s)
    times_s, work_s, duration_s = trace_work(traffic, role.service_s)
    service = ServiceLaw(role.service_s, traffic.input_weights)
    wait = backlog_composite(times_s, work_s, counts * role.dp * role.batches, duration_s, service)
    if together is not None:
        own_s = own_s + np.where(together.load < 1.0, together.residual_s, together.step_s)[:, None]
    return PrefillLaw(role, counts, wait, own_s)


def _stationary(role: Role, replicas: Floats) -> Wait:
    service = ServiceLaw(role.service_s, role.traffic.input_weights)
    return join_shortest_queue(replicas * role.batches, role.traffic.requests_per_s, service)


@dataclass(frozen=True, eq=False)
class DecodeLaw:
    """The decode pool at each entry of `replicas`, for one cap of each batch."""

    role: Role
    replicas: Floats
    max_batch: int
    batch: BatchLaw  # arrays (replicas, windows)

    @cached_property
    def token_weights(self) -> Floats:
        traffic = self.role.traffic
        weights = traffic.window_requests_per_s * traffic.window_weights
        return np.asarray(weights / weights.sum())

    @property
    def utilization(self) -> Floats:
        """Largest offered load over the windows against what the full batch clears."""
        return np.asarray(self.batch.load.max(axis=-1), dtype=float)

    @cached_property
    def mean_itl_s(self) -> Floats:
        gaps = np.where(self.batch.stable, self.batch.mean_itl_s, self.batch.step_s[-1])
        return np.asarray(gaps @ self.token_weights)

    def itl_quantile_s(self, q: float) -> Floats:
        """Quantile over tokens [s]; where a window never settles its batches are full, and t(B) is the longest step."""
        gaps = np.asarray(self.batch.itl_quantile_s(q, self.token_weights))
        return np.where(np.isfinite(gaps), gaps, self.batch.step_s[-1])

    def pace_quantile_s(self, q: float) -> Floats:
        """Quantile over requests of the mean gap between their outputs [s]."""
        return averaged_over_stay_s(self.mean_itl_s, self.itl_quantile_s(q))

    @cached_property
    def mean_batch(self) -> Floats:
        """Mean size of one batch; a worker has `role.batches` of them."""
        return np.asarray(self.batch.mean_batch) @ self.role.traffic.window_weights

    @cached_property
    def largest_batch(self) -> Floats:
        """A cap that never binds: LARGEST_SIGMAS above the mean of the busiest window, in eights of every rank."""
        spread = np.sqrt(np.asarray(self.batch.variance_batch))
        top = (np.asarray(self.batch.mean_batch) + LARGEST_SIGMAS * np.maximum(spread, 1.0)).max(axis=-1)
        grain = 8 * self.role.dp
        return np.asarray(np.ceil(top / grain) * grain)

    @cached_property
    def wait_probability(self) -> Floats:
        return np.asarray(self.batch.wait_probability) @ self.token_weights

    @cached_property
    def wait_mean_s(self) -> Floats:
        return np.asarray(self.batch.wait_mean_s) @ self.token_weights


def decode_law(role: Role, replicas: Floats, max_batch: int) -> DecodeLaw:
    """The state-dependent batch of QUEUEING §4.1, pooled over replicas, on each window of the load."""
    traffic = role.traffic
    law = batch_law(
        traffic.window_requests_per_s,
        traffic.mean_steps,
        role.decode_curve_s(max_batch),
        np.asarray(replicas, dtype=float) * role.batches,
        steps_law=traffic.steps_law,
    )
    return DecodeLaw(role, replicas, max_batch, law)


def ttft_shift_s(role: Role, mean_itl_s: Floats, mean_batch: Floats) -> Floats:
    """What TTFT holds besides wait, own prefill and transfer: f0 + fr step + fN b [s] (HOUSE §7, FIDELITY §3)."""
    constants = role.constants
    return constants.ttft_fixed_s + constants.ttft_steps * mean_itl_s + constants.ttft_sequence_s * mean_batch


def outcome(
    scenario: Scenario,
    traffic: Traffic,
    prefill: Role,
    decode: Role,
    replicas: tuple[int, int],
    max_batch: int,
) -> Outcome:
    """One disaggregated deployment under load; `replicas` are (prefill, decode).

    Id: e2e.mean.  mean TTFT + (mean output tokens - 1) * mean TPOT  (definition of TPOT)
    """
    first = prefill_law(prefill, np.array([replicas[0]]))
    second = decode_law(decode, np.array([replicas[1]]), max_batch)
    moved = transfer(prefill, decode, replicas[0], replicas[1], scenario.network_bytes_per_s)
    mean_itl_s, mean_batch = float(second.mean_itl_s[0]), float(second.mean_batch[0])
    shift_s = float(ttft_shift_s(decode, second.mean_itl_s, second.mean_batch)[0]) + moved.queue_s
    own_s = first.own_s[0] + moved.exposed_s + prefill.fetch_s(replicas[0])
    slots = waiting_atoms(float(second.wait_probability[0]), float(second.wait_mean_s[0]))
    ttft_atoms = combined(own_s, traffic.input_weights, *slots)
    per_step = traffic.step_tokens

    def itl_quantile_s(q: float) -> float:
        return float(second.itl_quantile_s(q)[0])

    def ttft_quantile_s(q: float) -> float:
        return float(total_quantile_s(first.wait, *ttft_atoms, q)[0]) + shift_s

    def pace_quantile_s(q: float) -> float:
        return float(second.pace_quantile_s(q)[0])

    def end_to_end() -> dict[str, float]:
        first_s = traffic.at_inputs(traffic.joint_input_tokens, own_s)
        atoms = with_stay(first_s, traffic, stay_atoms(mean_itl_s, pace_quantile_s) / per_step)
        slots = waiting_atoms(float(second.wait_probability[0]), float(second.wait_mean_s[0]), 4)
        return _sum_statistics(first, combined(*atoms, *slots), shift_s)

    state = _decode_state(second, _staging_tokens(moved, traffic, replicas[1]))
    parts_s = _step_parts(decode, mean_batch)
    attention = parts_s["attention_decode_s"] / sum(parts_s.values())
    spread = spread_mark(attention, traffic.context_scv, mean_batch)
    ranks = _ranks_mark(first)
    gaps, high = (state.trust, state.trust_reason), dict.fromkeys(("p90", "p95", "p99", "p99_9"), spread)
    return Outcome(
        ttft_s=_sum_statistics(first, ttft_atoms, shift_s),
        itl_s=statistics(mean_itl_s, map(itl_quantile_s, LEVELS)),
        tpot_s=statistics(mean_itl_s / per_step, (pace_quantile_s(q) / per_step for q in LEVELS)),
        ttft_parts_s=_ttft_parts(first, second, moved) | prefill.fetch_part_s(replicas[0]),
        step_parts_s=parts_s,
        prefill=_prefill_state(first),
        decode=state,
        transfer=_transfer_state(moved, traffic, replicas[1]),
        read_e2e=end_to_end,
        read_bands=lambda found: formula_bands("disaggregated", found, first.wait, gaps, ranks, spread, high),
        quantile_s={"ttft_s": ttft_quantile_s, "itl_s": itl_quantile_s},
    )


def _sum_statistics(law: PrefillLaw, atoms: tuple[Floats, Floats], shift_s: float) -> dict[str, float]:
    """Statistics of a wait, own parts with their law, and a shift [s].

    Id: ttft.quantile.  the t with P(wait + own parts > t) = 1 - q: a wait convolved with the law of prompts, then
        shifted  (QUEUEING §3)
    Id: e2e.quantile.  as ttft.quantile, with (output tokens - 1) * TPOT added to the own part  (QUEUEING §3)
    """
    mean = float(total_mean_s(law.wait, *atoms)[0])
    return statistics(mean + shift_s, total_quantile_s(law.wait, *atoms, LEVELS)[0] + shift_s)


def requests_per_s_max(prefill: Role, decode: Role, replicas: tuple[int, int], max_batch: int) -> float:
    """Highest stationary rate that both pools clear: servers over service, full batches over steps [requests/s].

    Id: load.requests_per_s_max.  the least of prompts/s that the prefill pool clears, requests/s of full decode
        batches, and the network's share  (MODELLING §7)
    """
    traffic = prefill.traffic
    prompts_per_s = replicas[0] * prefill.dp * prefill.batches / float(traffic.input_weights @ prefill.service_s)
    full_s = float(decode.decode_curve_s(max_batch)[-1])
    return min(prompts_per_s, replicas[1] * decode.batches * max_batch / (traffic.mean_steps * full_s))


def _ttft_parts(first: PrefillLaw, second: DecodeLaw, moved: Transfer) -> dict[str, float]:
    """Parts of the mean TTFT [s].

    Id: ttft.mean.  wait + prefill + transfer + admission + first steps + front end  (FIDELITY §4)
    Id: ttft.wait.  mean wait for a prefill worker, GI/G/k with the moments of the prefill times  (QUEUEING §2)
    Id: ttft.prefill.  own prefill factor * S(I), mean over the prompts, never below the roofline  (FIDELITY §4)
    Id: ttft.transfer.  what the layer-wise push of the cache leaves visible, and the wait for the network cards
        (MODELLING §5)
    Id: ttft.admission.  mean wait for a place in the decode batch  (QUEUEING §4.1)
    Id: ttft.first_steps.  ttft_steps * mean gap  (FIDELITY §4)
    Id: ttft.front_end.  ttft_fixed_s + ttft_sequence_s * mean batch  (FIDELITY §4)
    """
    weights = first.role.traffic.input_weights
    constants = second.role.constants
    return {
        "wait_s": float(np.asarray(first.wait.mean_s)[0]),
        "prefill_s": float(weights @ first.own_s[0]),
        "transfer_s": float(weights @ moved.exposed_s) + moved.queue_s,
        "admission_s": float(second.wait_mean_s[0]),
        "first_steps_s": constants.ttft_steps * float(second.mean_itl_s[0]),
        "front_end_s": constants.ttft_fixed_s + constants.ttft_sequence_s * float(second.mean_batch[0]),
    }


def _step_parts(role: Role, mean_batch: float) -> dict[str, float]:
    parts = role.decode(np.array([max(mean_batch, 1.0)])).parts_s
    return {name: float(np.ravel(value)[0]) * role.step_factor for name, value in parts.items()}


def _prefill_state(law: PrefillLaw) -> PoolState:
    """The prefill pool's first entry. A rank holds the prompt it works on, seen by the time that prompts take."""
    role, prompts = law.role, law.role.dp * law.role.batches
    tokens, busy = role.traffic.input_tokens, float(law.utilization[0])
    by_time = role.traffic.input_weights * role.service_s
    by_time = by_time / by_time.sum()
    held = float(by_time @ tokens)
    p99 = float(tokens[np.searchsorted(np.cumsum(by_time), 0.99)])
    of_wait = str(np.ravel(law.wait.trust)[0]), str(np.ravel(law.wait.trust_reason)[0])
    trust, reason = worst((of_wait, _ranks_mark(law)))
    return PoolState(
        utilization=busy,
        mean_batch=busy * prompts,
        kv_capacity_tokens=role.memory.kv_bytes / float(role.kv_bytes_on_rank(np.array([held]))[0]) * held * prompts,
        kv_mean_tokens=busy * held * prompts,
        kv_p99_tokens=p99 * prompts,
        memory_bytes=role.memory.parts(),
        trust=trust,
        trust_reason=reason,
    )


def _decode_state(law: DecodeLaw, staging_tokens: float) -> PoolState:
    """The decode pool's first entry: load, batch, and KV per worker, of residents and of those on their way."""
    role = law.role
    mean, variance = over_windows(
        law.batch.mean_batch[0] / role.dp, law.batch.variance_batch[0] / role.dp, role.traffic.window_weights
    )
    p99_bytes = float(np.ravel(kv_tokens_quantile(mean, variance, role.resident_bytes_moments, 0.99))[0])
    per_token = role.kv_bytes_per_resident_token
    utilization = float(law.utilization[0])
    return PoolState(
        utilization=utilization,
        mean_batch=float(law.mean_batch[0]) * role.batches,
        kv_capacity_tokens=role.kv_capacity_tokens,
        kv_mean_tokens=float(law.mean_batch[0]) * role.batches * role.traffic.context_moments[0] + staging_tokens,
        kv_p99_tokens=min(p99_bytes, role.memory.kv_bytes) / per_token * role.dp * role.batches + staging_tokens,
        memory_bytes=role.memory.parts(),
        trust="caution" if utilization > 0.9 else "ok",
        trust_reason="the full batch is over 90 % busy in the worst window" if utilization > 0.9 else "",
    )


def _ranks_mark(law: PrefillLaw) -> Mark:
    """Ranks that step together, under load that moves: the step in progress is that of the mean load."""
    return ranks_mark(law.role.dp if isinstance(law.wait, MovingWait) else 1)


def _staging_tokens(moved: Transfer, traffic: Traffic, decode_replicas: int) -> float:
    """Tokens of prompts on their way to one decode worker, whose room is taken already (MODELLING §5)."""
    held_s = moved.mean_duration_s + (moved.queue_s if np.isfinite(moved.queue_s) else 0.0)
    return traffic.requests_per_s / decode_replicas * held_s * traffic.mean_input_tokens


def _transfer_state(moved: Transfer, traffic: Traffic, decode_replicas: int) -> TransferState:
    return TransferState(
        bytes_per_request=moved.bytes_per_request,
        bytes_per_s=moved.bytes_per_s,
        mean_s=float(traffic.input_weights @ moved.exposed_s) + moved.queue_s,
        utilization=moved.utilization,
        staging_tokens=_staging_tokens(moved, traffic, decode_replicas),
    )
