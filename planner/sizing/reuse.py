"""Sizing where hits depend on what is bought: plan, see what its caches hold, plan again.

A plan counts by what its own caches reach from empty under its load, and by the rate that its users would send if
nobody waited: users who are kept waiting send less, and a plan must not be sized for that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from planner.records import Deployment, Note, Plan, Scenario, Workload
from planner.serving.flow import plant_of
from planner.serving.residency import Settled, at_load, on_edge, settled
from planner.serving.reuse import EVERYTHING_TOKENS, hit_fractions, knows_reuse, with_hits
from planner.sizing.tier_choice import MORE_LOAD, chosen, has_open_sizes, nothing_found, with_sizes

ROUNDS = 6
ALIKE = 0.01  # of prompt tokens, or of the rate: closer, a plan is what it was sized for
CARRIED = 0.97  # of what users would send if nobody waited
WARMER = 0.02  # of prompt tokens: a difference between the two states that is worth a word
NO_REUSE = Note("info", "`kv_tiers` changes nothing: the workload does not say what its prompts share")
RATIO_ONLY = Note(
    "info",
    "a stated prefix_hit_ratio is taken as found in the accelerator's memory; `kv_tiers` needs a trace or sessions",
)


Size = Callable[[Scenario], Plan]
Evaluate = Callable[[Scenario, Deployment], Plan]


@dataclass(frozen=True, slots=True)
class _Trial:
    """A plan by what its own caches find. `holds`: nobody is kept waiting, and the targets are met."""

    plan: Plan
    deployment: Deployment
    state: Settled
    holds: bool


def sized(scenario: Scenario, size: Size, evaluate: Evaluate, empty: Plan | None = None) -> Plan:
    """The plan of `size` for the hits that its own caches give; `evaluate` says what a deployment does with others.

    `empty` : the plan of `size` as if nothing were found, where it is known.
    """
    if not knows_reuse(scenario.workload):
        return size(with_sizes(_noted(scenario), {}))
    empty = size(nothing_found(scenario)) if empty is None else empty
    if not has_open_sizes(scenario):
        return _settled_plan(scenario, empty, size, evaluate)
    # memory that was bought for work may hold everything by itself; where all is found, little memory is bought
    bought = [empty.deployment, size(_all_found(scenario)).deployment]
    filled = [chosen(scenario, deployment) for deployment in bought]
    different = filled[:1] if filled[0].tiers == filled[1].tiers else filled
    plans = [_settled_plan(one, empty, size, evaluate) for one in different]
    return min(plans, key=lambda plan: (plan.verdict != "feasible", *_price(plan)))


def _settled_plan(scenario: Scenario, empty: Plan, size: Size, evaluate: Evaluate) -> Plan:
    """The cheapest of the plans tried that hold with what they find themselves.

    The first is sized for empty caches, each other for what the one before finds: a large one finds all, one sized for
    that may find little, and one sized for little more. Without one that holds, the last.
    """
    deployment, plan, trials = empty.deployment, None, list[_Trial]()
    for _ in range(ROUNDS):
        if deployment is None:
            break
        trial = _trial(scenario, plan, deployment, evaluate)
        again = any(earlier.deployment == deployment for earlier in trials)
        trials.append(trial)
        if again:
            break
        plan = size(at_load(scenario, trial.state, asked=True))
        deployment = plan.deployment
    held = [trial for trial in trials if trial.holds]
    if not held:
        return with_states(trials[-1].plan, scenario) if deployment else plan or size(_first_guess(scenario))
    return with_states(min(reversed(held), key=lambda trial: _price(trial.plan)).plan, scenario)


def _price(plan: Plan) -> tuple[float, int]:
    usd = plan.money.usd_per_hour if plan.money is not None else None
    return usd or 0.0, plan.deployment.accelerators if plan.deployment is not None else 0


def _all_found(scenario: Scenario) -> Scenario:
    """The scenario as if everything that was sent before were in the accelerator's memory."""
    workload = with_hits(scenario.workload, (EVERYTHING_TOKENS,), scenario.engine)
    return replace(scenario, workload=workload, tiers=())


def _trial(scenario: Scenario, plan: Plan | None, deployment: Deployment, evaluate: Evaluate) -> _Trial:
    """`plan` : of which the deployment is, sized for other hits; None where they are of no use."""
    state = settled(plant_of(scenario, deployment), "cold")
    flow, own = state.flow, plan
    if own is None or not _as_assumed(state, own.scenario.workload):
        own = evaluate(at_load(scenario, state), deployment)
        own = own if plan is None else replace(own, alternatives=plan.alternatives, candidates=plan.candidates)
    carried = not flow.saturated and flow.requests_per_s >= CARRIED * flow.asked_per_s
    return _Trial(own, deployment, state, carried and own.verdict == "feasible")


def _as_assumed(state: Settled, assumed: Workload) -> bool:
    """Whether a state has the rate that a workload was taken to have, and finds at every level what it was."""
    differences = np.cumsum(state.hits) - np.cumsum(hit_fractions(assumed))
    alike = abs(state.flow.requests_per_s / assumed.requests_per_s - 1.0) < ALIKE
    return alike and bool(np.all(np.abs(differences) < ALIKE))


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
    workload = with_hits(scenario.workload, levels, scenario.engine)
    return replace(scenario, workload=workload)


def with_states(plan: Plan, scenario: Scenario) -> Plan:
    """Words on the warm state, where it finds more than the one that a plan counts by, and on hits that barely hold."""
    if plan.deployment is None or not knows_reuse(scenario.workload):
        return plan
    plant = plant_of(scenario, plan.deployment)
    cold, warm = settled(plant, "cold"), settled(plant, "warm")
    texts = []
    if warm.hit_fraction - cold.hit_fraction >= WARMER:
        texts.append(
            f"two settled states: a warm cache finds {warm.hit_fraction:.0%} of the prompt tokens, one that starts "
            f"empty {cold.hit_fraction:.0%}; the plan counts by the second"
        )
    if on_edge(plant, cold):
        texts.append(
            f"hits stand at the edge: an empty cache loses half of them at less than {MORE_LOAD:.0%} more load; "
            "`planner kv` names that load"
        )
    return replace(plan, notes=(*plan.notes, *(Note("caution", text) for text in texts)))
