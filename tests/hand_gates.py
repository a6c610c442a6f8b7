"""Gate documents built from hand-built plans, with checks that stand on lines of a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import hand_plans

from planner.files.checks import parse
from planner.records import Check, InputFile, Plan
from planner.review.document import document, gate_document

EXPRESSIONS = (
    "ttft.p99 <= 800 ms",
    "itl.p99 <= 30 ms",
    "accelerators <= 50",
    "utilization.decode <= 95 %",
    "change(usd_per_hour) <= 5 %",
)
FAULTS = (
    {"path": "plans/bad.yaml", "line": 3, "column": 1, "text": 'weights: "fp9" is not known; did you mean "fp8"?'},
    {"path": "plans/bad.yaml", "line": 7, "column": 12, "text": "workload.requests: 12 has no unit"},
)


def placed(expressions: Sequence[str], path: str) -> tuple[Check, ...]:
    return tuple(replace(parse(text), path=path, line=10 + number, column=5) for number, text in enumerate(expressions))


def plan(name: str, path: str, expressions: Sequence[str] = EXPRESSIONS) -> Plan:
    """A hand-built plan as if its scenario stood in `path`."""
    chosen: Plan = getattr(hand_plans, name)
    scenario = replace(
        chosen.scenario, name=path, inputs=(InputFile(path, "12" * 32),), checks=placed(expressions, path)
    )
    return replace(chosen, scenario=scenario)


def gate(strict: bool = False) -> dict[str, Any]:
    """Three scenarios and a broken one: at risk with a change, infeasible, and nothing fits."""
    baseline = document(plan("DISAGGREGATED", "plans/chat.yaml"))
    baseline["plan"] = {**baseline["plan"], "usd_per_hour": 100.0}
    results = [
        document(plan("DISAGGREGATED", "plans/chat.yaml"), baseline),
        document(plan("INFEASIBLE", "plans/tight one.yaml", EXPRESSIONS[:4])),
        document(plan("NOTHING_FITS", "plans/none.yaml", EXPRESSIONS[:3])),
    ]
    return gate_document(results, [{"scenario": "plans/bad.yaml", "faults": list(FAULTS)}], strict)
