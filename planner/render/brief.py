"""What a short report says of limits, time and money: a few lines each, the rest is in the long one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.render.breakdown import TRUST_TONES
from planner.render.cost import flip_words, range_words
from planner.render.text import Cell, Pen, Row, columns, name_text, percent_text, seconds_text, value_text, wrapped
from planner.review.result import pools

Document = Mapping[str, Any]

LEAST_SHARE = 0.005  # of a time; smaller parts are in the long report


def doubts(document: Document) -> list[Row]:
    """Pools whose formulas are not to be trusted as they are, and why."""
    rows: list[Row] = []
    for name, pool in pools(document["plan"]):
        if pool["trust"] not in (None, "ok"):
            mark = Cell(pool["trust"], TRUST_TONES.get(pool["trust"], "bad"))
            rows.append([name, f"{percent_text(pool['utilization'])} busy", mark, pool["trust_reason"] or ""])
    return rows


def found_words(document: Document) -> list[str]:
    """Which part of the prompts is found in which cache; empty without caches."""
    tiers = document["kv"]["tiers"] if document["kv"] else []
    found = [f"{percent_text(row['hit_fraction'])} in {row['tier']}" for row in tiers if "hit_fraction" in row]
    return [f"prompt tokens found: {', '.join(found)}"] if found else []


def time_section(document: Document, pen: Pen) -> list[str]:
    """The mean first token and one decode step, each by its parts, in a line."""
    rows: list[Row] = [
        _parts(document["prediction"], "mean TTFT", "ttft_parts_s"),
        _parts(document["prediction"], "decode step", "decode_step_parts_s"),
    ]
    return [pen.heading("Where time goes"), *columns(rows, "lrw", pen)]


def _parts(prediction: Document, title: str, name: str) -> Row:
    parts = prediction[name]
    endless = [name_text(key) for key, value in parts.items() if value is None]
    if endless:
        return [title, "unbounded", f"{', '.join(endless)} has no bound"]
    total = sum(parts.values())
    kept = sorted(((value, key) for key, value in parts.items() if value >= LEAST_SHARE * total), reverse=True)
    shares = [f"{name_text(key)} {percent_text(value / total)}" for value, key in kept]
    return [title, seconds_text(total), ", ".join(shares)]


def money_section(document: Document, pen: Pen) -> list[str]:
    """The range of the price, what it comes to, and the price that decides."""
    cost = document.get("cost")
    if not cost or cost["usd_per_hour"] is None:
        return []
    parts = [f"{range_words(cost)} by the range of quotes"] if cost["lines"] else []
    parts.append(f"{value_text(cost['usd_per_year'], 'USD')} a year")
    if cost["duty_fraction"] < 1.0:
        parts.append(f"at {percent_text(cost['duty_fraction'])} of the load round the clock")
    lines = [", ".join(parts), *([flip_words(document)] if cost["flips"] else [])]
    title = f"Money: {value_text(cost['usd_per_hour'], 'USD/h')} on {document['plan']['price_basis']}"
    return [pen.heading(title), *(f"  {line}" for text in lines for line in wrapped(text, pen.width - 2))]
