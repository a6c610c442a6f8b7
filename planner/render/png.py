"""A crossover map as PNG, drawn by matplotlib, which only the extra `plot` installs."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

from planner.render.crossover import NAMES, NOTHING, SHADES, TIE, axis_title, conditions, facets_of, grid, strength


def to_png(document: Mapping[str, Any]) -> bytes:
    """The map, facets one below the other. Raises ImportError without matplotlib."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.colors import to_rgb
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    maps = facets_of(document)
    x, y = document["axes"]["x"], document["axes"]["y"]
    figure = Figure(figsize=(9.6, 6.4 * len(maps)), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    for index, one in enumerate(maps):
        axes = figure.add_subplot(len(maps), 1, index + 1)
        colors = [[to_rgb(_color(cell)) for cell in row] for row in grid(document, one)]
        axes.pcolormesh(x["values"], y["values"], colors, shading="nearest")
        axes.set(xscale=_scale(x), yscale=_scale(y), xlabel=axis_title(x), ylabel=axis_title(y))
        axes.set_title(f"{one['model']} on {', '.join(one['accelerators'])}\n{conditions(document, one)}", fontsize=10)
        held = {cell["winner"] for cell in one["cells"]}
        shown = [Patch(color=SHADES[name][1], label=text) for name, text in NAMES.items() if name in held]
        shown += [Patch(color=TIE, label="tie")] if "tie" in held else []
        shown += [Patch(color=NOTHING, label="nothing fits")] if None in held else []
        axes.legend(handles=shown, loc="center left", bbox_to_anchor=(1.0, 0.5))
    out = io.BytesIO()
    figure.savefig(out, format="png", metadata={"Software": None})
    return out.getvalue()


def _scale(axis: Mapping[str, Any]) -> str:
    return "log" if axis["log"] else "linear"


def _color(cell: Mapping[str, Any]) -> str:
    if cell["winner"] is None:
        return NOTHING
    return TIE if cell["winner"] == "tie" else SHADES[cell["winner"]][strength(cell)]
