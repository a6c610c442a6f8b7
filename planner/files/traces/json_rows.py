"""Rows of JSON: one object a line, many lines at a time; or the objects of an array, one after another."""

from __future__ import annotations

import json
import re
import warnings
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from planner.errors import Fault, InputError
from planner.files.traces.source import Lines
from planner.units import shown

Ids = NDArray[np.int64]
Numbered = Iterator[tuple[int, str]]
Row = dict[str, Any]

TOGETHER = 1_000  # rows that are taken in one go
_SPACE = re.compile(r"[ \t\r\n]*")
_BEYOND = (np.iinfo(np.int64).min, np.iinfo(np.int64).max)  # what numpy reads of numbers that are no int64


@dataclass(frozen=True, slots=True, eq=False)
class Several:
    """Rows with their lines. `ids`, where they were cut out of the text: those of all rows, and how many each has."""

    lines: list[int]
    rows: list[Row]
    ids: tuple[Ids, list[int]] | None = None


def json_object(text: str) -> Row | None:
    try:
        row = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None


# --------------------------------------------------------------------------------------------------------------- lines


def of_lines(numbered: Numbered, ids_key: str) -> Iterator[Several | tuple[int, str]]:
    """Rows of many lines in one go; single lines where one of them is not a JSON object.

    `ids_key` : of a list of whole numbers that rows have, which is then read without an object for each; "" for none.
    """
    filled = (each for each in numbered if each[1] and not each[1].isspace())
    cut = re.compile(rf'"{re.escape(ids_key)}"\s*:\s*\[([^][]*)\]') if ids_key else None
    while several := list(islice(filled, TOGETHER)):
        lines, texts = [line for line, _ in several], [text for _, text in several]
        found = (_apart(lines, texts, cut, ids_key) if cut else None) or _together(lines, texts)
        if found:
            yield found
        else:
            yield from several


def _together(lines: list[int], texts: list[str]) -> Several | None:
    """All lines parsed as one array; None where some line is not one object."""
    try:
        rows = json.loads(f"[{','.join(texts)}]")
    except (ValueError, RecursionError):
        return None
    return Several(lines, rows) if len(rows) == len(texts) and set(map(type, rows)) == {dict} else None


def _apart(lines: list[int], texts: list[str], cut: re.Pattern[str], key: str) -> Several | None:
    """Rows whose ids are cut out before they are parsed; None where a row has not exactly one such list."""
    matches = [match for match in map(cut.search, texts) if match]
    if len(matches) < len(texts) or any(text.count(f'"{key}"') != 1 for text in texts):
        return None
    rest = (text[: match.start(1)] + text[match.end(1) :] for text, match in zip(texts, matches, strict=True))
    found = _together(lines, list(rest))
    if found is None or any(row.get(key) != [] for row in found.rows):
        return None
    runs = [match[1] for match in matches]
    sizes = [run.count(",") + 1 if run and not run.isspace() else 0 for run in runs]
    ids = _numbers(",".join(run for run, size in zip(runs, sizes, strict=True) if size))
    return Several(lines, found.rows, (ids, sizes)) if ids is not None and ids.size == sum(sizes) else None


def _numbers(text: str) -> Ids | None:
    """Whole numbers between commas; None where there is anything else."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            values = np.fromstring(text, dtype=np.int64, sep=",")
        except (ValueError, DeprecationWarning):
            return None
    return None if values.size and (values.min() == _BEYOND[0] or values.max() == _BEYOND[1]) else values


def listed_ids(runs: list[Any]) -> tuple[Ids, list[int]] | None:
    """Ids of several rows one after another, and how many each has; None where one is no list of whole numbers."""
    if any(type(run) is not list for run in runs):
        return None
    try:
        ids = array("q", chain.from_iterable(runs))
    except (TypeError, OverflowError):
        return None
    return np.frombuffer(ids, dtype=np.int64), list(map(len, runs))


# --------------------------------------------------------------------------------------------------------------- array


class Elements:
    """Elements of an array that begins with `text`, each with the line it begins on.

    Iterating raises InputError where the array is malformed, ends too early, or is followed by something.
    """

    def __init__(self, source: Lines, line: int, text: str, rest: Numbered) -> None:
        self._path, self._line, self._text, self._rest = source.name, line, text, rest
        self._at = self._counted = text.index("[") + 1
        self._decoder = json.JSONDecoder()

    def __iter__(self) -> Iterator[tuple[int, Any]]:
        sign = self._sign()
        while sign != "]":
            yield self._here(), self._value()
            sign = self._sign()
            if sign == ",":
                self._at += 1
                self._sign()
            elif sign != "]":
                self._refuse(self._at, "want a comma or ]")
        self._at += 1
        if self._sign():
            self._refuse(self._at, "want nothing after the array")

    def _here(self) -> int:
        self._line += self._text.count("\n", self._counted, self._at)
        self._counted = self._at
        return self._line

    def _more(self, until: str = "") -> bool:
        """Takes the next line, or lines up to one that holds `until`; whether there is any."""
        lines = []
        for _, text in self._rest:
            lines.append(text)
            if until in text:
                break
        self._here()
        self._text, self._at, self._counted = "\n".join([self._text[self._at :], *lines]), 0, 0
        return bool(lines)

    def _sign(self) -> str:
        """The character that is next, spaces apart; "" at the end of the file."""
        while True:
            match = _SPACE.match(self._text, self._at)
            self._at = match.end() if match else self._at
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more():
                return ""

    def _value(self) -> Any:
        while True:
            try:
                value, self._at = self._decoder.raw_decode(self._text, self._at)
                return value
            except json.JSONDecodeError as error:
                whole = error.pos < len(self._text.rstrip())
                if whole or not self._more(until="}"):
                    self._refuse(error.pos, "want a JSON object")
            except RecursionError:
                self._refuse(self._at, "want a JSON object")

    def _refuse(self, at: int, want: str) -> NoReturn:
        found = self._text[at : at + 40].strip()
        self._at = max(at, self._counted)
        message = f"breaks off a JSON array with {shown(found)}" if found else "is a JSON array without an end"
        raise InputError([Fault(f"{message}; {want}", self._path, self._here())])
