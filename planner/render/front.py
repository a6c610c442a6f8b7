"""The front of price and latency as rows of text, for reports and pages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.render.breakdown import pool_text
from planner.render.text import Cell, Pen, Row, columns, seconds_text, value_text
from planner.review.result import pools

TITLE = "What tighter and looser latency costs; --pick N returns a line as the plan"
HEAD = ("N", "price", "accelerators", "ITL p99", "TTFT p99", "limits", "workers")


def front_rows(result: Mapping[str, Any], pen: Pen) -> list[tuple[str, ...]]:
    """A point of the front each, cheapest first; nothing where a result holds none."""
    return [
        (
            f"{point['number']}",
            value_text(point["usd_per_hour"], "USD/h"),
            f"{point['accelerators']:,}",
            seconds_text(point["itl_s"]["p99"]),
            seconds_text(point["ttft_s"]["p99"]),
            "the plan" if point["is_plan"] else "holds" if point["holds"] else "misses",
            "; ".join([*(pool_text(pool, pen) for _, pool in pools(point)), *_budget(point)]),
        )
        for point in (result.get("figures") or {}).get("front") or ()
    ]


def _budget(point: Mapping[str, Any]) -> list[str]:
    budget = point["token_budget"]
    return [f"steps of {budget:,} tokens"] if budget and point["mode"] == "colocated-chunked" else []


def front_section(result: Mapping[str, Any], pen: Pen) -> list[str]:
    """The front as a table under its heading."""
    rows: list[Row] = [
        [*row[:5], Cell(row[5], "bad" if row[5] == "misses" else "good"), row[6]] for row in front_rows(result, pen)
    ]
    head: Row = [Cell(name, "dim") for name in HEAD]
    return [pen.heading(TITLE), *columns([head, *rows], "rrrrrlw", pen)] if rows else []
