"""What runs today beside what `size` would run: the part of a result that launch files add."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from planner.metrics import POOLS

Document = dict[str, Any]

_FIELDS = ("accelerator", "replicas", "tp", "pp", "ep", "dp", "max_batch", "token_budget")


def imported_document(
    files: Sequence[Mapping[str, str]],
    unread: Sequence[str],
    remarks: Sequence[str],
    running: Mapping[str, Any],
    planned: Mapping[str, Any] | None,
) -> Document:
    """Return the `imported` field of a result: files, options that were not read, and what `size` would change.

    Parameters
    ----------
    files : sequence of mappings
        `path` and `sha256` of each launch file.
    running, planned : result documents
        Of the deployment that the files start, and of the one that `size` finds; None where it finds none.
    """
    return {
        "files": [dict(file) for file in files],
        "unread_options": list(unread),
        "remarks": list(remarks),
        "size_verdict": planned["verdict"] if planned else None,
        "size_would_change": list(_changes(running["plan"], planned["plan"])) if planned and planned["plan"] else [],
    }


def _changes(running: Mapping[str, Any], planned: Mapping[str, Any]) -> Iterator[Document]:
    """Every field of the plan that differs, in the order of a report."""
    for name in ("mode", "accelerators", "usd_per_hour"):
        if running[name] != planned[name]:
            yield {"field": f"plan.{name}", "running": running[name], "planned": planned[name]}
    for pool in POOLS:
        before, after = running.get(pool, {}), planned.get(pool, {})
        for name in _FIELDS:
            if before.get(name) != after.get(name):
                yield {"field": f"plan.{pool}.{name}", "running": before.get(name), "planned": after.get(name)}
