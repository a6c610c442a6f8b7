"""The result document as a report that reads from the top down: what to buy, whether it holds, why, what else.

Everything comes from the document, so a saved result prints the same report. Words carry the verdict; color only
repeats it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from planner.records import METRICS
from planner.render.breakdown import bands_section, memory_sections, parts_section, pool_text, pools_section
from planner.render.brief import doubts, found_words, money_section, time_section
from planner.render.checks import cells
from planner.render.cost import cost_section
from planner.render.front import front_section
from planner.render.imported import imported_section
from planner.render.inputs import inputs_section
from planner.render.resilience import resilience_section
from planner.render.section import notes_section
from planner.render.text import (
    Cell,
    Pen,
    Row,
    columns,
    name_text,
    percent_text,
    seconds_text,
    unit_words,
    value_text,
    wrapped,
)
from planner.review.result import bought, pools
from planner.units import format_count

Document = Mapping[str, Any]

SHOWN_STATISTICS = ("mean", "p50", "p90", "p99")
BAR = 20  # columns
STATUS_WORDS = {"pass": "ok", "at risk": "at risk", "fail": "MISSED"}
STATUS_TONES = {"ok": "good", "at risk": "close", "MISSED": "bad", "unknown": "close"}


def to_text(document: Document, pen: Pen, *, notes: bool = True, detail: bool = False) -> str:
    """The report of a result document, one read back from a file as well; with a final newline.

    `detail` adds every latency, part and limit, and the inputs and assumptions with their sources.
    """
    held = (_in_full if detail else _in_short)(document, pen) if document["prediction"] else []
    sections = [
        [*_verdict_lines(document, pen), *wrapped(load_words(document), pen.width)],
        _plan(document, pen) if document["plan"] else [],
        _nearest_miss(document, pen),
        *held,
        _alternatives(document, pen),
        front_section(document, pen).lines(pen),
        imported_section(document, pen),
        notes_section(document["notes"]).lines(pen) if notes else [],
        bands_section(document, pen) if detail else [],
        inputs_section(document, pen) if detail else [],
        _next(document, pen, detail),
    ]
    lines: list[str] = []
    for section in sections:
        if section:
            lines += [*section, ""]
    return pen.finish(lines[:-1])


def _in_short(document: Document, pen: Pen) -> list[list[str]]:
    """What a reader of ten seconds needs: targets, what binds, time, money."""
    return [
        _checks(document, pen),
        resilience_section(document).lines(pen),
        _binding(document, pen),
        time_section(document, pen),
        money_section(document, pen),
    ]


def _in_full(document: Document, pen: Pen) -> list[list[str]]:
    """The same with every latency, part and limit."""
    return [
        _checks(document, pen),
        resilience_section(document).lines(pen),
        _latency(document, pen),
        cost_section(document, pen),
        pools_section(document, pen),
        [line for section in memory_sections(document) for line in section.lines(pen, BAR, headed=False)],
        parts_section(document, "Mean TTFT, where it goes", "ttft_parts_s").lines(pen, BAR, headed=False),
        parts_section(document, "One decode step, where it goes", "decode_step_parts_s").lines(pen, BAR, headed=False),
        _limits(document, pen),
    ]


# ----------------------------------------------------------------------------------------------------------- the answer


def verdict_line(document: Document, pen: Pen | None = None) -> str:
    """The answer in one line: what to buy and what it costs, or that nothing fits."""
    pen = pen or Pen(unicode=False)
    tone = "good" if document["verdict"] == "feasible" else "bad"
    return f"{pen.paint(document['verdict'].upper(), tone)}  {pen.heading(_answer(document))}"


def _verdict_lines(document: Document, pen: Pen) -> list[str]:
    """The answer, wrapped where the screen is narrow."""
    verdict = document["verdict"].upper()
    first, *more = wrapped(f"{verdict}  {_answer(document)}", pen.table_width)
    tone = "good" if document["verdict"] == "feasible" else "bad"
    return [f"{pen.paint(verdict, tone)}  {pen.heading(first.removeprefix(verdict).strip())}", *map(pen.heading, more)]


def _answer(document: Document) -> str:
    plan, tried = document["plan"], document["search"]["candidates"]
    if plan is None:
        return "no candidate can hold the model"
    answer = bought(plan) + _cost(document)
    if document["verdict"] == "feasible":
        return answer
    if tried > 1 and not document["search"].get("picked"):
        return f"none of {tried:,} candidates meets every limit; nearest: {answer}"
    return f"{answer}, misses {_count_of(len(document['nearest_miss']['missed']), 'limit')}"


def _cost(document: Document) -> str:
    plan = document["plan"]
    if plan["usd_per_hour"] is None:
        return ", price unknown"
    text = f", {value_text(plan['usd_per_hour'], 'USD/h')} ({plan['price_basis']})"
    for side, price in document["usd_per_mtok"].items():
        text += f", {value_text(price, 'USD/Mtok')} {side.replace('_', ' ')}" if price is not None else ""
    return text


def plan_words(document: Document) -> str:
    """The plan in short: how it is split and what it costs, or that there is none."""
    return f"{document['verdict']}: {_answer(document)}"


def load_words(document: Document) -> str:
    """The question as it was understood: model, formats, engine, rate and lengths."""
    inputs = document["inputs"]
    model, engine, workload = inputs["model"], inputs["engine"], inputs["workload"]
    tokens = ", ".join(
        f"{side} {format_count(law['mean'])} (p99 {format_count(law['p99'])})"
        for side, law in (("input", workload["input_tokens"]), ("output", workload["output_tokens"]))
    )
    peak = f", peak x{workload['peak_factor']:g}" if workload["peak_factor"] != 1.0 else ""
    return (
        f"{model['id']} in {model['weight_dtype']}, KV in {model['kv_dtype']}, on {_engine_name(engine)}; "
        f"{_rate_text(workload['requests_per_s'])} requests/s{peak}; tokens: {tokens}"
    )


def _engine_name(engine: Document) -> str:
    return engine["id"] if engine["version"] == "any" else f"{engine['id']} {engine['version']}"


def _plan(document: Document, pen: Pen) -> list[str]:
    plan, prediction = document["plan"], document["prediction"]
    rows: list[Row] = []
    for name, pool in pools(plan):
        batch = ""
        if "mean_batch" in pool:
            most = f" of at most {pool['max_batch']:g}" if pool["max_batch"] else ""
            batch = f"batch {value_text(pool['mean_batch'], '')}{most} per replica"
        rows.append([name, Cell(pool_text(pool, pen), "bold"), batch])
    lines = [pen.heading(f"Plan: {plan['mode']}, {_count_of(plan['accelerators'], 'accelerator')}")]
    lines += columns(rows, "lll", pen) + columns(doubts(document), "lllw", pen)
    lines += [f"  {line}" for line in found_words(document)]
    return lines if prediction["requests_per_s_max"] is None else [*lines, f"  {capacity_words(prediction)}"]


def capacity_words(prediction: Document) -> str:
    """The most load that a plan carries, against what was asked."""
    surplus = prediction["surplus_fraction"]
    side = f"{percent_text(surplus)} above" if surplus >= 0.0 else f"{percent_text(-surplus)} below"
    return f"carries up to {_rate_text(prediction['requests_per_s_max'])} requests/s, {side} what was asked"


def _rate_text(requests_per_s: float) -> str:
    return f"{requests_per_s:,.0f}" if requests_per_s >= 1000.0 else f"{requests_per_s:.3g}"


def _nearest_miss(document: Document, pen: Pen) -> list[str]:
    miss = document.get("nearest_miss")
    if miss is None:
        return []
    rows: list[Row] = [
        [
            Cell(limit_name(limit["name"]), "bad"),
            value_text(limit["value"], limit["unit"], "unbounded"),
            f"limit {value_text(limit['limit'], limit['unit'])}",
            _excess(limit),
            f"relaxed by: {limit['what_would_relax_it']}",
        ]
        for limit in miss["missed"]
    ]
    lines = [pen.heading("Missed by the plan shown here" if document["plan"] else "What stands in the way")]
    return lines + columns(rows, "lrlrw", pen) + [f"  {line}" for line in wrapped(miss["policy"], pen.width - 2)]


def _excess(limit: Document) -> str:
    slack = limit["slack_fraction"]
    return "out of reach" if slack is None else f"{percent_text(-slack)} over"


# -------------------------------------------------------------------------------------------------------- does it hold


def _checks(document: Document, pen: Pen) -> list[str]:
    rows: list[Row] = [[Cell(_status(line), STATUS_TONES[_status(line)]), *cells(line)] for line in document["checks"]]
    if not rows:
        return []
    interval = f"{percent_text(document['prediction']['coverage'])} interval"
    head: Row = [Cell(text, "dim") for text in ("", "", "limit", "predicted", interval, "slack")]
    return [pen.heading("Targets and budgets"), *columns([head, *rows], "llrrrr", pen, keys=2)]


def _status(line: Document) -> str:
    if line["value"] is None and line["unit"] != "s":
        return "unknown"
    return STATUS_WORDS[str(line["verdict"])]


def _interval(interval: Sequence[float | None] | None) -> str:
    return f"{seconds_text(interval[0])} .. {seconds_text(interval[1])}" if interval else ""


def _latency(document: Document, pen: Pen) -> list[str]:
    prediction = document["prediction"]
    rows: list[Row] = [[Cell(text, "dim") for text in ("", *SHOWN_STATISTICS)]]
    for metric in METRICS:
        name = f"{metric}_s"
        intervals = prediction["intervals"].get(name, {})
        rows.append([metric.upper(), *(seconds_text(prediction[name][key]) for key in SHOWN_STATISTICS)])
        if intervals:
            rows.append(["", *(Cell(_interval(intervals.get(key)), "dim") for key in SHOWN_STATISTICS)])
    coverage = percent_text(prediction["coverage"])
    title = f"Latency; below each, its {coverage} interval by the errors against measured runs"
    if not prediction["intervals"]:
        title = "Latency"
    return [pen.heading(title), *columns(rows, "lrrrr", pen)]


# ------------------------------------------------------------------------------------------------------------------ why


def _binding(document: Document, pen: Pen) -> list[str]:
    """Limits that bind, the tightest where none does; those that the plan misses stand above already."""
    missed = {limit["name"] for limit in (document.get("nearest_miss") or {"missed": ()})["missed"]}
    open_ = [limit for limit in document["limits"] if limit["name"] not in missed]
    tight = [limit for limit in open_ if _over(limit) or limit["binding"]]
    shown = tight or open_[:1]
    lines = _limit_rows(
        "What binds" if tight else f"Nothing {'else ' if missed else ''}binds; the nearest limit", shown, pen
    )
    more = len(open_) - len(shown)
    return [*lines, f"  {_count_of(more, 'more limit')} with more slack: -v"] if more else lines


def _limits(document: Document, pen: Pen) -> list[str]:
    return _limit_rows("Limits, tightest first", document["limits"], pen)


def _limit_rows(title: str, limits: Sequence[Document], pen: Pen) -> list[str]:
    rows: list[Row] = [[Cell(text, "dim") for text in ("", "", "value", "limit", "slack", "relaxed by")]]
    for limit in limits:
        over = _over(limit)
        status = Cell("over" if over else "binds" if limit["binding"] else "", "bad" if over else "close")
        rows.append([status, *limit_cells(limit)])
    return [pen.heading(title), *columns(rows, "llrrrw", pen)] if limits else []


def limit_cells(limit: Document) -> list[str]:
    """One limit as columns: its name, value, limit and slack, and what relaxes it."""
    unit = "" if limit["name"].endswith(limit["unit"]) else limit["unit"]  # which the name already says
    return [
        limit_name(limit["name"]),
        value_text(limit["value"], unit, "unbounded"),
        value_text(limit["limit"], unit),
        percent_text(limit["slack_fraction"], sign=True),
        limit["what_would_relax_it"],
    ]


def _over(limit: Document) -> bool:
    slack = limit["slack_fraction"]
    return limit["value"] is None or (slack is not None and slack < 0)


def limit_name(name: str) -> str:
    """A limit as words: ``ttft.p99`` is TTFT p99, ``decode.kv_tokens`` is decode KV tokens."""
    if name.startswith("workers_lost."):
        return f"{limit_name(name.removeprefix('workers_lost.'))} with workers lost"
    metric, _, statistic = name.replace("_s.", ".").partition(".")
    if metric in METRICS and statistic:
        return f"{metric.upper()} {name_text(statistic)}"
    return unit_words(name.replace("_", " ").replace(".", " "))


# ------------------------------------------------------------------------------------------------------------ what else


def _alternatives(document: Document, pen: Pen) -> list[str]:
    rows: list[Row] = []
    for other in document["alternatives"]:
        *first, last = (pool_text(pool, pen) for _, pool in pools(other))
        holds = Cell("holds", "good") if other["feasible"] else Cell("misses", "bad")
        told: list[str | Cell] = [other["mode"], value_text(other["usd_per_hour"], "USD/h"), holds]
        rows += [[told[0], pool, *told[1:], ""] for pool in first]
        rows.append([*(["", last, "", ""] if first else [told[0], last, *told[1:]]), other["why_it_lost"]])
    return [pen.heading("Alternatives, and why they lost"), *columns(rows, "llrlw", pen)] if rows else []


def _next(document: Document, pen: Pen, detail: bool) -> list[str]:
    """Commands to go on with, the most useful first."""
    files = document["inputs"]["files"]
    if not files:
        return []
    path = files[0]["path"]
    call = f"planner {'size' if document['search']['candidates'] != 1 else 'evaluate'} {path}"
    call += f" --pick {document['search']['picked']}" if document["search"].get("picked") else ""
    rows: list[tuple[str, str]] = [] if detail else [(f"{call} -v", "every latency, part, limit and assumption")]
    if document["verdict"] == "feasible":
        rows.append((f"planner whatif {path}", "other loads and lengths, slower steps, lost workers"))
        if any(line["verdict"] == "at risk" for line in document["checks"]):
            rows.append((f"planner size {path} --confidence 0.9", "buy until targets at risk hold nine times of ten"))
    rows.append((f"{call} --format json --out result.json", "to keep, compare, export and explain"))
    return [pen.heading("Next"), *columns([[one, Cell(what, "dim")] for one, what in rows], "lw", pen)]


def _count_of(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' if number != 1 else ''}"
