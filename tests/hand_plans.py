"""Three hand-built plans, so that documents, renderers and commands are tested without computing anything.

The numbers are plausible but invented; a few are infinite or missing on purpose, to see that they are shown as such.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf

import numpy as np

from planner.records import (
    Accelerator,
    Alternative,
    Budget,
    DenseFeedForward,
    Deployment,
    EngineConstants,
    EngineProfile,
    InputFile,
    IntervalFactors,
    LayerKind,
    Lengths,
    Limit,
    MemoryRule,
    ModelShape,
    Money,
    Note,
    Plan,
    Pool,
    PoolState,
    Prediction,
    Provenance,
    Scenario,
    SoftmaxAttention,
    Target,
    TransferState,
    Workload,
)

DATASHEET = Provenance(source="NVIDIA H200 datasheet", retrieved="2025-06-01", kind="datasheet")
GUESS = Provenance(source="list price of one reseller", retrieved="2026-01-15", kind="third-party")


def accelerator(
    accelerator_id: str, memory_bytes: float, memory_bytes_per_s: float, usd_per_hour: float
) -> Accelerator:
    return Accelerator(
        id=accelerator_id,
        vendor="nvidia",
        status="shipping",
        memory_bytes=memory_bytes,
        memory_bytes_per_s=memory_bytes_per_s,
        bf16_dense_flops_per_s=989e12,
        fp8_dense_flops_per_s=1979e12,
        fp4_dense_flops_per_s=None,
        int8_dense_flops_per_s=1979e12,
        scaleup_name="NVLink4",
        scaleup_bytes_per_s=450e9,
        scaleup_domain=8,
        node_accelerators=8,
        host_bytes_per_s=64e9,
        nic_bytes_per_s=50e9,
        tdp_watts=700.0,
        all_in_watts=1300.0,
        compute_units=132,
        usd_per_hour={"rent3y": usd_per_hour},
        purchase_usd=None,
        fits=(),
        efficiency_like="",
        provenance={"memory_bytes": DATASHEET, "memory_bytes_per_s": DATASHEET, "usd_per_hour.rent3y": GUESS},
        sha256="ab" * 32,
    )


H100 = accelerator("h100-sxm", 85.9e9, 3.35e12, 2.0)
H200 = accelerator("h200-sxm", 151.0e9, 4.8e12, 2.5)

# Llama-3.1-70B: 80 layers, 8 KV heads of 128, so 80 * 8 * 128 * 2 = 163,840 values per token; 163,840 bytes in fp8.
MODEL = ModelShape(
    id="meta-llama/Llama-3.1-70B",
    architecture="llama",
    hidden=8192,
    vocabulary=128256,
    layers=(LayerKind(80, SoftmaxAttention(64, 8, 128, 128), DenseFeedForward(28672)),),
    tied_embeddings=False,
    max_context_tokens=131072,
    checkpoint_format="bf16",
    source="config.json of the model card",
    sha256="cd" * 32,
)

CONSTANTS = EngineConstants(
    gemm_memory_factor=1.1,
    compute_factor=1.2,
    kernel_gap_s=1e-6,
    start_up_factor=0.5,
    host_step_s=0.8e-3,
    host_sequence_s=5e-6,
    collective_factor=1.0,
    experts_factor=1.0,
    decode_attention_factor=1.1,
    prefill_kernel_s=1e-5,
    prefill_factor=1.05,
    ttft_fixed_s=0.015,
    ttft_steps=1.5,
    own_prefill_factor=1.1,
    ttft_sequence_s=1e-4,
)

ENGINE = EngineProfile(
    id="vllm",
    version="0.19",
    scheduling="mixed",
    colocated=CONSTANTS,
    disaggregated=replace(CONSTANTS, ttft_fixed_s=0.025),
    memory=MemoryRule("total", 0.9, 1.2e9, 2.2e9, 16),
    reserved_output_fraction=0.5,
    token_budget=8192,
    max_batch=1024,
    interval_coverage=0.8,
    intervals={"disaggregated/known-cell": IntervalFactors(0.85, 1.2, 0.8, 1.3)},
    measured_cells=frozenset(),
    provenance=Provenance("public benchmark runs, fitted", "2026-08-22", "measured"),
    sha256="ef" * 32,
)

LENGTHS = Lengths(
    input_tokens=np.array([1000.0, 4000.0, 16000.0]),
    output_tokens=np.array([200.0, 500.0, 2000.0]),
    weights=np.array([0.5, 0.4, 0.1]),
)

SCENARIO = Scenario(
    name="chat",
    model=MODEL,
    weights="fp8",
    kv_dtype="fp8",
    engine=ENGINE,
    prefill_accelerators=(H100, H200),
    decode_accelerators=(H200,),
    network_bytes_per_s=50e9,
    workload=Workload(requests_per_s=12.0, lengths=LENGTHS, description="stated lengths"),
    targets=(Target("ttft", "p99", 0.8), Target("itl", "p99", 0.03)),
    budgets=(Budget("accelerators", 64.0, ""), Budget("usd_per_hour", 200.0, "USD/h")),
    deployment=None,
    inputs=(InputFile("chat.yaml", "12" * 32),),
    notes=(Note("caution", "ttft.p50 is redundant: ttft.p99 is smaller"),),
)

TTFT = {"mean": 0.31, "p50": 0.24, "p90": 0.52, "p95": 0.6, "p99": 0.71, "p99_9": inf}
ITL = {"mean": 0.018, "p50": 0.0175, "p90": 0.021, "p95": 0.022, "p99": 0.026, "p99_9": 0.031}
E2E = {"mean": 9.3, "p50": 6.0, "p90": 18.0, "p95": 30.0, "p99": 37.0, "p99_9": 39.0}


def around(statistics: dict[str, float], low: float, high: float) -> dict[str, tuple[float, float | None]]:
    return {key: (value * low, value * high if value < inf else None) for key, value in statistics.items()}


PREFILL_STATE = PoolState(
    utilization=0.62,
    mean_batch=1.0,
    kv_capacity_tokens=300000.0,
    kv_mean_tokens=12000.0,
    kv_p99_tokens=48000.0,
    memory_bytes={"weights_bytes": 17.6e9, "kv_bytes": 50e9, "reserve_bytes": 9e9},
    trust="ok",
)
DECODE_STATE = PoolState(
    utilization=0.93,
    mean_batch=38.4,
    kv_capacity_tokens=1.2e6,
    kv_mean_tokens=170000.0,
    kv_p99_tokens=260000.0,
    memory_bytes={"weights_bytes": 8.8e9, "kv_bytes": 118e9, "activations_bytes": 3e9, "reserve_bytes": 15e9},
    trust="caution",
    trust_reason="utilization above 0.9",
)

PREDICTION = Prediction(
    ttft_s=TTFT,
    itl_s=ITL,
    tpot_s=ITL,
    e2e_s=E2E,
    intervals={"ttft_s": around(TTFT, 0.8, 1.3), "itl_s": around(ITL, 0.85, 1.2), "e2e_s": around(E2E, 0.85, 1.2)},
    coverage=0.8,
    requests_per_s_max=13.9,
    output_tokens_per_s=6000.0,
    ttft_parts_s={"wait_s": 0.08, "prefill_s": 0.17, "transfer_s": 0.02, "first_steps_s": 0.018, "front_end_s": 0.022},
    step_parts_s={"weights_and_gemm_s": 0.009, "attention_decode_s": 0.005, "collectives_s": 0.003, "host_s": 0.001},
    prefill=PREFILL_STATE,
    decode=DECODE_STATE,
    transfer=TransferState(655.36e6, 40e9, 0.02, 0.31, 2100.0),
    notes=(Note("warning", "decode utilization is above 0.9: waits grow fast with load"),),
)

SPLIT = Deployment(
    mode="disaggregated",
    prefill=Pool("h100-sxm", replicas=3, tp=4),
    decode=Pool("h200-sxm", replicas=5, tp=8, max_batch=128),
)
TOGETHER = Deployment("colocated-chunked", decode=Pool("h200-sxm", replicas=7, tp=8, max_batch=64))

LIMITS = (
    Limit("decode.kv_tokens", 260000.0, 1.2e6, "tokens", 0.783, False, "kv_cache: fp8, or a larger memory"),
    Limit("ttft.p99", 0.71, 0.8, "s", 0.1125, True, "one more prefill replica: 640 ms"),
    Limit("itl.p99", 0.026, 0.03, "s", 0.1333, False, "one more decode replica, or max_batch 96"),
)

COLOCATED_PREDICTION = replace(
    PREDICTION,
    prefill=None,
    transfer=None,
    ttft_parts_s={"wait_s": 0.14, "prefill_s": 0.2, "first_steps_s": 0.02, "front_end_s": 0.022},
    notes=(),
)

ALTERNATIVE = Alternative(
    TOGETHER, 140.0, COLOCATED_PREDICTION, False, "ITL p99 52 ms against 30 ms; costs 12% more as well"
)

DISAGGREGATED = Plan(
    scenario=SCENARIO,
    verdict="feasible",
    deployment=SPLIT,
    prediction=PREDICTION,
    money=Money("rent3y", 124.0, {"input": 0.21, "output": 1.1}, 67600.0, 11.3),
    limits=LIMITS,
    alternatives=(ALTERNATIVE,),
    candidates=12345,
    notes=(Note("info", "2 accelerators of surplus after rounding"),),
)

COLOCATED = Plan(
    scenario=replace(SCENARIO, notes=()),
    verdict="feasible",
    deployment=TOGETHER,
    prediction=COLOCATED_PREDICTION,
    money=Money("", None, {}, None, None),
    limits=LIMITS[1:],
    alternatives=(),
    candidates=1,
)

MISSED = Limit("itl.p99", inf, 0.03, "s", -inf, True, "target itl.p99 of 41 ms")

INFEASIBLE = replace(
    DISAGGREGATED,
    verdict="infeasible",
    prediction=replace(
        PREDICTION,
        itl_s={**ITL, "p99": inf},
        requests_per_s_max=inf,
        intervals={"ttft_s": around(TTFT, 0.8, 1.3)},
    ),
    limits=(LIMITS[0], LIMITS[1], MISSED),
    missed=(MISSED,),
    alternatives=(),
)

NOTHING_FITS = Plan(
    scenario=SCENARIO,
    verdict="infeasible",
    deployment=None,
    prediction=None,
    money=None,
    limits=(Limit("decode.weights_memory", 141e9, 85.9e9, "bytes", -0.64, True, "lighter weights, or tp above 8"),),
    alternatives=(),
    candidates=40,
)
