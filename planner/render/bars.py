"""A chart of bars by name, one below the other: stacks of parts, waterfalls, and values with their range and limit."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from planner.render.svg import (
    BLUE,
    FAINT,
    GREEN,
    GREY,
    INK,
    ORANGE,
    PALETTE,
    PAPER,
    RED,
    TEXT_PX,
    Axis,
    Entry,
    Frame,
    framed,
    text_width_px,
    tick_text,
)

LEGEND_PX = 200.0
ROW_PX, THICK_PX, BEHIND_PX = 62.0, 40.0, 17.0
MOST_REACH = 2.0  # of the longest bar, that a range or a limit may ask of the axis
LARGEST, TOTAL, EMPTY = ORANGE, "#4d4d4d", PAPER
NAMED = {"weights": BLUE, "KV": ORANGE, "activations": GREEN, "reserve": GREY, "free": EMPTY}


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar: its parts add up from `start`, each a name and a length; `text` stands at its end.

    `span` is the range that its end may have, `limit` where it must stop.
    """

    name: str
    parts: Sequence[tuple[str, float]]
    text: str = ""
    start: float = 0.0
    color: str = ""  # of all its parts
    span: tuple[float, float] | None = None
    limit: float | None = None

    @property
    def end(self) -> float:
        return self.start + sum(length for _, length in self.parts)


@dataclass(frozen=True, slots=True)
class Bars:
    """The whole chart: lengths in `unit` under `label`."""

    title: str
    label: str
    unit: str
    bars: Sequence[Bar]
    linked: bool = False  # a waterfall: the end of each bar is tied to the start of the next
    subtitle: str = ""
    source: str = ""

    @property
    def axis(self) -> Axis:
        """From 0 to the longest bar; ranges and limits that reach much further are cut there."""
        longest = max((bar.end for bar in self.bars), default=0.0) or 1.0
        reach = [value for bar in self.bars for value in (*(bar.span or ()), bar.limit or 0.0)]
        return Axis(self.label, self.unit, 0.0, max(longest, min(max(reach, default=0.0), MOST_REACH * longest)))

    @property
    def parts(self) -> list[str]:
        """Names of parts, where bars are stacks of several."""
        if all(bar.color for bar in self.bars) or all(len(bar.parts) < 2 for bar in self.bars):
            return []
        return list(dict.fromkeys(name for bar in self.bars for name, _ in bar.parts))

    def color(self, part: str) -> str:
        names = self.parts
        return NAMED.get(part) or (PALETTE[names.index(part) % len(PALETTE)] if part in names else BLUE)

    @property
    def described(self) -> str:
        """What a reader who cannot see it is told."""
        bars = "; ".join(f"{bar.name}: {bar.text or f'{tick_text(bar.end)} {self.unit}'}" for bar in self.bars)
        return f"{self.axis.title}. {bars}"


def bars_svg(chart: Bars) -> str:
    """The chart as SVG, as high as its bars ask for."""
    parts = chart.parts
    height = 236.0 + ROW_PX * max(len(chart.bars), 1) + (40.0 if chart.subtitle else 0.0)
    height = max(height, 236.0 + 34.0 * len(parts))
    frame = _frame(chart, LEGEND_PX if parts else 0.0, height)
    for value in frame.x.ticks(max(int(frame.width / 90.0), 2)):
        across = frame.at(value, 0.0)[0]
        frame.canvas.line([(across, frame.top), (across, frame.top + frame.height)], FAINT, 1.0)
        frame.canvas.text(across, frame.top + frame.height + 26.0, tick_text(value), anchor="middle")
    frame.canvas.text(frame.left + frame.width / 2.0, frame.top + frame.height + 54.0, frame.x.title, anchor="middle")
    row = frame.height / max(len(chart.bars), 1)
    for index, bar in enumerate(chart.bars):
        _bar(frame, chart, bar, frame.top + row * (index + 0.5))
    for index, (one, other) in enumerate(pairwise(chart.bars) if chart.linked else ()):
        if other.start == one.end:
            across, down = frame.at(one.end, 0.0)[0], frame.top + row * (index + 0.5)
            frame.canvas.line([(across, down + THICK_PX / 2.0), (across, down + row - THICK_PX / 2.0)], INK, 1.0)
    frame.canvas.line([(frame.left, frame.top), (frame.left, frame.top + frame.height)], INK, 1.5)
    entries = [Entry(name, chart.color(name)) for name in parts]
    if any(bar.limit is not None for bar in chart.bars):
        entries.append(Entry("limit", RED, "line", "6 3"))
    if parts:
        frame.canvas.legend(frame.left + frame.width + 24.0, frame.top + 14.0, entries, LEGEND_PX - 20.0)
    return frame.canvas.document()


def _frame(chart: Bars, legend_px: float, height: float) -> Frame:
    """Names on the left as wide as they need, room for the texts behind the bars on the right."""
    axis = chart.axis
    whole = framed(
        chart.title,
        chart.described,
        axis,
        Axis("", "", 0.0, 1.0),
        subtitle=chart.subtitle,
        source=chart.source,
        legend_px=legend_px,
        height=height,
    )
    names = max((text_width_px(bar.name) for bar in chart.bars), default=0.0)
    left = min(whole.left - 60.0 + names, whole.left + whole.width * 0.45)
    width = whole.left + whole.width - left
    longest = max((text_width_px(bar.text, BEHIND_PX) for bar in chart.bars), default=0.0)
    behind = min(longest + 16.0, 0.6 * width)
    grown = Axis(axis.label, axis.unit, axis.low, axis.high * width / (width - behind))
    return Frame(whole.canvas, grown, whole.y, left, whole.top - 20.0, width, whole.height + 20.0)


def _bar(frame: Frame, chart: Bars, bar: Bar, middle: float) -> None:
    canvas, start, top = frame.canvas, bar.start, middle - THICK_PX / 2.0
    for name, length in bar.parts:
        from_px, to_px = frame.at(start, 0.0)[0], frame.at(start + length, 0.0)[0]
        color = bar.color or chart.color(name)
        fill = canvas.hatch(GREY) if color == EMPTY else color
        canvas.area(from_px, top, max(to_px - from_px, 0.0), THICK_PX, fill, INK if color == EMPTY else PAPER)
        start += length
    beyond = bar.end
    if bar.span is not None:
        beyond = max(beyond, _range(frame, bar.span, middle, chart.axis.high))
    if bar.limit is not None and bar.limit <= chart.axis.high:
        across = frame.at(bar.limit, 0.0)[0]
        canvas.line([(across, top - 6.0), (across, top + THICK_PX + 6.0)], RED, 3.0, "6 3", halo=True)
        beyond = max(beyond, bar.limit)
    canvas.text(frame.left - 10.0, middle + 6.0, bar.name, TEXT_PX, "end")
    _behind(frame, frame.at(beyond, 0.0)[0] + 10.0, middle, bar.text or tick_text(bar.end))


def _behind(frame: Frame, across: float, middle: float, text: str) -> None:
    """The text behind a bar, in as many lines as it needs up to the edge."""
    room = max(int((frame.left + frame.width + 20.0 - across) / (0.56 * BEHIND_PX)), 8)
    lines = textwrap.wrap(text, room)
    for index, line in enumerate(lines):
        down = middle + 6.0 + 1.15 * BEHIND_PX * (index - (len(lines) - 1) / 2.0)
        frame.canvas.text(across, down, line, BEHIND_PX, halo=True)


def _range(frame: Frame, span: tuple[float, float], middle: float, most: float) -> float:
    """A line with caps, with an arrow where it goes on beyond `most`; returns where it ends."""
    low, high = min(span[0], most), min(span[1], most)
    start, end = frame.at(low, 0.0)[0], frame.at(high, 0.0)[0]
    frame.canvas.line([(start, middle), (end, middle)], INK, 2.0, halo=True)
    frame.canvas.line([(start, middle - 7.0), (start, middle + 7.0)], INK, 2.0)
    back = -8.0 if span[1] > most else 0.0
    frame.canvas.line([(end + back, middle - 7.0), (end, middle), (end + back, middle + 7.0)], INK, 2.0)
    return high
