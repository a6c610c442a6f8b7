"""How wide an interval is, by what was measured (FIDELITY §9)."""

from __future__ import annotations

from dataclasses import replace

import pytest
import small_scenarios as small

from planner.records import Deployment, Pool, Scenario
from planner.serving.intervals import evidence_class, factors
from planner.serving.predict import evaluate_at, predict
from planner.serving.traffic import traffic

ENGINE = small.engine("vllm")
HERE, ELSEWHERE = (small.model("meta-llama/Llama-3.1-8B").id, "h100-sxm"), ("other/model", "h100-sxm")


def knowing(*cells: tuple[str, str]) -> Scenario:
    question = small.scenario(("h100-sxm", "h200-sxm", "l4"), weights="fp8")
    return replace(question, engine=replace(ENGINE, measured_cells=frozenset(cells)))


def on(*names: str) -> Deployment:
    return Deployment("disaggregated", decode=Pool(names[-1], 1), prefill=Pool(names[0], 1))


@pytest.mark.parametrize(
    ("question", "deployment", "expected"),
    [
        (knowing(HERE), on("h100-sxm", "h100-sxm"), "known-cell"),
        (knowing(HERE, ("other/model", "h200-sxm")), on("h200-sxm", "h100-sxm"), "new-cell"),
        (knowing(ELSEWHERE), on("h100-sxm", "h100-sxm"), "new-model"),
        (knowing(HERE), on("h100-sxm", "h200-sxm"), "new-accelerator"),
        (knowing(HERE), on("l4", "h100-sxm"), "guess"),  # l4 borrows the efficiencies of l40s
    ],
)
def test_the_least_known_pool_decides(question: Scenario, deployment: Deployment, expected: str) -> None:
    assert evidence_class(question, deployment) == expected
    assert factors(question, deployment) == ENGINE.intervals[f"disaggregated/{expected}"]


@pytest.mark.parametrize("deployment", [small.SPLIT, small.TOGETHER, small.WHOLE], ids=lambda item: item.mode)
def test_the_ends_are_the_plan_at_fast_and_slow_steps(deployment: Deployment) -> None:
    question = small.scenario(requests_per_s=10.0)
    load, by = traffic(question.workload), factors(question, deployment)
    prediction = predict(question, deployment)
    low, high = (evaluate_at(question, deployment, load, factor) for factor in (by.step_low, by.step_high))
    for statistic in ("mean", "p50"):
        assert prediction.intervals["itl_s"][statistic] == (low.itl_s[statistic], high.itl_s[statistic])
    # of TTFT the measured error itself may be wider
    bottom, top = prediction.intervals["ttft_s"]["mean"]
    middle = prediction.ttft_s["mean"]
    assert bottom == min(low.ttft_s["mean"], middle * by.ttft_low)
    assert top == max(high.ttft_s["mean"], middle * by.ttft_high)


def test_a_slow_end_that_saturates_has_no_upper_bound() -> None:
    question = small.scenario()
    most = predict(question, small.SPLIT, with_intervals=False).requests_per_s_max
    busy = replace(question, workload=replace(question.workload, requests_per_s=0.95 * most))
    prediction = predict(busy, small.SPLIT)
    assert prediction.intervals["ttft_s"]["p99"][1] is None
    assert prediction.ttft_s["p99"] < float("inf")


def test_a_step_factor_scales_every_step() -> None:
    question = small.scenario(requests_per_s=1e-3)  # so little traffic that nothing waits and batches are 1
    load = traffic(question.workload)
    one, two = (evaluate_at(question, small.SPLIT, load, factor) for factor in (1.0, 2.0))
    assert two.itl_s["mean"] == pytest.approx(2.0 * one.itl_s["mean"], rel=1e-3)
    assert sum(two.step_parts_s.values()) == pytest.approx(2.0 * sum(one.step_parts_s.values()), rel=1e-6)
