"""What one accelerator of a worker holds under tensor, pipeline, expert and attention-data parallelism.

A worker has tp x pp x dp accelerators; ep divides tp x dp, and each expert is cut into tp x dp / ep slices
(HOUSE §7 "Counting"). With pp > 1 the fullest stage is meant.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

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
from planner.shapes.counts import borrowing, heads_per_rank, kv_bytes, sequence_bytes
from planner.shapes.formats import (
    BYTES_PER_WEIGHT,
    ComponentDtypes,
    component_dtypes,
    has_experts,
    has_latent_attention,
)
from planner.shapes.weights import feed_forward_parameters, mixer_parameters

VOCABULARY_PADDING = 64  # engines round the vocabulary up to a multiple of this before splitting it
BLOCK = 128  # rows and columns that share one scale in fp8_block
LARGEST_TP = 64

# ----------------------------------------------------------------------------------------------------------- weights


def weight_bytes_per_rank(
    shape: ModelShape, weights: str, tp: ArrayLike = 1, pp: ArrayLike = 1, ep: ArrayLike = 1, dp: ArrayLike = 1
) -> Floats:
    """Bytes of weights on one rank; the degrees broadcast.

    Attention is split over tp and copied over dp; key-value heads are copied once tp exceeds them; latent
    down-projections, indexers and routers are whole on every rank. Routed experts are split over all tp x dp ranks
    whatever `ep` is. Dense feed-forward, shared experts, embedding and head are split over tp, so under dp they are
    copied (engines that also split dense layers over dp hold a little less).
    """
    tp, pp, dp = (np.asarray(degree, dtype=float) for degree in (tp, pp, dp))
    ranks = np.broadcast_arrays(tp, dp, np.asarray(ep, dtype=float))[0] * dp
    dtypes = component_dtypes(shape, weights)
    layers = np.zeros(ranks.shape)
    for kind, borrows in borrowing(shape):
        layers = layers + kind.count * _layer_bytes(kind, borrows, shape.hidden, dtypes, tp, ranks)
    layers = layers - shape.reused_parameters / tp * BYTES_PER_WEIGHT[dtypes.attention]
    layers = layers + shape.side_parameters / tp * BYTES_PER_WEIGHT["bf16"]
    table = padded_vocabulary(shape) / tp * shape.hidden
    embedding = table * BYTES_PER_WEIGHT["bf16"]
    head = 0.0 * table if shape.tied_embeddings else table * BYTES_PER_WEIGHT[dtypes.head]
    ends = np.where(pp > 1, np.maximum(embedding, head), embedding + head)
    return layers * fullest_stage_fraction(shape, pp) + ends


def _layer_bytes(
    kind: LayerKind, borrows: bool, hidden: int, dtypes: ComponentDtypes, tp: Floats, ranks: Floats
) -> Floats:
    feed_forward = feed_forward_parameters(kind.feed_forward, hidden)
    return (
        _mixer_bytes(kind, borrows, hidden, dtypes.attention, tp)
        + feed_forward.dense / tp * BYTES_PER_WEIGHT[dtypes.dense_feed_forward]
        + feed_forward.shared_expert / tp * BYTES_PER_WEIGHT[dtypes.shared_expert]
        + feed_forward.router * BYTES_PER_WEIGHT["bf16"]
        + feed_forward.experts * feed_forward.expert / ranks * BYTES_PER_WEIGHT[dtypes.experts]
    )


def _mixer_bytes(kind: LayerKind, borrows: bool, hidden: int, dtype: str, tp: Floats) -> Floats:
    parts = mixer_parameters(kind.mixer, hidden, borrows)
    kv_heads = _kv_heads(kind) or 1
    by_kv_head = parts.by_kv_head * heads_per_rank(kv_heads, tp) / kv_heads
    stored = parts.by_query_head / tp + by_kv_head + parts.replicated
    return stored * BYTES_PER_WEIGHT[dtype] + parts.latent_up / tp * BYTES_PER_WEIGHT["bf16"]


def _kv_heads(kind: LayerKind) -> int:
    if isinstance(kind.mixer, SoftmaxAttention | LatentAttention):
        return kind.mixer.kv_heads
    if isinstance(kind.mixer, RecurrentMixer):
        return kind.mixer.key_heads
    return 0


def padded_vocabulary(shape: ModelShape) -> int:
    """Rows of the embedding as engines allocate them."""
    return -(-shape.vocabulary // VOCABULARY_PADDING) * VOCABULARY_PADDING


def layer_count(shape: ModelShape) -> int:
    """Layers of the model, all kinds together, as its makers count them."""
    return shape.declared_layers or sum(kind.count for kind in shape.layers)


def fullest_stage_fraction(shape: ModelShape, pp: ArrayLike) -> Floats:
    """Share of the layers that the fullest of `pp` pipeline stages holds."""
    layers = layer_count(shape)
    return np.ceil(layers / np.asarray(pp, dtype=float)) / layers


# ---------------------------------------------------------------------------------------------------------------- KV


def kv_bytes_per_rank(shape: ModelShape, kv_dtype: str, tp: ArrayLike, pp: ArrayLike, tokens: ArrayLike) -> Floats:
    """Bytes of one sequence of `tokens` tokens on each rank that holds it, windows and fixed state included."""
    return sequence_bytes(shape, kv_dtype, tokens, tp) * fullest_stage_fraction(shape, pp)


def sequence_kv_bytes(shape: ModelShape, kv_dtype: str, tokens: ArrayLike) -> Floats:
    """Bytes that move when a sequence of `tokens` tokens changes pools: every head once, no copies."""
    return kv_bytes(shape, kv_dtype, tokens)


# --------------------------------------------------------------------------------------------------- what can be run


def why_not(shape: ModelShape, tp: int, pp: int = 1, ep: int = 1, dp: int = 1, weights: str = "") -> str:
    """Why the model cannot be split so; empty when it can. With `weights`, 128-wide scale blocks are respected too."""
    return next((reason for _, reason in obstacles(shape, tp, pp, ep, dp, weights)), "")


def obstacles(
    shape: ModelShape, tp: int, pp: int = 1, ep: int = 1, dp: int = 1, weights: str = ""
) -> Iterator[tuple[str, str]]:
    """Every degree that the model cannot be split by, and why. Experts are judged once tp and dp are sound."""
    degrees = {"tp": tp, "pp": pp, "ep": ep, "dp": dp}
    low = [
        (name, f"{name} {degree} is not a positive number of ranks") for name, degree in degrees.items() if degree < 1
    ]
    yield from low
    if low:
        return
    if pp > layer_count(shape):
        yield "pp", f"pp {pp}: {shape.id} has {layer_count(shape)} layers, and a stage needs one; use a smaller pp"
    elif pp > 1 and dp > 1:
        yield "pp", f"pp {pp} with dp {dp}: stages of ranks that wait for each other are not priced; use pp 1 or dp 1"
    split, copied = _why_not_tp(shape, tp), _why_not_dp(shape, dp)
    if split:
        yield "tp", split
    if copied:
        yield "dp", copied
    spread = "" if split or copied else _why_not_experts(shape, tp, ep, dp, weights)
    if spread:
        yield "ep", spread


def tp_choices(shape: ModelShape) -> tuple[int, ...]:
    """Tensor-parallel degrees the model can be split by, up to 64."""
    return tuple(tp for tp in range(1, LARGEST_TP + 1) if not _tp_obstacle(shape, tp))


def _why_not_tp(shape: ModelShape, tp: int) -> str:
    obstacle = _tp_obstacle(shape, tp)
    return f"tp {tp} does not divide {obstacle}; use {_or(tp_choices(shape))}" if obstacle else ""


def _tp_obstacle(shape: ModelShape, tp: int) -> str:
    for kind in shape.layers:
        obstacle = _mixer_obstacle(kind, tp) or _feed_forward_obstacle(kind, tp)
        if obstacle:
            return obstacle
    if padded_vocabulary(shape) % tp:
        return f"the padded vocabulary of {padded_vocabulary(shape)}"
    return ""


def _mixer_obstacle(kind: LayerKind, tp: int) -> str:
    mixer = kind.mixer
    if isinstance(mixer, SoftmaxAttention | LatentAttention) and mixer.query_heads % tp:
        return f"{mixer.query_heads} query heads"
    if isinstance(mixer, SoftmaxAttention | LatentAttention) and mixer.kv_heads % tp and tp % mixer.kv_heads:
        return f"{mixer.kv_heads} key-value heads, nor they it"
    if isinstance(mixer, LatentAttention) and mixer.output_groups % tp:
        return f"{mixer.output_groups} groups of the output projection"
    if isinstance(mixer, RecurrentMixer):
        if mixer.value_heads % tp:
            return f"{mixer.value_heads} recurrent value heads"
        cut = mixer.key_heads % tp and mixer.kind not in ("mamba1", "short-conv")
        if cut and (mixer.kind in ("gated-delta", "kda", "lightning") or tp % mixer.key_heads):
            return f"{mixer.key_heads} recurrent key heads"
    return ""


def _feed_forward_obstacle(kind: LayerKind, tp: int) -> str:
    block = kind.feed_forward
    if isinstance(block, DenseFeedForward) and block.intermediate % tp:
        return f"the feed-forward width {block.intermediate}"
    if isinstance(block, Experts) and block.shared_intermediate % tp:
        return f"the shared expert's width {block.shared_intermediate}"
    return ""


def _why_not_dp(shape: ModelShape, dp: int) -> str:
    if dp > 1 and not has_experts(shape) and not has_latent_attention(shape):
        return (
            f"dp {dp}: attention data parallelism needs experts or latent attention, "
            f"and {shape.id} has neither; add replicas instead"
        )
    return ""


def _why_not_experts(shape: ModelShape, tp: int, ep: int, dp: int, weights: str) -> str:
    blocks = [kind.feed_forward for kind in shape.layers if isinstance(kind.feed_forward, Experts)]
    if ep > 1 and not blocks:
        return f"ep {ep}: {shape.id} has no experts; use ep 1"
    ranks = tp * dp
    if ranks % ep:
        return f"ep {ep} does not divide tp x dp = {ranks}"
    slices = ranks // ep
    for block in blocks:
        if block.experts % ep:
            return f"ep {ep} does not divide {block.experts} experts"
        if block.intermediate % slices:
            return f"{slices} slices per expert (tp x dp / ep) do not divide the expert width {block.intermediate}"
        in_blocks = weights in ("fp8", "fp8_block") and component_dtypes(shape, weights).experts == "fp8_block"
        if in_blocks and slices > 1 and block.intermediate // slices % BLOCK:
            return (
                f"{slices} slices per expert (tp x dp / ep) cut the width {block.intermediate} inside a "
                f"{BLOCK}-wide fp8 scale block; raise ep"
            )
    return ""


def _or(numbers: Iterable[int]) -> str:
    words = [str(number) for number in numbers]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"
