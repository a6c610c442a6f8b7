"""More bandwidth or FLOP/s never slows, never needs more, and times scale with the rates (HOUSE §5)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import small_scenarios as small
from hypothesis import given, settings
from hypothesis import strategies as st

from planner import sizing
from planner.records import (
    STATISTICS,
    Accelerator,
    Deployment,
    EngineConstants,
    OperatorFit,
    Pool,
    Prediction,
    Scenario,
)
from planner.serving import transfer
from planner.serving.predict import predict
from planner.serving.role import build_role
from planner.serving.traffic import traffic

RATES = ("memory_bytes_per_s", "scaleup_bytes_per_s", "nic_bytes_per_s", "flops")
DEPLOYMENTS = {item.mode: item for item in (small.SPLIT, small.TOGETHER, small.WHOLE)}
few = settings(max_examples=8, deadline=None, derandomize=True)
fewest = settings(max_examples=4, deadline=None, derandomize=True)


def faster(rate: str, factor: float) -> Callable[[Accelerator], Accelerator]:
    def change(item: Accelerator) -> Accelerator:
        names = ("bf16_dense_flops_per_s", "fp8_dense_flops_per_s") if rate == "flops" else (rate,)
        return replace(item, **{name: factor * getattr(item, name) for name in names})

    return change


def predicted(question: Scenario, deployment: Deployment) -> Prediction:
    return predict(question, deployment, with_intervals=False)


@few
@given(rate=st.sampled_from(RATES), factor=st.floats(1.01, 4.0), mode=st.sampled_from(sorted(DEPLOYMENTS)))
def test_a_faster_accelerator_never_slows_a_deployment(rate: str, factor: float, mode: str) -> None:
    question = replace(small.scenario(), network_bytes_per_s=None)
    better = small.on_other_hardware(question, faster(rate, factor))
    slow, fast = (predicted(each, DEPLOYMENTS[mode]) for each in (question, better))
    for statistic in ("mean", "p50", "p90", "p99"):
        assert fast.ttft_s[statistic] <= slow.ttft_s[statistic] * (1.0 + 2e-3)
        assert fast.itl_s[statistic] <= slow.itl_s[statistic] * (1.0 + 2e-3)
    assert fast.requests_per_s_max >= slow.requests_per_s_max * (1.0 - 1e-9)


@few
@given(
    rate=st.sampled_from(RATES), factor=st.floats(1.01, 4.0), tp=st.sampled_from([1, 2, 8]), batch=st.integers(1, 256)
)
def test_a_faster_accelerator_never_slows_a_step(rate: str, factor: float, tp: int, batch: int) -> None:
    question = small.scenario()
    load = traffic(question.workload)
    item = question.decode_accelerators[0]
    slow, fast = (
        build_role(question, load, "colocated", Pool(item.id, 1, tp=tp), each)
        for each in (item, faster(rate, factor)(item))
    )
    assert float(fast.decode(np.array([batch])).total_s[0]) <= float(slow.decode(np.array([batch])).total_s[0])
    assert np.all(fast.service_s <= slow.service_s)
    assert float(fast.mixed(np.array([batch]), np.array([2048.0])).total_s[0]) <= float(
        slow.mixed(np.array([batch]), np.array([2048.0])).total_s[0]
    )


@fewest
@given(rate=st.sampled_from(("memory_bytes_per_s", "flops")), factor=st.floats(1.05, 3.0))
def test_a_faster_accelerator_never_needs_more_of_them(rate: str, factor: float) -> None:
    question = small.scenario((small.boxes_of(2),), requests_per_s=60.0)
    better = small.on_other_hardware(question, faster(rate, factor))
    before, after = sizing.size(question), sizing.size(better)
    assert before.deployment is not None and after.deployment is not None
    assert after.deployment.accelerators <= before.deployment.accelerators


# ----------------------------------------------------------------------------------------------------- scaling laws

NO_OVERHEAD = {"start_up_s": 0.0, "latency_s": 0.0, "sequence_s": 0.0}


def without_overhead(constants: EngineConstants) -> EngineConstants:
    """The engine whose every second is spent on bytes or FLOPs."""
    return replace(
        constants,
        kernel_gap_s=0.0,
        start_up_factor=0.0,
        host_step_s=0.0,
        host_sequence_s=0.0,
        prefill_kernel_s=0.0,
        ttft_fixed_s=0.0,
        ttft_sequence_s=0.0,
    )


def pure(question: Scenario) -> Scenario:
    def bare(fit: OperatorFit) -> OperatorFit:
        return replace(fit, **NO_OVERHEAD)

    engine = replace(
        question.engine,
        colocated=without_overhead(question.engine.colocated),
        disaggregated=without_overhead(question.engine.disaggregated),
    )
    bared = small.on_other_hardware(question, lambda item: replace(item, fits=tuple(bare(fit) for fit in item.fits)))
    return replace(bared, engine=engine, network_bytes_per_s=None)


def at_speed(question: Scenario, factor: float) -> Scenario:
    def change(item: Accelerator) -> Accelerator:
        for rate in RATES:
            item = faster(rate, factor)(item)
        return item

    workload = replace(question.workload, requests_per_s=question.workload.requests_per_s * factor)
    return replace(small.on_other_hardware(question, change), workload=workload)


@pytest.mark.parametrize("mode", sorted(DEPLOYMENTS))
@few
@given(factor=st.floats(0.25, 4.0))
def test_hardware_and_traffic_k_times_as_fast_make_every_time_k_times_as_short(mode: str, factor: float) -> None:
    """With no constant in seconds left, time has no unit of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transfer, "SET_UP_S", 0.0)
        question = pure(small.scenario())
        one, other = (predicted(each, DEPLOYMENTS[mode]) for each in (question, at_speed(question, factor)))
    for metric in ("ttft_s", "itl_s", "tpot_s", "e2e_s"):
        for statistic in STATISTICS:
            expected = getattr(one, metric)[statistic] / factor
            assert getattr(other, metric)[statistic] == pytest.approx(expected, rel=1e-4), (metric, statistic)
    assert other.decode.utilization == pytest.approx(one.decode.utilization, rel=1e-6)
    assert other.decode.mean_batch == pytest.approx(one.decode.mean_batch, rel=1e-6)


# ----------------------------------------------------------------------------------------------------------- limits


@pytest.mark.parametrize("deployment", DEPLOYMENTS.values(), ids=list(DEPLOYMENTS))
def test_one_accelerator_per_worker_has_no_collectives(deployment: Deployment) -> None:
    alone = replace(deployment, decode=replace(deployment.decode, tp=1))
    split = replace(deployment, decode=replace(deployment.decode, tp=2))
    assert predicted(small.scenario(), alone).step_parts_s["collectives_s"] == 0.0
    assert predicted(small.scenario(), split).step_parts_s["collectives_s"] > 0.0


def test_an_infinitely_fast_network_leaves_only_the_set_up_of_a_transfer() -> None:
    endless = replace(small.scenario(), network_bytes_per_s=1e30)
    prediction = predicted(endless, small.SPLIT)
    assert prediction.transfer is not None
    assert prediction.ttft_parts_s["transfer_s"] == pytest.approx(transfer.SET_UP_S, rel=1e-9)
    assert prediction.transfer.utilization < 1e-12
    near = predicted(replace(endless, network_bytes_per_s=50e9), small.SPLIT)
    assert near.ttft_s["mean"] > prediction.ttft_s["mean"]
