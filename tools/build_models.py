"""Write the model catalog from config.json files.

    python tools/build_models.py --configs DIR [--published FILE] [--retrieved DATE] [--out models]

`DIR` holds one config per model, named `owner--model.json`. FILE is a table with the columns `file`, `model_id`,
`context_length`, `config_provenance` and `notes`: the published context replaces the file's own, which often counts
what a rotary extension could reach. The same files give the same bytes. Models that cannot be counted are listed on
stderr and left out.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from planner.errors import InputError
from planner.files.huggingface import shape_from_config
from planner.records import (
    DenseFeedForward,
    Experts,
    FeedForward,
    LatentAttention,
    LayerKind,
    Mixer,
    ModelShape,
    RecurrentMixer,
)
from planner.shapes.counts import kv_bytes_per_token, parameters, state_bytes_per_sequence

DEFAULT_OUT = Path(__file__).resolve().parent.parent / "models"
HEADER = "# Written by tools/build_models.py from the model's config.json. Keys: models/README.md\n"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Write the model catalog from config.json files.")
    parser.add_argument("--configs", type=Path, required=True, help="folder of owner--model.json files")
    parser.add_argument("--published", type=Path, help="CSV of published contexts and provenance")
    parser.add_argument("--retrieved", default="2026-08-22", help="day the configs were copied")
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT, help="catalog folder to write")
    options = parser.parse_args(arguments)
    published = read_published(options.published)
    options.out.mkdir(parents=True, exist_ok=True)
    written = 0
    for path in sorted(options.configs.glob("*.json")):
        try:
            shape = catalog_shape(path, published.get(path.name, {}))
        except InputError as error:
            print(f"left out {path.name}: {error}", file=sys.stderr)
            continue
        (options.out / f"{shape.id.replace('/', '--')}.yaml").write_text(
            yaml_text(shape, options.retrieved), encoding="utf-8"
        )
        written += 1
    print(f"{written} models in {options.out}")


def read_published(path: Path | None) -> dict[str, Mapping[str, str]]:
    """Rows of the table by file name."""
    if path is None:
        return {}
    with path.open(encoding="utf-8", newline="") as stream:
        return {row["file"]: row for row in csv.DictReader(stream)}


def catalog_shape(path: Path, published: Mapping[str, str]) -> ModelShape:
    """The shape of a config file under its catalog id, with published context and provenance."""
    owner, _, model = path.stem.partition("--")
    model_id = f"{owner}/{model.removeprefix('Meta-')}"
    shape = shape_from_config(json.loads(path.read_text(encoding="utf-8")), model_id)
    origin = published.get("config_provenance", "")
    return replace(
        shape,
        max_context_tokens=int(published.get("context_length") or shape.max_context_tokens),
        source=f"config.json of {owner}/{model}" + (f"; {origin}" if origin else ""),
    )


def yaml_text(shape: ModelShape, retrieved: str) -> str:
    """A model file: same shape, same bytes."""
    count = parameters(shape)
    lines = [
        f"id: {shape.id}",
        f"architecture: {shape.architecture}",
        f"source: {json.dumps(shape.source)}",
        f"retrieved: {retrieved}",
        f"hidden: {shape.hidden}",
        f"vocabulary: {shape.vocabulary}",
        f"tied_embeddings: {str(shape.tied_embeddings).lower()}",
        f"max_context_tokens: {shape.max_context_tokens}",
        f"checkpoint_format: {shape.checkpoint_format}",
        *([f"draft_layers: {shape.draft_layers}"] if shape.draft_layers else []),
        *([f"notes: {json.dumps('; '.join(shape.notes))}"] if shape.notes else []),
        "layers:",
        *(line for kind in shape.layers for line in layer_lines(kind)),
        "counts: # derived from the above, for listings",
        f"  parameters: {count.total}",
        f"  active_parameters: {count.active}",
    ]
    per_token, state = int(kv_bytes_per_token(shape, "bf16")), int(state_bytes_per_sequence(shape))
    lines += [f"  kv_bytes_per_token: {per_token}"] if per_token else []
    lines += [f"  state_bytes_per_sequence: {state}"] if state else []
    return HEADER + "\n".join(lines) + "\n"


def layer_lines(kind: LayerKind) -> Iterator[str]:
    yield f"  - count: {kind.count}"
    if kind.mixer is not None:
        yield f"    mixer: {flow(mixer_keys(kind.mixer))}"
    if kind.feed_forward is not None:
        yield f"    feed_forward: {flow(feed_forward_keys(kind.feed_forward))}"


def mixer_keys(mixer: Mixer) -> dict[str, object]:
    if isinstance(mixer, RecurrentMixer):
        names = ("key_heads", "value_heads", "key_dim", "value_dim", "conv_tokens")
        return {"kind": mixer.kind, **{name: getattr(mixer, name) for name in names}}
    return {"kind": "latent" if isinstance(mixer, LatentAttention) else "softmax", **fields_of(mixer)}


def feed_forward_keys(block: FeedForward) -> dict[str, object]:
    keys = fields_of(block)
    plain = {} if keys.pop("gated") else {"plain": True}
    kind = "experts" if isinstance(block, Experts) else "dense" if isinstance(block, DenseFeedForward) else ""
    return {"kind": kind, **keys, **plain}


def fields_of(record: object) -> dict[str, object]:
    return {name: getattr(record, name) for name in record.__dataclass_fields__}  # type: ignore[attr-defined]


def flow(keys: Mapping[str, object]) -> str:
    """A one-line mapping without what is zero or false."""
    shown = (f"{key}: {str(value).lower() if value is True else value}" for key, value in keys.items() if value)
    return "{" + ", ".join(shown) + "}"


if __name__ == "__main__":
    main()
