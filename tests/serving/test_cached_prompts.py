"""Prompts whose beginning is in a cache: prefilled in part, resident in whole (MODELLING §9)."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import small_scenarios as small
from hypothesis import given, settings
from hypothesis import strategies as st

from planner import sizing
from planner.errors import FieldError
from planner.records import Arrivals, Deployment, Lengths, Scenario, Workload
from planner.serving.predict import evaluate_at
from planner.serving.traffic import INPUT_ATOMS, trace_work, traffic
from planner.simulation.simulate import simulate

some = settings(max_examples=20, deadline=None, derandomize=True)


def cached(question: Scenario, ratio: float) -> Scenario:
    return replace(question, workload=replace(question.workload, prefix_hit_fraction=ratio))


@some
@given(ratio=st.floats(0.0, 1.0))
def test_a_ratio_leaves_its_share_of_every_prompt(ratio: float) -> None:
    load = traffic(Workload(1.0, small.CHAT, prefix_hit_fraction=ratio))
    assert np.all(load.new_tokens >= 1.0 - 1e-9)  # logits of the last token are always wanted
    assert load.mean_new_tokens == pytest.approx(float(load.input_weights @ load.new_tokens))
    assert load.mean_new_tokens == pytest.approx(max(1.0 - ratio, 1e-9) * load.mean_input_tokens, rel=1e-9, abs=1.0)


@some
@given(seed=st.integers(0, 999), requests=st.integers(200, 3000))
def test_prompts_cached_differently_keep_both_means_and_their_spread(seed: int, requests: int) -> None:
    rng = np.random.default_rng(seed)
    inputs = np.ceil(rng.lognormal(7.0, 1.0, requests))
    found = np.where(rng.random(requests) < 0.5, np.floor(0.9 * inputs), 0.0)
    weights = np.full(requests, 1.0 / requests)
    load = traffic(Workload(1.0, Lengths(inputs, np.full(requests, 10.0), weights, found)))
    assert load.input_tokens.size <= INPUT_ATOMS and np.all(np.diff(load.input_tokens) >= 0.0)
    assert load.input_weights @ load.cached_tokens == pytest.approx(found.mean(), rel=1e-6)
    new = inputs - np.minimum(found, inputs - 1.0)
    assert load.mean_new_tokens == pytest.approx(new.mean(), rel=1e-6)
    # half of the prompts hit: the service times are more uneven than the prompts are
    spread = float(load.input_weights @ load.new_tokens**2) / load.mean_new_tokens**2
    assert spread == pytest.approx(float((new**2).mean()) / float(new.mean()) ** 2, rel=0.15)


def test_work_of_a_trace_follows_what_each_request_finds() -> None:
    times, inputs = np.array([0.0, 1.0, 2.0, 3.0]), np.array([1000.0, 1000.0, 2000.0, 2000.0])
    found = np.array([900.0, 0.0, 0.0, 1500.0])
    lengths = Lengths(inputs, np.full(4, 10.0), np.full(4, 0.25), found)
    load = traffic(Workload(1.0, lengths, Arrivals(times, inputs, np.full(4, 10.0), 4.0, found)))
    work = trace_work(load, load.new_tokens)[1]
    assert work == pytest.approx(inputs - found)


@pytest.mark.parametrize("deployment", [small.SPLIT, small.TOGETHER, small.WHOLE])
def test_a_higher_ratio_never_slows(deployment: Deployment) -> None:
    question = small.scenario()
    outcomes = [evaluate_at(q, deployment, traffic(q.workload)) for q in (cached(question, r) for r in (0.0, 0.3, 0.9))]
    for slower, faster in pairwise(outcomes):
        assert faster.ttft_s["p99"] < slower.ttft_s["p99"]
        assert faster.ttft_s["mean"] < slower.ttft_s["mean"]
    # whole contexts stay in the decode pool: the same batch law holds the same KV
    if deployment.prefill is not None:
        assert outcomes[0].decode.kv_mean_tokens == pytest.approx(outcomes[2].decode.kv_mean_tokens, rel=1e-9)


def test_a_ratio_of_nothing_is_the_plan_without_one() -> None:
    question = small.scenario((small.boxes_of(2),))
    assert sizing.size(cached(question, 0.0)).deployment == sizing.size(question).deployment


def test_hits_save_accelerators() -> None:
    question = small.scenario((small.boxes_of(2),), requests_per_s=80.0)
    counts = [sizing.size(cached(question, ratio)).deployment.accelerators for ratio in (0.0, 0.5, 0.9)]
    assert counts[0] >= counts[1] >= counts[2] and counts[0] > counts[2]


def test_the_simulator_refuses_what_it_does_not_have() -> None:
    """A stated share of every prompt is simulated; what a cache of some size holds is not."""
    asked = small.scenario()
    found = replace(asked.workload.lengths, cached_tokens=0.5 * asked.workload.lengths.input_tokens)
    with pytest.raises(FieldError, match="prefix cache"):
        simulate(replace(asked, workload=replace(asked.workload, lengths=found)), small.TOGETHER)
