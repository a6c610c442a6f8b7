"""Steps: anchors, parts, limits and monotone behaviour."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
import roofline_examples as ex
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.records import Accelerator, EngineConstants
from planner.roofline import operators, steps
from planner.roofline.guards import step_floor_s
from planner.roofline.worker import Worker
from planner.shapes.counts import prefill_flops

WORKERS = {
    "dense tp1": ex.worker(ex.QWEN3_32B),
    "dense tp8": ex.worker(ex.LLAMA_70B, "fp8", "fp8", tp=8),
    "windows": ex.worker(ex.GPT_OSS_120B, "mxfp4"),
    "experts": ex.worker(ex.MINIMAX_M25, "fp8", tp=4, ep=4),
    "latent dp": ex.worker(ex.DEEPSEEK_R1, "fp8", accelerator=ex.H200, dp=16, ep=16),
    "sparse": ex.worker(ex.GLM_5, "fp8", accelerator=ex.H200, tp=8),
    "hybrid": ex.worker(ex.QWEN35_397B, "fp8", accelerator=ex.H200, tp=8),
}
EACH = pytest.mark.parametrize("built", WORKERS.values(), ids=WORKERS.keys())
BATCH = st.floats(0.0, 512.0)
CONTEXT = st.floats(1.0, 100_000.0)
TOKENS = st.floats(0.0, 16_384.0)


# --------------------------------------------------------------------------------------------------------- anchors


@pytest.mark.parametrize(("tp", "expected_ms"), [(1, 52.7), (2, 28.8), (4, 16.5), (8, 10.4)])
def test_decode_of_one_sequence(tp: int, expected_ms: float) -> None:
    # 70B bf16 H100 (MODELLING §3), a model of its own without engine constants: within 15 %.
    built = ex.worker(tp=tp, constants=replace(ex.VLLM_CONSTANTS, gemm_memory_factor=1.0))
    assert float(steps.decode_s(built, 1, 512).total_s) * 1e3 == pytest.approx(expected_ms, rel=0.15)


def test_decode_of_a_batch() -> None:
    # 70B bf16 H100 TP 4, B 64, 2K: 26.4 ms there with attention at .59 of bandwidth, where newer kernels reach .9.
    assert float(steps.decode_s(ex.worker(tp=4), 64, 2048).total_s) * 1e3 == pytest.approx(26.4, rel=0.25)


@pytest.mark.parametrize(("prompt", "expected_ms"), [(512, 38.0), (2048, 134.0), (8192, 545.0)])
def test_prefill_of_one_prompt(prompt: int, expected_ms: float) -> None:
    # 70B bf16 H100 TP 4 (MODELLING §2.3); engines run prefill steps 1.16 times slower than their operators.
    assert float(steps.prefill_s(ex.worker(tp=4), prompt, 8192).total_s) * 1e3 == pytest.approx(expected_ms, rel=0.2)


def test_prefill_utilization_is_credible() -> None:
    # 70B bf16 H100 TP 4 reaches 54 % of peak at 2K (PUBLISHED); never above 80 %.
    for prompt in (2048, 8192, 32768):
        time = float(steps.prefill_s(ex.worker(tp=4), prompt, prompt).total_s)
        utilization = float(prefill_flops(ex.LLAMA_70B, prompt)) / time / (4 * 989.4e12)
        assert 0.4 < utilization < 0.8


def test_small_chunks_lose_throughput() -> None:
    # 32K prompt, 70B TP 4: chunks of 512 cost about 21 % (MODELLING §2.4, to be read within a factor of 2).
    built = ex.worker(tp=4)
    whole, cut = (float(steps.prefill_s(built, 32768, budget).total_s) for budget in (32768, 512))
    assert 0.1 < cut / whole - 1 < 0.45


# ---------------------------------------------------------------------------------------------------------- parts


def test_parts_sum_and_broadcast() -> None:
    time = steps.step(WORKERS["experts"], np.arange(1.0, 5.0)[:, None], np.array([100.0, 1000.0, 5000.0]), 64.0, 1000.0)
    assert time.total_s.shape == (4, 3)
    assert all(part.shape == (4, 3) for part in time.parts_s.values())
    assert time.total_s == pytest.approx(sum(time.parts_s.values()))
    assert list(time.parts_s) == [field.name for field in fields(steps.StepTime)]


def test_one_rank_has_no_collectives() -> None:
    assert np.all(steps.step(WORKERS["dense tp1"], 8.0, 1000.0, 100.0, 1000.0).collectives_s == 0.0)


def test_host_cost_counts_sequences_of_one_rank() -> None:
    built = ex.worker(ex.DEEPSEEK_R1, "fp8", accelerator=ex.H200, dp=16, ep=16)
    assert float(steps.decode_s(built, 320, 1000).host_s) == pytest.approx(0.09e-3 + 20 * 20.4e-6)


def test_windows_cap_what_attention_reads() -> None:
    windowed = replace(ex.GPT_OSS_120B, layers=ex.GPT_OSS_120B.layers[:1])
    built = ex.worker(windowed, "mxfp4")
    near, far = (float(steps.decode_s(built, 8, context).attention_decode_s) for context in (128, 100_000))
    assert near == far


def test_expert_weights_are_read_once_whatever_the_batch() -> None:
    built = ex.worker(ex.MINIMAX_M25, "fp8", tp=8, ep=1, constants=ex.PLAIN, accelerator=fast_compute(ex.H200))
    kind = built.experts[0]
    everything = kind.count * kind.experts * 3 * 3072 * kind.intermediate * kind.weight_bytes / kind.bytes_per_s
    one, many = (float(steps.decode_s(built, batch, 100).experts_s) for batch in (1, 512))
    assert one == pytest.approx(everything * 8 / 256, rel=0.05)  # one token touches its top 8
    assert many == pytest.approx(everything, rel=0.15)


def fast_compute(accelerator: Accelerator) -> Accelerator:
    """Compute and routing free, so that only weights are left."""
    fits = tuple(replace(fit, gather_factor=0.0) for fit in accelerator.fits)
    return replace(accelerator, fits=fits, bf16_dense_flops_per_s=1e20, fp8_dense_flops_per_s=1e20)


def test_prefill_counts_attention_once_whatever_the_chunks() -> None:
    built = ex.worker(tp=4)
    parts = [steps.prefill_s(built, 16384, budget) for budget in (512, 4096, 16384)]
    assert [int(part.chunks) for part in parts] == [32, 4, 1]
    attention = [float(part.parts.attention_prefill_s) for part in parts]
    assert attention == pytest.approx([attention[0]] * 3)


def test_mixed_step_adds_to_the_decode_step() -> None:
    built = WORKERS["dense tp8"]
    plain = float(steps.decode_s(built, 32, 2000).total_s)
    assert float(steps.mixed_s(built, 32, 2000, 0.0, 1000.0).total_s) == pytest.approx(plain)
    mixed = float(steps.mixed_s(built, 32, 2000, 512.0, 1000.0).total_s)
    alone = float(steps.prefill_step_s(built, 512.0, 1000.0).total_s)
    assert plain < mixed < plain + alone  # one read of the weights serves both


def test_busy_ranks_share_the_experts() -> None:
    built = WORKERS["latent dp"]
    alone, busy = (float(steps.prefill_s(built, 2000, 8192, busy_ranks=n).total_s) for n in (1, 16))
    assert alone < busy


def test_the_fullest_rank_sets_the_step() -> None:
    built = WORKERS["latent dp"]
    even, uneven = (float(steps.decode_s(built, 160, 4000, scv).attention_decode_s) for scv in (0.0, 1.0))
    # 10 sequences a rank, coefficient of variation 1: the largest of 16 normals is 1.766, so 1 + 1.766 / sqrt(10).
    assert uneven / even == pytest.approx(1 + 1.766 / np.sqrt(10), rel=0.03)


@pytest.mark.parametrize(("draws", "exact"), [(2, 0.5642), (4, 1.0294), (8, 1.4236), (16, 1.7660), (64, 2.3437)])
def test_expected_maximum_of_normals(draws: int, exact: float) -> None:
    # Exact order statistics (Harter 1961); Blom's approximation is within .03 of them.
    assert steps.expected_maximum(draws) == pytest.approx(exact, abs=0.03)
    assert steps.expected_maximum(1) == 0.0


# ---------------------------------------------------------------------------------------------------------- limits


@EACH
@given(batch=BATCH, context=CONTEXT, prefill=TOKENS)
@settings(max_examples=25, deadline=None)
def test_never_below_the_floor(built: Worker, batch: float, context: float, prefill: float) -> None:
    for greedy in (built, with_constants(built, GREEDY)):
        time = steps.step(greedy, batch, context, prefill, prefill)
        floor = step_floor_s(greedy, batch, context, prefill, prefill)
        assert np.all(time.total_s >= floor * (1 - 1e-9))
        mixed = steps.mixed_s(greedy, batch * built.dp, context, prefill, prefill, (batch + prefill) * built.dp)
        assert np.all(mixed.total_s >= floor * (1 - 1e-9))


# Constants that claim more than the hardware has.
GREEDY = replace(
    ex.PLAIN,
    gemm_memory_factor=10.0,
    compute_factor=10.0,
    experts_factor=0.1,
    decode_attention_factor=0.1,
    collective_factor=0.0,
    prefill_factor=0.3,
)


def with_constants(built: Worker, constants: EngineConstants) -> Worker:
    return ex.worker(
        built.shape,
        built.weights,
        built.kv_dtype,
        built.accelerator,
        constants,
        tp=built.tp,
        ep=built.ep,
        dp=built.dp,
    )


@EACH
def test_floor_agrees_with_the_counts_of_the_model(built: Worker) -> None:
    """The floor sums the worker's own matrices; the model's counts, made elsewhere, say the same within a third.

    Not in the floor: recurrent scans, indexer scores and routers. Not in the counts: copies of down-projections and
    indexers on every rank.
    """
    prompt = 4096.0
    fast = replace(built.accelerator, fp8_dense_flops_per_s=built.accelerator.bf16_dense_flops_per_s)
    equal = ex.worker(built.shape, built.weights, built.kv_dtype, fast, tp=built.tp, ep=built.ep, dp=built.dp)
    floor = float(step_floor_s(equal, 0.0, 0.0, prompt, prompt, prompt * built.dp))
    counted = float(prefill_flops(built.shape, prompt)) / built.tp / fast.bf16_dense_flops_per_s
    assert floor == pytest.approx(counted, rel=0.35)


@EACH
@given(batch=BATCH, context=CONTEXT, prefill=TOKENS, more=st.floats(1.0, 4.0))
@settings(max_examples=20, deadline=None)
def test_monotone_in_load(built: Worker, batch: float, context: float, prefill: float, more: float) -> None:
    base = float(steps.step(built, batch, context, prefill, 8192.0).total_s)
    for heavier in (
        steps.step(built, batch * more, context, prefill, 8192.0),
        steps.step(built, batch, context * more, prefill, 8192.0),
        steps.step(built, batch, context, prefill * more, 8192.0),
    ):
        assert float(heavier.total_s) >= base * (1 - 1e-9)


@EACH
@pytest.mark.parametrize("name", ["memory_bytes_per_s", "flops", "scaleup_bytes_per_s"])
@given(batch=BATCH, prefill=TOKENS, factor=st.floats(1.0, 4.0))
@settings(max_examples=10, deadline=None)
def test_better_hardware_is_never_slower(built: Worker, name: str, batch: float, prefill: float, factor: float) -> None:
    accelerator = built.accelerator
    if name == "flops":
        better = replace(
            accelerator,
            bf16_dense_flops_per_s=accelerator.bf16_dense_flops_per_s * factor,
            fp8_dense_flops_per_s=(accelerator.fp8_dense_flops_per_s or 0.0) * factor,
        )
    else:
        better = replace(accelerator, **{name: getattr(accelerator, name) * factor})
    faster = ex.worker(
        built.shape, built.weights, built.kv_dtype, better, built.constants, tp=built.tp, ep=built.ep, dp=built.dp
    )
    slow = steps.mixed_s(built, batch, 4000.0, prefill, 8192.0).total_s
    fast = steps.mixed_s(faster, batch, 4000.0, prefill, 8192.0).total_s
    assert float(fast) <= float(slow) * (1 + 1e-9)


@EACH
def test_decode_curve_rises(built: Worker) -> None:
    curve = steps.decode_s(built, np.arange(1.0, 513.0), 2000.0, 1.0).total_s
    assert np.all(np.diff(curve) >= -1e-12)


@EACH
def test_longer_prompts_take_longer(built: Worker) -> None:
    curve = steps.prefill_s(built, np.linspace(100, 8000, 100), 8192).total_s
    assert np.all(np.diff(curve) > 0)


# ---------------------------------------------------------------------------------------------------- cached prefixes


@EACH
def test_nothing_cached_is_the_whole_prompt(built: Worker) -> None:
    prompts = np.array([100.0, 5_000.0, 60_000.0])
    whole, same = steps.prefill_s(built, prompts, 8192), steps.prefill_s(built, prompts, 8192, cached_tokens=0.0)
    assert np.array_equal(whole.total_s, same.total_s)


@EACH
@given(prompt=st.floats(1_000.0, 100_000.0), share=st.floats(0.0, 0.99))
@settings(max_examples=25, deadline=None, derandomize=True)
def test_a_cached_prefix_costs_no_less_than_the_rest_alone(built: Worker, prompt: float, share: float) -> None:
    """S(I - h) <= S(I | h): the rest attends to what is cached as well; and never below physics."""
    cached = share * prompt
    time = steps.prefill_s(built, prompt, 1e9, cached_tokens=cached)
    alone = float(steps.prefill_s(built, prompt - cached, 1e9).total_s)
    assert float(time.total_s) >= alone * (1.0 - 1e-9)
    floor = float(step_floor_s(built, 0.0, 0.0, prompt - cached, prompt, prompt - cached, cached))
    assert float(time.total_s) >= floor * (1.0 - 1e-9)


@pytest.mark.parametrize("name", ["dense tp8", "experts", "windows"])
def test_the_more_is_cached_the_faster(name: str) -> None:
    cached = np.linspace(0.0, 31_000.0, 32)
    time = np.asarray(steps.prefill_s(WORKERS[name], 32_000.0, 1e9, cached_tokens=cached).total_s)
    assert np.all(np.diff(time) < 0.0)


def test_attention_of_two_halves_is_that_of_the_whole() -> None:
    """q p + q (q + 1) / 2 over both halves is I (I + 1) / 2 (MODELLING §1.2), where tiles do not starve."""
    shape = (64, 128, 0.0, 0, 1e15)
    whole = float(operators.prefill_attention_s(8192.0, *shape))
    first = float(operators.prefill_attention_s(4096.0, *shape))
    second = float(operators.prefill_attention_s(8192.0, *shape, 0, 4096.0))
    assert first + second == pytest.approx(whole, rel=1e-12)


def test_expanding_a_cached_latent() -> None:
    # DeepSeek-V3, 128 heads: 2 x 512 x 128 x (128 + 128) = 33,554,432 FLOP per cached token; 1e15 FLOP/s: 33.55 ns
    assert float(operators.expanded_latent_s(1.0, 128, 512, 256, 1e15)) == pytest.approx(33.554432e-9, rel=1e-12)
