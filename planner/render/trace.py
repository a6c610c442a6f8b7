"""A trace as text and as a page: arrivals, lengths, reuse with its curve as bars; and the curve as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from planner.render import page
from planner.render.sections import Section
from planner.render.text import Cell, Pen, Row, columns, name_text, seconds_text, wrapped
from planner.units import format_count, format_rate

Document = Mapping[str, Any]

CURVE_COLUMNS = ("capacity_blocks", "capacity_tokens", "hit_ratio", "token_hit_ratio", "cold_start_fraction")
_BAR_COLUMNS = 40
_STATISTICS = ("mean", "p50", "p90", "p99", "p99_9", "max")


def to_csv(document: Document) -> str:
    """The hit curve, one capacity a row; only the header where the trace has no blocks."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, CURVE_COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(document["reuse"]["curve"] if document["reuse"] else [])
    return stream.getvalue()


def to_text(document: Document, pen: Pen, *, notes: bool = True) -> str:
    """The whole document for people."""
    arrivals = _arrivals(document)
    sections = [
        [pen.heading(_head(document))],
        [pen.heading("Arrivals"), *columns(arrivals, "lr", pen)] if arrivals else [],
        _lengths(document, pen),
        *(_reuse(document["reuse"], pen) if document["reuse"] else ()),
        _notes(document, pen) if notes else [],
    ]
    lines = [line for section in sections if section for line in (*section, "")]
    return pen.finish(lines[:-1])


def _head(document: Document) -> str:
    text = f"{document['requests']:,} requests"
    if document["duration_s"] is not None:
        text += f" in {seconds_text(document['duration_s'])}, {format_rate(document['requests_per_s'])}"
    return f"{document['format']} trace: {text}"


def _arrivals(document: Document) -> list[tuple[str, str]]:
    arrivals = document["arrivals"]
    if arrivals is None:
        return []
    scv = arrivals["gap_scv"]
    rows = [("SCV of gaps", "-" if scv is None else f"{scv:.3g}")]
    for item in arrivals["dispersion"]:
        name = f"index of dispersion in {seconds_text(item['window_s'])}"
        rows.append((name, f"{item['index_of_dispersion']:.3g}"))
    return rows


def _lengths(document: Document, pen: Pen) -> list[str]:
    rows: list[Row] = [[Cell(text, "dim") for text in ("tokens", *map(name_text, _STATISTICS), "SCV")]]
    for name in ("input", "output"):
        law = document[f"{name}_tokens"]
        rows.append([name, *(f"{law[statistic]:,.0f}" for statistic in _STATISTICS), f"{law['scv']:.3g}"])
    lines = [pen.heading("Lengths"), *columns(rows, "lrrrrrrr", pen)]
    if document["length_correlation"] is not None:
        lines.append(f"  correlation of input and output {document['length_correlation']:+.2f}")
    if document["provider_hit_ratio"] is not None:
        lines.append(f"  {percent(document['provider_hit_ratio'])} of input tokens came from the provider's cache")
    return lines


def _reuse(reuse: Document, pen: Pen) -> tuple[list[str], list[str], list[str]]:
    size = f"blocks of {reuse['block_tokens']:,} tokens" if reuse["block_tokens"] else "blocks of no fixed size"
    ceiling = f"ceiling {percent(reuse['ceiling'])} of blocks"
    if reuse["token_ceiling"] is not None:
        ceiling += f", {percent(reuse['token_ceiling'])} of tokens"
    lines = [
        pen.heading(f"Reuse, {size}, {reuse['eviction']} eviction"),
        f"  {reuse['block_references']:,} references to {reuse['distinct_blocks']:,} different blocks: {ceiling}",
    ]
    if reuse["reuse_time_s"] is not None:
        times = ", ".join(f"{name_text(name)} {seconds_text(reuse['reuse_time_s'][name])}" for name in _STATISTICS[1:4])
        lines.append(f"  time between uses of a block: {times}")
    return lines, working_set(reuse, pen), _curve(reuse, pen)


def working_set(reuse: Document, pen: Pen) -> list[str]:
    head: Row = [Cell(text, "dim") for text in ("used within", "blocks", "tokens")]
    rows: list[Row] = [
        [seconds_text(item["window_s"]), f"{item['working_set_blocks']:,.0f}", tokens_text(item["working_set_tokens"])]
        for item in reuse["working_set"]
    ]
    return [pen.heading("Working set"), *columns([head, *rows], "rrr", pen)]


def _curve(reuse: Document, pen: Pen) -> list[str]:
    head: Row = [Cell(text, "dim") for text in ("blocks", "tokens", "of blocks", "of tokens", "of the ceiling")]
    rows: list[Row] = [
        [
            f"{item['capacity_blocks']:,}",
            tokens_text(item["capacity_tokens"]),
            percent(item["hit_ratio"]),
            percent(item["token_hit_ratio"]),
            pen.bar(item["hit_ratio"] / (reuse["ceiling"] or 1.0), _BAR_COLUMNS),
        ]
        for item in reuse["curve"]
    ]
    return [pen.heading("Hit ratio by capacity"), *columns([head, *rows], "rrrrl", pen)]


def _notes(document: Document, pen: Pen) -> list[str]:
    tones = {"warning": "bad", "caution": "close", "info": ""}
    lines = [pen.heading("Notes")]
    for note in document["notes"]:
        text = wrapped(note["text"], max(pen.width - 11, 32))
        lines += [f"  {pen.paint(note['level'].ljust(7), tones.get(note['level'], ''))}  {text[0]}"]
        lines += [" " * 11 + more for more in text[1:]]
    return lines


def percent(ratio: float | None) -> str:
    return "-" if ratio is None else f"{100 * ratio:.1f}%"


def tokens_text(tokens: float | None) -> str:
    return "-" if tokens is None else format_count(round(tokens))


# ---------------------------------------------------------------------------------------------------------------- page


def to_html(document: Document) -> str:
    """The description as a page that needs nothing else."""
    return page.page(f"planner trace: {_head(document)}", [_content(document)], document["tool"]["version"])


def to_html_fragment(document: Document) -> str:
    """The same for a place inside another page."""
    return page.fragment(_content(document))


def _content(document: Document) -> str:
    return f"<h1>{escape(_head(document))}</h1>\n{page.sections_markup(_sections(document), 2)}"


def _sections(document: Document) -> Iterator[Section]:
    yield Section("Arrivals", ("", ""), tuple(_arrivals(document)), beside=True)
    laws = [(name, document[f"{name}_tokens"]) for name in ("input", "output")]
    lengths = [(name, *(f"{law[key]:,.0f}" for key in _STATISTICS), f"{law['scv']:.3g}") for name, law in laws]
    yield Section("Lengths", ("tokens", *map(name_text, _STATISTICS), "SCV"), tuple(lengths), beside=True)
    if document["reuse"]:
        yield from _reuse_sections(document["reuse"])
    notes = tuple((note["level"], note["text"]) for note in document["notes"])
    yield Section("Notes", ("level", "note"), notes)


def _reuse_sections(reuse: Document) -> Iterator[Section]:
    found = (
        ("references to blocks", f"{reuse['block_references']:,}"),
        ("different blocks", f"{reuse['distinct_blocks']:,}"),
        ("most that any cache finds", f"{percent(reuse['ceiling'])} of blocks"),
    )
    yield Section(f"Reuse, {reuse['eviction']} eviction", ("", ""), found, beside=True)
    held = [
        (seconds_text(item["window_s"]), f"{item['working_set_blocks']:,.0f}", tokens_text(item["working_set_tokens"]))
        for item in reuse["working_set"]
    ]
    yield Section("Working set", ("used within", "blocks", "tokens"), tuple(held), beside=True)
    curve = [
        (
            f"{item['capacity_blocks']:,}",
            tokens_text(item["capacity_tokens"]),
            percent(item["hit_ratio"]),
            percent(item["token_hit_ratio"]),
        )
        for item in reuse["curve"]
    ]
    shares = tuple(item["hit_ratio"] / (reuse["ceiling"] or 1.0) for item in reuse["curve"])
    head = ("blocks", "tokens", "of blocks", "of tokens")
    yield Section("Hit ratio by capacity; bars: of the ceiling", head, tuple(curve), shares)
