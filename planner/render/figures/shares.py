"""What things consist of: the memory of an accelerator, a first token, a decode step, a price."""

from __future__ import annotations

from collections.abc import Mapping

from planner.render.bars import LARGEST, TOTAL, Bar, Bars
from planner.render.breakdown import LEAST_SHARE
from planner.render.figures.figure import Document, Figure, source_line, subject, time_scale
from planner.render.svg import BLUE
from planner.render.text import name_text, percent_text, seconds_text, value_text

GB = 1e9


def memory(result: Document) -> Figure:
    """What fills one accelerator of each pool; the parts sum to what it has."""
    bars = []
    for name, parts in result["memory_per_accelerator"].items():
        capacity = parts["capacity_bytes"]
        kept = [(name_text(key), size / GB) for key, size in parts.items() if key != "capacity_bytes" and size]
        text = f"{value_text(capacity, 'bytes')} {result['plan'][name]['accelerator']}"
        bars.append(Bar(name, kept, text))
    title = "Memory of one accelerator"
    return Figure("memory", [Bars(title, "memory", "GB", bars, subtitle=subject(result), source=source_line(result))])


def ttft(result: Document) -> Figure:
    """The mean TTFT from the request to its first token."""
    return _time_figure("ttft", "Mean TTFT, where it goes", "time since the request", "ttft_parts_s", result)


def step(result: Document) -> Figure:
    """One decode step at the mean batch."""
    title = "One decode step at the mean batch, where it goes"
    return _time_figure("step", title, "time in the step", "decode_step_parts_s", result)


def _time_figure(kind: str, title: str, label: str, name: str, result: Document) -> Figure:
    parts: Mapping[str, float | None] = result["prediction"][name]
    total = sum(value or 0.0 for value in parts.values())
    kept = {key: value for key, value in parts.items() if value is not None and value > LEAST_SHARE * total}
    endless = [name_text(key) for key, value in parts.items() if value is None]
    unit, scale = time_scale(total)
    rows = {
        name_text(key): (value * scale, f"{seconds_text(value)}, {percent_text(value / total)}")
        for key, value in kept.items()
    }
    whole = f"unbounded: {', '.join(endless)}" if endless else seconds_text(total)
    chart = waterfall(title, label, unit, rows, whole, subtitle=subject(result), source=source_line(result))
    return Figure(kind, [chart])


def cost(result: Document) -> Figure:
    """The price of an hour by part, with the range that quotes leave."""
    lines = result["cost"]["lines"]
    rows = {line["name"]: (line["usd_per_hour"], _range_text(line)) for line in lines}
    spans: dict[str, tuple[float, float]] = {}
    reached = 0.0
    for line in lines:
        spans[line["name"]] = (reached + line["low_usd_per_hour"], reached + line["high_usd_per_hour"])
        reached += line["usd_per_hour"]
    spans["total"] = (result["cost"]["low_usd_per_hour"], result["cost"]["high_usd_per_hour"])
    total = _range_text(result["cost"])
    basis = f"prices {result['plan']['price_basis']}; a line with caps is the range of quotes"
    chart = waterfall(
        "Cost of an hour, by part",
        "cost",
        "USD/h",
        rows,
        total,
        spans,
        subtitle=f"{subject(result)}; {basis}",
        source=source_line(result),
    )
    return Figure("cost", [chart])


def _range_text(line: Document) -> str:
    """A price, and between what quotes it lies where they differ."""
    text = value_text(line["usd_per_hour"], "USD/h")
    low, high = line["low_usd_per_hour"], line["high_usd_per_hour"]
    return f"{text} ({low:,.2f} .. {high:,.2f})" if high > low else text


def waterfall(
    title: str,
    label: str,
    unit: str,
    rows: Mapping[str, tuple[float, str]],
    total: str,
    spans: Mapping[str, tuple[float, float]] | None = None,
    *,
    subtitle: str = "",
    source: str = "",
) -> Bars:
    """Parts one after the other, the largest in a color of its own, and their sum."""
    known, bars, reached = spans or {}, [], 0.0
    largest = max((length for length, _ in rows.values()), default=0.0)
    for name, (length, text) in rows.items():
        color = LARGEST if length == largest else BLUE
        bars.append(Bar(name, [(name, length)], text, reached, color, known.get(name)))
        reached += length
    bars.append(Bar("total", [("total", reached)], total, color=TOTAL, span=known.get("total")))
    return Bars(title, label, unit, bars, linked=True, subtitle=subtitle, source=source)
