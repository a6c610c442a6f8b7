"""A titled table with what is said below it, for a screen and for a page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from planner.render.text import Cell, Pen, Row, columns, wrapped


@dataclass(frozen=True, slots=True)
class Section:
    """A table under a title, and prose below it.

    `bars` holds a share of 1 per row where one says something; `drawn` the same as letters that only a screen shows. A
    cell may have a second line, which is the less important one. Sections `beside` each other are small enough for one
    row of a wide page. `align` is of the columns on a screen, as `columns` takes it.
    """

    title: str
    head: tuple[str, ...] = ()
    rows: tuple[Row, ...] = ()
    bars: tuple[float | None, ...] = ()
    bar_name: str = ""
    beside: bool = False
    said: tuple[str, ...] = ()
    align: str = ""
    drawn: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.rows or self.said)

    @property
    def texts(self) -> list[list[str]]:
        """The rows without their tones."""
        return [[cell.text if isinstance(cell, Cell) else cell for cell in row] for row in self.rows]

    def lines(self, pen: Pen, bar_columns: int = 40, headed: bool = True) -> list[str]:
        """The section on a screen, nothing of an empty one.

        Without `align` the first column is set to the left, the others to the right.
        """
        if not self:
            return []
        bars = self.drawn or tuple(pen.bar(share, bar_columns) for share in self.bars)
        rows: list[Row] = [[*row, bar] for row, bar in zip(self.rows, bars, strict=True)] if bars else list(self.rows)
        names = (*self.head, self.bar_name) if bars else self.head
        head: list[Row] = [[Cell(text, "dim") for text in names]] if headed and any(self.head) else []
        indent = "  " if self.title else ""
        align = self.align or ("l" + "r" * (len(self.rows[0]) - 1) if self.rows else "")
        return [
            *([pen.heading(self.title)] if self.title else []),
            *columns([*head, *rows], align + ("l" if bars else ""), pen),
            *(f"{indent}{line}" for text in self.said for line in wrapped(text, pen.width - len(indent))),
        ]


def notes_section(notes: Iterable[Mapping[str, Any]]) -> Section:
    """Notes of a document, each behind its level."""
    tones = {"warning": "bad", "caution": "close", "info": ""}
    rows = tuple((Cell(f"{note['level']:7}", tones[note["level"]]), str(note["text"])) for note in notes)
    return Section("Notes", rows=rows, align="lw")
