"""A model file of the catalog: one YAML mapping -> the shape of a model, or its line in a listing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner import units
from planner.errors import Fault
from planner.files.catalog_fields import Fields, finish
from planner.files.catalog_tables import (
    COUNT_KEYS,
    FEED_FORWARD_KEYS,
    FORMATS,
    LARGEST_CONTEXT,
    LARGEST_SIZE,
    LAYER_KEYS,
    MIXER_KEYS,
    MODEL_KEYS,
    RECURRENT,
    Key,
)
from planner.files.yamlfile import load

if TYPE_CHECKING:
    from planner.records import FeedForward, LayerKind, Mixer, ModelShape


@dataclass(frozen=True, slots=True)
class ModelSummary:
    """A model as a listing shows it. Counts are None in a file that does not state them."""

    id: str
    architecture: str
    mixers: tuple[str, ...]  # kinds of mixer, in order of appearance
    has_experts: bool
    has_windows: bool
    layers: int
    parameters: int | None
    active_parameters: int | None
    kv_bytes_per_token: int | None  # bf16, every window still growing
    state_bytes_per_sequence: int | None
    max_context_tokens: int
    checkpoint_format: str
    path: str


def read_model(path: Path, stem: str) -> ModelShape:
    """The shape in the model file at `path`, whose id is `stem` with "--" for "/".

    Raises InputError with every fault of the file: missing or unknown keys, sizes that are not whole numbers.
    """
    from planner.records import ModelShape

    document = load(path)
    faults: list[Fault] = []
    fields = Fields(document, faults)
    name = _header(fields, stem)
    read: dict[str, Any] = _values(fields, tuple(key for key in MODEL_KEYS if key.kind != "text"))
    layers, borrowed = _layers(fields)
    shape = ModelShape(
        id=name,
        architecture=fields.text("architecture", example="llama"),
        layers=layers,
        borrowed_kv=borrowed if any(borrowed) else (),
        checkpoint_format=fields.text("checkpoint_format", "bf16", FORMATS),
        checkpoint_other_format=fields.text("checkpoint_other_format", "", FORMATS),
        notes=_notes(fields),
        source=fields.text("source", example="config.json of meta-llama/Llama-3.1-70B"),
        sha256=document.sha256,
        **read,
    )
    fields.refuse_unknown()
    finish(faults)
    return shape


def _values(fields: Fields, keys: Sequence[Key]) -> dict[str, Any]:
    """Whole numbers and flags of a mapping; what is left out and not required is 0 or false."""
    read: dict[str, Any] = {}
    for key in keys:
        if key.kind == "flag":
            read[key.name] = _flag(fields, key.name)
        elif key.required:
            read[key.name] = _whole(fields, key.name, key.largest)
        else:
            read[key.name] = _optional(fields, key.name, key.largest)
    return read


def _optional(fields: Fields, name: str, largest: int) -> int:
    number = fields.count(name) or 0
    if number > largest:
        fields.fault((name,), f"{number} is more than {largest:,}")
    return number


def read_summary(path: Path, stem: str) -> ModelSummary:
    """As `read_model`, but only what a listing shows, without loading an array library."""
    document = load(path)
    faults: list[Fault] = []
    fields = Fields(document, faults)
    name = _header(fields, stem)
    kinds = [entry for entry in _entries(fields, "layers") if isinstance(entry, dict)]
    facts = fields.inner("counts")
    counted = {key: facts.count(key) if facts else None for key in COUNT_KEYS}
    summary = ModelSummary(
        id=name,
        architecture=fields.text("architecture", example="llama"),
        mixers=tuple(dict.fromkeys(str(kind["mixer"].get("kind")) for kind in kinds if _is_mapping(kind, "mixer"))),
        has_experts=any(
            _is_mapping(kind, "feed_forward") and kind["feed_forward"].get("kind") == "experts" for kind in kinds
        ),
        has_windows=any(_is_mapping(kind, "mixer") and bool(kind["mixer"].get("window_tokens")) for kind in kinds),
        layers=fields.count("declared_layers")
        or sum(kind["count"] for kind in kinds if isinstance(kind.get("count"), int)),
        max_context_tokens=_whole(fields, "max_context_tokens", largest=LARGEST_CONTEXT),
        checkpoint_format=fields.text("checkpoint_format", "bf16", FORMATS),
        path=document.path,
        **counted,
    )
    finish(faults)
    return summary


def _header(fields: Fields, stem: str) -> str:
    fields.text("kind", choices=("model",))
    fields.text("retrieved")
    fields.known["counts"] = None
    expected = stem.replace("--", "/")
    name = fields.text("id", default=expected, example=expected)
    if name.replace("/", "--") != stem:
        fields.fault(
            ("id",), f'"{name}" is not the name of the file; rename the file to {name.replace("/", "--")}.yaml'
        )
    return name


def _is_mapping(entry: dict[str, Any], key: str) -> bool:
    return isinstance(entry.get(key), dict)


def _entries(fields: Fields, key: str) -> list[Any]:
    fields.known[key] = None
    value = fields.values.get(key)
    if isinstance(value, list) and value:
        return value
    fields.fault((key,), "is missing; want a list of layer kinds" if value is None else "want a list of layer kinds")
    return []


def _notes(fields: Fields) -> tuple[str, ...]:
    note = fields.text("notes")
    return (note,) if note else ()


def _whole(fields: Fields, key: str, largest: int = LARGEST_SIZE) -> int:
    number = fields.count(key, example="128")
    if number is not None and number > largest:
        fields.fault((key,), f"{number} is more than {largest:,}")
    return number or 1


def _flag(fields: Fields, key: str) -> bool:
    fields.known[key] = None
    value = fields.values.get(key, False)
    if isinstance(value, bool):
        return value
    fields.fault((key,), f"{units.shown(value)} is neither true nor false")
    return False


def _layers(fields: Fields) -> tuple[tuple[LayerKind, ...], tuple[bool, ...]]:
    """The layer kinds, and which of them have no keys and values of their own."""
    from planner.records import LayerKind

    kinds, borrowed = [], []
    for index in range(len(_entries(fields, "layers"))):
        entry = Fields(fields.document, fields.faults, (*fields.path, "layers", index))
        own = _values(entry, LAYER_KEYS)
        kinds.append(LayerKind(own["count"], _mixer(entry), _feed_forward(entry)))
        borrowed.append(own["borrowed_kv"])
        if kinds[-1].mixer is None and kinds[-1].feed_forward is None:
            entry.fault((), "has neither a mixer nor a feed_forward")
        entry.refuse_unknown()
    return tuple(kinds), tuple(borrowed)


def _mixer(entry: Fields) -> Mixer | None:
    from planner.records import LatentAttention, RecurrentMixer, SoftmaxAttention

    fields = entry.inner("mixer")
    if fields is None:
        return None
    kind = fields.text("kind", "softmax", choices=MIXER_KEYS, example="softmax")
    read = _values(fields, MIXER_KEYS[kind])
    fields.refuse_unknown()
    if kind in RECURRENT:
        return RecurrentMixer(kind=kind, **read)
    read["kv_heads"] = read["kv_heads"] or 1
    if kind == "latent":
        return LatentAttention(**read)
    if read["query_heads"] % read["kv_heads"]:
        fields.fault(("kv_heads",), f"{read['kv_heads']} does not divide {read['query_heads']} query heads")
    return SoftmaxAttention(**read)


def _feed_forward(entry: Fields) -> FeedForward:
    from planner.records import DenseFeedForward, Experts

    fields = entry.inner("feed_forward")
    if fields is None:
        return None
    kind = fields.text("kind", "dense", choices=FEED_FORWARD_KEYS, example="dense")
    read = _values(fields, FEED_FORWARD_KEYS[kind])
    gated = not read.pop("plain")
    fields.refuse_unknown()
    if kind == "dense":
        return DenseFeedForward(gated=gated, **read)
    if read["top_k"] > read["experts"]:
        fields.fault(("top_k",), f"{read['top_k']} is more than {read['experts']} experts")
    return Experts(gated=gated, **read)
