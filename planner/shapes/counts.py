"""What a model holds and does: parameters, KV bytes, recurrent state, exact FLOPs (MODELLING §1).

Norms, positions and multi-token-prediction layers are not counted; together they are below 0.3 % of any model here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from planner.records import Floats, LatentAttention, LayerKind, ModelShape, RecurrentMixer, SoftmaxAttention
from planner.shapes.formats import STATE_BYTES_PER_ELEMENT, kv_bytes_per_element
from planner.shapes.weights import feed_forward_parameters, mixer_parameters

CONVOLUTION_BYTES_PER_ELEMENT = 2.0
# Multiply-adds of one token per state element: the chunked prefill updates and reads (2 + 2 FLOPs); the decode
# recurrence also decays, and the delta rule looks up what the key holds first (MODELLING §1.2).
STATE_PREFILL_FLOPS = 4.0
STATE_DECODE_FLOPS = {"gated-delta": 7.0, "kda": 7.0, "mamba1": 5.0, "mamba2": 5.0, "lightning": 5.0}


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


def borrowing(shape: ModelShape) -> Iterator[tuple[LayerKind, bool]]:
    """Every layer kind, and whether its attention reads the keys and values of other layers instead of its own."""
    borrowed = shape.borrowed_kv or (False,) * len(shape.layers)
    return zip(shape.layers, borrowed, strict=True)


# Published active counts include the embedding, which is a lookup, as custom has it; these cards leave it out.
ACTIVE_WITHOUT_LOOKUP = frozenset({"gpt_oss"})


def parameters(shape: ModelShape) -> ParameterCount:
    """Parameters of the whole model (MODELLING §1.1): Llama-3.1-70B 70.55 B, DeepSeek-V3 671.0 B / 37.55 B active.

    Image and sound encoders are counted apart (`ModelShape.encoder_parameters`). Per-layer embedding tables count as
    held, not as passed; weights that layers share count once as held and at each pass as active.
    """
    embedding = shape.vocabulary * shape.hidden
    head = 0 if shape.tied_embeddings else embedding
    looked_up = embedding if shape.architecture in ACTIVE_WITHOUT_LOOKUP else 0
    attention = sum(
        kind.count * mixer_parameters(kind.mixer, shape.hidden, borrows).total for kind, borrows in borrowing(shape)
    )
    blocks = [(kind.count, feed_forward_parameters(kind.feed_forward, shape.hidden)) for kind in shape.layers]
    outside = embedding + head + attention
    layers = outside + sum(count * block.total for count, block in blocks)
    return ParameterCount(
        total=layers + shape.side_parameters - shape.reused_parameters,
        active=outside - looked_up + sum(count * block.active for count, block in blocks),
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
    for kind, borrows in borrowing(shape):
        mixer = kind.mixer
        if isinstance(mixer, SoftmaxAttention) and not borrows:
            elements = heads_per_rank(mixer.kv_heads, tp) * (mixer.key_dim + mixer.value_dim)
            terms.append(KvTerm(kind.count * elements * element, mixer.window_tokens))
        elif isinstance(mixer, LatentAttention) and (mixer.compression_tokens or not mixer.window_tokens):
            index = mixer.index_dim if mixer.index_heads else 0
            elements = (latent_elements(mixer, tp) + index) / (mixer.compression_tokens or 1)
            terms.append(KvTerm(kind.count * elements * element, 0))
    return terms


def latent_elements(mixer: LatentAttention, tp: ArrayLike = 1) -> Floats:
    """Elements of one cached vector on one of `tp` ranks: whole, or the heads of it that the rank holds."""
    return heads_per_rank(mixer.kv_heads, tp) * ((mixer.kv_rank + mixer.rope_dim) / mixer.kv_heads)


def kv_bytes_per_token(shape: ModelShape, kv_dtype: str, beyond_window: bool = False) -> float:
    """Bytes one more token adds to a sequence's cache; `beyond_window`: once every windowed layer is full.

    Llama-3.1-70B 327,680 in bf16; DeepSeek-V3 70,272; gpt-oss-120b 73,728 and 36,864 beyond its window.

    Id: kv.bytes_per_token.  sum over the layers that cache of 2 * KV heads * head size * bytes, or of (rank + rope) *
        bytes for latents  (MODELLING §1.4)
    """
    terms = kv_terms(shape, kv_dtype)
    return float(sum(term.bytes_per_token for term in terms if not (beyond_window and term.window_tokens)))


def state_bytes_per_sequence(shape: ModelShape, kv_dtype: str = "bf16") -> float:
    """Bytes a sequence holds at any length, without convolution inputs (MODELLING §1.4).

    Recurrent states in fp32, and the window buffers that attention over compressed tokens keeps beside in `kv_dtype`.

    Id: kv.state_bytes.  sum over recurrent layers of their fp32 state  (MODELLING §1.4)
    """
    return float(_state_bytes(shape, 1) + _window_buffer_bytes(shape, kv_dtype, 1))


def listed_counts(shape: ModelShape) -> dict[str, int]:
    """The counts that a model file states for listings, in bf16 with every window still growing."""
    count = parameters(shape)
    return {
        "parameters": count.total,
        "active_parameters": count.active,
        "kv_bytes_per_token": int(kv_bytes_per_token(shape, "bf16")),
        "state_bytes_per_sequence": int(state_bytes_per_sequence(shape)),
    }


def _state_bytes(shape: ModelShape, tp: ArrayLike) -> Floats:
    total = np.zeros(np.shape(tp))
    for kind in shape.layers:
        if isinstance(kind.mixer, RecurrentMixer) and kind.mixer.kind != "short-conv":
            elements = heads_per_rank(kind.mixer.value_heads, tp) * kind.mixer.key_dim * kind.mixer.value_dim
            total = total + kind.count * elements * STATE_BYTES_PER_ELEMENT
    return total


def _convolution_bytes(shape: ModelShape, tp: ArrayLike) -> Floats:
    total = np.zeros(np.shape(tp))
    for kind in shape.layers:
        mixer = kind.mixer
        if isinstance(mixer, RecurrentMixer) and mixer.conv_tokens:
            channels = heads_per_rank(mixer.value_heads, tp) * mixer.value_dim
            if mixer.kind not in ("mamba1", "short-conv"):  # which have no keys, or compute them after the convolution
                channels = channels + 2 * heads_per_rank(mixer.key_heads, tp) * mixer.key_dim
            total = total + kind.count * channels * (mixer.conv_tokens - 1) * CONVOLUTION_BYTES_PER_ELEMENT
    return total


def _window_buffer_bytes(shape: ModelShape, kv_dtype: str, tp: ArrayLike) -> Floats:
    total = np.zeros(np.shape(tp))
    for kind in shape.layers:
        if isinstance(kind.mixer, LatentAttention) and kind.mixer.window_tokens:
            elements = latent_elements(kind.mixer, tp) * kind.mixer.window_tokens
            total = total + kind.count * elements * kv_bytes_per_element(kv_dtype)
    return total


def fixed_bytes_per_sequence(shape: ModelShape, kv_dtype: str = "bf16", tp: ArrayLike = 1) -> Floats:
    """Bytes a sequence holds on one of `tp` ranks at any length: states, window buffers and convolution inputs."""
    return _state_bytes(shape, tp) + _window_buffer_bytes(shape, kv_dtype, tp) + _convolution_bytes(shape, tp)


def kv_bytes(shape: ModelShape, kv_dtype: str, tokens: ArrayLike) -> Floats:
    """Bytes of one sequence of `tokens` tokens: keys, values and latents, windows full at most, and fixed state."""
    return sequence_bytes(shape, kv_dtype, tokens, 1)


def sequence_bytes(shape: ModelShape, kv_dtype: str, tokens: ArrayLike, tp: ArrayLike) -> Floats:
    """Bytes of one sequence on one of `tp` ranks; `tokens` and `tp` broadcast."""
    length = np.asarray(tokens, dtype=float)
    total = fixed_bytes_per_sequence(shape, kv_dtype, tp) + 0.0 * length
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


def latent_pairs(mixer: LatentAttention, new_tokens: ArrayLike, cached_tokens: ArrayLike) -> Floats:
    """Pairs of a query and a cached vector in a causal pass: in the window, and of compressed vectors those chosen."""
    share = mixer.compression_tokens or 1
    far = attended_pairs(new_tokens, cached_tokens, mixer.index_top_k * share) / share
    if not mixer.window_tokens:
        return far
    near = attended_pairs(new_tokens, cached_tokens, mixer.window_tokens)
    return near + far if mixer.compression_tokens else near


def latent_entries(mixer: LatentAttention, context_tokens: Floats) -> Floats:
    """Cached vectors that one decoded token attends to."""
    far = in_window(context_tokens / (mixer.compression_tokens or 1), mixer.index_top_k)
    if not mixer.window_tokens:
        return far
    near = in_window(context_tokens, mixer.window_tokens)
    return near + far if mixer.compression_tokens else near


def absorbed_width(mixer: LatentAttention) -> int:
    """Multiply-adds of one head with one cached vector at decode: what it is matched with, and what is read from it."""
    if mixer.direct:
        return mixer.nope_dim + mixer.rope_dim + mixer.value_dim
    return 2 * mixer.kv_rank + mixer.rope_dim


def _matrix_flops_per_token(shape: ModelShape) -> float:
    """FLOPs of one token in every weight matrix it passes, head and embedding aside (two per parameter)."""
    return 2.0 * sum(
        kind.count
        * (
            mixer_parameters(kind.mixer, shape.hidden, borrows).total
            + feed_forward_parameters(kind.feed_forward, shape.hidden).active
        )
        for kind, borrows in borrowing(shape)
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
        if mixer.index_top_k or mixer.direct:
            expanding = 0.0 * cached
        share = mixer.compression_tokens or 1
        indexing = 2.0 * mixer.index_heads * mixer.index_dim * attended_pairs(new, cached) / share
        return per_pair * latent_pairs(mixer, new, cached) + expanding + indexing
    if isinstance(mixer, RecurrentMixer) and mixer.kind != "short-conv":
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
        per_entry = 2.0 * mixer.query_heads * absorbed_width(mixer)
        indexing = 2.0 * mixer.index_heads * mixer.index_dim * context / (mixer.compression_tokens or 1)
        return per_entry * latent_entries(mixer, context) + indexing
    if isinstance(mixer, RecurrentMixer) and mixer.kind != "short-conv":
        state = mixer.value_heads * mixer.key_dim * mixer.value_dim
        return STATE_DECODE_FLOPS[mixer.kind] * state + 0.0 * context
    return 0.0 * context
