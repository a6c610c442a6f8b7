"""One run out of the records of its requests, as benchmark tools and engines keep them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median, pstdev
from typing import Any

from planner.files.benchmark_summaries import UNITS, at, even, first, run_of
from planner.records import Measurement

Record = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Request:
    """One finished request; `start_s` on any clock, not a number when not recorded."""

    start_s: float
    ttft_s: float
    e2e_s: float
    input_tokens: float
    output_tokens: float


def runs_of_requests(records: Sequence[Record]) -> list[Measurement]:
    """The run that the records are of; empty when no tool that is known writes such."""
    finished = finished_requests(records)
    return [_run(finished)] if finished else []


def finished_requests(records: Sequence[Record]) -> list[Request]:
    """The requests that came to an end; empty when no tool that is known writes such records."""
    for known, read in _READERS:
        if records and known(records[0]):
            return [request for record in records if (request := read(record)) and request.e2e_s > 0]
    return []


def _run(requests: list[Request]) -> Measurement:
    several = [one for one in requests if one.output_tokens > 1 and one.ttft_s > 0]
    output = fmean(one.output_tokens for one in requests)
    return run_of(
        "",
        fmean(one.input_tokens for one in requests),
        output,
        _in_flight(requests),
        median(one.ttft_s for one in several) if several else math.nan,
        median((one.e2e_s - one.ttft_s) / (one.output_tokens - 1.0) for one in several) if several else math.nan,
        equal_lengths=even(pstdev(one.output_tokens for one in requests), output),
    )


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
    start, end = _number(record.get("start_time")), _number(record.get("end_time"))
    times = at(record, "info", "response_metrics", "output_token_times") or []
    given = first(at(record, "info", "input_tokens"), at(record, "info", "request_metrics", "text", "input_tokens"))
    output = first(at(record, "info", "response_metrics", "output_tokens"), len(times))
    first_token = _number(times[0]) if times else math.nan
    return Request(start, first_token - start, end - start, given, output)


def _llmperf(record: Record) -> Request | None:
    if record.get("error_code"):
        return None
    return Request(
        math.nan,
        _number(record["ttft_s"]),
        _number(record["end_to_end_latency_s"]),
        _number(record["number_input_tokens"]),
        _number(record["number_output_tokens"]),
    )


def _recorder(record: Record) -> Request:
    """vLLM's own clock of a request: its TTFT begins where the engine queued it."""
    queued = _number(record["queued_ts"])
    return Request(
        queued,
        _number(record["first_token_ts"]) - queued,
        _number(record["last_token_ts"]) - queued,
        _number(record["input_toks"]),
        _number(record["output_toks"]),
    )


def _lmbenchmark(record: Record) -> Request:
    ttft = _number(record["ttft"])
    return Request(
        _number(record["launch_time"]),
        ttft,
        ttft + _number(record["generation_time"]),
        _number(record["prompt_tokens"]),
        _number(record["generation_tokens"]),
    )


def _multi_turn(record: Record) -> Request:
    """vLLM multi-turn. Prompts count whole, though a part of them may be cached."""
    return Request(
        _number(record["start_time_ms"]) * 1e-3,
        _number(record["ttft_ms"]) * 1e-3,
        _number(record["latency_ms"]) * 1e-3,
        _number(record["input_num_tokens"]),
        _number(record["output_num_tokens"]),
    )


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return math.nan


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
