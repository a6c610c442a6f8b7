"""The document of a crossover map."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from planner import __version__
from planner.records import MapAxis
from planner.review.document import SCHEMA_VERSION, plain
from planner.review.inputs import catalog_hash
from planner.sizing.crossover.map import CrossoverMap, MapCell

Document = dict[str, Any]


def crossover_document(maps: Sequence[CrossoverMap], facets: Sequence[dict[str, str]] = ({},)) -> Document:
    """Plain values. Without facets `cells` stands at the top, with them in each of `facets`."""
    first = maps[0]
    result: Document = {
        "schema_version": SCHEMA_VERSION,
        "tool": {"name": "planner", "version": __version__},
        "scenario": first.scenario.name,
        "files": [asdict(file) for file in first.scenario.inputs],
        "without": list(first.without),
        "axes": {"x": _axis(first.x), "y": _axis(first.y)},
    }
    described = [_map(one) | ({"facet": facet} if facet else {}) for one, facet in zip(maps, facets, strict=True)]
    result |= {"facets": described} if any(facets) else described[0]
    return {name: plain(value) for name, value in result.items()}


def _map(one: CrossoverMap) -> Document:
    return {
        "model": one.scenario.model.id,
        "catalog_hash": catalog_hash(one.scenario),
        "accelerators": sorted({a.id for a in (*one.scenario.prefill_accelerators, *one.scenario.decode_accelerators)}),
        "targets": [asdict(target) for target in one.scenario.targets],
        "price_basis": one.basis or None,
        "notes": [asdict(note) for note in one.notes],
        "cells": [_cell(cell) for cell in one.cells],
    }


def _axis(axis: MapAxis) -> Document:
    return {"quantity": axis.name, "label": axis.label, "unit": axis.unit, "log": axis.log, "values": list(axis.values)}


def _cell(cell: MapCell) -> Document:
    return {
        "x": cell.x,
        "y": cell.y,
        "winner": cell.winner,
        "cheapest": cell.cheapest or None,
        "advantage_fraction": cell.advantage_fraction,
        "interval": list(cell.interval) if cell.interval is not None else None,
        "limits": list(cell.limits),
        "lead_log2": cell.lead_log2,
    }
