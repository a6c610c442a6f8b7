"""Operator equations against hand arithmetic, exact enumeration and limits."""

from __future__ import annotations

from itertools import combinations, product
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.roofline import operators

POSITIVE = st.floats(1e-9, 1e3)


def test_soft_roofline_exact() -> None:
    assert operators.pn(3.0, 4.0, 2.0) == pytest.approx(5.0)
    assert operators.pn(3.0, 4.0, 1.0) == pytest.approx(7.0)
    assert operators.pn(0.0, 0.0, 2.0) == 0.0


@given(POSITIVE, POSITIVE, st.floats(1.0, 12.0))
def test_soft_roofline_lies_between_overlap_and_none(x: float, y: float, q: float) -> None:
    value = float(operators.pn(x, y, q))
    assert max(x, y) * (1 - 1e-12) <= value <= (x + y) * (1 + 1e-12)


def test_gemm_exact() -> None:
    # 2 x 4 x 8 x 16 = 1,024 FLOPs; 2 x 128 + 2 x 64 + 2 x 32 = 448 bytes. At 1,024 FLOP/s and 448 B/s: 1 s + 1 s.
    time = operators.gemm_s(4.0, 8.0, 16.0, 2.0, 2.0, 1024.0, 448.0, 1.0)
    assert time == pytest.approx(2.0)


def test_prefill_attention_counts_each_causal_pair_once() -> None:
    # One head of size 1 over 3 tokens: 6 pairs, 4 FLOPs each; no softmax or serial term.
    assert operators.prefill_attention_s(3.0, 1, 1, 0.0, 0, 1.0) == pytest.approx(24.0)
    # A window of 2: 1 + 2 + 2 = 5 pairs.
    assert operators.prefill_attention_s(3.0, 1, 1, 0.0, 0, 1.0, window_tokens=2) == pytest.approx(20.0)


def test_prefill_attention_is_bound_by_its_serial_term_when_a_rank_has_few_heads() -> None:
    # 512 s D SMs = 512 x 1,000 x 128 x 132; the work of one head is 4 x 128 x 500,500: 34 times less.
    serial = 512 * 1000 * 128 * 132.0
    time = float(operators.prefill_attention_s(1000.0, 1, 128, 0.0, 132, 1.0))
    assert serial < time < 1.001 * serial


def test_latent_prefill_is_expanded() -> None:
    # 2 h (192 + 128) pairs with one head and 3 tokens: 2 x 320 x 6.
    assert operators.prefill_mla_s(3.0, 1, 320, 0.0, 0, 1.0) == pytest.approx(3840.0)


def test_decode_attention_reads_the_cache_once() -> None:
    # 70B, one of 80 layers, TP 1: 64 sequences x 2,048 tokens x 4,096 bytes at 3.35 TB/s = 160.3 us.
    time = operators.decode_attention_s(64.0, 2048.0, 4096.0, 8, 0.0, 3.35e12)
    assert time == pytest.approx(64 * 2048 * 4096 / 3.35e12)
    assert operators.decode_attention_s(64.0, 0.0, 4096.0, 8, 1e-9, 1.0) == pytest.approx(64 * 8e-9)


def test_latent_decode_sits_at_the_ridge() -> None:
    # DeepSeek-V3, all heads: 278,528 FLOPs against 1,152 bytes per context token, 242 FLOP/B (MODELLING §1.2).
    compute = operators.decode_mla_s(1.0, 1.0, 128, 1088, 1152.0, 0.0, 1.0, 1e30, 2.0)
    memory = operators.decode_mla_s(1.0, 1.0, 128, 1088, 1152.0, 0.0, 1e30, 1.0, 2.0)
    assert compute == pytest.approx(278528.0)
    assert memory == pytest.approx(1152.0)
    assert float(compute / memory) == pytest.approx(242, rel=0.002)


def test_recurrent_layers_stream_their_state() -> None:
    # Qwen3-Next, batch 256: 36 layers of 32 x 128 x 128 fp32 elements, 39 GB, 8 ms on an H200 (MODELLING §1.4).
    time = 36 * operators.decode_recurrent_s(256.0, 32 * 128 * 128, 4.8e12)
    assert float(time) == pytest.approx(8e-3, rel=0.02)
    assert operators.prefill_recurrent_s(10.0, 100.0, 4000.0) == pytest.approx(1.0)


@pytest.mark.parametrize(("experts", "top_k", "tokens"), [(4, 2, 1), (4, 2, 3), (5, 2, 3), (4, 1, 4)])
def test_distinct_experts_equals_enumeration(experts: int, top_k: int, tokens: int) -> None:
    draws = list(combinations(range(experts), top_k))
    touched = sum(len(set().union(*map(set, choice))) for choice in product(draws, repeat=tokens))
    exact = touched / comb(experts, top_k) ** tokens
    assert operators.distinct_experts(experts, top_k, tokens) == pytest.approx(exact)


def test_distinct_experts_limits() -> None:
    assert operators.distinct_experts(256, 8, 0) == 0.0
    assert operators.distinct_experts(256, 8, 1) == pytest.approx(8.0)
    assert operators.distinct_experts(256, 8, 1e5) == pytest.approx(256.0)


def test_experts_exact() -> None:
    # 2 pairs, H 4, F 8, gated: 2 x 3 x 2 x 32 = 384 FLOPs; 1.5 experts x 96 weights x 1 byte + 2 (16 + 48) = 272 bytes.
    assert operators.experts_s(2.0, 1.5, 4, 8, 3, 1.0, 384.0, 1e30, 1.0) == pytest.approx(1.0)
    assert operators.experts_s(2.0, 1.5, 4, 8, 3, 1.0, 1e30, 272.0, 1.0) == pytest.approx(1.0)


@given(st.floats(1.0, 1e4), st.floats(1.1, 100.0))
def test_times_scale_inversely_with_rates(tokens: float, factor: float) -> None:
    """Doubling every rate halves every time: no hidden constant with a dimension."""

    def times(scale: float) -> np.ndarray:
        peak, rate = 1e12 * scale, 1e9 * scale
        return np.array(
            [
                operators.gemm_s(tokens, 512.0, 256.0, 1.0, 5.0, peak, rate, 2.0),
                operators.prefill_attention_s(tokens, 8, 128, 100.0, 132, peak),
                operators.decode_attention_s(tokens, 100.0, 4096.0, 8, 0.0, rate),
                operators.decode_mla_s(tokens, 100.0, 128, 1088, 1152.0, 0.0, peak, rate, 2.0),
                operators.experts_s(tokens, 10.0, 256, 512, 3, 1.0, peak, rate, 1.5),
                operators.routing_s(tokens, 8, 256, 4.0, rate),
                operators.elementwise_s(tokens, 256.0, rate),
            ]
        )

    assert times(1.0) == pytest.approx(factor * times(factor))
