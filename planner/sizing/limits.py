"""Everything that could stop a plan, ranked, each with what would move it."""

from __future__ import annotations

import math
from collections.abc import Iterator

from planner.records import (
    Deployment,
    Limit,
    Money,
    Pool,
    PoolState,
    Prediction,
    Resilience,
    RoleName,
    Scenario,
    Target,
)
from planner.sizing.candidates import MAX_UTILIZATION
from planner.units import format_availability

BINDING_SLACK = 0.1
LOST = "workers_lost."
SECONDS_PER_YEAR = 8760.0 * 3600.0


def limits(
    scenario: Scenario, deployment: Deployment, prediction: Prediction, money: Money, lost: Resilience | None = None
) -> tuple[Limit, ...]:
    """All limits of a plan, tightest first; with `lost` also those with its spare workers gone."""
    every = [
        *_targets(scenario, deployment, prediction),
        *_budgets(scenario, deployment, money),
        *_loads(deployment, prediction),
        *_memory(scenario, deployment, prediction),
        *_network(prediction),
        *(_lost(scenario, lost) if lost is not None else ()),
        *_tiers(prediction),
    ]
    return tuple(sorted(every, key=lambda limit: limit.slack_fraction))


def target_value(prediction: Prediction, target: Target) -> float:
    """The predicted statistic that a target limits [s]."""
    by_metric = {"ttft": prediction.ttft_s, "itl": prediction.itl_s, "tpot": prediction.tpot_s, "e2e": prediction.e2e_s}
    return by_metric[target.metric][target.statistic]


def _lost(scenario: Scenario, lost: Resilience) -> Iterator[Limit]:
    """Targets with the spare workers gone, and for how long in a year more than those are."""
    by_metric = {"ttft": lost.ttft_s, "itl": lost.itl_s, "tpot": lost.tpot_s, "e2e": lost.e2e_s}
    relax = "one more spare worker in the pool that is busiest then"
    for target in scenario.targets:
        name = f"{LOST}{target.metric}.{target.statistic}"
        yield _limit(name, by_metric[target.metric][target.statistic], target.limit_s, "s", relax)
    if lost.target_fraction is not None:
        least = min(lost.pools, key=lambda name: lost.pools[name].held_fraction)
        reached = format_availability(lost.held_fraction)
        relax = f"{reached} is reached; more spare {least} workers, a shorter repair or smaller workers"
        out, allowed = 1.0 - lost.held_fraction, 1.0 - lost.target_fraction
        yield _limit(f"{LOST}out_in_a_year", out * SECONDS_PER_YEAR, allowed * SECONDS_PER_YEAR, "s", relax)


def _limit(name: str, value: float, limit: float, unit: str, relax: str) -> Limit:
    """A value against its limit, and how much room is left.

    Id: limit.slack.  (limit - value) / limit  (definition)
    """
    slack = (limit - value) / limit
    return Limit(name, value, limit, unit, slack, slack < BINDING_SLACK, relax)


def _targets(scenario: Scenario, deployment: Deployment, prediction: Prediction) -> Iterator[Limit]:
    for target in scenario.targets:
        relax = _relax_ttft(prediction) if target.metric in ("ttft", "e2e") else _relax_gap(prediction)
        relax = _relax_saturation(deployment, prediction) or relax
        name = f"{target.metric}.{target.statistic}"
        yield _limit(name, target_value(prediction, target), target.limit_s, "s", relax)


def _relax_saturation(deployment: Deployment, prediction: Prediction) -> str:
    """How many workers a saturated pool lacks; empty when none is saturated."""
    needed = []
    for name, pool, state in _pools(deployment, prediction):
        if state.utilization >= 1.0:
            least = math.ceil(pool.replicas * state.utilization / MAX_UTILIZATION)
            needed.append(
                f"the {name} pool is saturated at {state.utilization:.0%} of what it can do: "
                f"it needs {least} replicas, {least - pool.replicas} more"
            )
    return "; ".join(needed)


def _pools(deployment: Deployment, prediction: Prediction) -> list[tuple[RoleName, Pool, PoolState]]:
    pools = [(deployment.decode_name, deployment.decode, prediction.decode)]
    if deployment.prefill is not None and prediction.prefill is not None:
        pools.insert(0, ("prefill", deployment.prefill, prediction.prefill))
    return pools


def _relax_ttft(prediction: Prediction) -> str:
    """Queue-bound or service-bound: replicas divide the first and never the second (PEERS §2, I)."""
    parts = prediction.ttft_parts_s
    wait_ms, own_ms = (parts["wait_s"] + parts.get("admission_s", 0.0)) * 1e3, parts["prefill_s"] * 1e3
    steps_ms = (parts.get("first_steps_s", 0.0) + parts.get("front_end_s", 0.0)) * 1e3
    wait = f"{wait_ms:.0f} ms" if math.isfinite(wait_ms) else "without end"
    shares = f"(mean: wait {wait}, prefill {own_ms:.0f} ms, first steps and front end {steps_ms:.0f} ms)"
    replicas = "prefill replicas" if prediction.prefill is not None else "replicas"
    if wait_ms >= max(own_ms, steps_ms):
        return f"more {replicas} shorten the wait, not the prefill itself {shares}"
    if own_ms >= steps_ms:
        return f"a larger TP, a faster accelerator or shorter prompts; more {replicas} do not divide a prefill {shares}"
    return f"shorter decode steps, which a first token waits for a few of {shares}"


def _relax_gap(prediction: Prediction) -> str:
    parts = prediction.step_parts_s
    name, seconds = max(parts.items(), key=lambda item: item[1])
    share = seconds / max(sum(parts.values()), 1e-12)
    advice = {
        "collectives_s": "a smaller TP or a faster scale-up link",
        "attention_decode_s": "an 8-bit KV cache, shorter contexts or a smaller batch (more decode replicas)",
        "host_s": "a leaner engine loop",
        "launch_s": "fewer, fused kernels; replicas hardly help",
    }.get(name, "a larger TP, lighter weights or more memory bandwidth; a smaller batch only once it is large")
    return f"{name.removesuffix('_s').replace('_', ' ')} is {share:.0%} of a step: {advice}"


def _budgets(scenario: Scenario, deployment: Deployment, money: Money) -> Iterator[Limit]:
    values = {
        "accelerators": float(deployment.accelerators),
        "usd_per_hour": money.usd_per_hour,
        "usd_per_mtok_input": money.usd_per_mtok.get("input"),
        "usd_per_mtok_output": money.usd_per_mtok.get("output"),
        "watts": money.watts,
    }
    for budget in scenario.budgets:
        value = values[budget.name]
        if value is not None:
            yield _limit(
                budget.name,
                value,
                budget.limit,
                budget.unit,
                "looser targets, or a cheaper accelerator among the candidates",
            )


def _loads(deployment: Deployment, prediction: Prediction) -> Iterator[Limit]:
    for name, _, state in _pools(deployment, prediction):
        relax = f"more {name} replicas, or less load; a fifth is kept free because step times are not known exactly"
        yield _limit(f"{name}.utilization", state.utilization, MAX_UTILIZATION, "1", relax)


def _memory(scenario: Scenario, deployment: Deployment, prediction: Prediction) -> Iterator[Limit]:
    for name, pool, state in _pools(deployment, prediction):
        total = scenario.accelerator(pool.accelerator).memory_bytes
        fixed = sum(value for part, value in state.memory_bytes.items() if part != "kv")
        relax = "more replicas, an 8-bit KV cache, or more memory per worker"
        yield _limit(f"{name}.weights_memory", fixed, total, "bytes", "a larger TP or EP, or lighter weights")
        yield _limit(f"{name}.kv_tokens", state.kv_p99_tokens, state.kv_capacity_tokens, "tokens", relax)


def _tiers(prediction: Prediction) -> Iterator[Limit]:
    """Bytes that each tier must move, and how often its drives are written full."""
    for state in prediction.tiers[1:]:
        name = f"kv_tiers.{state.id}"
        relax = "more nodes, a faster medium, or more room in a nearer place"
        yield _limit(f"{name}.utilization", state.utilization, 1.0, "1", relax)
        if state.drive_writes_per_day is not None and state.drive_writes_per_day_max is not None:
            relax = "more drives: the same bytes wear them less"
            most = state.drive_writes_per_day_max
            yield _limit(f"{name}.drive_writes", state.drive_writes_per_day, most, "full writes/day", relax)


def _network(prediction: Prediction) -> Iterator[Limit]:
    if prediction.transfer is not None:
        yield _limit(
            "transfer.utilization",
            prediction.transfer.utilization,
            1.0,
            "1",
            "faster or more NICs, or an 8-bit KV cache",
        )
