"""What a deployment costs: one price basis for every candidate, tokens charged to the pool that makes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import cast

import numpy as np

from planner.records import (
    Accelerator,
    CostLine,
    Deployment,
    Floats,
    KvTier,
    Money,
    Pool,
    Prediction,
    Provenance,
    RoleName,
    Scenario,
    TierState,
)
from planner.roofline.steps import prefill_s
from planner.serving.role import Role, build_role
from planner.serving.tiers import NETWORK_KINDS, nodes_of
from planner.serving.traffic import scenario_traffic
from planner.sizing.tco import cost_lines, spans_nodes

BASES = ("rent3y", "cloud_low")  # in order of preference, before any other; never mixed in one ranking (HOUSE §7)
SECONDS_PER_HOUR = 3600.0
TOKENS_PER_MTOK = 1e6
_CATALOG = Provenance("catalog", "", "estimate")


def price_basis(accelerators: Iterable[Accelerator], asked: str = "") -> str:
    """The basis asked for, else the first on which every candidate has a price; empty when there is none."""
    if asked:
        return asked
    candidates = tuple(accelerators)
    others = sorted({basis for accelerator in candidates for basis in accelerator.usd_per_hour} - set(BASES))
    for basis in (*BASES, *others):
        if all(basis in accelerator.usd_per_hour for accelerator in candidates):
            return basis
    return ""


def ranked_usd_per_hour(scenario: Scenario, deployment: Deployment, basis: str) -> float:
    """Rent on a basis that every pool has, and its tiers [USD/h]; accelerators where there is no price to rank by."""
    apart = deployment.prefill is not None
    pools = sum(_pool_usd_per_hour(scenario, pool, basis, apart) for pool in deployment.pools)
    return pools + (tiers_usd_per_hour(scenario, deployment) if basis else 0.0)


def worker_usd_per_hour(pool: Pool, accelerator: Accelerator, basis: str, apart: bool = False) -> float:
    """Rent of one worker, or its accelerators where there is no price to rank by.

    Where the fabric between nodes has a price of its own it is paid by pools that are `apart`, whose caches cross it,
    and by workers that are wider than a node.
    """
    if not basis:
        return float(pool.worker_accelerators)
    usd = accelerator.usd_per_hour[basis]
    if apart or spans_nodes(pool.worker_accelerators, accelerator):
        usd += accelerator.fabric_usd_per_hour.get(basis, 0.0)
    return pool.worker_accelerators * usd


def _pool_usd_per_hour(scenario: Scenario, pool: Pool, basis: str, apart: bool) -> float:
    return pool.replicas * worker_usd_per_hour(pool, scenario.accelerator(pool.accelerator), basis, apart)


def prompt_share(prefill_time_fraction: Floats | float, mean_batch: Floats | float) -> Floats:
    """Share of a shared pool's rent that prompts carry, idle time split as the busy time is.

    Prompts take `prefill_time_fraction` of a worker's time; of the rest it decodes while anyone is there, which with
    Poisson occupancy of mean `mean_batch` has the chance 1 - e^-batch. Broadcasts; 0 where nothing runs.
    """
    prompts = np.asarray(prefill_time_fraction, dtype=float)
    decodes = (1.0 - prompts) * -np.expm1(-np.asarray(mean_batch, dtype=float))
    return np.asarray(prompts / np.maximum(prompts + decodes, 1e-12))


def pool_usd_per_hour(
    scenario: Scenario, deployment: Deployment, basis: str, prefill_time_fraction: float, mean_batch: float
) -> dict[str, float]:
    """Rent that input and output tokens carry: the pool of each, or a shared pool by the time of each (MODELLING §11).

    `mean_batch` is per worker of the pool that decodes. "tiers": what keeps KV below the accelerators' memory.
    """
    tiers = {"tiers": tiers_usd_per_hour(scenario, deployment)}
    decode_usd = _pool_usd_per_hour(scenario, deployment.decode, basis, deployment.prefill is not None)
    if deployment.prefill is not None:
        return {"input": _pool_usd_per_hour(scenario, deployment.prefill, basis, True), "output": decode_usd} | tiers
    share = float(prompt_share(prefill_time_fraction, mean_batch))
    return {"input": decode_usd * share, "output": decode_usd * (1.0 - share)} | tiers


def usd_per_mtok(
    scenario: Scenario, usd_per_hour: Mapping[str, float], cached_time_fraction: float = 0.0
) -> dict[str, float]:
    """Price of a million tokens of each side at the mean load round the clock, not at the peak that was sized for.

    Prompt tokens found in a cache are priced apart: they carry `cached_time_fraction` of the time that prompts take,
    and the tiers that keep them.
    """
    tokens = tokens_per_hour(scenario)
    usd = {
        "input": usd_per_hour["input"] * (1.0 - cached_time_fraction),
        "cached_input": usd_per_hour["input"] * cached_time_fraction + usd_per_hour.get("tiers", 0.0),
        "output": usd_per_hour["output"],
    }
    return {side: usd[side] / count * TOKENS_PER_MTOK for side, count in tokens.items() if count > 0.0}


def tokens_per_hour(scenario: Scenario) -> dict[str, float]:
    """Tokens of each side that are paid for [tokens/h]: the mean rate, times the share of it that is there all day."""
    workload, lengths = scenario.workload, scenario.workload.lengths
    cached = lengths.cached_tokens
    if cached is None:
        cached = lengths.input_tokens * workload.prefix_hit_fraction
    per_hour = workload.requests_per_s * scenario.costs.duty_fraction * SECONDS_PER_HOUR
    found = float(lengths.weights @ np.minimum(cached, np.maximum(lengths.input_tokens - 1.0, 0.0)))
    return {
        "input": per_hour * (float(lengths.weights @ lengths.input_tokens) - found),
        "cached_input": per_hour * found,
        "output": per_hour * float(lengths.weights @ lengths.output_tokens),
    }


def cached_time_fraction(role: Role) -> float:
    """Share of the prefill time that tokens found in a cache cost: what attending to them adds."""
    traffic = role.traffic
    if not traffic.cached_tokens.any():
        return 0.0
    alone = prefill_s(role.worker, traffic.new_tokens, role.token_budget, busy_ranks=role.dp).total_s
    whole = float(traffic.input_weights @ role.service_s)
    return max(1.0 - float(traffic.input_weights @ np.asarray(alone)) * role.step_factor / whole, 0.0)


def budgets_used(
    scenario: Scenario, deployment: Deployment, basis: str, prefill_time_fraction: float, mean_batch: float
) -> list[tuple[float, str]]:
    """Value / limit of every budget, with its name; those in USD only where there is a price."""
    values = {"accelerators": float(deployment.accelerators), "watts": watts_of(scenario, deployment)}
    if basis:
        usd = pool_usd_per_hour(scenario, deployment, basis, prefill_time_fraction, mean_batch)
        values["usd_per_hour"] = sum(usd.values())
        values |= {f"usd_per_mtok_{side}": price for side, price in usd_per_mtok(scenario, usd).items()}
    known = ((budget, values.get(budget.name)) for budget in scenario.budgets)
    return [(value / budget.limit, budget.name) for budget, value in known if value is not None]


def money(scenario: Scenario, deployment: Deployment, prediction: Prediction, basis: str) -> Money:
    """Rent by part, cost per million tokens, power. Tokens have no price where the deployment cannot carry the load.

    Id: cost.usd_per_hour.  sum over the pools of accelerators * USD per accelerator-hour on one price basis, and what
        the scenario adds to it  (MODELLING §11)
    Id: cost.usd_per_mtok.  USD/h of the pool that makes the tokens / (tokens/s * 3600) * 1e6; a shared pool is split
        by the share of its time that prefill takes  (MODELLING §11)
    Id: cost.joules_per_output_token.  watts / output tokens per s  (MODELLING §11)
    """
    watts = watts_of(scenario, deployment)
    carried = prediction.requests_per_s_max >= scenario.workload.requests_per_s
    output_per_s = prediction.output_tokens_per_s
    joules = watts / output_per_s if watts is not None and carried and output_per_s > 0.0 else None
    if not basis:
        return Money("", None, {}, watts, joules)
    usd = pool_usd_per_hour(scenario, deployment, basis, prediction.prefill_time_fraction, prediction.decode.mean_batch)
    total = sum(usd.values())
    requests_per_hour = scenario.workload.requests_per_s * scenario.costs.duty_fraction * SECONDS_PER_HOUR
    return Money(
        basis,
        total,
        usd_per_mtok(scenario, usd, _cached_fraction(scenario, deployment)) if carried else {},
        watts,
        joules,
        total / requests_per_hour if carried else None,
        (*cost_lines(scenario, deployment, basis), *tier_lines(scenario, deployment)),
    )


def _cached_fraction(scenario: Scenario, deployment: Deployment) -> float:
    if tokens_per_hour(scenario)["cached_input"] <= 0.0:
        return 0.0
    pool, name = deployment.prefill or deployment.decode, "prefill" if deployment.prefill else "colocated"
    accelerator = scenario.accelerator(pool.accelerator)
    return cached_time_fraction(
        build_role(scenario, scenario_traffic(scenario), cast(RoleName, name), pool, accelerator)
    )


def watts_of(scenario: Scenario, deployment: Deployment) -> float | None:
    """Power with host, network and cooling where the catalog has it, of the board otherwise; None where unknown [W].

    Id: cost.watts.  sum over the pools of accelerators * (all-in power, else TDP)  (MODELLING §11)
    """
    total = 0.0
    for pool in deployment.pools:
        accelerator = scenario.accelerator(pool.accelerator)
        watts = accelerator.all_in_watts or accelerator.tdp_watts
        if watts is None:
            return None
        total += pool.accelerators * watts
    return total


def tier_usd_per_hour(tier: KvTier, nodes: int) -> float | None:
    """Price of a tier over all nodes [USD/h]; None where it comes with the node or has no price."""
    if tier.gb_usd_per_hour is None or tier.capacity_bytes is None:
        return None
    return tier.gb_usd_per_hour * tier.capacity_bytes / 1e9 * (1 if tier.kind in NETWORK_KINDS else nodes)


def tiers_usd_per_hour(scenario: Scenario, deployment: Deployment) -> float:
    """Price of all tiers of a deployment [USD/h]; those without a price of their own count nothing."""
    return sum(line.usd_per_hour for line in tier_lines(scenario, deployment))


def tier_lines(scenario: Scenario, deployment: Deployment) -> tuple[CostLine, ...]:
    """What each tier adds to the price, over the nodes of the pool whose prompts it keeps; none that keeps nothing."""
    found = scenario.workload.lengths.cached_tokens
    if found is None or not found.any():
        return ()
    pool = deployment.prefill or deployment.decode
    nodes = nodes_of(pool.accelerators, scenario.accelerator(pool.accelerator))
    priced = [(tier, tier_usd_per_hour(tier, nodes)) for tier in scenario.tiers]
    return tuple(
        CostLine(f"KV in {tier.id}", usd, usd, usd, tier.provenance.get("price_per_gb", _CATALOG))
        for tier, usd in priced
        if usd
    )


def priced_tiers(scenario: Scenario, deployment: Deployment, prediction: Prediction, basis: str) -> Prediction:
    """The prediction with what each tier costs, and what its hits save after that."""
    if not prediction.tiers or not basis:
        return prediction
    pool = deployment.prefill or deployment.decode
    accelerator = scenario.accelerator(pool.accelerator)
    nodes, tiers = nodes_of(pool.accelerators, accelerator), {tier.id: tier for tier in scenario.tiers}

    def priced(state: TierState) -> TierState:
        own = tier_usd_per_hour(tiers[state.id], nodes) if state.id in tiers else None
        saved = state.saved_accelerators * accelerator.usd_per_hour[basis] - (own or 0.0)
        return replace(state, usd_per_hour=own, saved_usd_per_hour=saved)

    return replace(prediction, tiers=tuple(map(priced, prediction.tiers)))
