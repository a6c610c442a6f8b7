"""A result as one page that needs nothing else: no script, no font, no network. The verdict first, sources last."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from planner.render import page
from planner.render.checks import interval_text, limit_text, measured_text
from planner.render.gate import fault_text, headline, verdict_word
from planner.render.sections import assumptions, checks_section, sections
from planner.render.table import load_words, plan_words, verdict_line
from planner.render.text import sources_line
from planner.review.result import scenario_name

Document = Mapping[str, Any]

TONES = {
    "pass": "pass",
    "at risk": "risk",
    "fail": "fail",
    "broken": "fail",
    "feasible": "pass",
    "infeasible": "fail",
}
KEY = "Bars: the thin bar is the interval, the thick mark the value, the thin mark the limit."


def to_html(document: Document) -> str:
    """Return the page of a result or of a gate document; everything that a file says is escaped."""
    many = "results" in document
    body = list(_gate(document) if many else _result(document))
    title = f"planner check: {verdict_word(document)}" if many else f"planner: {scenario_name(document)}"
    return page.page(title, body, document["tool"]["version"])


def to_html_fragment(document: Document) -> str:
    """Return the content of the page of a result for a place inside another page; its style stays inside as well."""
    return page.fragment("\n".join(_result(document)))


# ------------------------------------------------------------------------------------------------------------- results


def _result(document: Document) -> Iterator[str]:
    verdict, _, answer = verdict_line(document).partition("  ")
    yield f"<h1>{page.word(verdict, TONES[document['verdict']])} {escape(answer)}</h1>"
    yield f"<p>{escape(load_words(document))}</p>"
    if document.get("nearest_miss"):
        yield f"<p>{escape(document['nearest_miss']['policy'])}</p>"
    yield from _body(document, 2)


def _gate(document: Document) -> Iterator[str]:
    yield f"<h1>{page.word(verdict_word(document), TONES[document['verdict']])} {escape(headline(document))}</h1>"
    rows = [
        (
            page.word(one["gate"], TONES[one["gate"]]),
            f'<a href="#scenario-{number}">{escape(scenario_name(one))}</a>',
            escape(plan_words(one)),
        )
        for number, one in enumerate(document["results"], 1)
    ]
    rows += [
        (
            page.word("broken", "fail"),
            escape(one["scenario"]),
            "<br>".join(escape(fault_text(fault)) for fault in one["faults"]),
        )
        for one in document["broken"]
    ]
    yield page.table("Scenarios", ("verdict", "scenario", "plan"), rows)
    for number, one in enumerate(document["results"], 1):
        yield f'<article id="scenario-{number}">'
        yield f"<h2>{page.word(one['gate'], TONES[one['gate']])} {escape(scenario_name(one))}</h2>"
        yield f"<p>{escape(plan_words(one))}. {escape(load_words(one))}</p>"
        yield from _body(one, 3, f"scenario-{number}-")
        yield "</article>"


def _body(result: Document, level: int, scope: str = "") -> Iterator[str]:
    if result["checks"]:
        yield _checks(result, level)
    yield page.sections_markup(sections(result), level)
    if result.get("figures"):
        yield _pictures(result, level, scope)
    resting = page.sections_markup(assumptions(result), level + 1)
    title = page.heading("Assumptions, with sources", level)
    cited = "".join(f'<p class="quiet">{line}</p>\n' for line in sources_line(resting))
    yield f"<details>\n<summary>{title}</summary>\n{resting}{cited}</details>"


def _pictures(result: Document, level: int, scope: str) -> str:
    """What figures there are numbers for."""
    from planner.render.figures import result_figures
    from planner.render.figures.page import figures_markup

    return page.titled("Pictures", level, figures_markup(result_figures(result), scope))


def _checks(result: Document, level: int) -> str:
    """Every check with its interval as a bar, and its value and limit as marks."""
    section = checks_section(result)
    rows = [
        (page.word(row[0], TONES[line["verdict"]]), *map(page.cell, row[1:]), _span(line))
        for line, row in zip(result["checks"], section.texts, strict=True)
    ]
    table = page.table(section.title, (*section.head, ""), rows)
    return page.titled(section.title, level, f'{table}\n<p class="quiet">{KEY}</p>')


def _span(line: Document) -> str:
    value, interval = line["value"], line["interval"]
    if value is None or line["kind"] != "limit":
        return ""
    low, high = interval or (value, value)
    if low is None:
        return ""
    between = interval_text(line)
    label = f"value {measured_text(line)}{f', interval {between}' if between else ''}, limit {limit_text(line)}"
    return page.span(label, low, high, value, line["limit"])
