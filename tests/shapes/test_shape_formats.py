"""Which part of a model is stored in which number format."""

from __future__ import annotations

import pytest
import shape_examples as shapes

from planner.errors import FieldError
from planner.shapes.formats import BYTES_PER_WEIGHT, ComponentDtypes, component_dtypes, kv_bytes_per_element


def test_bytes_per_weight_include_scales() -> None:
    assert BYTES_PER_WEIGHT["nvfp4"] == (16 * 0.5 + 1) / 16  # one fp8 scale per 16 elements
    assert BYTES_PER_WEIGHT["mxfp4"] == (32 * 0.5 + 1) / 32  # one exponent byte per 32
    assert BYTES_PER_WEIGHT["int4"] == (64 * 0.5 + 2) / 64  # one 16-bit scale per 64
    assert BYTES_PER_WEIGHT["fp8_block"] == pytest.approx(1 + 4 / 128**2, abs=1e-4)


@pytest.mark.parametrize(
    ("shape", "weights", "attention", "dense", "shared", "experts"),
    [
        (shapes.LLAMA_70B, "bf16", "bf16", "bf16", "bf16", "bf16"),
        (shapes.LLAMA_70B, "fp8", "fp8", "fp8", "fp8", "fp8"),
        (shapes.LLAMA_70B, "nvfp4", "nvfp4", "nvfp4", "nvfp4", "nvfp4"),
        (shapes.LLAMA_70B, "int4", "int4", "int4", "int4", "int4"),
        (shapes.DEEPSEEK_V3, "fp8", "fp8_block", "fp8_block", "fp8_block", "fp8_block"),
        (shapes.DEEPSEEK_V3, "nvfp4", "bf16", "nvfp4", "nvfp4", "nvfp4"),
        (shapes.DEEPSEEK_V3, "int4", "bf16", "bf16", "bf16", "int4"),
        (shapes.GPT_OSS_120B, "mxfp4", "bf16", "bf16", "bf16", "mxfp4"),
        (shapes.QWEN3_NEXT, "fp8", "fp8_block", "fp8_block", "fp8_block", "fp8_block"),
    ],
)
def test_components(shape, weights, attention, dense, shared, experts) -> None:  # type: ignore[no-untyped-def]
    assert component_dtypes(shape, weights) == ComponentDtypes(attention, dense, shared, experts, "bf16")


def test_mxfp4_needs_experts() -> None:
    with pytest.raises(FieldError, match="mxfp4 is a format for experts"):
        component_dtypes(shapes.LLAMA_70B, "mxfp4")


def test_unknown_formats_name_the_field() -> None:
    with pytest.raises(FieldError) as weights:
        component_dtypes(shapes.LLAMA_70B, "fp6")
    assert weights.value.field == "weights"
    with pytest.raises(FieldError) as cache:
        kv_bytes_per_element("int4")
    assert cache.value.field == "kv_cache"
