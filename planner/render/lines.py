"""A chart of curves and points over two axes, with targets, zones to keep out of, intervals and named points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from planner.render.labels import Labels
from planner.render.svg import DASHES, INK, PALETTE, RED, Axis, Entry, Frame, framed

LEGEND_PX = 232.0
ZONE = "#fbe3d6"  # light red: a place that a target forbids
Point = tuple[float, float]
_ALONG = (0.0, 0.25, 0.5, 0.75, 1.0)  # where the text of a rule may stand


@dataclass(frozen=True, slots=True)
class Series:
    """Points under one name; None as a value breaks the line. Color and dash go by position unless `color` says.

    `shape` is that of the marks at its points, empty for none; without `joined` there are marks only.
    """

    name: str
    points: Sequence[tuple[float, float | None]]
    color: str = ""
    dash: str | None = None
    shape: str = ""
    joined: bool = True
    radii: Sequence[float] = ()  # of the marks [px], where they differ


@dataclass(frozen=True, slots=True)
class Rule:
    """A straight line through the whole plot at a value: of y, or `upright` of x."""

    value: float
    text: str
    upright: bool = False
    color: str = RED


@dataclass(frozen=True, slots=True)
class Zone:
    """Where the curves should not be: everything right of `x` and above `y`."""

    x: float
    y: float
    text: str


@dataclass(frozen=True, slots=True)
class Span:
    """An interval along x at a height; without a high end it goes on."""

    low: float
    high: float | None
    y: float


@dataclass(frozen=True, slots=True)
class Note:
    """A point of the plot with its name; without a `shape` only the name."""

    x: float
    y: float
    text: str
    color: str = INK
    shape: str = "dot"


@dataclass(frozen=True, slots=True)
class Lines:
    """The whole chart."""

    title: str
    x: Axis
    y: Axis
    series: Sequence[Series]
    zones: Sequence[Zone] = ()
    rules: Sequence[Rule] = ()
    spans: Sequence[Span] = ()
    span_name: str = ""
    notes: Sequence[Note] = ()
    subtitle: str = ""
    source: str = ""

    def color(self, index: int) -> str:
        return self.series[index].color or PALETTE[index % len(PALETTE)]

    def dash(self, index: int) -> str:
        dash = self.series[index].dash
        return DASHES[index % len(DASHES)] if dash is None else dash

    @property
    def described(self) -> str:
        """What a reader who cannot see it is told."""
        names = ", ".join(one.name for one in self.series)
        return "; ".join([f"{self.y.title} over {self.x.title}: {names}", *self.told])

    @property
    def told(self) -> list[str]:
        """Every text in the plot."""
        texts = [*(zone.text for zone in self.zones), *(rule.text for rule in self.rules)]
        return [text for text in (*texts, *(note.text for note in self.notes)) if text]


def lines_svg(chart: Lines) -> str:
    """The chart as SVG, its series named in a legend on the right where there is more than one."""
    entries = _legend(chart)
    legend_px = LEGEND_PX if len(entries) > 1 else 0.0
    frame = framed(
        chart.title,
        chart.described,
        chart.x,
        chart.y,
        subtitle=chart.subtitle,
        source=chart.source,
        legend_px=legend_px,
    )
    for zone in chart.zones:
        _zone(frame, zone)
    frame.draw()
    labels = Labels(frame.canvas, (frame.left, frame.top, frame.left + frame.width, frame.top + frame.height))
    for span in chart.spans:
        _span(frame, span, labels)
    for index in range(len(chart.series)):
        _curve(frame, chart, index, labels)
    for rule in chart.rules:
        _rule(frame, rule, labels)
    _names(frame, chart, labels)
    if len(entries) > 1:
        frame.canvas.legend(frame.left + frame.width + 24.0, frame.top + 14.0, entries, LEGEND_PX - 20.0)
    return frame.canvas.document()


def _legend(chart: Lines) -> list[Entry]:
    entries = []
    for index, one in enumerate(chart.series):
        kind = "line" if one.joined else one.shape or "dot"
        entries.append(Entry(one.name, chart.color(index), kind, chart.dash(index)))
    if chart.spans and chart.span_name:
        entries.append(Entry(chart.span_name, INK, "line"))
    if chart.zones:
        entries.append(Entry("a curve in here misses its target", ZONE))
    return entries


def _zone(frame: Frame, zone: Zone) -> None:
    """Shaded up to the edges of the plot; a corner beyond them leaves nothing to shade."""
    across, down = frame.at(zone.x, zone.y)
    left, bottom = max(across, frame.left), min(down, frame.top + frame.height)
    right = frame.left + frame.width
    if left < right and bottom > frame.top:
        frame.canvas.area(left, frame.top, right - left, bottom - frame.top, ZONE)
        frame.canvas.line([(left, frame.top), (left, bottom), (right, bottom)], RED, 2.0, "6 3")


def _rule(frame: Frame, rule: Rule, labels: Labels) -> None:
    axis = frame.x if rule.upright else frame.y
    if not 0.0 <= axis.share(rule.value) <= 1.0:
        return
    right, bottom = frame.left + frame.width, frame.top + frame.height
    if rule.upright:
        across = frame.at(rule.value, frame.y.low)[0]
        frame.canvas.line([(across, frame.top), (across, bottom)], rule.color, 2.0, "6 3")
        labels.keep_line_free((across, frame.top), (across, bottom))
        ends = [frame.top + 14.0 + share * (frame.height - 28.0) for share in _ALONG]
        labels.place_along([(across, down) for down in ends], rule.text, rule.color)
    else:
        down = frame.at(frame.x.low, rule.value)[1]
        frame.canvas.line([(frame.left, down), (right, down)], rule.color, 2.0, "6 3")
        labels.keep_line_free((frame.left, down), (right, down))
        starts = [frame.left + share * frame.width for share in _ALONG]
        labels.place_along([(across, down - 8.0) for across in starts], rule.text, rule.color)


def _span(frame: Frame, span: Span, labels: Labels) -> None:
    """A bar with caps; an end that nothing bounds, or that lies outside, is an arrow."""
    if not 0.0 <= frame.y.share(span.y) <= 1.0:
        return
    right = frame.left + frame.width
    start, down = frame.at(span.low, span.y)
    end = right if span.high is None else min(frame.at(span.high, span.y)[0], right)
    start = max(start, frame.left)
    frame.canvas.line([(start, down), (end, down)], INK, 2.0)
    labels.keep_line_free((start, down), (end, down))
    frame.canvas.line([(start, down - 6.0), (start, down + 6.0)], INK, 2.0)
    if span.high is None or end >= right:
        frame.canvas.line([(end - 8.0, down - 6.0), (end, down), (end - 8.0, down + 6.0)], INK, 2.0)
    else:
        frame.canvas.line([(end, down - 6.0), (end, down + 6.0)], INK, 2.0)


def _curve(frame: Frame, chart: Lines, index: int, labels: Labels) -> None:
    one, color = chart.series[index], chart.color(index)
    if one.radii:
        for (x, y), radius in zip(one.points, one.radii, strict=True):
            if y is not None and frame.inside(x, y):
                across, down = frame.at(x, y)
                frame.canvas.mark(across, down, color, one.shape, radius)
                labels.keep_free(across, down, radius)
        return
    for part in _unbroken(frame, one.points):
        pixels = [frame.at(*point) for point in part]
        if one.joined and len(pixels) > 1:
            frame.canvas.line(pixels, color, 3.0, chart.dash(index))
            for start, end in pairwise(pixels):
                labels.keep_line_free(start, end)
        for across, down in pixels if one.shape or len(pixels) == 1 else ():
            frame.canvas.mark(across, down, color, one.shape or "dot")
            labels.keep_free(across, down)


def _unbroken(frame: Frame, points: Sequence[tuple[float, float | None]]) -> list[list[Point]]:
    """Runs of points inside the frame; a line that leaves it ends at its edge."""
    runs: list[list[Point]] = [[]]
    before: Point | None = None
    for x, y in points:
        here = None if y is None else (x, y)
        inside = here is not None and frame.inside(*here)
        was_inside = before is not None and frame.inside(*before)
        if before is not None and here is not None and inside != was_inside:
            edge = _edge(frame, before, here)
            runs[-1].append(edge)
        if inside and here is not None:
            runs[-1].append(here)
        elif runs[-1]:
            runs.append([])
        before = here
    return [run for run in runs if run]


def _edge(frame: Frame, one: Point, other: Point) -> Point:
    """Where the straight line between a point inside and one outside passes the frame."""
    inside, outside = (one, other) if frame.inside(*one) else (other, one)
    near, far = ((frame.x.share(p[0]), frame.y.share(p[1])) for p in (inside, outside))
    reach = 1.0
    for start, end in zip(near, far, strict=True):
        if end > 1.0:
            reach = min(reach, (1.0 - start) / (end - start))
        elif end < 0.0:
            reach = min(reach, start / (start - end))
    across, up = (start + reach * (end - start) for start, end in zip(near, far, strict=True))
    return frame.x.at(across), frame.y.at(up)


def _names(frame: Frame, chart: Lines, labels: Labels) -> None:
    """Named points: all marks first, so that no name covers one."""
    shown = [note for note in chart.notes if frame.inside(note.x, note.y)]
    for note in shown:
        across, down = frame.at(note.x, note.y)
        if note.shape:
            frame.canvas.mark(across, down, note.color, note.shape, 7.0)
            labels.keep_free(across, down)
    for note in shown:
        across, down = frame.at(note.x, note.y)
        labels.place(across, down, note.text, INK)
    for zone in chart.zones:
        across, down = frame.at(zone.x, zone.y)
        labels.place(min(max(across, frame.left), frame.left + frame.width - 8.0), down, zone.text, RED)
