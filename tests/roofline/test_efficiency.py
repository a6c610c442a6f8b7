"""Which fit is chosen."""

from __future__ import annotations

from dataclasses import replace

import pytest
import roofline_examples as ex

from planner.errors import FieldError
from planner.records import Accelerator, OperatorFit
from planner.roofline import efficiency
from planner.roofline.efficiency import choose
from planner.roofline.steps import prefill_s, step


def fit(engine: str = "any", trust: str = "medium", **keys: object) -> OperatorFit:
    return replace(OperatorFit("gemm", "bf16", engine, trust=trust), **keys)  # type: ignore[arg-type]


def test_own_engine_first_then_the_median_then_low_trust() -> None:
    own, median, low = fit("vllm"), fit("any"), fit("vllm", "low")
    assert choose([median, own, low], "gemm", "bf16", "vllm") is own
    assert choose([median, low], "gemm", "bf16", "vllm") is median
    assert choose([low], "gemm", "bf16", "vllm") is low
    assert choose([fit("sglang"), median], "gemm", "bf16", "vllm") is median


def test_nearest_head_size_prefers_larger() -> None:
    rows = [fit(operator="decode_attention", head_dim=size) for size in (64, 128, 256)]
    assert choose(rows, "decode_attention", "bf16", "vllm", head_dim=128).head_dim == 128
    assert choose(rows, "decode_attention", "bf16", "vllm", head_dim=96).head_dim == 128
    assert choose(rows, "decode_attention", "bf16", "vllm", head_dim=512).head_dim == 256


def test_an_exact_shape_beats_the_own_engine() -> None:
    rows = [fit("vllm", operator="all_reduce", ranks=2), fit("any", operator="all_reduce", ranks=8)]
    assert choose(rows, "all_reduce", "bf16", "vllm", ranks=8).ranks == 8


def test_collectives_timed_eagerly_are_never_used() -> None:
    eager = fit("vllm", "bandwidth_only", operator="all_reduce", ranks=8)
    graph = fit("any", "medium", operator="all_reduce", ranks=2)
    assert choose([eager, graph], "all_reduce", "bf16", "vllm", ranks=8) is graph
    with pytest.raises(FieldError, match="all_reduce"):
        choose([eager], "all_reduce", "bf16", "vllm", ranks=8)


def test_a_borrowed_dtype_is_trusted_little() -> None:
    found = choose([fit("any", "high", dtype="fp8"), fit("any", "high")], "gemm", "fp8_block", "vllm")
    assert (found.dtype, found.trust) == ("fp8", "low")


def test_nothing_fits() -> None:
    with pytest.raises(FieldError, match="no fitted constants for experts in fp8"):
        choose([fit()], "experts", "fp8", "vllm")


AMPERE = replace(ex.A100, int8_dense_flops_per_s=624e12)
BLACKWELL_ULTRA = replace(ex.B200, int8_dense_flops_per_s=153.5e12)
CDNA3 = replace(ex.B200, fp4_dense_flops_per_s=None)


@pytest.mark.parametrize(
    ("accelerator", "weights", "kernel", "peak"),
    [
        (AMPERE, "fp8", "bf16", 312e12),
        (AMPERE, "fp8_block", "bf16", 312e12),
        (AMPERE, "int8", "int8_int8", 624e12),
        (AMPERE, "int4", "int4", 312e12),
        (AMPERE, "nvfp4", "int4", 312e12),
        (AMPERE, "mxfp4", "mxfp4", 312e12),
        (ex.H100, "fp8", "fp8", 1978.9e12),
        (ex.H100, "int4", "int4", 989.4e12),
        (ex.H100, "nvfp4", "int4", 989.4e12),
        (ex.H100, "mxfp4", "mxfp4", 989.4e12),
        (CDNA3, "mxfp4", "mxfp4", 2250e12),
        (ex.B200, "nvfp4", "nvfp4", 9000e12),
        (ex.B200, "mxfp4", "mxfp4_fp8", 4500e12),
        (ex.B200, "int4", "int4", 2250e12),
        # INT8 units slower than the bf16 ones: weights are dequantized
        (BLACKWELL_ULTRA, "int8", "int8", 2250e12),
    ],
)
def test_weights_run_through_what_the_accelerator_has(
    accelerator: Accelerator, weights: str, kernel: str, peak: float
) -> None:
    assert efficiency.compute_dtype(accelerator, weights) == kernel
    assert efficiency.peak_flops_per_s(accelerator, kernel) == peak
    assert efficiency.quantizes_activations(kernel) == (peak > accelerator.bf16_dense_flops_per_s)


def test_int8_activations_halve_the_time_of_large_products() -> None:
    """An A100 has 624 INT8 TOP/s and 312 bf16 TFLOP/s. At batch 1 bytes decide, which both formats share."""
    both, one = (
        ex.worker(ex.LLAMA_70B, "int8", tp=8, accelerator=replace(AMPERE, int8_dense_flops_per_s=peak))
        for peak in (624e12, None)
    )
    long, alone = (float(prefill_s(worker, 8192.0, 8192.0).parts.weights_and_gemm_s) for worker in (both, one))
    assert 0.5 <= long / alone < 0.62
    first, second = (float(step(worker, 1.0, 1000.0).weights_and_gemm_s) for worker in (both, one))
    assert first == pytest.approx(second, rel=0.02)


def test_products_never_pass_the_peak() -> None:
    assert efficiency.achieved(0.95, 1.11, 100.0) == 100.0
    assert efficiency.achieved(0.5, 1.2, 100.0) == pytest.approx(60.0)


def test_clips_of_the_recipe() -> None:
    raw = OperatorFit("gemm", "fp8", "any", start_up_s=40e-6, memory_fraction=1.1, exponent=9.0)
    clipped = efficiency.clip_gemm(raw)
    assert (clipped.start_up_s, clipped.memory_fraction, clipped.exponent) == (6e-6, 0.95, 6.0)
    experts = efficiency.clip_experts(replace(raw, gather_factor=20.0, exponent=0.5))
    assert (experts.gather_factor, experts.exponent, experts.start_up_s) == (12.0, 1.0, 30e-6)
    latent = efficiency.clip_latent(replace(raw, compute_fraction=1.3))
    assert (latent.compute_fraction, latent.memory_fraction) == (0.8, 0.9)
