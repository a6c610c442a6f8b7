"""A simulation as a report: predicted beside simulated."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from planner.render.breakdown import pool_text
from planner.render.report import Report, report_fragment, report_page, report_text
from planner.render.section import Section
from planner.render.text import Cell, Pen, Row, name_text, percent_text, seconds_text
from planner.units import format_count

Document = Mapping[str, Any]

SHOWN = ("mean", "p50", "p90", "p99")
_COMPARED = ("predicted", "simulated", "95% confidence", "difference")
_PEN = Pen()


def to_text(result: Document, pen: Pen) -> str:
    """The comparison on a screen."""
    return report_text(_report(result, pen), pen)


def to_html(result: Document) -> str:
    """The comparison as a page that needs nothing else."""
    return report_page([_report(result, _PEN)])


def to_html_fragment(result: Document) -> str:
    """The same for a place inside another page."""
    return report_fragment(_report(result, _PEN))


def verdict_line(result: Document) -> str:
    """Whether every target holds, and which do not."""
    return _report(result, _PEN).first_line


def _report(result: Document, pen: Pen) -> Report:
    missed = [target["name"] for target in result["targets"] if not target["holds"]]
    if not missed and not result["holds"]:
        missed = [f"{result['refused_requests']:,} requests refused"]
    verdict, tone = ("MISSED IN SIMULATION", "bad") if missed else ("HOLDS IN SIMULATION", "good")
    if not missed and not result["targets"]:
        verdict = "SIMULATED, no targets"
    sections = tuple(_sections(result, pen))
    return Report(
        f"planner simulate: {result['name']}", ", ".join(missed), verdict, tone, tuple(_setting(result)), sections
    )


def _setting(result: Document) -> Iterator[str]:
    given = result["setting"]
    arrivals = {"closed loop": f"closed loop of {given['clients']} clients", "renewal": f"SCV {given['arrival_scv']}"}
    yield (
        f"{result['name']}: {given['requests']:,} requests measured, "
        f"arrivals: {arrivals.get(given['arrivals'], given['arrivals'])}, router: {given['router']}, "
        f"seed {given['seed']}"
    )
    refused = result["refused_requests"]
    if refused:
        yield f"{refused:,} requests were refused: no worker's cache can hold them"


def _sections(result: Document, pen: Pen) -> Iterator[Section]:
    clients = result["setting"]["clients"]
    targets: list[Row] = []
    for target in result["targets"]:
        metric, _, statistic = target["name"].partition(".")
        status = Cell("holds", "good") if target["holds"] else Cell("MISSED", "bad")
        name, *values = _row(f"{name_text(metric)} {name_text(statistic)}", target, clients)
        targets.append([status, name, seconds_text(target["limit_s"]), *values])
    yield Section("Targets", ("", "", "limit", *_COMPARED), tuple(targets), align="llrrrrr")
    latencies = [
        _row(f"{name_text(metric)} {name}", named[name], clients)
        for metric, named in result["statistics"].items()
        for name in SHOWN
    ]
    yield Section("Latency", ("", *_COMPARED), tuple(latencies))
    pools = tuple([name, pool_text(pool, pen), *_pool_row(pool)] for name, pool in result["pools"].items())
    head = ("", "", "busy", "batch", "predicted", "KV p99", "predicted", "preemptions")
    tokens = format_count(round(result["output_tokens_per_s"]))
    rates = f"{result['requests_per_s']:.3g} requests/s, {tokens} output tokens/s"
    yield Section("Pools, per replica", head, pools, align="llrrrrrr", said=(rates,))
    if result["failure"]:
        yield _failure(result["failure"])


def _row(name: str, item: Document, clients: int) -> list[str]:
    """`predicted` is for an open loop: a closed one has none."""
    low, high = item["low"], item["high"]
    known = low is not None and high is not None
    interval = f"{seconds_text(low)} .. {seconds_text(high)}" if known else "run too short"
    difference = percent_text(item["difference_fraction"], sign=True)
    predicted = "-" if clients else seconds_text(item["predicted"])
    return [name, predicted, seconds_text(item["simulated"], "-"), interval, difference]


def _pool_row(pool: Document) -> tuple[str, ...]:
    batch, held = pool["mean_batch"], pool["kv_tokens"]["p99"]
    return (
        percent_text(pool["busy_fraction"]),
        *(f"{batch[side]:.1f}" for side in ("simulated", "predicted")),
        *(format_count(round(held[side] or 0.0)) for side in ("simulated", "predicted")),
        format_count(pool["preemptions"]),
    )


def _failure(found: Document) -> Section:
    """What a failure does to latencies."""
    rows = []
    for when in ("before", "after"):
        values = [found[when][metric][name] for metric in ("ttft_s", "itl_s") for name in ("p50", "p99")]
        rows.append((when, *(seconds_text(value, "-") for value in values)))
    lost = (
        f"{found['lost_requests']} requests lost their cache or their place; they decode again after "
        f"{seconds_text(found['restored_mean_s'], '-')} in the mean, {seconds_text(found['restored_last_s'], '-')} at "
        f"most; meanwhile the longest first token takes {seconds_text(found['ttft_most_s'], '-')}"
    )
    return Section(
        f"{_event(found)} at {seconds_text(found['at_s'])}",
        ("", "TTFT p50", "TTFT p99", "ITL p50", "ITL p99"),
        tuple(rows),
        said=(lost,) if found["lost_requests"] else (),
    )


def _event(found: Document) -> str:
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
