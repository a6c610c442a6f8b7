"""The document of `planner whatif` as a report: a table of changes, a tornado, a curve with its knee."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from planner.render.breakdown import pool_text, pools
from planner.render.table import limit_name
from planner.render.text import Cell, Pen, Row, columns, percent_text, seconds_text, value_text, wrapped

Document = Mapping[str, Any]

CHART_COLUMNS = 40
MOST_USED = 2.0  # right end of a chart, in limits


def to_text(document: Document, pen: Pen) -> str:
    """The report with a final newline."""
    body = _sweep(document, pen) if "knee" in document else _changes(document, pen)
    lines = [line for section in ([*_head(document, pen)], *body) if section for line in (*section, "")]
    return pen.finish(lines[:-1])


def verdict_line(document: Document, pen: Pen | None = None) -> str:
    """Whether the plan holds as it is, and how many single changes break it."""
    pen = pen or Pen(unicode=False)
    base = document["base"]
    if not base["holds"]:
        return f"{pen.paint('MISSES', 'bad')}  {pen.heading('the plan misses its limits before anything changes')}"
    broken = sum(not case["holds"] for case in document["cases"])
    text = f"{broken} of {len(document['cases'])} changes break it"
    flip = document.get("flips_first")
    if flip:
        text += f", first {flip['variable']} at {_value(flip)}"
    knee = document.get("knee")
    if knee:
        text = f"{document['variable']} holds up to {knee['value']:.3g}"
    return f"{pen.paint('HOLDS', 'good')}  {pen.heading(text)}"


def _value(flip: Document) -> str:
    value = f"{flip['value']:.3g}"
    value = "a hair above 1" if value == "1" and flip["value"] > 1.0 else value
    return value if flip["variable"] == "arrival SCV" or " " in value else f"x{value}"


def _head(document: Document, pen: Pen) -> list[str]:
    plan = document["base"]["plan"]
    price = f", {value_text(document['usd_per_hour'], 'USD/h')}" if document["usd_per_hour"] is not None else ""
    basis = f" ({document['price_basis']})" if document["price_basis"] else ""
    shown = "; ".join(f"{name} {pool_text(pool, pen)}" for name, pool in pools(plan))
    lines = [verdict_line(document, pen)]
    return lines + wrapped(f"{document['scenario']}: {plan['mode']}, {shown}{price}{basis}", pen.width)


# ------------------------------------------------------------------------------------------------------------- changes


def _changes(document: Document, pen: Pen) -> list[list[str]]:
    return [_table(document, pen), _tornado(document, pen), _failures(document, pen), _advice(document, pen)]


def _shown_statistics(document: Document) -> list[tuple[str, str]]:
    """For TTFT and ITL the statistic that the last of their targets limits, else P99."""
    chosen = {"ttft": "p99", "itl": "p99"}
    metrics = {target["metric"]: target["statistic"] for target in document["targets"]}
    chosen |= {metric: metrics[metric] for metric in chosen if metric in metrics}
    return list(chosen.items())


def _table(document: Document, pen: Pen) -> list[str]:
    statistics = _shown_statistics(document)
    names = [f"{metric.upper()} {statistic.replace('_', '.')}" for metric, statistic in statistics]
    rows: list[Row] = [[Cell(t, "dim") for t in ("", "", *names, "slack", "tightest", "extra", "to hold again")]]
    for case in (document["base"], *document["cases"]):
        values = [seconds_text(case[f"{metric}_s"].get(statistic), "-") for metric, statistic in statistics]
        rows.append(
            [
                Cell("holds", "good") if case["holds"] else Cell("BREAKS", "bad"),
                case["name"],
                *values,
                _slack(case),
                limit_name(case["tightest"]) if case["tightest"] else "",
                _extra(case, document),
                _repair(case, document, pen),
            ]
        )
    lines = [pen.heading("One thing changed at a time"), *columns(rows, "llrrrlrw", pen)]
    return lines + [f"  {line}" for line in wrapped(_full(document), pen.width - 2)]


def _full(document: Document) -> str:
    """What `holds` leaves out: the part of every pool that sizing keeps free."""
    most = 1.0 - document["headroom_fraction"] + 1e-6
    full = [case["name"] for case in document["cases"] if case["holds"] and (case["utilization"] or 0.0) > most]
    text = "To hold is to meet every target and budget"
    if not full:
        return f"{text}; the headroom that planner size leaves is kept wherever it holds."
    left = f"the headroom that planner size leaves (pools busy {percent_text(most)} at most)"
    return f"{text}. Without {left}: {', '.join(full)}."


def _slack(case: Document) -> str:
    return "unbounded" if case["slack_fraction"] is None else percent_text(case["slack_fraction"], sign=True)


def _extra(case: Document, document: Document) -> str:
    if case["extra_accelerators"] is None:
        return ""
    if document["price_basis"] is None:
        return f"{case['extra_accelerators']:+,d} accelerators" if case["extra_accelerators"] else ""
    extra = case["extra_usd_per_hour"]
    return f"{extra:+,.2f} USD/h" if extra and abs(extra) >= 0.005 else ""


def _repair(case: Document, document: Document, pen: Pen) -> str:
    if case["why"]:
        return str(case["why"])
    if case["holds"] or case["kind"] in ("plan", "price") or not document["base"]["holds"]:
        return ""
    if case["repaired"] is None:
        return "no number of these workers holds"
    before, after = (dict(pools(document["base"]["plan"])), dict(pools(case["repaired"])))
    changed = [
        f"{name} {before[name]['replicas']} to {pool['replicas']}"
        for name, pool in after.items()
        if pool["replicas"] != before[name]["replicas"]
    ]
    return ", ".join(changed) or f"batch cap {case['repaired']['max_batch']}"


def _tornado(document: Document, pen: Pen) -> list[str]:
    """Per variable, how much of its tightest limit the plan uses at the low and at the high end; widest first."""
    spans = spans_of(document)
    rows: list[Row] = [
        [
            name,
            _percent(spans[name][0]),
            _percent(spans[name][1]),
            _span_bar(*spans[name], pen),
        ]
        for name in spans
    ]
    title = "Tornado: how much of its tightest limit the plan uses; the mark is the limit"
    return [pen.heading(title), *columns(rows, "lrrl", pen)] if rows else []


def spans_of(document: Document) -> dict[str, tuple[float, float]]:
    """Least and most of its tightest limit that the plan uses as each variable moves; the widest first."""
    grouped: dict[str, list[float]] = {}
    for case in document["cases"]:
        if case["kind"] not in ("price", "failure"):
            grouped.setdefault(case["variable"], []).append(_used(case))
    base = _used(document["base"])
    spans = {name: (min(base, *used), max(base, *used)) for name, used in grouped.items()}
    order = sorted(spans, key=lambda name: spans[name][0] - spans[name][1])
    return {name: spans[name] for name in order if spans[name][1] - spans[name][0] > 1e-3}


def _used(case: Document) -> float:
    return math.inf if case["slack_fraction"] is None else 1.0 - case["slack_fraction"]


def _percent(used: float) -> str:
    return percent_text(used) if math.isfinite(used) else "unbounded"


def _span_bar(low: float, high: float, pen: Pen) -> str:
    """A bar from `low` to `high` on an axis from 0 to MOST_USED limits."""
    full, edge, beyond = ("█", "│", "▶") if pen.unicode else ("#", "|", ">")
    place = CHART_COLUMNS / MOST_USED
    start = min(round(max(low, 0.0) * place), CHART_COLUMNS - 1)
    end = max(min(round(min(high, MOST_USED) * place), CHART_COLUMNS), start + 1)
    cells = [" "] * start + [full] * (end - start) + [" "] * (CHART_COLUMNS - end)
    limit = round(place)
    cells[limit] = edge
    return "".join(cells).rstrip() + (beyond if high > MOST_USED else "")


def _failures(document: Document, pen: Pen) -> list[str]:
    """Per event: during, after, back to normal, and what a spare costs."""
    statistics = _shown_statistics(document)
    names = [f"{metric.upper()} {statistic.replace('_', '.')}" for metric, statistic in statistics]
    head = ("", "", "", "lost", "first tokens", "lost ones", "queue", "after:", "", "", "back:", "", "spare")
    units = (
        "",
        "event",
        "route",
        "requests",
        "later by",
        "stall",
        "drained in",
        *names,
        "",
        "restart",
        "part",
        "costs",
    )
    rows: list[Row] = [[Cell(text, "dim") for text in head], [Cell(text, "dim") for text in units]]
    for event in document["failures"]:
        during, after, back = event["during"], event["after"], event["back"]
        spare = event["spare_usd_per_hour"]
        rows.append(
            [
                Cell("holds", "good") if after["holds"] else Cell("BREAKS", "bad"),
                event["name"],
                event["route"],
                value_text(during["lost_requests"], ""),
                seconds_text(during["ttft_added_s"]),
                seconds_text(during["stall_s"]),
                seconds_text(during["drain_s"], "never"),
                *(seconds_text(after[f"{metric}_s"].get(statistic), "-") for metric, statistic in statistics),
                after["why"] or "",
                seconds_text(back["restart_s"]),
                seconds_text(back["repair_s"]),
                f"{spare:+,.2f} USD/h" if spare else "",
            ]
        )
    if not document["failures"]:
        return []
    title = "Failures: during, after, back to normal"
    return [pen.heading(title), *columns(rows, "lllrrrrrrlrrr", pen), *_about_failures(document, pen)]


def _about_failures(document: Document, pen: Pen) -> list[str]:
    """What a worker is, and the options with which the simulator loses the same."""
    asked = [event["simulate"].split() for event in document["failures"] if event.get("simulate")]
    events, places = (list(dict.fromkeys(words[at] for words in asked if len(words) > at)) for at in (1, 3))
    lines = wrapped("A worker is what fails as one: any accelerator of it, its host or its process.", pen.width - 2)
    if events:
        restore = f"; copies with --restore {', '.join(places)}" if places else ""
        text = f"Lost again in simulation: planner simulate SCENARIO --fail {', '.join(events)}{restore}."
        lines += wrapped(text, pen.width - 2)
    return [f"  {line}" for line in lines]


def _advice(document: Document, pen: Pen) -> list[str]:
    flip, best = document["flips_first"], document["best_buy"]
    lines = []
    if flip:
        tightest = f", where {limit_name(flip['tightest'])} passes its limit" if flip["tightest"] else ""
        taken = "" if flip["variable"] == "arrival SCV" else " of what was taken"
        lines.append(f"Breaks first: {flip['variable']} at {_value(flip)}{taken}{tightest}.")
    if best:
        cost = f" for {_extra(best, document)}" if _extra(best, document) else ""
        slack = f"{_slack(document['base'])} to {_slack(best)}"
        lines.append(f"Cheapest slack: {best['name']}{cost} moves the tightest slack from {slack}.")
    return [row for line in lines for row in wrapped(line, pen.width)]


# --------------------------------------------------------------------------------------------------------------- sweep


def _sweep(document: Document, pen: Pen) -> list[list[str]]:
    statistics = _shown_statistics(document)
    names = [f"{metric.upper()} {statistic.replace('_', '.')}" for metric, statistic in statistics]
    rows: list[Row] = [[Cell(t, "dim") for t in ("", document["variable"], *names, "busiest", "slack", "of its limit")]]
    rows += [
        [
            Cell("holds", "good") if case["holds"] else Cell("BREAKS", "bad"),
            f"{case['value']:.4g}",
            *(seconds_text(case[f"{metric}_s"].get(statistic), "-") for metric, statistic in statistics),
            percent_text(case["utilization"]),
            _slack(case),
            _span_bar(0.0, _used(case), pen),
        ]
        for case in document["cases"]
    ]
    lines = [pen.heading(f"{document['meaning']}"), *columns(rows, "lrrrrrl", pen)]
    return [lines, _knee(document, pen)]


def _knee(document: Document, pen: Pen) -> list[str]:
    knee = document["knee"]
    if knee is None:
        broken = any(not case["holds"] for case in document["cases"])
        return wrapped("It breaks below what was taken." if broken else "It breaks nowhere in this range.", pen.width)
    rate = f", {knee['requests_per_s']:.3g} requests/s" if knee["requests_per_s"] is not None else ""
    tightest = f"; then {limit_name(knee['tightest'])} passes its limit" if knee["tightest"] else ""
    return wrapped(f"Knee: {document['variable']} {knee['value']:.3g}{rate}{tightest}.", pen.width)
