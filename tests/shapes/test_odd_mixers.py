"""Compressed, block-sparse and borrowed attention, narrow experts, short convolutions: counts by hand arithmetic."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import shape_examples as shapes
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.records import LatentAttention, ModelShape, SoftmaxAttention
from planner.shapes.counts import (
    decode_flops,
    fixed_bytes_per_sequence,
    kv_bytes,
    kv_bytes_per_token,
    latent_entries,
    latent_pairs,
    parameters,
    prefill_flops,
    state_bytes_per_sequence,
    tokens_for_bytes,
)
from planner.shapes.formats import component_dtypes, has_latent_attention
from planner.shapes.ranks import layer_count, weight_bytes_per_rank, why_not
from planner.shapes.weights import mixer_parameters

EVERY_SHAPE = pytest.mark.parametrize("shape", shapes.ALL, ids=lambda shape: shape.id)
V4, K3, M3 = shapes.DEEPSEEK_V4_FLASH, shapes.KIMI_K3, shapes.MINIMAX_M3


def _mixer(shape: ModelShape, index: int) -> LatentAttention:
    mixer = shape.layers[index].mixer
    assert isinstance(mixer, LatentAttention)
    return mixer


# ------------------------------------------------------------------------------------------------- published and table


def test_totals_are_the_published_ones() -> None:
    # 284 B / 13 B of DeepSeek-V4-Flash, 2.8 T of Kimi-K3, 428 B of MiniMax-M3, 389 B of Hunyuan-Large, 1.17 B of LFM2
    assert parameters(V4).total == pytest.approx(284e9, rel=0.002)
    assert parameters(K3).total == pytest.approx(2779.469e9, rel=1e-5)
    assert parameters(K3).active == pytest.approx(105.348e9, rel=2e-4)
    assert parameters(M3).total == pytest.approx(428e9, rel=0.005)
    assert parameters(shapes.HUNYUAN_LARGE).total == pytest.approx(389e9, rel=0.001)
    assert parameters(shapes.LFM2_1B).total == pytest.approx(1.17e9, rel=0.001)


def test_compressed_keys() -> None:
    # 21 layers x (512 + 128 of the indexer) x 2 B / 4 tokens, 20 x 512 x 2 / 128, and a buffer of 128 in all 43
    assert kv_bytes_per_token(V4, "bf16") == 21 * 640 * 2 / 4 + 20 * 512 * 2 / 128 == 6880
    assert state_bytes_per_sequence(V4) == 43 * 512 * 2 * 128
    assert state_bytes_per_sequence(V4, "fp8") == state_bytes_per_sequence(V4) / 2
    # the published figure for a million tokens of the larger sister is counted the same way (facts)
    assert float(kv_bytes(V4, "bf16", 2**20)) == 6880 * 2**20 + 43 * 512 * 2 * 128


def test_block_sparse_attention_keeps_every_key_and_one_index_key() -> None:
    assert kv_bytes_per_token(M3, "bf16") == 60 * 2 * 4 * 128 * 2 + 57 * 128 * 2
    # 4 heads are split over 4 ranks, the index key is whole on each
    assert float(shapes.token_bytes_per_rank(M3, "bf16", tp=4)) == 60 * 2 * 128 * 2 + 57 * 128 * 2
    assert float(shapes.token_bytes_per_rank(M3, "bf16", tp=8)) == 60 * 2 * 128 * 2 + 57 * 128 * 2
    assert not has_latent_attention(M3)


def test_borrowed_keys_cost_nothing() -> None:
    borrowing, plain = shapes.HUNYUAN_LARGE, replace(shapes.HUNYUAN_LARGE, borrowed_kv=())
    assert kv_bytes_per_token(borrowing, "bf16") == kv_bytes_per_token(plain, "bf16") / 2
    saved = 32 * 2 * 6400 * 8 * 80  # projections of 32 layers
    assert parameters(plain).total - parameters(borrowing).total == saved
    assert float(weight_bytes_per_rank(plain, "bf16") - weight_bytes_per_rank(borrowing, "bf16")) == 2 * saved
    assert float(prefill_flops(plain, 100) - prefill_flops(borrowing, 100)) == 2 * saved * 100


def test_narrow_experts() -> None:
    # 896 experts of 3 x 3,584 x 3,072 in 92 layers, and 2 x 7,168 x 3,584 into and out of their width
    count = parameters(K3)
    assert count.experts == 92 * 896 * 3 * 3584 * 3072
    assert count.router == 92 * (7168 * 896 + 2 * 7168 * 3584)


def test_short_convolutions_have_no_state() -> None:
    assert state_bytes_per_sequence(shapes.LFM2_1B) == 0
    assert float(fixed_bytes_per_sequence(shapes.LFM2_1B)) == 10 * 2048 * 2 * 2  # the last two inputs in bf16
    assert mixer_parameters(shapes.LFM2_1B.layers[0].mixer, 2048).total == 4 * 2048 * 2048 + 3 * 2048


def test_gates() -> None:
    latent = _mixer(K3, 2)
    ungated = mixer_parameters(replace(latent, output_gate=False), 7168).total
    assert mixer_parameters(latent, 7168).total - ungated == 7168 * 96 * 128
    delta = K3.layers[0].mixer
    # one gate of 7,168 x 12,288 instead of 7,168 x 128 and 128 x 12,288
    low_rank = mixer_parameters(replace(delta, full_rank_gate=False), 7168).total  # type: ignore[type-var, arg-type]
    assert mixer_parameters(delta, 7168).total - low_rank == 7168 * 12288 - 7168 * 128 - 128 * 12288


def test_side_reused_and_declared() -> None:
    shape = replace(shapes.LLAMA_70B, side_parameters=10**9, reused_parameters=4 * 10**8, declared_layers=40)
    count, plain = parameters(shape), parameters(shapes.LLAMA_70B)
    assert (count.total - plain.total, count.active - plain.active) == (6 * 10**8, 0)
    more = weight_bytes_per_rank(shape, "bf16", 2) - weight_bytes_per_rank(shapes.LLAMA_70B, "bf16", 2)
    assert float(more) == pytest.approx(6e8)
    assert layer_count(shape) == 40


def test_the_rest_of_a_checkpoint_has_its_own_format() -> None:
    assert component_dtypes(V4, "mxfp4").attention == "fp8_block"
    assert component_dtypes(V4, "nvfp4").attention == "bf16"  # not the checkpoint's own
    assert component_dtypes(K3, "mxfp4").attention == "bf16"


def test_splits() -> None:
    assert why_not(V4, 16, ep=16).startswith("tp 16 does not divide 8 groups of the output projection")
    assert why_not(M3, 3, ep=1).startswith("tp 3 does not divide 64 query heads")
    assert not why_not(M3, 8, ep=8)
    assert not why_not(shapes.LFM2_1B, 8)


# ---------------------------------------------------------------------------------------------------------- attention


def test_entries_of_compressed_attention() -> None:
    # window + chosen of every fourth; window + all of every 128th; the window alone
    context = np.array([64.0, 1000.0, 100_000.0])
    assert latent_entries(_mixer(V4, 1), context).tolist() == [64 + 16, 128 + 250, 128 + 512]
    assert latent_entries(_mixer(V4, 2), context).tolist() == [64 + 0.5, 128 + 7.8125, 128 + 781.25]
    assert latent_entries(_mixer(V4, 0), context).tolist() == [64, 128, 128]
    assert latent_entries(_mixer(M3, 1), context).tolist() == [64, 1000, 2176]


@settings(max_examples=50)
@given(st.sampled_from([(V4, 0), (V4, 1), (V4, 2), (M3, 1), (K3, 2)]), st.integers(1, 100_000))
def test_pairs_are_the_sum_of_entries(place: tuple[ModelShape, int], tokens: int) -> None:
    """A prompt attends to what its tokens, decoded one by one, attend to."""
    mixer = _mixer(*place)
    steps = latent_entries(mixer, np.arange(1.0, tokens + 1))
    assert float(latent_pairs(mixer, tokens, 0)) == pytest.approx(float(steps.sum()), rel=1e-6)


def test_compressed_attention_is_cheap_at_a_million_tokens() -> None:
    per_token = float(decode_flops(V4, 2**20)) - float(decode_flops(V4, 1))
    dense = 43 * 2 * 64 * 1024 * 2**20  # every head with every whole vector, keys and values
    assert per_token < dense / 20
    assert float(decode_flops(V4, 1)) == pytest.approx(2 * (parameters(V4).active - parameters(V4).embedding), rel=0.01)


# --------------------------------------------------------------------------------------------------------- properties


@EVERY_SHAPE
@settings(max_examples=30)
@given(tp=st.integers(1, 256), kv_dtype=st.sampled_from(["bf16", "fp8"]))
def test_a_rank_never_holds_less_than_one_head(shape: ModelShape, tp: int, kv_dtype: str) -> None:
    element = 2 if kv_dtype == "bf16" else 1
    borrowed = shape.borrowed_kv or (False,) * len(shape.layers)
    one_head = sum(
        kind.count * (kind.mixer.key_dim + kind.mixer.value_dim) * element
        for kind, borrows in zip(shape.layers, borrowed, strict=True)
        if isinstance(kind.mixer, SoftmaxAttention) and not borrows
    )
    held = float(shapes.token_bytes_per_rank(shape, kv_dtype, tp))
    assert held >= one_head
    assert held * tp >= kv_bytes_per_token(shape, kv_dtype) * (1 - 1e-12)


@EVERY_SHAPE
@settings(max_examples=50)
@given(gigabytes=st.floats(0.001, 1000))
def test_bytes_for_inverts_tokens_for(shape: ModelShape, gigabytes: float) -> None:
    budget = gigabytes * 1e9
    tokens = float(tokens_for_bytes(shape, "bf16", budget))
    if tokens == np.inf:
        assert kv_bytes_per_token(shape, "bf16", beyond_window=True) == 0
    elif tokens == 0:
        assert float(fixed_bytes_per_sequence(shape)) >= budget
    else:
        assert float(kv_bytes(shape, "bf16", tokens)) == pytest.approx(budget, rel=1e-9)
