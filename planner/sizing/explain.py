"""Sentences about a choice: why an alternative lost, and why nothing fits at all."""

from __future__ import annotations

from planner.errors import FieldError
from planner.records import Limit, Note, Plan, Pool, Prediction, Scenario
from planner.serving.role import Role, build_role
from planner.serving.traffic import Traffic
from planner.sizing.candidates import worker_shapes
from planner.sizing.limits import target_value
from planner.sizing.search import Candidate


def why_it_lost(scenario: Scenario, best: Candidate, other: Candidate, prediction: Prediction, feasible: bool) -> str:
    """Price first; where it misses a target, the one it misses by most and the part that makes it."""
    if not feasible:
        return _miss(scenario, other, prediction)
    if other.usd_per_hour > best.usd_per_hour * (1.0 + 1e-9):
        dearer = other.usd_per_hour / best.usd_per_hour - 1.0
        if other.accelerators > best.accelerators:
            return f"{dearer:.0%} dearer: {other.accelerators} accelerators against {best.accelerators}"
        return f"{dearer:.0%} dearer, on {other.accelerators} accelerators against {best.accelerators}"
    if other.accelerators > best.accelerators:
        return f"same price, {other.accelerators} accelerators against {best.accelerators}"
    return "same price, less slack"


def _miss(scenario: Scenario, other: Candidate, prediction: Prediction) -> str:
    ratios = [(target_value(prediction, target) / target.limit_s, target) for target in scenario.targets]
    ratio, target = max(ratios, key=lambda item: item[0])
    if other.over_budget > max(ratio, 1.0):
        return f"its cheapest plan is over budget by {other.over_budget - 1.0:.0%}"
    value_ms, limit_ms = target_value(prediction, target) * 1e3, target.limit_s * 1e3
    name = f"{target.metric} {target.statistic.replace('_', '.')}"
    return f"misses {name}: {value_ms:.4g} ms against {limit_ms:.4g} ms at its best ({ratio - 1.0:.0%} over)"


def does_not_fit(scenario: Scenario, load: Traffic) -> Plan:
    """No worker of any shape holds the model and one request: the widest one of each accelerator, and by how much."""
    limits = []
    for accelerator in dict.fromkeys((*scenario.prefill_accelerators, *scenario.decode_accelerators)):
        closest: Role | None = None
        reason = ""
        for shape in worker_shapes(scenario, accelerator):
            role, why = _try(scenario, load, shape)
            reason = reason or why
            if role is not None and (closest is None or role.memory.kv_bytes > closest.memory.kv_bytes):
                closest = role
        if closest is None:
            limits.append(Limit(f"{accelerator.id}.split", 1.0, 0.0, "1", -1.0, True, reason))
            continue
        used = sum(value for part, value in closest.memory.parts().items() if part != "kv")
        total = accelerator.memory_bytes
        relax = f"lighter weights, or a scale-up domain larger than {accelerator.scaleup_domain} x {accelerator.id}"
        limits.append(Limit(f"{accelerator.id}.memory", used, total, "bytes", (total - used) / total, True, relax))
    note = Note("warning", "no worker of any allowed shape holds the weights and one request beside them")
    return Plan(
        scenario=scenario,
        verdict="infeasible",
        deployment=None,
        prediction=None,
        money=None,
        limits=tuple(limits),
        alternatives=(),
        missed=tuple(limits),
        notes=(*scenario.notes, note),
    )


def _try(scenario: Scenario, load: Traffic, shape: Pool) -> tuple[Role | None, str]:
    accelerators = {a.id: a for a in (*scenario.prefill_accelerators, *scenario.decode_accelerators)}
    try:
        return build_role(scenario, load, "decode", shape, accelerators[shape.accelerator]), ""
    except FieldError as error:
        return None, error.message
