"""Traces of one request a line: CSV with a header, and JSON lines."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

from planner.errors import Fault, InputError, printable
from planner.files.traces.formats import KNOWN, RAGPULSE, RAGPULSE_SEGMENTS, matching_csv, matching_json
from planner.files.traces.rows import Gatherer, Rows
from planner.files.traces.source import Lines
from planner.records import Note
from planner.units import shown

Numbered = Iterator[tuple[int, str]]

_TOGETHER = 4_000  # JSON lines that are parsed in one go


def split_csv(text: str, path: str, line: int) -> list[str]:
    """The cells of one line."""
    if '"' not in text:
        return text.split(",")
    try:
        return next(csv.reader([text]))
    except csv.Error as error:
        raise InputError([Fault(f"is not CSV: {error}", path, line)]) from None


def read_csv(source: Lines, header_line: int, header_text: str, rest: Numbered) -> Rows:
    """A table whose header is `header_text`; `rest` are the lines after it."""
    header = [column.strip() for column in split_csv(header_text, source.name, header_line)]
    form = matching_csv(header)
    if form is None:
        named = ", ".join(header)
        raise InputError(
            [Fault(f"no known trace has the columns {shown(named)}; known: {KNOWN}", source.name, header_line)]
        )
    twice = [column for place, column in enumerate(header) if column and column in header[:place]]
    if twice:
        raise InputError([Fault(f"column {shown(twice[0])} stands twice; keep one", source.name, header_line)])
    time_at, input_at, output_at = (header.index(column) if column else 0 for column in form.columns)
    columns = len(header)
    rows = Gatherer(form, source.name)
    for line, text in rest:
        cells = split_csv(text, source.name, line)
        if len(cells) == columns or (len(cells) > columns and not any(cell.strip() for cell in cells[columns:])):
            rows.add(line, (cells[time_at], cells[input_at], cells[output_at]))
        elif text.strip():
            rows.fault(line, f"has {len(cells)} columns; want {columns}")
    unread = [printable(column) for column in header if column and column not in form.needed]
    notes = (Note("info", f"trace columns not read: {', '.join(unread)}"),) if unread else ()
    return replace(rows.done(source.sha256), notes=notes)


def read_json_lines(source: Lines, first_line: int, first: dict[str, Any], rest: Numbered) -> Rows:
    """Objects, the first already read; its keys tell the format."""
    form = matching_json(first)
    if form is None:
        keys = ", ".join(first)
        raise InputError([Fault(f"no known trace has the keys {shown(keys)}; known: {KNOWN}", source.name, first_line)])
    rows = Gatherer(form, source.name, has_ids=bool(form.ids) and form.ids in first)
    _add(rows, first_line, first)
    filled = (numbered for numbered in rest if numbered[1] and not numbered[1].isspace())
    while several := list(islice(filled, _TOGETHER)):
        found = _json_objects([text for _, text in several])
        if found is None or not rows.extend([line for line, _ in several], found):
            _add_one_by_one(rows, several)
    return rows.done(source.sha256)


def _json_objects(texts: list[str]) -> list[dict[str, Any]] | None:
    """The objects of several lines, parsed in one go; None where some line is not one object."""
    try:
        found = json.loads(f"[{','.join(texts)}]")
    except (ValueError, RecursionError):
        return None
    return found if len(found) == len(texts) and set(map(type, found)) == {dict} else None


def _add_one_by_one(rows: Gatherer, several: list[tuple[int, str]]) -> None:
    for line, text in several:
        row = json_object(text)
        if row is None:
            rows.fault(line, f"{shown(text)} is not a JSON object")
        else:
            _add(rows, line, row)


def _add(rows: Gatherer, line: int, row: dict[str, Any]) -> None:
    form = rows.form
    cells = (row.get(form.time), row.get(form.input), row.get(form.output))
    ids = _segments(row.get(form.ids)) if rows.has_ids and form is RAGPULSE else row.get(form.ids)
    rows.add(line, cells, ids, row.get(form.cached))


def _segments(ids: Any) -> Any:
    """The ids of a prompt's segments one after another, in the order a prompt is put together."""
    if not isinstance(ids, dict) or not all(isinstance(part, list) for part in ids.values()):
        return ids
    names = [*RAGPULSE_SEGMENTS, *(name for name in ids if name not in RAGPULSE_SEGMENTS)]
    return [block for name in names for block in ids.get(name, ())]


def json_object(text: str) -> dict[str, Any] | None:
    try:
        row = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None
