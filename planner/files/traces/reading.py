"""One file, or a folder of sessions, of any format: told apart by what it holds, not by its name."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from planner.errors import Fault, InputError
from planner.files.traces.agents import is_session, read_session
from planner.files.traces.json_rows import Numbered, json_object
from planner.files.traces.rows import Rows
from planner.files.traces.servegen import columns_of, is_servegen, read_servegen
from planner.files.traces.source import Lines
from planner.files.traces.tables import NO_ROWS, read_csv, read_json_array, read_json_lines, split_csv


def read_all(paths: tuple[Path, ...]) -> list[Rows]:
    """Every file of `paths`; of a folder its .json files in order of name.

    Raises
    ------
    InputError
        When one cannot be read, a folder holds no session, or the formats differ.
    """
    found = [read(path) for path in chain.from_iterable(map(_files, paths))]
    for rows in found[1:]:
        if rows.form is not found[0].form:
            message = f"has the format {rows.form.name}, {found[0].path} {found[0].form.name}; give files of one format"
            raise InputError([Fault(message, rows.path)])
    return found


def _files(path: Path) -> Iterator[Path]:
    if not path.is_dir():
        yield path
        return
    files = sorted((*path.glob("*.json"), *path.glob("*.json.gz")))
    if not files:
        raise InputError([Fault("is a folder; want a file, or a folder of sessions (*.json)", str(path))])
    yield from files


def read(path: Path) -> Rows:
    """The rows of one file."""
    source = Lines(path)
    lines = iter(source)
    line, text = next(((number, text) for number, text in lines if text.strip()), (0, ""))
    if not line:
        raise InputError([Fault("is empty; want a trace of requests", source.name)])
    if text.lstrip()[0] == "[":
        return read_json_array(source, line, text, lines)
    if text.lstrip()[0] == "{":
        return _read_json(source, line, text, lines)
    if is_servegen(split_csv(text, source.name, line)):
        return read_servegen(source, path, line, text, lines)
    return read_csv(source, line, text, lines)


def _read_json(source: Lines, line: int, text: str, rest: Numbered) -> Rows:
    first = json_object(text)
    if first is not None and not is_session(first):
        return read_json_lines(source, line, first, rest)
    document = first
    if document is None and text.strip() == "{":  # one object over many lines
        document = _whole(text, rest)
    if document is None:
        raise InputError([Fault(NO_ROWS, source.name, line)])
    if is_session(document):
        more = next((number for number, other in rest if other.strip()), None)
        if more is not None:
            raise InputError([Fault("follows a session; want one session a file", source.name, more)])
        return read_session(document, source.name, source.sha256)
    if columns_of(document):
        message = "holds the lengths of a ServeGen client; give the NAME-trace.csv that stands beside it"
        raise InputError([Fault(message, source.name)])
    raise InputError([Fault("is one JSON object, but no session: it has no list of requests", source.name, line)])


def _whole(text: str, rest: Numbered) -> dict[str, object] | None:
    try:
        document = json.loads("\n".join([text, *(other for _, other in rest)]))
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None
