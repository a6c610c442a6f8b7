"""What a command says to people, told once: an answer, what it is about, and sections, for a screen and for a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from planner import __version__
from planner.render import page
from planner.render.figures.figure import Figure
from planner.render.figures.page import figures_markup
from planner.render.section import Section
from planner.render.text import Pen, wrapped

_CLASSES = {"good": "pass", "close": "risk", "bad": "fail"}


@dataclass(frozen=True, slots=True)
class Report:
    """`title` is that of the page; `verdict` stands in front of the answer, in a tone of good, close or bad."""

    title: str
    answer: str
    verdict: str = ""
    tone: str = ""
    about: tuple[str, ...] = ()
    sections: tuple[Section, ...] = ()

    @property
    def first_line(self) -> str:
        return f"{self.verdict}  {self.answer}".strip()


def report_text(report: Report, pen: Pen) -> str:
    """The report on a screen, with a final newline."""
    verdict = f"{pen.paint(report.verdict, report.tone)}  " if report.verdict else ""
    lines = [
        verdict + pen.heading(report.answer),
        *(line for text in report.about for line in wrapped(text, pen.width)),
    ]
    for section in filter(None, report.sections):
        lines += ["", *section.lines(pen)]
    return pen.finish(lines)


def report_page(reports: Sequence[Report], figures: Sequence[Figure] = ()) -> str:
    """Reports and pictures as a page that needs nothing else, under the title of the first."""
    pictures = [page.titled("Pictures", 2, figures_markup(figures))] if figures else []
    return page.page(reports[0].title, [*map(_content, reports), *pictures], __version__)


def report_fragment(report: Report) -> str:
    """The same for a place inside another page."""
    return page.fragment(_content(report))


def _content(report: Report) -> str:
    verdict = f"{page.word(report.verdict, _CLASSES[report.tone])} " if report.verdict else ""
    about = "".join(f"<p>{escape(text)}</p>\n" for text in report.about)
    return f"<h1>{verdict}{escape(report.answer)}</h1>\n{about}{page.sections_markup(report.sections, 2)}"
