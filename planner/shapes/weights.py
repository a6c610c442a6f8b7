"""Parameters of one mixer and one feed-forward block, sorted by how tensor parallelism treats them (MODELLING §1.1)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from planner.records import (
    DenseFeedForward,
    FeedForward,
    LatentAttention,
    Mixer,
    RecurrentMixer,
    SoftmaxAttention,
)

RECURRENT_KINDS = ("gated-delta", "kda", "mamba1", "mamba2", "lightning", "short-conv")


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
    router: int = 0  # with the projections into and out of a narrower space of the experts: whole on every rank
    expert: int = 0  # one expert
    experts: int = 0  # how many
    top_k: int = 0

    @property
    def total(self) -> int:
        return self.dense + self.shared_expert + self.router + self.experts * self.expert

    @property
    def active(self) -> int:
        return self.dense + self.shared_expert + self.router + self.top_k * self.expert


def mixer_parameters(mixer: Mixer | None, hidden: int, borrowed_kv: bool = False) -> MixerParameters:
    """Parameters of one mixer (MODELLING §1.1); with `borrowed_kv` without projections of its own keys and values."""
    if isinstance(mixer, SoftmaxAttention):
        return _softmax_parameters(mixer, hidden, borrowed_kv)
    if isinstance(mixer, LatentAttention):
        return _latent_parameters(mixer, hidden)
    if isinstance(mixer, RecurrentMixer):
        return _recurrent_parameters(mixer, hidden)
    return MixerParameters(0, 0, 0)


def _softmax_parameters(mixer: SoftmaxAttention, hidden: int, borrowed_kv: bool) -> MixerParameters:
    query_rows = mixer.query_heads * mixer.key_dim
    kv_rows = 0 if borrowed_kv else mixer.kv_heads * (mixer.key_dim + mixer.value_dim)
    output = mixer.query_heads * mixer.value_dim * hidden * (2 if mixer.output_gate else 1)
    bias = 1 if mixer.bias else 0
    return MixerParameters(query_rows * (hidden + bias) + output, kv_rows * (hidden + bias), 0)


def _latent_parameters(mixer: LatentAttention, hidden: int) -> MixerParameters:
    heads = mixer.query_heads
    query_input = mixer.query_rank or hidden
    query = query_input * heads * (mixer.nope_dim + mixer.rope_dim)
    cached = hidden * (mixer.kv_rank + mixer.rope_dim)
    replicated = hidden * mixer.query_rank + hidden * compressor_columns(mixer) + _index_parameters(mixer, hidden)
    by_kv_head = cached if mixer.kv_heads > 1 else 0
    up = 0 if mixer.direct else mixer.kv_rank * heads * (mixer.nope_dim + mixer.value_dim)
    by_query_head = query + latent_output_parameters(mixer, hidden)
    return MixerParameters(by_query_head, by_kv_head, replicated + cached - by_kv_head, up)


def latent_output_parameters(mixer: LatentAttention, hidden: int) -> int:
    """Output projection, whole or in groups of low rank, and the output gate when there is one."""
    values = mixer.query_heads * mixer.value_dim
    gate = values * hidden if mixer.output_gate else 0
    if mixer.output_groups:
        return values * mixer.output_rank + mixer.output_groups * mixer.output_rank * hidden + gate
    return values * hidden + gate


def compressor_columns(mixer: LatentAttention) -> int:
    """Outputs of what pools tokens into one vector: values and weights, twice as many where neighbors overlap.

    They overlap where an indexer chooses vectors, and its keys are pooled by a compressor of their own (DeepSeek-V4).
    """
    if not mixer.compression_tokens:
        return 0
    overlap = 2 if mixer.index_heads else 1
    return 2 * overlap * (mixer.kv_rank + mixer.rope_dim + (mixer.index_dim if mixer.index_heads else 0))


def _index_parameters(mixer: LatentAttention, hidden: int) -> int:
    if not mixer.index_heads:
        return 0
    own_key = 0 if mixer.compression_tokens else mixer.index_dim  # else a compressor of its own makes the keys
    query = mixer.index_heads * mixer.index_dim * (mixer.query_rank or hidden)
    return query + hidden * (own_key + mixer.index_heads)


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
        if mixer.full_rank_gate:
            gate_up, down = hidden * values, hidden * mixer.key_dim
        return MixerParameters(in_value_and_out + convolution + gate_up + beta, by_key + decay_up, down)
    if mixer.kind == "lightning":  # queries, keys and values of every head, and an output gate
        return MixerParameters(in_value_and_out + hidden * values, by_key, 0)
    if mixer.kind == "short-conv":  # two gates and an input, convolved, and out again
        return MixerParameters(2 * in_value_and_out + convolution, 0, 0)
    if mixer.kind == "gated-delta":
        gates = hidden * (values + 2 * mixer.value_heads)
        return MixerParameters(in_value_and_out + convolution + gates, by_key, 0)
    raise ValueError(f"kind {mixer.kind!r} is not one of {', '.join(RECURRENT_KINDS)}")


def feed_forward_parameters(feed_forward: FeedForward, hidden: int) -> FeedForwardParameters:
    """Parameters of one feed-forward block: three matrices when gated, two when plain."""
    if feed_forward is None:
        return FeedForwardParameters()
    per_width = hidden * (3 if feed_forward.gated else 2)
    if isinstance(feed_forward, DenseFeedForward):
        return FeedForwardParameters(dense=per_width * feed_forward.intermediate)
    latent = feed_forward.hidden or hidden
    return FeedForwardParameters(
        shared_expert=per_width * feed_forward.shared_intermediate,
        router=hidden * feed_forward.experts + (2 * hidden * latent if feed_forward.hidden else 0),
        expert=per_width // hidden * latent * feed_forward.intermediate,
        experts=feed_forward.experts,
        top_k=feed_forward.top_k,
    )
