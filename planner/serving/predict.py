"""A given deployment under a scenario's load, as a Prediction: the one entry that every command shares."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from planner.errors import FieldError, raise_every
from planner.records import Accelerator, Deployment, Note, Pool, Prediction, RoleName, Scenario, TierState
from planner.serving import colocated_outcome, disaggregated
from planner.serving.colocated_most import requests_per_s_max
from planner.serving.guards import check_outcome
from planner.serving.intervals import Interval, evidence_class, factors, intervals
from planner.serving.outcome import Outcome
from planner.serving.refusals import refusals
from planner.serving.role import Role, build_role
from planner.serving.tier_report import tier_states
from planner.serving.traffic import Traffic, scenario_traffic

EVIDENCE_NOTES = {
    "new-cell": "this model was not measured on this accelerator: the interval is wider",
    "new-model": "no run of this model was measured: the interval is wider",
    "new-accelerator": "no run on this accelerator was measured: the interval is wider",
    "guess": "operator efficiencies are borrowed from a sibling accelerator: a guess, with a wide interval",
}


def predict(
    scenario: Scenario,
    deployment: Deployment,
    load: Traffic | None = None,
    middle: Outcome | None = None,
    with_intervals: bool = True,
) -> Prediction:
    """Evaluate a deployment as is, and at the fast and slow end of its step times for the intervals.

    `middle` is the evaluation as is, when the caller has it already.
    Raises FieldError when it cannot run (weights do not fit, a split the model refuses), PhysicsError when a result
    would pass a physical limit.

    Id: load.output_tokens_per_s.  min(requests/s, most requests/s) * mean output tokens  (conservation of tokens)
    Id: load.surplus.  most requests/s / (requests/s * peak factor) - 1  (definition)
    Id: load.utilization.  work that arrives per second / what the pool can do per second, in the busiest window
        (QUEUEING §1)
    """
    load = load or scenario_traffic(scenario)
    middle = middle or evaluate_at(scenario, deployment, load)
    bands: Mapping[str, Mapping[str, Interval]] = {}
    if with_intervals:
        by = factors(scenario, deployment)
        low = evaluate_at(scenario, deployment, load, by.step_low)
        high = evaluate_at(scenario, deployment, load, by.step_high)
        bands = intervals(middle, low, high, by)
    most = _requests_per_s_max(scenario, deployment, load, middle)
    return Prediction(
        ttft_s=middle.ttft_s,
        itl_s=middle.itl_s,
        tpot_s=middle.tpot_s,
        e2e_s=middle.e2e_s,
        intervals=bands,
        coverage=scenario.engine.interval_coverage,
        requests_per_s_max=most,
        output_tokens_per_s=min(load.mean_requests_per_s, most) * load.mean_output_tokens,
        ttft_parts_s=middle.ttft_parts_s,
        step_parts_s=middle.step_parts_s,
        prefill=middle.prefill,
        decode=middle.decode,
        transfer=middle.transfer,
        prefill_time_fraction=middle.prefill_time_fraction,
        tiers=_tiers(scenario, deployment, load),
        notes=_notes(scenario, deployment, middle),
        formula_bands=middle.formula_bands,
    )


def evaluate_at(scenario: Scenario, deployment: Deployment, load: Traffic, step_factor: float = 1.0) -> Outcome:
    """One evaluation with every step time scaled by `step_factor`."""
    prefill, decode = bound_roles(scenario, deployment, load, step_factor)
    batch = _batch(decode, deployment.decode)
    if deployment.prefill is None:
        result = colocated_outcome.outcome(decode, deployment.mode, deployment.decode.replicas, batch)
    else:
        replicas = (deployment.prefill.replicas, deployment.decode.replicas)
        result = disaggregated.outcome(scenario, load, prefill, decode, replicas, batch)
    check_outcome(result, prefill, decode)
    return result


def _requests_per_s_max(scenario: Scenario, deployment: Deployment, load: Traffic, middle: Outcome) -> float:
    prefill, decode = bound_roles(scenario, deployment, load, 1.0)
    if deployment.prefill is None:
        carried = float(load.window_requests_per_s.max()) if np.isfinite(middle.itl_s["mean"]) else 0.0
        return requests_per_s_max(decode, deployment.mode, deployment.decode.replicas, middle.chained, carried)
    replicas = (deployment.prefill.replicas, deployment.decode.replicas)
    pools_per_s = disaggregated.requests_per_s_max(prefill, decode, replicas, _batch(decode, deployment.decode))
    network_load = middle.transfer.utilization if middle.transfer is not None else 0.0
    return min(pools_per_s, load.requests_per_s / network_load) if network_load > 0.0 else pools_per_s


def bound_roles(
    scenario: Scenario, deployment: Deployment, load: Traffic, step_factor: float = 1.0
) -> tuple[Role, Role]:
    """The workers that prefill and that decode; one and the same when colocated."""
    placed = {name: (pool, _accelerator(scenario, name, pool)) for name, pool in deployment.named_pools.items()}
    raise_every(
        refusals(
            scenario.engine,
            scenario.model,
            scenario.weights,
            scenario.kv_dtype,
            deployment.mode,
            placed,
            scenario.network_bytes_per_s,
        )
    )
    refused: list[FieldError] = []
    roles: list[Role] = []
    for name, (pool, accelerator) in placed.items():
        try:
            roles.append(_role(scenario, load, name, pool, accelerator, step_factor))
        except FieldError as error:
            refused += error.every
    raise_every(refused)
    return roles[0], roles[-1]


def _tiers(scenario: Scenario, deployment: Deployment, load: Traffic) -> tuple[TierState, ...]:
    if not load.cached_tokens.any():
        return ()
    prefill, _ = bound_roles(scenario, deployment, load)
    return tier_states(prefill, (deployment.prefill or deployment.decode).replicas, scenario.engine)


def _role(
    scenario: Scenario, load: Traffic, name: RoleName, pool: Pool, accelerator: Accelerator, step_factor: float
) -> Role:
    role = build_role(scenario, load, name, pool, accelerator, step_factor)
    if role.why_it_does_not_fit:
        raise FieldError(f"deployment.{name}", role.why_it_does_not_fit)
    return role


def _accelerator(scenario: Scenario, name: str, pool: Pool) -> Accelerator:
    try:
        return scenario.accelerator(pool.accelerator)
    except KeyError:
        raise FieldError(
            f"deployment.{name}.accelerator", f"{pool.accelerator} is not among the scenario's candidates"
        ) from None


def _batch(role: Role, pool: Pool) -> int:
    """The cap of each batch of a worker: its share of what is given, within what memory holds."""
    given = -(-pool.max_batch // role.batches)
    return min(given, role.memory_batch) if given else role.memory_batch


def _notes(scenario: Scenario, deployment: Deployment, middle: Outcome) -> tuple[Note, ...]:
    notes = list(middle.notes)
    evidence = evidence_class(scenario, deployment)
    if evidence in EVIDENCE_NOTES:
        notes.append(Note("caution", EVIDENCE_NOTES[evidence]))
    for name, state in (("prefill", middle.prefill), (deployment.decode_name, middle.decode)):
        if state is not None and state.trust != "ok":
            way_out = "; `planner simulate` says more" if state.trust == "no closed form" else ""
            notes.append(Note("caution", f"{name} pool: {state.trust_reason}{way_out}"))
    return tuple(notes)
