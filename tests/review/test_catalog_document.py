"""Catalog entries as documents, against published sizes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import hand_plans
import pytest

from planner.errors import FieldError
from planner.files.models import load_model
from planner.records import (
    DenseFeedForward,
    LatentAttention,
    LayerKind,
    OperatorFit,
    RecurrentMixer,
    SoftmaxAttention,
)
from planner.review.catalog import attention_kind, hardware_document, model_document

BLOCK = DenseFeedForward(1024)
FULL = LayerKind(1, SoftmaxAttention(8, 2, 64, 64), BLOCK)
WINDOWED = LayerKind(1, SoftmaxAttention(8, 2, 64, 64, window_tokens=128), BLOCK)
LATENT = LayerKind(1, LatentAttention(8, 0, 512, 128, 64, 128), BLOCK)
RECURRENT = LayerKind(1, RecurrentMixer(4, 4, 64, 64), BLOCK)


def test_deepseek_v3_against_its_paper() -> None:
    # DeepSeek-V3: 671 B parameters; latent 512 + 64 elements * 61 layers * 2 bytes = 70,272 bytes per token
    shown = model_document(load_model("deepseek-ai/DeepSeek-V3", Path()), "bf16")
    assert shown["parameters"] == pytest.approx(671e9, rel=0.005)
    assert shown["kv_bytes_per_token"] == 70272
    assert (shown["attention"], shown["layers"]) == ("mla", 61)
    assert shown["window_tokens"] is None


def test_windows_of_gpt_oss() -> None:
    # 36 layers, every second with a window of 128: 36 * 2 * 8 * 64 * 2 bytes = 73,728, half of it beyond the window
    shown = model_document(load_model("openai/gpt-oss-120b", Path()), "bf16")
    assert (shown["kv_bytes_per_token"], shown["kv_bytes_per_token_beyond_window"]) == (73728, 36864)
    assert shown["window_tokens"] == 128


def test_kv_in_fp8_is_half_of_bf16() -> None:
    half, full = (model_document(hand_plans.MODEL, dtype)["kv_bytes_per_token"] for dtype in ("fp8", "bf16"))
    assert full == 2 * half == 327680


def test_unknown_kv_format_is_a_field_error() -> None:
    with pytest.raises(FieldError, match="fp7"):
        model_document(hand_plans.MODEL, "fp7")


def test_weights_by_format_fall_with_their_bits() -> None:
    sizes = model_document(hand_plans.MODEL, "bf16")["weight_bytes"]
    assert sizes["bf16"] == pytest.approx(2 * 70.55e9, rel=0.001)
    assert sizes["bf16"] > sizes["fp8"] > sizes["nvfp4"] > sizes["int4"]


@pytest.mark.parametrize(
    ("layers", "kind"),
    [
        ((FULL,), "gqa"),
        ((replace(FULL, mixer=SoftmaxAttention(8, 8, 64, 64)),), "mha"),
        ((replace(FULL, mixer=SoftmaxAttention(8, 1, 64, 64)),), "mqa"),
        ((FULL, WINDOWED), "sliding"),
        ((LATENT,), "mla"),
        ((FULL, RECURRENT), "hybrid"),
        ((LATENT, RECURRENT), "hybrid-mla"),
        ((LayerKind(1, None, BLOCK),), "none"),
    ],
)
def test_attention_kind(layers: tuple[LayerKind, ...], kind: str) -> None:
    assert attention_kind(replace(hand_plans.MODEL, layers=layers)) == kind


def test_hardware_values_carry_their_source() -> None:
    shown = hardware_document(hand_plans.H200)
    assert shown["values"]["memory_bytes"]["kind"] == "datasheet"
    assert shown["values"]["usd_per_hour.rent3y"]["value"] == 2.5
    assert shown["values"]["nic_bytes_per_s"]["source"] is None  # none given: said, not hidden
    assert "fp4_dense_flops_per_s" not in shown["values"]


def test_fits_in_short() -> None:
    fits = (
        OperatorFit("gemm", "fp8", "vllm", trust="high"),
        OperatorFit("gemm", "bf16", "any", trust="low"),
        OperatorFit("all_reduce", "bf16", "any"),
    )
    shown = hardware_document(replace(hand_plans.H200, fits=fits))["fits"]
    assert [fit["operator"] for fit in shown] == ["all_reduce", "gemm"]
    assert shown[1] == {
        "operator": "gemm", "dtypes": ["bf16", "fp8"], "engines": ["any", "vllm"], "trust": {"high": 1, "low": 1},
    }  # fmt: skip
