"""Request traces: arrival times and lengths from public formats, told apart by their columns.

A row without output is a failed request: it is dropped and counted. Times that come in ticks are spread evenly over
their tick, because sixteen requests that share a three-second tick did not arrive at one instant.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from planner.errors import Fault, InputError
from planner.files.lengths import from_rows
from planner.files.reading import decode, read_bytes, sha256
from planner.records import Arrivals, Floats, Lengths, Note
from planner.units import format_rate, format_seconds, shown

MOST_BYTES = 2_000_000_000
_MOST_FAULTS = 10
_MOST_TOKENS = 1e9
_MOST_TIME_S = 1e12


class Trace(NamedTuple):
    """A read trace. `arrivals` is None for a list of lengths without times."""

    arrivals: Arrivals | None
    lengths: Lengths
    notes: tuple[Note, ...]
    sha256: str


@dataclass(frozen=True, slots=True)
class _Format:
    """A known set of columns. `time` is "" where the format has lengths only."""

    name: str
    time: str
    input: str
    output: str
    seconds: Callable[[Any], Any]  # of the time column: float seconds, or an instant


def load_trace(path: Path) -> Trace:
    """Read a trace of requests.

    Formats: Azure 2023, 2024 and 2025 CSV, BurstGPT v1 and v2 CSV, Vidur CSV, ``time_s,input_tokens,output_tokens``
    CSV, Mooncake and RAGPulse JSON lines, and CSV with lengths only.

    Returns
    -------
    Trace
        Arrivals in seconds from the first request, in time order; the law of lengths; notes on what was repaired.

    Raises
    ------
    InputError
        When the file cannot be read as one of these; every malformed row up to ten with its line, then their number.
    """
    data = read_bytes(path, MOST_BYTES)
    name = str(path)
    text = decode(data, name)
    if not text.strip():
        raise InputError([Fault("is empty; want a trace of requests", name)])
    form, rows = _json_rows(text, name) if text.lstrip()[0] in "{[" else _csv_rows(text, name)
    time_s, inputs, outputs = _columns(form, rows, name)
    notes = _dropped(inputs, outputs, name)
    served = (inputs > 0) & (outputs > 0)
    inputs, outputs = inputs[served], outputs[served]
    lengths = from_rows(inputs, outputs)
    if not form.time:
        notes.insert(0, Note("info", f"trace {path.name}: {inputs.size:,} requests, lengths only"))
        return Trace(None, lengths, tuple(notes), sha256(data))
    arrivals, repairs = _arrivals(time_s[served], inputs, outputs, name)
    summary = (
        f"trace {path.name} ({form.name}): {inputs.size:,} requests in {format_seconds(arrivals.duration_s)}, "
        f"{format_rate(rate_per_s(arrivals))}, mean input {inputs.mean():,.0f} and output {outputs.mean():,.0f} tokens"
    )
    return Trace(arrivals, lengths, (Note("info", summary), *notes, *repairs), sha256(data))


def rate_per_s(arrivals: Arrivals) -> float:
    """Requests per second between the first and the last arrival: (n - 1) / duration."""
    return (arrivals.time_s.size - 1) / arrivals.duration_s


def rescaled(arrivals: Arrivals, requests_per_s: float) -> Arrivals:
    """The same requests with time stretched evenly so that they arrive at `requests_per_s`."""
    factor = rate_per_s(arrivals) / requests_per_s
    return Arrivals(
        arrivals.time_s * factor, arrivals.input_tokens, arrivals.output_tokens, arrivals.duration_s * factor
    )


# ------------------------------------------------------------------------------------------------------------- rows

# A row is its line and the cells of the three columns as they stand in the file, or its line and what is wrong.
_Row = tuple[int, tuple[Any, Any, Any] | str]


def _csv_rows(text: str, path: str) -> tuple[_Format, Iterator[_Row]]:
    rows = _csv_lines(text, path)
    line, header = next(rows)
    header = [column.strip() for column in header]
    form = next((known for known in _CSV_FORMATS if _needed(known) <= set(header)), None)
    if form is None:
        columns = ", ".join(header)
        raise InputError([Fault(f"no known trace has the columns {shown(columns)}; known: {KNOWN}", path, line)])
    return form, _csv_cells(rows, header, form)


def _csv_lines(text: str, path: str) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(io.StringIO(text, newline=""))
    try:
        for row in reader:
            if row:
                yield reader.line_num, row
    except csv.Error as error:
        raise InputError([Fault(f"is not CSV: {error}", path, reader.line_num)]) from None


def _csv_cells(rows: Iterator[tuple[int, list[str]]], header: list[str], form: _Format) -> Iterator[_Row]:
    time_at, input_at, output_at = (header.index(column) if column else 0 for column in _columns_of(form))
    needed = max(time_at, input_at, output_at) + 1
    for line, row in rows:
        if len(row) < needed:
            yield line, f"has {len(row)} columns; want {len(header)}"
        else:
            yield line, (row[time_at], row[input_at], row[output_at])


def _json_rows(text: str, path: str) -> tuple[_Format, Iterator[_Row]]:
    lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    number, line = lines[0]
    first = _json_object(line)
    if first is None:
        raise InputError([Fault("is not JSON lines; want one JSON object a line", path, number)])
    if not _needed(_MOONCAKE) <= first.keys():
        keys = ", ".join(first)
        raise InputError([Fault(f"no known trace has the keys {shown(keys)}; known: {KNOWN}", path, number)])
    form = _RAGPULSE if isinstance(first["timestamp"], str) else _MOONCAKE
    return form, ((number, _json_cells(line, form)) for number, line in lines)


def _json_cells(line: str, form: _Format) -> tuple[Any, Any, Any] | str:
    row = _json_object(line)
    if row is None:
        return f"{shown(line)} is not a JSON object"
    return row.get(form.time), row.get(form.input), row.get(form.output)


def _json_object(line: str) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None


def _columns_of(form: _Format) -> tuple[str, str, str]:
    return form.time, form.input, form.output


def _needed(form: _Format) -> set[str]:
    return set(_columns_of(form)) - {""}


# ---------------------------------------------------------------------------------------------------------- columns


def _columns(form: _Format, rows: Iterable[_Row], path: str) -> tuple[Floats, Floats, Floats]:
    """Seconds (from the first row), input and output tokens, in file order; every malformed row is a fault."""
    times: list[Any] = []
    inputs: list[float] = []
    outputs: list[float] = []
    faults: list[Fault] = []
    for line, cells in rows:
        try:
            if isinstance(cells, str):
                raise ValueError(cells)
            time = form.seconds(cells[0]) if form.time else 0.0
            tokens = _tokens(cells[1]), _tokens(cells[2])
        except (ValueError, TypeError, OverflowError):
            faults.append(Fault(cells if isinstance(cells, str) else _cell_fault(form, cells), path, line))
            continue
        times.append(time)
        inputs.append(tokens[0])
        outputs.append(tokens[1])
    if faults:
        more = len(faults) - _MOST_FAULTS
        raise InputError([*faults[:_MOST_FAULTS], *([Fault(f"and {more:,} more malformed rows", path)] * (more > 0))])
    if not times:
        raise InputError([Fault("holds no requests, only a header", path)])
    if form.seconds is _instant:
        times = [(time - times[0]).total_seconds() for time in times]
    return np.array(times, dtype=float), np.array(inputs), np.array(outputs)


def _tokens(cell: Any) -> float:
    tokens = float(cell)
    if isinstance(cell, bool) or not 0 <= tokens <= _MOST_TOKENS or tokens != int(tokens):
        raise ValueError(cell)
    return tokens


def _seconds(cell: Any) -> float:
    seconds = float(cell)
    if isinstance(cell, bool) or not abs(seconds) <= _MOST_TIME_S:
        raise ValueError(cell)
    return seconds


def _milliseconds(cell: Any) -> float:
    return _seconds(cell) / 1e3


def _instant(cell: Any) -> datetime:
    instant = datetime.fromisoformat(cell.strip())
    return instant if instant.tzinfo else instant.replace(tzinfo=UTC)


def _cell_fault(form: _Format, cells: tuple[Any, Any, Any]) -> str:
    """What is wrong with the first bad cell of a row."""
    want_time = "a time such as 2024-05-10 00:00:00.25" if form.seconds is _instant else "a finite number"
    for column, cell, read, want in (
        (form.time, cells[0], form.seconds, want_time),
        (form.input, cells[1], _tokens, "a whole number of tokens"),
        (form.output, cells[2], _tokens, "a whole number of tokens"),
    ):
        try:
            if column:
                read(cell)
        except (ValueError, TypeError, OverflowError):
            return f"{column} is {shown(cell)}; want {want}"
    return "is malformed"


# ----------------------------------------------------------------------------------------------------------- repair


def _dropped(inputs: Floats, outputs: Floats, path: str) -> list[Note]:
    """Notes on requests without output or without prompt, which are left out."""
    served = (inputs > 0) & (outputs > 0)
    if not served.any():
        raise InputError([Fault(f"none of its {served.size:,} requests has output tokens (0 means it failed)", path)])
    failed, unprompted = int((outputs == 0).sum()), int(((inputs == 0) & (outputs > 0)).sum())
    notes = []
    if failed:
        share = f"{failed:,} of {served.size:,} requests have no output tokens"
        notes.append(Note("caution", f"{share}: taken as failed and left out"))
    if unprompted:
        notes.append(
            Note("caution", f"{unprompted:,} of {served.size:,} requests have no input tokens and are left out")
        )
    return notes


def _arrivals(time_s: Floats, inputs: Floats, outputs: Floats, path: str) -> tuple[Arrivals, list[Note]]:
    """Requests in time order from 0, ties spread over their tick, and what was repaired."""
    notes = []
    late = int((np.diff(time_s) < 0).sum())
    if late:
        order = np.argsort(time_s, kind="stable")
        time_s, inputs, outputs = time_s[order], inputs[order], outputs[order]
        notes.append(Note("info", f"{late:,} rows stand before an earlier one; sorted by time"))
    time_s = time_s - time_s[0]
    if time_s.size < 2:
        raise InputError([Fault("holds one served request; want at least 2 to know their rate", path)])
    if time_s[-1] == 0:
        raise InputError([Fault(f"its {time_s.size:,} requests all have one time, so they have no rate", path)])
    spread_s, tied, tick_s = spread_ties(time_s)
    if tied:
        share = f"{tied:,} of {time_s.size:,} requests share a time with another"
        notes.append(Note("info", f"{share}; spread evenly over the tick of {format_seconds(tick_s)}"))
    return Arrivals(spread_s, inputs, outputs, float(spread_s[-1] - spread_s[0])), notes


def spread_ties(time_s: Floats) -> tuple[Floats, int, float]:
    """Times in order with equal ones spread evenly over the tick they came in.

    The tick is the smallest step between two different times: k requests at t become t, t + tick/k, … and stay before
    the next different time.

    Returns
    -------
    tuple
        New times, the number of requests that shared a time, the tick (s).
    """
    distinct_s, first, counts = np.unique(time_s, return_index=True, return_counts=True)
    tick_s = float(np.diff(distinct_s).min())
    place = np.arange(time_s.size) - np.repeat(first, counts)
    return time_s + tick_s * place / np.repeat(counts, counts), int(counts[counts > 1].sum()), tick_s


# ---------------------------------------------------------------------------------------------------------- formats

_CSV_FORMATS = (
    _Format("Azure", "TIMESTAMP", "ContextTokens", "GeneratedTokens", _instant),
    _Format("BurstGPT", "Timestamp", "Request tokens", "Response tokens", _seconds),
    _Format("Vidur", "arrived_at", "num_prefill_tokens", "num_decode_tokens", _seconds),
    _Format("plain", "time_s", "input_tokens", "output_tokens", _seconds),
    _Format("lengths only", "", "num_prefill_tokens", "num_decode_tokens", _seconds),
    _Format("lengths only", "", "input_tokens", "output_tokens", _seconds),
)
_MOONCAKE = _Format("Mooncake", "timestamp", "input_length", "output_length", _milliseconds)
_RAGPULSE = _Format("RAGPulse", "timestamp", "input_length", "output_length", _seconds)
KNOWN = "; ".join(
    f"{known.name} ({', '.join(filter(None, (known.time, known.input, known.output)))})"
    for known in (*_CSV_FORMATS, _MOONCAKE)
)
