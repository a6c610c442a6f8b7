"""A crossover map for terminals, as CSV, as a picture and as a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from statistics import median
from typing import Any

from planner.render import page
from planner.render.csv import csv_text, six_digits
from planner.render.heat_map import Contour, Label, heat_map, level_lines
from planner.render.svg import INK, Axis, Entry, renamed, stacked, tick_text
from planner.render.text import Pen, name_text, seconds_text, wrapped

Document = Mapping[str, Any]

COLUMNS = ("x", "y", "winner", "cheapest", "advantage_fraction", "interval_low", "interval_high", "limits")
BLUES, ORANGES = ("#b9dcf2", "#4f9fd6", "#005a96"), ("#fbdcb4", "#ef9f3e", "#a85a00")


def _hatched(light: str, middle: str, dark: str) -> tuple[str, str, str]:
    """The same shades with lines, as names of hatches: line and ground."""
    return (f"hatch:{middle}:{light}", f"hatch:{dark}:{middle}", f"hatch:{light}:{dark}")


SHADES = {  # light to dark: the others cost up to half more, up to twice, more or the only one that fits
    "disaggregated": BLUES,
    "heterogeneous": _hatched(*BLUES),
    "colocated-chunked": ORANGES,
    "colocated-whole-prompt": _hatched(*ORANGES),
}
NAMES = {
    "disaggregated": "two pools",
    "heterogeneous": "two pools, two accelerators",
    "colocated-chunked": "one pool, chunks",
    "colocated-whole-prompt": "one pool, whole prompts",
}
STEPS = (0.5, 1.0)
TIE, NOTHING = "#c4c4c4", "hatch:#8a8a8a:#ffffff"
LETTERS = {"disaggregated": "dD", "heterogeneous": "hH", "colocated-chunked": "cC", "colocated-whole-prompt": "wW"}
KEY = (
    "D two pools, H two pools of different accelerators, C one pool with chunks, W one pool with whole prompts; "
    "small letters lead by less than 50 %, = is a tie within the interval of the prediction, . nothing fits"
)
_LABEL_COLUMNS = 9


def facets_of(document: Document) -> list[Document]:
    """The maps of a document, one without facets."""
    return list(document.get("facets", [document]))


def grid(document: Document, one: Document) -> list[list[Document]]:
    """Cells by row, from the lowest y."""
    width = len(document["axes"]["x"]["values"])
    cells = one["cells"]
    return [cells[start : start + width] for start in range(0, len(cells), width)]


def strength(cell: Document) -> int:
    """0 to 2: how clear the lead is."""
    lead = cell["advantage_fraction"]
    return 2 if lead is None else sum(lead > step for step in STEPS)


# ------------------------------------------------------------------------------------------------------------ terminal


def to_text(document: Document, pen: Pen) -> str:
    """One letter a cell, the highest y on top."""
    lines: list[str] = []
    for one in facets_of(document):
        lines += [*letters(document, one, pen), ""]
    lines += wrapped(KEY, pen.width)
    for note in dict.fromkeys(note["text"] for one in facets_of(document) for note in one["notes"]):
        lines += [f"note: {line}" for line in wrapped(note, pen.width - 6)]
    return pen.finish(lines)


def letters(document: Document, one: Document, pen: Pen) -> list[str]:
    """One map in letters, under its title."""
    return [pen.heading(map_title(one)), f"  {conditions(document, one)}", "", *_picture(document, one)]


def _picture(document: Document, one: Document) -> list[str]:
    x, y = document["axes"]["x"], document["axes"]["y"]
    lines = [f"  {axis_title(y)}"]
    marked = _marked(y)
    for index, row in reversed(list(enumerate(grid(document, one)))):
        label = _short(_scaled(y, y["values"][index])) if index in marked else ""
        lines.append(f"{label:>{_LABEL_COLUMNS - 1}} " + "".join(map(_letter, row)))
    ticks = [" "] * (_LABEL_COLUMNS + len(x["values"]) + 8)
    for index in _marked(x):
        text = _short(_scaled(x, x["values"][index]))
        at = _LABEL_COLUMNS + index
        if all(character == " " for character in ticks[max(at - 1, 0) : at + len(text) + 1]):
            ticks[at : at + len(text)] = text
    return [*lines, "".join(ticks).rstrip(), " " * _LABEL_COLUMNS + axis_title(x)]


def _short(value: float) -> str:
    """Two digits are enough beside a row of letters."""
    return tick_text(float(f"{value:.2g}"))


def _marked(axis: Document) -> set[int]:
    last = len(axis["values"]) - 1
    return {round(last * part / 4) for part in range(5)}


def _letter(cell: Document) -> str:
    if cell["winner"] is None:
        return "."
    return "=" if cell["winner"] == "tie" else LETTERS[cell["winner"]][strength(cell) > 0]


# ----------------------------------------------------------------------------------------------------------------- csv


def to_csv(document: Document) -> str:
    """One line per cell, with the facet in front where there are facets."""
    facets = facets_of(document)
    rows = []
    for one in facets:
        for cell in one["cells"]:
            low, high = cell["interval"] or (None, None)
            values = (*(cell[name] for name in COLUMNS[:5]), low, high)
            rows.append([*one.get("facet", {}).values(), *map(six_digits, values), " ".join(cell["limits"])])
    return csv_text([*facets[0].get("facet", {}), *COLUMNS], rows)


# ------------------------------------------------------------------------------------------------------------- picture


def to_svg(document: Document) -> str:
    """The map as a picture, facets one below the other."""
    return stacked([picture(document, one) for one in facets_of(document)])


def picture(document: Document, one: Document, narrow: bool = False) -> str:
    """One map as SVG, in a narrow form for phones."""
    x, y = document["axes"]["x"], document["axes"]["y"]
    columns, rows = ([_scaled(axis, value) for value in axis["values"]] for axis in (x, y))
    cells = grid(document, one)
    leads = [[cell["lead_log2"] for cell in row] for row in cells]
    lines = [Contour("break-even", level_lines(columns, rows, smooth(leads), 0.0), width=2.5)]
    return heat_map(
        map_title(one),
        _axis(x, columns),
        _axis(y, rows),
        columns,
        rows,
        [[_fill(cell) for cell in row] for row in cells],
        _legend(one),
        contours=lines,
        labels=areas(columns, rows, [[_family(cell) for cell in row] for row in cells]),
        subtitle=conditions(document, one),
        source=source(document, one),
        narrow=narrow,
    )


def _family(cell: Document) -> str:
    """What the area of a cell is called; ties have no name."""
    if cell["winner"] is None:
        return "nothing fits"
    return {"tie": ""}.get(cell["winner"], "one pool" if cell["winner"].startswith("colocated") else "two pools")


def areas(columns: Sequence[float], rows: Sequence[float], names: Sequence[Sequence[str]]) -> list[Label]:
    """A label for each name at the cell farthest from cells of other names."""
    height, width = len(names), len(names[0])
    depth = [[1] * width for _ in names]  # cells to the nearest other name, diagonals counted as one
    for size in range(2, max(height, width)):
        for row, column in ((r, c) for r in range(height) for c in range(width) if depth[r][c] == size - 1):
            near = [(row + down, column + right) for down in (-1, 0, 1) for right in (-1, 0, 1)]
            inside = [(r, c) for r, c in near if 0 <= r < height and 0 <= c < width]
            alike = all(names[r][c] == names[row][column] and depth[r][c] >= size - 1 for r, c in inside)
            depth[row][column] += alike and len(inside) == 9
    found = []
    for name in dict.fromkeys(text for line in names for text in line if text):
        places = [(r, c) for r in range(height) for c in range(width) if names[r][c] == name]
        most = max(depth[r][c] for r, c in places)
        deepest = [(r, c) for r, c in places if depth[r][c] == most]
        row, column = deepest[len(deepest) // 2]
        left = next((c for c in range(column, -1, -1) if names[row][c] != name), -1)
        right = next((c for c in range(column, width) if names[row][c] != name), width)
        if most > 1:
            middle = (left + right) // 2
            found.append(Label(columns[middle], rows[row], name, (right - left - 1) / width))
    return found


def _axis(axis: Document, values: Sequence[float]) -> Axis:
    return Axis(axis["label"], _unit(axis), values[0], values[-1], log=axis["log"])


_SHOWN = {"s": ("ms", 1e3), "bytes/s": ("Gb/s", 8e-9)}  # what people read, and how much of it a base unit is


def _unit(axis: Document) -> str:
    return str(_SHOWN.get(axis["unit"], (axis["unit"], 1.0))[0])


def _scaled(axis: Document, value: float) -> float:
    return float(value * _SHOWN.get(axis["unit"], ("", 1.0))[1])


def axis_title(axis: Document) -> str:
    return f"{axis['label']} [{_unit(axis)}]" if axis["unit"] else str(axis["label"])


def _fill(cell: Document) -> str:
    if cell["winner"] is None:
        return NOTHING
    return TIE if cell["winner"] == "tie" else SHADES[cell["winner"]][strength(cell)]


def _legend(one: Document) -> list[Entry]:
    """Only what the map holds."""
    winners = {cell["winner"] for cell in one["cells"]}
    entries = [Entry(NAMES[name], shades[0], shades=shades) for name, shades in SHADES.items() if name in winners]
    if entries:
        text = "light: the others cost up to 50 % more; middle: up to twice; dark: more, or do not fit"
        entries.append(Entry(text, "none"))
    if "tie" in winners:
        entries.append(Entry("tie, within the error of the prediction", TIE))
    if None in winners:
        entries.append(Entry("nothing meets the targets", NOTHING))
    if any(cell["lead_log2"] is not None for cell in one["cells"]):
        entries.append(Entry("break-even of cost, smoothed", INK, "line"))
    return entries


def smooth(values: Sequence[Sequence[float | None]]) -> list[list[float | None]]:
    """Each value as the median of its neighborhood of 3 x 3, so that whole workers do not fray a contour."""
    height, width = len(values), len(values[0])

    def around(row: int, column: int) -> float | None:
        if values[row][column] is None:
            return None
        near = [
            value
            for line in values[max(row - 1, 0) : min(row + 2, height)]
            for value in line[max(column - 1, 0) : min(column + 2, width)]
            if value is not None
        ]
        return median(near)

    return [[around(row, column) for column in range(width)] for row in range(height)]


def map_title(one: Document) -> str:
    """What a map is of."""
    return f"{one['model']} on {', '.join(one['accelerators'])}: one pool or two?"


def conditions(document: Document, one: Document) -> str:
    """What holds in every cell."""
    varied = {document["axes"][side]["quantity"] for side in ("x", "y")}
    targets = [
        f"{name_text(t['metric'])} {name_text(t['statistic'])} {seconds_text(t['limit_s'])}"
        for t in one["targets"]
        if t["metric"] not in varied
    ]
    basis = f"prices {one['price_basis']}" if one["price_basis"] else "by accelerators"
    without = [f"without {', '.join(document['without'])}"] if document["without"] else []
    announced = [note["text"] for note in one["notes"] if "announced" in note["text"]]
    return ", ".join([*targets, basis, *without, *announced])


def source(document: Document, one: Document) -> str:
    """Where the picture comes from, and what its reader should know."""
    tool = document["tool"]
    told = [note["text"] for note in one["notes"] if note["level"] == "info"]
    made = f"{tool['name']} {tool['version']}, scenario {document['scenario']}, catalog {one['catalog_hash']}"
    return "; ".join([made, *told])


# ---------------------------------------------------------------------------------------------------------------- page


def to_html(document: Document) -> str:
    """A page that holds everything, and fetches nothing."""
    title = f"Crossover map of {document['scenario']}"
    parts = [page.heading(title, 1)]
    for index, one in enumerate(facets_of(document)):
        notes = "".join(f"<li>{escape(note['text'])}</li>" for note in one["notes"])
        broad, narrow = (renamed(picture(document, one, way), 2 * index + way) for way in (False, True))
        svg = f'<div class="broad">{broad}</div><div class="narrow">{narrow}</div>'
        parts.append(f"<figure>{svg}<figcaption>{f'<ul>{notes}</ul>' if notes else ''}</figcaption></figure>")
    return page.page(title, parts, document["tool"]["version"])
