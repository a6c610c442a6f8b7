"""How wide an interval is, by what was measured (FIDELITY §9)."""

from __future__ import annotations

from dataclasses import replace

import pytest
import small_scenarios as small

from planner.errors import FieldError
from planner.records import Deployment, IntervalFactors, Pool, Scenario
from planner.serving.intervals import at_coverage, evidence_class, factors, factors_for
from planner.serving.predict import evaluate_at, predict
from planner.serving.traffic import traffic

ENGINE = replace(small.engine("vllm"), interval_widths={})
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


# ------------------------------------------------------------------------------------------------------------- coverage

SPREAD = replace(
    ENGINE,
    interval_growth={0.5: (0.4, 0.5), 0.9: (1.5, 1.4), 0.99: (4.0, 3.0)},
    interval_widths={"disaggregated/known-cell/h200-sxm": IntervalFactors(1.0, 2.0, 1.0, 0.5)},
)


def test_a_wider_coverage_stretches_every_interval_in_log() -> None:
    wide = at_coverage(SPREAD, 0.9)
    assert wide.interval_coverage == 0.9
    for name, by in SPREAD.intervals.items():
        assert wide.intervals[name].step_high == pytest.approx(by.step_high**1.5)
        assert wide.intervals[name].ttft_low == pytest.approx(by.ttft_low**1.4)


def test_between_listed_shares_widths_follow_the_normal_quantile() -> None:
    # z(0.85) = 1.4395, z(0.8) = 1.2816, z(0.9) = 1.6449: (1.4395 - 1.2816) / (1.6449 - 1.2816) = 0.4347 of the way
    by, key = at_coverage(SPREAD, 0.85), "disaggregated/known-cell"
    assert by.intervals[key].step_high == pytest.approx(
        SPREAD.intervals[key].step_high ** (1.0 + 0.5 * 0.4347), rel=1e-4
    )


def test_the_coverage_that_is_shipped_changes_nothing() -> None:
    assert at_coverage(SPREAD, 0.8).intervals == SPREAD.intervals


@pytest.mark.parametrize("coverage", [0.0, 0.49, 0.995, 1.0, float("nan")])
def test_a_coverage_that_runs_cannot_tell_is_refused(coverage: float) -> None:
    with pytest.raises(FieldError, match="coverage"):
        at_coverage(SPREAD, coverage)


def test_an_accelerator_may_need_wider_intervals() -> None:
    here, there = (
        factors_for(SPREAD, "disaggregated", "known-cell", "dense", name) for name in ("h100-sxm", "h200-sxm")
    )
    assert there.step_high == pytest.approx(here.step_high**2)
    assert there.ttft_high == pytest.approx(here.ttft_high**0.5)


def test_stretches_of_accelerator_kind_and_load_multiply() -> None:
    by = {"h200-sxm": 2.0, "latent": 1.5, "high": 0.5}
    widths = {f"disaggregated/known-cell/{name}": IntervalFactors(*[width] * 4) for name, width in by.items()}
    engine = replace(ENGINE, interval_widths=widths)
    plain = factors_for(engine, "disaggregated", "known-cell", "dense", "h100-sxm", "low")
    assert plain == ENGINE.intervals["disaggregated/known-cell"]
    found = factors_for(engine, "disaggregated", "known-cell", "latent", "h200-sxm", "high")
    assert found.step_low == pytest.approx(plain.step_low**1.5)  # 2 x 1.5 x 0.5
    assert found.ttft_high == pytest.approx(plain.ttft_high**1.5)


def test_intervals_grow_faster_near_saturation() -> None:
    # dW/dS: 10 % on a step is more than 10 % on a wait, and the more so the busier the pool
    question = small.scenario()
    most = predict(question, small.SPLIT, with_intervals=False).requests_per_s_max
    ratios = []
    for share in (0.3, 0.6, 0.8):
        loaded = replace(question, workload=replace(question.workload, requests_per_s=share * most))
        by = replace(ENGINE.intervals["disaggregated/known-cell"], ttft_low=1.0, ttft_high=1.0)
        engine = replace(loaded.engine, intervals=dict.fromkeys(loaded.engine.intervals, by))
        prediction = predict(replace(loaded, engine=engine), small.SPLIT)
        high = prediction.intervals["ttft_s"]["p99"][1]
        ratios.append((high or float("inf")) / prediction.ttft_s["p99"])
    assert ratios == sorted(ratios)
    assert ratios[-1] > ratios[0]
