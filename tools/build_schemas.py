"""Writes docs/schema/ from the tables and models that the readers of these files use."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from planner.files.catalog_schema import KINDS, as_draft, schema
from planner.render.json import to_json
from planner.review.result_schema import result_schema

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "schema"


def build() -> dict[str, str]:
    """Every published schema by its file name, in draft 7, which editors read."""
    found: dict[str, Any] = {kind: schema(kind) for kind in KINDS} | {"result": result_schema()}
    return {f"{kind}.schema.json": to_json(as_draft(one, "7")) for kind, one in found.items()}


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, text in build().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
