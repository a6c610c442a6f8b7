"""What can be limited: the metrics of a result, their statistics and units, by the names that people write."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from planner.records import METRICS, STATISTICS

POOLS = ("prefill", "decode", "colocated")
CHANGE = "change"  # change(METRIC): against the same metric of a baseline


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric of a result document."""

    name: str
    kind: str  # of units.KINDS: how a limit is written
    unit: str  # of the value in a result
    statistics: tuple[str, ...] = ()  # that it may have; a metric with none is one number
    bare: bool = True  # whether it may stand without a statistic
    better: Literal["low", "high", ""] = "low"  # the side that people want
    meaning: str = ""


def written(statistic: str) -> str:
    """A statistic as people write it: ``p99_9`` is p99.9."""
    return statistic.replace("_", ".")


def name_of(metric: str, statistic: str) -> str:
    """``ttft`` and ``p99`` as ttft.p99."""
    return f"{metric}.{written(statistic)}" if statistic else metric


def _latency(name: str, meaning: str) -> Metric:
    return Metric(name, "seconds", "s", STATISTICS, False, "low", meaning)


_LATENCIES = dict(
    zip(METRICS, ("time to first token", "gap between tokens", "time per output token", "end to end"), strict=True)
)

ALL: Mapping[str, Metric] = {
    metric.name: metric
    for metric in (
        *(_latency(name, meaning) for name, meaning in _LATENCIES.items()),
        Metric("accelerators", "count", "accelerators", POOLS, meaning="accelerators bought, all or of one pool"),
        Metric("usd_per_hour", "usd_per_hour", "USD/h", meaning="rent of the plan"),
        Metric("usd_per_mtok_input", "usd_per_mtok", "USD/Mtok", meaning="cost of a million input tokens"),
        Metric("usd_per_mtok_output", "usd_per_mtok", "USD/Mtok", meaning="cost of a million output tokens"),
        Metric(
            "utilization", "ratio", "1", (*POOLS, "transfer"), better="", meaning="share of time busy; bare: any pool"
        ),
        Metric("kv_fill", "ratio", "1", ("mean", "p99"), False, "", "share of a worker's KV pool in use"),
        Metric("requests_per_s_max", "requests_per_s", "requests/s", better="high", meaning="rate the plan carries"),
        Metric("surplus_fraction", "ratio", "1", better="high", meaning="that rate over the rate asked, less 1"),
        Metric("output_tokens_per_s", "tokens_per_s", "tokens/s", better="high", meaning="output of the plan"),
        Metric("watts", "watts", "W", meaning="power of the plan"),
        Metric("joules_per_output_token", "joules_per_token", "J/token", meaning="energy per output token"),
    )
}

SEARCHED = (
    "accelerators",
    "usd_per_hour",
    "usd_per_mtok_output",
    "usd_per_mtok_input",
    "watts",
)  # limits of which bound a search
