"""Where laws leave out what simulations show, the mark says so."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import small_scenarios as small
from hypothesis import given
from hypothesis import strategies as st

from planner.records import Arrivals, Deployment, Pool
from planner.serving import doubts
from planner.serving.predict import predict
from planner.simulation.simulate import Setting, simulate

MARKS = [("ok", ""), ("caution", "a"), ("no closed form", "b")]


@given(st.lists(st.sampled_from(MARKS)))
def test_the_gravest_mark_stands(marks: list[doubts.Mark]) -> None:
    order = [word for word, _ in MARKS]
    assert doubts.worst(marks)[0] == order[max((order.index(word) for word, _ in marks), default=0)]


@pytest.mark.parametrize(("share", "near"), [(0.004, False), (0.0051, True), (0.0199, True), (0.021, False)])
def test_a_quantile_is_doubtful_within_a_factor_of_two_of_the_edge(share: float, near: bool) -> None:
    assert (doubts.edge_mark("P99", 0.01, share)[0] == "caution") == near


def test_thresholds_on_both_sides() -> None:
    assert doubts.bent_mark(1.05, 1.0) == doubts.OK
    assert doubts.bent_mark(0.38, 1.0)[1].endswith("-62% from the linear law")
    # half of a step is attention, contexts of SCV 1: 5 % of 100 requests, 1.6 % of 1000
    assert doubts.spread_mark(0.5, 1.0, 100.0)[0] == "caution"
    assert doubts.spread_mark(0.5, 1.0, 1000.0) == doubts.OK
    assert doubts.shared_mark(0.5, 1.0, replicas=1.0) == doubts.OK
    assert doubts.shared_mark(0.5, 1.0, replicas=2.0)[0] == "caution"
    assert doubts.short_mark(0.5, 1.0, unevenness_factor=0.0) == doubts.OK
    assert doubts.short_mark(0.5, 1.0, unevenness_factor=1.0)[0] == "caution"
    # 10 prompts/s of 50 ms into steps of 40 ms: 20 ms more on an own prefill of 100 ms
    assert doubts.packed_mark(10.0, 0.04, 0.05, 0.1)[0] == "caution"
    assert doubts.packed_mark(1.0, 0.04, 0.05, 0.1) == doubts.OK
    assert doubts.growing_mark(100.0, 600.0) == ("caution", doubts.GROWING)
    assert doubts.growing_mark(100.0, 400.0) == doubts.OK


def test_prompts_on_ranks_that_step_together_are_no_separate_servers() -> None:
    question = small.scenario(model_id="Qwen/Qwen3-30B-A3B", requests_per_s=1.0)
    alone = Deployment("disaggregated", Pool("h100-sxm", 1, tp=2, max_batch=64), Pool("h100-sxm", 1, tp=2))
    ranks = replace(alone, prefill=Pool("h100-sxm", 1, dp=2, ep=2))
    prediction = predict(question, ranks, with_intervals=False)
    assert prediction.prefill is not None
    # two servers of their own would seldom make anyone wait at this load; a step in progress does
    apart = predict(question, replace(alone, prefill=Pool("h100-sxm", 2, tp=1)), with_intervals=False)
    assert apart.prefill is not None
    assert prediction.ttft_parts_s["wait_s"] > apart.ttft_parts_s["wait_s"]
    assert prediction.prefill.trust == "ok"
    assert doubts.ranks_mark(2) == ("caution", doubts.RANKS)
    assert doubts.ranks_mark(1) == doubts.OK


def test_short_prompts_through_every_expert_take_the_chain() -> None:
    """250 tokens read the weights of all experts, as 8192 do: a line through a full step is 40 % low on TTFT."""
    pool = Pool("h100-sxm", 1, tp=2, token_budget=8192)
    lengths = small.fixed_lengths(250.0, 24.0)
    question = small.scenario(model_id="Qwen/Qwen3-30B-A3B", requests_per_s=30.0, lengths=lengths)
    deployment = Deployment("colocated-chunked", pool)
    ours = predict(question, deployment, with_intervals=False)
    simulated = simulate(question, deployment, Setting(requests=1200))
    assert ours.ttft_s["mean"] == pytest.approx(simulated.ttft_s["mean"].value, rel=0.05)
    assert ours.ttft_s["p99"] == pytest.approx(simulated.ttft_s["p99"].value, rel=0.08)
    assert ours.itl_s["mean"] == pytest.approx(simulated.itl_s["mean"].value, rel=0.06)
    assert ours.itl_s["p99"] == pytest.approx(simulated.itl_s["p99"].value, rel=0.06)
    assert ours.decode.trust == "ok"


def test_under_a_trace_a_step_that_bends_is_marked() -> None:
    pool = Pool("h100-sxm", 1, tp=2, token_budget=8192)
    question = small.scenario(
        model_id="Qwen/Qwen3-30B-A3B", requests_per_s=5.0, lengths=small.fixed_lengths(250.0, 24.0)
    )
    times = np.arange(0.0, 200.0, 0.2)
    trace = Arrivals(times, np.full(times.size, 250.0), np.full(times.size, 24.0), 200.0)
    moving = replace(question, workload=replace(question.workload, arrivals=trace))
    bent = predict(moving, Deployment("colocated-chunked", pool), with_intervals=False)
    assert bent.decode.trust == "caution"
    assert all(band.trust != "ok" for band in bent.formula_bands["itl_s"].values())


@pytest.mark.slow
def test_shared_ranks_in_step_agree_with_the_simulator() -> None:
    """Four ranks of one worker: prompts on each of them hold up the decodes of all (refused once for want of a law)."""
    pool = Pool("h200-sxm", 1, dp=4, ep=4, token_budget=2048)
    lengths = small.fixed_lengths(1000.0, 60.0)
    question = small.scenario(("h200-sxm",), "Qwen/Qwen3-30B-A3B", requests_per_s=20.0, lengths=lengths)
    deployment = Deployment("colocated-chunked", pool)
    prediction = predict(question, deployment, with_intervals=False)
    simulated = simulate(question, deployment, Setting(requests=1500))
    assert prediction.itl_s["mean"] == pytest.approx(simulated.itl_s["mean"].value, rel=0.08)
    assert prediction.ttft_s["mean"] == pytest.approx(simulated.ttft_s["mean"].value, rel=0.08)
    assert prediction.ttft_s["p99"] == pytest.approx(simulated.ttft_s["p99"].value, rel=0.15)
    assert prediction.decode.mean_batch == pytest.approx(simulated.decode.mean_batch.value, rel=0.10)
    assert prediction.requests_per_s_max > 40.0
