"""Closed forms beside a token-step simulation of the same plan: do they agree as far as they are said to?

They agree where the prediction lies within a band around the simulated value, plus the simulation's own confidence. The
bands are those that the forms are checked against (docs/method.md): wide where a form is known to be rough.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from planner.records import METRICS, Check
from planner.review.checks import FAIL, PASS, line, value_of
from planner.simulation.estimates import Estimate
from planner.simulation.result import Simulation

Document = dict[str, Any]

MEAN_BAND = {"ttft": 0.15, "itl": 0.08, "tpot": 0.08, "e2e": 0.08}  # fractions of the simulated value
QUANTILE_BAND = {"ttft": 0.33, "itl": 0.10, "tpot": 0.10, "e2e": 0.15}
TPOT_QUANTILE_BAND = {"colocated-chunked": 0.30, "colocated-whole-prompt": 0.45}


def band_fraction(metric: str, statistic: str, mode: str) -> float:
    """How far a closed form may lie from a simulation, as a fraction of the simulated value."""
    if statistic == "mean":
        return MEAN_BAND[metric]
    if metric == "tpot":
        return TPOT_QUANTILE_BAND.get(mode, QUANTILE_BAND[metric])
    return QUANTILE_BAND[metric]


def witness_lines(result: Mapping[str, Any], checks: Sequence[Check], found: Simulation) -> list[Document]:
    """A line for the mean of every latency and for every statistic that a check limits.

    A statistic that the prediction does not bound is left out: its own check says so already.
    """
    limited = {(check.metric, check.statistic): check for check in checks if check.metric in METRICS}
    wanted = dict.fromkeys([*((metric, "mean") for metric in METRICS), *limited])
    lines = []
    for metric, statistic in wanted:
        place = limited.get((metric, statistic)) or next(iter(checks), None)
        made = _line(result, metric, statistic, found.statistic(metric, statistic), place)
        lines += [made] if made else []
    if found.refused and lines:
        lines[0] |= {"verdict": FAIL, "reason": f"{found.refused:,} requests fit no worker's cache in the simulation"}
    return lines


def _line(
    result: Mapping[str, Any], metric: str, statistic: str, simulated: Estimate, place: Check | None
) -> Document | None:
    value = value_of(result, metric, statistic)
    if value is None or not math.isfinite(simulated.value) or simulated.value <= 0.0:
        return None
    band = band_fraction(metric, statistic, result["plan"]["mode"])
    known = math.isfinite(simulated.low) and math.isfinite(simulated.high)
    half_width = simulated.half_width if known else 0.0
    room = band * simulated.value + half_width
    off = abs(value - simulated.value)
    check = Check(
        metric,
        statistic,
        "<=",
        band,
        "1",
        text=f"closed form within {100 * band:.0f} % of the simulation",
        path=place.path if place else "",
        line=place.line if place else 0,
        column=place.column if place else 0,
    )
    confidence: list[float | None] | None = [simulated.low, simulated.high] if known else None
    reason = "" if known else "the run is too short for a confidence interval"
    slack = (room - off) / simulated.value
    verdict = PASS if off <= room else FAIL
    return line(check, "witness", value, simulated.value, confidence, slack, verdict, reason)


def can_be_simulated(result: Mapping[str, Any]) -> bool:
    """Whether there is a plan, and no pool of it is past what it can carry: its queues would only grow."""
    busy = value_of(result, "utilization", "")
    return result["plan"] is not None and busy is not None and busy < 1.0


def with_witness(result: Document, scenario_checks: Sequence[Check], found: Simulation) -> Document:
    """The result with what the simulation says of it among its checks."""
    return {**result, "checks": [*result["checks"], *witness_lines(result, scenario_checks, found)]}
