"""Scenarios through the simulator: closed forms where they hold, constants shared, faults named."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import roofline_examples as examples

from planner.errors import FieldError
from planner.records import Arrivals, Deployment, Lengths, Pool, Scenario, Target, Workload
from planner.serving import transfer
from planner.serving.predict import predict
from planner.simulation import simulate as module
from planner.simulation.simulate import Setting, simulate

LENGTHS = Lengths(np.array([500.0, 2000.0, 6000.0]), np.array([150.0, 300.0, 600.0]), np.array([0.5, 0.35, 0.15]))
SCENARIO = Scenario(
    name="chat",
    model=examples.LLAMA_8B,
    weights="bf16",
    kv_dtype="bf16",
    engine=examples.VLLM,
    prefill_accelerators=(examples.H100,),
    decode_accelerators=(examples.H100,),
    network_bytes_per_s=50e9,
    workload=Workload(12.0, LENGTHS),
    targets=(Target("ttft", "p99", 1.0),),
    budgets=(),
    deployment=None,
)
SPLIT = Deployment("disaggregated", Pool("h100-sxm", 2, max_batch=256), Pool("h100-sxm", 3))
CHUNKED = Deployment("colocated-chunked", Pool("h100-sxm", 4, max_batch=128, token_budget=2048))


def test_two_pools_agree_with_the_closed_form() -> None:
    predicted = predict(SCENARIO, SPLIT, with_intervals=False)
    found = simulate(SCENARIO, SPLIT, Setting(5000, seed=3))
    assert found.ttft_s["mean"].value == pytest.approx(predicted.ttft_s["mean"], rel=0.05)
    assert found.ttft_s["p99"].value == pytest.approx(predicted.ttft_s["p99"], rel=0.2)
    assert found.itl_s["mean"].value == pytest.approx(predicted.itl_s["mean"], rel=0.03)
    assert found.itl_s["p99"].value == pytest.approx(predicted.itl_s["p99"], rel=0.07)  # contexts vary (QUEUEING §4.1)
    assert found.decode.mean_batch.value == pytest.approx(predicted.decode.mean_batch, rel=0.05)


def test_chunked_agrees_where_the_router_sees_the_prompts() -> None:
    predicted = predict(SCENARIO, CHUNKED, with_intervals=False)
    found = simulate(SCENARIO, CHUNKED, Setting(5000, router="fewest-prompts"))
    assert found.ttft_s["mean"].value == pytest.approx(predicted.ttft_s["mean"], rel=0.15)
    assert found.itl_s["mean"].value == pytest.approx(predicted.itl_s["mean"], rel=0.05)
    assert found.itl_s["p99"].value == pytest.approx(predicted.itl_s["p99"], rel=0.1)


def test_constants_of_the_hand_over_are_the_planners() -> None:
    assert (module.SET_UP_S, module.LINE_FRACTION) == (transfer.SET_UP_S, transfer.LINE_FRACTION)


@pytest.mark.parametrize("deployment", [SPLIT, CHUNKED], ids=["split", "chunked"])
def test_the_same_seed_gives_the_same_result(deployment: Deployment) -> None:
    one, same, other = (simulate(SCENARIO, deployment, Setting(300, seed=seed)) for seed in (1, 1, 2))
    assert one == same
    assert one.ttft_s != other.ttft_s


@pytest.mark.parametrize("deployment", [SPLIT, CHUNKED], ids=["split", "chunked"])
def test_clients_and_requests_obey_little(deployment: Deployment) -> None:
    """N = X (TTFT + (O - 1) TPOT) in a closed loop."""
    found = simulate(SCENARIO, deployment, Setting(4000, clients=60))
    assert found.requests_per_s * found.e2e_s["mean"].value == pytest.approx(60.0, rel=0.05)


def test_bursts_wait_longer() -> None:
    smooth, bursty = (simulate(SCENARIO, SPLIT, Setting(4000, arrival_scv=scv)) for scv in (0.2, 6.0))
    assert smooth.wait_s["mean"].value < 0.5 * bursty.wait_s["mean"].value


def test_a_trace_is_replayed_whole() -> None:
    times = np.sort(np.random.default_rng(2).uniform(0.0, 60.0, 400))
    tokens = np.full(400, 800.0), np.full(400, 100.0)
    workload = Workload(400 / 60.0, LENGTHS, Arrivals(times, *tokens, 60.0))
    found = simulate(replace(SCENARIO, workload=workload), SPLIT)
    assert found.requests == 400


def test_a_peak_is_what_is_simulated() -> None:
    peak = replace(SCENARIO, workload=replace(SCENARIO.workload, peak_factor=1.5))
    assert simulate(peak, SPLIT, Setting(3000)).requests_per_s == pytest.approx(18.0, rel=0.06)


@pytest.mark.parametrize(
    ("setting", "field"),
    [(Setting(-1), "--requests"), (Setting(clients=-1), "--clients"), (Setting(arrival_scv=float("nan")), "--arrival")],
)
def test_settings_that_make_no_sense(setting: Setting, field: str) -> None:
    with pytest.raises(FieldError, match=field):
        simulate(SCENARIO, SPLIT, setting)


def test_deployments_that_cannot_run() -> None:
    with pytest.raises(FieldError, match="not among"):
        simulate(SCENARIO, replace(CHUNKED, decode=replace(CHUNKED.decode, accelerator="b200")))
    large = replace(SCENARIO, model=examples.LLAMA_70B)
    with pytest.raises(FieldError, match="no room"):
        simulate(large, CHUNKED)
    with pytest.raises(FieldError, match="tp"):
        simulate(SCENARIO, replace(CHUNKED, decode=replace(CHUNKED.decode, tp=3)))
