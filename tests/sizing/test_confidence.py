"""Plans whose targets hold at the upper end of their intervals."""

from __future__ import annotations

from dataclasses import replace

import pytest
import small_scenarios as small

from planner.errors import FieldError
from planner.records import Budget, Plan
from planner.sizing import size
from planner.sizing.confident import size_with_confidence

pytestmark = pytest.mark.slow  # each runs whole searches through the command line

QUESTION = small.scenario()


def upper_ends(plan: Plan) -> dict[str, float]:
    assert plan.prediction is not None
    found = {}
    for target in QUESTION.targets:
        high = plan.prediction.intervals[f"{target.metric}_s"][target.statistic][1]
        found[f"{target.metric}.{target.statistic}"] = (high or float("inf")) / target.limit_s
    return found


def test_targets_hold_at_the_upper_end() -> None:
    plan = size_with_confidence(QUESTION, 0.9)
    assert plan.verdict == "feasible"
    assert max(upper_ends(plan).values()) <= 1.0
    assert plan.scenario.targets == QUESTION.targets
    assert plan.prediction is not None
    assert plan.prediction.coverage == pytest.approx(0.8)
    shown = {limit.name: limit.value / limit.limit for limit in plan.limits}
    assert {name: shown[name] for name in upper_ends(plan)} == pytest.approx(upper_ends(plan))


def test_confidence_costs_accelerators_and_more_of_it_no_less() -> None:
    plain, sure, surer = size(QUESTION), size_with_confidence(QUESTION, 0.8), size_with_confidence(QUESTION, 0.95)
    costs = [round(plan.money.usd_per_hour or 0.0, 6) for plan in (plain, sure, surer) if plan.money]
    assert costs == sorted(costs)


def test_what_cannot_be_bought_is_a_miss_at_the_upper_end() -> None:
    plan = size(QUESTION)
    assert plan.deployment is not None
    tight = replace(QUESTION, budgets=(Budget("accelerators", plan.deployment.accelerators, "1"),))
    sure = size_with_confidence(tight, 0.99)
    assert sure.verdict == "infeasible"
    assert sure.missed


@pytest.mark.parametrize("confidence", [0.5, 0.74, 1.0])
def test_a_confidence_that_runs_cannot_give_is_refused(confidence: float) -> None:
    with pytest.raises(FieldError, match="confidence"):
        size_with_confidence(QUESTION, confidence)
