"""What a worker is made of, and what it refuses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import roofline_examples as ex

from planner.errors import FieldError
from planner.records import ModelShape
from planner.roofline.kinds import Gemms
from planner.shapes import ranks

RACK = replace(ex.H200, scaleup_domain=72)


def stored_bytes(gemms: Gemms) -> float:
    return float(np.sum(gemms.count * gemms.columns * gemms.depth * gemms.weight_bytes))


@pytest.mark.parametrize("tp", [1, 2, 4, 8])
def test_matrices_are_the_weights(tp: int) -> None:
    """Every stored weight is multiplied once a step; only the embedding is looked up instead."""
    built = ex.worker(tp=tp)
    embedding = ex.LLAMA_70B.vocabulary * ex.LLAMA_70B.hidden * 2 / tp
    stored = float(ranks.weight_bytes_per_rank(ex.LLAMA_70B, "bf16", tp))
    assert stored_bytes(built.gemms) + stored_bytes(built.head) == pytest.approx(stored - embedding, rel=1e-3)


def test_experts_hold_the_rest() -> None:
    built = ex.worker(ex.DEEPSEEK_R1, "fp8", accelerator=RACK, tp=1, dp=16, ep=16)
    kind = built.experts[0]
    experts = kind.count * kind.experts / 16 * kind.matrices * 7168 * kind.intermediate * kind.weight_bytes
    total = stored_bytes(built.gemms) + stored_bytes(built.head) + experts + 129280 * 7168 * 2
    assert total == pytest.approx(float(ranks.weight_bytes_per_rank(ex.DEEPSEEK_R1, "fp8", 1, 1, 16, 16)), rel=0.005)


@pytest.mark.parametrize(
    ("shape", "tp", "kv_heads"),
    [(ex.LLAMA_70B, 4, 2), (ex.LLAMA_70B, 8, 1), (ex.LLAMA_70B, 16, 1), (ex.QWEN35_397B, 4, 1)],
)
def test_kv_heads_are_copied_beyond_their_number(shape: ModelShape, tp: int, kv_heads: int) -> None:
    assert ex.worker(shape, accelerator=RACK, tp=tp).softmax[0].kv_heads == kv_heads


def test_latents_are_copied_under_tp() -> None:
    alone, split = (ex.worker(ex.DEEPSEEK_R1, "fp8", accelerator=RACK, tp=tp).latent[0] for tp in (1, 8))
    assert alone.kv_bytes_per_token == split.kv_bytes_per_token == 1152.0
    assert alone.heads == 8 * split.heads


def test_kernel_counts() -> None:
    # nk = L (9, latent 13) + 7 per expert layer + 2 per layer that quantizes + 10 per sparse layer + 15 (FIDELITY §2).
    assert ex.worker().kernels == 80 * 9 + 15
    assert ex.worker(weights="fp8", tp=4).kernels == 80 * 11 + 15
    assert ex.worker(ex.DEEPSEEK_R1, "fp8", tp=8).kernels == 61 * 15 + 58 * 7 + 15
    assert ex.worker(ex.GLM_5, "bf16", tp=8).kernels == 78 * 35 + 75 * 7 + 15
    assert ex.worker(ex.QWEN35_397B, tp=8).kernels == 45 * 22 + 15 * 9 + 60 * 7 + 15


def test_all_reduces_only_under_tp() -> None:
    assert ex.worker(tp=1).all_reduce is None
    assert ex.worker(tp=2).all_reduces == 160


@pytest.mark.parametrize(
    ("field", "keys"),
    [
        ("pp", {"tp": 1, "pp": 200}),
        ("tp", {"tp": 3}),
        ("tp", {"tp": 16}),
        ("dp", {"dp": 2}),
        ("ep", {"ep": 2, "tp": 2}),
    ],
)
def test_refusals_name_the_field(field: str, keys: dict[str, int]) -> None:
    with pytest.raises(FieldError) as caught:
        ex.worker(**keys)  # type: ignore[arg-type]
    assert caught.value.field == field


def test_refuses_what_nothing_connects() -> None:
    lonely = replace(ex.H100, scaleup_bytes_per_s=None, host_bytes_per_s=None)
    with pytest.raises(FieldError, match="no link"):
        ex.worker(accelerator=lonely, tp=2)
    with pytest.raises(FieldError, match="no network"):
        ex.worker(ex.DEEPSEEK_R1, "fp8", accelerator=replace(ex.H100, nic_bytes_per_s=None), dp=16, ep=16)


def test_trust_is_that_of_the_worst_fit() -> None:
    assert ex.worker(tp=4).trust == "medium"
    assert ex.worker(ex.QWEN35_397B, tp=8).trust == "low"  # scans are fitted loosely
    assert ex.worker(ex.DEEPSEEK_R1, "nvfp4", tp=8).trust == "low"  # borrowed kernels
