"""A trace as a report: arrivals, lengths, reuse with its curve as bars; and the curve as CSV."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from planner.render.csv import csv_text
from planner.render.report import Report, report_fragment, report_page, report_text
from planner.render.section import Section, notes_section
from planner.render.text import Pen, Row, name_text, seconds_text
from planner.units import format_count, format_rate

Document = Mapping[str, Any]

CURVE_COLUMNS = ("capacity_blocks", "capacity_tokens", "hit_ratio", "token_hit_ratio", "cold_start_fraction")
_STATISTICS = ("mean", "p50", "p90", "p99", "p99_9", "max")


def to_csv(document: Document) -> str:
    """The hit curve, one capacity a row; only the header where the trace has no blocks."""
    curve = document["reuse"]["curve"] if document["reuse"] else []
    return csv_text(CURVE_COLUMNS, ([point[name] for name in CURVE_COLUMNS] for point in curve))


def to_text(document: Document, pen: Pen, *, notes: bool = True) -> str:
    """The whole document on a screen."""
    return report_text(_report(document, notes), pen)


def to_html(document: Document) -> str:
    """The description as a page that needs nothing else."""
    return report_page([_report(document)])


def to_html_fragment(document: Document) -> str:
    """The same for a place inside another page."""
    return report_fragment(_report(document))


def _report(document: Document, notes: bool = True) -> Report:
    text = f"{document['requests']:,} requests"
    if document["duration_s"] is not None:
        text += f" in {seconds_text(document['duration_s'])}, {format_rate(document['requests_per_s'])}"
    answer = f"{document['format']} trace: {text}"
    return Report(f"planner trace: {answer}", answer, sections=tuple(_sections(document, notes)))


def _sections(document: Document, notes: bool) -> Iterator[Section]:
    yield Section("Arrivals", rows=tuple(_arrivals(document["arrivals"])), beside=True)
    yield _lengths(document)
    if document["reuse"]:
        yield _reuse(document["reuse"])
        yield working_set(document["reuse"])
        yield _curve(document["reuse"])
    if notes:
        yield notes_section(document["notes"])


def _arrivals(arrivals: Document | None) -> Iterator[Row]:
    if arrivals is None:
        return
    scv = arrivals["gap_scv"]
    yield "SCV of gaps", "-" if scv is None else f"{scv:.3g}"
    for item in arrivals["dispersion"]:
        yield f"index of dispersion in {seconds_text(item['window_s'])}", f"{item['index_of_dispersion']:.3g}"


def _lengths(document: Document) -> Section:
    laws = [(name, document[f"{name}_tokens"]) for name in ("input", "output")]
    rows = [(name, *(f"{law[key]:,.0f}" for key in _STATISTICS), f"{law['scv']:.3g}") for name, law in laws]
    said = []
    if document["length_correlation"] is not None:
        said.append(f"correlation of input and output {document['length_correlation']:+.2f}")
    if document["provider_hit_ratio"] is not None:
        said.append(f"{percent(document['provider_hit_ratio'])} of input tokens came from the provider's cache")
    head = ("tokens", *map(name_text, _STATISTICS), "SCV")
    return Section("Lengths", head, tuple(rows), beside=True, said=tuple(said))


def _reuse(reuse: Document) -> Section:
    size = f"blocks of {reuse['block_tokens']:,} tokens" if reuse["block_tokens"] else "blocks of no fixed size"
    ceiling = f"ceiling {percent(reuse['ceiling'])} of blocks"
    if reuse["token_ceiling"] is not None:
        ceiling += f", {percent(reuse['token_ceiling'])} of tokens"
    said = [f"{reuse['block_references']:,} references to {reuse['distinct_blocks']:,} different blocks: {ceiling}"]
    if reuse["reuse_time_s"] is not None:
        times = ", ".join(f"{name_text(name)} {seconds_text(reuse['reuse_time_s'][name])}" for name in _STATISTICS[1:4])
        said.append(f"time between uses of a block: {times}")
    return Section(f"Reuse, {size}, {reuse['eviction']} eviction", beside=True, said=tuple(said))


def working_set(reuse: Document) -> Section:
    rows = [
        (seconds_text(item["window_s"]), f"{item['working_set_blocks']:,.0f}", tokens_text(item["working_set_tokens"]))
        for item in reuse["working_set"]
    ]
    return Section("Working set", ("used within", "blocks", "tokens"), tuple(rows), beside=True, align="rrr")


def _curve(reuse: Document) -> Section:
    rows = [
        (
            f"{item['capacity_blocks']:,}",
            tokens_text(item["capacity_tokens"]),
            percent(item["hit_ratio"]),
            percent(item["token_hit_ratio"]),
        )
        for item in reuse["curve"]
    ]
    return hit_curve(reuse, ("blocks", "tokens", "of blocks", "of tokens"), rows)


def hit_curve(reuse: Document, head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> Section:
    """A curve of hit ratios, with a bar for the share of its ceiling that each size reaches."""
    shares = tuple(item["hit_ratio"] / (reuse["ceiling"] or 1.0) for item in reuse["curve"])
    return Section("Hit ratio by capacity", head, tuple(rows), shares, "of the ceiling", align="r" * len(head))


def percent(ratio: float | None) -> str:
    return "-" if ratio is None else f"{100 * ratio:.1f}%"


def tokens_text(tokens: float | None) -> str:
    return "-" if tokens is None else format_count(round(tokens))
