"""The same question put to four architectures: what each needs, what binds it, and which is the cheapest."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import product
from math import inf, log2

import numpy as np

from planner.engines.rules import why_not_mode
from planner.records import Deployment, Limit, Mode, Plan, Scenario
from planner.serving.reuse import knows_reuse
from planner.sizing.colocated import LARGEST_BUDGET
from planner.sizing.cost import price_basis, ranked_usd_per_hour
from planner.sizing.crossover.causes import Cause, causes
from planner.sizing.crossover.ends import End, ends
from planner.sizing.explain import does_not_fit
from planner.sizing.plan import MODES, Survey, evaluate_as_is, planned, survey
from planner.sizing.resilience import with_spares
from planner.sizing.resize import resized
from planner.sizing.reuse import sized
from planner.sizing.tco import priced

FINER = 2.0 ** (np.array([-2, -1, 1, 2]) / 12.0)  # token budgets about the best that `size` finds, 6 % apart


def _of_mode(mode: Mode) -> Callable[[Deployment], bool]:
    return lambda deployment: deployment.mode == mode


def _of_pools(alike: bool) -> Callable[[Deployment], bool]:
    def holds(deployment: Deployment) -> bool:
        prefill = deployment.prefill
        return prefill is not None and (prefill.accelerator == deployment.decode.accelerator) is alike

    return holds


ARCHITECTURES: Mapping[str, Callable[[Deployment], bool]] = {
    "colocated-whole-prompt": _of_mode("colocated-whole-prompt"),
    "colocated-chunked": _of_mode("colocated-chunked"),
    "disaggregated": _of_pools(alike=True),
    "heterogeneous": _of_pools(alike=False),
}


@dataclass(frozen=True, slots=True, eq=False)
class Contender:
    """The best plan of one architecture; without one, `why_not` says why there is none."""

    name: str
    plan: Plan | None
    why_not: str = ""

    @property
    def feasible(self) -> bool:
        return self.plan is not None and self.plan.verdict == "feasible"

    @property
    def deployment(self) -> Deployment:
        """Raises ValueError without a plan."""
        if self.plan is None or self.plan.deployment is None:
            raise ValueError(f"{self.name} has no plan")
        return self.plan.deployment

    @property
    def cost(self) -> float:
        """USD/h, or accelerators where there is no price to rank by."""
        money = self.plan.money if self.plan is not None else None
        usd = money.usd_per_hour if money is not None else None
        return float(self.deployment.accelerators) if usd is None else usd

    @property
    def binding(self) -> Limit | None:
        """The tightest limit."""
        return self.plan.limits[0] if self.plan is not None and self.plan.limits else None


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """All contenders at equal targets and equal headroom. `winner` is empty when none meets every limit."""

    scenario: Scenario
    basis: str  # prices; empty when accelerators rank
    contenders: tuple[Contender, ...]
    winner: str
    runner_up: str
    advantage_fraction: float | None  # what the runner-up costs more; None without one that meets every limit
    reason: str
    causes: tuple[Cause, ...] = ()  # what the lead over the other family rests on, most of it first
    ends: tuple[End, ...] = ()  # where the winner's family stops leading, nearest first

    def contender(self, name: str) -> Contender:
        return next(one for one in self.contenders if one.name == name)


def compare(scenario: Scenario) -> Comparison:
    """Size every architecture for the scenario. Raises FieldError as `size`."""
    scenario = priced(scenario)
    basis = price_basis((*scenario.prefill_accelerators, *scenario.decode_accelerators), scenario.costs.basis)
    # where caches give hits that depend on the plan, every architecture has its own
    found = None if knows_reuse(scenario.workload) else survey(scenario)
    contenders = tuple(_contender(scenario, found, name) for name in ARCHITECTURES)
    ranked = sorted((one for one in contenders if one.feasible), key=_rank)
    best, second = (ranked[0] if ranked else None), (ranked[1] if len(ranked) > 1 else None)
    leaders = [one.deployment for one in (best, _rival(ranked)) if one is not None]
    lead = _lead_log2(contenders) if scenario.speculation is None else None  # the arrays over cells know no drafts
    rests_on = causes(scenario, basis, lead) if lead else ()
    return Comparison(
        scenario=scenario,
        basis=basis,
        contenders=contenders,
        winner=best.name if best else "",
        runner_up=second.name if second else "",
        advantage_fraction=max(second.cost / best.cost - 1.0, 0.0) if best and second else None,
        reason=_reason(contenders, best, _rival(ranked) or second, rests_on),
        causes=rests_on,
        ends=ends(scenario, basis, lead, leaders, family_usd) if lead else (),
    )


def family_usd(scenario: Scenario, apart: bool) -> float:
    """What the best plan of one pool, or of two, costs in full [USD/h, or accelerators]; inf where none holds."""
    found = survey(scenario, of=[mode for mode in MODES if (mode == "disaggregated") is apart])
    names = [name for name in ARCHITECTURES if name.startswith("colocated") is not apart]
    contenders = [_contender(scenario, found, name) for name in names]
    return min((one.cost for one in contenders if one.feasible), default=inf)


def _rival(ranked: list[Contender]) -> Contender | None:
    """The cheapest of the family that does not win."""
    family = ranked[0].name.startswith("colocated") if ranked else False
    return next((one for one in ranked if one.name.startswith("colocated") is not family), None)


def _lead_log2(contenders: tuple[Contender, ...]) -> float | None:
    """log2 of one pool's cost over two pools'; None unless both families meet every limit."""
    shared = [one.cost for one in contenders if one.feasible and one.name.startswith("colocated")]
    apart = [one.cost for one in contenders if one.feasible and not one.name.startswith("colocated")]
    return log2(min(shared) / min(apart)) if shared and apart else None


def _reason(
    contenders: tuple[Contender, ...], best: Contender | None, second: Contender | None, rests_on: tuple[Cause, ...]
) -> str:
    """One sentence on the outcome: what the winner's lead rests on, or what stops the others."""
    if best is None:
        return "no architecture meets every limit: " + "; ".join(_stopped(one) for one in contenders)
    if second is None:
        others = "; ".join(_stopped(one) for one in contenders if one is not best)
        return f"{best.name} is the only one that meets every limit: {others}"
    ours, theirs = best.deployment.accelerators, second.deployment.accelerators
    same = f"{best.name} and {second.name} need {ours} accelerators each"
    text = same if ours == theirs else f"{best.name} needs {ours} accelerators against {theirs} of {second.name}"
    cause = rests_on[0] if rests_on else None
    if cause is not None and cause.lead_fraction is not None and second.cost > best.cost:
        left = cause.lead_fraction
        told = f"still cost {left:.0%} more" if left > 0.0 else f"cost {-left:.0%} less"
        return f"{text}, most of all because of {cause.meaning}: without that the other family would {told}"
    limit = second.binding
    return (
        f"{text}; {second.name} is held by {limit.name.replace('.', ' ')}: {limit.what_would_relax_it}"
        if limit is not None
        else text
    )


def _stopped(contender: Contender) -> str:
    limit = contender.binding
    if contender.plan is None or limit is None:
        return f"{contender.name}: {contender.why_not}"
    return f"{contender.name} misses {limit.name} by {-limit.slack_fraction:.0%}"


def _rank(contender: Contender) -> tuple[float, int, float]:
    """As `size`: cheapest, fewest accelerators, most slack. Sums of equal prices in another order are equal."""
    limit = contender.binding
    slack = limit.slack_fraction if limit is not None else 0.0
    return float(f"{contender.cost:.9g}"), contender.deployment.accelerators, -slack


def _contender(scenario: Scenario, found: Survey | None, name: str) -> Contender:
    reason = _why_not(scenario, name)
    if reason:
        return Contender(name, None, reason)
    if found is None:
        plan = sized(scenario, lambda asked: _best(survey(asked), name), evaluate_as_is)
    else:
        plan = _finer(found, _best(found, name))
    if plan.deployment is None:
        return Contender(name, None, "no worker of any allowed shape holds the model and its requests")
    return Contender(name, plan)


def _best(found: Survey, name: str) -> Plan:
    """The best plan of one architecture, or one without a deployment."""
    mine = [item for item in found.judged if ARCHITECTURES[name](item.candidate.deployment)]
    return found.plan(mine[:1]) if mine else does_not_fit(found.scenario, found.load)


def _finer(found: Survey, plan: Plan) -> Plan:
    """The plan with the token budget beside its own that needs fewer workers, if one does."""
    deployment = plan.deployment
    if deployment is None or deployment.mode != "colocated-chunked" or plan.verdict != "feasible":
        return plan
    scenario, best, least = found.scenario, plan, ranked_usd_per_hour(found.scenario, deployment, found.basis)
    for tokens in np.minimum(np.round(deployment.decode.token_budget * FINER / 16.0) * 16.0, LARGEST_BUDGET):
        changed = replace(deployment, decode=replace(deployment.decode, token_budget=int(tokens)))
        needed = resized(scenario, found.load, changed, found.basis)
        bought = with_spares(scenario, needed, found.load) if needed is not None else deployment
        usd = ranked_usd_per_hour(scenario, bought, found.basis)
        if usd < least * (1.0 - 1e-9):
            best, least = planned(plan, bought), usd
    return best


def _why_not(scenario: Scenario, name: str) -> str:
    """Why an architecture is not open to this scenario at all; empty when it is."""
    if name == "colocated-chunked":
        return why_not_mode(scenario.engine, "colocated-chunked")
    pairs = product(scenario.prefill_accelerators, scenario.decode_accelerators)
    kinds = {first.id == second.id for first, second in pairs}
    if name == "heterogeneous" and False not in kinds:
        return "the scenario offers one accelerator only; name a second one under hardware"
    if name == "disaggregated" and True not in kinds:
        return "prefill and decode have no accelerator in common"
    return ""
