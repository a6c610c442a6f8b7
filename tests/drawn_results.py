"""A small result with the numbers of every figure, computed once for all tests of a process."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import small_scenarios as small

from planner import sizing
from planner.records import Plan
from planner.review.document import document, plain
from planner.review.figures import figures_document, front_document
from planner.sizing.front import FrontPoint, front

KINDS = ("latency", "load", "roofline")


@cache
def plan() -> Plan:
    return sizing.evaluate(small.scenario(deployment=small.SPLIT))


@cache
def points() -> tuple[FrontPoint, ...]:
    return front(plan())


@cache
def figures() -> Mapping[str, Any]:
    return figures_document(plan(), KINDS) | {"front": plain(front_document(plan(), points()))}


@cache
def result() -> Mapping[str, Any]:
    return document(plan()) | {"figures": figures()}
