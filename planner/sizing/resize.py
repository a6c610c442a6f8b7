"""The same kind of workers in another number: what a plan becomes when its question changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from planner.errors import FieldError
from planner.records import Deployment, Pool, RoleName, Scenario
from planner.serving.predict import evaluate_at
from planner.serving.role import Role, build_role
from planner.serving.traffic import Traffic
from planner.sizing import colocated
from planner.sizing.candidates import batch_caps, decode_columns, prefill_columns
from planner.sizing.search import Candidate, pair
from planner.sizing.targets import violation

TRIED = 6  # candidates of a resizing that are evaluated before it is given up


def resized(
    scenario: Scenario, load: Traffic, deployment: Deployment, basis: str, step_factor: float = 1.0
) -> Deployment | None:
    """The cheapest numbers of the same workers that hold, with the headroom of every plan; None when none do.

    Shapes, modes and token budgets stay; the batch cap follows the pool.
    """
    try:
        candidates = _same_workers(scenario, load, deployment, basis, step_factor)
    except FieldError:
        return None
    for candidate in sorted(candidates, key=lambda item: item.rank)[:TRIED]:
        if candidate.violation > 1.0:
            break
        try:
            outcome = evaluate_at(scenario, candidate.deployment, load, step_factor)
        except FieldError:
            continue
        if violation(scenario, outcome) <= 1.0:
            return candidate.deployment
    return None


def _same_workers(
    scenario: Scenario, load: Traffic, deployment: Deployment, basis: str, step_factor: float
) -> Sequence[Candidate]:
    targets = scenario.targets

    def worker(name: RoleName, pool: Pool) -> tuple[Pool, Role]:
        return _worker(scenario, load, name, pool, step_factor)

    if deployment.prefill is None:
        pool, role = worker("colocated", deployment.decode)
        return colocated.of_shape(scenario, load, deployment.mode, targets, basis, pool, role)
    first = prefill_columns(scenario, load, targets, *worker("prefill", deployment.prefill))
    shape, role = worker("decode", deployment.decode)
    return [
        candidate
        for cap in batch_caps(role, targets)
        for candidate in pair(scenario, load, targets, basis, first, decode_columns(load, targets, shape, role, cap))
    ]


def _worker(scenario: Scenario, load: Traffic, name: RoleName, pool: Pool, step_factor: float) -> tuple[Pool, Role]:
    """The worker without its number and cap. Raises FieldError where the changed question does not fit it."""
    shape = replace(pool, replicas=1, max_batch=0)
    role = build_role(scenario, load, name, shape, scenario.accelerator(pool.accelerator), step_factor)
    if role.why_it_does_not_fit:
        raise FieldError(f"deployment.{name}", role.why_it_does_not_fit)
    return shape, role
