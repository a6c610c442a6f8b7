"""The batch that a shared pool settles at is the one its step times belong to."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import small_scenarios as small
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.records import Deployment, Mode, Pool
from planner.serving.colocated import colocated_law
from planner.serving.predict import bound_roles, evaluate_at
from planner.serving.role import build_role
from planner.serving.traffic import traffic
from planner.simulation.simulate import Setting, simulate

CACHED = small.scenario(model_id="Qwen/Qwen3-30B-A3B", kv_dtype="fp8", lengths=small.fixed_lengths(50_000.0, 400.0))
POOL = Pool("h100-sxm", 1, tp=2, token_budget=512)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(rate=st.floats(0.1, 2.5), hits=st.floats(0.5, 0.95))
def test_decode_steps_of_the_law_are_those_of_the_roofline_at_its_batch(rate: float, hits: float) -> None:
    workload = replace(CACHED.workload, requests_per_s=rate, prefix_hit_fraction=hits)
    question = replace(CACHED, workload=workload)
    role = build_role(question, traffic(workload), "colocated", POOL, small.accelerator("h100-sxm"))
    law = colocated_law(role, "colocated-chunked", np.array([512.0]), np.array([1.0]))
    if not law.usable.all() or float(law.mean_batch[0, 0]) < 2.0:
        return
    exact_s = float(role.decode(law.mean_batch[0]).total_s[0])
    assert float(law.law.gaps.decode_s[0, 0, 0]) == pytest.approx(exact_s, rel=0.03)


@pytest.mark.slow
def test_gaps_beside_cached_prompts_are_those_of_a_simulation() -> None:
    """Experts that wake up with the batch make it grow faster than the load; cached tokens are looked up first."""
    question = replace(CACHED, workload=replace(CACHED.workload, requests_per_s=1.2, prefix_hit_fraction=0.9))
    deployment = Deployment("colocated-chunked", POOL)
    seen = simulate(question, deployment, Setting(requests=4000))
    told = evaluate_at(question, deployment, traffic(question.workload))
    assert told.itl_s["mean"] == pytest.approx(seen.statistic("itl", "mean").value, rel=0.12)
    assert told.ttft_s["mean"] == pytest.approx(seen.statistic("ttft", "mean").value, rel=0.12)


@pytest.mark.parametrize("mode", ["colocated-chunked", "colocated-whole-prompt"])
def test_what_is_surely_later_is_later(mode: Mode) -> None:
    """A wait only adds: where prompts alone pass a limit, TTFT does."""
    question = small.scenario(requests_per_s=30.0)
    deployment = small.TOGETHER if mode == "colocated-chunked" else small.WHOLE
    role, _ = bound_roles(question, deployment, traffic(question.workload))
    law = colocated_law(role, mode, np.array([512.0, 4096.0]), np.array([4.0, 6.0, 12.0]))
    known = law.ttft_quantile_s(0.99, law.usable)
    marked = [law.surely_later(0.99, limit_s) for limit_s in (0.1, 0.2, 0.4, 0.8)]
    assert any((late & law.usable).any() for late in marked)
    for late, limit_s in zip(marked, (0.1, 0.2, 0.4, 0.8), strict=True):
        assert np.all(known[late & law.usable] > limit_s)


@pytest.mark.parametrize("mode", ["colocated-chunked", "colocated-whole-prompt"])
def test_answers_of_an_idle_pool_keep_the_pace_of_its_steps(mode: Mode) -> None:
    """No prompt comes between: every request's mean gap is the step of one request, not of a fraction of one."""
    lengths = small.fixed_lengths(2000.0, 100.0)
    question = small.scenario(model_id="meta-llama/Llama-3.1-70B", kv_dtype="bf16", lengths=lengths)
    question = replace(question, workload=replace(question.workload, requests_per_s=1e-4))
    told = evaluate_at(question, Deployment(mode, Pool("h100-sxm", 8, tp=8)), traffic(question.workload))
    assert told.tpot_s["p50"] == pytest.approx(told.itl_s["p50"], rel=1e-3)
    assert told.tpot_s["p99"] == pytest.approx(told.itl_s["p99"], rel=1e-3)
