"""Described sessions as a report, and their hit curve as CSV."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from planner.render.csv import csv_text
from planner.render.report import Report, report_text
from planner.render.text import Pen, seconds_text
from planner.render.trace import hit_curve, percent, tokens_text, working_set
from planner.units import format_rate

Document = Mapping[str, Any]

CURVE_COLUMNS = ("capacity_blocks", "capacity_tokens", "hit_ratio", "kept_s", "cliff_users")


def to_csv(document: Document) -> str:
    """The hit curve, one capacity a row."""
    curve = document["reuse"]["curve"]
    return csv_text(CURVE_COLUMNS, ([point[name] for name in CURVE_COLUMNS] for point in curve))


def to_text(document: Document, pen: Pen) -> str:
    """The whole document on a screen."""
    session, reuse = document["session"], document["reuse"]
    rate = format_rate(document["requests_per_s"])
    answer = f"{session['users']:,g} users, {session['turns']:,} turns a session: {rate}"
    rows = [
        (
            f"{item['capacity_blocks']:,}",
            tokens_text(item["capacity_tokens"]),
            seconds_text(item["kept_s"]),
            f"{item['cliff_users']:,.1f}",
            percent(item["hit_ratio"]),
        )
        for item in reuse["curve"]
    ]
    curve = hit_curve(reuse, ("blocks", "tokens", "kept for", "users at the cliff", "of tokens"), rows)
    sections = (working_set(reuse), curve)
    return report_text(Report("planner trace", answer, about=tuple(_about(session, reuse)), sections=sections), pen)


def _about(session: Document, reuse: Document) -> Iterator[str]:
    yield f"ceiling {percent(reuse['ceiling'])} of prompt tokens, blocks of {reuse['block_tokens']:,} tokens"
    yield f"{tokens_text(reuse['live_tokens'])} tokens hold what half of the returning turns need"
    if reuse["burst_tokens"] is not None:
        children = session["sub_agents"]["children"]
        yield f"a burst of {children:,} sub-agents comes to {tokens_text(reuse['burst_tokens'])} tokens"
