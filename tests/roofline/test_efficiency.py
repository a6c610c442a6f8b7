"""Which fit is chosen."""

from __future__ import annotations

from dataclasses import replace

import pytest
import roofline_examples as ex

from planner.errors import FieldError
from planner.records import OperatorFit
from planner.roofline import efficiency
from planner.roofline.efficiency import choose


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


def test_weights_without_units_of_their_own_run_in_bf16() -> None:
    assert efficiency.compute_dtype(ex.A100, "fp8") == "bf16"
    assert efficiency.compute_dtype(ex.H100, "nvfp4") == "int4"
    assert efficiency.compute_dtype(ex.H100, "mxfp4") == "mxfp4"
    assert efficiency.compute_dtype(ex.B200, "mxfp4") == "mxfp4_fp8"
    assert efficiency.peak_flops_per_s(ex.H100, "int4") == 989.4e12
    assert efficiency.peak_flops_per_s(ex.B200, "nvfp4") == 9000e12
    assert efficiency.peak_flops_per_s(ex.B200, "mxfp4_fp8") == 4500e12


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
