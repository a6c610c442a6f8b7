"""Catalog entries as plain values: one accelerator with every source, one model with what it costs to hold."""

from __future__ import annotations

from collections import Counter
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
    RecurrentMixer,
    SoftmaxAttention,
)
from planner.shapes.counts import kv_bytes_per_token, parameters, state_bytes_per_sequence
from planner.shapes.formats import BYTES_PER_WEIGHT
from planner.shapes.ranks import layer_count, tp_choices, weight_bytes_per_rank

SCHEMA_VERSION = 1

Document = dict[str, Any]

# Fields of an accelerator that are no values with a source of their own.
NOT_VALUES = {
    "id", "vendor", "status", "scaleup_name", "fits", "efficiency_like", "provenance", "notes", "sha256",
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


def sourced_value(accelerator: Accelerator, name: str, value: float) -> Document:
    """A value of an accelerator with its source, the date it was read, and how it is known."""
    origin = accelerator.provenance.get(name)
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


def model_document(shape: ModelShape, kv_dtype: str) -> Document:
    """What a model is and what it takes: parameters, layers, KV and state per sequence, weights per format.

    Raises
    ------
    FieldError
        ``kv_cache`` for a KV format that no cache has.
    """
    counted = parameters(shape)
    windows = {kind.mixer.window_tokens for kind in shape.layers if isinstance(kind.mixer, SoftmaxAttention)} - {0}
    return {
        "schema_version": SCHEMA_VERSION,
        "id": shape.id,
        "architecture": shape.architecture,
        "attention": attention_kind(shape),
        "layers": layer_count(shape),
        "layer_kinds": [_layer_kind(kind) for kind in shape.layers],
        "hidden": shape.hidden,
        "vocabulary": shape.vocabulary,
        "parameters": counted.total,
        "active_parameters": counted.active,
        "kv_dtype": kv_dtype,
        "kv_bytes_per_token": kv_bytes_per_token(shape, kv_dtype),
        "kv_bytes_per_token_beyond_window": kv_bytes_per_token(shape, kv_dtype, beyond_window=True),
        "window_tokens": max(windows) if windows else None,
        "state_bytes_per_sequence": state_bytes_per_sequence(shape),
        "checkpoint_format": shape.checkpoint_format,
        "weight_bytes": _weight_bytes(shape),
        "tp_choices": list(tp_choices(shape)),
        "max_context_tokens": shape.max_context_tokens,
        "draft_layers": shape.draft_layers,
        "notes": list(shape.notes),
        "source": shape.source or None,
        "sha256": shape.sha256 or None,
    }


def attention_kind(shape: ModelShape) -> str:
    """The usual word for how a model attends: mha, gqa, mqa, mla, sliding, hybrid, hybrid-mla, none."""
    mixers = [kind.mixer for kind in shape.layers]
    latent = any(isinstance(mixer, LatentAttention) for mixer in mixers)
    if any(isinstance(mixer, RecurrentMixer) for mixer in mixers):
        return "hybrid-mla" if latent else "hybrid"
    if latent:
        return "mla"
    softmax = [mixer for mixer in mixers if isinstance(mixer, SoftmaxAttention)]
    if any(mixer.window_tokens for mixer in softmax):
        return "sliding"
    if not softmax:
        return "none"
    heads = {(mixer.query_heads, mixer.kv_heads) for mixer in softmax}
    if all(query == kv for query, kv in heads):
        return "mha"
    return "mqa" if all(kv == 1 for _, kv in heads) else "gqa"


def _layer_kind(kind: LayerKind) -> Document:
    return {"count": kind.count, "mixer": _mixer(kind.mixer), "feed_forward": _feed_forward(kind.feed_forward)}


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
