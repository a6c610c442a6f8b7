"""The crossover map as a figure among the others."""

from __future__ import annotations

from planner.render.crossover import facets_of, letters, map_title, picture
from planner.render.figures.figure import Document, Figure, Picture
from planner.render.text import Pen


def crossover_figures(document: Document) -> list[Figure]:
    """One figure of all facets, one below the other."""
    return [Figure("map", [_picture(document, one) for one in facets_of(document)])]


def _picture(document: Document, one: Document) -> Picture:
    def drawn(pen: Pen) -> list[str]:
        return letters(document, one, pen)

    return Picture(map_title(one), picture(document, one), drawn)
