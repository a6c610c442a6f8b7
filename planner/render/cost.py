"""What a plan costs as a section of its report: by part, with ranges and sources, and the price that decides."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.render.text import Cell, Pen, Row, columns, percent_text, value_text, wrapped
from planner.review.result import bought

Document = Mapping[str, Any]


def cost_section(document: Document, pen: Pen) -> list[str]:
    """Parts of the price with the range of their quotes; empty where there is no price."""
    cost = document.get("cost")
    if not cost or cost["usd_per_hour"] is None:
        return []
    total = cost["usd_per_hour"]
    title = f"Money: {value_text(total, 'USD/h')} on {document['plan']['price_basis']}"
    title += f", {range_words(cost)} by the range of quotes" if cost["lines"] else ""
    rows: list[Row] = [
        [
            line["name"],
            value_text(line["usd_per_hour"], "USD/h"),
            percent_text(line["usd_per_hour"] / total if total else None),
            Cell(range_words(line), "dim"),
            Cell(f"{line['retrieved']}  {line['kind']}".strip(), "dim"),
        ]
        for line in cost["lines"]
    ]
    lines = [pen.heading(title), *columns(rows, "lrrrl", pen)]
    told = (_totals(document), flip_words(document))
    lines += [f"  {line}" for text in told for line in wrapped(text, pen.width - 2)]
    return lines


def range_words(line: Document) -> str:
    """From the lowest to the highest quote."""
    low, high = value_text(line["low_usd_per_hour"], "USD/h"), value_text(line["high_usd_per_hour"], "USD/h")
    return f"{low.removesuffix(' USD/h')} .. {high}"


def _totals(document: Document) -> str:
    cost = document["cost"]
    parts = [f"{value_text(cost['usd_per_year'], 'USD')} a year"]
    if cost["usd_per_request"] is not None:
        parts.append(f"{cost['usd_per_request'] * 1000.0:.3g} USD for a thousand requests")
    prices = document["usd_per_mtok"]
    parts += [
        f"{value_text(price, 'USD/Mtok')} {side.replace('_', ' ')}"
        for side, price in prices.items()
        if price is not None
    ]
    if cost["duty_fraction"] < 1.0:
        parts.append(f"at {percent_text(cost['duty_fraction'])} of the load round the clock")
    return ", ".join(parts)


def flip_words(document: Document) -> str:
    """The nearest price at which another plan is as cheap."""
    flips = document["cost"]["flips"]
    if not flips:
        return "no single price makes an alternative below as cheap"
    flip = flips[0]
    other = document["alternatives"][flip["alternative"]]
    reach = "inside" if flip["within_range"] else "outside"
    verb = "rises" if flip["factor"] > 1.0 else "falls"
    change = percent_text(abs(flip["factor"] - 1.0))
    return (
        f"the price that decides: if {flip['name']} {verb} by {change}, {other['mode']} on {bought(other)} "
        f"is as cheap; that is {reach} the range of its quotes"
    )
