"""The inputs part of a result document: everything the numbers rest on, with sources and checksums."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

import numpy as np

from planner.engines.constants import serving_constants
from planner.records import Accelerator, Deployment, Floats, ModelShape, Scenario, Workload
from planner.review.catalog import sourced_value

Document = dict[str, Any]

# Catalog values that reach a prediction, in the order the report shows them.
ACCELERATOR_VALUES = (
    "memory_bytes",
    "memory_bytes_per_s",
    "bf16_dense_flops_per_s",
    "fp8_dense_flops_per_s",
    "fp4_dense_flops_per_s",
    "int8_dense_flops_per_s",
    "scaleup_bytes_per_s",
    "scaleup_domain",
    "node_accelerators",
    "host_bytes_per_s",
    "nic_bytes_per_s",
    "tdp_watts",
    "all_in_watts",
    "compute_units",
)

LENGTH_QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}


def inputs_document(scenario: Scenario, *, deployment: Deployment | None, price_basis: str) -> Document:
    """Return what a result rests on: files, model, engine, catalog values with their sources, traffic, limits.

    Parameters
    ----------
    deployment : Deployment
        The chosen one, whose mode and pools decide the engine constants that apply; None when there is none.
    price_basis : str
        The basis that prices were taken on; empty when a price is missing.
    """
    return {
        "scenario": scenario.name,
        "files": [asdict(file) for file in scenario.inputs],
        "model": _model(scenario.model, scenario),
        "engine": _engine(scenario, deployment),
        "accelerators": [_accelerator(item, price_basis) for item in _candidates(scenario)],
        "network_bytes_per_s": scenario.network_bytes_per_s,
        "router": scenario.router,
        "workload": _workload(scenario.workload),
        "targets": [asdict(target) for target in scenario.targets],
        "budgets": [asdict(budget) for budget in scenario.budgets],
        "deployment_given": scenario.deployment is not None,
    }


def joint_hash(checksums: Iterable[str]) -> str:
    """The first digits of a checksum over others, in their order."""
    return hashlib.sha256("\n".join(checksums).encode()).hexdigest()[:12]


def catalog_hash(scenario: Scenario) -> str:
    """Of the model, the engine and every accelerator that a scenario offers."""
    accelerators = (one.sha256 for one in _candidates(scenario))
    return joint_hash([scenario.model.sha256, scenario.engine.sha256, *accelerators])


def _candidates(scenario: Scenario) -> list[Accelerator]:
    """Every accelerator the scenario offers, once, prefill candidates first."""
    return list({item.id: item for item in (*scenario.prefill_accelerators, *scenario.decode_accelerators)}.values())


def _model(model: ModelShape, scenario: Scenario) -> Document:
    return {
        "id": model.id,
        "architecture": model.architecture,
        "checkpoint_format": model.checkpoint_format,
        "weight_dtype": scenario.weights,
        "kv_dtype": scenario.kv_dtype,
        "max_context_tokens": model.max_context_tokens,
        "source": model.source,
        "sha256": model.sha256,
    }


def _engine(scenario: Scenario, deployment: Deployment | None) -> Document:
    engine = scenario.engine
    separate = deployment is not None and deployment.prefill is not None
    constants = engine.disaggregated if separate else engine.colocated
    return {
        "id": engine.id,
        "version": engine.version,
        "scheduling": engine.scheduling,
        "token_budget": engine.token_budget,
        "max_batch": engine.max_batch,
        "reserved_output_fraction": engine.reserved_output_fraction,
        "decode_reserved_tokens": engine.decode_reserved_tokens,
        "constants": asdict(constants),
        "applied": _applied(scenario, deployment) if deployment else {},
        "memory_rule": asdict(engine.memory),
        **asdict(engine.provenance),
        "sha256": engine.sha256,
    }


def _applied(scenario: Scenario, deployment: Deployment) -> Document:
    """Per pool, the constants as they apply to this model on its accelerator: what the measured groups deviate by."""
    return {
        name: asdict(
            serving_constants(
                scenario.engine,
                deployment.prefill is None,
                model=scenario.model.id,
                accelerator=pool.accelerator,
                weights=scenario.weights,
                dp=pool.dp,
            )
        )
        for name, pool in deployment.named_pools.items()
        if pool is not None
    }


def _accelerator(accelerator: Accelerator, price_basis: str) -> Document:
    values = {name: getattr(accelerator, name) for name in ACCELERATOR_VALUES}
    price = f"usd_per_hour.{price_basis}"
    values[price] = accelerator.usd_per_hour.get(price_basis)
    return {
        "id": accelerator.id,
        "vendor": accelerator.vendor,
        "status": accelerator.status,
        "efficiency_like": accelerator.efficiency_like or None,
        "values": {
            name: sourced_value(accelerator, name, value) for name, value in values.items() if value is not None
        },
        "sha256": accelerator.sha256,
    }


def _workload(workload: Workload) -> Document:
    lengths = workload.lengths
    return {
        "description": workload.description,
        "requests_per_s": workload.requests_per_s,
        "peak_factor": workload.peak_factor,
        "peak_duration_s": workload.peak_duration_s,
        "input_tokens": length_statistics(lengths.input_tokens, lengths.weights),
        "output_tokens": length_statistics(lengths.output_tokens, lengths.weights),
        "longest_input_tokens": math.ceil(lengths.input_tokens.max()),
        "longest_request_tokens": math.ceil((lengths.input_tokens + lengths.output_tokens).max()),
    }


def length_statistics(tokens: Floats, weights: Floats) -> dict[str, float]:
    """Mean and quantiles of a discrete law: the smallest value whose cumulative weight reaches the probability.

    Parameters
    ----------
    tokens, weights : arrays of one shape
        Atoms and their probabilities, which sum to 1.
    """
    order = np.argsort(tokens, kind="stable")
    cumulative = np.cumsum(weights[order])
    statistics = {"mean": float(np.dot(tokens, weights))}
    for name, probability in LENGTH_QUANTILES.items():
        # The last partial sum may fall short of 1 by rounding.
        index = min(int(np.searchsorted(cumulative, probability * (1 - 1e-12))), len(tokens) - 1)
        statistics[name] = float(tokens[order][index])
    return statistics
