"""Formulas by id, read from the docstrings of the functions that compute them.

A docstring names a formula on a line of its own, `Id: name.  equation  (source)`; lines indented deeper carry on. So
the equation that `planner explain` prints stands beside the code that it describes, and nowhere else.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

_MODULES = (
    "planner.records.question", "planner.sizing.cost", "planner.sizing.limits", "planner.sizing.plan",
    "planner.serving.disaggregated", "planner.serving.colocated_outcome", "planner.serving.predict",
    "planner.serving.statistics", "planner.serving.transfer",
    "planner.serving.intervals", "planner.serving.role", "planner.roofline.operators", "planner.roofline.steps",
    "planner.roofline.memory", "planner.roofline.collectives", "planner.queueing.waiting", "planner.queueing.total",
    "planner.queueing.occupancy", "planner.shapes.counts", "planner.shapes.ranks",
)  # fmt: skip
_ID = re.compile(r"^Id: ([a-z0-9_.]+)\.\s+(.+?)\s+\(([^()]*(?:\([^()]*\)[^()]*)*)\)$")


@dataclass(frozen=True, slots=True)
class Formula:
    """A named equation, where it comes from, and the function that computes it."""

    id: str
    equation: str
    source: str
    function: str


@cache
def formulas() -> dict[str, Formula]:
    """Every formula that a docstring names, by id."""
    found = [formula for name in _MODULES for formula in _of_module(name)]
    return {formula.id: formula for formula in sorted(found, key=lambda formula: formula.id)}


def _of_module(name: str) -> Iterator[Formula]:
    module = importlib.import_module(name)
    for item in vars(module).values():
        if getattr(item, "__module__", None) != name or not (inspect.isfunction(item) or inspect.isclass(item)):
            continue
        yield from _of(item, f"{name}.{item.__qualname__}")
        for inner in vars(item).values() if inspect.isclass(item) else ():
            found = inner.fget if isinstance(inner, property) else inner
            if inspect.isfunction(found):
                yield from _of(found, f"{name}.{found.__qualname__}")


def _of(item: object, function: str) -> Iterator[Formula]:
    for line in joined_lines(inspect.getdoc(item) or ""):
        match = _ID.match(line)
        if match:
            yield Formula(match[1], match[2], match[3], function)


def joined_lines(text: str) -> list[str]:
    """Lines of a docstring; one that is indented deeper than the one before carries it on."""
    lines: list[tuple[int, str]] = []
    for line in text.splitlines():
        indent = len(line) - len(line.lstrip())
        if line.strip() and lines and lines[-1][1].startswith("Id: ") and indent > lines[-1][0]:
            lines[-1] = (lines[-1][0], f"{lines[-1][1]} {line.strip()}")
        else:
            lines.append((indent, line.strip()))
    return [line for _, line in lines]
