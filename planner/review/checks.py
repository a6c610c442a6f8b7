"""A result held to its checks: one line per target, budget and expression, with value, interval, slack and verdict.

    pass      the value keeps the limit, and so does the bad end of its interval
    at risk   the value keeps the limit, the bad end of its interval does not
    fail      the value does not keep the limit, or there is none

A change is judged by the two values alone: both predictions carry the same error of the model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from planner import metrics
from planner.records import METRICS, Check, Scenario
from planner.review.result import is_number

Document = dict[str, Any]
Reading = Mapping[str, Any]

PASS, AT_RISK, FAIL = "pass", "at risk", "fail"
ROUNDING = 1e-9  # relative: how far past its limit a number may lie by rounding alone

_PLACES: Mapping[str, tuple[str, ...]] = {
    "usd_per_hour": ("plan", "usd_per_hour"),
    "usd_per_mtok_input": ("usd_per_mtok", "input"),
    "usd_per_mtok_output": ("usd_per_mtok", "output"),
    "requests_per_s_max": ("prediction", "requests_per_s_max"),
    "surplus_fraction": ("prediction", "surplus_fraction"),
    "output_tokens_per_s": ("prediction", "output_tokens_per_s"),
    "watts": ("energy", "watts"),
    "joules_per_output_token": ("energy", "joules_per_output_token"),
}


def checks_of(scenario: Scenario) -> tuple[Check, ...]:
    """The checks of a scenario; of one that was built without a file, its targets and budgets."""
    if scenario.checks:
        return scenario.checks
    targets = (
        Check(one.metric, one.statistic, "<=", one.limit_s, "s", text=metrics.name_of(one.metric, one.statistic))
        for one in scenario.targets
    )
    budgets = (Check(one.name, "", "<=", one.limit, one.unit, text=one.name) for one in scenario.budgets)
    return (*targets, *budgets)


def needs_baseline(checks: Sequence[Check]) -> tuple[Check, ...]:
    """Those that cannot be judged without one."""
    return tuple(check for check in checks if check.change)


def judged(result: Reading, checks: Sequence[Check], baseline: Reading | None = None) -> list[Document]:
    """Return every check with what the result says of it; changes only where there is a baseline to compare with.

    A result that is infeasible although it keeps all of them (a pool has no headroom left) gets a line that says so.
    """
    lines = [_judge(result, check, baseline) for check in checks if baseline is not None or not check.change]
    if result["verdict"] == "infeasible" and all(line["verdict"] != FAIL for line in lines):
        lines.append(_no_headroom(checks))
    return lines


def value_of(result: Reading, metric: str, statistic: str) -> float | None:
    """A metric of a result document; None where it is unknown, unbounded, or the plan has no such part."""
    if metric in METRICS:
        return _at(result, ("prediction", f"{metric}_s", statistic))
    if metric == "accelerators":
        return _at(result, ("plan", statistic, "accelerators") if statistic else ("plan", "accelerators"))
    if metric == "utilization":
        return _utilization(result, statistic)
    if metric == "kv_fill":
        held, room = _at(result, ("kv", "demand_tokens", statistic)), _at(result, ("kv", "capacity_tokens"))
        return held / room if held is not None and room else None
    return _at(result, _PLACES[metric])


def _utilization(result: Reading, part: str) -> float | None:
    if part == "transfer":
        return _at(result, ("kv", "transfer", "utilization"))
    if part:
        return _at(result, ("plan", part, "utilization"))
    busy = (_at(result, ("plan", pool, "utilization")) for pool in metrics.POOLS)
    return max((value for value in busy if value is not None), default=None)


def _at(result: Reading, place: Sequence[str]) -> float | None:
    found: Any = result
    for name in place:
        found = found.get(name) if isinstance(found, Mapping) else None
    return found if is_number(found) else None


def interval_of(result: Reading, metric: str, statistic: str) -> list[float | None] | None:
    """Low and high of a latency; None where the result has no interval."""
    prediction = result["prediction"]
    found = prediction["intervals"].get(f"{metric}_s", {}).get(statistic) if prediction else None
    return None if found is None else list(found)


# ------------------------------------------------------------------------------------------------------------- one line


def _judge(result: Reading, check: Check, baseline: Reading | None) -> Document:
    value = value_of(result, check.metric, check.statistic)
    reference = value_of(baseline, check.metric, check.statistic) if baseline is not None else None
    interval = None if check.change else interval_of(result, check.metric, check.statistic)
    measured = _measured(check, value, reference)
    verdict, reason = _verdict(check, measured, interval), ""
    if measured is None and value is None:
        reason = _no_value(result, check)
    elif measured is None and reference is None and baseline is not None:
        reason = f"the baseline has none: {_no_value(baseline, check)}"
        if check.metric in METRICS and baseline["plan"] is not None and check.comparison == "<=":
            verdict = PASS  # bounded now, unbounded before
    elif measured is None:
        reason = "the baseline is 0, so no fraction of it can be kept; limit the difference instead"
    slack = _slack(check, measured)
    return line(check, "change" if check.change else "limit", value, reference, interval, slack, verdict, reason)


def line(
    check: Check,
    kind: str,
    value: float | None,
    reference: float | None,
    interval: list[float | None] | None,
    slack_fraction: float | None,
    verdict: str,
    reason: str = "",
) -> Document:
    """One judged check as plain values; its `name` says what is limited, and stays the same while the limit moves.

    `kind` is limit, change or witness; `reference` is what the value is compared with, of a baseline or a simulation.
    """
    name = metrics.name_of(check.metric, check.statistic)
    return {
        "name": name if kind == "limit" else f"{kind}({name})",
        "kind": kind,
        "metric": check.metric,
        "statistic": check.statistic or None,
        "comparison": check.comparison,
        "limit": check.limit,
        "limit_unit": check.unit,
        "value": value,
        "unit": metrics.ALL[check.metric].unit,
        "interval": interval,
        "reference": reference,
        "delta": value - reference if value is not None and reference is not None else None,
        "delta_fraction": _fraction(value, reference),
        "slack_fraction": slack_fraction,
        "verdict": verdict,
        "reason": reason or None,
        "text": check.text,
        "path": check.path or None,
        "line": check.line or None,
        "column": check.column or None,
    }


def _measured(check: Check, value: float | None, reference: float | None) -> float | None:
    """What is held against the limit."""
    if not check.change:
        return value
    if check.relative:
        return _fraction(value, reference)
    return value - reference if value is not None and reference is not None else None


def _fraction(value: float | None, reference: float | None) -> float | None:
    if value is None or reference is None:
        return None
    return (value - reference) / abs(reference) if reference else (0.0 if value == reference else None)


def _verdict(check: Check, measured: float | None, interval: list[float | None] | None) -> str:
    if measured is None or not _keeps(check, measured):
        return FAIL
    if interval is None:
        return PASS
    bad_end = interval[1] if check.comparison == "<=" else interval[0]
    return PASS if bad_end is not None and _keeps(check, bad_end) else AT_RISK


def _keeps(check: Check, value: float) -> bool:
    """Whether a value keeps the limit; only differences of two numbers may pass it by rounding."""
    room = ROUNDING * max(abs(check.limit), 1e-3) if check.change else 0.0
    return value <= check.limit + room if check.comparison == "<=" else value >= check.limit - room


def _slack(check: Check, measured: float | None) -> float | None:
    """Of the limit; of a relative change, the difference of the two fractions."""
    if measured is None:
        return None
    left = check.limit - measured if check.comparison == "<=" else measured - check.limit
    if check.relative:
        return left
    return left / abs(check.limit) if check.limit else None


def _no_value(result: Reading, check: Check) -> str:
    plan = result["plan"]
    if plan is None:
        return "no candidate can hold the model"
    if check.statistic in metrics.POOLS and check.statistic not in plan:
        return f"the plan is {plan['mode']} and has no {check.statistic} pool"
    if check.statistic == "transfer":
        return f"the plan is {plan['mode']} and moves no KV"
    if check.metric.startswith("usd"):
        return "no price basis covers the plan"
    if metrics.ALL[check.metric].unit == "s":
        return "nothing bounds it: a pool is saturated"
    return "not known"


def _no_headroom(checks: Sequence[Check]) -> Document:
    """The line of a result that is infeasible for another reason than its checks."""
    path, place, column = (checks[0].path, checks[0].line, checks[0].column) if checks else ("", 0, 0)
    wanted = Check("utilization", "", "<=", 1.0, "1", text="a plan that fits", path=path, line=place, column=column)
    reason = "no candidate keeps every limit with the headroom that plans leave"
    return line(wanted, "limit", None, None, None, None, FAIL, reason)


# ------------------------------------------------------------------------------------------------------- many results


def gate(lines: Sequence[Reading], strict: bool = False) -> str:
    """The verdict over all lines: the worst of them; with `strict`, at risk is a failure."""
    verdicts = {one["verdict"] for one in lines}
    if FAIL in verdicts or (strict and AT_RISK in verdicts):
        return FAIL
    return AT_RISK if AT_RISK in verdicts else PASS


def summary(results: Sequence[Reading], broken: int) -> Document:
    """How many scenarios and how many checks have which verdict."""
    lines = [line for result in results for line in result["checks"]]
    return {
        "scenarios": len(results) + broken,
        "scenarios_pass": _count(results, "gate", PASS),
        "scenarios_at_risk": _count(results, "gate", AT_RISK),
        "scenarios_fail": _count(results, "gate", FAIL),
        "scenarios_broken": broken,
        "checks": len(lines),
        "checks_pass": _count(lines, "verdict", PASS),
        "checks_at_risk": _count(lines, "verdict", AT_RISK),
        "checks_fail": _count(lines, "verdict", FAIL),
    }


def _count(items: Sequence[Reading], field: str, verdict: str) -> int:
    return sum(item[field] == verdict for item in items)


def worst_first(lines: Sequence[Reading]) -> Iterator[Reading]:
    """Failures, then risks, then passes; within each the least slack first, what has none before all."""
    order = {FAIL: 0, AT_RISK: 1, PASS: 2}

    def rank(one: Reading) -> tuple[int, bool, float]:
        slack = one["slack_fraction"]
        return order[one["verdict"]], slack is not None, slack or 0.0

    yield from sorted(lines, key=rank)
