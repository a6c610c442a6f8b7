"""What a model holds and does: parameters, KV bytes, recurrent state, exact FLOPs (MODELLING §1).

Norms, positions and multi-token-prediction layers are not counted; together they are below 0.3 % of any model here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from planner.records import (
    DenseFeedForward,
    FeedForward,
    Floats,
    LatentAttention,
    LayerKind,
    Mixer,
    ModelShape,
    RecurrentMixer,
    SoftmaxAttention,
)
from planner.shapes.formats import STATE_BYTES_PER_ELEMENT, kv_bytes_per_element

CONVOLUTION_BYTES_PER_ELEMENT = 2.0
# Multiply-adds of one token per state element: the chunked prefill updates and reads (2 + 2 FLOPs); the decode
# recurrence also decays, and the delta rule looks up what the key holds first (MODELLING §1.2).
STATE_PREFILL_FLOPS = 4.0
STATE_DECODE_FLOPS = {"gated-delta": 7.0, "kda": 7.0, "mamba1": 5.0, "mamba2": 5.0}


@dataclass(frozen=True, slots=True)
class MixerParameters:
    """Parameters of one mixer, by how tensor parallelism treats them."""

    by_query_head: int  # split over query (or value) heads
    by_kv_head: int  # split over key-value (or key) heads, a head is never cut
    replicated: int  # latent down-projections, indexer: whole on every rank
    latent_up: int = 0  # keys and values out of the latent: split over query heads, kept in bf16

    @property
    def total(self) -> int:
        return self.by_query_head + self.by_kv_head + self.replicated + self.latent_up


@dataclass(frozen=True, slots=True)
class FeedForwardParameters:
    """Parameters of one feed-forward block."""

    dense: int = 0
    shared_expert: int = 0
    router: int = 0
    expert: int = 0  # one expert
    experts: int = 0  # how many
    top_k: int = 0

    @property
    def total(self) -> int:
        return self.dense + self.shared_expert + self.router + self.experts * self.expert

    @property
    def active(self) -> int:
        return self.dense + self.shared_expert + self.router + self.top_k * self.expert


@dataclass(frozen=True, slots=True)
class ParameterCount:
    """Parameters of a model. `active` counts what one token passes, embedding and head included."""

    total: int
    active: int
    embedding: int
    head: int  # 0 when tied to the embedding
    attention: int  # every mixer, recurrent ones too
    dense_feed_forward: int
    shared_expert: int
    router: int
    experts: int


@dataclass(frozen=True, slots=True)
class KvTerm:
    """One addend of a sequence's KV bytes: so many bytes per token, up to `window_tokens` (0: no limit)."""

    bytes_per_token: Floats
    window_tokens: int


# -------------------------------------------------------------------------------------------------------- parameters


def mixer_parameters(mixer: Mixer | None, hidden: int) -> MixerParameters:
    """Parameters of one mixer (MODELLING §1.1)."""
    if isinstance(mixer, SoftmaxAttention):
        return _softmax_parameters(mixer, hidden)
    if isinstance(mixer, LatentAttention):
        return _latent_parameters(mixer, hidden)
    if isinstance(mixer, RecurrentMixer):
        return _recurrent_parameters(mixer, hidden)
    return MixerParameters(0, 0, 0)


def _softmax_parameters(mixer: SoftmaxAttention, hidden: int) -> MixerParameters:
    query_rows = mixer.query_heads * mixer.key_dim
    kv_rows = mixer.kv_heads * (mixer.key_dim + mixer.value_dim)
    output = mixer.query_heads * mixer.value_dim * hidden * (2 if mixer.output_gate else 1)
    bias = 1 if mixer.bias else 0
    return MixerParameters(query_rows * (hidden + bias) + output, kv_rows * (hidden + bias), 0)


def _latent_parameters(mixer: LatentAttention, hidden: int) -> MixerParameters:
    heads = mixer.query_heads
    query_input = mixer.query_rank or hidden
    query = query_input * heads * (mixer.nope_dim + mixer.rope_dim)
    output = heads * mixer.value_dim * hidden
    down = hidden * (mixer.query_rank + mixer.kv_rank + mixer.rope_dim)
    index = mixer.index_heads * mixer.index_dim * query_input + hidden * (mixer.index_dim + mixer.index_heads)
    up = mixer.kv_rank * heads * (mixer.nope_dim + mixer.value_dim)
    return MixerParameters(query + output, 0, down + (index if mixer.index_heads else 0), up)


def _recurrent_parameters(mixer: RecurrentMixer, hidden: int) -> MixerParameters:
    keys = 2 * mixer.key_heads * mixer.key_dim
    values = mixer.value_heads * mixer.value_dim
    in_value_and_out = 2 * hidden * values
    by_key = keys * (hidden + mixer.conv_tokens)
    convolution = values * mixer.conv_tokens
    if mixer.kind == "mamba1":
        # No heads: every channel has its own state, and key and step size are projected from the channels.
        step_rank = math.ceil(hidden / 16)
        selection = values * (step_rank + 2 * mixer.key_dim) + step_rank * values + values * mixer.key_dim
        return MixerParameters(in_value_and_out + hidden * values + convolution + selection, 0, 0)
    if mixer.kind == "mamba2":
        step = hidden * mixer.value_heads
        return MixerParameters(in_value_and_out + hidden * values + convolution + step, by_key, 0)
    if mixer.kind == "kda":
        # Decay and output gate are low-rank: down to one head's width, whole on every rank, and up again.
        decay_up = mixer.key_dim * mixer.key_heads * mixer.key_dim
        gate_up = mixer.value_dim * values
        down = hidden * (mixer.key_dim + mixer.value_dim)
        beta = hidden * mixer.value_heads
        return MixerParameters(in_value_and_out + convolution + gate_up + beta, by_key + decay_up, down)
    if mixer.kind == "gated-delta":
        gates = hidden * (values + 2 * mixer.value_heads)
        return MixerParameters(in_value_and_out + convolution + gates, by_key, 0)
    raise ValueError(f"kind {mixer.kind!r} is not one of gated-delta, kda, mamba1, mamba2")


def feed_forward_parameters(feed_forward: FeedForward, hidden: int) -> FeedForwardParameters:
    """Parameters of one feed-forward block: three matrices when gated, two when plain."""
    if feed_forward is None:
        return FeedForwardParameters()
    per_width = hidden * (3 if feed_forward.gated else 2)
    if isinstance(feed_forward, DenseFeedForward):
        return FeedForwardParameters(dense=per_width * feed_forward.intermediate)
    return FeedForwardParameters(
        shared_expert=per_width * feed_forward.shared_intermediate,
        router=hidden * feed_forward.experts,
        expert=per_width * feed_forward.intermediate,
        experts=feed_forward.experts,
        top_k=feed_forward.top_k,
    )


def parameters(shape: ModelShape) -> ParameterCount:
    """Parameters of the whole model (MODELLING §1.1): Llama-3.1-70B 70.55 B, DeepSeek-V3 671.0 B / 37.55 B active."""
    embedding = shape.vocabulary * shape.hidden
    head = 0 if shape.tied_embeddings else embedding
    attention = sum(kind.count * mixer_parameters(kind.mixer, shape.hidden).total for kind in shape.layers)
    blocks = [(kind.count, feed_forward_parameters(kind.feed_forward, shape.hidden)) for kind in shape.layers]
    outside = embedding + head + attention
    return ParameterCount(
        total=outside + sum(count * block.total for count, block in blocks),
        active=outside + sum(count * block.active for count, block in blocks),
        embedding=embedding,
        head=head,
        attention=attention,
        dense_feed_forward=sum(count * block.dense for count, block in blocks),
        shared_expert=sum(count * block.shared_expert for count, block in blocks),
        router=sum(count * block.router for count, block in blocks),
        experts=sum(count * block.experts * block.expert for count, block in blocks),
    )


# ---------------------------------------------------------------------------------------------------------------- KV


def heads_per_rank(heads: int, tp: ArrayLike) -> Floats:
    """Heads that one of `tp` ranks holds: never less than one, because a head is not cut but copied."""
    return np.ceil(heads / np.asarray(tp, dtype=float))


def kv_terms(shape: ModelShape, kv_dtype: str, tp: ArrayLike = 1) -> list[KvTerm]:
    """The addends of one sequence's KV bytes on one of `tp` ranks (MODELLING §1.4); latents are copied, not split."""
    element = kv_bytes_per_element(kv_dtype)
    terms = []
    for kind in shape.layers:
        mixer = kind.mixer
        if isinstance(mixer, SoftmaxAttention):
            elements = heads_per_rank(mixer.kv_heads, tp) * (mixer.key_dim + mixer.value_dim)
            terms.append(KvTerm(kind.count * elements * element, mixer.window_tokens))
        elif isinstance(mixer, LatentAttention):
            elements = np.asarray(mixer.kv_rank + mixer.rope_dim + (mixer.index_dim if mixer.index_heads else 0), float)
            terms.append(KvTerm(kind.count * elements * element, 0))
    return terms


def kv_bytes_per_token(shape: ModelShape, kv_dtype: str, beyond_window: bool = False) -> float:
    """Bytes one more token adds to a sequence's cache; `beyond_window`: once every windowed layer is full.

    Llama-3.1-70B 327,680 in bf16; DeepSeek-V3 70,272; gpt-oss-120b 73,728 and 36,864 beyond its window.
    """
    terms = kv_terms(shape, kv_dtype)
    return float(sum(term.bytes_per_token for term in terms if not (beyond_window and term.window_tokens)))


def state_bytes_per_sequence(shape: ModelShape) -> float:
    """Bytes of the recurrent state of one sequence, in fp32, without convolution inputs (MODELLING §1.4)."""
    return float(_state_bytes(shape, 1))


def convolution_bytes_per_sequence(shape: ModelShape) -> float:
    """Bytes of the last inputs that the short convolutions of recurrent layers keep for one sequence, in bf16."""
    return float(_convolution_bytes(shape, 1))


def _state_bytes(shape: ModelShape, tp: ArrayLike) -> Floats:
    total = np.zeros(np.shape(tp))
    for kind in shape.layers:
        if isinstance(kind.mixer, RecurrentMixer):
            elements = heads_per_rank(kind.mixer.value_heads, tp) * kind.mixer.key_dim * kind.mixer.value_dim
            total = total + kind.count * elements * STATE_BYTES_PER_ELEMENT
    return total


def _convolution_bytes(shape: ModelShape, tp: ArrayLike) -> Floats:
    total = np.zeros(np.shape(tp))
    for kind in shape.layers:
        mixer = kind.mixer
        if isinstance(mixer, RecurrentMixer) and mixer.conv_tokens:
            channels = heads_per_rank(mixer.value_heads, tp) * mixer.value_dim
            if mixer.kind != "mamba1":  # whose keys are computed after the convolution
                channels = channels + 2 * heads_per_rank(mixer.key_heads, tp) * mixer.key_dim
            total = total + kind.count * channels * (mixer.conv_tokens - 1) * CONVOLUTION_BYTES_PER_ELEMENT
    return total


def fixed_bytes_per_sequence(shape: ModelShape, tp: ArrayLike = 1) -> Floats:
    """Bytes a sequence holds on one of `tp` ranks whatever its length: recurrent state and convolution inputs."""
    return _state_bytes(shape, tp) + _convolution_bytes(shape, tp)


def kv_bytes(shape: ModelShape, kv_dtype: str, tokens: ArrayLike) -> Floats:
    """Bytes of one sequence of `tokens` tokens: keys, values and latents, windows full at most, and fixed state."""
    return sequence_bytes(shape, kv_dtype, tokens, 1)


def sequence_bytes(shape: ModelShape, kv_dtype: str, tokens: ArrayLike, tp: ArrayLike) -> Floats:
    """Bytes of one sequence on one of `tp` ranks; `tokens` and `tp` broadcast."""
    length = np.asarray(tokens, dtype=float)
    total = fixed_bytes_per_sequence(shape, tp) + 0.0 * length
    for term in kv_terms(shape, kv_dtype, tp):
        total = total + term.bytes_per_token * in_window(length, term.window_tokens)
    return total


def tokens_for_bytes(shape: ModelShape, kv_dtype: str, budget_bytes: ArrayLike) -> Floats:
    """The longest sequence whose cache fits in `budget_bytes`: the inverse of `kv_bytes`.

    0 when the budget does not even hold the fixed state; infinite when every layer has a window and all are full,
    because then one more token costs nothing.
    """
    budget = np.asarray(budget_bytes, dtype=float)
    terms = kv_terms(shape, kv_dtype)
    windows = sorted({term.window_tokens for term in terms if term.window_tokens})
    knots = np.array([0.0, *windows])
    at_knots = kv_bytes(shape, kv_dtype, knots)
    slope = kv_bytes_per_token(shape, kv_dtype, beyond_window=True)
    inside = np.interp(budget, at_knots, knots)
    beyond = (budget - at_knots[-1]) / slope if slope else np.full(budget.shape, np.inf)
    tokens = np.where(budget >= at_knots[-1], knots[-1] + beyond, inside)
    return np.where(budget < at_knots[0], 0.0, tokens)


def in_window(tokens: Floats, window_tokens: int) -> Floats:
    """Tokens that a layer still sees."""
    return np.minimum(tokens, window_tokens) if window_tokens else tokens


# ------------------------------------------------------------------------------------------------------------- FLOPs


def attended_pairs(new_tokens: ArrayLike, cached_tokens: ArrayLike, window_tokens: int = 0) -> Floats:
    """Query-key pairs of a causal pass over `new_tokens` after `cached_tokens`, each token seeing `window_tokens`.

    Without a window q p + q (q + 1) / 2; with one, the tokens past it see exactly the window (MODELLING §1.2).
    """
    new = np.asarray(new_tokens, dtype=float)
    cached = np.asarray(cached_tokens, dtype=float)
    growing = np.clip(window_tokens - cached, 0.0, new) if window_tokens else new
    pairs: Floats = growing * cached + growing * (growing + 1) / 2 + (new - growing) * window_tokens
    return pairs


def _matrix_flops_per_token(shape: ModelShape) -> float:
    """FLOPs of one token in every weight matrix it passes, head and embedding aside (two per parameter)."""
    return 2.0 * sum(
        kind.count
        * (
            mixer_parameters(kind.mixer, shape.hidden).total
            + feed_forward_parameters(kind.feed_forward, shape.hidden).active
        )
        for kind in shape.layers
    )


def _head_flops(shape: ModelShape) -> float:
    return 2.0 * shape.vocabulary * shape.hidden


def prefill_flops(shape: ModelShape, new_tokens: ArrayLike, cached_tokens: ArrayLike = 0) -> Floats:
    """FLOPs to prefill `new_tokens` of one prompt after `cached_tokens` already cached; the head runs once.

    Causal attention is counted once (not the full square), latents are expanded and cached latents expanded again,
    sparse attention looks at its top k after an indexer that looks at everything (MODELLING §1.2). For sparse
    attention this is a floor: kernels that work on the latents do up to 3.4 times the work per selected pair.
    """
    new = np.asarray(new_tokens, dtype=float)
    total = _matrix_flops_per_token(shape) * new + _head_flops(shape)
    for kind in shape.layers:
        total = total + kind.count * _prefill_mixing_flops(kind, new, np.asarray(cached_tokens, dtype=float))
    return total


def _prefill_mixing_flops(kind: LayerKind, new: Floats, cached: Floats) -> Floats:
    mixer = kind.mixer
    if isinstance(mixer, SoftmaxAttention):
        per_pair = 2.0 * mixer.query_heads * (mixer.key_dim + mixer.value_dim)
        return per_pair * attended_pairs(new, cached, mixer.window_tokens)
    if isinstance(mixer, LatentAttention):
        per_pair = 2.0 * mixer.query_heads * (mixer.nope_dim + mixer.rope_dim + mixer.value_dim)
        expanding = 2.0 * mixer.kv_rank * mixer.query_heads * (mixer.nope_dim + mixer.value_dim) * cached
        if mixer.index_top_k:
            expanding = 0.0 * cached
        indexing = 2.0 * mixer.index_heads * mixer.index_dim * attended_pairs(new, cached)
        return per_pair * attended_pairs(new, cached, mixer.index_top_k) + expanding + indexing
    if isinstance(mixer, RecurrentMixer):
        return STATE_PREFILL_FLOPS * mixer.value_heads * mixer.key_dim * mixer.value_dim * new
    return 0.0 * new


def decode_flops(shape: ModelShape, context_tokens: ArrayLike) -> Floats:
    """FLOPs to decode one token of a sequence that then has `context_tokens` tokens; latents absorbed, head included.

    DeepSeek-V3: 278,528 FLOPs per context token and layer against 1,152 bytes of bf16 latent (MODELLING §1.2).
    """
    context = np.asarray(context_tokens, dtype=float)
    total = _matrix_flops_per_token(shape) + _head_flops(shape) + 0.0 * context
    for kind in shape.layers:
        total = total + kind.count * _decode_mixing_flops(kind, context)
    return total


def _decode_mixing_flops(kind: LayerKind, context: Floats) -> Floats:
    mixer = kind.mixer
    if isinstance(mixer, SoftmaxAttention):
        per_pair = 2.0 * mixer.query_heads * (mixer.key_dim + mixer.value_dim)
        return per_pair * in_window(context, mixer.window_tokens)
    if isinstance(mixer, LatentAttention):
        per_pair = 2.0 * mixer.query_heads * (2 * mixer.kv_rank + mixer.rope_dim)
        indexing = 2.0 * mixer.index_heads * mixer.index_dim * context
        return per_pair * in_window(context, mixer.index_top_k) + indexing
    if isinstance(mixer, RecurrentMixer):
        state = mixer.value_heads * mixer.key_dim * mixer.value_dim
        return STATE_DECODE_FLOPS[mixer.kind] * state + 0.0 * context
    return 0.0 * context
