"""A plan beside a benchmark, as text and as plain values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from planner.calibration.agreement import Agreement, Compared, Explanation
from planner.render.text import Pen, Row, columns, name_text, seconds_text

Document = dict[str, Any]
_SAID = {
    "step time": "steps {value:.2f} times as long",
    "wait": "waits {value:.2f} times as long",
    "admission": "a stall of {seconds} for room in the KV cache",
    "hit ratio": "{percent:.0f}% of each prompt found in a prefix cache",
}
_LOAD = {"requests_per_s": "requests/s", "input_tokens": "input tokens", "output_tokens": "output tokens"}


def to_text(found: Agreement, name: str, plan: str, coverage: float, pen: Pen) -> str:
    """The comparison for people."""
    return pen.finish(list(_lines(found, name, plan, coverage, pen)))


def _lines(found: Agreement, name: str, plan: str, coverage: float, pen: Pen) -> Iterator[str]:
    judged = [one for one in found.compared if one.inside is not None]
    inside = len(judged) - len(found.outside)
    yield pen.heading(f"{name} against {plan}: {inside} of {len(judged)} statistics inside the {coverage:.0%} interval")
    yield ""
    head: Row = ("", "", "measured", "predicted", "interval")
    yield from columns([head, *(_row(one) for one in found.compared)], "llrrr", pen)
    yield ""
    for load in found.load:
        mark = "another load than planned" if load.differs else "as planned"
        yield f"  {_LOAD[load.name]}: {load.measured:,.4g} measured, {load.planned:,.4g} planned: {mark}"
    if any(load.differs for load in found.load):
        yield "  evaluate the plan under the load of the benchmark before you trust the comparison"
    yield ""
    if not found.outside:
        yield "Nothing to explain"
    elif not found.explanations:
        yield "No single term explains the miss"
    else:
        best, *others = found.explanations
        yield pen.heading(f"Explained best by {best.term}: {_said(best)}")
        yield f"  leaves {best.error:.0%} of error where the plan has {found.error:.0%}"
        for other in others:
            yield f"  {other.term}: {_said(other)}, leaves {other.error:.0%}"


def _row(one: Compared) -> Row:
    status = {True: "inside", False: "OUTSIDE", None: "no interval"}[one.inside]
    interval = "" if one.low_s is None else f"{seconds_text(one.low_s)} .. {seconds_text(one.high_s)}"
    name = f"{name_text(one.metric)} {name_text(one.statistic)}"
    return (status, name, seconds_text(one.measured_s), seconds_text(one.predicted_s), interval)


def _said(one: Explanation) -> str:
    return _SAID[one.term].format(value=one.value, seconds=seconds_text(one.value), percent=100.0 * one.value)


def to_document(found: Agreement, name: str, coverage: float) -> Document:
    """The comparison for programs."""
    return {
        "benchmark": name,
        "coverage": coverage,
        "statistics": [asdict(one) for one in found.compared],
        "load": [{**asdict(one), "differs": one.differs} for one in found.load],
        "error": found.error,
        "explanations": [{**asdict(one), "said": _said(one)} for one in found.explanations],
    }
