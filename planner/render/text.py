"""Plain text in columns: cells, bars, wrapped prose. Widths come from the content, nothing is ever cut off.

Escapes are written only when a `Pen` is told to color, characters outside ASCII only when it is told that they can be
shown; neither is looked up here.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from planner import units

LEAST_PROSE = 32  # columns a wrapped last column keeps, however narrow the terminal
UNLIMITED = 1_000_000  # columns of a file or a pipe

_TONES = {"bold": "1", "dim": "2", "good": "32", "close": "33", "bad": "31"}
_ASCII = str.maketrans(
    {
        "×": "x",
        "µ": "u",
        "μ": "u",
        "–": "-",
        "—": "-",
        "−": "-",
        "…": "...",
        "≤": "<=",
        "≥": ">=",
        "§": "section ",
        "’": "'",
        "‘": "'",
        "“": '"',
        "”": '"',
        "·": "*",
        "→": "->",
        "ρ": "rho",
    }
)
_EIGHTHS = " ▏▎▍▌▋▊▉"


@dataclass(frozen=True, slots=True)
class Cell:
    """Text of one column, and how to emphasise it: a tone of bold, dim, good, close, bad; empty for none."""

    text: str
    tone: str = ""


Row = Sequence[str | Cell]


@dataclass(frozen=True, slots=True)
class Pen:
    """What the reader's screen can show, how wide prose may run, and from where tables are folded."""

    width: int = 100
    unicode: bool = True
    color: bool = False
    table_width: int = UNLIMITED

    def paint(self, text: str, tone: str) -> str:
        if not self.color or not tone or not text.strip():
            return text
        return f"\x1b[{_TONES[tone]}m{text}\x1b[0m"

    def heading(self, text: str) -> str:
        return self.paint(text, "bold")

    def bar(self, fraction: float | None, columns: int = 20) -> str:
        """A bar of `fraction` (clipped to 0..1) of `columns`; a share too small to draw leaves it empty."""
        filled = columns * min(max(fraction or 0.0, 0.0), 1.0)
        if not self.unicode:
            return "#" * round(filled)
        eighths = round(filled * 8)
        return ("█" * (eighths // 8) + _EIGHTHS[eighths % 8]).rstrip()

    def finish(self, lines: Sequence[str]) -> str:
        """Lines joined, trailing blanks removed, and made ASCII when nothing else can be shown."""
        text = "\n".join(line.rstrip() for line in lines) + "\n"
        return text if self.unicode else text.translate(_ASCII).encode("ascii", "replace").decode("ascii")


def columns(rows: Sequence[Row], align: str, pen: Pen, *, indent: int = 2, gap: int = 2, keys: int = 1) -> list[str]:
    """Rows as aligned lines. `align` has one letter per column: l, r, or w for a last column that wraps.

    A table that is wider than the screen is folded: into parts that each repeat the first `keys` columns, or with its
    last column below the others.
    """
    cells = [[cell if isinstance(cell, Cell) else Cell(cell) for cell in row] for row in rows]
    widths = [max(len(row[index].text) for row in cells) for index in range(len(align))] if cells else []
    if align.endswith("w"):
        return _with_prose(cells, widths, align, pen, indent, gap)
    return [
        _aligned(
            [row[index] for index in part],
            [widths[index] for index in part],
            [align[i] for i in part],
            pen,
            indent,
            gap,
        ).rstrip()
        for part in _parts(widths, pen.table_width - indent, gap, keys)
        for row in cells
    ]


def _aligned(
    cells: Sequence[Cell], widths: Sequence[int], align: Sequence[str], pen: Pen, indent: int, gap: int
) -> str:
    line = " " * indent
    for cell, width, side in zip(cells, widths, align, strict=True):
        text = cell.text.rjust(width) if side == "r" else cell.text.ljust(width)
        line += pen.paint(text, cell.tone) + " " * gap
    return line


def _parts(widths: Sequence[int], most: int, gap: int, keys: int) -> list[list[int]]:
    """Indices of the columns of each part of a table that is at most `most` wide."""
    first = list(range(min(keys, len(widths))))
    parts, used = [list(first)], sum(widths[index] + gap for index in first)
    begin = used
    for index in range(len(first), len(widths)):
        if used + widths[index] > most and len(parts[-1]) > len(first):
            parts.append(list(first))
            used = begin
        parts[-1].append(index)
        used += widths[index] + gap
    return parts


def _with_prose(
    cells: Sequence[Sequence[Cell]], widths: Sequence[int], align: str, pen: Pen, indent: int, gap: int
) -> list[str]:
    start = indent + sum(width + gap for width in widths[:-1])
    below = start + min(LEAST_PROSE, widths[-1] if widths else 0) > pen.table_width
    hang = indent + 2 if below else start
    lines: list[str] = []
    for row in cells:
        head = _aligned(row[:-1], widths[:-1], align[:-1], pen, indent, gap)
        named = all(cell.tone == "dim" for cell in row)  # names of columns; the prose below needs none
        if start - gap > pen.table_width and len(widths) > 2:  # even the others do not fit beside each other
            if named:
                continue
            said = wrapped("  ".join(cell.text for cell in row if cell.text), pen.table_width - hang)
            lines.extend(" " * (hang if more else indent) + text for more, text in enumerate(said))
            continue
        prose = wrapped(row[-1].text, max(min(pen.width, pen.table_width) - hang, LEAST_PROSE))
        told = [" " * hang + pen.paint(text, row[-1].tone) for text in prose]
        if below or not told:
            lines += [head.rstrip(), *([] if named else told)]
        else:
            lines += [head + told[0].lstrip(" "), *told[1:]]
    return lines


def wrapped(text: str, width: int) -> list[str]:
    """Prose in lines of at most `width`; a longer word (a path, a URL) keeps a line of its own, whole."""
    return textwrap.wrap(text, max(width, 1), break_long_words=False, break_on_hyphens=False)


# -------------------------------------------------------------------------------------------------------------- values

_FORMATS: dict[str, Callable[[float], str]] = {
    "s": units.format_seconds,
    "bytes": units.format_bytes,
    "B": units.format_bytes,
    "bytes/s": units.format_bytes_per_s,
    "B/s": units.format_bytes_per_s,
    "FLOP/s": units.format_flops_per_s,
    "requests/s": units.format_rate,
    "req/s": units.format_rate,
    "/s": units.format_rate,
    "USD": units.format_usd,
    "USD/h": units.format_usd_per_hour,
    "USD/Mtok": units.format_usd_per_mtok,
    "W": units.format_watts,
    "fraction": units.format_fraction,
    "1": units.format_fraction,
    "": units.format_count,
}


_WORDS = {"ttft": "TTFT", "itl": "ITL", "tpot": "TPOT", "e2e": "E2E", "kv": "KV", "p99_9": "p99.9"}


def value_text(value: float | None, unit: str, missing: str = "-") -> str:
    """A value of the result document as people read it; `missing` where there is none."""
    if value is None:
        return missing
    known = _FORMATS.get(unit)
    return known(value) if known else f"{units.format_count(value)} {unit}"


def seconds_text(seconds: float | None, missing: str = "unbounded") -> str:
    """A latency; the document holds null where nothing bounds it."""
    return value_text(seconds, "s", missing)


def percent_text(fraction: float | None, *, sign: bool = False) -> str:
    if fraction is None:
        return "-"
    return f"{100 * fraction:+.0f}%" if sign else f"{100 * fraction:.0f}%"


def name_text(name: str) -> str:
    """A field name as words: ``ttft_s`` is TTFT, ``p99_9`` is p99.9, ``first_step`` is first step."""
    bare = name.removesuffix("_s").removesuffix("_bytes")
    return _WORDS.get(bare, bare.replace("_", " "))


def unit_words(text: str) -> str:
    """Words of a name with units and abbreviations as they are written: USD, Mtok, KV."""
    for word in ("KV", "USD", "Mtok"):
        text = re.sub(rf"\b{word.lower()}\b", word, text)
    return text


_CITED = re.compile(r"\b(?:FIDELITY|MODELLING|QUEUEING|PUBLISHED|HOUSE|PEERS) §[\d.]*\d")


def sources_line(text: str) -> list[str]:
    """Where to look up the sections that a text cites; empty where it cites none."""
    found = _CITED.search(text)
    return [f"{found[0]} and its like: docs/sources.md of the project"] if found else []
