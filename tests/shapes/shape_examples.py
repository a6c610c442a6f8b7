"""Shapes of well-known models, written by hand from their papers, independent of any importer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from planner.records import (
    DenseFeedForward,
    Experts,
    Floats,
    LatentAttention,
    LayerKind,
    ModelShape,
    RecurrentMixer,
    SoftmaxAttention,
)
from planner.shapes.counts import kv_terms


def token_bytes_per_rank(shape: ModelShape, kv_dtype: str, tp: ArrayLike, beyond_window: bool = False) -> Floats:
    """Bytes one more token of a sequence adds on each of `tp` ranks, by the terms that the product sums."""
    terms = [term for term in kv_terms(shape, kv_dtype, tp) if not (beyond_window and term.window_tokens)]
    return np.asarray(sum((term.bytes_per_token for term in terms), start=np.zeros(np.shape(tp))))


def _shape(name: str, hidden: int, vocabulary: int, *layers: LayerKind, stored: str = "bf16") -> ModelShape:
    return ModelShape(
        id=name,
        architecture="",
        hidden=hidden,
        vocabulary=vocabulary,
        layers=layers,
        tied_embeddings=False,
        max_context_tokens=131072,
        checkpoint_format=stored,
    )


LLAMA_70B = _shape(
    "meta-llama/Llama-3.1-70B", 8192, 128256, LayerKind(80, SoftmaxAttention(64, 8, 128, 128), DenseFeedForward(28672))
)

_DEEPSEEK_ATTENTION = LatentAttention(128, 1536, 512, 128, 64, 128)
DEEPSEEK_V3 = _shape(
    "deepseek-ai/DeepSeek-V3",
    7168,
    129280,
    LayerKind(3, _DEEPSEEK_ATTENTION, DenseFeedForward(18432)),
    LayerKind(58, _DEEPSEEK_ATTENTION, Experts(256, 8, 2048, 2048)),
    stored="fp8_block",
)

_SPARSE_ATTENTION = LatentAttention(128, 1536, 512, 128, 64, 128, 64, 128, 2048)
DEEPSEEK_V32 = _shape(
    "deepseek-ai/DeepSeek-V3.2",
    7168,
    129280,
    LayerKind(3, _SPARSE_ATTENTION, DenseFeedForward(18432)),
    LayerKind(58, _SPARSE_ATTENTION, Experts(256, 8, 2048, 2048)),
    stored="fp8_block",
)

_GPT_OSS_EXPERTS = Experts(128, 4, 2880)
GPT_OSS_120B = _shape(
    "openai/gpt-oss-120b",
    2880,
    201088,
    LayerKind(18, SoftmaxAttention(64, 8, 64, 64, window_tokens=128, bias=True), _GPT_OSS_EXPERTS),
    LayerKind(18, SoftmaxAttention(64, 8, 64, 64, bias=True), _GPT_OSS_EXPERTS),
    stored="mxfp4",
)

_NEXT_EXPERTS = Experts(512, 10, 512, 512)
QWEN3_NEXT = _shape(
    "Qwen/Qwen3-Next-80B-A3B",
    2048,
    151936,
    LayerKind(36, RecurrentMixer(16, 32, 128, 128, 4), _NEXT_EXPERTS),
    LayerKind(12, SoftmaxAttention(16, 2, 256, 256, output_gate=True), _NEXT_EXPERTS),
)

MISTRAL_7B = _shape(
    "mistralai/Mistral-7B-v0.1",
    4096,
    32000,
    LayerKind(32, SoftmaxAttention(32, 8, 128, 128, window_tokens=4096), DenseFeedForward(14336)),
)

_V4: dict[str, Any] = {"nope_dim": 448, "rope_dim": 64, "value_dim": 512, "direct": True, "window_tokens": 128}
_V4_WINDOW = LatentAttention(64, 1024, 448, **_V4, output_groups=8, output_rank=1024)
_V4_EXPERTS = Experts(256, 6, 2048, 2048)
DEEPSEEK_V4_FLASH = replace(
    _shape(
        "deepseek-ai/DeepSeek-V4-Flash",
        4096,
        129280,
        LayerKind(2, _V4_WINDOW, _V4_EXPERTS),
        LayerKind(
            21,
            replace(_V4_WINDOW, compression_tokens=4, index_heads=64, index_dim=128, index_top_k=512),
            _V4_EXPERTS,
        ),
        LayerKind(20, replace(_V4_WINDOW, compression_tokens=128), _V4_EXPERTS),
        stored="mxfp4",
    ),
    checkpoint_other_format="fp8_block",
)

_K3_EXPERTS = Experts(896, 16, 3072, 6144, hidden=3584)
_K3_DELTA = RecurrentMixer(96, 96, 128, 128, 4, kind="kda", full_rank_gate=True)
KIMI_K3 = _shape(
    "moonshotai/Kimi-K3",
    7168,
    163840,
    LayerKind(1, _K3_DELTA, DenseFeedForward(33792)),
    LayerKind(68, _K3_DELTA, _K3_EXPERTS),
    LayerKind(24, LatentAttention(96, 1536, 512, 128, 64, 128, output_gate=True), _K3_EXPERTS),
    stored="mxfp4",
)

# 60 layers of grouped-query attention, 57 of which attend to blocks that an indexer chooses
_M3_EXPERTS = Experts(128, 4, 3072, 3072)
MINIMAX_M3 = _shape(
    "MiniMaxAI/MiniMax-M3",
    6144,
    200064,
    LayerKind(3, SoftmaxAttention(64, 4, 128, 128), DenseFeedForward(12288)),
    LayerKind(57, LatentAttention(64, 0, 1024, 128, 0, 128, 4, 128, 2176, kv_heads=4, direct=True), _M3_EXPERTS),
)

# every second layer reads the keys and values of the one before it
HUNYUAN_LARGE = replace(
    _shape(
        "tencent/Tencent-Hunyuan-Large",
        6400,
        128512,
        LayerKind(32, SoftmaxAttention(80, 8, 80, 80), Experts(16, 1, 18304, 18304)),
        LayerKind(32, SoftmaxAttention(80, 8, 80, 80), Experts(16, 1, 18304, 18304)),
    ),
    tied_embeddings=True,
    borrowed_kv=(False, True),
)

LFM2_1B = replace(
    _shape(
        "LiquidAI/LFM2-1.2B",
        2048,
        65536,
        LayerKind(10, RecurrentMixer(1, 2048, 1, 1, 3, kind="short-conv"), DenseFeedForward(8192)),
        LayerKind(6, SoftmaxAttention(32, 8, 64, 64), DenseFeedForward(8192)),
    ),
    tied_embeddings=True,
)

ALL = (
    LLAMA_70B, DEEPSEEK_V3, DEEPSEEK_V32, GPT_OSS_120B, QWEN3_NEXT, MISTRAL_7B, DEEPSEEK_V4_FLASH, KIMI_K3, MINIMAX_M3,
    HUNYUAN_LARGE, LFM2_1B,
)  # fmt: skip
