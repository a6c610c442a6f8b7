"""JSON Schemas of catalog files, from the tables that their readers use: for completion in editors, and for checks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from planner.files.catalog_tables import (
    ACCELERATOR_COUNTS,
    ACCELERATOR_QUANTITIES,
    ACCELERATOR_TEXTS,
    COUNT_KEYS,
    FEED_FORWARD_KEYS,
    LAYER_KEYS,
    MIXER_KEYS,
    MODEL_KEYS,
    ORIGINS,
    Key,
)

Schema = dict[str, Any]

KINDS = ("hardware", "model", "scenario")
_DRAFT_07 = "http://json-schema.org/draft-07/schema#"
_DRAFT = "https://json-schema.org/draft/2020-12/schema"
_WITH_UNIT = r"^\s*[0-9][0-9.,_]*([eE][+-]?[0-9]+)?\s*[A-Za-zµ/].*$"


def schema(kind: str) -> Schema:
    """The JSON Schema of an accelerator, model or scenario file; `kind` is one of `KINDS`."""
    if kind == "scenario":
        from planner.files.schema import scenario_schema

        return scenario_schema()
    return hardware_schema() if kind == "hardware" else model_schema()


def hardware_schema() -> Schema:
    """Of an accelerator file. A value stands plainly or as a mapping with where it comes from."""
    properties = {key.name: _sourced(_plain(key)) for key in ACCELERATOR_TEXTS if key.name not in ("kind", "id")}
    properties |= {key.name: _plain(key) for key in ACCELERATOR_TEXTS if key.name in ("kind", "id")}
    properties |= {key.name: _sourced(_plain(key)) for key in (*ACCELERATOR_QUANTITIES, *ACCELERATOR_COUNTS)}
    price = _sourced({"type": "string", "pattern": _WITH_UNIT, "examples": ["2.50 USD/h"]})
    properties["prices"] = {
        "type": "object",
        "description": "Per accelerator and hour, by any basis; one ranking never mixes bases",
        "additionalProperties": price,
    }
    required = [key.name for key in ACCELERATOR_QUANTITIES if key.required]
    return _top("Accelerator", _object(properties, required))


def model_schema() -> Schema:
    """Of a model file."""
    properties = {key.name: _plain(key) for key in MODEL_KEYS}
    layer = {key.name: _plain(key) for key in LAYER_KEYS}
    layer["mixer"] = {"oneOf": [_kinds(keys, kinds) for keys, kinds in _by_keys(MIXER_KEYS)]}
    layer["feed_forward"] = {"oneOf": [_kinds(keys, kinds) for keys, kinds in _by_keys(FEED_FORWARD_KEYS)]}
    item = _object(layer, _required(LAYER_KEYS))
    item["anyOf"] = [{"required": ["mixer"]}, {"required": ["feed_forward"]}]
    properties["layers"] = {"type": "array", "minItems": 1, "items": item, "description": "Kinds of layer"}
    properties["counts"] = _object({name: {"type": "integer", "minimum": 1} for name in COUNT_KEYS}, [])
    return _top("Model", _object(properties, [*_required(MODEL_KEYS), "layers"]))


def _by_keys(kinds: Mapping[str, tuple[Key, ...]]) -> Iterable[tuple[tuple[Key, ...], list[str]]]:
    """Kinds of equal keys together."""
    groups: dict[tuple[Key, ...], list[str]] = {}
    for kind, keys in kinds.items():
        groups.setdefault(keys, []).append(kind)
    return groups.items()


def _kinds(keys: Iterable[Key], kinds: list[str]) -> Schema:
    keys = tuple(keys)
    return _object({"kind": {"enum": kinds}, **{key.name: _plain(key) for key in keys}}, ["kind", *_required(keys)])


def _required(keys: Iterable[Key]) -> list[str]:
    return [key.name for key in keys if key.required]


def _plain(key: Key) -> Schema:
    found: Schema = {"description": key.about}
    if key.kind == "whole":
        found |= {"type": "integer", "minimum": 1, "maximum": key.largest}
    elif key.kind == "flag":
        found["type"] = "boolean"
    elif key.kind == "count":
        found |= {"type": ["integer", "string"], "minimum": 1}
    elif key.kind != "text":
        found |= {"type": "string", "pattern": _WITH_UNIT}
    elif key.choices:
        found["enum"] = list(key.choices)
    else:
        found["type"] = "string"
    if key.example and key.kind not in ("whole", "flag"):
        found["examples"] = [key.example]
    return found


def _sourced(plain: Schema) -> Schema:
    value = {name: part for name, part in plain.items() if name != "description"}
    with_origin = _object(
        {
            "value": value,
            "source": {"type": "string", "description": "Where the value is from"},
            "retrieved": {"type": "string", "description": "The day it was read, e.g. 2026-08-22"},
            "kind": {"enum": list(ORIGINS), "description": "How it is known"},
        },
        ["value"],
    )
    described = {"description": plain["description"]} if "description" in plain else {}
    return {**described, "anyOf": [value, with_origin]}


def _object(properties: Schema, required: list[str]) -> Schema:
    found: Schema = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**found, "required": required} if required else found


def _top(title: str, schema: Schema) -> Schema:
    return {"$schema": _DRAFT, "title": title, **schema}


def as_draft(schema: Schema, draft: str) -> Schema:
    """The same schema with the words of a draft: `7` or `2020-12`."""
    if draft not in ("7", "2020-12"):
        raise ValueError(f"no draft {draft}")
    old, new = ("$defs", "definitions") if draft == "7" else ("definitions", "$defs")
    uri = _DRAFT_07 if draft == "7" else _DRAFT
    return {**_renamed(schema, old, new), "$schema": uri}


def _renamed(value: Any, old: str, new: str) -> Any:
    if isinstance(value, list):
        return [_renamed(item, old, new) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        (new if key == old else key): (
            part.replace(f"#/{old}/", f"#/{new}/") if key == "$ref" else _renamed(part, old, new)
        )
        for key, part in value.items()
    }
