"""Every limit of a plan: tightest first, slack by hand, a sentence on what would relax it."""

from __future__ import annotations

import pytest
import small_scenarios as small

from planner import sizing
from planner.records import Budget, Deployment, Plan, Pool
from planner.sizing.candidates import MAX_UTILIZATION

BUDGETS = (
    Budget("accelerators", 10.0, ""),
    Budget("usd_per_hour", 20.0, "USD/h"),
    Budget("usd_per_mtok_input", 0.2, "USD/Mtok"),
    Budget("usd_per_mtok_output", 1.0, "USD/Mtok"),
)
DEPLOYMENTS = [small.SPLIT, small.TOGETHER, small.WHOLE]


def evaluated(deployment: Deployment, budgets: tuple[Budget, ...] = BUDGETS) -> Plan:
    return sizing.evaluate(small.scenario(deployment=deployment, budgets=budgets))


@pytest.mark.parametrize("deployment", DEPLOYMENTS, ids=lambda item: item.mode)
def test_limits_come_tightest_first_with_their_slack(deployment: Deployment) -> None:
    plan = evaluated(deployment)
    slacks = [limit.slack_fraction for limit in plan.limits]
    assert slacks == sorted(slacks)
    for limit in plan.limits:
        assert limit.slack_fraction == pytest.approx((limit.limit - limit.value) / limit.limit)
        assert limit.binding == (limit.slack_fraction < 0.1)
        assert limit.what_would_relax_it


@pytest.mark.parametrize("deployment", DEPLOYMENTS, ids=lambda item: item.mode)
def test_every_target_budget_load_and_memory_is_a_limit(deployment: Deployment) -> None:
    plan = evaluated(deployment)
    names = {limit.name for limit in plan.limits}
    assert {"ttft.p99", "itl.p99", *(budget.name for budget in BUDGETS)} <= names
    pools = ("prefill", "decode") if deployment.prefill else ("colocated",)
    for pool in pools:
        assert {f"{pool}.utilization", f"{pool}.weights_memory", f"{pool}.kv_tokens"} <= names
    assert ("transfer.utilization" in names) == (deployment.prefill is not None)
    assert len(names) == len(plan.limits)


def test_values_are_those_of_the_prediction_and_the_rent() -> None:
    plan = evaluated(small.SPLIT)
    assert plan.prediction is not None and plan.money is not None
    by_name = {limit.name: limit for limit in plan.limits}
    assert by_name["ttft.p99"].value == plan.prediction.ttft_s["p99"]
    assert by_name["itl.p99"].value == plan.prediction.itl_s["p99"]
    assert by_name["accelerators"].value == 7.0  # 3 x 1 + 2 x 2
    assert by_name["usd_per_hour"].value == pytest.approx(7.0 * 1.3)
    assert by_name["usd_per_mtok_output"].value == plan.money.usd_per_mtok["output"]
    assert by_name["prefill.utilization"].limit == MAX_UTILIZATION
    # weights: 8.03e9 parameters x 2 bytes, whole on tp 1, half on tp 2 (activations and the reserve on top)
    memory = plan.prediction.decode.memory_bytes
    assert memory["weights"] == pytest.approx(8.03e9 * 2.0 / 2.0, rel=0.01)
    fixed = sum(value for part, value in memory.items() if part != "kv")
    assert by_name["decode.weights_memory"].value == pytest.approx(fixed)
    assert by_name["decode.weights_memory"].limit == small.accelerator("h100-sxm").memory_bytes


def test_a_plan_that_breaks_a_budget_is_infeasible_and_says_which() -> None:
    """7 accelerators against a budget of 6: 17 % over."""
    plan = evaluated(small.SPLIT, (Budget("accelerators", 6.0, ""),))
    assert plan.verdict == "infeasible"
    assert [limit.name for limit in plan.missed] == ["accelerators"]
    assert plan.missed[0].slack_fraction == pytest.approx(-1.0 / 6.0)
    assert plan.missed[0].unit == ""
    assert evaluated(small.SPLIT, (Budget("accelerators", 7.0, ""),)).verdict == "feasible"


def test_what_relaxes_ttft_follows_what_makes_it() -> None:
    """One busy prefill server: its queue. Many idle ones: a prefill, or steps, that replicas cannot divide."""
    waiting = Deployment("disaggregated", decode=small.SPLIT.decode, prefill=Pool("h100-sxm", 1))
    idle = Deployment("disaggregated", decode=small.SPLIT.decode, prefill=Pool("h100-sxm", 30))
    sentences = [
        next(limit.what_would_relax_it for limit in evaluated(each).limits if limit.name == "ttft.p99")
        for each in (waiting, idle)
    ]
    assert sentences[0].startswith("more prefill replicas shorten the wait")
    assert not sentences[1].startswith("more prefill replicas")
