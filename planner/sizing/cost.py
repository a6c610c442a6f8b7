"""What a deployment costs: one price basis for every candidate, tokens charged to the pool that makes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from planner.records import Accelerator, Deployment, Floats, Money, Pool, Prediction, Scenario

BASES = ("rent3y", "cloud_low")  # in order of preference, before any other; never mixed in one ranking (HOUSE §7)
SECONDS_PER_HOUR = 3600.0
TOKENS_PER_MTOK = 1e6


def price_basis(accelerators: Iterable[Accelerator]) -> str:
    """The first basis on which every candidate has a price; empty when there is none, and accelerators rank."""
    candidates = tuple(accelerators)
    others = sorted({basis for accelerator in candidates for basis in accelerator.usd_per_hour} - set(BASES))
    for basis in (*BASES, *others):
        if all(basis in accelerator.usd_per_hour for accelerator in candidates):
            return basis
    return ""


def ranked_usd_per_hour(scenario: Scenario, deployment: Deployment, basis: str) -> float:
    """Rent on a basis that every pool has [USD/h]; its accelerators where there is no price to rank by."""
    return sum(_pool_usd_per_hour(scenario, pool, basis) for pool in deployment.pools)


def worker_usd_per_hour(pool: Pool, accelerator: Accelerator, basis: str) -> float:
    """Rent of one worker, or its accelerators where there is no price to rank by."""
    return pool.worker_accelerators * (accelerator.usd_per_hour[basis] if basis else 1.0)


def _pool_usd_per_hour(scenario: Scenario, pool: Pool, basis: str) -> float:
    return pool.replicas * worker_usd_per_hour(pool, scenario.accelerator(pool.accelerator), basis)


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

    `mean_batch` is per worker of the pool that decodes.
    """
    decode_usd = _pool_usd_per_hour(scenario, deployment.decode, basis)
    if deployment.prefill is not None:
        return {"input": _pool_usd_per_hour(scenario, deployment.prefill, basis), "output": decode_usd}
    share = float(prompt_share(prefill_time_fraction, mean_batch))
    return {"input": decode_usd * share, "output": decode_usd * (1.0 - share)}


def usd_per_mtok(scenario: Scenario, usd_per_hour: Mapping[str, float]) -> dict[str, float]:
    """Price of a million tokens of each side at the long-run mean load, not at the peak that was sized for."""
    workload = scenario.workload
    tokens = {"input": workload.lengths.input_tokens, "output": workload.lengths.output_tokens}
    per_s = {side: workload.requests_per_s * float(workload.lengths.weights @ tokens[side]) for side in usd_per_hour}
    return {
        side: usd / (per_s[side] * SECONDS_PER_HOUR) * TOKENS_PER_MTOK
        for side, usd in usd_per_hour.items()
        if per_s[side] > 0.0
    }


def budgets_used(
    scenario: Scenario, deployment: Deployment, basis: str, prefill_time_fraction: float, mean_batch: float
) -> list[tuple[float, str]]:
    """Value / limit of every budget, with its name; those in USD only where there is a price."""
    values = {"accelerators": float(deployment.accelerators)}
    if basis:
        usd = pool_usd_per_hour(scenario, deployment, basis, prefill_time_fraction, mean_batch)
        values["usd_per_hour"] = sum(usd.values())
        values |= {f"usd_per_mtok_{side}": price for side, price in usd_per_mtok(scenario, usd).items()}
    return [(values[b.name] / b.limit, b.name) for b in scenario.budgets if b.name in values]


def money(scenario: Scenario, deployment: Deployment, prediction: Prediction, basis: str) -> Money:
    """Rent, cost per million tokens and power. Tokens have no price where the deployment does not carry the load."""
    watts = _watts(scenario, deployment)
    carried = prediction.requests_per_s_max >= scenario.workload.requests_per_s
    output_per_s = prediction.output_tokens_per_s
    joules = watts / output_per_s if watts is not None and carried and output_per_s > 0.0 else None
    if not basis:
        return Money("", None, {}, watts, joules)
    usd = pool_usd_per_hour(scenario, deployment, basis, prediction.prefill_time_fraction, prediction.decode.mean_batch)
    return Money(basis, sum(usd.values()), usd_per_mtok(scenario, usd) if carried else {}, watts, joules)


def _watts(scenario: Scenario, deployment: Deployment) -> float | None:
    total = 0.0
    for pool in deployment.pools:
        accelerator = scenario.accelerator(pool.accelerator)
        watts = accelerator.all_in_watts or accelerator.tdp_watts
        if watts is None:
            return None
        total += pool.accelerators * watts
    return total
