"""One pool that prefills and decodes, as an outcome: latencies, states, parts and notes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from planner.queueing.gaps import TabledGaps
from planner.queueing.mean_gap import averaged_gap_quantile_s, mean_gap_quantile_s
from planner.queueing.occupancy import kv_tokens_quantile
from planner.queueing.total import total_mean_s, total_quantile_s
from planner.records import STATISTICS, Floats, Mode, Note, PoolState
from planner.serving.bands import formula_bands
from planner.serving.colocated import ColocatedLaw, chained_law, colocated_law, linear_law
from planner.serving.colocated_ranks import SharedRanks
from planner.serving.doubts import Mark, worst
from planner.serving.outcome import Outcome
from planner.serving.role import Role
from planner.serving.shared_doubts import Doubts, bends, doubts
from planner.serving.statistics import LEVELS, over_windows, statistics, stay_atoms, with_stay

ROUTER_NOTE = (
    "the router goes by requests in flight and hardly sees which replica has prompts waiting; one that goes by waiting "
    "prompts shortens TTFT: router: queue-aware"
)


def outcome(role: Role, mode: Mode, replicas: int, max_batch: int) -> Outcome:
    """One colocated deployment under load."""
    traffic = role.traffic
    pool = colocated_law(role, mode, np.array([float(role.token_budget)]), np.array([float(replicas)]))
    chained = bool(pool.usable[0, 0]) and bends(pool)
    if chained:
        pool = _chained(pool)
    if not pool.usable[0, 0] or float(pool.mean_batch[0, 0]) > max_batch:
        return _saturated(pool, chained)
    mean_itl_s = float(pool.mean_itl_s[0, 0])
    own_s, shift_s = pool.own_s[0, 0], float(pool.shift_s[0, 0])
    per_step = traffic.step_tokens
    pace_quantile_s = _pace_quantile(pool)
    wait = pool.waits[0]

    def total_s(atoms: Floats, weights: Floats, q: Floats | float) -> Floats:
        return total_quantile_s(wait, atoms, weights, q).reshape(np.shape(q)) + shift_s

    def total(atoms: Floats, weights: Floats) -> dict[str, float]:
        mean = float(np.ravel(total_mean_s(wait, atoms, weights))[0]) + shift_s
        return statistics(mean, total_s(atoms, weights, LEVELS))

    def gap_s(q: float) -> float:
        return float(pool.itl_quantile_s(q)[0, 0])

    quantiles: dict[str, Callable[[float], float]] = {
        "ttft_s": lambda q: float(total_s(own_s, traffic.input_weights, q)),
        "itl_s": gap_s,
    }

    def end_to_end() -> dict[str, float]:
        first_s = traffic.at_inputs(traffic.joint_input_tokens, own_s)
        return total(*with_stay(first_s, traffic, stay_atoms(mean_itl_s, pace_quantile_s) / per_step))

    seen = doubts(pool)
    return Outcome(
        ttft_s=total(own_s, traffic.input_weights),
        itl_s=statistics(mean_itl_s, map(gap_s, LEVELS)),
        tpot_s=statistics(mean_itl_s / per_step, (pace_quantile_s(q) / per_step for q in LEVELS)),
        ttft_parts_s=_ttft_parts(pool),
        step_parts_s=_step_parts(pool),
        prefill=None,
        decode=_state(pool, seen.first),
        transfer=None,
        prefill_time_fraction=_prefill_fraction(pool),
        notes=_notes(pool, seen),
        chained=chained,
        read_e2e=end_to_end,
        read_bands=lambda found: formula_bands(mode, found, wait, seen.gaps, seen.first, seen.pace, seen.edges),
        quantile_s=quantiles,
    )


def _chained(pool: ColocatedLaw) -> ColocatedLaw:
    """Steps, gaps and own prefill by the chain; of several workers their router has the wait, and spares as it does."""
    chained = chained_law(pool.role, pool.mode, pool.budgets, pool.replicas)
    law = chained.law
    if pool.workers[0] == 1.0 or not isinstance(law, SharedRanks):
        return chained
    role = pool.role
    lone, _ = linear_law(role, pool.mode, role.traffic.window_requests_per_s / pool.replicas, pool.budgets, np.ones(1))
    met = (pool.law.mean_itl_s - pool.law.gaps.decode_s) / np.maximum(lone.mean_itl_s - lone.gaps.decode_s, 1e-12)
    return replace(chained, law=replace(law, routed=pool.law.wait).sparing(np.clip(met, 0.0, 1.0)))


def _pace_quantile(pool: ColocatedLaw) -> Callable[[float], float]:
    """Quantiles of the mean gap over requests between their outputs, at the mean load of the windows."""
    traffic = pool.role.traffic
    steps = np.maximum(traffic.joint_output_tokens - 1.0, 0.0) / traffic.step_tokens
    mean_s = float(pool.mean_itl_s[0, 0])
    if isinstance(pool.law.gaps, TabledGaps) and pool.role.dp > 1:
        single, many = (float(part) for part in pool.token_weights @ pool.law.gaps.variance[0, 0])
        most_s = float(pool.itl_quantile_s(0.9999)[0, 0])
        return lambda q: averaged_gap_quantile_s(q, steps, traffic.joint_weights, mean_s, (single, many), most_s)
    added = pool.prefill_token_s[0, 0] @ pool.token_weights * pool.role.chunk_work_tokens
    if pool.mode == "colocated-whole-prompt":
        added = pool.role.service_s
    moments = (float(traffic.input_weights @ added), float(traffic.input_weights @ added**2))
    step_s = float(pool.role.decode(np.maximum(pool.mean_batch[0], 1.0)).total_s[0]) * pool.role.step_factor
    load = min(_prefill_fraction(pool), 0.95)
    longest_s = float(pool.itl_quantile_s(0.9999)[0, 0]) if pool.mode == "colocated-chunked" else np.inf
    return lambda q: mean_gap_quantile_s(q, steps, traffic.joint_weights, step_s, mean_s, moments, load, longest_s)


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


def _saturated(pool: ColocatedLaw, chained: bool) -> Outcome:
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
        ttft_parts_s={"wait_s": np.inf, "prefill_s": float(role.traffic.input_weights @ role.own_prefill_s)},
        step_parts_s={name: float(np.ravel(value)[0]) for name, value in parts.items()},
        prefill=None,
        decode=state,
        transfer=None,
        prefill_time_fraction=_prefill_fraction(pool),
        chained=chained,
        read_e2e=lambda: endless,
    )
