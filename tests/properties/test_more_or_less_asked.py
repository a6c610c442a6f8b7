"""Looser targets never cost more, more traffic never costs less, budgets are hard (HOUSE §5)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import small_scenarios as small
from hypothesis import given, settings
from hypothesis import strategies as st

from planner import sizing
from planner.records import Budget, Deployment, Plan, Scenario, Target
from planner.serving.predict import predict

few = settings(max_examples=5, deadline=None, derandomize=True)


def question(requests_per_s: float = 60.0, **changes: object) -> Scenario:
    return replace(small.scenario((small.boxes_of(2),), requests_per_s=requests_per_s), **changes)  # type: ignore[arg-type]


def bought(plan: Plan) -> tuple[float, int]:
    assert plan.verdict == "feasible" and plan.money is not None and plan.deployment is not None
    assert plan.money.usd_per_hour is not None
    return plan.money.usd_per_hour, plan.deployment.accelerators


def targets(ttft_s: float, itl_s: float) -> tuple[Target, ...]:
    return (Target("ttft", "p99", ttft_s), Target("itl", "p99", itl_s))


@few
@given(ttft_s=st.floats(0.25, 2.0), itl_s=st.floats(0.012, 0.06), looser=st.floats(1.0, 2.0), which=st.booleans())
def test_looser_targets_never_cost_more(ttft_s: float, itl_s: float, looser: float, which: bool) -> None:
    tight = targets(ttft_s, itl_s)
    loose = targets(ttft_s * looser, itl_s) if which else targets(ttft_s, itl_s * looser)
    before, after = sizing.size(question(targets=tight)), sizing.size(question(targets=loose))
    if before.verdict == "feasible":
        usd, accelerators = bought(after)
        assert usd <= bought(before)[0] * (1.0 + 1e-9)
        assert accelerators <= bought(before)[1]


def test_a_looser_gap_never_costs_more_where_larger_chunks_come_into_reach() -> None:
    """At 66 ms chunks of 1,728 tokens fit; at 87 ms larger ones do too, and the smaller still count."""
    lengths = small.fixed_lengths(3000.0, 300.0)
    base = small.scenario((small.boxes_of(4),), engine_id="sglang", requests_per_s=200.0, lengths=lengths)
    tight, loose = (sizing.size(replace(base, targets=targets(1.0586, itl_s))) for itl_s in (0.0662, 0.08666))
    assert bought(loose)[0] <= bought(tight)[0] * (1.0 + 1e-9)


@few
@given(requests_per_s=st.floats(5.0, 150.0), more=st.floats(1.02, 2.0))
def test_more_traffic_never_costs_less(requests_per_s: float, more: float) -> None:
    before, after = sizing.size(question(requests_per_s)), sizing.size(question(requests_per_s * more))
    assert bought(after)[0] >= bought(before)[0] * (1.0 - 1e-9)
    assert bought(after)[1] >= bought(before)[1]


@pytest.mark.parametrize("deployment", [small.SPLIT, small.TOGETHER, small.WHOLE], ids=lambda item: item.mode)
@settings(max_examples=12, deadline=None, derandomize=True)
@given(requests_per_s=st.floats(1.0, 25.0), more=st.floats(1.05, 1.6))
def test_more_traffic_is_never_served_faster(deployment: Deployment, requests_per_s: float, more: float) -> None:
    calm, busy = (
        predict(small.scenario(requests_per_s=rate), deployment, with_intervals=False)
        for rate in (requests_per_s, requests_per_s * more)
    )
    for statistic in ("mean", "p90", "p99"):
        assert busy.ttft_s[statistic] >= calm.ttft_s[statistic] * (1.0 - 2e-3)
    assert busy.itl_s["mean"] >= calm.itl_s["mean"] * (1.0 - 1e-6)
    assert busy.decode.utilization >= calm.decode.utilization
    assert busy.decode.mean_batch >= calm.decode.mean_batch


@few
@given(peak=st.floats(1.0, 2.0))
def test_a_peak_costs_no_less_and_is_sized_as_if_it_lasted(peak: float) -> None:
    base = question(40.0)
    peaked = sizing.size(replace(base, workload=replace(base.workload, peak_factor=peak)))
    lasting = sizing.size(question(40.0 * peak))
    assert bought(peaked) == bought(lasting)


# ---------------------------------------------------------------------------------------------------------- budgets


@few
@given(
    share=st.one_of(st.floats(0.3, 0.95), st.floats(1.25, 1.6)),
    name=st.sampled_from(["accelerators", "usd_per_hour", "usd_per_mtok_output"]),
)
def test_budgets_are_hard(share: float, name: str) -> None:
    """Within the cheapest plan's own use the answer is that plan; below it, nothing fits and the miss is named."""
    free = sizing.size(question())
    assert free.money is not None and free.deployment is not None and free.money.usd_per_hour is not None
    use = {
        "accelerators": float(free.deployment.accelerators),
        "usd_per_hour": free.money.usd_per_hour,
        "usd_per_mtok_output": free.money.usd_per_mtok["output"],
    }[name]
    limit = use * share
    plan = sizing.size(question(budgets=(Budget(name, limit, ""),)))
    value = next(item.value for item in plan.limits if item.name == name)
    if plan.verdict == "feasible":
        assert value <= limit * (1.0 + 1e-9)
    else:
        assert share < 1.0
        assert plan.missed


@pytest.mark.parametrize("index", range(2))
def test_a_budget_of_exactly_what_is_needed_is_kept(index: int) -> None:
    """A plan that exists is found under a budget that just allows it."""
    lengths = small.fixed_lengths(3000.0, 300.0)
    base = (
        question(),
        small.scenario((small.boxes_of(4),), engine_id="sglang", requests_per_s=200.0, lengths=lengths),
    )[index]
    free = sizing.size(base)
    capped = sizing.size(replace(base, budgets=(Budget("accelerators", float(bought(free)[1]), ""),)))
    assert capped.verdict == "feasible"
    assert bought(capped) == pytest.approx(bought(free))


def test_an_impossible_target_names_the_limit_and_the_nearest_miss() -> None:
    """One step reads 16 GB of weights: at 3.35 TB/s and tp 2 that alone is 2.4 ms, so 1 ms is out of reach."""
    plan = sizing.size(question(targets=targets(1.0, 1e-3)))
    assert plan.verdict == "infeasible"
    assert plan.deployment is not None and plan.prediction is not None
    assert plan.missed[0] is plan.limits[0] or plan.missed[0] == plan.limits[0]
    assert plan.missed[0].name == "itl.p99" and plan.missed[0].binding
    assert plan.missed[0].value == plan.prediction.itl_s["p99"] > 2.4e-3
    assert plan.missed[0].what_would_relax_it
    reachable = targets(1.0, plan.prediction.itl_s["p99"] * 1.3)
    assert sizing.size(question(targets=reachable)).verdict == "feasible"


def test_a_target_in_reach_of_a_larger_pool_is_found() -> None:
    """End to end P99 is judged on its mean by the arrays: full evaluation must go on until one holds."""
    asked = question(targets=(Target("itl", "p99", 0.06),))
    loose = sizing.size(asked)
    assert loose.prediction is not None
    tight_s = 0.5 * loose.prediction.e2e_s["p99"]
    roomy = Deployment(
        "disaggregated",
        decode=replace(small.SPLIT.decode, replicas=20),
        prefill=replace(small.SPLIT.decode, replicas=20),
    )
    assert predict(asked, roomy, with_intervals=False).e2e_s["p99"] < tight_s
    assert sizing.size(question(targets=(Target("e2e", "p99", tight_s),))).verdict == "feasible"


def test_a_tpot_percentile_in_reach_of_a_larger_pool_is_found() -> None:
    loose = sizing.size(question(targets=(Target("tpot", "mean", 0.03),)))
    assert loose.prediction is not None
    limit_s = 0.6 * loose.prediction.tpot_s["p99"]
    roomy = Deployment(
        "disaggregated",
        decode=replace(small.SPLIT.decode, replicas=20),
        prefill=replace(small.SPLIT.decode, replicas=20),
    )
    assert predict(question(), roomy, with_intervals=False).tpot_s["p99"] < limit_s
    assert sizing.size(question(targets=(Target("tpot", "p99", limit_s),))).verdict == "feasible"
    assert np.isfinite(limit_s)
