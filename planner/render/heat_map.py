"""A heat map with contours: cells about points of two axes, and lines where a quantity passes a level."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from planner.render.svg import (
    INK,
    TEXT_PX,
    Axis,
    Canvas,
    Entry,
    Frame,
    framed,
    text_width_px,
)

LEGEND_PX = 232.0
NARROW_PX, NARROW_PLOT_PX = 480.0, 540.0  # of a picture for a phone, where text is three quarters as large
Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Contour:
    """A line where a quantity passes a level, with its label."""

    name: str
    lines: Sequence[Sequence[Point]]
    dash: str = ""
    color: str = INK
    width: float = 2.0


@dataclass(frozen=True, slots=True)
class Label:
    """The name of an area, about a point of it; `width` is the share of the map's width that it may take."""

    x: float
    y: float
    text: str
    width: float


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
    labels: Sequence[Label] = (),
    subtitle: str = "",
    source: str = "",
    narrow: bool = False,
) -> str:
    """Cells about the points `columns` x `rows`, `fills[row][column]` their colors.

    A color may be "hatch:<line>:<ground>", also in the legend. That stands on the right, below in a narrow picture.
    """
    description = f"{x.title} across, {y.title} up; {'; '.join(entry.text for entry in legend)}"
    below = Canvas.legend_height(legend, NARROW_PX - 40.0) + 12.0 if narrow else 0.0
    size = (
        {"width": NARROW_PX, "height": NARROW_PLOT_PX + below, "below_px": below}
        if narrow
        else {"legend_px": LEGEND_PX}
    )
    frame = framed(title, description, x, y, subtitle=subtitle, source=source, **size)
    colors = {fill for line in fills for fill in line} | {color for one in legend for color in (one.color, *one.shades)}
    hatches = sorted(color for color in colors if color.startswith("hatch:"))
    known = {color: frame.canvas.hatch(*color.split(":")[1:]) for color in hatches}
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
    for label in labels:
        _write(frame, label)
    frame.draw(grid=False)
    entries = [
        replace(
            entry,
            color=known.get(entry.color, entry.color),
            shades=tuple(known.get(shade, shade) for shade in entry.shades),
        )
        for entry in legend
    ]
    if narrow:
        frame.canvas.legend(20.0, frame.top + frame.height + 88.0, entries, NARROW_PX - 40.0)
    else:
        frame.canvas.legend(frame.left + frame.width + 24.0, frame.top + 14.0, entries, LEGEND_PX - 20.0)
    return frame.canvas.document()


def _write(frame: Frame, label: Label) -> None:
    """The name of an area where there is room for it."""
    if text_width_px(label.text) <= label.width * frame.width:
        across, down = frame.at(label.x, label.y)
        frame.canvas.text(across, down + 6.0, label.text, anchor="middle", bold=True, halo=True)


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
