"""The claims as a table and as the page docs/claims.md."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from planner.render.json import to_json
from planner.render.text import Cell, Pen, Row, columns
from planner.sizing.claims.bench import Claim

PAGE_HEAD = """# The claims, computed

Written by `planner claims --format markdown`; do not edit.

What is said about disaggregated serving, and what the model finds. The case is Llama-3.1-70B in bf16 on H100 under
vLLM, four accelerators to a worker unless said, and DeepSeek-V3 on eight H200 where experts matter. The error of the
model is in [accuracy.md](accuracy.md); what one claim rests on is in `planner claims NAME`.
"""


def range_text(ends: tuple[float, float], unit: str) -> str:
    low, high = (f"{value:,.3g}" if value < 1000 else f"{value:,.0f}" for value in ends)
    return f"{low} {unit}" if low == high else f"{low} to {high} {unit}"


def to_text(claims: Sequence[Claim], pen: Pen) -> str:
    """A line for each, then the cases and when it would be right."""
    head: Row = [Cell(text, "dim") for text in ("", "said", "found", "verdict")]
    body: list[Row] = [
        [one.name, range_text(one.said, one.unit), range_text(one.found, one.unit), one.verdict] for one in claims
    ]
    lines = [*columns([head, *body], "lrrl", pen), ""]
    for one in claims:
        lines += columns([[one.name, f"{one.text}. Found: {one.cases}. Right: {one.right_when}."]], "lw", pen)
    return pen.finish(lines)


def to_markdown(claims: Sequence[Claim]) -> str:
    """The page."""
    lines = [PAGE_HEAD, "| claim | said | found | verdict |", "|---|---|---|---|"]
    lines += [
        f"| {one.text} | {range_text(one.said, one.unit)} | {range_text(one.found, one.unit)} | {one.verdict} |"
        for one in claims
    ]
    for one in claims:
        lines += ["", f"## {one.name}", "", f"{one.text[0].upper()}{one.text[1:]}: **{one.verdict}**."]
        lines += ["", f"- Found: {one.cases}.", f"- Right {one.right_when}.", "", f"    planner claims {one.name}"]
    return "\n".join(lines) + "\n"


def to_document(claims: Sequence[Claim]) -> str:
    """Every field as JSON."""
    rows = [asdict(one) for one in claims]
    return to_json({"claims": [{"claim" if name == "text" else name: row[name] for name in row} for row in rows]})
