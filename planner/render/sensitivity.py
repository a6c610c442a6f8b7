"""The document of `planner whatif` as a report: a table of changes, a tornado, a curve with its knee."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from planner.render.breakdown import pool_text
from planner.render.report import Report, report_page, report_text
from planner.render.section import Section
from planner.render.table import limit_name
from planner.render.text import Cell, Pen, Row, name_text, percent_text, seconds_text, value_text
from planner.review.result import pools

Document = Mapping[str, Any]

CHART_COLUMNS = 40
MOST_USED = 2.0  # right end of a chart, in limits


def to_text(document: Document, pen: Pen) -> str:
    """The report on a screen."""
    return report_text(_report(document, pen), pen)


def to_html(document: Document) -> str:
    """The same as a page, with its figure."""
    from planner.render.figures.whatif import whatif_figures  # which reads spans here

    return report_page([_report(document, Pen())], whatif_figures(document))


def verdict_line(document: Document) -> str:
    """Whether the plan holds as it is, and how many single changes break it."""
    return _report(document, Pen(unicode=False)).first_line


def _report(document: Document, pen: Pen) -> Report:
    holds = document["base"]["holds"]
    return Report(
        f"planner whatif: {document['scenario']}",
        _answer(document) if holds else "the plan misses its limits before anything changes",
        "HOLDS" if holds else "MISSES",
        "good" if holds else "bad",
        (_about(document, pen),),
        tuple(_sweep(document, pen) if "knee" in document else _changes(document, pen)),
    )


def _answer(document: Document) -> str:
    knee, flip = document.get("knee"), document.get("flips_first")
    if knee:
        return f"{document['variable']} holds up to {knee['value']:.3g}"
    broken = sum(not case["holds"] for case in document["cases"])
    text = f"{broken} of {len(document['cases'])} changes break it"
    return f"{text}, first {flip['variable']} at {_value(flip)}" if flip else text


def _value(flip: Document) -> str:
    value = f"{flip['value']:.3g}"
    value = "a hair above 1" if value == "1" and flip["value"] > 1.0 else value
    return value if flip["variable"] == "arrival SCV" or " " in value else f"x{value}"


def _about(document: Document, pen: Pen) -> str:
    plan = document["base"]["plan"]
    price = f", {value_text(document['usd_per_hour'], 'USD/h')}" if document["usd_per_hour"] is not None else ""
    basis = f" ({document['price_basis']})" if document["price_basis"] else ""
    shown = "; ".join(f"{name} {pool_text(pool, pen)}" for name, pool in pools(plan))
    return f"{document['scenario']}: {plan['mode']}, {shown}{price}{basis}"


# ------------------------------------------------------------------------------------------------------------- changes


def _changes(document: Document, pen: Pen) -> Iterator[Section]:
    yield _table(document)
    yield _tornado(document, pen)
    yield _failures(document)
    yield Section("", said=tuple(_advice(document)))


def _shown(document: Document) -> dict[str, tuple[str, str]]:
    """For TTFT and ITL the statistic that the last of their targets limits, else P99; by its name for people."""
    limited = {target["metric"]: target["statistic"] for target in document["targets"]}
    chosen = [(metric, limited.get(metric, "p99")) for metric in ("ttft", "itl")]
    return {f"{name_text(metric)} {name_text(statistic)}": (f"{metric}_s", statistic) for metric, statistic in chosen}


def _latencies(values: Document, document: Document) -> list[str]:
    return [seconds_text(values[name].get(statistic), "-") for name, statistic in _shown(document).values()]


def _status(holds: bool) -> Cell:
    return Cell("holds", "good") if holds else Cell("BREAKS", "bad")


def _table(document: Document) -> Section:
    rows = [
        [
            _status(case["holds"]),
            case["name"],
            *_latencies(case, document),
            _slack(case),
            limit_name(case["tightest"]) if case["tightest"] else "",
            _extra(case, document),
            _repair(case, document),
        ]
        for case in (document["base"], *document["cases"])
    ]
    head = ("", "", *_shown(document), "slack", "tightest", "extra", "to hold again")
    return Section("One thing changed at a time", head, tuple(rows), align="llrrrlrw", said=(_full(document),))


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


def _repair(case: Document, document: Document) -> str:
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


def _tornado(document: Document, pen: Pen) -> Section:
    """Per variable, how much of its tightest limit the plan uses at the low and at the high end; widest first."""
    spans = spans_of(document)
    rows = tuple([name, *map(_percent, span)] for name, span in spans.items())
    title = "Tornado: how much of its tightest limit the plan uses; the mark is the limit"
    return Section(title, rows=rows, drawn=tuple(_span_bar(*span, pen) for span in spans.values()))


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


def _failures(document: Document) -> Section:
    """Per event: during, after, back to normal, and what a spare costs."""
    names = tuple(_shown(document))
    over = ("", "", "", "lost", "first tokens", "lost ones", "queue", "after:", "", "", "back:", "", "spare")
    head = ("", "event", "route", "requests", "later by", "stall", "drained in", *names, "", "restart", "part", "costs")
    rows: list[Row] = [[Cell(text, "dim") for text in head]]
    for event in document["failures"]:
        during, after, back = event["during"], event["after"], event["back"]
        spare = event["spare_usd_per_hour"]
        rows.append(
            [
                _status(after["holds"]),
                event["name"],
                event["route"],
                value_text(during["lost_requests"], ""),
                seconds_text(during["ttft_added_s"]),
                seconds_text(during["stall_s"]),
                seconds_text(during["drain_s"], "never"),
                *_latencies(after, document),
                after["why"] or "",
                seconds_text(back["restart_s"]),
                seconds_text(back["repair_s"]),
                f"{spare:+,.2f} USD/h" if spare else "",
            ]
        )
    if not document["failures"]:
        return Section("")
    title, said = "Failures: during, after, back to normal", tuple(_about_failures(document))
    return Section(title, over, tuple(rows), align="lllrrrrrrlrrr", said=said)


def _about_failures(document: Document) -> Iterator[str]:
    """What a worker is, and the options with which the simulator loses the same."""
    asked = [event["simulate"].split() for event in document["failures"] if event.get("simulate")]
    events, places = (list(dict.fromkeys(words[at] for words in asked if len(words) > at)) for at in (1, 3))
    yield "A worker is what fails as one: any accelerator of it, its host or its process."
    if events:
        restore = f"; copies with --restore {', '.join(places)}" if places else ""
        yield f"Lost again in simulation: planner simulate SCENARIO --fail {', '.join(events)}{restore}."


def _advice(document: Document) -> Iterator[str]:
    flip, best = document["flips_first"], document["best_buy"]
    if flip:
        tightest = f", where {limit_name(flip['tightest'])} passes its limit" if flip["tightest"] else ""
        taken = "" if flip["variable"] == "arrival SCV" else " of what was taken"
        yield f"Breaks first: {flip['variable']} at {_value(flip)}{taken}{tightest}."
    if best:
        cost = f" for {_extra(best, document)}" if _extra(best, document) else ""
        slack = f"{_slack(document['base'])} to {_slack(best)}"
        yield f"Cheapest slack: {best['name']}{cost} moves the tightest slack from {slack}."


# --------------------------------------------------------------------------------------------------------------- sweep


def _sweep(document: Document, pen: Pen) -> Iterator[Section]:
    rows: list[Row] = [
        [
            _status(case["holds"]),
            f"{case['value']:.4g}",
            *_latencies(case, document),
            percent_text(case["utilization"]),
            _slack(case),
        ]
        for case in document["cases"]
    ]
    head = ("", document["variable"], *_shown(document), "busiest", "slack")
    bars = tuple(_span_bar(0.0, _used(case), pen) for case in document["cases"])
    yield Section(str(document["meaning"]), head, tuple(rows), bar_name="of its limit", drawn=bars)
    yield Section("", said=(_knee(document),))


def _knee(document: Document) -> str:
    knee = document["knee"]
    if knee is None:
        broken = any(not case["holds"] for case in document["cases"])
        return "It breaks below what was taken." if broken else "It breaks nowhere in this range."
    rate = f", {knee['requests_per_s']:.3g} requests/s" if knee["requests_per_s"] is not None else ""
    tightest = f"; then {limit_name(knee['tightest'])} passes its limit" if knee["tightest"] else ""
    return f"Knee: {document['variable']} {knee['value']:.3g}{rate}{tightest}."
