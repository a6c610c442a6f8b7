"""Pipeline stages: a worker of p stages serves like p engines that share its weights and its KV memory."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import roofline_examples as ex
import small_scenarios as small
from hypothesis import given
from hypothesis import strategies as st

from planner.errors import FieldError
from planner.records import Deployment, Lengths, Pool, Scenario, Target, Workload
from planner.roofline.collectives import hop_bytes_per_s, hops_s
from planner.roofline.steps import decode_s
from planner.serving.predict import predict
from planner.serving.role import build_role
from planner.serving.traffic import scenario_traffic
from planner.simulation.simulate import Setting, simulate
from planner.sizing.plan import size

LENGTHS = Lengths(np.array([500.0, 2000.0, 6000.0]), np.array([150.0, 300.0, 600.0]), np.array([0.5, 0.35, 0.15]))
SCENARIO = Scenario(
    name="stages",
    model=ex.LLAMA_70B,
    weights="fp8",
    kv_dtype="bf16",
    engine=ex.TENSORRT,
    prefill_accelerators=(ex.H100,),
    decode_accelerators=(ex.H100,),
    network_bytes_per_s=50e9,
    workload=Workload(6.0, LENGTHS),
    targets=(Target("ttft", "p99", 5.0),),
    budgets=(),
    deployment=None,
)
SPLIT = Deployment("disaggregated", Pool("h100-sxm", 2, tp=2, pp=2, max_batch=256), Pool("h100-sxm", 2, tp=2, pp=2))


def test_two_pools_of_stages_agree_with_the_simulation() -> None:
    predicted, found = predict(SCENARIO, SPLIT, with_intervals=False), simulate(SCENARIO, SPLIT, Setting(2000, seed=3))
    assert found.ttft_s["mean"].value == pytest.approx(predicted.ttft_s["mean"], rel=0.05)
    assert found.itl_s["mean"].value == pytest.approx(predicted.itl_s["mean"], rel=0.03)
    assert found.decode.mean_batch.value == pytest.approx(predicted.decode.mean_batch, rel=0.05)
    assert found.prefill is not None and predicted.prefill is not None
    assert found.prefill.utilization.value == pytest.approx(predicted.prefill.utilization, rel=0.1)


def test_free_hops_serve_like_more_workers_and_weigh_less() -> None:
    load = scenario_traffic(SCENARIO)
    two = build_role(SCENARIO, load, "decode", Pool("h100-sxm", 1, tp=2, pp=2), ex.H100)
    one = build_role(SCENARIO, load, "decode", Pool("h100-sxm", 2, tp=2), ex.H100)
    # a stage holds half of the layers and one of embedding and head, which are as large as each other
    assert two.memory.weights_bytes == pytest.approx(one.memory.weights_bytes / 2, rel=1e-6)
    assert two.kv_capacity_tokens > 2.0 * one.kv_capacity_tokens  # what weights leave free holds tokens
    hop_s = float(two.decode(np.ones(1)).total_s[0] - one.decode(np.ones(1)).total_s[0])
    assert hop_s == pytest.approx(two.constants.collective_factor * (6e-6 + 4 * 8192 / (0.79 * 450e9)), rel=1e-6)


def test_a_hop() -> None:
    assert hops_s(100.0, 8192, 1, 1.0) == 0.0
    # three hops of 6 us and 4 x 8192 x 1000 bytes over 94 % of eight cards of 50 GB/s
    rate = hop_bytes_per_s(8, 4, 450e9, 8, 50e9)
    assert rate == pytest.approx(8 * 47e9)
    assert hops_s(1000.0, 8192, 4, rate) == pytest.approx(3 * (6e-6 + 32.768e6 / 376e9))


@given(pp=st.integers(1, 16), batch=st.floats(1.0, 256.0), context=st.floats(1.0, 1e5))
def test_stages_never_shorten_a_step(pp: int, batch: float, context: float) -> None:
    alone, staged = (decode_s(ex.worker(tp=8, pp=p), batch, context).total_s for p in (1, pp))
    assert float(staged) >= float(alone) * (1.0 - 1e-12)


def test_uneven_stages_wait_for_the_fullest() -> None:
    assert ex.worker(tp=8, pp=3).stage_factor == pytest.approx(3 * 27 / 80)  # 80 layers in stages of at most 27


def test_what_no_domain_holds_is_sized_in_stages() -> None:
    box = small.boxes_of(1)  # 70B in bf16 needs two of them
    scenario = replace(
        SCENARIO,
        weights="bf16",
        engine=small.engine("tensorrt-llm"),
        prefill_accelerators=(box,),
        decode_accelerators=(box,),
        workload=Workload(1.0, LENGTHS),
        targets=(Target("ttft", "p99", 20.0),),
    )
    plan = size(scenario)
    assert plan.verdict == "feasible" and plan.deployment is not None
    assert all(pool.tp == 1 and pool.pp > 1 for pool in plan.deployment.pools)


def test_stages_of_attention_ranks_are_refused() -> None:
    scenario = replace(SCENARIO, model=ex.DEEPSEEK_R1)
    pool = Pool("h100-sxm", 1, tp=1, pp=2, dp=8, ep=8)
    with pytest.raises(FieldError, match="pp 2 with dp 8"):
        predict(scenario, Deployment("disaggregated", pool, pool))
