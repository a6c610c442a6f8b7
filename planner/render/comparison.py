"""A comparison of architectures as a table, as CSV and as Markdown."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from typing import Any

from planner.render.breakdown import pool_text, pools
from planner.render.table import limit_name
from planner.render.text import Cell, Pen, Row, columns, name_text, percent_text, seconds_text, value_text, wrapped

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
    """The comparison for people: the outcome, one line per architecture, its pools, and why."""
    body: list[Row] = [_row(one, one["contender"] == document["winner"]) for one in document["contenders"]]
    head: Row = [Cell(text, "dim") for text in HEAD]
    lines = [_outcome(document, pen), *(f"  {line}" for line in wrapped(_conditions(document), pen.width - 2)), ""]
    lines += columns([head, *body], "lrrrrrrrll", pen)
    lines += ["", pen.heading("Pools")]
    lines += columns([row for one in document["contenders"] for row in _pools(one, pen)], "llw", pen)
    lines += ["", pen.heading("Why")]
    lines += [f"  {line}" for line in wrapped(document["why"], pen.width - 2)]
    if document["ends"]:
        lines += ["", pen.heading("Where that stops")]
        lines += columns([_end(end) for end in document["ends"]], "lrlrl", pen)
    return pen.finish(lines)


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


def _outcome(document: Document, pen: Pen) -> str:
    if document["winner"] is None:
        return pen.paint("NOTHING FITS", "bad") + "  " + pen.heading("no architecture meets every limit")
    lead = document["advantage_fraction"]
    text = f"cheapest: {document['winner']}"
    if lead is not None:
        text += f"; {document['runner_up']} costs {percent_text(lead, sign=True)}"
    return pen.heading(text)


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


def rows(document: Document) -> list[dict[str, Any]]:
    """One flat row per architecture."""
    found = []
    for one in document["contenders"]:
        row = {name: one.get(name) for name in COLUMNS}
        if one["verdict"] is not None:
            limit = one["tightest_limit"] or {}
            row |= {f"{name[:-2]}_{key}_s": one[name][key] for name in ("ttft_s", "itl_s") for key in ("p50", "p99")}
            row |= {"tightest_limit": limit.get("name"), "slack_fraction": limit.get("slack_fraction")}
        found.append(row)
    return found


def to_csv(document: Document) -> str:
    """One line per architecture in base units; empty where there is no value."""
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for row in rows(document):
        writer.writerow({name: _cell(value) for name, value in row.items()})
    return out.getvalue()


def _cell(value: Any) -> Any:
    return "" if value is None else f"{value:.6g}" if isinstance(value, float) else value


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
