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
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from planner.errors import InputError
from planner.files.catalog_write import model_file_text
from planner.files.huggingface import shape_from_config
from planner.records import ModelShape
from planner.shapes.counts import listed_counts

DEFAULT_OUT = Path(__file__).resolve().parent.parent / "models"
HEADER = "Written by tools/build_models.py from the model's config.json. Keys: models/README.md"


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
    return model_file_text(shape, listed_counts(shape), retrieved, HEADER)


if __name__ == "__main__":
    main()
