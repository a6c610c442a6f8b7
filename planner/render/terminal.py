"""Charts in letters, for terminals: curves on a grid, bars line by line."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from planner.render.bars import Bar, Bars
from planner.render.lines import Lines
from planner.render.svg import Axis, tick_text
from planner.render.text import Pen, columns, wrapped

ROWS, MOST_COLUMNS, LEAST_COLUMNS = 16, 72, 24
BAR_COLUMNS, LEAST_BAR = 40, 8
_MARKS = {True: "●■▲◆○□△◇", False: "ox+*@%&="}
_GUTTER = 8  # columns of the labels of y
_FINE = 4  # steps per column along a line


def lines_text(chart: Lines, pen: Pen) -> list[str]:
    """The chart on a grid: a mark a series, named below with everything else that it shows."""
    columns = max(min(pen.width - _GUTTER - 4, MOST_COLUMNS), LEAST_COLUMNS)
    cells = [[" "] * columns for _ in range(ROWS)]
    marks = _MARKS[pen.unicode]
    for zone in chart.zones:
        _shade(cells, chart, zone.x, zone.y, pen)
    for rule in chart.rules:
        _rule(cells, chart, rule.value, rule.upright, pen)
    for index in range(len(chart.series)):
        for x, y in _points(chart, index, columns):
            _put(cells, chart, x, y, marks[index % len(marks)])
    lines = [pen.heading(chart.title), *wrapped(chart.subtitle, pen.width), f"  {chart.y.title}"]
    lines += _framed(cells, chart.y, pen)
    lines += [_ticks(chart.x, columns), " " * (_GUTTER + 2) + chart.x.title]
    lines += [f"  {marks[index % len(marks)]} {one.name}" for index, one in enumerate(chart.series)]
    lines += [f"  {'░' if pen.unicode else ':'} a curve in here misses its target"] if chart.zones else []
    return [*lines, *(f"  {line}" for text in chart.told for line in wrapped(text, pen.width - 2))]


def _points(chart: Lines, index: int, columns: int) -> list[tuple[float, float]]:
    """Points of a series; of a line also those between them, straight on the axes."""
    one = chart.series[index]
    found = [(x, y) for x, y in one.points if y is not None]
    if not one.joined:
        return found
    between = []
    for (x0, y0), (x1, y1) in pairwise(one.points):
        if y0 is not None and y1 is not None:
            between += _between(chart, (x0, y0), (x1, y1), columns)
    return [*between, *found]


def _between(
    chart: Lines, one: tuple[float, float], other: tuple[float, float], columns: int
) -> list[tuple[float, float]]:
    """Points on the straight line between two, close enough to touch every cell it passes."""
    start, end = ((chart.x.share(x), chart.y.share(y)) for x, y in (one, other))
    cells = max(abs(end[0] - start[0]) * columns, abs(end[1] - start[1]) * ROWS)
    steps = max(min(int(cells * _FINE), columns * _FINE), 1)
    parts = [step / steps for step in range(1, steps)]
    return [
        (chart.x.at(start[0] + part * (end[0] - start[0])), chart.y.at(start[1] + part * (end[1] - start[1])))
        for part in parts
    ]


def _put(cells: list[list[str]], chart: Lines, x: float, y: float, mark: str) -> None:
    across, up = chart.x.share(x), chart.y.share(y)
    if -1e-9 <= across <= 1.0 + 1e-9 and -1e-9 <= up <= 1.0 + 1e-9:
        column = min(round(across * (len(cells[0]) - 1)), len(cells[0]) - 1)
        cells[ROWS - 1 - round(min(max(up, 0.0), 1.0) * (ROWS - 1))][column] = mark


def _shade(cells: list[list[str]], chart: Lines, x: float, y: float, pen: Pen) -> None:
    """A zone to keep out of, right of `x` and above `y`."""
    first = max(round(chart.x.share(x) * (len(cells[0]) - 1)), 0)
    for row in cells[: max(ROWS - 1 - round(chart.y.share(y) * (ROWS - 1)), 0)]:
        row[first:] = ["░" if pen.unicode else ":"] * len(row[first:])


def _rule(cells: list[list[str]], chart: Lines, value: float, upright: bool, pen: Pen) -> None:
    share = (chart.x if upright else chart.y).share(value)
    if not 0.0 <= share <= 1.0:
        return
    if upright:
        column = round(share * (len(cells[0]) - 1))
        for row in cells:
            row[column] = "┊" if pen.unicode else "|"
    else:
        row = cells[ROWS - 1 - round(share * (ROWS - 1))]
        row[:] = ["┄" if pen.unicode else "-"] * len(row)


def _framed(cells: Sequence[Sequence[str]], axis: Axis, pen: Pen) -> list[str]:
    upright, corner, along = ("│", "└", "─") if pen.unicode else ("|", "+", "-")
    labels = [""] * ROWS
    for value in axis.ticks(5):
        labels[ROWS - 1 - round(min(max(axis.share(value), 0.0), 1.0) * (ROWS - 1))] = tick_text(value)
    lines = [f"{label:>{_GUTTER}} {upright}{''.join(row)}" for label, row in zip(labels, cells, strict=True)]
    return [*lines, " " * (_GUTTER + 1) + corner + along * len(cells[0])]


def _ticks(axis: Axis, columns: int) -> str:
    """Values below the axis, those that have room."""
    line = [" "] * (columns + _GUTTER + 12)
    for value in axis.ticks(6):
        text = tick_text(value)
        at = max(_GUTTER + 2 + round(axis.share(value) * (columns - 1)) - len(text) // 2, 0)
        if all(character == " " for character in line[max(at - 1, 0) : at + len(text) + 1]):
            line[at : at + len(text)] = text
    return "".join(line).rstrip()


def bars_text(chart: Bars, pen: Pen) -> list[str]:
    """A line a bar: where it starts and ends, its parts in letters of their own where there are several."""
    whole = chart.axis.high
    letters = dict(zip(chart.parts, "█▓▒░▞▚" if pen.unicode else "#=+-:%", strict=False))
    named = [(bar, bar.text or tick_text(bar.end)) for bar in chart.bars]
    taken = max((len(bar.name) for bar, _ in named), default=0) + max((len(text) for _, text in named), default=0)
    room = max(min(BAR_COLUMNS, pen.width - taken - 6), LEAST_BAR)
    rows = [(bar.name, _bar(bar, whole / room, letters, pen), text) for bar, text in named]
    lines = [pen.heading(chart.title), *wrapped(chart.subtitle, pen.width), *columns(rows, "llw", pen)]
    if letters:
        lines.append("  " + "  ".join(f"{letter} {name}" for name, letter in letters.items()))
    return lines


def _bar(bar: Bar, column: float, letters: dict[str, str], pen: Pen) -> str:
    """A bar in letters, `column` of its unit each."""
    full = "█" if pen.unicode else "#"
    text, reached = " " * round(bar.start / column), bar.start
    for name, length in bar.parts:
        reached += length
        text += letters.get(name, full) * (round(reached / column) - len(text))
    return text
