"""One run out of the records of its requests, as benchmark tools and engines keep them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median, pstdev
from typing import Any

from planner.files.benchmark_summaries import UNITS, Benchmark, at, even, first, number
from planner.records import PROBABILITY

Record = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Request:
    """One finished request; `start_s` on any clock, not a number when not recorded."""

    start_s: float
    ttft_s: float
    e2e_s: float
    input_tokens: float
    output_tokens: float


def runs_of_requests(records: Sequence[Record]) -> list[Benchmark]:
    """The run that the records are of; empty when no tool that is known writes such."""
    for known, read in _READERS:
        if records and known(records[0]):
            finished = [request for record in records if (request := read(record)) and request.e2e_s > 0]
            return [_run(finished)] if finished else []
    return []


def _run(requests: list[Request]) -> Benchmark:
    several = [one for one in requests if one.output_tokens > 1 and one.ttft_s > 0]
    tpots = [(one.e2e_s - one.ttft_s) / (one.output_tokens - 1.0) for one in several]
    values = {
        "ttft": [one.ttft_s for one in requests if one.ttft_s > 0],
        "tpot": tpots,
        "e2e": [one.e2e_s for one in requests],
    }
    output = fmean(one.output_tokens for one in requests)
    return Benchmark(
        {metric: _statistics(sorted(numbers)) for metric, numbers in values.items() if numbers},
        fmean(one.input_tokens for one in requests),
        output,
        _requests_per_s(requests),
        _in_flight(requests),
        equal_lengths=even(pstdev(one.output_tokens for one in requests), output),
        ttft_s=median(one.ttft_s for one in several) if several else math.nan,
        tpot_s=median(tpots) if several else math.nan,
    )


def _statistics(ordered: Sequence[float]) -> dict[str, float]:
    """Mean and quantiles, of which only those that the number of values can tell."""
    found = {"mean": fmean(ordered)}
    for name, probability in PROBABILITY.items():
        if len(ordered) * (1.0 - probability) >= 1.0 or name == "p50":
            found[name] = ordered[min(math.ceil(probability * len(ordered)) - 1, len(ordered) - 1)]
    return found


def _requests_per_s(requests: list[Request]) -> float:
    starts = [one.start_s for one in requests if math.isfinite(one.start_s)]
    window = max(starts) - min(starts) if len(starts) == len(requests) else 0.0
    return (len(requests) - 1) / window if window > 0 else math.nan


def _in_flight(requests: list[Request]) -> float:
    """Time that requests spent, over the time from the first start to the last end."""
    if not all(math.isfinite(one.start_s) for one in requests):
        return math.nan
    window = max(one.start_s + one.e2e_s for one in requests) - min(one.start_s for one in requests)
    return sum(one.e2e_s for one in requests) / window if window > 0 else math.nan


# ------------------------------------------------------------------------------------------------------ one tool each


def _aiperf(record: Record) -> Request | None:
    if record.get("error") or at(record, "metadata", "credit_phase") == "warmup":
        return None
    metrics = record["metrics"]

    def metric(*names: str) -> float:
        entries = [metrics[name] for name in names if isinstance(metrics.get(name), Mapping)]
        return first(entries[0].get("value"), unit=UNITS.get(str(entries[0].get("unit")), 1.0)) if entries else math.nan

    start = first(at(record, "metadata", "request_start_ns"), at(record, "metadata", "timestamp_ns"), unit=UNITS["ns"])
    return Request(
        start,
        metric("time_to_first_token", "ttft"),
        metric("request_latency"),
        metric("input_sequence_length"),
        metric("output_sequence_length"),
    )


def _inference_perf(record: Record) -> Request | None:
    if record.get("error"):
        return None
    start, end = number(record.get("start_time")), number(record.get("end_time"))
    times = at(record, "info", "response_metrics", "output_token_times") or []
    given = first(at(record, "info", "input_tokens"), at(record, "info", "request_metrics", "text", "input_tokens"))
    output = first(at(record, "info", "response_metrics", "output_tokens"), len(times))
    first_token = number(times[0]) if times else math.nan
    return Request(start, first_token - start, end - start, given, output)


def _llmperf(record: Record) -> Request | None:
    if record.get("error_code"):
        return None
    return Request(
        math.nan,
        number(record["ttft_s"]),
        number(record["end_to_end_latency_s"]),
        number(record["number_input_tokens"]),
        number(record["number_output_tokens"]),
    )


def _recorder(record: Record) -> Request:
    """vLLM's own clock of a request: its TTFT begins where the engine queued it."""
    queued = number(record["queued_ts"])
    return Request(
        queued,
        number(record["first_token_ts"]) - queued,
        number(record["last_token_ts"]) - queued,
        number(record["input_toks"]),
        number(record["output_toks"]),
    )


def _lmbenchmark(record: Record) -> Request:
    ttft = number(record["ttft"])
    return Request(
        number(record["launch_time"]),
        ttft,
        ttft + number(record["generation_time"]),
        number(record["prompt_tokens"]),
        number(record["generation_tokens"]),
    )


def _multi_turn(record: Record) -> Request:
    """vLLM multi-turn. Prompts count whole, though a part of them may be cached."""
    return Request(
        number(record["start_time_ms"]) * 1e-3,
        number(record["ttft_ms"]) * 1e-3,
        number(record["latency_ms"]) * 1e-3,
        number(record["input_num_tokens"]),
        number(record["output_num_tokens"]),
    )


def _has(*names: str) -> Callable[[Record], bool]:
    return lambda record: all(name in record for name in names)


_READERS: tuple[tuple[Callable[[Record], bool], Callable[[Record], Request | None]], ...] = (
    (lambda record: isinstance(record.get("metrics"), Mapping) and "metadata" in record, _aiperf),
    (lambda record: at(record, "info", "response_metrics") is not None and "start_time" in record, _inference_perf),
    (_has("ttft_s", "end_to_end_latency_s", "number_input_tokens", "number_output_tokens"), _llmperf),
    (_has("queued_ts", "first_token_ts", "last_token_ts", "input_toks", "output_toks"), _recorder),
    (_has("launch_time", "ttft", "generation_time", "prompt_tokens", "generation_tokens"), _lmbenchmark),
    (_has("start_time_ms", "ttft_ms", "latency_ms", "input_num_tokens", "output_num_tokens"), _multi_turn),
)
