"""Kinds of picture: lines over an axis, bars by name, and a heat map with contours. Records of numbers in, SVG out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from planner.render.svg import (
    BLUE,
    DASHES,
    INK,
    PALETTE,
    PAPER,
    SMALL_PX,
    TEXT_PX,
    Axis,
    Entry,
    Frame,
    framed,
    text_width_px,
    tick_text,
)

LEGEND_PX = 232.0
Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Series:
    """One named line through points; None as a value breaks it. Colors and dashes go by position."""

    name: str
    points: Sequence[tuple[float, float | None]]
    marks: bool = False


@dataclass(frozen=True, slots=True)
class Note:
    """Text at a point of the plot, with a dot."""

    x: float
    y: float
    text: str


def line_chart(
    title: str,
    x: Axis,
    y: Axis,
    series: Sequence[Series],
    *,
    notes: Sequence[Note] = (),
    subtitle: str = "",
    source: str = "",
) -> str:
    """Lines over an axis, named in a legend on the right where there is more than one."""
    many = len(series) > 1
    description = f"{y.title} over {x.title}: {', '.join(one.name for one in series)}"
    frame = framed(title, description, x, y, subtitle=subtitle, source=source, legend_px=LEGEND_PX if many else 0.0)
    frame.draw()
    entries = []
    for index, one in enumerate(series):
        color, dash = PALETTE[index % len(PALETTE)], DASHES[index % len(DASHES)]
        for part in _unbroken(frame, one.points):
            frame.canvas.line([frame.at(*point) for point in part], color, dash=dash)
            for point in part if one.marks or len(part) == 1 else ():
                frame.canvas.dot(*frame.at(*point), color)
        entries.append(Entry(one.name, color, "line", dash))
    _note(frame, notes)
    if many:
        frame.canvas.legend(frame.left + frame.width + 24.0, frame.top + 14.0, entries, LEGEND_PX - 20.0)
    return frame.canvas.document()


def _unbroken(frame: Frame, points: Sequence[tuple[float, float | None]]) -> list[list[Point]]:
    """Runs of points inside the frame, cut where it ends."""
    runs: list[list[Point]] = [[]]
    for x, y in points:
        if y is None or not frame.inside(x, y):
            runs.append([])
        else:
            runs[-1].append((x, y))
    return [run for run in runs if run]


def _note(frame: Frame, notes: Sequence[Note]) -> None:
    for note in notes:
        across, down = frame.at(note.x, note.y)
        left = across + 14.0 + text_width_px(note.text) > frame.left + frame.width
        frame.canvas.dot(across, down, INK)
        side = ("end", -12.0) if left else ("start", 12.0)
        frame.canvas.text(across + side[1], down - 10.0, note.text, anchor=side[0], halo=True)


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar: its parts add up from the left, each a name and a length; `text` stands at its end."""

    name: str
    parts: Sequence[tuple[str, float]]
    text: str = ""


def bar_chart(title: str, label: str, unit: str, bars: Sequence[Bar], *, subtitle: str = "", source: str = "") -> str:
    """Bars from the left, one below the other, of one part or of several that a legend names."""
    parts = list(dict.fromkeys(name for bar in bars for name, _ in bar.parts))
    longest = max((sum(length for _, length in bar.parts) for bar in bars), default=0.0)
    x = Axis(label, unit, 0.0, longest * 1.15 or 1.0)
    names = max((text_width_px(bar.name) for bar in bars), default=0.0)
    described = "; ".join(f"{bar.name} {tick_text(sum(length for _, length in bar.parts))} {unit}" for bar in bars)
    legend = LEGEND_PX if len(parts) > 1 else 0.0
    whole = framed(title, described, x, Axis("", "", 0.0, 1.0), subtitle=subtitle, source=source, legend_px=legend)
    left = min(whole.left - 60.0 + names, whole.left + whole.width / 2.0)
    frame = Frame(whole.canvas, x, whole.y, left, whole.top, whole.left + whole.width - left, whole.height)
    for value in x.ticks(max(int(frame.width / 90.0), 2)):
        across = frame.at(value, 0.0)[0]
        frame.canvas.line([(across, frame.top), (across, frame.top + frame.height)], "#d4d4d4", 1.0)
        frame.canvas.text(across, frame.top + frame.height + 26.0, tick_text(value), anchor="middle")
    frame.canvas.text(frame.left + frame.width / 2.0, frame.top + frame.height + 54.0, x.title, anchor="middle")
    row = frame.height / max(len(bars), 1)
    for index, bar in enumerate(bars):
        _bar(frame, bar, parts, frame.top + row * index, row)
    frame.canvas.line([(frame.left, frame.top), (frame.left, frame.top + frame.height)], INK, 1.5)
    if len(parts) > 1:
        entries = [Entry(name, PALETTE[at % len(PALETTE)]) for at, name in enumerate(parts)]
        frame.canvas.legend(frame.left + frame.width + 24.0, frame.top + 14.0, entries, LEGEND_PX - 20.0)
    return frame.canvas.document()


def _bar(frame: Frame, bar: Bar, parts: Sequence[str], top: float, row: float) -> None:
    middle, thick, start = top + row / 2.0, min(0.66 * row, 44.0), 0.0
    for name, length in bar.parts:
        from_px, to_px = frame.at(start, 0.0)[0], frame.at(start + length, 0.0)[0]
        color = PALETTE[parts.index(name) % len(PALETTE)] if len(parts) > 1 else BLUE
        frame.canvas.area(from_px, middle - thick / 2.0, max(to_px - from_px, 0.0), thick, color, PAPER)
        start += length
    frame.canvas.text(frame.left - 10.0, middle + 6.0, bar.name, anchor="end")
    frame.canvas.text(frame.at(start, 0.0)[0] + 8.0, middle + 6.0, bar.text or tick_text(start), SMALL_PX, halo=True)


# ------------------------------------------------------------------------------------------------------------ heat map


@dataclass(frozen=True, slots=True)
class Contour:
    """A line where a quantity passes a level, with its label."""

    name: str
    lines: Sequence[Sequence[Point]]
    dash: str = ""
    color: str = INK
    width: float = 2.0


def heat_map(
    title: str,
    x: Axis,
    y: Axis,
    columns: Sequence[float],
    rows: Sequence[float],
    fills: Sequence[Sequence[str]],
    legend: Sequence[Entry],
    *,
    contours: Sequence[Contour] = (),
    notes: Sequence[Note] = (),
    hatches: Sequence[tuple[str, str]] = (),
    subtitle: str = "",
    source: str = "",
) -> str:
    """Cells about the points `columns` x `rows`, `fills[row][column]` their colors, or the name of a hatch.

    `hatches` are (color, background) pairs; a fill or legend pattern of "hatch:<color>" means the one of that color.
    """
    description = f"{x.title} across, {y.title} up; {'; '.join(entry.text for entry in legend)}"
    frame = framed(title, description, x, y, subtitle=subtitle, source=source, legend_px=LEGEND_PX)
    known = {f"hatch:{color}": frame.canvas.hatch(color, ground) for color, ground in hatches}
    across = [frame.left + frame.width * share for share in _edges([x.share(value) for value in columns])]
    down = [frame.top + frame.height * (1.0 - share) for share in _edges([y.share(value) for value in rows])]
    for row, line in enumerate(fills):
        for first, last, fill in _runs(line):
            width = across[last + 1] - across[first]
            frame.canvas.area(across[first], down[row + 1], width, down[row] - down[row + 1], known.get(fill, fill))
    for contour in contours:
        for points in contour.lines:
            pixels = [frame.at(*point) for point in points]
            frame.canvas.line(pixels, contour.color, contour.width, contour.dash, halo=True)
    for contour in contours:
        _name(frame, contour)
    frame.draw(grid=False)
    _note(frame, notes)
    entries = [replace(entry, pattern=known.get(entry.pattern, entry.pattern)) for entry in legend]
    frame.canvas.legend(frame.left + frame.width + 24.0, frame.top + 14.0, entries, LEGEND_PX - 20.0)
    return frame.canvas.document()


def _edges(shares: Sequence[float]) -> list[float]:
    """Borders half way between neighbors; the first and last end at the axis."""
    inner = [(low + high) / 2.0 for low, high in pairwise(shares)]
    return [0.0, *inner, 1.0]


def _runs(fills: Sequence[str]) -> list[tuple[int, int, str]]:
    """(first, last, fill) of equal neighbors, so that a large map stays a small file."""
    runs: list[tuple[int, int, str]] = []
    for index, fill in enumerate(fills):
        if runs and runs[-1][2] == fill:
            runs[-1] = (runs[-1][0], index, fill)
        else:
            runs.append((index, index, fill))
    return runs


def _name(frame: Frame, contour: Contour) -> None:
    """The label in the middle of the longest line, kept inside the frame."""
    longest = max(contour.lines, key=len, default=())
    if contour.name and len(longest) > 3:
        across, down = frame.at(*longest[len(longest) // 2])
        half = text_width_px(contour.name, TEXT_PX - 2.0) / 2.0
        across = min(max(across, frame.left + half + 4.0), frame.left + frame.width - half - 4.0)
        down = min(max(down, frame.top + 20.0), frame.top + frame.height - 8.0)
        frame.canvas.text(across, down, contour.name, TEXT_PX - 2.0, "middle", halo=True)


def level_lines(
    columns: Sequence[float], rows: Sequence[float], values: Sequence[Sequence[float | None]], level: float
) -> list[list[Point]]:
    """Where a quantity on a grid passes `level`, by marching squares; squares with a None corner have no line.

    `values[row][column]`. Between corners the crossing is linear in the value and geometric in the coordinates where
    both are above 0, as on a log axis.
    """
    ends: dict[Point, list[Point]] = {}
    for row in range(len(rows) - 1):
        for column in range(len(columns) - 1):
            for start, end in _crossings(columns, rows, values, level, row, column):
                ends.setdefault(start, []).append(end)
                ends.setdefault(end, []).append(start)
    return _joined(ends)


def _crossings(
    columns: Sequence[float],
    rows: Sequence[float],
    values: Sequence[Sequence[float | None]],
    level: float,
    row: int,
    column: int,
) -> list[tuple[Point, Point]]:
    corners = ((row, column), (row, column + 1), (row + 1, column + 1), (row + 1, column))
    found: list[Point] = []
    for (r0, c0), (r1, c1) in zip(corners, (*corners[1:], corners[0]), strict=True):
        (r0, c0), (r1, c1) = sorted(((r0, c0), (r1, c1)))  # the same point from both squares of an edge
        low, high = values[r0][c0], values[r1][c1]
        if low is None or high is None:
            return []
        if (low < level) != (high < level):
            share = (level - low) / (high - low)
            found.append((_between(columns[c0], columns[c1], share), _between(rows[r0], rows[r1], share)))
    return list(zip(found[::2], found[1::2], strict=False))


def _between(low: float, high: float, share: float) -> float:
    if low > 0.0 and high > 0.0:
        return float(low * (high / low) ** share)
    return low + (high - low) * share


def _joined(ends: dict[Point, list[Point]]) -> list[list[Point]]:
    """Segments as chains, from open ends first."""
    lines = []
    for start in sorted(ends, key=lambda point: (len(ends[point]) != 1, point)):
        while ends[start]:
            line = [start]
            while ends[line[-1]]:
                after = ends[line[-1]].pop()
                ends[after].remove(line[-1])
                line.append(after)
            lines.append(line)
    return lines
