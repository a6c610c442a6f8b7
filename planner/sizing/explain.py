"""Sentences about a choice: why an alternative lost, and why nothing fits at all."""

from __future__ import annotations

import numpy as np

from planner.errors import FieldError
from planner.records import Accelerator, Limit, Note, Plan, Prediction, Scenario
from planner.serving.role import build_role
from planner.serving.traffic import Traffic
from planner.sizing.candidates import candidates_of, staged_shapes, worker_shapes
from planner.sizing.limits import target_value
from planner.sizing.search import Candidate
from planner.units import format_seconds


def why_it_lost(
    scenario: Scenario, best: Candidate, other: Candidate, prediction: Prediction, feasible: bool, basis: str
) -> str:
    """Price first; where it misses a target, the one it misses by most."""
    if not feasible:
        return _miss(scenario, other, prediction)
    counts = f"{other.accelerators} accelerators against {best.accelerators}"
    dearer = other.usd_per_hour / best.usd_per_hour - 1.0
    if basis and dearer > 1e-9:
        return f"{dearer:.0%} dearer: {counts}" if other.accelerators > best.accelerators else f"{dearer:.0%} dearer"
    if other.accelerators > best.accelerators:
        return f"same price, {counts}" if basis else counts
    return "same price, less slack" if basis else "as many accelerators, less slack"


def _miss(scenario: Scenario, other: Candidate, prediction: Prediction) -> str:
    ratios = [(target_value(prediction, target) / target.limit_s, target) for target in scenario.targets]
    ratio, target = max(ratios, key=lambda item: item[0])
    if other.over_budget > max(ratio, 1.0):
        if scenario.availability is not None and not scenario.budgets:
            return "too many of its workers fail at once for the availability asked"
        return f"its cheapest plan is over budget by {other.over_budget - 1.0:.0%}"
    value, limit = format_seconds(target_value(prediction, target)), format_seconds(target.limit_s)
    name = f"{target.metric.upper()} {target.statistic.replace('_', '.')}"
    if not np.isfinite(ratio):
        return f"{name} is unbounded: it saturates at its best"
    if ratio <= 1.0:
        return "holds only without the headroom that every pool keeps"
    return f"{name} {value} against {limit} at its best, {ratio - 1.0:.0%} over"


def does_not_fit(scenario: Scenario, load: Traffic) -> Plan:
    """Nothing to propose: per accelerator, the worker that comes nearest to holding one request, and by how much."""
    limits = tuple(_nearest_fit(scenario, load, accelerator) for accelerator in candidates_of(scenario, "colocated"))
    note = Note("warning", "no worker of any allowed shape holds the weights and the longest request beside them")
    return Plan(
        scenario=scenario,
        verdict="infeasible",
        deployment=None,
        prediction=None,
        money=None,
        limits=limits,
        alternatives=(),
        missed=limits,
        notes=(*scenario.notes, note),
    )


def _nearest_fit(scenario: Scenario, load: Traffic, accelerator: Accelerator) -> Limit:
    total = accelerator.memory_bytes
    needed, reason = float("inf"), ""
    for shape in (*worker_shapes(scenario, accelerator), *staged_shapes(accelerator)):
        try:
            role = build_role(scenario, load, "colocated", shape, accelerator)
        except FieldError as error:
            reason = reason or error.message
            continue
        if role.needed_bytes < needed:
            needed = role.needed_bytes
    relax = "lighter weights, an 8-bit KV cache, more memory, or more accelerators in one scale-up domain"
    if not np.isfinite(needed):
        relax = reason
    return Limit(f"{accelerator.id}.memory", needed, total, "bytes", (total - needed) / total, True, relax)
