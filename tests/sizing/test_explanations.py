"""Why an alternative lost, and why nothing fits at all."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
import small_scenarios as small

from planner import sizing
from planner.errors import FieldError
from planner.records import Deployment, Plan, Pool, Target
from planner.serving.predict import predict
from planner.sizing.explain import why_it_lost
from planner.sizing.search import Candidate


def candidate(usd_per_hour: float, accelerators: int, over_budget: float = 0.0) -> Candidate:
    return Candidate(usd_per_hour, accelerators, 0.9, over_budget, small.SPLIT)


QUESTION = small.scenario()
PREDICTION = predict(QUESTION, small.SPLIT, with_intervals=False)
BEST = candidate(10.0, 8)


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (candidate(12.5, 12), "25% dearer: 12 accelerators against 8"),
        (candidate(11.0, 6), "10% dearer"),
        (candidate(10.0, 9), "same price, 9 accelerators against 8"),
        (candidate(10.0, 8), "same price, less slack"),
    ],
)
def test_what_holds_lost_on_price_first(other: Candidate, expected: str) -> None:
    assert why_it_lost(QUESTION, BEST, other, PREDICTION, feasible=True, basis="rent3y") == expected


def test_without_prices_only_accelerators_are_compared() -> None:
    for other, expected in ((candidate(12.0, 12), "12 accelerators against 8"), (candidate(8.0, 8), "less slack")):
        sentence = why_it_lost(QUESTION, replace(BEST, usd_per_hour=8.0), other, PREDICTION, feasible=True, basis="")
        assert expected in sentence and "dearer" not in sentence and "price" not in sentence


def test_what_misses_names_the_target_it_misses_most() -> None:
    """ITL P99 of 20 ms against 8 ms is 150 % over; TTFT at 600 ms against 500 ms only 20 %."""
    question = replace(QUESTION, targets=(Target("ttft", "p99", 0.5), Target("itl", "p99_9", 0.008)))
    late = replace(PREDICTION, ttft_s={**PREDICTION.ttft_s, "p99": 0.6}, itl_s={**PREDICTION.itl_s, "p99_9": 0.020})
    sentence = why_it_lost(question, BEST, candidate(9.0, 7), late, feasible=False, basis="rent3y")
    assert re.search(r"(?i)itl p99\.9.*20.0 ms against 8.00 ms.*150% over", sentence), sentence


def test_what_is_over_budget_says_so() -> None:
    sentence = why_it_lost(
        QUESTION, BEST, candidate(9.0, 7, over_budget=1.4), PREDICTION, feasible=False, basis="rent3y"
    )
    assert "over budget by 40%" in sentence


def test_endless_latency_is_not_printed_as_a_percentage() -> None:
    late = replace(PREDICTION, itl_s=dict.fromkeys(PREDICTION.itl_s, np.inf))
    sentence = why_it_lost(QUESTION, BEST, candidate(9.0, 7), late, feasible=False, basis="rent3y")
    assert not re.search(r"\binf\b|nan", sentence), sentence


# ---------------------------------------------------------------------------------------------------- nothing fits


@pytest.fixture(scope="module")
def too_large() -> Plan:
    return sizing.size(small.scenario(("l4",), "deepseek-ai/DeepSeek-R1", weights="fp8_block"))


def test_a_model_too_large_for_every_worker_is_an_answer(too_large: Plan) -> None:
    """671e9 parameters are 671 GB in 8 bits; the largest worker of L4s, a scale-up domain of them, holds far less."""
    assert too_large.verdict == "infeasible"
    assert too_large.deployment is None and too_large.prediction is None and too_large.money is None
    assert too_large.alternatives == ()
    assert too_large.missed == too_large.limits
    assert any(note.level == "warning" for note in too_large.notes)
    for limit in too_large.limits:
        assert limit.name.startswith("l4.")
        assert limit.binding and limit.slack_fraction < 0.0
        assert limit.value > limit.limit
        assert limit.what_would_relax_it


def test_a_given_deployment_that_cannot_hold_the_weights_is_a_fault_with_its_field() -> None:
    """70e9 parameters in bf16 are 141 GB on 80."""
    with pytest.raises(FieldError) as caught:
        sizing.evaluate(small.scenario(model_id="meta-llama/Llama-3.1-70B", deployment=small.SPLIT))
    assert caught.value.field.startswith("deployment.prefill")


def test_a_given_deployment_that_the_engine_cannot_run_is_a_fault_with_its_field() -> None:
    """32 query heads over 3 ranks."""
    odd = Deployment("disaggregated", decode=Pool("h100-sxm", 1, tp=3), prefill=Pool("h100-sxm", 1))
    with pytest.raises(FieldError) as caught:
        sizing.evaluate(small.scenario(deployment=odd))
    assert caught.value.field.startswith("deployment")


def test_nothing_to_evaluate_is_a_fault() -> None:
    with pytest.raises(FieldError, match="give a deployment"):
        sizing.evaluate(small.scenario())
