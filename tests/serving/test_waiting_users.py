"""Users whose deployment is full: they wait, and every time of the prediction is that of the closed loop."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import small_scenarios as small

from planner.records import Deployment, Lengths, Plan, Pool, Scenario, Sessions
from planner.serving.flow import plant_of
from planner.serving.residency import settled
from planner.sizing.kv import _factors
from planner.sizing.plan import evaluate

ONE = Deployment("colocated-chunked", decode=Pool("h100-sxm", 1, tp=1))
AGENTS = Sessions(20, 12, 2000.0, 6000.0, 2000.0, 500.0, 20.0)
NAMES = ("p50", "p90", "p95", "p99", "p99_9")


def question(users: int) -> Scenario:
    base = small.scenario(deployment=ONE)
    prompts = 8000.0 + np.arange(12) * 2500.0
    lengths = Lengths(prompts, np.full(12, 500.0), np.full(12, 1.0 / 12.0))
    return replace(base, workload=replace(base.workload, lengths=lengths, sessions=replace(AGENTS, users=users)))


@cache
def answer(users: int) -> Plan:
    return evaluate(question(users))


@pytest.mark.parametrize("users", [100, 400])
def test_times_of_a_full_deployment_are_bounded(users: int) -> None:
    """Little's law: users = turns per second x (end to end + thought); quantiles in order, means between."""
    prediction = answer(users).prediction
    assert prediction is not None
    flow = settled(plant_of(question(users), ONE), "cold").flow
    assert flow.saturated
    assert prediction.ttft_s["mean"] == pytest.approx(flow.ttft_s, rel=1e-6)
    assert users == pytest.approx(flow.requests_per_s * (prediction.e2e_s["mean"] + 20.0), rel=0.02)
    for values in (prediction.ttft_s, prediction.itl_s, prediction.e2e_s, prediction.tpot_s):
        ordered = [values[name] for name in NAMES]
        assert ordered == sorted(ordered) and ordered[0] > 0.0 and np.isfinite(ordered[-1])
    assert sum(prediction.ttft_parts_s.values()) == pytest.approx(prediction.ttft_s["mean"])
    assert all(low <= prediction.ttft_s[name] for name, (low, _) in prediction.intervals["ttft_s"].items())
    assert any("ask for more than is carried" in note.text for note in prediction.notes)


def test_more_users_wait_longer() -> None:
    few, many = (answer(users).prediction for users in (100, 400))
    assert few is not None and many is not None
    assert many.ttft_s["mean"] > few.ttft_s["mean"] and many.ttft_s["p99"] > few.ttft_s["p99"]


def test_users_with_room_are_predicted_as_before() -> None:
    prediction = answer(5).prediction
    assert prediction is not None
    assert all(high is not None for _, high in prediction.intervals["ttft_s"].values())
    assert not any("closed loop" in note.text for note in prediction.notes)


def test_a_user_who_mostly_thinks_sends_what_one_user_can() -> None:
    """One request every thought and answer, however far below the least batch that is tabled."""
    asked = question(1)
    flow = plant_of(asked, ONE).loaded(asked.workload).with_users(1.0, 3600.0, 1.0)
    assert flow.requests_per_s == pytest.approx(1.0 / (3600.0 + flow.ttft_s + flow.run_s), rel=0.01)
    assert flow.asked_per_s == pytest.approx(flow.requests_per_s, rel=0.01)
    assert _factors(plant_of(asked, ONE))[0] == pytest.approx(1.0)  # no load of a fraction of a user


def test_prompts_of_a_full_deployment_have_their_price() -> None:
    """A shared pool that is full reads prompts for a share of its time, and that share is what they cost."""
    full, roomy = (answer(users).money.usd_per_mtok for users in (400, 5))
    assert full["input"] > 0.0 and roomy["input"] > 0.0
