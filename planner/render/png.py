"""Our own SVG as PNG, painted by matplotlib, which only the extra `plot` installs.

Only what `planner.render.svg` writes is known here: areas, lines, marks, texts, hatches, pictures in a picture.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DOTS_PER_PX = 1.5
_DPI = 96.0 * DOTS_PER_PX
_POINT_PX = 0.75  # points of a pixel
_NARROWER = 0.9  # the sans serif that matplotlib brings is wider than the one widths are computed for
_SPACE = "{http://www.w3.org/2000/svg}"
_SIDES = {"start": "left", "middle": "center", "end": "right"}


def to_png(document: str) -> bytes:
    """A picture of `planner.render.svg` as PNG. Raises ImportError without matplotlib."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    root = ElementTree.fromstring(document)
    _, _, width, height = (float(part) for part in root.attrib["viewBox"].split())
    figure = Figure(figsize=(width / 96.0, height / 96.0), dpi=_DPI)
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set(xlim=(0.0, width), ylim=(height, 0.0))
    axes.axis("off")
    _paint(axes, root, 0.0)
    out = io.BytesIO()
    figure.savefig(out, format="png", metadata={"Software": None})
    return out.getvalue()


def _paint(axes: Axes, parent: ElementTree.Element, down: float) -> None:
    """Every element of a picture in its order, `down` pixels lower."""
    for order, element in enumerate(parent):
        one, kind = element.attrib, element.tag.removeprefix(_SPACE)
        if kind == "svg":
            _paint(axes, element, down + float(one.get("y", 0.0)))
        elif kind == "rect" and "x" in one:
            _area(axes, one, down, order)
        elif kind in ("polyline", "polygon"):
            _path(axes, one, down, order, closed=kind == "polygon")
        elif kind == "circle":
            _dot(axes, one, down, order)
        elif kind == "text":
            _text(axes, one, element.text or "", down, order)


def _area(axes: Axes, one: dict[str, str], down: float, order: int) -> None:
    from matplotlib.patches import Rectangle

    corner = (float(one["x"]), float(one["y"]) + down)
    size = (float(one["width"]), float(one["height"]))
    hatched = one["fill"].startswith("url(")
    style: dict[str, Any] = {"facecolor": one["fill"], "edgecolor": one["stroke"]}
    if hatched:  # the name of a hatch holds its color and its background
        color, ground = one["fill"].removeprefix("url(#").removesuffix(")").split("-")[-2:]
        style = {"facecolor": f"#{ground}", "edgecolor": f"#{color}", "hatch": "///"}
    width = 0.0 if hatched else _POINT_PX
    axes.add_patch(Rectangle(corner, *size, linewidth=width, zorder=order, **style))


def _path(axes: Axes, one: dict[str, str], down: float, order: int, closed: bool) -> None:
    points = [tuple(map(float, point.split(","))) for point in one["points"].split()]
    across, below = [x for x, _ in points], [y + down for _, y in points]
    if closed:
        from matplotlib.patches import Polygon

        corners = list(zip(across, below, strict=True))
        axes.add_patch(Polygon(corners, facecolor=one["fill"], edgecolor=one["stroke"], linewidth=1.5, zorder=order))
        return
    width = float(one["stroke-width"]) * _POINT_PX
    line = axes.plot(across, below, color=one["stroke"], linewidth=width, zorder=order, solid_joinstyle="round")[0]
    if one.get("stroke-dasharray"):
        line.set_dashes([float(part) / float(one["stroke-width"]) for part in one["stroke-dasharray"].split()])


def _dot(axes: Axes, one: dict[str, str], down: float, order: int) -> None:
    from matplotlib.patches import Circle

    middle = (float(one["cx"]), float(one["cy"]) + down)
    radius = float(one["r"])
    axes.add_patch(Circle(middle, radius, facecolor=one["fill"], edgecolor=one["stroke"], linewidth=1.5, zorder=order))


def _text(axes: Axes, one: dict[str, str], text: str, down: float, order: int) -> None:
    from matplotlib.patheffects import withStroke

    rim = one.get("stroke")
    axes.text(
        float(one["x"]),
        float(one["y"]) + down,
        text.replace("$", r"\$"),  # which would begin a formula
        fontsize=float(one["font-size"]) * _POINT_PX * _NARROWER,
        ha=_SIDES[one.get("text-anchor", "start")],
        va="baseline",
        color=one["fill"],
        fontweight=one.get("font-weight", "normal"),
        zorder=order,
        path_effects=[withStroke(linewidth=4.0, foreground=rim)] if rim else None,
    )
