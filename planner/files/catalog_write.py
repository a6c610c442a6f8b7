"""Text of catalog files: a model's shape, and an engine profile with what a user's own runs add."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields as fields_of
from pathlib import Path
from typing import Any

from planner.records import (
    DenseFeedForward,
    FeedForward,
    LatentAttention,
    LayerKind,
    Mixer,
    ModelShape,
    RecurrentMixer,
)

_OPTIONAL = ("draft_layers", "declared_layers", "side_parameters", "reused_parameters", "encoder_parameters")


def model_file_text(shape: ModelShape, counts: Mapping[str, int], retrieved: str, header: str) -> str:
    """The file that reads back as `shape`: same shape, same bytes.

    Parameters
    ----------
    counts
        What listings show without computing it: `parameters`, `active_parameters` and, where they are not zero,
        `kv_bytes_per_token` and `state_bytes_per_sequence`.
    retrieved
        The day the sizes were read, ISO.
    header
        The comment of the first line, without its mark.
    """
    lines = [
        f"# {header}",
        f"id: {_text(shape.id)}",
        f"architecture: {_text(shape.architecture)}",
        f"source: {json.dumps(shape.source)}",
        f"retrieved: {retrieved}",
        f"hidden: {shape.hidden}",
        f"vocabulary: {shape.vocabulary}",
        f"tied_embeddings: {str(shape.tied_embeddings).lower()}",
        f"max_context_tokens: {shape.max_context_tokens}",
        f"checkpoint_format: {shape.checkpoint_format}",
        *([f"checkpoint_other_format: {shape.checkpoint_other_format}"] if shape.checkpoint_other_format else []),
        *(f"{name}: {getattr(shape, name)}" for name in _OPTIONAL if getattr(shape, name)),
        *([f"notes: {json.dumps('; '.join(shape.notes))}"] if shape.notes else []),
        "layers:",
    ]
    borrowed = shape.borrowed_kv or (False,) * len(shape.layers)
    for kind, borrows in zip(shape.layers, borrowed, strict=True):
        lines += _layer_lines(kind, borrows)
    lines.append("counts: # derived from the above, for listings")
    return "\n".join([*lines, *(f"  {name}: {count}" for name, count in counts.items() if count)]) + "\n"


def _text(value: str) -> str:
    """Plain where YAML reads it as text, quoted elsewhere."""
    plain = value.replace("/", "").replace("-", "").replace("_", "").replace(".", "").isalnum()
    return (
        value if plain and value[0].isalpha() and value.lower() not in ("true", "false", "null") else json.dumps(value)
    )


def _layer_lines(kind: LayerKind, borrows: bool) -> Iterator[str]:
    yield f"  - count: {kind.count}"
    if kind.mixer is not None:
        yield f"    mixer: {_flow(_mixer(kind.mixer))}"
    if borrows:
        yield "    borrowed_kv: true"
    if kind.feed_forward is not None:
        yield f"    feed_forward: {_flow(_feed_forward(kind.feed_forward))}"


def _mixer(mixer: Mixer) -> dict[str, Any]:
    values = _fields(mixer)
    if isinstance(mixer, RecurrentMixer):
        return {"kind": values.pop("kind"), **values}
    if isinstance(mixer, LatentAttention):
        values["kv_heads"] = values["kv_heads"] if mixer.kv_heads > 1 else 0
        return {"kind": "latent", **values}
    return {"kind": "softmax", **values}


def _feed_forward(block: FeedForward) -> dict[str, Any]:
    values = _fields(block)
    plain = {} if values.pop("gated") else {"plain": True}
    return {"kind": "dense" if isinstance(block, DenseFeedForward) else "experts", **values, **plain}


def _fields(record: Any) -> dict[str, Any]:
    return {field.name: getattr(record, field.name) for field in fields_of(record)}


def _flow(values: Mapping[str, Any]) -> str:
    """A one-line mapping without what is zero or false."""
    shown = (f"{key}: {str(value).lower() if value is True else value}" for key, value in values.items() if value)
    return "{" + ", ".join(shown) + "}"


# ------------------------------------------------------------------------------------------------------------- engines


def engine_overlay(
    profile: Path, deviation: Mapping[str, Mapping[str, float]], cell: tuple[str, str], comments: Sequence[str]
) -> str:
    """The engine file `profile` with log deviations of one more measured group and cell, as YAML text."""
    import yaml

    document = yaml.safe_load(profile.read_text(encoding="utf-8"))
    known = document.get("deviations") or {}
    added = {key: {name: round(value, 4) for name, value in found.items()} for key, found in deviation.items()}
    document["kind"] = "engine"
    document["deviations"] = {**known, **added}
    cells = document.get("measured_cells") or {}
    model, accelerator = cell
    cells[model] = sorted({*cells.get(model, []), accelerator})
    document["measured_cells"] = cells
    text = yaml.safe_dump(document, sort_keys=False, width=100_000, allow_unicode=True)
    return "".join(f"# {line}\n" for line in comments) + text
