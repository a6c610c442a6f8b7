"""Steps of requests whose drafted tokens are accepted at random."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import small_scenarios as small

from planner.records import Deployment, Speculation
from planner.serving.predict import predict
from planner.simulation.simulate import Setting, simulate
from planner.simulation.speculation import acceptance_moments, acceptance_rate, verify_steps


def test_the_rate_behind_a_mean() -> None:
    # p + p^2 + p^3 = 0.8 + 0.64 + 0.512 = 1.952
    assert acceptance_rate(3, 1.952) == pytest.approx(0.8)
    assert acceptance_rate(3, 3.0) == pytest.approx(1.0)
    assert acceptance_rate(1, 0.0) == pytest.approx(0.0, abs=1e-9)


def test_moments_of_one_draft() -> None:
    # one draft, kept with 0.7: mean 1 + 0.7, variance 0.7 x 0.3
    assert acceptance_moments(Speculation(1, 0.7)) == pytest.approx((1.7, 0.21))


def test_steps_of_long_requests() -> None:
    steps = np.array(verify_steps(np.full(4000, 1001), Speculation(3, 2.0), np.random.default_rng(1)), dtype=float)
    assert steps.mean() == pytest.approx(1000 / 3.0, rel=0.01)  # 1,000 tokens after the first, 3 a step
    assert 0 < steps.std() < 0.1 * steps.mean()


def test_no_step_gives_more_than_it_drafts_nor_less_than_one() -> None:
    outputs = np.array([1, 2, 3, 5, 9, 17])
    steps = np.array(verify_steps(outputs, Speculation(3, 3.0), np.random.default_rng(1)))
    assert np.all(steps >= np.ceil((outputs - 1) / 4))
    assert np.all(steps <= outputs - 1)


@pytest.mark.slow
@pytest.mark.parametrize("deployment", [small.SPLIT, small.TOGETHER], ids=lambda item: item.mode)
def test_predictions_agree_with_the_witness_under_speculation(deployment: Deployment) -> None:
    question = replace(small.scenario(requests_per_s=5.0), speculation=Speculation(3, 2.0))
    predicted = predict(question, deployment, with_intervals=False)
    seen = simulate(question, deployment, Setting(requests=3000, seed=2))
    assert seen.itl_s["mean"].value == pytest.approx(predicted.itl_s["mean"], rel=0.06)
    assert seen.tpot_s["mean"].value == pytest.approx(predicted.tpot_s["mean"], rel=0.06)
    assert seen.e2e_s["mean"].value == pytest.approx(predicted.e2e_s["mean"], rel=0.08)
    assert seen.output_tokens_per_s == pytest.approx(predicted.output_tokens_per_s, rel=0.05)
