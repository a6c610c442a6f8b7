"""Where a plan's time and memory go: pools, memory, breakdowns, as bars."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from planner.render.section import Section
from planner.render.text import Cell, Pen, Row, columns, name_text, percent_text, seconds_text, value_text, wrapped
from planner.review.result import pools
from planner.units import format_count

Document = Mapping[str, Any]

LEAST_SHARE = 1e-4  # of a sum; smaller parts are in the JSON only
TRUST_TONES = {"ok": "good", "caution": "close"}


def pool_text(pool: Document, pen: Pen) -> str:
    """A pool as people order it: "5 replicas x TP8 = 40 h200-sxm"."""
    times = "×" if pen.unicode else "x"
    sizes = [f"{name.upper()}{pool[name]}" for name in ("tp", "pp", "dp", "ep") if name == "tp" or pool[name] > 1]
    replicas = f"{pool['replicas']} replica{'s' if pool['replicas'] != 1 else ''}"
    return f"{replicas} {times} {' '.join(sizes)} = {pool['accelerators']} {pool['accelerator']}"


def pools_section(document: Document, pen: Pen) -> list[str]:
    """How busy each pool is, what its KV pool holds, what the transfer takes."""
    kv = document["kv"]
    demand, transfer = kv["demand_tokens"], kv["transfer"]
    rows: list[Row] = []
    for name, pool in pools(document["plan"]):
        trust = pool["trust"] or ""
        reason = f"{trust}: {pool['trust_reason']}" if pool["trust_reason"] else trust
        use = pool["utilization"]
        rows.append([name, percent_text(use), pen.bar(use), Cell(reason, TRUST_TONES.get(trust, "bad"))])
    lines = [pen.heading("Busy, and how far the formulas can be trusted there"), *columns(rows, "lrlw", pen)]
    held = f"{format_count(demand['mean'])} tokens held, p99 {format_count(demand['p99'])}" if _known(demand) else ""
    text = f"KV per replica: {held}, room for {value_text(kv['capacity_tokens'], '', 'any')}"
    lines += [f"  {line}" for line in wrapped(text, pen.width - 2)] if held else []
    found = [f"{percent_text(row['hit_fraction'])} in {row['tier']}" for row in kv["tiers"] if "hit_fraction" in row]
    lines += [f"  Prompt tokens found: {', '.join(found)}"] if found else []
    if transfer:
        text = (
            f"KV transfer: {value_text(transfer['bytes_per_request'], 'bytes')} per request at "
            f"{value_text(transfer['bytes_per_s'], 'bytes/s')}, {seconds_text(transfer['mean_s'])} exposed, "
            f"network {percent_text(transfer['utilization'])} busy"
        )
        lines += [f"  {line}" for line in wrapped(text, pen.width - 2)]
    return lines


def bands_section(document: Document, pen: Pen) -> list[str]:
    """How far the formulas may be off at given step times, and their trust, for every statistic."""
    prediction = document["prediction"]
    if not prediction or not prediction.get("formula_bands"):
        return []
    rows: list[Row] = []
    for metric, bands in prediction["formula_bands"].items():
        for name, item in bands.items():
            low, high = item["band"]
            reason = f"{item['trust']}: {item['trust_reason']}" if item["trust_reason"] else item["trust"]
            told = Cell(reason, TRUST_TONES.get(item["trust"], "bad"))
            title = f"{metric.removesuffix('_s').upper()} {name_text(name)}"
            value = seconds_text(prediction[metric][name])
            rows.append([title, value, f"{seconds_text(low)} .. {seconds_text(high)}", told])
    return [
        pen.heading("What the formulas alone may be off by, were the step times exact"),
        *columns(rows, "lrrw", pen),
    ]


def _known(values: Mapping[str, float | None]) -> bool:
    return all(value is not None for value in values.values())


def memory_sections(document: Document) -> Iterator[Section]:
    """What fills one accelerator of each pool."""
    for name, parts in document["memory_per_accelerator"].items():
        capacity = parts["capacity_bytes"]
        kept = {key: size for key, size in parts.items() if key != "capacity_bytes" and size}
        shares = tuple(size / capacity if capacity else None for size in kept.values())
        rows = tuple(
            (name_text(key), value_text(size, "bytes"), percent_text(share))
            for (key, size), share in zip(kept.items(), shares, strict=True)
        )
        whole = f"{value_text(capacity, 'bytes')} {document['plan'][name]['accelerator']}"
        title = f"Memory of one {name} accelerator, {whole}"
        yield Section(title, ("part", "size", "share"), rows, shares, beside=True)


def parts_section(document: Document, title: str, name: str) -> Section:
    """A time by its parts, largest share as the longest bar."""
    parts: Mapping[str, float | None] = document["prediction"][name]
    total = sum(value or 0.0 for value in parts.values())
    kept = {key: value for key, value in parts.items() if value is None or value > LEAST_SHARE * total}
    shares = {key: value / total if value is not None and total else None for key, value in kept.items()}
    rows = tuple((name_text(key), seconds_text(value), percent_text(shares[key])) for key, value in kept.items())
    whole = "unbounded" if None in parts.values() else seconds_text(total)
    return Section(f"{title}: {whole}", ("part", "time", "share"), rows, tuple(shares.values()), beside=True)
