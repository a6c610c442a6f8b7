"""Results held to checks: verdicts, slack, changes against a baseline, and why there is nothing to compare."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import hand_plans
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.files.checks import parse
from planner.review.checks import gate, judged, worst_first
from planner.review.document import document, gate_document

RESULT = document(hand_plans.DISAGGREGATED)


def one(text: str, result: dict[str, Any] = RESULT, baseline: dict[str, Any] | None = None) -> dict[str, Any]:
    (line,) = judged(result, [parse(text)], baseline)
    return line


def changed(factor: float) -> dict[str, Any]:
    """A baseline whose rent and TTFT are the result's over `factor`."""
    baseline = copy.deepcopy(RESULT)
    baseline["plan"]["usd_per_hour"] = 124.0 / factor
    baseline["prediction"]["ttft_s"]["p99"] = 0.71 / factor
    return baseline


@pytest.mark.parametrize(
    ("text", "verdict", "slack"),
    [
        ("ttft.p99 <= 1 s", "pass", 0.29),  # 710 ms, interval up to 923 ms
        ("ttft.p99 <= 800 ms", "at risk", 0.1125),
        ("ttft.p99 <= 700 ms", "fail", -0.01 / 0.7),
        ("ttft.p99 >= 600 ms", "at risk", 0.11 / 0.6),  # 568 ms at the low end
        ("ttft.p99 >= 500 ms", "pass", 0.42),
        ("accelerators <= 52", "pass", 0.0),
        ("accelerators <= 51", "fail", -1 / 51),
        ("accelerators.prefill <= 12", "pass", 0.0),  # 3 * 4
        ("usd_per_hour <= 200 USD/h", "pass", 0.38),
        ("usd_per_mtok_output <= 1.10 USD/Mtok", "pass", 0.0),
        ("utilization.decode <= 90 %", "fail", -0.03 / 0.9),
        ("utilization <= 95 %", "pass", 0.02 / 0.95),  # the busier pool, 93 %
        ("utilization.transfer <= 0.5", "pass", 0.38),
        ("kv_fill.p99 <= 0.25", "pass", 1 - 0.26 / 1.2 / 0.25),
        ("requests_per_s_max >= 12 /s", "pass", 1.9 / 12),
        ("watts <= 67.6 kW", "pass", 0.0),
        ("joules_per_output_token <= 11 J/token", "fail", -0.3 / 11),
        ("surplus_fraction >= 0", "pass", None),
    ],
)
def test_verdict_and_slack(text: str, verdict: str, slack: float | None) -> None:
    line = one(text)
    assert line["verdict"] == verdict
    assert line["slack_fraction"] == (None if slack is None else pytest.approx(slack, abs=1e-9))
    assert line["reason"] is None


@pytest.mark.parametrize(
    ("text", "factor", "verdict"),
    [
        ("change(usd_per_hour) <= 5 %", 1.05, "pass"),
        ("change(usd_per_hour) <= 5 %", 1.0501, "fail"),
        ("change(usd_per_hour) <= 0 %", 1.0, "pass"),
        ("change(usd_per_hour) <= 0 %", 0.9, "pass"),
        ("change(usd_per_hour) <= -5 %", 0.96, "fail"),
        ("change(usd_per_hour) >= -5 %", 0.9, "fail"),
        ("change(usd_per_hour) <= 10 USD/h", 1.05, "pass"),  # 5.90
        ("change(usd_per_hour) <= 5 USD/h", 1.05, "fail"),
        ("change(ttft.p99) <= 10 %", 1.05, "pass"),
    ],
)
def test_changes(text: str, factor: float, verdict: str) -> None:
    line = one(text, baseline=changed(factor))
    assert line["verdict"] == verdict
    assert line["delta_fraction"] == pytest.approx(factor - 1.0, abs=1e-9)
    assert line["interval"] is None


def test_changes_are_left_out_without_a_baseline() -> None:
    assert judged(RESULT, [parse("change(usd_per_hour) <= 5 %")]) == []


def test_a_plain_limit_shows_the_baseline_too() -> None:
    line = one("usd_per_hour <= 200 USD/h", baseline=changed(2.0))
    assert (line["reference"], line["delta"], line["delta_fraction"]) == (62.0, 62.0, 1.0)


@pytest.mark.parametrize(
    ("plan", "text", "reason"),
    [
        ("NOTHING_FITS", "accelerators <= 64", "no candidate can hold the model"),
        ("NOTHING_FITS", "ttft.p99 <= 1 s", "no candidate can hold the model"),
        ("COLOCATED", "usd_per_hour <= 5 USD/h", "no price basis covers the plan"),
        ("COLOCATED", "utilization.prefill <= 0.8", "the plan is colocated-chunked and has no prefill pool"),
        ("COLOCATED", "utilization.transfer <= 0.8", "moves no KV"),
        ("INFEASIBLE", "itl.p99 <= 30 ms", "nothing bounds it"),
    ],
)
def test_nothing_to_compare_fails_and_says_why(plan: str, text: str, reason: str) -> None:
    line = one(text, document(getattr(hand_plans, plan)))
    assert (line["verdict"], line["value"], line["slack_fraction"]) == ("fail", None, None)
    assert reason in line["reason"]


def test_a_latency_that_was_unbounded_has_not_risen() -> None:
    line = one("change(itl.p99) <= 5 %", baseline=document(hand_plans.INFEASIBLE))
    assert line["verdict"] == "pass" and "baseline has none" in line["reason"]


def test_a_price_that_was_unknown_cannot_be_compared() -> None:
    line = one("change(usd_per_hour) <= 5 %", baseline=document(hand_plans.COLOCATED))
    assert line["verdict"] == "fail" and "baseline has none" in line["reason"]


def test_zero_in_the_baseline() -> None:
    baseline = copy.deepcopy(RESULT)
    baseline["plan"]["usd_per_hour"] = 0.0
    assert one("change(usd_per_hour) <= 5 %", baseline=baseline)["verdict"] == "fail"
    assert one("change(usd_per_hour) <= 200 USD/h", baseline=baseline)["verdict"] == "pass"


def test_budgets_are_reported_when_nothing_fits() -> None:
    lines = document(hand_plans.NOTHING_FITS)["checks"]
    assert [line["name"] for line in lines] == ["ttft.p99", "itl.p99", "accelerators", "usd_per_hour"]
    assert {line["verdict"] for line in lines} == {"fail"}


def test_infeasible_for_want_of_headroom_is_not_a_pass() -> None:
    plan = replace(hand_plans.DISAGGREGATED, verdict="infeasible")
    lines = document(plan)["checks"]
    assert lines[-1]["verdict"] == "fail" and "headroom" in lines[-1]["reason"]


@given(st.floats(0.05, 3.0), st.floats(1.0, 2.0))
def test_a_looser_limit_is_never_worse(limit_s: float, factor: float) -> None:
    order = ["fail", "at risk", "pass"]
    tight, loose = (one(f"ttft.p99 <= {value:.9f} s")["verdict"] for value in (limit_s, limit_s * factor))
    assert order.index(tight) <= order.index(loose)


def test_the_gate_is_the_worst_line() -> None:
    lines = [{"verdict": verdict} for verdict in ("pass", "at risk")]
    assert gate([]) == "pass" and gate(lines) == "at risk" and gate(lines, strict=True) == "fail"
    assert gate([*lines, {"verdict": "fail"}]) == "fail"


def test_worst_first() -> None:
    texts = ["ttft.p99 <= 1 s", "ttft.p99 <= 700 ms", "itl.p99 <= 1 ms", "ttft.p99 <= 800 ms"]
    ranked = worst_first(judged(RESULT, [parse(text) for text in texts]))
    assert [line["text"] for line in ranked] == [texts[2], texts[1], texts[3], texts[0]]


def test_many_results() -> None:
    results = [document(hand_plans.DISAGGREGATED), document(hand_plans.INFEASIBLE)]
    gated = gate_document(results, [], strict=False)
    assert gated["verdict"] == "fail"
    assert [one["gate"] for one in gated["results"]] == ["at risk", "fail"]
    assert gated["summary"]["checks"] == 8 and gated["summary"]["checks_fail"] == 1
    assert gate_document(results[:1], [], strict=True)["verdict"] == "fail"
    broken = gate_document(results, [{"scenario": "b.yaml", "faults": []}], False)
    assert broken["verdict"] == "broken" and broken["summary"]["scenarios"] == 3
