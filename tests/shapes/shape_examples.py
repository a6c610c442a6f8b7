"""Shapes of well-known models, written by hand from their papers, independent of any importer."""

from __future__ import annotations

from planner.records import (
    DenseFeedForward,
    Experts,
    LatentAttention,
    LayerKind,
    ModelShape,
    RecurrentMixer,
    SoftmaxAttention,
)


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

ALL = (LLAMA_70B, DEEPSEEK_V3, DEEPSEEK_V32, GPT_OSS_120B, QWEN3_NEXT, MISTRAL_7B)
