"""Result documents as flat rows: one value a name, the names of the document joined by dots, as the CSV has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.metrics import POOLS
from planner.records import METRICS, STATISTICS

Document = Mapping[str, Any]
Row = dict[str, Any]

POOL_FIELDS = ("accelerator", "replicas", "tp", "pp", "ep", "dp", "accelerators")


def plan_rows(result: Document) -> list[Row]:
    """Return a row for the plan (`chosen`) and one for each alternative; None where a deployment lacks the value.

    The first row is always there: where no candidate can hold the model it says `feasible` False and nothing else.
    """
    plan, prediction = result["plan"] or {}, result["prediction"] or {}
    first = {**prediction, **plan, "feasible": result["verdict"] == "feasible", "why_it_lost": None}
    return [_plan_row(True, first), *(_plan_row(False, other) for other in result["alternatives"])]


def _plan_row(chosen: bool, deployment: Document) -> Row:
    row = {"chosen": chosen, "feasible": deployment["feasible"]}
    row |= {name: deployment.get(name) for name in ("mode", "accelerators", "usd_per_hour", "requests_per_s_max")}
    for pool in POOLS:
        row |= {f"{pool}.{name}": (deployment.get(pool) or {}).get(name) for name in POOL_FIELDS}
    for metric in METRICS:
        row |= {f"{metric}_s.{name}": (deployment.get(f"{metric}_s") or {}).get(name) for name in STATISTICS}
    return row | {"why_it_lost": deployment["why_it_lost"]}


def simulation_rows(result: Document) -> list[Row]:
    """Return a row for every statistic of every latency: `name`, predicted, simulated, low, high, difference."""
    return [
        {"name": f"{metric}.{statistic}", **values}
        for metric, named in result["statistics"].items()
        for statistic, values in named.items()
    ]


def trace_rows(document: Document) -> list[Row]:
    """Return the hit curve, a row for every cache size; none where the trace has no block ids."""
    return [dict(point) for point in document["reuse"]["curve"]] if document["reuse"] else []
