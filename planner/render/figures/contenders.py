"""Architectures side by side: price, and P99 of TTFT and of ITL with their intervals and targets."""

from __future__ import annotations

from planner.render.bars import Bar, Bars
from planner.render.figures.figure import Document, Figure, catalog_source, time_scale
from planner.render.figures.latency import TITLES
from planner.render.svg import BLUE, GREEN, GREY
from planner.render.text import seconds_text, value_text


def comparison_figures(document: Document) -> list[Figure]:
    """One figure: what each costs, and how fast it is there."""
    return [Figure("compare", [_prices(document), *(_latencies(document, name) for name in TITLES)])]


def _color(document: Document, one: Document) -> str:
    if one["verdict"] != "feasible":
        return GREY
    return GREEN if one["contender"] == document["winner"] else BLUE


def _prices(document: Document) -> Bars:
    priced = all(one.get("usd_per_hour") is not None for one in document["contenders"] if one["verdict"])
    bars = []
    for one in document["contenders"]:
        if one["verdict"] is None:
            bars.append(Bar(one["contender"], [], str(one["why_not"]), color=GREY))
            continue
        value = one["usd_per_hour"] if priced else float(one["accelerators"])
        count = f"{one['accelerators']:,} accelerators"
        text = f"{value_text(value, 'USD/h')}, {count}" if priced else count
        text += "" if one["verdict"] == "feasible" else ", misses its limits"
        bars.append(Bar(one["contender"], [("price", value)], text, color=_color(document, one)))
    label, unit = ("price", "USD/h") if priced else ("accelerators", "1")
    return Bars(
        "What each architecture costs",
        label,
        unit,
        bars,
        subtitle=f"at the same targets; green is the cheapest that holds. {document['why']}",
        source=catalog_source(document),
    )


def _latencies(document: Document, name: str) -> Bars:
    limits = [
        target["limit_s"]
        for target in document["targets"]
        if f"{target['metric']}_s" == name and target["statistic"] == "p99"
    ]
    known = [one for one in document["contenders"] if one["verdict"] and one[name]["p99"] is not None]
    unit, scale = time_scale(max([one[name]["p99"] for one in known] + limits, default=1.0))
    bars = []
    for one in known:
        low, high = one["intervals"].get(name, {}).get("p99") or (one[name]["p99"],) * 2
        ends = (low * scale, (2.0 * one[name]["p99"] if high is None else high) * scale)
        value, limit = one[name]["p99"] * scale, limits[0] * scale if limits else None
        text, color = seconds_text(one[name]["p99"]), _color(document, one)
        bars.append(Bar(one["contender"], [("p99", value)], text, color=color, span=ends, limit=limit))
    return Bars(
        f"{TITLES[name]}, P99",
        "time",
        unit,
        bars,
        subtitle="with its interval" + (f"; the target is {seconds_text(limits[0])}" if limits else ""),
        source=catalog_source(document),
    )
