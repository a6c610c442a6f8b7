"""A plan held against a benchmark: which statistics lie inside their interval, and what explains a miss.

Works on plain values: a result document, and seconds by metric and statistic.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from planner.records import METRICS, STATISTICS

Document = Mapping[str, Any]
Seconds = Mapping[str, Mapping[str, float]]
Cells = dict[tuple[str, str], float]  # (metric, statistic) -> seconds

SAME_LOAD = 0.1  # rates and lengths closer than this are the plan's
_WORTH = 0.9  # a term explains a miss when it leaves less than this of the error
_FACTORS = np.geomspace(0.1, 10.0, 401)
_WAITS = np.geomspace(0.01, 100.0, 401)
_SHARES = np.linspace(0.0, 0.99, 100)
# Share of an admission stall that a statistic of TTFT feels: the few requests that find the cache full wait for others.
_STALLED = {"mean": 0.1, "p50": 0.0, "p90": 0.2, "p95": 0.5, "p99": 1.0, "p99_9": 1.5}


@dataclass(frozen=True, slots=True)
class Compared:
    """One statistic. `inside` is None where the plan bounds nothing."""

    metric: str
    statistic: str
    measured_s: float
    predicted_s: float | None
    low_s: float | None
    high_s: float | None
    inside: bool | None


@dataclass(frozen=True, slots=True)
class Explanation:
    """What one term would have to be for the plan to come nearest to the measurement.

    `value` is a factor on step times or on the wait, seconds of stall, or a share of prompts found in a cache.
    `error` is the root mean square of ln(predicted / measured) that is left.
    """

    term: str  # step time | wait | admission | hit ratio
    value: float
    error: float


@dataclass(frozen=True, slots=True)
class Load:
    """One quantity of the load, planned and measured."""

    name: str
    planned: float
    measured: float

    @property
    def differs(self) -> bool:
        return abs(self.measured / self.planned - 1.0) > SAME_LOAD


@dataclass(frozen=True, slots=True)
class Agreement:
    """A whole comparison. `explanations` come best first; empty where nothing lies outside."""

    compared: tuple[Compared, ...]
    load: tuple[Load, ...]
    error: float  # as planned
    explanations: tuple[Explanation, ...]

    @property
    def outside(self) -> tuple[Compared, ...]:
        return tuple(one for one in self.compared if one.inside is False)


def agreement(
    plan: Document, seconds: Seconds, requests_per_s: float, input_tokens: float, output_tokens: float
) -> Agreement:
    """Hold a result document against measured seconds and the load they were measured under.

    Numbers that the benchmark does not tell are NaN and left out.
    """
    compared = tuple(_compared(plan, seconds))
    measured = {(one.metric, one.statistic): one.measured_s for one in compared if one.predicted_s}
    predicted = {(one.metric, one.statistic): one.predicted_s for one in compared if one.predicted_s}
    error = _error(predicted, measured)
    missed = any(one.inside is False for one in compared)
    found = sorted(_explanations(plan, predicted, measured), key=lambda one: one.error) if missed else []
    return Agreement(
        compared,
        tuple(_load(plan, requests_per_s, input_tokens, output_tokens)),
        error,
        tuple(one for one in found if one.error < _WORTH * error),
    )


def _compared(plan: Document, seconds: Seconds) -> list[Compared]:
    prediction = plan["prediction"]
    found = []
    for metric in METRICS:
        for statistic in STATISTICS:
            measured = seconds.get(metric, {}).get(statistic)
            if measured is None or not measured > 0:
                continue
            value = prediction[f"{metric}_s"].get(statistic)
            low, high = prediction["intervals"].get(f"{metric}_s", {}).get(statistic) or (None, None)
            inside = None if low is None else bool(low <= measured and (high is None or measured <= high))
            found.append(Compared(metric, statistic, measured, value, low, high, inside))
    return found


def _load(plan: Document, requests_per_s: float, input_tokens: float, output_tokens: float) -> list[Load]:
    workload = plan["inputs"]["workload"]
    pairs = (
        ("requests_per_s", workload["requests_per_s"], requests_per_s),
        ("input_tokens", workload["input_tokens"]["mean"], input_tokens),
        ("output_tokens", workload["output_tokens"]["mean"], output_tokens),
    )
    return [Load(name, planned, measured) for name, planned, measured in pairs if measured > 0]


# ---------------------------------------------------------------------------------------------------------------- terms


def _explanations(plan: Document, predicted: Cells, measured: Cells) -> list[Explanation]:
    """Each term alone, at the value that leaves the least error."""
    parts = {name: value or 0.0 for name, value in plan["prediction"]["ttft_parts_s"].items()}
    mean_s = plan["prediction"]["ttft_s"].get("mean") or sum(parts.values())
    terms: dict[str, tuple[np.ndarray, Callable[[float], Cells]]] = {
        "step time": (_FACTORS, lambda factor: _with_steps(predicted, parts, factor)),
        "wait": (_WAITS, lambda factor: _with_wait(predicted, mean_s - parts.get("wait", 0.0), factor)),
        "admission": (_stalls(measured), lambda stall: _with_stall(predicted, stall)),
        "hit ratio": (_SHARES, lambda share: _with_hits(predicted, mean_s, parts.get("prefill", 0.0), share)),
    }
    found = []
    for term, (values, changed) in terms.items():
        errors = [_error(changed(float(value)), measured) for value in values]
        best = int(np.argmin(errors))
        found.append(Explanation(term, float(values[best]), errors[best]))
    return found


def _error(predicted: Cells, measured: Cells) -> float:
    """Root mean square of ln(predicted / measured)."""
    logs = [math.log(predicted[cell] / measured[cell]) for cell in measured if predicted.get(cell, 0.0) > 0.0]
    return math.sqrt(sum(log * log for log in logs) / len(logs)) if logs else 0.0


def _with_steps(predicted: Cells, parts: Mapping[str, float], factor: float) -> Cells:
    """Every step `factor` times as long: gaps, the own prefill and the first steps of a first token."""
    own = (factor - 1.0) * (parts.get("prefill", 0.0) + parts.get("first_steps", 0.0))
    return {cell: max(value + own, 1e-9) if cell[0] == "ttft" else value * factor for cell, value in predicted.items()}


def _with_wait(predicted: Cells, without_wait_s: float, factor: float) -> Cells:
    """Waits `factor` times as long: what a first token takes beyond its mean without waiting."""

    def longer(value: float) -> float:
        return value + (factor - 1.0) * max(value - without_wait_s, 0.0)

    extra = longer(predicted.get(("ttft", "mean"), 0.0)) - predicted.get(("ttft", "mean"), 0.0)
    return _first_tokens(
        predicted, {cell: longer(value) for cell, value in predicted.items() if cell[0] == "ttft"}, extra
    )


def _with_stall(predicted: Cells, stall_s: float) -> Cells:
    """Some requests wait `stall_s` for room in the cache: tails of first tokens grow, medians do not."""
    changed = {cell: value + _STALLED[cell[1]] * stall_s for cell, value in predicted.items() if cell[0] == "ttft"}
    return _first_tokens(predicted, changed, _STALLED["mean"] * stall_s)


def _with_hits(predicted: Cells, mean_s: float, prefill_s: float, share: float) -> Cells:
    """A share of each prompt found in a cache: so much less prefill, in proportion to the first token's time."""
    factor = 1.0 - share * prefill_s / mean_s if mean_s > 0.0 else 1.0
    changed = {cell: value * max(factor, 1e-6) for cell, value in predicted.items() if cell[0] == "ttft"}
    return _first_tokens(predicted, changed, -share * prefill_s)


def _first_tokens(predicted: Cells, changed: Cells, extra_s: float) -> Cells:
    """The prediction with other first tokens, which end-to-end times carry on."""
    return {
        cell: changed[cell] if cell in changed else max(value + extra_s, 1e-9) if cell[0] == "e2e" else value
        for cell, value in predicted.items()
    }


def _stalls(measured: Cells) -> np.ndarray:
    longest = max((value for cell, value in measured.items() if cell[0] == "ttft"), default=0.0)
    return np.linspace(0.0, 2.0 * longest, 401)
