"""Rows gathered piece by piece into arrays; malformed ones become faults with their lines."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.errors import Fault, InputError
from planner.files.traces.formats import MOST_TIME_S, MOST_TOKENS, Format, milliseconds, seconds, tokens
from planner.files.traces.json_rows import Several
from planner.records import Floats, Note
from planner.units import shown

Ints = NDArray[np.integer[Any]]

_PIECE, _PIECE_IDS = 10_000, 1_000_000  # rows and ids that are converted at once
_MOST_FAULTS = 10

Cells = tuple[Any, Any, Any]  # of the time, input and output columns


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """What one file holds, in its own order. `time_s` is 0 throughout where the format has none."""

    form: Format
    path: str
    sha256: str
    time_s: Floats
    input_tokens: Floats
    output_tokens: Floats
    lines: Ints
    blocks: Ints | None = None
    sizes: Ints | None = None  # blocks of each row
    block_tokens: int | None = None  # where the file itself states it
    cached_tokens: Floats | None = None
    local_ids: bool = False  # block ids mean something in this file only
    notes: tuple[Note, ...] = ()


@dataclass(slots=True)
class Gatherer:
    """Takes rows one by one; `done` gives them as arrays, or raises every fault found."""

    form: Format
    path: str
    has_ids: bool = False
    cells: list[Cells] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    cached: list[Any] = field(default_factory=list)
    ids: array[int] = field(default_factory=lambda: array("q"))
    packed: array[int] = field(default_factory=lambda: array("i"))  # the ids before; of type q where some do not fit
    sizes: array[int] = field(default_factory=lambda: array("q"))
    pieces: list[tuple[Floats, Floats, Floats, Ints]] = field(default_factory=list)
    cached_pieces: list[Floats] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    faulty: int = 0

    def add(self, line: int, cells: Cells, ids: Any = None, cached: Any = None) -> None:
        """One row; `ids` is a list of whole numbers, or what stands in its place."""
        if self.has_ids and not self._add_ids(line, ids):
            return
        self.cells.append(cells)
        self.lines.append(line)
        if self.form.cached:
            self.cached.append(cached)
        if len(self.cells) >= _PIECE:
            self._convert()

    def extend(self, found: Several) -> None:
        """Several rows in one go; where there are ids, they stand apart."""
        form = self.form
        self.cells += [(row.get(form.time), row.get(form.input), row.get(form.output)) for row in found.rows]
        self.lines += found.lines
        if form.cached:
            self.cached += [row.get(form.cached) for row in found.rows]
        if found.ids is not None:
            self._pack()
            self._append(found.ids[0])
            self.sizes.extend(found.ids[1])
        if len(self.cells) >= _PIECE:
            self._convert()

    def fault(self, line: int, message: str) -> None:
        self.faulty += 1
        if len(self.faults) < _MOST_FAULTS:
            self.faults.append(Fault(message, self.path, line))

    def done(self, sha256: str, block_tokens: int | None = None, *, local_ids: bool = False) -> Rows:
        """All rows. Raises InputError with up to ten faults and the number of the others, or when there is no row."""
        self._convert()
        self._pack()
        if self.faulty:
            found = sorted(self.faults, key=lambda fault: fault.line)
            more = self.faulty - len(found)
            raise InputError([*found, *([Fault(f"and {more:,} more malformed rows", self.path)] * (more > 0))])
        if not self.pieces:
            raise InputError([Fault("holds no requests, only a header", self.path)])
        time_s, inputs, outputs, lines = (np.concatenate(part) for part in zip(*self.pieces, strict=True))
        return Rows(
            form=self.form,
            path=self.path,
            sha256=sha256,
            time_s=time_s,
            input_tokens=inputs,
            output_tokens=outputs,
            lines=lines,
            blocks=np.frombuffer(self.packed, dtype=f"i{self.packed.itemsize}") if self.packed else None,
            sizes=np.array(self.sizes, dtype=np.int32) if self.packed else None,
            block_tokens=block_tokens,
            cached_tokens=np.concatenate(self.cached_pieces) if self.form.cached else None,
            local_ids=local_ids,
        )

    def _add_ids(self, line: int, ids: Any) -> bool:
        before = len(self.ids)
        if before >= _PIECE_IDS:
            self._pack()
            before = 0
        try:
            self.ids.fromlist(ids)
        except (TypeError, OverflowError):
            self.fault(line, f"{self.form.ids} is {shown(ids)}; want a list of whole numbers")
            return False
        self.sizes.append(len(self.ids) - before)
        return True

    def _pack(self) -> None:
        """The ids of rows that came one by one."""
        if self.ids:
            self._append(np.array(self.ids, dtype=np.int64))
            self.ids = array("q")

    def _append(self, ids: Ints) -> None:
        """Kept in one growing array, of four bytes each where they fit: no second copy is ever made."""
        kind = np.iinfo(np.int32)
        if self.packed.typecode == "i" and ids.size and (ids.min() < kind.min or ids.max() > kind.max):
            self.packed = array("q", self.packed)
        self.packed.frombytes(ids.astype(f"i{self.packed.itemsize}").tobytes())

    def _convert(self) -> None:
        """The rows waiting, all at once; one by one where some cannot be read."""
        if not self.cells:
            return
        try:
            self.pieces.append(self._together())
            if self.form.cached:
                self.cached_pieces.append(_token_column(self.cached))
        except (ValueError, TypeError, OverflowError, AttributeError):
            self._name_faults()
        self.cells, self.lines, self.cached = [], [], []

    def _together(self) -> tuple[Floats, Floats, Floats, Ints]:
        times, inputs, outputs = zip(*self.cells, strict=True)
        lines = np.array(self.lines, dtype=np.int32)
        return self._times(times), _token_column(inputs), _token_column(outputs), lines

    def _times(self, cells: tuple[Any, ...]) -> Floats:
        if not self.form.time:
            return np.zeros(len(cells))
        if self.form.seconds in (seconds, milliseconds):
            time = _numbers(cells)
            if not np.all(np.abs(time) <= MOST_TIME_S):
                raise ValueError("a time is out of range")
            return time if self.form.seconds is seconds else time / 1e3
        return np.array([self.form.seconds(cell) for cell in cells], dtype=float)

    def _name_faults(self) -> None:
        for place, (line, cells) in enumerate(zip(self.lines, self.cells, strict=True)):
            try:
                (self.form.seconds(cells[0]) if self.form.time else 0.0, tokens(cells[1]), tokens(cells[2]))
            except (ValueError, TypeError, OverflowError, AttributeError):
                column, cell, want = self.form.fault(cells)
                self.fault(line, f"{column} is {shown(cell)}; want {want}")
                continue
            if self.form.cached:
                self._name_cached(line, self.cached[place])

    def _name_cached(self, line: int, cell: Any) -> None:
        try:
            tokens(cell)
        except (ValueError, TypeError, OverflowError):
            self.fault(line, f"{self.form.cached} is {shown(cell)}; want a whole number of tokens")


def _token_column(cells: Any) -> Floats:
    """Whole numbers of tokens; ValueError, TypeError or OverflowError when one is none."""
    values = _numbers(cells)
    if not np.all((values >= 0) & (values <= MOST_TOKENS) & (values == np.floor(values))):
        raise ValueError("a number of tokens is out of range")
    return values


def _numbers(cells: Any) -> Floats:
    if bool in set(map(type, cells)):
        raise TypeError("a truth value is no number")
    return np.array(cells, dtype=float)
