"""A given deployment under a scenario's load, as a Prediction: the one entry that search, evaluate and compare share."""

from __future__ import annotations

from planner.errors import FieldError
from planner.records import Accelerator, Deployment, Note, Pool, Prediction, Scenario
from planner.serving import colocated, disaggregated
from planner.serving.guards import check_outcome
from planner.serving.intervals import evidence_class, factors, intervals
from planner.serving.outcome import Outcome
from planner.serving.role import Role, build_role
from planner.serving.traffic import Traffic, traffic

EVIDENCE_NOTES = {
    "new-cell": "this model was not measured on this accelerator: the interval is wider",
    "new-model": "no run of this model was measured: the interval is wider",
    "new-accelerator": "no run on this accelerator was measured: the interval is wider",
    "guess": "operator efficiencies are borrowed from a sibling accelerator: a guess, with a wide interval",
}


def predict(scenario: Scenario, deployment: Deployment, load: Traffic | None = None) -> Prediction:
    """Evaluate a deployment three times: as is, and at the fast and slow end of its step times.

    Raises FieldError when it cannot run (weights do not fit, a split the model refuses), PhysicsError when a result
    would pass a physical limit.
    """
    load = load or traffic(scenario.workload)
    by = factors(scenario, deployment)
    middle = evaluate_at(scenario, deployment, load, 1.0)
    low = evaluate_at(scenario, deployment, load, by.step_low)
    high = evaluate_at(scenario, deployment, load, by.step_high)
    return Prediction(
        ttft_s=middle.ttft_s,
        itl_s=middle.itl_s,
        tpot_s=middle.tpot_s,
        e2e_s=middle.e2e_s,
        intervals=intervals(middle, low, high, by),
        coverage=scenario.engine.interval_coverage,
        requests_per_s_max=middle.requests_per_s_max,
        output_tokens_per_s=min(load.mean_requests_per_s, middle.requests_per_s_max) * load.mean_output_tokens,
        ttft_parts_s=middle.ttft_parts_s,
        step_parts_s=middle.step_parts_s,
        prefill=middle.prefill,
        decode=middle.decode,
        transfer=middle.transfer,
        prefill_time_fraction=middle.prefill_time_fraction,
        notes=_notes(scenario, deployment, middle),
    )


def evaluate_at(scenario: Scenario, deployment: Deployment, load: Traffic, step_factor: float) -> Outcome:
    """One evaluation with every step time scaled by `step_factor`."""
    decode_pool = deployment.decode
    if deployment.prefill is None:
        role = _role(scenario, load, "colocated", decode_pool, step_factor)
        result = colocated.outcome(role, deployment.mode, decode_pool.replicas, _batch(role, decode_pool))
        check_outcome(result, role, role)
        return result
    prefill = _role(scenario, load, "prefill", deployment.prefill, step_factor)
    decode = _role(scenario, load, "decode", decode_pool, step_factor)
    replicas = (deployment.prefill.replicas, decode_pool.replicas)
    result = disaggregated.outcome(scenario, load, prefill, decode, replicas, _batch(decode, decode_pool))
    check_outcome(result, prefill, decode)
    return result


def _role(scenario: Scenario, load: Traffic, name: str, pool: Pool, step_factor: float) -> Role:
    role = build_role(scenario, load, name, pool, _accelerator(scenario, name, pool), step_factor)
    if role.memory.kv_bytes <= 0.0:
        raise FieldError(f"deployment.{name}", role.memory.why_it_does_not_fit)
    return role


def _accelerator(scenario: Scenario, name: str, pool: Pool) -> Accelerator:
    try:
        return scenario.accelerator(pool.accelerator)
    except KeyError:
        raise FieldError(f"deployment.{name}.accelerator", f"{pool.accelerator} is not among the scenario's candidates") from None


def _batch(role: Role, pool: Pool) -> int:
    fits = role.memory_batch
    if fits < 1:
        raise FieldError(
            f"deployment.{role.name}",
            f"the weights fit {role.accelerator.id}, but not one request of this length beside them "
            f"({role.memory.kv_bytes / 1e9:.1f} GB of KV room per accelerator); use a larger tp",
        )
    return min(pool.max_batch, fits) if pool.max_batch else fits


def _notes(scenario: Scenario, deployment: Deployment, middle: Outcome) -> tuple[Note, ...]:
    notes = list(middle.notes)
    evidence = evidence_class(scenario, deployment)
    if evidence in EVIDENCE_NOTES:
        notes.append(Note("caution", EVIDENCE_NOTES[evidence]))
    for name, state in (("prefill", middle.prefill), ("decode", middle.decode)):
        if state is not None and state.trust != "ok":
            notes.append(Note("caution", f"{name} pool: {state.trust_reason}"))
    return tuple(notes)
