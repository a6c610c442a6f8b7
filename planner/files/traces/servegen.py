"""ServeGen clients: not requests but rates and laws per window, from which requests are drawn, always the same ones.

`NAME-trace.csv` has a row per window: start (s), rate (1/s), CV of the gaps, Gamma or Weibull, and two parameters of
which the first is the shape. `NAME-dataset.json` has the histograms of prompt and output lengths by window start.
"""

from __future__ import annotations

import ast
import json
from itertools import pairwise
from math import gamma
from pathlib import Path
from typing import Any

import numpy as np

from planner.errors import Fault, InputError
from planner.files.reading import decode, read_bytes, sha256
from planner.files.traces.formats import SERVEGEN, seconds
from planner.files.traces.json_rows import Numbered
from planner.files.traces.rows import Rows
from planner.files.traces.source import Lines
from planner.files.traces.tables import split_csv
from planner.records import Floats, Note
from planner.units import shown

SEED = 0
MOST_REQUESTS = 1_000_000
_COLUMNS = 6
_MOST_BYTES = 200_000_000
_LAWS = ("Gamma", "Weibull")

Law = tuple[Floats, Floats]  # lengths and probabilities
_Window = tuple[float, float, str, float]  # start (s), rate (1/s), law of gaps, its shape


def is_servegen(cells: list[str]) -> bool:
    """Whether a first line is a window rather than a header."""
    try:
        return len(cells) == _COLUMNS and all(seconds(cell) >= 0 for cell in cells[:3])
    except ValueError:
        return False


def read_servegen(source: Lines, path: Path, first_line: int, first: str, rest: Numbered) -> Rows:
    """Requests drawn from a client's windows."""
    windows = _windows(source, first_line, first, rest)
    laws, checksum = _lengths(path)
    draw = np.random.default_rng(SEED)
    starts = np.array([window[0] for window in windows])
    lasts_s = float(np.diff(starts).min()) if starts.size > 1 else 600.0
    expected = np.cumsum([window[1] * lasts_s for window in windows])
    kept = windows[: int(np.searchsorted(expected, MOST_REQUESTS)) + 1]
    time_s = np.concatenate([_arrivals(window, lasts_s, draw) for window in kept])
    if not time_s.size:
        raise InputError([Fault("holds no requests: its rates are 0 throughout", source.name)])
    inputs, outputs = (_drawn(laws, name, time_s, draw) for name in ("input_tokens", "output_tokens"))
    text = f"{path.name} holds rates and laws, no requests: {time_s.size:,} are drawn from them with seed {SEED}"
    notes = [Note("info", f"{text}; prompt and output lengths are drawn independently")]
    if len(kept) < len(windows):
        notes.append(Note("caution", f"{path.name} is drawn up to {MOST_REQUESTS:,} requests, not to its end"))
    lines = np.zeros(time_s.size, dtype=np.int64)
    both = sha256(f"{source.sha256}{checksum}".encode())
    return Rows(SERVEGEN, source.name, both, time_s, inputs, outputs, lines, notes=tuple(notes))


def _windows(source: Lines, first_line: int, first: str, rest: Numbered) -> list[_Window]:
    windows: list[_Window] = []
    faults: list[Fault] = []
    for line, text in [(first_line, first), *rest]:
        if not text.strip():
            continue
        cells = split_csv(text, source.name, line)
        if not is_servegen(cells):
            faults.append(
                Fault(f"{shown(text)} is no window: start, rate, CV, law and two parameters", source.name, line)
            )
            continue
        start_s, rate, law = float(cells[0]), float(cells[1]), cells[3].strip()
        if windows and start_s <= windows[-1][0]:
            faults.append(Fault(f"window {start_s:g} does not start after the one before", source.name, line))
        if rate > 0.0:
            faults += _wrong_law(law, cells[4], source.name, line)
        windows.append((start_s, rate, law, seconds(cells[4]) if not faults else 1.0))
    if faults:
        raise InputError(faults[:10])
    return windows


def _wrong_law(law: str, shape: str, path: str, line: int) -> list[Fault]:
    try:
        if law in _LAWS and 0.01 <= float(shape) <= 1e6:
            return []
    except ValueError:
        pass
    return [Fault(f"{law} of shape {shape} is no law of gaps; want Gamma or Weibull and a positive shape", path, line)]


def _arrivals(window: _Window, lasts_s: float, draw: np.random.Generator) -> Floats:
    """Times of a renewal stream of the window's mean gap and shape, from a random phase."""
    start_s, rate, law, shape = window
    if rate <= 0.0:
        return np.empty(0)
    pieces: list[Floats] = []
    reached_s = -draw.random() / rate
    while reached_s < lasts_s:
        count = int(rate * lasts_s) + 16
        shapes = draw.gamma(shape, 1.0 / shape, count) if law == "Gamma" else draw.weibull(shape, count)
        gaps_s = shapes / rate if law == "Gamma" else shapes / (gamma(1.0 + 1.0 / shape) * rate)
        times_s = reached_s + np.cumsum(gaps_s)
        pieces.append(times_s)
        reached_s = float(times_s[-1])
    times_s = np.concatenate(pieces)
    return np.asarray(start_s + times_s[(times_s >= 0.0) & (times_s < lasts_s)], dtype=float)


# --------------------------------------------------------------------------------------------------------- lengths


def _lengths(path: Path) -> tuple[dict[str, list[tuple[float, Law]]], str]:
    """Laws of each column by the start of their window, and the checksum of the file."""
    beside = path.with_name(path.name.removesuffix("-trace.csv") + "-dataset.json")
    if not path.name.endswith("-trace.csv") or not beside.exists():
        message = "has ServeGen's windows, whose lengths stand in NAME-dataset.json beside NAME-trace.csv: not found"
        raise InputError([Fault(message, str(path))])
    data = read_bytes(beside, _MOST_BYTES)
    try:
        document = json.loads(decode(data, str(beside)))
        laws = {name: _laws(document, name) for name in ("input_tokens", "output_tokens")}
    except (ValueError, TypeError, KeyError, AttributeError, SyntaxError, RecursionError, MemoryError) as error:
        if isinstance(error, InputError):
            raise
        message = 'is not {window start: {"input_tokens": "{tokens: probability}", "output_tokens": ...}}'
        raise InputError([Fault(message, str(beside))]) from None
    return laws, sha256(data)


def _laws(document: dict[str, dict[str, str]], name: str) -> list[tuple[float, Law]]:
    """Histograms that are not empty, in order of time."""
    found = []
    for start, columns in document.items():
        histogram: dict[int, float] = ast.literal_eval(columns[name])
        if histogram:
            lengths = np.array(list(histogram), dtype=float)
            shares = np.array(list(histogram.values()), dtype=float)
            if not (np.all(lengths >= 0) and np.all(shares >= 0) and shares.sum() > 0):
                raise ValueError(f"{name} of window {start} is no histogram")
            found.append((float(start), (lengths, shares / shares.sum())))
    if not found:
        raise ValueError(f"{name} is empty in every window")
    return sorted(found, key=lambda item: item[0])


def _drawn(laws: dict[str, list[tuple[float, Law]]], name: str, time_s: Floats, draw: np.random.Generator) -> Floats:
    """A length for each request, from the law of the latest window that has one, or else the first."""
    starts = np.array([start for start, _ in laws[name]])
    which = np.maximum(np.searchsorted(starts, time_s, side="right") - 1, 0)
    drawn = np.empty(time_s.size)
    cuts = np.flatnonzero(np.diff(which)) + 1
    for low, high in pairwise([0, *cuts.tolist(), time_s.size]):
        lengths, shares = laws[name][which[low]][1]
        places = np.searchsorted(np.cumsum(shares), draw.random(high - low), side="right")
        drawn[low:high] = lengths[np.minimum(places, lengths.size - 1)]
    return drawn


def columns_of(document: dict[str, Any]) -> bool:
    """Whether a JSON document is a ServeGen data set."""
    first = next(iter(document.values()), None)
    return isinstance(first, dict) and {"input_tokens", "output_tokens"} <= first.keys()
