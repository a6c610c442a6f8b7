"""An engine profile with what a user's own runs add, as YAML text for a catalog folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path


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
