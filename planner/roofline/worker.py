"""A worker: one model on tp x pp x dp accelerators, with every constant a step needs looked up once."""

from __future__ import annotations

from dataclasses import dataclass

from planner.errors import FieldError
from planner.records import (
    Accelerator,
    DenseFeedForward,
    EngineConstants,
    Experts,
    LatentAttention,
    LayerKind,
    ModelShape,
    RecurrentMixer,
    SoftmaxAttention,
    Speculation,
)
from planner.roofline.collectives import all_to_all_bytes_per_s, hop_bytes_per_s
from planner.roofline.efficiency import compute_dtype, quantizes_activations
from planner.roofline.kinds import ExpertsKind, Gemms, LatentKind, Link, RecurrentKind, SoftmaxKind
from planner.roofline.lookup import Lookup
from planner.roofline.matrices import Matrix, rank_matrices
from planner.shapes import ranks
from planner.shapes.formats import ComponentDtypes, component_dtypes


@dataclass(frozen=True, slots=True, eq=False)
class Worker:
    """One worker and everything its steps are computed from. Per rank unless said; build with `build_worker`."""

    shape: ModelShape
    weights: str
    kv_dtype: str
    accelerator: Accelerator
    engine_id: str
    constants: EngineConstants
    tp: int
    pp: int
    ep: int
    dp: int
    layers: int
    gemms: Gemms
    head: Gemms  # sees only tokens that are sampled
    softmax: tuple[SoftmaxKind, ...]
    latent: tuple[LatentKind, ...]
    recurrent: tuple[RecurrentKind, ...]
    experts: tuple[ExpertsKind, ...]
    elements_per_token: float  # element-wise work
    kernels: float  # small kernels of a step without an operator of their own
    all_reduces: int  # per step
    all_reduce: Link | None  # None: one rank
    all_gather: Link | None  # None: attention is not spread, or the ranks share no scale-up fabric
    reduce_scatter: Link | None
    all_to_all_bytes_per_s: float
    hop_bytes_per_s: float  # from one pipeline stage to the next; 0: one stage
    trust: str  # of the least trusted constants: high | medium | low
    speculation: Speculation | None = None
    expert_imbalance_factor: float = 1.0  # tokens of the fullest expert rank over the mean

    @property
    def accelerators(self) -> int:
        return self.tp * self.pp * self.dp

    @property
    def stage_factor(self) -> float:
        """How much longer `pp` stages take when all wait for the fullest one: 1 where layers divide evenly."""
        return self.pp * float(ranks.fullest_stage_fraction(self.shape, self.pp))

    @property
    def verified_tokens(self) -> int:
        """Tokens of one sequence in a decode step: the next one, and those drafted."""
        return 1 + self.speculation.draft_tokens if self.speculation else 1


def build_worker(
    shape: ModelShape,
    weights: str,
    kv_dtype: str,
    accelerator: Accelerator,
    engine_id: str,
    constants: EngineConstants,
    tp: int = 1,
    pp: int = 1,
    ep: int = 1,
    dp: int = 1,
    speculation: Speculation | None = None,
    expert_imbalance_factor: float = 1.0,
) -> Worker:
    """Look up every constant of one worker (FIDELITY §2).

    Raises
    ------
    FieldError
        The parallelism does not divide the model or leaves the scale-up domain, nothing connects the ranks, or an
        operator has no constants on this accelerator.
    """
    _refuse(shape, accelerator, tp, pp, ep, dp)
    lookup = Lookup(accelerator, engine_id, constants, kv_dtype)
    dtypes = component_dtypes(shape, weights)
    moe_tp = tp * dp / ep
    mixers = [(kind.count, kind.mixer) for kind in shape.layers]
    blocks = [(kind.count, kind.feed_forward) for kind in shape.layers]
    experts = tuple(
        lookup.experts(n, block, dtypes.experts, moe_tp, shape.hidden)
        for n, block in blocks
        if isinstance(block, Experts)
    )
    spread = dp > 1 and bool(experts)
    gathers = spread and tp * dp <= accelerator.scaleup_domain
    return Worker(
        shape=shape,
        weights=weights,
        kv_dtype=kv_dtype,
        accelerator=accelerator,
        engine_id=engine_id,
        constants=constants,
        tp=tp,
        pp=pp,
        ep=ep,
        dp=dp,
        layers=ranks.layer_count(shape),
        gemms=lookup.gemms(rank_matrices(shape, dtypes, tp)),
        head=lookup.gemms([Matrix(shape.vocabulary / tp, shape.hidden, 1, dtypes.head)]),
        softmax=tuple(lookup.softmax(n, mixer, tp) for n, mixer in mixers if isinstance(mixer, SoftmaxAttention)),
        latent=tuple(lookup.latent(n, mixer, tp) for n, mixer in mixers if isinstance(mixer, LatentAttention)),
        recurrent=tuple(lookup.recurrent(n, mixer, tp) for n, mixer in mixers if isinstance(mixer, RecurrentMixer)),
        experts=experts,
        elements_per_token=sum(kind.count * _elements(kind, shape.hidden, tp) for kind in shape.layers),
        kernels=15.0 + sum(kind.count * _kernels(kind, dtypes, accelerator) for kind in shape.layers),
        all_reduces=sum(n * (part is not None) for n, part in (*mixers, *blocks)),
        all_reduce=lookup.link("all_reduce", tp) if tp > 1 else None,
        all_gather=lookup.link("all_gather", tp * dp) if gathers else None,
        reduce_scatter=lookup.link("reduce_scatter", tp * dp) if gathers else None,
        all_to_all_bytes_per_s=_all_to_all(accelerator, tp * dp) if spread else 0.0,
        hop_bytes_per_s=_hop(accelerator, tp, pp) if pp > 1 else 0.0,
        trust=lookup.trust,
        speculation=speculation,
        expert_imbalance_factor=expert_imbalance_factor,
    )


def _refuse(shape: ModelShape, accelerator: Accelerator, tp: int, pp: int, ep: int, dp: int) -> None:
    for degree, reason in ranks.obstacles(shape, tp, pp, ep, dp):
        raise FieldError(degree, reason)
    outside = outside_domain(accelerator, tp)
    if outside:
        raise FieldError("tp", outside)


def outside_domain(accelerator: Accelerator, tp: int) -> str:
    """Why one layer cannot be split over `tp` of these accelerators; empty when they share a fast fabric."""
    domain = max(accelerator.scaleup_domain, accelerator.node_accelerators)
    return f"tp {tp} leaves the scale-up domain: {accelerator.id} connects {domain} accelerators" if tp > domain else ""


def _all_to_all(accelerator: Accelerator, count: int) -> float:
    rate = all_to_all_bytes_per_s(
        count, accelerator.scaleup_bytes_per_s, accelerator.scaleup_domain, accelerator.nic_bytes_per_s
    )
    if rate <= 0:
        raise FieldError("dp", f"{accelerator.id} has no network for {count} of them")
    return rate


def _hop(accelerator: Accelerator, tp: int, pp: int) -> float:
    rate = hop_bytes_per_s(
        tp, pp, accelerator.scaleup_bytes_per_s, accelerator.scaleup_domain, accelerator.nic_bytes_per_s
    )
    if rate <= 0:
        raise FieldError("pp", f"{accelerator.id} has no network between pipeline stages")
    return rate


def _elements(kind: LayerKind, hidden: int, tp: int) -> float:
    """Element-wise work of one token in one layer (FIDELITY §2, `lin`)."""
    block = kind.feed_forward
    width = block.intermediate if isinstance(block, DenseFeedForward) else 0
    if isinstance(block, Experts):
        width = block.shared_intermediate
    return 10.0 * hidden + 3.0 * width / tp


# Small kernels of one layer (FIDELITY §2, nk): norms, rotary, cache write, quantize, router, permute. Counted on
# unseen models: recurrent mixers also convolve, gate and normalize twice, sparse indexers also rotate, quantize, score
# and select, and engines fuse routing and quantization into 4-bit expert kernels.
_MIXER_KERNELS = 9.0
_LATENT_KERNELS = 13.0
_RECURRENT_KERNELS = 22.0
_INDEXER_KERNELS = 22.0
_EXPERT_KERNELS = 7.0
_FUSED_LAYER_KERNELS = 10.0  # whole layer of softmax attention and MXFP4 experts


def _kernels(kind: LayerKind, dtypes: ComponentDtypes, accelerator: Accelerator) -> float:
    """Small kernels of one layer."""
    routed = isinstance(kind.feed_forward, Experts)
    if routed and dtypes.experts == "mxfp4" and isinstance(kind.mixer, SoftmaxAttention):
        return _FUSED_LAYER_KERNELS
    count = _MIXER_KERNELS
    if isinstance(kind.mixer, LatentAttention):
        count = _LATENT_KERNELS + (_INDEXER_KERNELS if kind.mixer.index_heads else 0.0)
    elif isinstance(kind.mixer, RecurrentMixer):
        count = _RECURRENT_KERNELS
    if kind.mixer is None or kind.feed_forward is None:  # half a layer
        count /= 2.0
    formats = [dtypes.attention]
    if routed:
        count += _EXPERT_KERNELS
        formats.append(dtypes.experts)
    quantizes = any(quantizes_activations(compute_dtype(accelerator, dtype)) for dtype in formats)
    return count + 2.0 * quantizes
