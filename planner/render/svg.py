"""Pictures as SVG text: axes with ticks, frames, legends and marks in one house style. Same numbers, same bytes.

Nothing is fetched: text is set in whatever sans serif the reader has, and every width is computed here. Colors are of
Okabe and Ito's palette, told apart under every common color blindness; where two areas touch they also differ in
lightness or carry a hatch. Text is large enough to be read at half size.
"""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field
from xml.sax.saxutils import escape

BLUE, ORANGE, GREEN, PURPLE, SKY, RED = "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00"
PALETTE = (BLUE, RED, GREEN, PURPLE, SKY, ORANGE)
DASHES = ("", "10 5", "3 4", "12 4 3 4", "6 3", "1 4")  # beside the color, so that a grey print still tells lines apart
INK, FAINT, PAPER, GREY = "#1a1a1a", "#d4d4d4", "#ffffff", "#bdbdbd"
CORNERS = {  # of marks that are no dots, about their middle
    "square": ((-0.95, -0.95), (0.95, -0.95), (0.95, 0.95), (-0.95, 0.95)),
    "diamond": ((0.0, -1.3), (1.3, 0.0), (0.0, 1.3), (-1.3, 0.0)),
    "triangle": ((0.0, -1.2), (1.2, 0.95), (-1.2, 0.95)),
}

TEXT_PX, TITLE_PX, SMALL_PX = 18.0, 22.0, 16.0
_CHARACTER = 0.56  # mean width of a character of a sans serif, in its size
_MOST_TICKS = 8
_SHORT = 6.0  # high over low, up to which even steps suit a log axis
_PREFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


# ---------------------------------------------------------------------------------------------------------------- text


def number(value: float) -> str:
    """A coordinate: two decimals at most, no trailing zeros, never -0."""
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text in ("-0", "") else text


def xml_text(text: str) -> str:
    """Text as XML can hold it: marks of the language escaped, control characters shown as one sign."""
    return escape("".join(letter if letter.isprintable() else "\ufffd" for letter in text))


def text_width_px(text: str, size_px: float = TEXT_PX) -> float:
    """About how wide a line of text is set."""
    return _CHARACTER * size_px * len(text)


def _characters(width: float, size_px: float) -> int:
    """How many fit into a line."""
    return max(int(width / (_CHARACTER * size_px)), 8)


def tick_text(value: float) -> str:
    """A tick as people read it: 0.05, 2, 250, 4k, 1.5M."""
    magnitude = abs(value)
    for size, prefix in _PREFIXES:
        if magnitude >= size * (1.0 - 1e-9):
            return f"{value / size:.4g}{prefix}"
    return f"{value:.4g}" if magnitude >= 1e-3 or value == 0.0 else f"{value:.1e}"


# ---------------------------------------------------------------------------------------------------------------- axes


@dataclass(frozen=True, slots=True)
class Axis:
    """A quantity along one side. `unit` is printed behind the label; `low` < `high`, both above 0 where `log`."""

    label: str
    unit: str
    low: float
    high: float
    log: bool = False

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise ValueError(f"an axis needs low < high, both finite; got {self.low} and {self.high}")
        if self.log and self.low <= 0.0:
            raise ValueError(f"a log axis starts above 0, got {self.low}")

    @property
    def title(self) -> str:
        return f"{self.label} [{self.unit}]" if self.unit else self.label

    def share(self, value: float) -> float:
        """Where a value lies between low (0) and high (1); values outside give shares outside."""
        if self.log:
            return math.log(max(value, 1e-300) / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def at(self, share: float) -> float:
        """The value at a share of the axis."""
        if self.log:
            return float(self.low * (self.high / self.low) ** share)
        return self.low + share * (self.high - self.low)

    def ticks(self, most: int = _MOST_TICKS) -> list[float]:
        """Round values inside the axis, `most` of them at most and two at least."""
        return _log_ticks(self.low, self.high, most) if self.log else _linear_ticks(self.low, self.high, most)


def _linear_ticks(low: float, high: float, most: int) -> list[float]:
    rough = (high - low) / max(most - 1, 1)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * nice for nice in (1.0, 2.0, 2.5, 5.0, 10.0) if power * nice >= rough * (1.0 - 1e-9))
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    found = [index * step for index in range(first, last + 1)]
    return found if len(found) > 1 else [low, high]


def _log_ticks(low: float, high: float, most: int) -> list[float]:
    decades = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 1)
    for steps in ((1.0, 2.0, 5.0), (1.0, 3.0), (1.0,)):
        values = [step * 10.0**decade for decade in decades for step in steps]
        inside = [value for value in values if low * (1.0 - 1e-9) <= value <= high * (1.0 + 1e-9)]
        if 2 <= len(inside) <= most:
            return inside if len(inside) > 3 or high > _SHORT * low else _linear_ticks(low, high, most)
    if len(inside) > most:  # many decades: every second, third, …
        return inside[:: math.ceil(len(inside) / most)]
    return [value for value in _linear_ticks(low, high, most) if value > 0.0]


# -------------------------------------------------------------------------------------------------------------- canvas


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a legend: `kind` is area, line or a shape of a mark."""

    text: str
    color: str
    kind: str = "area"
    dash: str = ""
    shades: tuple[str, ...] = ()  # several steps of one color, side by side


@dataclass
class Canvas:
    """Elements in the order they are drawn. Positions are pixels from the top left corner."""

    title: str
    description: str
    width: float = 960.0
    height: float = 640.0
    elements: list[str] = field(default_factory=list)
    patterns: dict[str, str] = field(default_factory=dict)

    def hatch(self, color: str, background: str = PAPER) -> str:
        """The fill of a hatched area."""
        name = f"hatch-{color.lstrip('#')}-{background.lstrip('#')}"
        self.patterns[name] = (
            f'<pattern id="{name}" width="8" height="8" patternUnits="userSpaceOnUse" '
            f'patternTransform="rotate(45)"><rect width="8" height="8" fill="{background}"/>'
            f'<line x1="0" y1="0" x2="0" y2="8" stroke="{color}" stroke-width="3"/></pattern>'
        )
        return f"url(#{name})"

    def area(self, x: float, y: float, width: float, height: float, fill: str, edge: str = "none") -> None:
        place = f'x="{number(x)}" y="{number(y)}" width="{number(width)}" height="{number(height)}"'
        self.elements.append(f'<rect {place} fill="{fill}" stroke="{edge}" shape-rendering="crispEdges"/>')

    def line(
        self, points: Sequence[tuple[float, float]], color: str, width: float = 2.5, dash: str = "", halo: bool = False
    ) -> None:
        """A polyline; `halo` puts a light rim under it, to be seen on any ground."""
        path = " ".join(f"{number(x)},{number(y)}" for x, y in points)
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        rim = [(PAPER, width + 3.0, "")] if halo else []
        for stroke, size, dashes in [*rim, (color, width, dashed)]:
            self.elements.append(
                f'<polyline points="{path}" fill="none" stroke="{stroke}" stroke-width="{number(size)}"'
                f' stroke-linejoin="round"{dashes}/>'
            )

    def mark(self, x: float, y: float, color: str, shape: str = "dot", radius: float = 6.0) -> None:
        """A point: a dot, or one of `CORNERS`, which a grey print still tells apart."""
        if shape == "dot":
            place = f'cx="{number(x)}" cy="{number(y)}" r="{number(radius)}"'
            self.elements.append(f'<circle {place} fill="{color}" stroke="{PAPER}" stroke-width="2"/>')
            return
        corners = " ".join(f"{number(x + radius * dx)},{number(y + radius * dy)}" for dx, dy in CORNERS[shape])
        self.elements.append(f'<polygon points="{corners}" fill="{color}" stroke="{PAPER}" stroke-width="2"/>')

    def text(
        self,
        x: float,
        y: float,
        text: str,
        size: float = TEXT_PX,
        anchor: str = "start",
        color: str = INK,
        bold: bool = False,
        halo: bool = False,
    ) -> None:
        weight = ' font-weight="bold"' if bold else ""
        place = f'x="{number(x)}" y="{number(y)}" font-size="{number(size)}" text-anchor="{anchor}"{weight}'
        if halo:  # a second text below the first: not every viewer knows an order of painting
            rim = f'fill="{PAPER}" stroke="{PAPER}" stroke-width="5" stroke-linejoin="round" aria-hidden="true"'
            self.elements.append(f"<text {place} {rim}>{xml_text(text)}</text>")
        self.elements.append(f'<text {place} fill="{color}">{xml_text(text)}</text>')

    def paragraph(self, x: float, y: float, text: str, width: float, size: float, bold: bool = False) -> float:
        """Wrapped text from its first baseline; returns the baseline of the line after it."""
        for line in textwrap.wrap(text, _characters(width, size)):
            self.text(x, y, line, size, bold=bold)
            y += 1.25 * size
        return y

    def legend(self, x: float, y: float, entries: Sequence[Entry], width: float) -> float:
        """A column of entries; returns the baseline below it."""
        for entry in entries:
            self._sample(x, y, entry)
            y = self.paragraph(x + 44.0, y, entry.text, width - 44.0, SMALL_PX + 1.0) + 5.0
        return y

    @staticmethod
    def legend_height(entries: Sequence[Entry], width: float) -> float:
        """What `legend` takes."""
        size = SMALL_PX + 1.0
        lines = [textwrap.wrap(entry.text, _characters(width - 44.0, size)) for entry in entries]
        return sum(1.25 * size * len(wrapped) + 5.0 for wrapped in lines)

    def _sample(self, x: float, y: float, entry: Entry) -> None:
        if entry.shades:
            part = 34.0 / len(entry.shades)
            for index, shade in enumerate(entry.shades):
                self.area(x + part * index, y - 14.0, part, 17.0, shade, INK)
        elif entry.color == "none":
            return
        elif entry.kind == "line":
            self.line([(x, y - 5.0), (x + 34.0, y - 5.0)], entry.color, dash=entry.dash)
        elif entry.kind != "area":
            self.mark(x + 17.0, y - 5.0, entry.color, entry.kind)
        else:
            self.area(x, y - 14.0, 34.0, 17.0, entry.color, INK)

    def document(self) -> str:
        """The finished picture, with title and description for readers that cannot see it."""
        size = f'viewBox="0 0 {number(self.width)} {number(self.height)}" width="{number(self.width)}"'
        definitions = "".join(self.patterns[name] for name in sorted(self.patterns))
        lines = [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} height="{number(self.height)}" role="img" '
            'aria-labelledby="title description" font-family="Helvetica, Arial, sans-serif">',
            f'<title id="title">{xml_text(self.title)}</title>',
            f'<desc id="description">{xml_text(self.description)}</desc>',
            *([f"<defs>{definitions}</defs>"] if definitions else []),
            f'<rect width="100%" height="100%" fill="{PAPER}"/>',
            *self.elements,
            "</svg>",
        ]
        return "\n".join(lines) + "\n"


def renamed(document: str, name: object) -> str:
    """A picture whose ids do not clash with those of another one on the same page."""
    for mark in (' id="', "url(#"):
        document = document.replace(mark, f"{mark}p{name}-")
    return re.sub(r'labelledby="(\S+) (\S+)"', rf'labelledby="p{name}-\1 p{name}-\2"', document)


def stacked(documents: Sequence[str]) -> str:
    """Pictures one below the other, as one; a single one as it is."""
    if len(documents) == 1:
        return documents[0]
    sizes = [size_px(document) for document in documents]
    width, height = max(size[0] for size in sizes), sum(size[1] for size in sizes)
    inner, down = [], 0.0
    for index, document in enumerate(documents):
        inner.append(renamed(document, index).replace("<svg ", f'<svg y="{number(down)}" ', 1))
        down += sizes[index][1]
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {number(width)} {number(height)}"'
    return f'{head} width="{number(width)}" height="{number(height)}">\n' + "".join(inner) + "</svg>\n"


def size_px(document: str) -> tuple[float, float]:
    """Width and height that a picture says of itself."""
    _, _, box = document.partition('viewBox="0 0 ')
    width, height = box[: box.index('"')].split()
    return float(width), float(height)


# --------------------------------------------------------------------------------------------------------------- frame


@dataclass(frozen=True, slots=True)
class Frame:
    """The plotting area of a canvas with its two axes."""

    canvas: Canvas
    x: Axis
    y: Axis
    left: float
    top: float
    width: float
    height: float

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Pixels of a point."""
        return self.left + self.width * self.x.share(x), self.top + self.height * (1.0 - self.y.share(y))

    def inside(self, x: float, y: float) -> bool:
        return -1e-9 <= self.x.share(x) <= 1.0 + 1e-9 and -1e-9 <= self.y.share(y) <= 1.0 + 1e-9

    def draw(self, grid: bool = True) -> None:
        """Box, ticks, tick labels and axis titles with units. With `grid`, faint lines at the ticks."""
        canvas, bottom = self.canvas, self.top + self.height
        for value in self.x.ticks(max(int(self.width / 80.0), 2)):
            across = self.at(value, self.y.low)[0]
            if grid:
                canvas.line([(across, self.top), (across, bottom)], FAINT, 1.0)
            canvas.line([(across, bottom), (across, bottom + 6.0)], INK, 1.5)
            canvas.text(across, bottom + 26.0, tick_text(value), anchor="middle")
        for value in self.y.ticks(max(int(self.height / 48.0), 2)):
            down = self.at(self.x.low, value)[1]
            if grid:
                canvas.line([(self.left, down), (self.left + self.width, down)], FAINT, 1.0)
            canvas.line([(self.left - 6.0, down), (self.left, down)], INK, 1.5)
            canvas.text(self.left - 10.0, down + 6.0, tick_text(value), anchor="end")
        canvas.area(self.left, self.top, self.width, self.height, "none", INK)
        canvas.text(self.left + self.width / 2.0, bottom + 54.0, self.x.title, anchor="middle")
        canvas.text(self.left - 60.0, self.top - 14.0, self.y.title)


def framed(
    title: str,
    description: str,
    x: Axis,
    y: Axis,
    *,
    subtitle: str = "",
    source: str = "",
    legend_px: float = 0.0,
    below_px: float = 0.0,
    width: float = 960.0,
    height: float = 640.0,
) -> Frame:
    """A canvas with its title, its source line and an empty plotting area.

    `legend_px` is left free on its right, `below_px` between the plot and the source line.
    """
    canvas = Canvas(title, description, width, height)
    room = canvas.width - 40.0
    down = canvas.paragraph(20.0, 34.0, title, room, TITLE_PX, bold=True)
    if subtitle:
        down = canvas.paragraph(20.0, down, subtitle, room, SMALL_PX + 1.0)
    lines = textwrap.wrap(source, int(room / (_CHARACTER * SMALL_PX)))
    foot = canvas.height - 12.0 - 1.25 * SMALL_PX * max(len(lines) - 1, 0)
    for index, line in enumerate(lines):
        canvas.text(20.0, foot + 1.25 * SMALL_PX * index, line, SMALL_PX)
    top = down + 34.0
    bottom = foot - 1.25 * SMALL_PX - 62.0 - below_px
    left = 84.0
    return Frame(canvas, x, y, left, top, canvas.width - left - 30.0 - legend_px, bottom - top)
