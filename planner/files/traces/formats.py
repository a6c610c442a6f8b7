"""What each public trace format calls its columns, and how a cell of it becomes a number."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

MOST_TOKENS = 1e9
MOST_TIME_S = 1e12


@dataclass(frozen=True, slots=True)
class Format:
    """A known set of columns. `time` is "" where the format has lengths only."""

    name: str
    time: str
    input: str
    output: str
    seconds: Callable[[Any], float]  # of the time column
    ids: str = ""  # block ids of the prompt
    cached: str = ""  # prompt tokens that a provider's cache gave

    @property
    def columns(self) -> tuple[str, str, str]:
        return self.time, self.input, self.output

    @property
    def needed(self) -> set[str]:
        return set(self.columns) - {""}

    def fault(self, cells: tuple[Any, Any, Any]) -> tuple[str, Any, str]:
        """The first cell that cannot be read: its column, what it holds, what is wanted."""
        want_time = "a time such as 2024-05-10 00:00:00.25" if self.seconds is instant_s else "a finite number"
        for column, cell, read, want in (
            (self.time, cells[0], self.seconds, want_time),
            (self.input, cells[1], tokens, "a whole number of tokens"),
            (self.output, cells[2], tokens, "a whole number of tokens"),
        ):
            try:
                if column:
                    read(cell)
            except (ValueError, TypeError, OverflowError, AttributeError):
                return column, cell, want
        raise ValueError("every cell can be read")


def tokens(cell: Any) -> float:
    """A number of tokens. Raises ValueError, TypeError or OverflowError when `cell` is none."""
    value = float(cell)
    if isinstance(cell, bool) or not 0 <= value <= MOST_TOKENS or value != int(value):
        raise ValueError(cell)
    return value


def seconds(cell: Any) -> float:
    value = float(cell)
    if isinstance(cell, bool) or not abs(value) <= MOST_TIME_S:
        raise ValueError(cell)
    return value


def milliseconds(cell: Any) -> float:
    return seconds(cell) / 1e3


def instant_s(cell: Any) -> float:
    """Seconds from 1970 of an ISO time; one without a zone is taken as UTC."""
    instant = datetime.fromisoformat(cell.strip())
    return (instant if instant.tzinfo else instant.replace(tzinfo=UTC)).timestamp()


def first_event_s(cell: Any) -> float:
    """Time of the first of a list of events: what came in, to which the round answers."""
    try:
        return instant_s(cell[0]["timestamp"])
    except (KeyError, IndexError):
        raise ValueError(cell) from None


CSV_FORMATS = (
    Format("Azure", "TIMESTAMP", "ContextTokens", "GeneratedTokens", instant_s),
    Format("BurstGPT", "Timestamp", "Request tokens", "Response tokens", seconds),
    Format("Vidur", "arrived_at", "num_prefill_tokens", "num_decode_tokens", seconds),
    Format("plain", "time_s", "input_tokens", "output_tokens", seconds),
    Format("Mooncake", "timestamp", "input_length", "output_length", milliseconds),
    Format("lengths only", "", "num_prefill_tokens", "num_decode_tokens", seconds),
    Format("lengths only", "", "input_tokens", "output_tokens", seconds),
)
MOONCAKE = Format("Mooncake", "timestamp", "input_length", "output_length", milliseconds, ids="hash_ids")
RAGPULSE = Format("RAGPulse", "timestamp", "input_length", "output_length", seconds, ids="hash_ids")
TRACELAB = Format(
    "TraceLab", "timing_events", "input_tokens_total", "output_tokens", first_event_s, cached="prefix_tokens"
)
SESSION = Format("sessions", "t", "in", "out", seconds, ids="hash_ids")
SERVEGEN = Format("ServeGen", "window start", "input_tokens", "output_tokens", seconds)
RAGPULSE_SEGMENTS = ("sys_prompt", "passages_ids", "history", "web_search", "user_input")

_JSON_COLUMNS = {*MOONCAKE.columns, MOONCAKE.ids, *TRACELAB.columns, TRACELAB.cached}

KNOWN = "; ".join(
    [
        *dict.fromkeys(
            f"{known.name} ({', '.join(filter(None, known.columns))})" for known in (*CSV_FORMATS, MOONCAKE, TRACELAB)
        ),
        "agent sessions (one JSON object with requests: t, in, out)",
        "ServeGen (NAME-trace.csv beside NAME-dataset.json)",
    ]
)


def bare(column: str) -> str:
    """A column's name without case, spaces, dashes and underscores: names that agree in the rest are one."""
    return re.sub(r"[\s_-]+", "", column).casefold()


def matching_csv(header: Iterable[str]) -> Format | None:
    names = set(map(bare, header))
    return next((known for known in CSV_FORMATS if set(map(bare, known.needed)) <= names), None)


def matching_json(first: dict[str, Any]) -> Format | None:
    """The format of a row whose keys are spelled as `renamed` says."""
    if first.keys() >= TRACELAB.needed:
        return TRACELAB
    if first.keys() >= MOONCAKE.needed:
        segments = isinstance(first.get(RAGPULSE.ids), dict) or isinstance(first["timestamp"], str)
        return RAGPULSE if segments else MOONCAKE
    return None


def renamed(first: dict[str, Any]) -> dict[str, str]:
    """Keys of a row that are those of a format in another spelling, and what the format calls them."""
    known = {bare(name): name for name in _JSON_COLUMNS if name not in first}
    return {key: known[bare(key)] for key in first if bare(key) in known}
