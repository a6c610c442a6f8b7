"""What a deployment costs: one price basis for every candidate, tokens charged to the pool that makes them."""

from __future__ import annotations

from collections.abc import Iterable

from planner.records import Accelerator, Deployment, Money, Pool, Prediction, Scenario

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


def money(scenario: Scenario, deployment: Deployment, prediction: Prediction, basis: str) -> Money:
    """Rent, cost per million tokens and power.

    Input tokens carry the prefill pool, output tokens the decode pool (MODELLING §11). A colocated pool is split by
    the time its steps spend on each. Load is the long-run mean, not the peak that was sized for.
    """
    watts = _watts(scenario, deployment)
    output_per_s = prediction.output_tokens_per_s
    joules = watts / output_per_s if watts is not None and output_per_s > 0 else None
    if not basis:
        return Money("", None, {}, watts, joules)
    shares = _pool_shares(scenario, deployment, prediction, basis)
    lengths = scenario.workload.lengths
    input_per_s = scenario.workload.requests_per_s * float(lengths.weights @ lengths.input_tokens)
    rates = {"input": input_per_s, "output": output_per_s}
    per_mtok = {
        kind: usd / (rates[kind] * SECONDS_PER_HOUR) * TOKENS_PER_MTOK
        for kind, usd in shares.items()
        if rates[kind] > 0
    }
    return Money(basis, sum(shares.values()), per_mtok, watts, joules)


def _pool_shares(scenario: Scenario, deployment: Deployment, prediction: Prediction, basis: str) -> dict[str, float]:
    decode_usd = _pool_usd_per_hour(scenario, deployment.decode, basis)
    if deployment.prefill is not None:
        return {"input": _pool_usd_per_hour(scenario, deployment.prefill, basis), "output": decode_usd}
    share = prediction.prefill_time_fraction
    return {"input": decode_usd * share, "output": decode_usd * (1.0 - share)}


def _watts(scenario: Scenario, deployment: Deployment) -> float | None:
    total = 0.0
    for pool in deployment.pools:
        accelerator = scenario.accelerator(pool.accelerator)
        watts = accelerator.all_in_watts or accelerator.tdp_watts
        if watts is None:
            return None
        total += pool.accelerators * watts
    return total
