"""What a result rests on: files, model, engine constants, catalog values, each with its source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.render.text import Cell, Pen, Row, columns, sources_line, value_text

SUFFIXES = (
    ("_flops_per_s", "FLOP/s"),
    ("_bytes_per_s", "bytes/s"),
    ("_requests_per_s", "requests/s"),
    ("_bytes", "bytes"),
    ("_watts", "W"),
    ("usd_per_hour", "USD/h"),
    ("_usd", "USD"),
    ("_tokens", "tokens"),
    ("_s", "s"),
)


def field_text(name: str, value: Any) -> str:
    """A value of a named field, in the unit that the name ends with."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return str(value)
    quantity = name.partition(".")[0]
    unit = next((unit for suffix, unit in SUFFIXES if quantity.endswith(suffix)), None)
    if unit is not None:
        return value_text(float(value), unit)
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


def inputs_section(document: Mapping[str, Any], pen: Pen) -> list[str]:
    """Inputs and assumptions of a result document, as lines."""
    inputs = document["inputs"]
    model, engine = inputs["model"], inputs["engine"]
    files: list[Row] = [[file["path"], f"sha256 {file['sha256']}"] for file in inputs["files"]]
    lines = [pen.heading("Inputs"), *columns(files, "ll", pen)]
    lines += ["", pen.heading(f"Model {model['id']}"), *_fields(model, pen, skip=("id",))]
    lines += ["", pen.heading(f"Engine {engine['id']} {engine['version']}"), *_engine(engine, pen)]
    for accelerator in inputs["accelerators"]:
        lines += ["", *_accelerator(accelerator, pen)]
    cited = sources_line("\n".join(lines))
    return [*lines, "", *cited] if cited else lines


def _fields(values: Mapping[str, Any], pen: Pen, skip: tuple[str, ...] = ()) -> list[str]:
    shown = {name: value for name, value in values.items() if name not in skip and value not in (None, "")}
    return columns([[name, field_text(name, value)] for name, value in shown.items()], "lw", pen)


def _engine(engine: Mapping[str, Any], pen: Pen) -> list[str]:
    nested = ("constants", "memory_rule")
    plain = _fields(engine, pen, skip=("id", "version", "applied", *nested))
    rules = [_named(name.replace("_", " "), engine[name], pen) for name in nested]
    applied = engine.get("applied") or {}
    rules += [_named(f"constants as applied to {pool}", values, pen) for pool, values in applied.items()]
    return plain + [line for lines in rules for line in lines]


def _named(title: str, values: Mapping[str, Any], pen: Pen) -> list[str]:
    rows = [[name, field_text(name, value)] for name, value in values.items()]
    return [f"  {title}", *columns(rows, "ll", pen, indent=4)]


def _accelerator(accelerator: Mapping[str, Any], pen: Pen) -> list[str]:
    lines = [pen.heading(f"Accelerator {accelerator['id']} ({accelerator['vendor']}, {accelerator['status']})")]
    if accelerator["efficiency_like"]:
        lines.append(f"  efficiencies borrowed from {accelerator['efficiency_like']}: a guess")
    rows = [sourced_row(name, item) for name, item in accelerator["values"].items()]
    return lines + columns(rows, "lrllw", pen) + [f"  sha256 {accelerator['sha256']}"]


def sourced_row(name: str, item: Mapping[str, Any]) -> Row:
    """A catalog value as five columns: name, value, how it is known, when it was read, where from."""
    known = (item["kind"] or "", item["retrieved"] or "", item["source"] or "no source given")
    return [name, field_text(name, item["value"]), *(Cell(text, "dim") for text in known)]
