"""Single changes to a plan: what breaks it, what repairs it, what it costs, where the knee is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import small_scenarios as small

from planner import sizing
from planner.records import Budget, Deployment, Plan, Pool, Scenario, Speculation
from planner.serving.predict import evaluate_at
from planner.serving.traffic import traffic
from planner.sizing import changes
from planner.sizing.sensitivity import ASKED, Case, Sensitivity, sensitivity, sweep
from planner.sizing.variables import VARIABLES

RATE = 38.0  # what the small plan carries with little to spare


def planned(**keywords: object) -> Plan:
    question: Scenario = replace(small.scenario(requests_per_s=RATE), deployment=small.SPLIT)
    return sizing.evaluate(replace(question, **keywords))


@pytest.fixture(scope="module")
def found() -> Sensitivity:
    return sensitivity(planned())


def case(found: Sensitivity, name: str) -> Case:
    return next(case for case in found.cases if case.name == name)


def test_names_of_the_default_set(found: Sensitivity) -> None:
    names = [case.name for case in found.cases]
    for name in ("load +20%", "load -20%", "input x2", "input x0.5", "output x2", "arrivals SCV 4", "step time +15%",
                 "network x0.5", "prefill -1 worker", "prefill +1 worker", "decode -1 worker", "decode +1 worker",
                 "ratio x2", "ratio x0.5", "failure prefill worker", "failure decode worker", "long prompts x2",
                 "long outputs x2"):  # fmt: skip
        assert name in names
    assert len(names) == len(set(names))


def test_a_case_is_the_plan_evaluated_in_the_changed_question(found: Sensitivity) -> None:
    changed = changes.with_load(small.scenario(requests_per_s=RATE), 1.2)
    outcome = evaluate_at(changed, small.SPLIT, traffic(changed.workload))
    more = case(found, "load +20%")
    assert more.outcome is not None and more.outcome.ttft_s == outcome.ttft_s
    used = max(outcome.ttft_s["p99"] / 1.0, outcome.itl_s["p99"] / 0.04)
    assert more.slack_fraction == pytest.approx(1.0 - used)


def test_a_worker_costs_its_price(found: Sensitivity) -> None:
    rent = small.accelerator("h100-sxm").usd_per_hour["rent3y"]
    assert case(found, "prefill +1 worker").extra_usd_per_hour == pytest.approx(rent)
    assert case(found, "decode -1 worker").extra_usd_per_hour == pytest.approx(-2.0 * rent)
    assert case(found, "decode -1 worker").extra_accelerators == -2
    assert case(found, "price cloud_low").extra_usd_per_hour == pytest.approx(
        7.0 * (small.accelerator("h100-sxm").usd_per_hour["cloud_low"] - rent)
    )


def test_what_holds_costs_nothing_and_what_breaks_is_repaired(found: Sensitivity) -> None:
    broken = 0
    for item in found.cases:
        if item.kind not in ("workload", "hardware"):
            continue
        if item.holds:
            assert item.extra_usd_per_hour == 0.0 and item.repaired is None
        elif item.repaired is not None:
            broken += 1
            assert item.extra_usd_per_hour is not None and item.slack_fraction < 0.0
    assert broken >= 1


def test_the_repaired_plan_holds(found: Sensitivity) -> None:
    item = case(found, "input x2")
    assert item.repaired is not None
    question = changes.with_lengths(small.scenario(requests_per_s=RATE), 2.0)
    outcome = evaluate_at(question, item.repaired, traffic(question.workload))
    assert outcome.ttft_s["p99"] <= 1.0 and outcome.itl_s["p99"] <= 0.04
    assert [pool.tp for pool in item.repaired.pools] == [1, 2]  # the same kind of workers


def test_a_lost_worker_that_is_missed_costs_a_spare(found: Sensitivity) -> None:
    lost = case(found, "failure decode worker")
    fewer = case(found, "decode -1 worker")
    assert lost.slack_fraction == fewer.slack_fraction
    rent = small.accelerator("h100-sxm").usd_per_hour["rent3y"]
    assert lost.extra_usd_per_hour == pytest.approx(0.0 if lost.holds else 2.0 * rent)


def test_the_flip_is_where_the_plan_stops_holding(found: Sensitivity) -> None:
    flip = found.flip
    assert flip is not None
    variable = VARIABLES[flip.variable]

    def holds(value: float) -> bool:
        return sweep(found.plan, variable, [value]).points[0].holds

    assert holds(flip.value)
    assert not holds(flip.value * (1.05 if flip.value > 1.0 else 0.95))


def test_the_best_buy_gains_most_per_dollar(found: Sensitivity) -> None:
    best = found.best_buy
    assert best is not None and best.extra_usd_per_hour is not None

    def worth(item: Case) -> float:
        assert item.extra_usd_per_hour is not None
        return (item.slack_fraction - found.base.slack_fraction) / item.extra_usd_per_hour

    assert worth(best) >= max(worth(case(found, f"{pool} +1 worker")) for pool in ("prefill", "decode"))


def test_no_worker_left_breaks_with_a_reason() -> None:
    one = Deployment("colocated-chunked", decode=Pool("h100-sxm", 1, token_budget=2048))
    question = replace(small.scenario(requests_per_s=1.0), deployment=one)
    found = sensitivity(sizing.evaluate(question))
    lost = case(found, "failure colocated worker")
    assert not lost.holds and lost.outcome is None and lost.why == "no worker is left"
    assert lost.extra_usd_per_hour == pytest.approx(1.3)  # a spare worker
    assert {"ratio x2", "network x0.5"} & {item.name for item in found.cases} == set()


def test_budgets_count() -> None:
    budgets = (Budget("usd_per_hour", 10.0, "USD/h"),)  # 7 accelerators at 1.30 are 9.10
    found = sensitivity(planned(budgets=budgets))
    assert found.base.holds
    dear = case(found, "price cloud_high")
    assert not dear.holds and dear.tightest == "usd_per_hour"
    assert case(found, "decode +1 worker").holds is False  # 11.70 USD/h


def test_without_a_price_workers_still_count() -> None:
    free = replace(small.accelerator("h100-sxm"), usd_per_hour={})
    question = replace(small.scenario((free,)), deployment=small.SPLIT)
    found = sensitivity(sizing.evaluate(question))
    assert found.basis == ""
    assert all(item.extra_usd_per_hour is None for item in found.cases)
    assert case(found, "decode +1 worker").extra_accelerators == 2
    assert found.best_buy is not None


def test_a_sweep_ends_at_its_knee() -> None:
    plan = planned()
    swept = sweep(plan, VARIABLES["load"], list(np.linspace(0.5, 2.0, 7)))
    holds = [point.holds for point in swept.points]
    assert holds == sorted(holds, reverse=True) and True in holds and False in holds
    assert swept.knee is not None
    last = max(point.value for point in swept.points if point.holds)
    first = min(point.value for point in swept.points if not point.holds)
    assert last <= swept.knee < first


def test_slower_and_more_never_helps() -> None:
    for name in ("load", "input", "step time"):
        points = sweep(planned(), VARIABLES[name], [0.7, 1.0, 1.3]).points
        slack = [point.slack_fraction for point in points]
        assert slack == sorted(slack, reverse=True)


def test_acceptance_of_drafts_where_there_are_any() -> None:
    found = sensitivity(planned(speculation=Speculation(draft_tokens=3, accepted_tokens=1.5)))
    fewer, more = case(found, "acceptance x0.7"), case(found, "acceptance x1.3")
    assert fewer.outcome is not None and more.outcome is not None and found.base.outcome is not None
    assert fewer.outcome.decode.utilization > found.base.outcome.decode.utilization > more.outcome.decode.utilization
    assert all("acceptance" not in item.name for item in sensitivity(planned()).cases)


def test_hits_where_there_are_any() -> None:
    base = small.scenario(requests_per_s=RATE)
    found = sensitivity(planned(workload=replace(base.workload, prefix_hit_fraction=0.5)))
    fewer, more = case(found, "hit ratio x0.5"), case(found, "hit ratio x1.2")
    assert fewer.outcome is not None and more.outcome is not None
    assert fewer.outcome.ttft_s["p99"] > more.outcome.ttft_s["p99"]


def test_every_question_has_its_variable() -> None:
    assert {name for name, _, _ in ASKED} <= VARIABLES.keys()
