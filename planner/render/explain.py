"""An explanation as a tree for people: a number, the formula behind it, and the parts that went in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from planner.render.text import Pen, columns, sources_line, value_text, wrapped

Document = Mapping[str, Any]

_ONCE = {"plan.search"}  # gives many numbers at once, in the same way
_BRANCHES = {True: ("├─ ", "│  ", "└─ ", "   "), False: ("|- ", "|  ", "`- ", "   ")}


def explain_text(document: Document, pen: Pen) -> str:
    """The tree, a number a line, with formulas and sources indented below it."""
    lines = list(_lines(document["tree"], pen, "", "", set()))
    return pen.finish([*lines, *sources_line("\n".join(lines))])


def _lines(node: Document, pen: Pen, first: str, rest: str, shown: set[str]) -> Iterator[str]:
    """A node and what is below it; a number that was explained further up is only named again."""
    formula = (node["formula"] or {}).get("id", "")
    again = bool(formula) and (node["field"] in shown or formula in _ONCE & shown)
    said = f"= {_value(node)}{f'  (by {formula}, above)' if again else ''}"
    name, more = _folded(node["field"], said, pen.width - len(first))
    yield f"{first}{pen.paint(node['field'], 'bold')}{name}"
    yield from (f"{rest}     {line}" for line in more)
    if again:
        return
    shown |= {node["field"], formula}
    parts = node["parts"]
    middle, through, last, blank = _BRANCHES[pen.unicode]
    inner = rest + (through if parts else blank)
    for line in _about(node):
        width = max(pen.width - len(inner), 24)
        yield from (f"{inner}{pen.paint(text, 'dim')}" for text in wrapped(line, width))
    for index, part in enumerate(parts):
        final = index == len(parts) - 1
        yield from _lines(part, pen, rest + (last if final else middle), rest + (blank if final else through), shown)


def _folded(name: str, said: str, width: int) -> tuple[str, list[str]]:
    """What follows a name on its line, and what stands below it where the screen is narrow."""
    if len(name) + 1 + len(said) <= width:
        return f" {said}", []
    return "", wrapped(said, max(width - 5, 24))


def _about(node: Document) -> Iterator[str]:
    formula, source = node["formula"], node["source"]
    if formula:
        word = "by" if node["kind"] == "formula" else "by the law"
        depends = "" if node["kind"] == "formula" or not node["parts"] else "; it depends on:"
        yield f"{word} {formula['id']}: {formula['equation']} [{formula['source']}]{depends}"
    if source:
        when = f", {source['retrieved']}" if source["retrieved"] else ""
        yield f"{source['kind']}: {source['source']}{when}"


def _value(node: Document) -> str:
    value, unit = node["value"], node["unit"]
    if value is None:
        return "not bounded"
    if isinstance(value, int | float) and not isinstance(value, bool):
        exact = f"{value:.12g}"
        shown = value_text(value, unit) if unit else exact
        return shown if shown == exact else f"{shown} ({exact}{f' {unit}' if unit not in ('', '1') else ''})"
    return str(value)


def formulas_text(rows: Sequence[Document], pen: Pen) -> str:
    """Every formula: id, equation and source."""
    table = [(row["id"], f"{row['equation']} [{row['source']}]") for row in rows]
    lines = columns(table, "lw", pen, indent=0)
    return pen.finish([*lines, *sources_line("\n".join(lines))])


def fields_text(rows: Sequence[Document], pen: Pen) -> str:
    """Every number of a result, with the formula behind it."""
    table = [(row["field"], value_text(row["value"], row["unit"]), row["formula"] or "given") for row in rows]
    return pen.finish(columns(table, "lll", pen, indent=0))
