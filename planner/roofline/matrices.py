"""The weight matrices of one rank, as the GEMMs of a step see them (FIDELITY §2, "GEMM list")."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from planner.records import (
    DenseFeedForward,
    Experts,
    FeedForward,
    LatentAttention,
    Mixer,
    ModelShape,
    RecurrentMixer,
    SoftmaxAttention,
)
from planner.shapes.counts import borrowing, latent_elements
from planner.shapes.formats import ComponentDtypes
from planner.shapes.weights import compressor_columns


@dataclass(frozen=True, slots=True)
class Matrix:
    """`count` matrices of `columns` outputs and `depth` inputs, in the weight format `dtype`."""

    columns: float
    depth: float
    count: int
    dtype: str


def rank_matrices(shape: ModelShape, dtypes: ComponentDtypes, tp: int) -> list[Matrix]:
    """Every matrix one of `tp` ranks multiplies all its tokens with; neither the head nor routed experts."""
    matrices: list[Matrix] = []
    for kind, borrows in borrowing(shape):
        matrices += _mixer(kind.mixer, borrows, kind.count, shape.hidden, dtypes.attention, tp)
        matrices += _feed_forward(kind.feed_forward, kind.count, shape.hidden, dtypes, tp)
    return matrices


def merged(matrices: list[Matrix]) -> list[Matrix]:
    """Equal matrices of different layers counted together."""
    counts: dict[tuple[float, float, str], int] = {}
    for matrix in matrices:
        key = (matrix.columns, matrix.depth, matrix.dtype)
        counts[key] = counts.get(key, 0) + matrix.count
    return [Matrix(columns, depth, count, dtype) for (columns, depth, dtype), count in counts.items()]


def rank_heads(heads: int, tp: int) -> int:
    """Heads of one rank: a head is copied, never cut."""
    return -(-heads // tp)


def _mixer(mixer: Mixer | None, borrows: bool, count: int, hidden: int, dtype: str, tp: int) -> Iterator[Matrix]:
    if isinstance(mixer, SoftmaxAttention):
        heads, kv_heads = rank_heads(mixer.query_heads, tp), 0 if borrows else rank_heads(mixer.kv_heads, tp)
        gate = mixer.value_dim if mixer.output_gate else 0
        inputs = heads * (mixer.key_dim + gate) + kv_heads * (mixer.key_dim + mixer.value_dim)
        yield Matrix(inputs, hidden, count, dtype)
        yield Matrix(hidden, heads * mixer.value_dim, count, dtype)
    elif isinstance(mixer, LatentAttention):
        yield from _latent(mixer, count, hidden, dtype, tp)
    elif isinstance(mixer, RecurrentMixer):
        values = rank_heads(mixer.value_heads, tp) * mixer.value_dim
        keys = rank_heads(mixer.key_heads, tp) * mixer.key_dim
        inputs = 3 * values if mixer.kind == "short-conv" else 2 * keys + 2 * values
        yield Matrix(inputs, hidden, count, dtype)
        yield Matrix(hidden, values, count, dtype)


def _latent(mixer: LatentAttention, count: int, hidden: int, dtype: str, tp: int) -> Iterator[Matrix]:
    heads = rank_heads(mixer.query_heads, tp)
    query_input = mixer.query_rank or hidden
    yield Matrix(mixer.query_rank + float(latent_elements(mixer, tp)), hidden, count, dtype)
    yield Matrix(heads * (mixer.nope_dim + mixer.rope_dim), query_input, count, dtype)
    if not mixer.direct:
        yield Matrix(heads * (mixer.nope_dim + mixer.value_dim), mixer.kv_rank, count, "bf16")
    if mixer.output_gate:
        yield Matrix(heads * mixer.value_dim, hidden, count, dtype)
    if mixer.output_groups:
        groups = rank_heads(mixer.output_groups, tp)
        yield Matrix(mixer.output_rank, heads * mixer.value_dim, count, dtype)
        yield Matrix(hidden, groups * mixer.output_rank, count, dtype)
    else:
        yield Matrix(hidden, heads * mixer.value_dim, count, dtype)
    if mixer.compression_tokens:  # whole on every rank
        yield Matrix(compressor_columns(mixer), hidden, count, "bf16")
    if mixer.index_heads:
        yield Matrix(mixer.index_heads * mixer.index_dim, query_input, count, dtype)
        yield Matrix(mixer.index_dim + mixer.index_heads, hidden, count, dtype)


def _feed_forward(block: FeedForward, count: int, hidden: int, dtypes: ComponentDtypes, tp: int) -> Iterator[Matrix]:
    if isinstance(block, DenseFeedForward):
        width, dtype = block.intermediate / tp, dtypes.dense_feed_forward
    elif isinstance(block, Experts):
        if block.hidden:  # into the width of the experts and out again, whole on every rank
            yield Matrix(block.hidden, hidden, count, "bf16")
            yield Matrix(hidden, block.hidden, count, "bf16")
        width, dtype = block.shared_intermediate / tp, dtypes.shared_expert
    else:
        return
    if not width:
        return
    yield Matrix(width * (2 if block.gated else 1), hidden, count, dtype)
    yield Matrix(hidden, width, count, dtype)
