"""The spare workers of a plan as a section of its report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.render.section import Section
from planner.render.text import name_text, seconds_text, value_text
from planner.units import format_availability

Document = Mapping[str, Any]


def resilience_section(document: Document) -> Section:
    """Spare workers per pool, how often they are all out, and the targets without them; empty where none were asked."""
    found = document.get("resilience")
    if found is None:
        return Section("")
    rows = tuple(
        (
            name,
            _workers(pool),
            seconds_text(pool["unit_mtbf_s"]),
            seconds_text(pool["repair_s"]),
            format_availability(pool["held_fraction"]),
        )
        for name, pool in found["spare_workers"].items()
    )
    target = found["target_fraction"]
    asked = f", {format_availability(target)} asked" if target is not None else ""
    cost = value_text(found["spare_usd_per_hour"], "USD/h", "")
    count = found["spare_accelerators"]
    bought = f"{count} accelerator{'' if count == 1 else 's'}" + (f", {cost}" if cost else "")
    limits = ", ".join(
        f"{name_text(limit['metric'])} {name_text(limit['statistic'])} "
        + seconds_text(found[f"{limit['metric']}_s"].get(limit["statistic"]))
        for limit in document["inputs"]["targets"]
    )
    held = f"all pools within their spare {format_availability(found['held_fraction'])} of the time{asked}"
    return Section(
        f"Spare workers: {bought}",
        ("", "may lose", "fails once in", "missing for", "within spare"),
        rows,
        said=(held, f"with all of them gone: {limits}"),
        align="llrrr",
    )


def _workers(pool: Document) -> str:
    unit = f" ({pool['unit_workers']} fail as one)" if pool["unit_workers"] > 1 else ""
    return f"{pool['spare']}{unit}"
