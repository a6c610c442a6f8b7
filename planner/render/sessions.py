"""Described sessions as text, and their hit curve as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from typing import Any

from planner.render.text import Cell, Pen, Row, columns, seconds_text
from planner.render.trace import percent, tokens_text, working_set
from planner.units import format_rate

Document = Mapping[str, Any]

CURVE_COLUMNS = ("capacity_blocks", "capacity_tokens", "hit_ratio", "kept_s", "cliff_users")
_BAR_COLUMNS = 40


def to_csv(document: Document) -> str:
    """The hit curve, one capacity a row."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, CURVE_COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(document["reuse"]["curve"])
    return stream.getvalue()


def to_text(document: Document, pen: Pen) -> str:
    """The whole document for people."""
    sections = [_head(document, pen), working_set(document["reuse"], pen), _curve(document["reuse"], pen)]
    lines = [line for section in sections for line in (*section, "")]
    return pen.finish(lines[:-1])


def _head(document: Document, pen: Pen) -> list[str]:
    session, reuse = document["session"], document["reuse"]
    rate = format_rate(document["requests_per_s"])
    size = f"blocks of {reuse['block_tokens']:,} tokens"
    lines = [
        pen.heading(f"{session['users']:,g} users, {session['turns']:,} turns a session: {rate}"),
        f"  ceiling {percent(reuse['ceiling'])} of prompt tokens, {size}",
        f"  {tokens_text(reuse['live_tokens'])} tokens hold what half of the returning turns need",
    ]
    if reuse["burst_tokens"] is not None:
        children = session["sub_agents"]["children"]
        lines.append(f"  a burst of {children:,} sub-agents comes to {tokens_text(reuse['burst_tokens'])} tokens")
    return lines


def _curve(reuse: Document, pen: Pen) -> list[str]:
    titles = ("blocks", "tokens", "kept for", "users at the cliff", "of tokens", "of the ceiling")
    head: Row = [Cell(text, "dim") for text in titles]
    rows: list[Row] = [
        [
            f"{item['capacity_blocks']:,}",
            tokens_text(item["capacity_tokens"]),
            seconds_text(item["kept_s"]),
            f"{item['cliff_users']:,.1f}",
            percent(item["hit_ratio"]),
            pen.bar(item["hit_ratio"] / (reuse["ceiling"] or 1.0), _BAR_COLUMNS),
        ]
        for item in reuse["curve"]
    ]
    return [pen.heading("Hit ratio by capacity"), *columns([head, *rows], "rrrrrl", pen)]
