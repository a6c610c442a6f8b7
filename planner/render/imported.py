"""Launch files as text: what was read of them, and what `planner size` would change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from planner.render.text import Pen, wrapped


def imported_section(document: Mapping[str, Any], pen: Pen) -> list[str]:
    """What launch files said; empty for a result without them."""
    return list(_lines(document["imported"], pen)) if "imported" in document else []


def _lines(imported: Mapping[str, Any], pen: Pen) -> Iterator[str]:
    yield pen.heading(f"Read from {', '.join(file['path'] for file in imported['files'])}")
    for remark in imported["remarks"]:
        yield from (f"  {line}" for line in wrapped(remark, pen.width - 2))
    if imported["unread_options"]:
        unread = f"not read: {', '.join(imported['unread_options'])}"
        yield from (f"  {line}" for line in wrapped(unread, pen.width - 2))
    yield ""
    changes = imported["size_would_change"]
    if imported["size_verdict"] != "feasible":
        yield "`planner size` finds no plan that meets every target"
    elif not changes:
        yield "`planner size` would change nothing"
    else:
        yield pen.heading("What `planner size` would change")
        names = [change["field"].removeprefix("plan.") for change in changes]
        before = [_shown(change["running"]) for change in changes]
        widths = max(map(len, names)), max(map(len, before))
        for name, left, change in zip(names, before, changes, strict=True):
            yield f"  {name:<{widths[0]}}  {left:>{widths[1]}} -> {_shown(change['planned'])}"


def _shown(value: Any) -> str:
    if value is None:
        return "none"
    return f"{value:,.2f}" if isinstance(value, float) else str(value)
