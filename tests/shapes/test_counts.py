"""Parameters, cache bytes and FLOPs against published numbers, hand arithmetic and each other."""

from __future__ import annotations

import numpy as np
import pytest
import shape_examples as shapes
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.records import LayerKind, ModelShape, RecurrentMixer
from planner.shapes.counts import (
    attended_pairs,
    decode_flops,
    fixed_bytes_per_sequence,
    kv_bytes,
    kv_bytes_per_token,
    mixer_parameters,
    parameters,
    prefill_flops,
    state_bytes_per_sequence,
    tokens_for_bytes,
)

EVERY_SHAPE = pytest.mark.parametrize("shape", shapes.ALL, ids=lambda shape: shape.id)
LENGTHS = st.integers(0, 300_000)


# ------------------------------------------------------------------------------------------------------- parameters


def test_llama_70b_parameters() -> None:
    # 80 x (8192 x 128 x (64 + 16) + 64 x 128 x 8192 + 3 x 8192 x 28672) + 2 x 128256 x 8192
    count = parameters(shapes.LLAMA_70B)
    assert count.total == count.active == 70_552_387_584
    assert count.embedding == count.head == 128256 * 8192
    assert count.dense_feed_forward == 80 * 3 * 8192 * 28672
    assert count.experts == count.shared_expert == count.router == 0


def test_deepseek_v3_parameters() -> None:
    count = parameters(shapes.DEEPSEEK_V3)
    assert count.total == pytest.approx(671.0e9, rel=1e-3)  # report arXiv 2412.19437: 671 B
    assert count.active == pytest.approx(37.55e9, rel=1e-3)
    assert count.attention / 61 == pytest.approx(187.1e6, rel=1e-3)  # MODELLING §1.1
    assert count.experts == 58 * 256 * 3 * 7168 * 2048


def test_other_published_totals() -> None:
    assert parameters(shapes.GPT_OSS_120B).total == pytest.approx(116.8e9, rel=0.001)
    assert parameters(shapes.QWEN3_NEXT).total == pytest.approx(79.674e9, rel=0.001)
    # The sparse indexer of V3.2: 61 x (64 x 128 x 1536 + 7168 x (128 + 64)) = 0.85 B
    indexer = parameters(shapes.DEEPSEEK_V32).total - parameters(shapes.DEEPSEEK_V3).total
    assert indexer == 61 * (64 * 128 * 1536 + 7168 * (128 + 64))


@EVERY_SHAPE
def test_parts_sum_to_the_total(shape: ModelShape) -> None:
    count = parameters(shape)
    parts = count.dense_feed_forward + count.shared_expert + count.router + count.experts
    assert count.total == count.embedding + count.head + count.attention + parts
    assert count.active <= count.total


def test_recurrent_mixers_by_hand() -> None:
    # Nemotron-H 56B: 8192 x (2 x 16384 + 2 x 8 x 256 + 256) + 16384 x 8192 + 4 x (16384 + 4096)
    mamba2 = RecurrentMixer(8, 256, 256, 64, 4, "mamba2")
    assert mixer_parameters(mamba2, 8192).total == 8192 * (32768 + 4096 + 256) + 16384 * 8192 + 4 * 20480
    # Jamba mini: 8192 channels of 16 states, step rank 4096 / 16 = 256
    mamba1 = RecurrentMixer(1, 8192, 16, 1, 4, "mamba1")
    expected = 3 * 4096 * 8192 + 4 * 8192 + 8192 * (256 + 32) + 256 * 8192 + 8192 * 16
    assert mixer_parameters(mamba1, 4096).total == expected
    with pytest.raises(ValueError, match="hyena"):
        mixer_parameters(RecurrentMixer(1, 1, 1, 1, 0, "hyena"), 8)


# ---------------------------------------------------------------------------------------------------------------- KV


@pytest.mark.parametrize(
    ("shape", "kv_dtype", "beyond_window", "expected"),
    [
        (shapes.LLAMA_70B, "bf16", False, 327_680),  # 2 x 80 x 8 x 128 x 2
        (shapes.LLAMA_70B, "fp8", False, 163_840),
        (shapes.DEEPSEEK_V3, "bf16", False, 70_272),  # 61 x 576 x 2
        (shapes.DEEPSEEK_V3, "fp8", False, 35_136),
        (shapes.DEEPSEEK_V32, "bf16", False, 85_888),  # and 61 x 128 x 2 of indexer keys
        (shapes.GPT_OSS_120B, "bf16", False, 73_728),  # 2 x 36 x 8 x 64 x 2, as the engine's log reports
        (shapes.GPT_OSS_120B, "bf16", True, 36_864),
        (shapes.QWEN3_NEXT, "bf16", False, 24_576),
        (shapes.MISTRAL_7B, "bf16", True, 0),
    ],
)
def test_kv_bytes_per_token(shape: ModelShape, kv_dtype: str, beyond_window: bool, expected: int) -> None:
    assert kv_bytes_per_token(shape, kv_dtype, beyond_window) == expected


def test_state_of_qwen3_next() -> None:
    assert state_bytes_per_sequence(shapes.QWEN3_NEXT) == 36 * 32 * 128 * 128 * 4  # 75 MB
    convolutions = float(fixed_bytes_per_sequence(shapes.QWEN3_NEXT)) - state_bytes_per_sequence(shapes.QWEN3_NEXT)
    assert convolutions == 36 * (2 * 16 * 128 + 32 * 128) * 3 * 2
    assert state_bytes_per_sequence(shapes.LLAMA_70B) == 0


def test_windows_saturate() -> None:
    # 18 full layers of 2,048 B per token, and 18 windowed ones that stop at 128 tokens
    sizes = kv_bytes(shapes.GPT_OSS_120B, "bf16", np.array([0, 128, 129, 10_000]))
    assert sizes.tolist() == [0, 128 * 73_728, 128 * 73_728 + 36_864, 128 * 73_728 + 9_872 * 36_864]


def test_fixed_state_is_paid_from_the_first_token() -> None:
    fixed = float(fixed_bytes_per_sequence(shapes.QWEN3_NEXT))
    assert float(kv_bytes(shapes.QWEN3_NEXT, "bf16", 0)) == fixed > state_bytes_per_sequence(shapes.QWEN3_NEXT)


@EVERY_SHAPE
@settings(max_examples=25)
@given(tokens=LENGTHS)
def test_kv_bytes_grow_by_no_more_than_the_slope(shape: ModelShape, tokens: int) -> None:
    low, high = kv_bytes(shape, "fp8", np.array([tokens, tokens + 1]))
    assert kv_bytes_per_token(shape, "fp8", beyond_window=True) <= high - low <= kv_bytes_per_token(shape, "fp8")


@EVERY_SHAPE
@settings(max_examples=25)
@given(tokens=LENGTHS)
def test_tokens_for_bytes_inverts_kv_bytes(shape: ModelShape, tokens: int) -> None:
    budget = kv_bytes(shape, "bf16", tokens)
    found = float(tokens_for_bytes(shape, "bf16", budget))
    if shape is shapes.MISTRAL_7B and tokens >= 4096:
        assert found == np.inf
    else:
        assert found == pytest.approx(tokens, rel=1e-12, abs=1e-6)


def test_a_budget_below_the_state_holds_nothing() -> None:
    assert tokens_for_bytes(shapes.QWEN3_NEXT, "bf16", np.array([0.0, 1e6])).tolist() == [0.0, 0.0]


# ------------------------------------------------------------------------------------------------------------- FLOPs


@settings(max_examples=60)
@given(new=st.integers(0, 60), cached=st.integers(0, 60), window=st.integers(0, 50))
def test_pairs_are_counted_one_by_one(new: int, cached: int, window: int) -> None:
    seen = [min(cached + token, window) if window else cached + token for token in range(1, new + 1)]
    assert float(attended_pairs(new, cached, window)) == sum(seen)


def test_llama_prefill_flops() -> None:
    # 2 FLOPs per parameter outside the embedding and head, the head once, and 4 H d per pair and layer
    matrices = 2 * (70_552_387_584 - 2 * 128256 * 8192) * 1000
    attention = 80 * 4 * 64 * 128 * (1000 * 1001 / 2)
    assert float(prefill_flops(shapes.LLAMA_70B, 1000)) == pytest.approx(matrices + attention + 2 * 128256 * 8192)


def test_deepseek_decode_flops_per_context_token() -> None:
    one, two = decode_flops(shapes.DEEPSEEK_V3, np.array([1000, 1001]))
    assert two - one == 61 * 278_528  # 2 x 128 x (2 x 512 + 64), MODELLING §1.2


def test_deepseek_prefill_expands_the_latents() -> None:
    # Per layer 2 H (d_n + d_r + d_v) = 81,920 FLOPs a pair, and every cached latent expanded again
    fresh, cached = prefill_flops(shapes.DEEPSEEK_V3, 10, np.array([0, 100]))
    again = 2 * 512 * 128 * (128 + 128) * 100
    assert cached - fresh == pytest.approx(61 * (81_920 * 10 * 100 + again))


def test_sparse_attention_stops_growing_and_its_indexer_does_not() -> None:
    at = decode_flops(shapes.DEEPSEEK_V32, np.array([2048, 4096]))
    assert at[1] - at[0] == 61 * 2 * 64 * 128 * 2048


@settings(max_examples=25)
@given(first=st.integers(0, 5000), second=st.integers(0, 5000))
@pytest.mark.parametrize("shape", [shapes.LLAMA_70B, shapes.GPT_OSS_120B, shapes.QWEN3_NEXT], ids=lambda s: s.id)
def test_chunks_cost_what_the_whole_prompt_costs(shape: ModelShape, first: int, second: int) -> None:
    head = 2 * shape.vocabulary * shape.hidden
    whole = float(prefill_flops(shape, first + second))
    chunks = float(prefill_flops(shape, first)) + float(prefill_flops(shape, second, first)) - head
    assert chunks == pytest.approx(whole, rel=1e-12)


@settings(max_examples=25)
@given(context=st.integers(1, 50_000))
@pytest.mark.parametrize("shape", [shapes.LLAMA_70B, shapes.GPT_OSS_120B, shapes.MISTRAL_7B], ids=lambda s: s.id)
def test_decoding_is_a_prefill_of_one(shape: ModelShape, context: int) -> None:
    assert float(decode_flops(shape, context)) == pytest.approx(float(prefill_flops(shape, 1, context - 1)))


@EVERY_SHAPE
def test_longer_is_never_cheaper(shape: ModelShape) -> None:
    lengths = np.arange(1, 200_000, 997)
    assert np.all(np.diff(prefill_flops(shape, lengths)) > 0)
    assert np.all(np.diff(decode_flops(shape, lengths)) >= 0)
    assert np.all(decode_flops(shape, lengths) >= 2 * (parameters(shape).active - parameters(shape).embedding) * 0.98)


def test_layers_without_a_mixer_do_not_mix() -> None:
    shape = shapes.LLAMA_70B
    layers = (LayerKind(80, None, shape.layers[0].feed_forward),)
    bare = ModelShape("x", "", 8192, 128256, layers, False, 1, "bf16")
    assert kv_bytes_per_token(bare, "bf16") == 0
    assert float(decode_flops(bare, 5)) == float(decode_flops(bare, 5000))
    assert float(prefill_flops(bare, 2) - prefill_flops(bare, 1)) == 2 * 80 * 3 * 8192 * 28672
