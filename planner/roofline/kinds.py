"""What one rank of a worker runs, layer kind by layer kind, with achieved rates in place of fitted fractions."""

from __future__ import annotations

from dataclasses import dataclass

from planner.records import Floats, LatentAttention


@dataclass(frozen=True, slots=True, eq=False)
class Gemms:
    """All GEMMs of one step as parallel arrays: `count` of `columns` x `depth` weights on one rank (G1)."""

    columns: Floats
    depth: Floats
    count: Floats
    weight_bytes: Floats
    activation_bytes: Floats
    flops_per_s: Floats
    bytes_per_s: Floats
    peak_flops_per_s: Floats
    exponent: Floats
    start_up_s: float


@dataclass(frozen=True, slots=True)
class SoftmaxKind:
    """Layers of softmax attention as one rank sees them."""

    count: int
    heads: int
    kv_heads: int
    head_dim: float
    window_tokens: int
    kv_bytes_per_token: float  # of one layer on this rank
    sequence_s: float
    decode_bytes_per_s: float
    decode_start_up_s: float
    prefill_flops_per_s: float
    softmax_tokens: float
    prefill_start_up_s: float


@dataclass(frozen=True, slots=True)
class LatentKind:
    """Layers of latent attention as one rank sees them; `top_k` > 0 with a sparse indexer of `index_dim`."""

    count: int
    heads: int
    expanded_width: int
    absorbed_width: int
    kv_bytes_per_token: float
    top_k: int
    index_dim: int
    sequence_s: float
    decode_flops_per_s: float
    decode_bytes_per_s: float
    decode_start_up_s: float
    prefill_flops_per_s: float
    softmax_tokens: float
    prefill_start_up_s: float
    mixer: LatentAttention


@dataclass(frozen=True, slots=True)
class RecurrentKind:
    """Layers with a recurrent state as one rank sees them."""

    count: int
    state_elements: float
    decode_bytes_per_s: float
    decode_start_up_s: float
    prefill_flops_per_s: float
    prefill_start_up_s: float


@dataclass(frozen=True, slots=True)
class ExpertsKind:
    """Mixture-of-experts layers as one rank sees them: `experts` / ep experts of `intermediate` = F / moe_tp."""

    count: int
    experts: int
    top_k: int
    intermediate: float
    matrices: int
    weight_bytes: float
    flops_per_s: float
    bytes_per_s: float
    peak_flops_per_s: float
    exponent: float
    gather_factor: float
    start_up_s: float
    hidden: int  # width that the routed experts work in


@dataclass(frozen=True, slots=True)
class Link:
    """One kind of collective on this worker (C3)."""

    latency_s: float
    bytes_per_s: float
    exponent: float
