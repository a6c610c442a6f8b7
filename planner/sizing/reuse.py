"""Sizing where hits depend on what is bought: plan, see what its caches hold, plan again.

A plan is sized for the hits that an empty cache reaches under the load: what holds then holds warm as well.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from planner.records import Deployment, Note, Plan, Scenario
from planner.serving.flow import plant_of
from planner.serving.residency import at_load, settled
from planner.serving.reuse import knows_reuse, with_hits
from planner.sizing.tier_choice import chosen, has_open_sizes, nothing_found, with_sizes

ROUNDS = 6
WARMER = 0.02  # of prompt tokens: a difference between the two states that is worth a word
NO_REUSE = Note("info", "`kv_tiers` changes nothing: the workload does not say what its prompts share")
RATIO_ONLY = Note(
    "info",
    "a stated prefix_hit_ratio is taken as found in the accelerator's memory; `kv_tiers` needs a trace or sessions",
)


def sized(scenario: Scenario, size: Callable[[Scenario], Plan]) -> Plan:
    """The plan of `size` for the hits that its own caches give."""
    if not knows_reuse(scenario.workload):
        return size(with_sizes(_noted(scenario), {}))
    if not has_open_sizes(scenario):
        return _settled_plan(scenario, size)
    first = chosen(scenario, size(nothing_found(scenario)).deployment)
    plan = _settled_plan(first, size)
    second = chosen(scenario, plan.deployment)  # a plan with hits has other memory, and other misses to save
    return plan if second.tiers == first.tiers else _settled_plan(second, size)


def _settled_plan(scenario: Scenario, size: Callable[[Scenario], Plan]) -> Plan:
    """Plans and their hits in turn, until a plan comes back."""
    question = _first_guess(scenario)
    plan, seen = size(question), list[Deployment]()
    for _ in range(ROUNDS):
        if plan.deployment is None or plan.deployment in seen:
            break
        seen.append(plan.deployment)
        cold = settled(plant_of(scenario, plan.deployment), "cold")
        plan = size(at_load(scenario, cold))
    if plan.deployment is None:
        return plan
    return _with_note(plan, scenario)


def resolved(scenario: Scenario, deployment: Deployment) -> Scenario:
    """The scenario with the hits that the caches of a deployment reach from empty under its load."""
    if not knows_reuse(scenario.workload):
        return with_sizes(_noted(scenario), {})
    return at_load(scenario, settled(plant_of(scenario, deployment), "cold"))


def _noted(scenario: Scenario) -> Scenario:
    if not scenario.tiers:
        return scenario
    note = RATIO_ONLY if scenario.workload.prefix_hit_fraction else NO_REUSE
    return replace(scenario, notes=(*scenario.notes, note))


def _first_guess(scenario: Scenario) -> Scenario:
    """Nothing found anywhere; the first plan has memory for more than that."""
    levels = [0.0] * (1 + len(scenario.tiers))
    workload = with_hits(scenario.workload, levels, scenario.engine.memory.block_tokens)
    return replace(scenario, workload=workload)


def _with_note(plan: Plan, scenario: Scenario) -> Plan:
    """A word on the warm state, where it finds more than the one that the plan is sized for."""
    if plan.deployment is None:
        return plan
    plant = plant_of(scenario, plan.deployment)
    cold, warm = settled(plant, "cold").hit_fraction, settled(plant, "warm").hit_fraction
    if warm - cold < WARMER:
        return plan
    text = (
        f"two settled states: a warm cache finds {warm:.0%} of the prompt tokens, one that starts empty {cold:.0%}; "
        "the plan is sized for the second"
    )
    return replace(plan, notes=(*plan.notes, Note("caution", text)))
