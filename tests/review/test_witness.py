"""Closed forms held against a simulation: bands, confidence, and what cannot be compared."""

from __future__ import annotations

from math import nan
from typing import Any

import hand_gates
import hand_plans
import pytest

from planner.records import METRICS, STATISTICS
from planner.review.checks import gate
from planner.review.document import document
from planner.review.witness import band_fraction, can_be_simulated, with_witness, witness_lines
from planner.simulation.estimates import Estimate
from planner.simulation.result import PoolSimulation, Simulation

RESULT = document(hand_plans.DISAGGREGATED)
CHECKS = hand_gates.placed(["ttft.p99 <= 800 ms", "accelerators <= 60"], "p.yaml")
POOL = PoolSimulation(Estimate(0.9, 0.9, 0.9), Estimate(38.0, 37.0, 39.0), {}, 0, 0.0)


def simulation(factor: float, half_width: float = 0.0, refused: int = 0) -> Simulation:
    """Every statistic is the prediction times `factor`, known to `half_width` of itself."""

    def around(value: float | None) -> Estimate:
        found = (value or 0.0) * factor
        return Estimate(found, found * (1.0 - half_width), found * (1.0 + half_width))

    latencies = {
        f"{metric}_s": {name: around(RESULT["prediction"][f"{metric}_s"][name]) for name in STATISTICS}
        for metric in METRICS
    }
    return Simulation(
        **latencies,
        wait_s={},
        requests_per_s=12.0,
        output_tokens_per_s=6000.0,
        prefill=None,
        decode=POOL,
        requests=1000,
        refused=refused,
        seed=0,
    )


def lines(found: Simulation) -> dict[str, dict[str, Any]]:
    return {line["name"]: line for line in witness_lines(RESULT, CHECKS, found)}


def test_means_of_all_and_what_is_limited() -> None:
    assert list(lines(simulation(1.0))) == [
        "witness(ttft.mean)",
        "witness(itl.mean)",
        "witness(tpot.mean)",
        "witness(e2e.mean)",
        "witness(ttft.p99)",
    ]


@pytest.mark.parametrize(
    ("factor", "half_width", "verdict"),
    [
        (1.0, 0.0, "pass"),
        (1 / 1.07, 0.0, "pass"),  # 7 % high of 8 %
        (1 / 1.09, 0.0, "fail"),
        (1 / 0.91, 0.0, "fail"),  # 9 % low
        (1 / 1.09, 0.02, "pass"),  # and 2 % of confidence
        (1 / 1.11, 0.02, "fail"),
    ],
)
def test_band_and_confidence(factor: float, half_width: float, verdict: str) -> None:
    line = lines(simulation(factor, half_width))["witness(itl.mean)"]
    assert line["verdict"] == verdict
    assert line["delta_fraction"] == pytest.approx(1 / factor - 1.0)
    assert line["limit"] == 0.08 and line["unit"] == "s"


def test_a_line_stands_where_its_limit_does() -> None:
    found = lines(simulation(1.0))
    assert (found["witness(ttft.p99)"]["line"], found["witness(ttft.p99)"]["path"]) == (10, "p.yaml")


def test_a_run_too_short_for_confidence_has_the_band_alone() -> None:
    found = simulation(1.0, nan)
    line = lines(found)["witness(e2e.mean)"]
    assert line["verdict"] == "pass" and line["interval"] is None and "too short" in line["reason"]


def test_refused_requests_fail() -> None:
    found = lines(simulation(1.0, refused=3))
    assert found["witness(ttft.mean)"]["verdict"] == "fail" and "3 requests" in found["witness(ttft.mean)"]["reason"]


def test_disagreement_fails_the_gate() -> None:
    assert gate(with_witness(RESULT, CHECKS, simulation(0.5))["checks"]) == "fail"
    assert gate(with_witness(RESULT, CHECKS, simulation(1.0))["checks"]) == "at risk"


def test_what_is_not_bounded_is_left_out() -> None:
    unbounded = document(hand_plans.INFEASIBLE)
    checks = hand_gates.placed(["itl.p99 <= 30 ms"], "p.yaml")
    assert "witness(itl.p99)" not in {line["name"] for line in witness_lines(unbounded, checks, simulation(1.0))}


def test_only_plans_that_carry_their_load_are_simulated() -> None:
    assert can_be_simulated(RESULT) and not can_be_simulated(document(hand_plans.NOTHING_FITS))
    crowded = {**RESULT, "plan": {**RESULT["plan"], "decode": {**RESULT["plan"]["decode"], "utilization": 1.2}}}
    assert not can_be_simulated(crowded)


def test_rough_forms_have_wide_bands() -> None:
    assert band_fraction("tpot", "p99", "disaggregated") < band_fraction("tpot", "p99", "colocated-chunked")
    assert all(0.0 < band_fraction(metric, "mean", "disaggregated") < 0.2 for metric in METRICS)
