"""A simulation as text and as a page: predicted beside simulated."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from planner.render import page
from planner.render.breakdown import pool_text
from planner.render.sections import Section
from planner.render.text import Cell, Pen, Row, columns, name_text, percent_text, seconds_text, wrapped
from planner.units import format_count

SHOWN = ("mean", "p50", "p90", "p99")


def to_text(result: Mapping[str, Any], pen: Pen) -> str:
    """The comparison as a report."""
    sections = [
        [verdict_line(result), *(line for text in _setting(result) for line in wrapped(text, pen.width))],
        _targets(result, pen),
        _statistics(result, pen),
        _pools(result, pen),
        _lost_section(result, pen),
    ]
    lines = [line for section in sections if section for line in (*section, "")]
    return pen.finish(lines[:-1])


def verdict_line(result: Mapping[str, Any]) -> str:
    """Whether every target holds, and which do not."""
    missed = [target["name"] for target in result["targets"] if not target["holds"]]
    if not missed and not result["holds"]:
        missed = [f"{result['refused_requests']:,} requests refused"]
    if missed:
        return f"MISSED IN SIMULATION  {', '.join(missed)}"
    return "HOLDS IN SIMULATION" if result["targets"] else "SIMULATED, no targets"


def _setting(result: Mapping[str, Any]) -> list[str]:
    given = result["setting"]
    arrivals = {"closed loop": f"closed loop of {given['clients']} clients", "renewal": f"SCV {given['arrival_scv']}"}
    parts = [
        f"{result['name']}: {given['requests']:,} requests measured",
        f"arrivals: {arrivals.get(given['arrivals'], given['arrivals'])}",
        f"router: {given['router']}",
        f"seed {given['seed']}",
    ]
    refused = result["refused_requests"]
    more = [f"{refused:,} requests were refused: no worker's cache can hold them"] if refused else []
    return [", ".join(parts), *more]


def _lost_section(result: Mapping[str, Any], pen: Pen) -> list[str]:
    found = result["failure"]
    if found is None:
        return []
    title, head, rows = _failure(found)
    words = wrapped(_lost_words(found), pen.width - 2) if found["lost_requests"] else []
    return [pen.heading(title), *(f"  {line}" for line in words), *columns([head, *rows], "lrrrr", pen)]


def _lost_words(found: Mapping[str, Any]) -> str:
    return (
        f"{found['lost_requests']} requests lost their cache or their place; they decode again after "
        f"{seconds_text(found['restored_mean_s'], '-')} in the mean, {seconds_text(found['restored_last_s'], '-')} at "
        f"most; meanwhile the longest first token takes {seconds_text(found['ttft_most_s'], '-')}"
    )


def _failure(found: Mapping[str, Any]) -> tuple[str, tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """What a failure does to latencies: title, head and rows."""
    rows = []
    for when in ("before", "after"):
        values = [found[when][metric][name] for metric in ("ttft_s", "itl_s") for name in ("p50", "p99")]
        rows.append((when, *(seconds_text(value, "-") for value in values)))
    title = f"{_event(found)} at {seconds_text(found['at_s'])}"
    return title, ("", "TTFT p50", "TTFT p99", "ITL p50", "ITL p99"), tuple(rows)


def _event(found: Mapping[str, Any]) -> str:
    """What was lost, and where its caches came back from."""
    many = "s" if found["lost_units"] > 1 else ""
    if found["event"] == "cache node":
        return f"{found['lost_units']} node{many} of cached prefixes lost"
    if found["event"] == "network card":
        return f"{found['lost_units']} network card{many} of a {found['pool']} worker lost"
    if found["event"] == "drain":
        return f"{found['lost_units']} {found['pool']} worker{many} drained"
    copies = f", caches restored from {found['restored_from']}," if found["restored_from"] else ""
    return f"{found['lost_units']} {found['pool']} worker{many} lost{copies}"


def _row(name: str, item: Mapping[str, Any], clients: int) -> list[str]:
    """`predicted` is for an open loop: a closed one has none."""
    low, high = item["low"], item["high"]
    known = low is not None and high is not None
    interval = f"{seconds_text(low)} .. {seconds_text(high)}" if known else "run too short"
    difference = percent_text(item["difference_fraction"], sign=True)
    predicted = "-" if clients else seconds_text(item["predicted"])
    return [name, predicted, seconds_text(item["simulated"], "-"), interval, difference]


def _targets(result: Mapping[str, Any], pen: Pen) -> list[str]:
    rows: list[Row] = [["", "", "limit", "predicted", "simulated", "95% confidence", "difference"]]
    for target in result["targets"]:
        metric, _, statistic = target["name"].partition(".")
        status = Cell("holds", "good") if target["holds"] else Cell("MISSED", "bad")
        name, *values = _row(f"{name_text(metric)} {name_text(statistic)}", target, result["setting"]["clients"])
        rows.append([status, name, seconds_text(target["limit_s"]), *values])
    return [pen.heading("Targets"), *columns(rows, "llrrrrr", pen)] if result["targets"] else []


def _statistics(result: Mapping[str, Any], pen: Pen) -> list[str]:
    clients = result["setting"]["clients"]
    rows: list[Row] = [["", "predicted", "simulated", "95% confidence", "difference"]]
    for metric, named in result["statistics"].items():
        rows += [_row(f"{name_text(metric)} {name}", named[name], clients) for name in SHOWN]
    return [pen.heading("Latency"), *columns(rows, "lrrrr", pen)]


def _pools(result: Mapping[str, Any], pen: Pen) -> list[str]:
    lines = [pen.heading("Pools, per replica")]
    for name, pool in result["pools"].items():
        batch, held = pool["mean_batch"], pool["kv_tokens"]["p99"]
        lines.append(f"  {name}  {pool_text(pool, pen)}")
        text = (
            f"busy {percent_text(pool['busy_fraction'])}, batch {batch['simulated']:.1f} (predicted "
            f"{batch['predicted']:.1f}), KV p99 {format_count(round(held['simulated'] or 0.0))} tokens (predicted "
            f"{format_count(round(held['predicted'] or 0.0))}), {format_count(pool['preemptions'])} preemptions"
        )
        lines += [f"    {line}" for line in wrapped(text, pen.width - 4)]
    tokens = format_count(round(result["output_tokens_per_s"]))
    rates = f"{result['requests_per_s']:.3g} requests/s, {tokens} output tokens/s"
    return [*lines, f"  {rates}"]


# ---------------------------------------------------------------------------------------------------------------- page

_COMPARED = ("", "predicted", "simulated", "95% confidence", "difference")


def to_html(result: Mapping[str, Any]) -> str:
    """The comparison as a page that needs nothing else."""
    return page.page(f"planner simulate: {result['name']}", [_content(result)], result["tool"]["version"])


def to_html_fragment(result: Mapping[str, Any]) -> str:
    """The same for a place inside another page."""
    return page.fragment(_content(result))


def _content(result: Mapping[str, Any]) -> str:
    verdict, _, rest = verdict_line(result).partition("  ")
    head = f"<h1>{page.word(verdict, 'pass' if result['holds'] else 'fail')} {escape(rest)}</h1>"
    said = "".join(f"<p>{escape(line)}</p>\n" for line in _setting(result))
    lost = (
        f"<p>{escape(_lost_words(result['failure']))}</p>\n"
        if result["failure"] and result["failure"]["lost_requests"]
        else ""
    )
    return f"{head}\n{said}{page.sections_markup(_sections(result), 2)}{lost}"


def _sections(result: Mapping[str, Any]) -> Iterator[Section]:
    clients = result["setting"]["clients"]
    targets = []
    for target in result["targets"]:
        metric, _, statistic = target["name"].partition(".")
        name, *values = _row(f"{name_text(metric)} {name_text(statistic)}", target, clients)
        targets.append((name, "holds" if target["holds"] else "MISSED", seconds_text(target["limit_s"]), *values))
    yield Section("Targets", ("", "verdict", "limit", *_COMPARED[1:]), tuple(targets))
    rows = [
        tuple(_row(f"{name_text(metric)} {name}", named[name], clients))
        for metric, named in result["statistics"].items()
        for name in SHOWN
    ]
    yield Section("Latency", _COMPARED, tuple(rows))
    pools = [(name, pool_text(pool, Pen()), *_pool_row(pool)) for name, pool in result["pools"].items()]
    head = ("pool", "workers", "busy", "batch", "batch predicted", "KV p99", "KV p99 predicted", "preemptions")
    yield Section("Pools, per replica", head, tuple(pools))
    if result["failure"]:
        yield Section(*_failure(result["failure"]))


def _pool_row(pool: Mapping[str, Any]) -> tuple[str, ...]:
    batch, held = pool["mean_batch"], pool["kv_tokens"]["p99"]
    return (
        percent_text(pool["busy_fraction"]),
        f"{batch['simulated']:.1f}",
        f"{batch['predicted']:.1f}",
        format_count(round(held["simulated"] or 0.0)),
        format_count(round(held["predicted"] or 0.0)),
        format_count(pool["preemptions"]),
    )
