"""What a model is: layer kinds between an embedding and a head."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SoftmaxAttention:
    """Multi-head, grouped-query or multi-query attention; `window_tokens` 0 means the whole context."""

    query_heads: int
    kv_heads: int
    key_dim: int
    value_dim: int
    window_tokens: int = 0
    output_gate: bool = False
    bias: bool = False


@dataclass(frozen=True, slots=True)
class LatentAttention:
    """Multi-head latent attention (MLA), with the sparse indexer of DSA where `index_top_k` > 0."""

    query_heads: int
    query_rank: int  # 0: no low-rank query
    kv_rank: int
    nope_dim: int
    rope_dim: int
    value_dim: int
    index_heads: int = 0
    index_dim: int = 0
    index_top_k: int = 0
    kv_heads: int = 1  # heads the cached vector is made of; tensor parallelism splits those, and copies a single one
    direct: bool = False  # queries meet the cached vector as it is: nothing is expanded into keys and values
    output_gate: bool = False
    compression_tokens: int = 0  # tokens that share one cached vector; 0: each token has its own
    window_tokens: int = 0  # newest tokens whose own vectors are kept beside, in a buffer of fixed size
    output_groups: int = 0  # grouped low-rank output projection: so many groups of rank `output_rank`
    output_rank: int = 0


@dataclass(frozen=True, slots=True)
class RecurrentMixer:
    """Linear attention or a state-space mixer: a state per sequence instead of keys and values per token."""

    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int
    conv_tokens: int = 0
    kind: str = "gated-delta"  # gated-delta | kda | mamba1 | mamba2 | lightning | short-conv (which has no state)
    full_rank_gate: bool = False  # kda: the output gate is one matrix, not two of low rank


@dataclass(frozen=True, slots=True)
class DenseFeedForward:
    intermediate: int
    gated: bool = True


@dataclass(frozen=True, slots=True)
class Experts:
    experts: int
    top_k: int
    intermediate: int
    shared_intermediate: int = 0  # sum over shared experts
    gated: bool = True
    hidden: int = 0  # width the routed experts work in; 0: that of the model


Mixer = SoftmaxAttention | LatentAttention | RecurrentMixer
FeedForward = DenseFeedForward | Experts | None


@dataclass(frozen=True, slots=True)
class LayerKind:
    """`count` identical layers. The order of kinds carries no meaning."""

    count: int
    mixer: Mixer | None
    feed_forward: FeedForward


@dataclass(frozen=True, slots=True)
class ModelShape:
    """What a model is: a list of layer kinds between an embedding and a head."""

    id: str
    architecture: str
    hidden: int
    vocabulary: int
    layers: tuple[LayerKind, ...]
    tied_embeddings: bool
    max_context_tokens: int
    checkpoint_format: str  # bf16 | fp8 | fp8_block | nvfp4 | mxfp4 | int8 | int4: as stored
    draft_layers: int = 0  # multi-token-prediction layers in the checkpoint, not served unless asked
    notes: tuple[str, ...] = ()
    source: str = ""
    sha256: str = ""
    declared_layers: int = 0  # layers by the model's own count where its blocks are listed apart; 0: sum of `layers`
    borrowed_kv: tuple[bool, ...] = ()  # per kind: attends to the keys and values of earlier layers, has none itself
    side_parameters: int = 0  # per-layer embedding tables and the like, outside the layers; looked up, not multiplied
    reused_parameters: int = 0  # of weights that several layers share: what the layers count more than once
    encoder_parameters: int = 0  # of image and sound encoders, in bf16; counted apart
    checkpoint_other_format: str = ""  # of what is no routed expert, where the checkpoint says so
