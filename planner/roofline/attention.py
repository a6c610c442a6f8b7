"""Attention of one layer of each kind: a decode step over cached tokens, and whole prompts (FIDELITY §2)."""

from __future__ import annotations

import numpy as np

from planner.records import Floats
from planner.roofline import operators
from planner.roofline.kinds import LatentKind, SoftmaxKind
from planner.shapes.counts import latent_entries

Numbers = float | Floats


def decode_softmax_s(kind: SoftmaxKind, batch: Floats, context_tokens: Floats) -> Floats:
    """One layer of softmax attention over `batch` sequences of `context_tokens`, or those in its window."""
    seen = np.minimum(context_tokens, kind.window_tokens) if kind.window_tokens else context_tokens
    return operators.decode_attention_s(
        batch, seen, kind.kv_bytes_per_token, kind.kv_heads, kind.sequence_s, kind.decode_bytes_per_s
    )


def decode_latent_s(kind: LatentKind, batch: Floats, context_tokens: Floats, memory_bytes_per_s: float) -> Floats:
    """One layer of latent attention over `batch` sequences of `context_tokens`: every entry, or those chosen."""
    time = operators.decode_mla_s(
        batch,
        latent_entries(kind.mixer, context_tokens),
        kind.heads,
        kind.absorbed_width,
        kind.kv_bytes_per_token,
        kind.sequence_s,
        kind.decode_flops_per_s,
        kind.decode_bytes_per_s,
        exponent=2.0,
    )
    if kind.top_k:  # the indexer scans 8-bit keys and a scale of every cached vector
        scanned = context_tokens / (kind.mixer.compression_tokens or 1)
        time = time + batch * scanned * ((kind.index_dim + 4.0) / (0.6 * memory_bytes_per_s))
    return time


def prefill_softmax_s(
    kind: SoftmaxKind, prompt_tokens: Floats, compute_units: int, cached_tokens: Numbers = 0.0
) -> Floats:
    """Whole prompts of one layer of softmax attention."""
    return operators.prefill_attention_s(
        prompt_tokens,
        kind.heads,
        kind.head_dim,
        kind.softmax_tokens,
        compute_units,
        kind.prefill_flops_per_s,
        kind.window_tokens,
        cached_tokens,
    )


def expanded_s(kind: LatentKind, cached_tokens: Floats) -> Floats:
    """Keys and values of cached tokens, made again for a step; kernels that read vectors as they are need none."""
    if kind.mixer.direct or kind.top_k:
        return np.zeros(cached_tokens.shape)
    wide = kind.mixer.nope_dim + kind.mixer.value_dim
    return operators.expanded_latent_s(cached_tokens, kind.heads, kind.mixer.kv_rank, wide, kind.prefill_flops_per_s)


def prefill_latent_s(
    kind: LatentKind, prompt_tokens: Floats, compute_units: int, cached_tokens: Numbers = 0.0
) -> Floats:
    """Whole prompts of one layer: over what an indexer chose, over compressed vectors, and over the window beside."""

    def over(window_tokens: int) -> Floats:
        return operators.prefill_mla_s(
            prompt_tokens,
            kind.heads,
            kind.expanded_width,
            kind.softmax_tokens,
            compute_units,
            kind.prefill_flops_per_s,
            window_tokens,
            cached_tokens,
        )

    window, compression = kind.mixer.window_tokens, kind.mixer.compression_tokens
    if not window:
        return over(kind.top_k)
    return over(window) + over(kind.top_k * compression) / compression if compression else over(window)
