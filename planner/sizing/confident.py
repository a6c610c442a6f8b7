"""Plans whose targets hold at the upper end of their intervals, not only in the middle."""

from __future__ import annotations

from dataclasses import replace

from planner.errors import FieldError
from planner.records import Limit, Note, Plan, Prediction, Scenario, Target
from planner.serving.intervals import at_coverage
from planner.sizing.limits import BINDING_SLACK
from planner.sizing.plan import size

_ROUNDS = 7  # of tightening what the last plan missed by, then of halving between too loose and too tight
_SATURATED = 1.5  # how far over an unbounded upper end counts

Scales = dict[Target, float]  # on the limits that a plan is asked to keep in the middle


def size_with_confidence(scenario: Scenario, confidence: float) -> Plan:
    """What to buy so that each target holds with `confidence`: at the upper end of the interval around it.

    An interval of coverage 2 c - 1 leaves 1 - c above its upper end. Targets are tightened until the plan found for
    them keeps the given ones there, then loosened as far as it still does.

    Raises
    ------
    FieldError
        `confidence` lies outside [0.75, 0.99].
    """
    if not 0.75 <= confidence <= 0.99:
        raise FieldError("confidence", f"confidence {confidence:g} is not between 0.75 and 0.99")
    asked = replace(scenario, engine=at_coverage(scenario.engine, 2.0 * confidence - 1.0))
    loose: Scales = dict.fromkeys(scenario.targets, 1.0)
    tight: Scales | None = None
    best = first = _sized(asked, loose)
    scales, over = loose, _over(first, scenario)
    for _ in range(_ROUNDS if first.verdict == "feasible" and max(over.values(), default=0.0) > 1.0 else 0):
        if tight is None:
            scales = {target: scale / max(over[target], 1.0) for target, scale in loose.items()}
        else:
            scales = {target: (loose[target] * scale) ** 0.5 for target, scale in tight.items()}
        plan = _sized(asked, scales)
        over = _over(plan, scenario)
        if plan.verdict == "feasible" and max(over.values()) > 1.0:
            loose, best = scales, plan if tight is None else best
        else:  # it holds, or asks for more than there is
            tight = scales
            best = plan if plan.verdict == "feasible" else best
    return _told(best, scenario, confidence)


def _sized(asked: Scenario, scales: Scales) -> Plan:
    targets = tuple(replace(target, limit_s=target.limit_s * scale) for target, scale in scales.items())
    return size(replace(asked, targets=targets))


def _over(plan: Plan, scenario: Scenario) -> Scales:
    """Upper end over limit of every target."""
    if plan.prediction is None:
        return dict.fromkeys(scenario.targets, 1.0)
    return {target: _upper_s(plan.prediction, target) / target.limit_s for target in scenario.targets}


def _upper_s(prediction: Prediction, target: Target) -> float:
    """The upper end of a target's interval; where the slow end saturates, a value surely over the limit."""
    high = prediction.intervals[f"{target.metric}_s"][target.statistic][1]
    return high if high is not None else _SATURATED * target.limit_s


def _told(plan: Plan, scenario: Scenario, confidence: float) -> Plan:
    """The plan under the targets as given, judged at the upper ends."""
    prediction = plan.prediction
    if prediction is None:
        return replace(plan, scenario=replace(plan.scenario, targets=scenario.targets))
    names = {f"{target.metric}.{target.statistic}": target for target in scenario.targets}
    ranked = tuple(
        sorted(
            (_judged(limit, prediction, names[limit.name]) if limit.name in names else limit for limit in plan.limits),
            key=lambda limit: limit.slack_fraction,
        )
    )
    budgets = {budget.name for budget in scenario.budgets}
    missed = tuple(one for one in ranked if one.value > one.limit and one.name in {*names, *budgets})
    text = f"targets are judged at the upper end of intervals: they hold with {confidence:.0%} confidence"
    return replace(
        plan,
        scenario=replace(plan.scenario, targets=scenario.targets),
        verdict="infeasible" if missed else "feasible",
        limits=ranked,
        missed=missed,
        notes=(*plan.notes, Note("info", text)),
    )


def _judged(limit: Limit, prediction: Prediction, target: Target) -> Limit:
    """The limit with the upper end as its value."""
    value = _upper_s(prediction, target)
    slack = (target.limit_s - value) / target.limit_s
    return replace(limit, value=value, limit=target.limit_s, slack_fraction=slack, binding=slack < BINDING_SLACK)
