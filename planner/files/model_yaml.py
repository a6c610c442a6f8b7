"""A model file of the catalog: one YAML mapping -> the shape of a model, or its line in a listing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner import units
from planner.errors import Fault
from planner.files.catalog_fields import Fields, finish
from planner.files.yamlfile import load

if TYPE_CHECKING:
    from planner.records import FeedForward, LayerKind, Mixer, ModelShape

FORMATS = ("bf16", "fp8", "fp8_block", "nvfp4", "mxfp4", "int8", "int4")
MIXERS = ("softmax", "latent", "gated-delta", "kda", "mamba1", "mamba2")
FEED_FORWARDS = ("dense", "experts")
LARGEST_SIZE = 100_000_000
_FACTS = ("parameters", "active_parameters", "kv_bytes_per_token", "state_bytes_per_sequence")


@dataclass(frozen=True, slots=True)
class ModelSummary:
    """A model as a listing shows it. Counts are None in a file that does not state them."""

    id: str
    architecture: str
    mixers: tuple[str, ...]  # kinds of mixer, in order of appearance
    has_experts: bool
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

    Raises
    ------
    InputError
        With every fault of the file: missing or unknown keys, sizes that are not whole numbers.
    """
    from planner.records import ModelShape

    document = load(path)
    faults: list[Fault] = []
    fields = Fields(document, faults)
    name = _header(fields, stem)
    shape = ModelShape(
        id=name,
        architecture=fields.text("architecture", example="llama"),
        hidden=_whole(fields, "hidden"),
        vocabulary=_whole(fields, "vocabulary"),
        layers=_layers(fields),
        tied_embeddings=_flag(fields, "tied_embeddings"),
        max_context_tokens=_whole(fields, "max_context_tokens", largest=1_000_000_000),
        checkpoint_format=fields.text("checkpoint_format", "bf16", FORMATS),
        draft_layers=fields.count("draft_layers") or 0,
        notes=_notes(fields),
        source=fields.text("source", example="config.json of meta-llama/Llama-3.1-70B"),
        sha256=document.sha256,
    )
    fields.refuse_unknown()
    finish(faults)
    return shape


def read_summary(path: Path, stem: str) -> ModelSummary:
    """As `read_model`, but only what a listing shows, without loading an array library."""
    document = load(path)
    faults: list[Fault] = []
    fields = Fields(document, faults)
    name = _header(fields, stem)
    kinds = [entry for entry in _entries(fields, "layers") if isinstance(entry, dict)]
    facts = fields.inner("counts")
    counted = {key: facts.count(key) if facts else None for key in _FACTS}
    summary = ModelSummary(
        id=name,
        architecture=fields.text("architecture", example="llama"),
        mixers=tuple(dict.fromkeys(str(kind["mixer"].get("kind")) for kind in kinds if _is_mapping(kind, "mixer"))),
        has_experts=any(
            _is_mapping(kind, "feed_forward") and kind["feed_forward"].get("kind") == "experts" for kind in kinds
        ),
        layers=sum(kind["count"] for kind in kinds if isinstance(kind.get("count"), int)),
        max_context_tokens=_whole(fields, "max_context_tokens", largest=1_000_000_000),
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


def _layers(fields: Fields) -> tuple[LayerKind, ...]:
    from planner.records import LayerKind

    kinds = []
    for index in range(len(_entries(fields, "layers"))):
        entry = Fields(fields.document, fields.faults, (*fields.path, "layers", index))
        count = _whole(entry, "count", largest=10_000)
        kinds.append(LayerKind(count, _mixer(entry), _feed_forward(entry)))
        if kinds[-1].mixer is None and kinds[-1].feed_forward is None:
            entry.fault((), "has neither a mixer nor a feed_forward")
        entry.refuse_unknown()
    return tuple(kinds)


def _mixer(entry: Fields) -> Mixer | None:
    from planner.records import LatentAttention, RecurrentMixer, SoftmaxAttention

    fields = entry.inner("mixer")
    if fields is None:
        return None
    kind = fields.text("kind", choices=MIXERS, example="softmax")
    mixer: Mixer
    if kind == "latent":
        mixer = LatentAttention(
            query_heads=_whole(fields, "query_heads"),
            query_rank=fields.count("query_rank") or 0,
            kv_rank=_whole(fields, "kv_rank"),
            nope_dim=_whole(fields, "nope_dim"),
            rope_dim=fields.count("rope_dim") or 0,
            value_dim=_whole(fields, "value_dim"),
            index_heads=fields.count("index_heads") or 0,
            index_dim=fields.count("index_dim") or 0,
            index_top_k=fields.count("index_top_k") or 0,
        )
    elif kind in MIXERS[2:]:
        mixer = RecurrentMixer(
            key_heads=_whole(fields, "key_heads"),
            value_heads=_whole(fields, "value_heads"),
            key_dim=_whole(fields, "key_dim"),
            value_dim=_whole(fields, "value_dim"),
            conv_tokens=fields.count("conv_tokens") or 0,
            kind=kind,
        )
    else:
        mixer = SoftmaxAttention(
            query_heads=_whole(fields, "query_heads"),
            kv_heads=_whole(fields, "kv_heads"),
            key_dim=_whole(fields, "key_dim"),
            value_dim=_whole(fields, "value_dim"),
            window_tokens=fields.count("window_tokens") or 0,
            output_gate=_flag(fields, "output_gate"),
            bias=_flag(fields, "bias"),
        )
        if mixer.query_heads % mixer.kv_heads:
            fields.fault(("kv_heads",), f"{mixer.kv_heads} does not divide {mixer.query_heads} query heads")
    fields.refuse_unknown()
    return mixer


def _feed_forward(entry: Fields) -> FeedForward:
    from planner.records import DenseFeedForward, Experts

    fields = entry.inner("feed_forward")
    if fields is None:
        return None
    block: FeedForward
    if fields.text("kind", choices=FEED_FORWARDS, example="dense") == "experts":
        block = Experts(
            experts=_whole(fields, "experts"),
            top_k=_whole(fields, "top_k"),
            intermediate=_whole(fields, "intermediate"),
            shared_intermediate=fields.count("shared_intermediate") or 0,
            gated=not _flag(fields, "plain"),
        )
        if block.top_k > block.experts:
            fields.fault(("top_k",), f"{block.top_k} is more than {block.experts} experts")
    else:
        block = DenseFeedForward(_whole(fields, "intermediate"), gated=not _flag(fields, "plain"))
    fields.refuse_unknown()
    return block
