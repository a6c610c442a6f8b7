"""Figures as markup, for pages of their own and inside the page of a result. Each can be read without seeing it."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from planner.render.figures.figure import Figure
from planner.render.page import page
from planner.render.svg import renamed


def figures_page(title: str, figures: Sequence[Figure], version: str) -> str:
    """The figures under a title, one below the other; everything that a file says is escaped."""
    return page(title, [f"<h1>{escape(title)}</h1>", figures_markup(figures)], version)


def figures_markup(figures: Sequence[Figure], scope: str = "") -> str:
    """Every figure, under its kind as an anchor behind `scope`; two in a row where there is room."""
    shown = "\n".join(
        f'<figure id="{escape(scope + figure.kind)}">\n{renamed(figure.svg(), f"{scope}{index}")}</figure>'
        for index, figure in enumerate(figures)
    )
    return f'<div class="pictures">\n{shown}\n</div>'
