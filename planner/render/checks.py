"""Checks as words, for every format that people read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.records import METRICS
from planner.render.text import name_text, percent_text, unit_words, value_text

Document = Mapping[str, Any]

UNBOUNDED = "nothing bounds it: a pool is saturated"  # the reason of a line that says so
_COUNTED = ("accelerators",)  # units that the name already says


def subject(line: Document) -> str:
    """What is limited: "TTFT p99", "USD per hour", "change of USD per hour"."""
    metric, statistic = line["metric"], line["statistic"]
    if metric in METRICS:
        text = f"{name_text(metric)} {name_text(statistic)}"
    else:
        bare = unit_words(metric.replace("_", " "))
        text = f"{name_text(statistic)} {bare}" if statistic else bare
    return {"change": f"change of {text}", "witness": f"{text}, witness"}.get(line["kind"], text)


def limit_text(line: Document) -> str:
    """The limit with its unit; a lower one says "at least"."""
    limit = line["limit"]
    if line["kind"] == "witness":
        return f"within {percent_text(limit)}"
    text = percent_text(limit) if line["limit_unit"] == "1" else quantity(limit, line["limit_unit"])
    if line["kind"] == "change":
        text = f"+{text}" if limit >= 0.0 else text
    return text if line["comparison"] == "<=" else f"at least {text}"


def quantity(value: float | None, unit: str, missing: str = "") -> str:
    """A value of a check; without a bound where a latency has none."""
    if unit == "1":
        return percent_text(value) if value is not None else missing or "unknown"
    return value_text(value, "" if unit in _COUNTED else unit, missing or ("unbounded" if unit == "s" else "unknown"))


def measured_text(line: Document) -> str:
    no_bound = line["unit"] == "s" and line["reason"] == UNBOUNDED
    return quantity(line["value"], line["unit"], "unbounded" if no_bound else "unknown")


def interval_text(line: Document) -> str:
    """The interval around a value, or what the value is compared with."""
    interval, reference = line["interval"], line["reference"]
    if line["kind"] == "witness":
        return f"{quantity(reference, line['unit'], '-')} simulated{change_text(line, ', ')}"
    if line["kind"] == "change":
        return f"from {quantity(reference, line['unit'])}{change_text(line, ', ')}"
    if interval is None:
        return ""
    low, high = (quantity(bound, line["unit"]) for bound in interval)
    return f"{low} .. {high}"


def change_text(line: Document, before: str = "") -> str:
    """The difference to the reference: of a fraction in percent, else in its unit; empty where there is none."""
    delta, fraction = line["delta"], line["delta_fraction"]
    if delta is None:
        return ""
    if fraction is not None:
        return f"{before}{100 * fraction:+.1f}%"
    sign = "+" if delta >= 0.0 else "-"
    return f"{before}{sign}{quantity(abs(delta), line['unit'])}"


def slack_text(line: Document) -> str:
    return percent_text(line["slack_fraction"], sign=True)


def cells(line: Document) -> list[str]:
    """One check as columns: what is limited, the limit, the value, its interval and its slack."""
    return [subject(line), limit_text(line), measured_text(line), interval_text(line), slack_text(line)]


def sentence(line: Document) -> str:
    """One check in a sentence: what was found, what is allowed, how sure it is."""
    found = f"{subject(line)} is {measured_text(line)}"
    allowed = limit_text(line) if line["kind"] == "witness" else f"limit {limit_text(line)}"
    between = interval_text(line)
    more = [f"{'interval ' if line['interval'] else ''}{between}"] if between else []
    slack = [f"slack {slack_text(line)}"] if line["slack_fraction"] is not None else []
    return "; ".join([found, allowed, *more, *slack, *([line["reason"]] if line["reason"] else [])])
