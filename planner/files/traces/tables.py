"""Traces of one request a row: CSV with a header, JSON lines, and arrays of JSON objects."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

from planner.errors import Fault, InputError, printable
from planner.files.traces.formats import (
    KNOWN,
    RAGPULSE,
    RAGPULSE_SEGMENTS,
    Format,
    bare,
    matching_csv,
    matching_json,
    renamed,
)
from planner.files.traces.json_rows import TOGETHER, Elements, Row, Several, json_object, listed_ids, of_lines
from planner.files.traces.rows import Gatherer, Rows
from planner.files.traces.source import Lines
from planner.records import Note
from planner.units import shown

Numbered = Iterator[tuple[int, str]]

NO_ROWS = "is not JSON lines; want one JSON object a line, or an array of them"
_DELIMITERS = ",;\t"


def delimiter_of(header: str) -> str:
    """What separates the columns of a table: the one there is most of."""
    return max(_DELIMITERS, key=header.count)


def split_csv(text: str, path: str, line: int, delimiter: str = ",") -> list[str]:
    """The cells of one line."""
    if '"' not in text:
        return text.split(delimiter)
    try:
        return next(csv.reader([text], delimiter=delimiter))
    except csv.Error as error:
        raise InputError([Fault(f"is not CSV: {error}", path, line)]) from None


def read_csv(source: Lines, header_line: int, header_text: str, rest: Numbered) -> Rows:
    """A table whose header is `header_text`; `rest` are the lines after it."""
    delimiter = delimiter_of(header_text)
    header = [column.strip() for column in split_csv(header_text, source.name, header_line, delimiter)]
    form = matching_csv(header)
    if form is None:
        named = ", ".join(header)
        raise InputError(
            [Fault(f"no known trace has the columns {shown(named)}; known: {KNOWN}", source.name, header_line)]
        )
    names = [bare(column) for column in header]
    twice = [header[place] for place, name in enumerate(names) if name and name in names[:place]]
    if twice:
        raise InputError([Fault(f"column {shown(twice[0])} stands twice; keep one", source.name, header_line)])
    time_at, input_at, output_at = (names.index(bare(column)) if column else 0 for column in form.columns)
    columns = len(header)
    rows = Gatherer(form, source.name)
    for line, text in rest:
        cells = split_csv(text, source.name, line, delimiter)
        if len(cells) == columns or (len(cells) > columns and not any(cell.strip() for cell in cells[columns:])):
            time = cells[time_at].replace(",", ".") if delimiter == ";" else cells[time_at]  # a decimal comma
            rows.add(line, (time, cells[input_at], cells[output_at]))
        elif text.strip():
            rows.fault(line, f"has {len(cells)} columns; want {columns}")
    read = set(map(bare, form.needed))
    unread = [printable(column) for column, name in zip(header, names, strict=True) if name and name not in read]
    notes = (Note("info", f"trace columns not read: {', '.join(unread)}"),) if unread else ()
    return replace(rows.done(source.sha256), notes=notes)


def read_json_lines(source: Lines, first_line: int, first: Row, rest: Numbered) -> Rows:
    """Objects, the first already read; its keys tell the format."""
    rows, names = _gatherer(source, first_line, first)
    _gather(rows, names, Several([first_line], [first]))
    spelled = {name: key for key, name in names.items()}
    ids_key = spelled.get(rows.form.ids, rows.form.ids) if rows.has_ids and rows.form is not RAGPULSE else ""
    for found in of_lines(rest, ids_key):
        if isinstance(found, Several):
            _gather(rows, names, found)
        else:
            _gather_one(rows, names, found[0], json_object(found[1]), found[1])
    return rows.done(source.sha256)


def read_json_array(source: Lines, line: int, text: str, rest: Numbered) -> Rows:
    """The objects of one array, which begins with `text`; the keys of the first tell the format."""
    elements = iter(Elements(source, line, text, rest))
    first_line, first = next(elements, (line, None))
    if not isinstance(first, dict):
        raise InputError([Fault(NO_ROWS, source.name, first_line)])
    rows, names = _gatherer(source, first_line, first)
    _gather(rows, names, Several([first_line], [first]))
    while several := list(islice(elements, TOGETHER)):
        if all(type(row) is dict for _, row in several):
            _gather(rows, names, Several([number for number, _ in several], [row for _, row in several]))
        else:
            for number, row in several:
                _gather_one(rows, names, number, row if isinstance(row, dict) else None, row)
    return rows.done(source.sha256)


def _gatherer(source: Lines, first_line: int, first: Row) -> tuple[Gatherer, dict[str, str]]:
    """Where rows go, and the keys that the file spells in its own way."""
    names = renamed(first)
    row = _spelled(first, names)
    form = matching_json(row)
    if form is None:
        keys = ", ".join(first)
        raise InputError([Fault(f"no known trace has the keys {shown(keys)}; known: {KNOWN}", source.name, first_line)])
    return Gatherer(form, source.name, has_ids=bool(form.ids) and form.ids in row), names


def _spelled(row: Row, names: dict[str, str]) -> Row:
    return {names.get(key, key): value for key, value in row.items()} if names else row


def _gather(rows: Gatherer, names: dict[str, str], found: Several) -> None:
    if names:
        found = replace(found, rows=[_spelled(row, names) for row in found.rows])
    if rows.has_ids and found.ids is None:
        ids = listed_ids([_ids(rows.form, row) for row in found.rows])
        if ids is None:
            for line, row in zip(found.lines, found.rows, strict=True):
                _gather_one(rows, {}, line, row, row)
            return
        found = replace(found, ids=ids)
    rows.extend(found)


def _gather_one(rows: Gatherer, names: dict[str, str], line: int, row: Row | None, found: Any) -> None:
    if row is None:
        rows.fault(line, f"{shown(found)} is not a JSON object")
        return
    row = _spelled(row, names)
    form = rows.form
    cells = (row.get(form.time), row.get(form.input), row.get(form.output))
    rows.add(line, cells, _ids(form, row) if rows.has_ids else None, row.get(form.cached))


def _ids(form: Format, row: Row) -> Any:
    """Block ids of a row; of a prompt's segments one after another, in the order a prompt is put together."""
    ids = row.get(form.ids)
    if form is not RAGPULSE or not isinstance(ids, dict) or not all(isinstance(part, list) for part in ids.values()):
        return ids
    names = [*RAGPULSE_SEGMENTS, *(name for name in ids if name not in RAGPULSE_SEGMENTS)]
    return [block for name in names for block in ids.get(name, ())]
