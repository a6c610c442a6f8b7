"""Catalog entries as plain values: one accelerator with every source, one model with what it costs to hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from planner.errors import FieldError
from planner.records import (
    Accelerator,
    DenseFeedForward,
    Experts,
    FeedForward,
    LatentAttention,
    LayerKind,
    Mixer,
    ModelShape,
    Provenance,
    RecurrentMixer,
    SoftmaxAttention,
)
from planner.shapes.counts import (
    borrowing,
    kv_bytes_per_token,
    parameters,
    state_bytes_per_sequence,
    tokens_for_bytes,
)
from planner.shapes.formats import BYTES_PER_WEIGHT, has_experts
from planner.shapes.ranks import layer_count, tp_choices, weight_bytes_per_rank, why_not

SCHEMA_VERSION = 1

Document = dict[str, Any]

DEGREES = (1, 2, 4, 8, 16, 32, 64)  # of parallelism, that are tried and explained

# Fields of an accelerator that are no values with a source of their own.
NOT_VALUES = {
    "id", "vendor", "status", "scaleup_name", "fits", "efficiency_like", "provenance", "notes", "sha256",
    "fabric_usd_per_hour",
    "usd_per_hour",
}  # fmt: skip


def hardware_document(accelerator: Accelerator) -> Document:
    """Every value of an accelerator with its source, date and kind, and its operator fits in short."""
    names = [field.name for field in fields(accelerator) if field.name not in NOT_VALUES]
    values = {name: getattr(accelerator, name) for name in names}
    values |= {f"usd_per_hour.{basis}": price for basis, price in accelerator.usd_per_hour.items()}
    return {
        "schema_version": SCHEMA_VERSION,
        "id": accelerator.id,
        "vendor": accelerator.vendor,
        "status": accelerator.status,
        "scaleup_name": accelerator.scaleup_name or None,
        "values": {
            name: sourced_value(accelerator, name, value) for name, value in values.items() if value is not None
        },
        "efficiency_like": accelerator.efficiency_like or None,
        "fits": _fits(accelerator),
        "notes": accelerator.notes or None,
        "sha256": accelerator.sha256,
    }


SYSTEM_SIZES = (
    "accelerators", "hosts", "nics", "nic_bytes_per_s", "host_memory_bytes", "ssd_bytes", "power_watts"
)  # fmt: skip
SYSTEM_PARTS = ("accelerator", "scaleup", "nic", "host_memory", "ssd")


def system_document(system: Any) -> Document:
    """A node, rack or slice: its parts by id, its sizes with their sources.

    Parameters
    ----------
    system
        A `planner.files.systems.System`, or whatever has its fields: this room knows no file.
    """
    sizes = {name: getattr(system, name) for name in SYSTEM_SIZES}
    return {
        "schema_version": SCHEMA_VERSION,
        "id": system.id,
        "level": system.level,
        "status": system.status,
        "scaleup_domain": system.scaleup_domain,
        "node_accelerators": system.node_accelerators,
        "parts": {name: getattr(system, name) for name in SYSTEM_PARTS if getattr(system, name)},
        "values": {name: _sourced(system.provenance, name, value) for name, value in sizes.items() if value},
        "notes": system.notes or None,
        "sha256": system.sha256,
    }


def sourced_value(accelerator: Accelerator, name: str, value: float) -> Document:
    """A value of an accelerator with its source, the date it was read, and how it is known."""
    return _sourced(accelerator.provenance, name, value)


def _sourced(provenance: Mapping[str, Provenance], name: str, value: float) -> Document:
    origin = provenance.get(name)
    return {"value": value, **(asdict(origin) if origin else {"source": None, "retrieved": None, "kind": None})}


def _fits(accelerator: Accelerator) -> list[Document]:
    by_operator: dict[str, list[Any]] = {}
    for fit in accelerator.fits:
        by_operator.setdefault(fit.operator, []).append(fit)
    return [
        {
            "operator": operator,
            "dtypes": sorted({fit.dtype for fit in fits}),
            "engines": sorted({fit.engine for fit in fits}),
            "trust": dict(sorted(Counter(fit.trust for fit in fits).items())),
        }
        for operator, fits in sorted(by_operator.items())
    ]


def model_document(shape: ModelShape, kv_dtype: str, budget_bytes: float | None = None) -> Document:
    """What a model is and what it takes: parameters, layers, KV and state per sequence, weights per format and rank.

    With `budget_bytes`, `tokens_for` is the longest sequence whose cache they hold; None when every length fits.

    Raises FieldError: ``kv_cache`` for a KV format that no cache has.
    """
    counted = parameters(shape)
    windows = {_window(kind.mixer) for kind in shape.layers} - {0}
    return {
        "schema_version": SCHEMA_VERSION,
        "id": shape.id,
        "architecture": shape.architecture,
        "attention": attention_kind(shape),
        "layers": layer_count(shape),
        "layer_map": layer_map(shape),
        "layer_kinds": [_layer_kind(kind, borrows) for kind, borrows in borrowing(shape)],
        "hidden": shape.hidden,
        "vocabulary": shape.vocabulary,
        "parameters": counted.total,
        "active_parameters": counted.active,
        "kv_dtype": kv_dtype,
        "kv_bytes_per_token": kv_bytes_per_token(shape, kv_dtype),
        "kv_bytes_per_token_beyond_window": kv_bytes_per_token(shape, kv_dtype, beyond_window=True),
        "window_tokens": max(windows) if windows else None,
        "state_bytes_per_sequence": state_bytes_per_sequence(shape, kv_dtype),
        "tokens_for": None if budget_bytes is None else _tokens_for(shape, kv_dtype, budget_bytes),
        "checkpoint_format": shape.checkpoint_format,
        "checkpoint_other_format": shape.checkpoint_other_format or None,
        "weight_bytes": _weight_bytes(shape),
        "weight_bytes_per_rank": _weight_bytes_per_rank(shape),
        "tp_choices": list(tp_choices(shape)),
        "parallelism": _parallelism(shape),
        "encoder_parameters": shape.encoder_parameters or None,
        "max_context_tokens": shape.max_context_tokens,
        "draft_layers": shape.draft_layers,
        "notes": list(shape.notes),
        "source": shape.source or None,
        "sha256": shape.sha256 or None,
    }


def _window(mixer: Mixer | None) -> int:
    return mixer.window_tokens if isinstance(mixer, SoftmaxAttention | LatentAttention) else 0


def _tokens_for(shape: ModelShape, kv_dtype: str, budget_bytes: float) -> Document:
    tokens = float(tokens_for_bytes(shape, kv_dtype, budget_bytes))
    return {"bytes": budget_bytes, "tokens": None if tokens == float("inf") else int(tokens)}


def attention_kind(shape: ModelShape) -> str:
    """The usual word for how a model attends.

    mha, gqa, mqa, sliding, sparse (blocks chosen by an indexer), mla, compressed, hybrid, hybrid-mla or none.
    """
    mixers = [kind.mixer for kind in shape.layers]
    latents = [mixer for mixer in mixers if isinstance(mixer, LatentAttention)]
    softmax = [mixer for mixer in mixers if isinstance(mixer, SoftmaxAttention)]
    if any(isinstance(mixer, RecurrentMixer) for mixer in mixers):
        return "hybrid-mla" if latents else "hybrid"
    if any(mixer.compression_tokens for mixer in latents):
        return "compressed"
    if latents and all(mixer.kv_heads > 1 for mixer in latents):
        return "sparse"
    if latents:
        return "mqa" if all(mixer.direct for mixer in latents) else "mla"
    if any(mixer.window_tokens for mixer in softmax):
        return "sliding"
    heads = {(mixer.query_heads, mixer.kv_heads) for mixer in softmax}
    if not heads or all(query == kv for query, kv in heads):
        return "mha" if heads else "none"
    return "mqa" if all(kv == 1 for _, kv in heads) else "gqa"


def layer_map(shape: ModelShape) -> str:
    """How many layers mix tokens in which way: "48 linear-attention + 12 full"."""
    counted: Counter[str] = Counter()
    for kind in shape.layers:
        if kind.mixer is not None:
            counted[_mixer_word(kind.mixer)] += kind.count
        else:
            counted["feed-forward only"] += kind.count
    return " + ".join(f"{count} {word}" for word, count in counted.items())


def _mixer_word(mixer: Mixer) -> str:
    if isinstance(mixer, RecurrentMixer):
        words = {"mamba1": "Mamba-1", "mamba2": "Mamba-2", "short-conv": "short-convolution"}
        return words.get(mixer.kind, "linear-attention")
    if isinstance(mixer, SoftmaxAttention):
        return f"window of {mixer.window_tokens}" if mixer.window_tokens else "full"
    if mixer.compression_tokens:
        return f"compressed {mixer.compression_tokens}:1"
    if mixer.window_tokens:
        return f"window of {mixer.window_tokens}"
    if mixer.kv_heads > 1:
        return "sparse"
    return "shared-key" if mixer.direct else "latent"


def _parallelism(shape: ModelShape) -> Document:
    """Degrees that the model can be split by, each way alone, and why it cannot by the others."""
    ways: dict[str, dict[int, str]] = {
        "tp": {degree: why_not(shape, degree) for degree in DEGREES},
        "ep": {degree: _why_not_ep(shape, degree) for degree in DEGREES},
        "dp": {degree: why_not(shape, 1, ep=degree if has_experts(shape) else 1, dp=degree) for degree in DEGREES},
        "pp": {degree: why_not(shape, 1, degree) for degree in DEGREES},
    }
    return {
        way: {
            "allowed": [degree for degree, reason in reasons.items() if not reason],
            "refused": [{"degree": degree, "reason": reason} for degree, reason in reasons.items() if reason],
        }
        for way, reasons in ways.items()
    }


def _why_not_ep(shape: ModelShape, degree: int) -> str:
    """Experts over as many ranks, whether attention is split over them or copied."""
    return why_not(shape, degree, ep=degree) and why_not(shape, 1, ep=degree, dp=degree)


def _weight_bytes_per_rank(shape: ModelShape) -> list[Document]:
    """Bytes on one of tp ranks, by format as served."""
    return [
        {
            "tp": degree,
            **{weights: float(weight_bytes_per_rank(shape, weights, degree)) for weights in _weight_bytes(shape)},
        }
        for degree in DEGREES
        if not why_not(shape, degree)
    ]


def _layer_kind(kind: LayerKind, borrowed_kv: bool) -> Document:
    return {
        "count": kind.count,
        "mixer": _mixer(kind.mixer),
        "borrowed_kv": borrowed_kv,
        "feed_forward": _feed_forward(kind.feed_forward),
    }


def _mixer(mixer: Mixer | None) -> Document | None:
    names = {SoftmaxAttention: "softmax", LatentAttention: "latent", RecurrentMixer: "recurrent"}
    return {"type": names[type(mixer)], **asdict(mixer)} if mixer else None


def _feed_forward(block: FeedForward) -> Document | None:
    names = {DenseFeedForward: "dense", Experts: "experts"}
    return {"type": names[type(block)], **asdict(block)} if block else None


def _weight_bytes(shape: ModelShape) -> dict[str, float]:
    """Bytes of all weights on one rank by format; formats that the model cannot be stored in are left out."""
    sizes = {}
    for weights in BYTES_PER_WEIGHT:
        try:
            sizes[weights] = float(weight_bytes_per_rank(shape, weights))
        except FieldError:
            continue
    return sizes
