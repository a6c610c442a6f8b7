"""A result as titled tables of plain text, for formats that are pages: Markdown and HTML."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from planner.render.breakdown import memory_sections, parts_section, pool_text
from planner.render.checks import cells, interval_text, limit_text, subject
from planner.render.cost import flip_words, range_words
from planner.render.front import front_section
from planner.render.inputs import field_text
from planner.render.resilience import resilience_section
from planner.render.section import Section
from planner.render.table import capacity_words, limit_cells, limit_name
from planner.render.text import Pen, name_text, percent_text, seconds_text, value_text
from planner.review.result import pools

Document = Mapping[str, Any]

SHOWN = ("mean", "p50", "p90", "p99")
LATENCIES = ("ttft_s", "itl_s", "tpot_s", "e2e_s")
_PEN = Pen()


def checks_section(result: Document) -> Section:
    """Every check of one result."""
    prediction = result["prediction"]
    interval = f"{percent_text(prediction['coverage'])} interval" if prediction else "interval"
    head = ("verdict", "check", "limit", "value", interval, "slack")
    return Section("Checks", head, tuple(check_row(line) for line in result["checks"]))


def check_row(line: Document) -> tuple[str, ...]:
    """One check; why it has no value stands where its interval would."""
    *known, between, slack = cells(line)
    return line["verdict"], *known, between or line["reason"] or "", slack


def sections(result: Document) -> Iterator[Section]:
    """What a report says beside its checks, most asked for first; nothing where there is no plan."""
    if result["plan"]:
        yield _plan(result)
    else:
        yield _in_the_way(result)
    yield would_change(result)
    yield _limits(result)
    if result["prediction"]:
        yield _latency(result)
        yield resilience_section(result)
        yield _money(result)
        yield parts_section(result, "Mean TTFT, where it goes", "ttft_parts_s")
        yield parts_section(result, "One decode step, where it goes", "decode_step_parts_s")
        yield from memory_sections(result)
    yield _alternatives(result)
    yield front_section(result, _PEN)
    yield _notes(result)


def _plan(result: Document) -> Section:
    rows = [
        (name, pool_text(pool, _PEN), percent_text(pool["utilization"]), value_text(pool.get("mean_batch"), ""))
        for name, pool in pools(result["plan"])
    ]
    bars = [pool["utilization"] for _, pool in pools(result["plan"])]
    title = f"Plan: {result['plan']['mode']}, {result['plan']['accelerators']} accelerators"
    return Section(title, ("pool", "workers", "busy", "mean batch"), tuple(rows), tuple(bars))


def _limits(result: Document) -> Section:
    rows = [limit_cells(limit) for limit in result["limits"]]
    used = [None if limit["slack_fraction"] is None else 1.0 - limit["slack_fraction"] for limit in result["limits"]]
    return Section("Limits, tightest first", ("", "value", "limit", "slack", "relaxed by"), tuple(rows), tuple(used))


def _latency(result: Document) -> Section:
    prediction = result["prediction"]
    rows = []
    for name in LATENCIES:
        between = prediction["intervals"].get(name, {})
        cells = [_with_interval(prediction[name][statistic], between.get(statistic)) for statistic in SHOWN]
        rows.append((name_text(name), *cells))
    title = f"Latency, with {percent_text(prediction['coverage'])} intervals by the errors against measured runs"
    return Section(title if prediction["intervals"] else "Latency", ("", *SHOWN), tuple(rows))


def _with_interval(value: float | None, interval: tuple[float | None, float | None] | None) -> str:
    if interval is None:
        return seconds_text(value)
    low, high = map(seconds_text, interval)
    return f"{seconds_text(value)}\n({low} .. {high})"


def _in_the_way(result: Document) -> Section:
    missed = (result.get("nearest_miss") or {"missed": []})["missed"]
    rows = [(*known, relaxed) for *known, _, relaxed in map(limit_cells, missed)]
    return Section("What stands in the way", ("", "value", "limit", "relaxed by"), tuple(rows))


def would_change(result: Document) -> Section:
    """What would change the answer: more load, the tightest limits, step times as bad as they may be, prices."""
    rows = []
    prediction, cost = result["prediction"], result.get("cost")
    if prediction and prediction["requests_per_s_max"] is not None and result["verdict"] == "feasible":
        rows.append(("more load", capacity_words(prediction)))
    worst = [
        f"{subject(line)} {_worst(line)}, limit {limit_text(line)}"
        for line in result["checks"]
        if line["verdict"] == "at risk" and line["interval"]
    ]
    if worst:
        rows.append(("errors as large as measured ones", "; ".join(worst)))
    if result["plan"] and result["limits"]:
        limit = result["limits"][0]
        slack = percent_text(limit["slack_fraction"], sign=True)
        text = f"{limit_name(limit['name'])}, slack {slack}: {limit['what_would_relax_it']}"
        rows.append(("the tightest limit", text))
    if cost and cost["usd_per_hour"] is not None:
        rows.append(("a price", flip_words(result)))
    return Section("What would change the answer", ("", ""), tuple(rows))


def _worst(line: Document) -> str:
    high = interval_text(line).rpartition(" .. ")[2]
    return high if line["interval"][1] is None else f"up to {high}"


def _money(result: Document) -> Section:
    cost = result.get("cost")
    if not cost or cost["usd_per_hour"] is None:
        return Section("Money", (), ())
    rows = [
        (
            line["name"],
            value_text(line["usd_per_hour"], "USD/h"),
            range_words(line),
            f"{line['retrieved']} {line['kind']}".strip(),
        )
        for line in cost["lines"]
    ]
    quoted = range_words(cost) if cost["lines"] else ""
    rows.append(("in all", value_text(cost["usd_per_hour"], "USD/h"), quoted, ""))
    rows.append(("a year", value_text(cost["usd_per_year"], "USD"), "", ""))
    if cost["usd_per_request"] is not None:
        rows.append(("a thousand requests", f"{cost['usd_per_request'] * 1000.0:.3g} USD", "", ""))
    head = ("part", "price", "range of quotes", "known by")
    return Section(f"Money, on {result['plan']['price_basis']}", head, tuple(rows))


def _alternatives(result: Document) -> Section:
    rows = [
        (
            other["mode"],
            ", ".join(pool_text(pool, _PEN) for _, pool in pools(other)),
            value_text(other["usd_per_hour"], "USD/h"),
            "holds" if other["feasible"] else "misses",
            other["why_it_lost"],
        )
        for other in result["alternatives"]
    ]
    return Section("Alternatives, and why they lost", ("mode", "workers", "rent", "limits", "why it lost"), tuple(rows))


def _notes(result: Document) -> Section:
    return Section("Notes", ("level", "note"), tuple((note["level"], note["text"]) for note in result["notes"]))


def assumptions(result: Document) -> Iterator[Section]:
    """What the numbers rest on: files, model, engine and catalog values, with sources and dates."""
    inputs = result["inputs"]
    yield Section("Files", ("file", "sha256"), tuple((file["path"], file["sha256"]) for file in inputs["files"]))
    yield _fields(f"Model {inputs['model']['id']}", inputs["model"])
    engine = inputs["engine"]
    yield _fields(f"Engine {engine['id']} {engine['version']}", engine)
    yield _fields("Engine constants, fitted", engine["constants"])
    for accelerator in inputs["accelerators"]:
        borrowed = accelerator["efficiency_like"]
        like = f", efficiencies guessed from {borrowed}" if borrowed else ""
        rows = [
            (name, field_text(name, item["value"]), item["kind"] or "", item["retrieved"] or "", item["source"] or "")
            for name, item in accelerator["values"].items()
        ]
        title = f"Accelerator {accelerator['id']}{like}"
        yield Section(title, ("value", "", "known by", "read", "source"), tuple(rows))


def _fields(title: str, values: Document) -> Section:
    rows = [
        (name, field_text(name, value))
        for name, value in values.items()
        if value not in (None, "") and not isinstance(value, Mapping)
    ]
    return Section(title, ("field", "value"), tuple(rows))
