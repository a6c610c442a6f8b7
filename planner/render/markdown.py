"""A result as Markdown for a comment on a change: headline, what changed, what is tight, all else folded.

No HTML but `details`, `summary` and a hidden first line by which a later comment replaces this one. Never longer than a
comment may be: blocks are added, most important first, while there is room.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from planner.render.checks import change_text, quantity, subject
from planner.render.gate import fault_text, headline, verdict_word
from planner.render.section import Section
from planner.render.sections import assumptions, check_row, checks_section, sections
from planner.render.table import plan_words, verdict_line
from planner.review.checks import worst_first
from planner.review.result import scenario_name

Document = Mapping[str, Any]

MOST_CHARACTERS = 60_000
LEFT_OUT = 400  # characters kept for the line that says what is left out
MOST_ROWS = 40  # of a table above the fold
MARKER = "<!-- planner:{} -->"
_SPECIAL = re.compile(r"([\\`*_\[\]#|~$])")


def to_markdown(document: Document) -> str:
    """Return the comment, under 60,000 characters, with a final newline."""
    if "results" in document:
        kind, blocks = "check", _gate_blocks(document)
    else:
        kind, blocks = "result", _result_blocks(document)
    return _fitted([MARKER.format(kind), *blocks])


def _fitted(blocks: Sequence[str]) -> str:
    kept, length, left = [], 0, 0
    for block in blocks:
        if length + len(block) + 2 <= MOST_CHARACTERS - LEFT_OUT:
            kept.append(block)
            length += len(block) + 2
        else:
            left += 1
    if left:
        kept.append(f"{left} more blocks are left out of this comment; `--format json` and `--format html` hold all.")
    return "\n\n".join(kept) + "\n"


# -------------------------------------------------------------------------------------------------------------- blocks


def _gate_blocks(document: Document) -> Iterator[str]:
    yield f"### planner check: {verdict_word(document)}"
    yield f"{_text(headline(document))}."
    yield from _changes(document)
    yield from _open_checks(document)
    for broken in document["broken"]:
        faults = "\n".join(f"- {_code(fault_text(fault))}" for fault in broken["faults"])
        yield f"**{_code(broken['scenario'])} cannot be read:**\n\n{faults}"
    order = {"fail": 0, "at risk": 1, "pass": 2}
    for result in sorted(document["results"], key=lambda one: order[one["gate"]]):
        title = f"{result['gate'].upper()} {scenario_name(result)}: {plan_words(result)}"
        yield _folded(title, "\n\n".join(map(_section, _in_short(result))))


def _in_short(result: Document) -> Iterator[Section]:
    yield checks_section(result)
    for section in sections(result):
        if section.rows and section.title.startswith(("Plan", "Limits", "Latency", "Notes")):
            yield section


def _changes(document: Document) -> Iterator[str]:
    """Every check whose value differs from the baseline's."""
    rows = [
        (
            scenario_name(result),
            subject(line).removeprefix("change of "),
            quantity(line["reference"], line["unit"]),
            quantity(line["value"], line["unit"]),
            change_text(line),
        )
        for result in document["results"]
        for line in _first_of_each(result["checks"])
        if line["delta"]
    ]
    if rows:
        yield "**Changes against the baseline**"
        yield _table(("scenario", "metric", "baseline", "now", "change"), rows)


def _first_of_each(lines: Sequence[Document]) -> Iterator[Document]:
    """One line per metric: a limit and a change of the same one move together."""
    seen = set()
    for line in lines:
        key = (line["metric"], line["statistic"])
        if line["kind"] != "witness" and key not in seen:
            seen.add(key)
            yield line


def _open_checks(document: Document) -> Iterator[str]:
    """Checks that fail or are at risk, worst first over all scenarios."""
    named = [{**line, "scenario": scenario_name(result)} for result in document["results"] for line in result["checks"]]
    rows = [(line["scenario"], *check_row(line)) for line in worst_first(named) if line["verdict"] != "pass"]
    if rows:
        yield "**Checks that do not pass**"
        yield _table(("scenario", "verdict", "check", "limit", "value", "interval", "slack"), rows)


def _result_blocks(document: Document) -> Iterator[str]:
    verdict, _, answer = verdict_line(document).partition("  ")
    yield f"### planner: {verdict}"
    yield f"{_text(answer)}."
    yield _section(checks_section(document))
    for section in sections(document):
        if section.rows:
            unfolded = section.title.startswith("Plan")
            yield _section(section) if unfolded else _folded(section.title, _table(section.head, section.texts))
    resting = "\n\n".join(_section(section) for section in assumptions(document) if section.rows)
    yield _folded("Assumptions, with sources", resting)


# ------------------------------------------------------------------------------------------------------------ elements


def _section(section: Section) -> str:
    return f"**{_text(section.title)}**\n\n{_table(section.head, section.texts)}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [_row(head), "|" + "---|" * len(head), *map(_row, rows[:MOST_ROWS])]
    more = len(rows) - MOST_ROWS
    return "\n".join(lines) + (f"\n\n{more} more rows." if more > 0 else "")


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(map(_text, cells)) + " |"


def _folded(title: str, body: str) -> str:
    return f"<details>\n<summary>{_escaped(title)}</summary>\n\n{body}\n\n</details>"


def _text(text: str) -> str:
    """Text that is no markup: nothing in it links, mentions, formats or ends a cell."""
    return _SPECIAL.sub(r"\\\1", _escaped(text))


def _escaped(text: str) -> str:
    flat = " ".join(str(text).split())
    return flat.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("@", "&#64;")


def _code(text: str) -> str:
    flat = " ".join(str(text).split()).replace("`", "'")
    return f"`{flat}`"
