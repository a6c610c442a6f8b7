"""A comparison of architectures as a report, as CSV and as Markdown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.render.breakdown import pool_text
from planner.render.csv import csv_text, six_digits
from planner.render.figures.contenders import comparison_figures
from planner.render.report import Report, report_page, report_text
from planner.render.section import Section
from planner.render.table import limit_name
from planner.render.text import Cell, Pen, Row, name_text, percent_text, seconds_text, value_text
from planner.review.result import pools

Document = Mapping[str, Any]

COLUMNS = (
    "contender", "verdict", "accelerators", "usd_per_hour", "requests_per_s_per_accelerator", "ttft_p50_s",
    "ttft_p99_s", "itl_p50_s", "itl_p99_s", "tightest_limit", "slack_fraction", "why_not",
)  # fmt: skip
END_WORDS = {
    "rate": "load",
    "input_tokens": "mean prompt",
    "output_tokens": "mean output",
    "itl": "ITL target",
    "ttft": "TTFT target",
    "network": "NIC of an accelerator",
    "price_ratio": "price of decode over prefill accelerators, times",
}
HEAD = ("", "accelerators", "cost", "req/s each", "TTFT p50", "p99", "ITL p50", "p99", "tightest limit", "")


def to_text(document: Document, pen: Pen) -> str:
    """The outcome, one line per architecture, its pools, and why."""
    return report_text(_report(document, pen), pen)


def to_html(document: Document) -> str:
    """The same as a page, with its figure."""
    return report_page([_report(document, Pen())], comparison_figures(document))


def _report(document: Document, pen: Pen) -> Report:
    verdict, answer = ("NOTHING FITS", "no architecture meets every limit") if document["winner"] is None else ("", "")
    lead = document["advantage_fraction"]
    if document["winner"] is not None:
        answer = f"cheapest: {document['winner']}"
        answer += "" if lead is None else f"; {document['runner_up']} costs {percent_text(lead, sign=True)}"
    contenders = tuple(_row(one, one["contender"] == document["winner"]) for one in document["contenders"])
    sections = (
        Section("Architectures", HEAD, contenders, align="lrrrrrrrll"),
        Section("Pools", rows=tuple(row for one in document["contenders"] for row in _pools(one, pen)), align="llw"),
        Section("Why", said=(document["why"],)),
        Section("Where that stops", rows=tuple(_end(end) for end in document["ends"]), align="lrlrl"),
    )
    return Report(
        f"planner compare: {document['scenario']}", answer, verdict, "bad", (_conditions(document),), sections
    )


def _end(end: Document) -> Row:
    way = ("" if end["confirmed"] else "about ") + ("above" if end["at"] > end["now"] else "below")
    then = "nothing meets the targets" if end["then"] == "nothing" else f"{end['then']} is cheaper"
    values = [_amount(end["unit"], end[side]) for side in ("now", "at")]
    return [END_WORDS[end["quantity"]], f"now {values[0]}", way, values[1], then]


def _amount(unit: str, value: float) -> str:
    """Two digits: an end is no sharper than the prediction."""
    rounded = float(f"{value:.2g}")
    return (
        value_text(rounded, unit)
        if unit in ("s", "requests/s", "bytes/s")
        else f"{rounded:,.0f}"
        if rounded >= 100.0
        else f"{rounded:g}"
    )


def _conditions(document: Document) -> str:
    targets = ", ".join(
        f"{name_text(target['metric'])} {name_text(target['statistic'])} {seconds_text(target['limit_s'])}"
        for target in document["targets"]
    )
    basis = f"prices {document['price_basis']}" if document["price_basis"] else "ranked by accelerators"
    return f"all at {targets}, {percent_text(document['headroom_fraction'])} headroom, {basis}"


def _pools(one: Document, pen: Pen) -> list[Row]:
    if one["verdict"] is None:
        return [[one["contender"], "", one["why_not"]]]
    found = pools(one["plan"])
    return [["" if index else one["contender"], name, pool_text(pool, pen)] for index, (name, pool) in enumerate(found)]


def _slack(limit: Document | None) -> str:
    if limit is None:
        return ""
    slack = limit["slack_fraction"]
    if slack is None:
        return f"{limit_name(limit['name'])} unbounded"
    return f"{limit_name(limit['name'])} {percent_text(abs(slack))} {'free' if slack >= 0 else 'over'}"


def _row(one: Document, winner: bool) -> Row:
    if one["verdict"] is None:
        return [one["contender"], *["-"] * 7, "", Cell("not possible", "dim")]
    missed = one["verdict"] == "infeasible"
    return [
        Cell(one["contender"], "good" if winner else ""),
        f"{one['accelerators']:,}",
        value_text(one["usd_per_hour"], "USD/h"),
        f"{one['requests_per_s_per_accelerator']:.3g}",
        *(seconds_text(one[name][key]) for name in ("ttft_s", "itl_s") for key in ("p50", "p99")),
        _slack(one["tightest_limit"]),
        Cell("misses a limit", "bad") if missed else Cell("cheapest", "good") if winner else "",
    ]


def to_csv(document: Document) -> str:
    """One line per architecture in base units; empty where there is no value."""
    return csv_text(COLUMNS, ([six_digits(value) for value in _flat(one)] for one in document["contenders"]))


def _flat(one: Document) -> list[Any]:
    row = {name: one.get(name) for name in COLUMNS}
    if one["verdict"] is not None:
        limit = one["tightest_limit"] or {}
        row |= {f"{name[:-2]}_{key}_s": one[name][key] for name in ("ttft_s", "itl_s") for key in ("p50", "p99")}
        row |= {"tightest_limit": limit.get("name"), "slack_fraction": limit.get("slack_fraction")}
    return list(row.values())


def to_markdown(document: Document) -> str:
    """A table for a pull request or a page."""
    head = ("architecture", "accelerators", "cost", "req/s each", "TTFT P50 / P99", "ITL P50 / P99", "tightest limit")
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    for one in document["contenders"]:
        if one["verdict"] is None:
            lines.append(f"| {one['contender']} | - | - | - | - | - | {one['why_not']} |")
            continue
        name = f"**{one['contender']}**" if one["contender"] == document["winner"] else one["contender"]
        times = [f"{seconds_text(one[m]['p50'])} / {seconds_text(one[m]['p99'])}" for m in ("ttft_s", "itl_s")]
        cost, rate = value_text(one["usd_per_hour"], "USD/h"), f"{one['requests_per_s_per_accelerator']:.3g}"
        lines.append(
            f"| {' | '.join([name, str(one['accelerators']), cost, rate, *times, _slack(one['tightest_limit'])])} |"
        )
    stops = ["; ".join(" ".join(map(str, _end(end))) for end in document["ends"])] if document["ends"] else []
    told = [_conditions(document) + ".", "", document["why"] + ".", *(["", f"It stops: {stops[0]}."] if stops else [])]
    return "\n".join([*lines, "", *told]) + "\n"
