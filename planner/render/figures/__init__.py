"""Figures of documents, by kind: each drawn as SVG or in letters, with numbers that its document holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from planner.render.figures import front, latency, roofline, shares
from planner.render.figures.figure import Document, Figure

Drawer = Callable[[Document], Figure]

# In the order in which they are drawn, and what a document must hold for each, as a path of names.
RESULT_FIGURES: Mapping[str, tuple[Drawer, tuple[str, ...]]] = {
    "latency": (latency.latency, ("figures", "distributions")),
    "load": (latency.load, ("figures", "load")),
    "roofline": (roofline.roofline, ("figures", "operators")),
    "memory": (shares.memory, ("plan",)),
    "ttft": (shares.ttft, ("prediction",)),
    "step": (shares.step, ("prediction",)),
    "cost": (shares.cost, ("cost", "lines")),
    "front": (front.front, ("figures", "front")),
}


def result_figures(result: Document, kinds: Sequence[str] = tuple(RESULT_FIGURES)) -> list[Figure]:
    """Those of `kinds` that a result holds the numbers for, in the order of RESULT_FIGURES."""
    wanted = [(draw, needed) for kind, (draw, needed) in RESULT_FIGURES.items() if kind in kinds]
    drawn = (draw(result) for draw, needed in wanted if _holds(result, needed))
    return [figure for figure in drawn if figure.charts]


def _holds(document: Document, path: Sequence[str]) -> bool:
    found = document
    for name in path:
        found = (found or {}).get(name) or {}
    return bool(found)
