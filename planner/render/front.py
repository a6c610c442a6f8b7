"""The front of price and latency as a section, for reports and pages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.render.breakdown import pool_text
from planner.render.section import Section
from planner.render.text import Cell, Pen, Row, seconds_text, value_text
from planner.review.result import pools

TITLE = "What tighter and looser latency costs; --pick N returns a line as the plan"
HEAD = ("N", "price", "accelerators", "ITL p99", "TTFT p99", "limits", "workers")


def front_section(result: Mapping[str, Any], pen: Pen) -> Section:
    """A point of the front each, cheapest first; empty where a result holds none."""
    points = (result.get("figures") or {}).get("front") or ()
    return Section(TITLE, HEAD, tuple(_row(point, pen) for point in points), align="rrrrrlw")


def _row(point: Mapping[str, Any], pen: Pen) -> Row:
    holds = "the plan" if point["is_plan"] else "holds" if point["holds"] else "misses"
    budget = point["token_budget"]
    steps = [f"steps of {budget:,} tokens"] if budget and point["mode"] == "colocated-chunked" else []
    return (
        f"{point['number']}",
        value_text(point["usd_per_hour"], "USD/h"),
        f"{point['accelerators']:,}",
        *(seconds_text(point[name]["p99"]) for name in ("itl_s", "ttft_s")),
        Cell(holds, "bad" if holds == "misses" else "good"),
        "; ".join([*(pool_text(pool, pen) for _, pool in pools(point)), *steps]),
    )
