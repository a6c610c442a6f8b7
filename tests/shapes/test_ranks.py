"""What one rank holds, and which splits a model takes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import shape_examples as shapes
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.records import LayerKind, ModelShape, SoftmaxAttention
from planner.shapes.counts import kv_bytes, kv_bytes_per_token, parameters
from planner.shapes.ranks import (
    kv_bytes_per_rank,
    padded_vocabulary,
    sequence_kv_bytes,
    tp_choices,
    weight_bytes_per_rank,
    why_not,
)

EVERY_SHAPE = pytest.mark.parametrize("shape", shapes.ALL, ids=lambda shape: shape.id)
POWERS = np.array([1, 2, 4, 8, 16])


# ----------------------------------------------------------------------------------------------------------- weights


@EVERY_SHAPE
def test_one_rank_in_bf16_holds_everything(shape: ModelShape) -> None:
    padding = (padded_vocabulary(shape) - shape.vocabulary) * shape.hidden * 2
    assert float(weight_bytes_per_rank(shape, "bf16")) == 2 * (parameters(shape).total + padding)


def test_llama_70b_fp8_on_eight() -> None:
    layers = 80 * (8192 * 128 * 80 + 64 * 128 * 8192 + 3 * 8192 * 28672)
    ends = 2 * 128256 * 8192 * 2
    assert float(weight_bytes_per_rank(shapes.LLAMA_70B, "fp8", tp=8)) == (layers + ends) / 8


def test_key_value_heads_are_copied_beyond_their_number() -> None:
    # From 8 to 16 ranks the 8 key and value heads stay whole: 80 x 2 x 8192 x 128 x 2 B on each rank
    kv = 80 * 2 * 8192 * 128 * 2
    eight, sixteen = weight_bytes_per_rank(shapes.LLAMA_70B, "bf16", tp=np.array([8, 16]))
    assert sixteen - kv == (eight - kv) / 2


def test_latent_projections_are_whole_on_every_rank() -> None:
    down = 61 * 7168 * (1536 + 512 + 64) * 2
    router = 58 * 7168 * 256 * 2
    one, many = weight_bytes_per_rank(shapes.DEEPSEEK_V3, "bf16", tp=np.array([1, 8]))
    assert many - down - router == pytest.approx((one - down - router) / 8)


def test_experts_are_split_over_all_ranks_whatever_ep_is() -> None:
    experts = parameters(shapes.DEEPSEEK_V3).experts * 1.0002
    split = weight_bytes_per_rank(shapes.DEEPSEEK_V3, "fp8", tp=1, ep=np.array([1, 4, 8]), dp=8)
    alone = float(weight_bytes_per_rank(shapes.DEEPSEEK_V3, "fp8"))
    assert split.tolist() == pytest.approx([alone - experts * 7 / 8] * 3)


def test_absorbed_projections_stay_bf16() -> None:
    # In fp8 the latent up-projections still take 2 B: 61 x 512 x 128 x 256 of them
    fp8 = float(weight_bytes_per_rank(shapes.DEEPSEEK_V3, "fp8"))
    count = parameters(shapes.DEEPSEEK_V3)
    up = 61 * 512 * 128 * 256
    in_bf16 = up + count.router + count.embedding + count.head
    assert fp8 == pytest.approx(2 * in_bf16 + 1.0002 * (count.total - in_bf16))


def test_published_checkpoint_sizes() -> None:
    # gpt-oss model card arXiv 2508.10925: 60.8 GiB for the 120B checkpoint
    assert float(weight_bytes_per_rank(shapes.GPT_OSS_120B, "mxfp4")) / 2**30 == pytest.approx(60.8, rel=0.01)


@EVERY_SHAPE
@pytest.mark.parametrize("weights", ["bf16", "fp8", "nvfp4"])
def test_ranks_together_hold_at_least_the_model(shape: ModelShape, weights: str) -> None:
    per_rank = weight_bytes_per_rank(shape, weights, tp=POWERS)
    assert np.all(np.diff(per_rank) < 0)
    assert np.all(POWERS * per_rank >= per_rank[0] * (1 - 1e-12))


@EVERY_SHAPE
def test_stages_hold_their_share(shape: ModelShape) -> None:
    whole, half = weight_bytes_per_rank(shape, "bf16", pp=np.array([1, 2]))
    assert whole / 2 <= half < whole


# ---------------------------------------------------------------------------------------------------------------- KV


def test_grouped_heads_divide_until_one_is_left() -> None:
    per_rank = shapes.token_bytes_per_rank(shapes.LLAMA_70B, "bf16", tp=np.array([1, 2, 8, 16, 64]))
    assert per_rank.tolist() == [327_680, 163_840, 40_960, 40_960, 40_960]  # 40,960 = 2 x 80 x 1 x 128 x 2


def test_latents_do_not_divide() -> None:
    assert shapes.token_bytes_per_rank(shapes.DEEPSEEK_V3, "bf16", tp=POWERS).tolist() == [70_272] * 5


def test_windows_and_state_divide_like_their_heads() -> None:
    per_rank = kv_bytes_per_rank(shapes.GPT_OSS_120B, "bf16", tp=8, pp=1, tokens=np.array([64, 1000]))
    assert per_rank.tolist() == [64 * 73_728 / 8, (128 * 73_728 + 872 * 36_864) / 8]
    assert float(shapes.token_bytes_per_rank(shapes.GPT_OSS_120B, "bf16", 8, beyond_window=True)) == 36_864 / 8
    one, four = kv_bytes_per_rank(shapes.QWEN3_NEXT, "bf16", tp=np.array([1, 4]), pp=1, tokens=0)
    assert four == one / 4


def test_moving_a_sequence_moves_every_head_once() -> None:
    assert float(sequence_kv_bytes(shapes.LLAMA_70B, "fp8", 1000)) == 163_840_000
    assert float(sequence_kv_bytes(shapes.DEEPSEEK_V3, "bf16", 1000)) == 70_272_000


@EVERY_SHAPE
@settings(max_examples=20)
@given(tokens=st.integers(0, 100_000), tp=st.sampled_from([1, 2, 4, 8, 16]))
def test_ranks_hold_no_less_than_the_sequence(shape: ModelShape, tokens: int, tp: int) -> None:
    per_rank = float(kv_bytes_per_rank(shape, "bf16", tp, 1, tokens))
    assert per_rank * tp >= float(kv_bytes(shape, "bf16", tokens)) * (1 - 1e-12)
    assert per_rank <= float(kv_bytes(shape, "bf16", tokens))
    slope = float(shapes.token_bytes_per_rank(shape, "bf16", tp))
    assert slope <= kv_bytes_per_token(shape, "bf16")


# --------------------------------------------------------------------------------------------------- what can be run


@pytest.mark.parametrize("tp", [1, 2, 4, 8, 16, 32, 64])
def test_llama_runs_on_powers_of_two(tp: int) -> None:
    assert why_not(shapes.LLAMA_70B, tp) == ""


@pytest.mark.parametrize(
    ("shape", "degrees", "reason"),
    [
        (shapes.LLAMA_70B, {"tp": 3}, "tp 3 does not divide 64 query heads; use 1, 2, 4, 8, 16, 32 or 64"),
        (shapes.LLAMA_70B, {"tp": 0}, "tp 0 is not a positive number of ranks"),
        (
            shapes.LLAMA_70B,
            {"tp": 2, "pp": 81},
            "pp 81: meta-llama/Llama-3.1-70B has 80 layers, and a stage needs one; use a smaller pp",
        ),
        (
            shapes.DEEPSEEK_V3,
            {"tp": 1, "pp": 2, "dp": 8, "ep": 8},
            "pp 2 with dp 8: stages of ranks that wait for each other are not priced; use pp 1 or dp 1",
        ),
        (shapes.LLAMA_70B, {"tp": 2, "ep": 2}, "ep 2: meta-llama/Llama-3.1-70B has no experts; use ep 1"),
        (
            shapes.LLAMA_70B,
            {"tp": 1, "dp": 2},
            "dp 2: attention data parallelism needs experts or latent attention, and meta-llama/Llama-3.1-70B has "
            "neither; add replicas instead",
        ),
        (shapes.DEEPSEEK_V3, {"tp": 1, "dp": 8, "ep": 3}, "ep 3 does not divide tp x dp = 8"),
        (shapes.QWEN3_NEXT, {"tp": 32}, "tp 32 does not divide 16 recurrent key heads; use 1, 2, 4, 8 or 16"),
        (
            shapes.GPT_OSS_120B,
            {"tp": 64, "dp": 2, "ep": 1},
            "128 slices per expert (tp x dp / ep) do not divide the expert width 2880",
        ),
    ],
)
def test_reasons(shape: ModelShape, degrees: dict[str, int], reason: str) -> None:
    assert why_not(shape, **degrees) == reason


def test_heads_of_every_kind_of_layer_count() -> None:
    # Qwen2.5-7B: 28 heads do not go into 8 ranks, whatever the other layers have
    odd = LayerKind(1, SoftmaxAttention(28, 4, 128, 128), None)
    shape = ModelShape("x", "", 3584, 152064, (*shapes.LLAMA_70B.layers, odd), False, 1, "bf16")
    assert "28 query heads" in why_not(shape, 8)
    # Phi-4: 10 key-value heads and 4 ranks, neither divides the other
    phi = ModelShape(
        "x", "", 5120, 100352, (LayerKind(40, SoftmaxAttention(40, 10, 128, 128), None),), False, 1, "bf16"
    )
    assert "10 key-value heads, nor they it" in why_not(phi, 4)


def test_scale_blocks_of_fp8_are_not_cut() -> None:
    # A 1,536-wide expert over 8 ranks is 192 wide, inside a 128-wide block; two-way expert parallelism mends it
    minimax = shapes.DEEPSEEK_V3.layers[1].feed_forward
    assert minimax is not None
    experts = replace(minimax, intermediate=1536)
    shape = replace(shapes.DEEPSEEK_V3, layers=(replace(shapes.DEEPSEEK_V3.layers[1], feed_forward=experts),))
    assert why_not(shape, 8) == ""
    assert "inside a 128-wide fp8 scale block" in why_not(shape, 8, weights="fp8")
    assert why_not(shape, 8, ep=2, weights="fp8") == ""
    assert why_not(shape, 8, weights="bf16") == ""


@EVERY_SHAPE
def test_every_choice_runs(shape: ModelShape) -> None:
    choices = tp_choices(shape)
    assert choices[0] == 1
    assert all(why_not(shape, tp, ep=tp if shape is shapes.DEEPSEEK_V3 else 1) == "" for tp in choices[:4])
