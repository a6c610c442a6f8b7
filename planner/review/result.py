"""What every room asks a result document: its name, its pools, what it buys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeGuard

from planner.metrics import POOLS

Document = Mapping[str, Any]


def scenario_name(result: Document) -> str:
    """The file a result came from, else the name of its scenario."""
    files = result["inputs"]["files"]
    return str(files[0]["path"] if files else result["inputs"]["scenario"])


def pools(plan: Document) -> list[tuple[str, Document]]:
    """The pools of a plan or an alternative, in the order that a request passes them."""
    return [(name, plan[name]) for name in POOLS if name in plan]


def bought(plan: Document) -> str:
    """The accelerators of a plan or an alternative: "12 h100-sxm + 8 h200-sxm"."""
    counted: dict[str, int] = {}
    for _, pool in pools(plan):
        counted[pool["accelerator"]] = counted.get(pool["accelerator"], 0) + pool["accelerators"]
    return " + ".join(f"{count} {accelerator}" for accelerator, count in counted.items())


def is_number(value: Any) -> TypeGuard[int | float]:
    """Whether a value of a document is a number; truth values are none."""
    return isinstance(value, int | float) and not isinstance(value, bool)
