"""A simulation as plain values, beside what the closed forms predict for the same deployment."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from planner import __version__
from planner.records import METRICS, STATISTICS, Plan, Pool, PoolState
from planner.simulation.estimates import Estimate
from planner.simulation.result import FailureSimulation, PoolSimulation, Simulation
from planner.simulation.simulate import Setting

SCHEMA_VERSION = 1

Document = dict[str, Any]


def simulation_document(plan: Plan, found: Simulation, setting: Setting) -> Document:
    """Predicted beside simulated as plain values in base units; null where nothing bounds or measures a number."""
    prediction, deployment = plan.prediction, plan.deployment
    if prediction is None or deployment is None:
        raise ValueError("plan has no deployment to compare with")
    statistics = {
        f"{metric}_s": {
            name: _compared(
                math.nan if setting.clients else getattr(prediction, f"{metric}_s")[name],
                found.statistic(metric, name),
            )
            for name in STATISTICS
        }
        for metric in METRICS
    }
    targets = [
        {
            "name": f"{target.metric}.{target.statistic}",
            "limit_s": target.limit_s,
            **statistics[f"{target.metric}_s"][target.statistic],
            "holds": found.statistic(target.metric, target.statistic).value <= target.limit_s,
        }
        for target in plan.scenario.targets
    ]
    pools: Document = {deployment.decode_name: _pool(deployment.decode, prediction.decode, found.decode)}
    if deployment.prefill is not None and prediction.prefill is not None and found.prefill is not None:
        pools = {"prefill": _pool(deployment.prefill, prediction.prefill, found.prefill)} | pools
    return {
        "schema_version": SCHEMA_VERSION,
        "tool": {"name": "planner", "version": __version__},
        "name": plan.scenario.name,
        "mode": deployment.mode,
        "setting": {
            "requests": found.requests,
            "seed": setting.seed,
            "router": setting.router_for(plan.scenario),
            "arrivals": _arrivals(plan, setting),
            "arrival_scv": setting.arrival_scv,
            "clients": setting.clients,
        },
        "holds": all(target["holds"] for target in targets) and not found.refused,
        "targets": targets,
        "statistics": statistics,
        "wait_s": {name: _estimate(found.wait_s[name]) for name in STATISTICS},
        "pools": pools,
        "requests_per_s": found.requests_per_s,
        "output_tokens_per_s": found.output_tokens_per_s,
        "refused_requests": found.refused,
        "failure": _failure(found.failure, setting) if found.failure else None,
        "confidence": 0.95,
    }


def _failure(found: FailureSimulation, setting: Setting) -> Document:
    """Before, during and after it."""
    return {
        "event": found.event,
        "pool": setting.fail.partition("-")[0],
        "lost_workers": setting.fail_workers if found.event in ("worker", "drain") else 0,
        "lost_units": setting.fail_workers,
        "restored_from": setting.restore or None,
        "at_s": found.at_s,
        "lost_requests": found.lost_requests,
        "restored_mean_s": _number(found.restored_mean_s),
        "restored_last_s": _number(found.restored_last_s),
        "ttft_most_s": _number(found.ttft_most_s),
        "before": {"ttft_s": _values(found.ttft_before_s), "itl_s": _values(found.itl_before_s)},
        "after": {"ttft_s": _values(found.ttft_after_s), "itl_s": _values(found.itl_after_s)},
    }


def _values(found: Mapping[str, Estimate]) -> Document:
    return {name: _number(estimate.value) for name, estimate in found.items()}


def _arrivals(plan: Plan, setting: Setting) -> str:
    if setting.clients:
        return "closed loop"
    if setting.arrival_scv is None and plan.scenario.workload.arrivals is not None:
        return "trace"
    return "poisson" if setting.arrival_scv in (None, 1.0) else "renewal"


def _compared(predicted: float, simulated: Estimate) -> Document:
    known = math.isfinite(predicted) and math.isfinite(simulated.value) and simulated.value > 0.0
    return {
        "predicted": _number(predicted),
        **_estimate(simulated),
        "difference_fraction": predicted / simulated.value - 1.0 if known else None,
    }


def _estimate(simulated: Estimate) -> Document:
    return {"simulated": _number(simulated.value), "low": _number(simulated.low), "high": _number(simulated.high)}


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _pool(pool: Pool, predicted: PoolState, simulated: PoolSimulation) -> Document:
    return {
        "accelerator": pool.accelerator,
        "replicas": pool.replicas,
        "accelerators": pool.accelerators,
        "tp": pool.tp,
        "pp": pool.pp,
        "ep": pool.ep,
        "dp": pool.dp,
        "busy_fraction": _number(simulated.utilization.value),
        "mean_batch": _compared(predicted.mean_batch, simulated.mean_batch),
        "kv_tokens": {
            "mean": _compared(predicted.kv_mean_tokens, simulated.kv_tokens["mean"]),
            "p99": _compared(predicted.kv_p99_tokens, simulated.kv_tokens["p99"]),
        },
        "preemptions": simulated.preemptions,
    }
