"""A plan against a benchmark: inside or not, and the term that was changed is the one that is named."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from planner.calibration.agreement import Agreement, agreement

PLAN: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "data" / "export" / "gpt-oss-120b.json").read_text(encoding="utf-8")
)
PREDICTION = PLAN["prediction"]
STATISTICS = ("mean", "p50", "p90", "p99")


def predicted(metric: str) -> dict[str, float]:
    return {name: PREDICTION[f"{metric}_s"][name] for name in STATISTICS}


def against(**seconds: dict[str, float]) -> Agreement:
    return agreement(PLAN, seconds, math.nan, math.nan, math.nan)


def test_the_plan_itself_is_inside() -> None:
    found = against(ttft=predicted("ttft"), tpot=predicted("tpot"), itl=predicted("itl"), e2e=predicted("e2e"))
    assert len(found.compared) == 16 and all(one.inside for one in found.compared)
    assert found.error == 0.0 and found.outside == () and found.explanations == ()


def test_the_edges_of_an_interval_are_inside() -> None:
    low, high = PREDICTION["intervals"]["tpot_s"]["mean"]
    assert against(tpot={"mean": low}).compared[0].inside and against(tpot={"mean": high}).compared[0].inside
    assert not against(tpot={"mean": low * 0.999}).compared[0].inside
    assert not against(tpot={"mean": high * 1.001}).compared[0].inside


def test_longer_steps_are_named() -> None:
    parts = PREDICTION["ttft_parts_s"]
    own = 0.8 * (parts["prefill"] + parts["first_steps"])
    found = against(
        ttft={name: value + own for name, value in predicted("ttft").items()},
        tpot={name: 1.8 * value for name, value in predicted("tpot").items()},
    )
    assert found.explanations[0].term == "step time"
    assert found.explanations[0].value == pytest.approx(1.8, rel=0.02)
    assert found.explanations[0].error < 0.02


def test_longer_waits_are_named() -> None:
    base = PREDICTION["ttft_s"]["mean"] - PREDICTION["ttft_parts_s"]["wait"]
    waits = {name: value + 9.0 * max(value - base, 0.0) for name, value in predicted("ttft").items()}
    found = against(ttft=waits, tpot=predicted("tpot"))
    assert (found.explanations[0].term, round(found.explanations[0].value)) == ("wait", 10)


def test_a_full_cache_is_named() -> None:
    stalled = {"mean": 0.1, "p50": 0.0, "p90": 0.2, "p99": 1.0}
    longer = {name: value + 6.0 * stalled[name] for name, value in predicted("ttft").items()}
    found = against(ttft=longer, tpot=predicted("tpot"))
    assert found.explanations[0].term == "admission"
    assert found.explanations[0].value == pytest.approx(6.0, rel=0.05)


def test_prefix_hits_are_named() -> None:
    # Everything of a first token that prefill makes is found: 35 % of it, which lies below the interval's low end.
    share = PREDICTION["ttft_parts_s"]["prefill"] / PREDICTION["ttft_s"]["mean"]
    plan = {**PLAN, "prediction": {**PREDICTION, "intervals": {"ttft_s": {"p50": [0.15, 0.9]}}}}
    shorter = {name: value * (1.0 - 0.9 * share) for name, value in predicted("ttft").items()}
    found = agreement(plan, {"ttft": shorter, "tpot": predicted("tpot")}, math.nan, math.nan, math.nan)
    assert found.explanations[0].term == "hit ratio"
    assert found.explanations[0].value == pytest.approx(0.9, abs=0.02)


def test_another_load_is_told() -> None:
    workload = PLAN["inputs"]["workload"]
    found = agreement(PLAN, {"tpot": {"mean": 0.01}}, 1.2 * workload["requests_per_s"], 3000.0, math.nan)
    assert [(load.name, load.differs) for load in found.load] == [("requests_per_s", True), ("input_tokens", False)]


def test_without_an_interval_nothing_is_judged() -> None:
    plan = {**PLAN, "prediction": {**PREDICTION, "intervals": {}}}
    (one,) = agreement(plan, {"tpot": {"mean": 1.0}}, math.nan, math.nan, math.nan).compared
    assert one.inside is None
