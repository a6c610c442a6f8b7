"""Runs out of the summaries that benchmark tools write: every statistic of every latency, and the load it is of.

Metrics are those of a result document. A quantity that a tool names alike but counts otherwise is left out: GuideLLM's
time per output token, llmperf's inter-token latency.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import pstdev
from typing import Any

from planner.records import METRICS

Document = dict[str, Any]
Table = dict[str, dict[str, float]]

UNITS = {"ms": 1e-3, "s": 1.0, "sec": 1.0, "s/token": 1.0, "ms/token": 1e-3, "us": 1e-6, "ns": 1e-9}
_MS = 1e-3
_SAME = 0.01  # standard deviation over mean of lengths that are all equal
# Names that tools give to a statistic.
_NAMES = {
    "mean": ("mean", "avg", "average"),
    "p50": ("p50", "median"),
    "p90": ("p90",),
    "p95": ("p95",),
    "p99": ("p99",),
    "p99_9": ("p99_9", "p99.9", "p999", "p99p9"),
}


@dataclass(frozen=True, slots=True)
class Benchmark:
    """One run as a file tells of it. A number that the file lacks is not a number."""

    seconds: Mapping[str, Mapping[str, float]]  # by metric and statistic
    input_tokens: float
    output_tokens: float
    requests_per_s: float
    clients: float = math.nan  # in flight
    name: str = ""
    model: str = ""
    engine: str = ""
    equal_lengths: bool = True
    ttft_s: float = math.nan  # medians, where they are known better than by `seconds`
    tpot_s: float = math.nan


# ------------------------------------------------------------------------------------------------------- parts of files


def at(value: Any, *names: str) -> Any:
    """The value below nested keys; None where one is missing."""
    for name in names:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def first(*values: Any, unit: float = 1.0) -> float:
    """The first that is a positive number, in base units; not a number when none is."""
    for value in values:
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value > 0:
            return float(value) * unit
    return math.nan


def number(value: Any) -> float:
    """A number that may be written as text; not a number where it is none."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return math.nan


def in_flight(cap: float, requests_per_s: float, ttft_s: float, tpot_s: float, output: float) -> float:
    """Mean requests in flight: the client's cap where it is one, else Little's law over what was achieved."""
    mean = requests_per_s * (ttft_s + max(output - 1.0, 0.0) * tpot_s)
    return min(cap, mean) if cap > 0 and mean > 0.5 * cap else first(mean, cap)


def even(deviation: Any, mean: float) -> bool:
    """Whether lengths are all equal, by their standard deviation; a file that does not say is taken to have them so."""
    return not (isinstance(deviation, int | float) and deviation > _SAME * mean)


def _unit(entry: Any, key: str = "unit") -> float:
    """Seconds of the unit that an entry names; 1 for tokens and counts."""
    return UNITS.get(str(at(entry, key)), 1.0)


def _statistics(entry: Any, unit: float) -> dict[str, float]:
    """Statistics of one mapping; percentiles may lie one level deeper."""
    if not isinstance(entry, Mapping):
        return {}
    deeper = entry.get("percentiles")
    values = {**(deeper if isinstance(deeper, Mapping) else {}), **entry}
    found = {name: first(*(values.get(alias) for alias in aliases), unit=unit) for name, aliases in _NAMES.items()}
    return {name: value for name, value in found.items() if value > 0}


def _table(entries: Mapping[str, tuple[Any, float]]) -> Table:
    """Metrics from their entries and units, those with a statistic."""
    return {metric: found for metric, (entry, unit) in entries.items() if (found := _statistics(entry, unit))}


def typical_s(seconds: Mapping[str, Mapping[str, float]], metric: str) -> float:
    """The median of a latency, else its mean."""
    found = seconds.get(metric, {})
    return first(found.get("p50"), found.get("mean"))


def _loaded(cap: float, requests_per_s: float, seconds: Table, output: float) -> float:
    """Requests in flight at these latencies: the cap where the client kept it, else what Little's law gives."""
    return in_flight(cap, requests_per_s, typical_s(seconds, "ttft"), typical_s(seconds, "tpot"), output)


def runs_of_summary(document: Document) -> list[Benchmark]:
    """The runs of one document; empty when no tool that is known writes such."""
    if isinstance(document.get("benchmarks"), list):
        return [_guidellm(one) for one in document["benchmarks"] if isinstance(one, dict)]
    return next(([read(document)] for known, read in _READERS if known(document)), [])


# ------------------------------------------------------------------------------------------------------ one tool each


def _bench_serve(document: Document) -> Benchmark:
    """vLLM and SGLang: a key for each statistic, with `_ms`; a published variant has seconds without it."""
    spellings = {"ttft": ("ttft",), "tpot": ("tpot",), "itl": ("itl",), "e2e": ("e2el", "e2e_latency")}
    seconds: Table = {}
    for metric, names in spellings.items():
        statistics = {
            name: first(
                first(*(document.get(f"{alias}_{spelling}_ms") for spelling in names for alias in aliases), unit=_MS),
                *(document.get(f"{alias}_{spelling}") for spelling in names for alias in aliases),
            )
            for name, aliases in _NAMES.items()
        }
        known = {name: value for name, value in statistics.items() if value > 0}
        seconds |= {metric: known} if known else {}
    completed = first(document.get("completed"))
    output = first(document.get("total_output_tokens")) / completed
    rate = first(document.get("request_throughput"), completed / first(document.get("duration")))
    cap = first(document.get("max_concurrency"))
    every_at_once = document.get("request_rate") in ("inf", math.inf)
    # Without a cap everything is sent at once: what SGLang measured in flight, else Little's law.
    clients = cap if every_at_once and cap > 0 else _loaded(cap, rate, seconds, output)
    lengths = document.get("output_lens")
    return Benchmark(
        seconds,
        first(document.get("total_input_tokens")) / completed,
        output,
        rate,
        clients if cap > 0 else first(document.get("concurrency"), clients),
        model=str(document.get("model_id") or at(document, "server_info", "model_path") or ""),
        equal_lengths=even(_deviation(lengths), output) if isinstance(lengths, list) else True,
    )


def _deviation(values: list[Any]) -> float:
    numbers = [float(value) for value in values if isinstance(value, int | float)]
    return pstdev(numbers) if numbers else 0.0


def _aiperf(document: Document) -> Benchmark:
    """AIPerf of both layouts, and genai-perf: metrics with their unit, at the top or below `records`."""
    metrics = document["records"] if isinstance(document.get("records"), dict) else document
    spellings = {
        "ttft": ("time_to_first_token", "ttft"),
        "tpot": ("inter_token_latency",),
        "itl": ("inter_chunk_latency",),
        "e2e": ("request_latency",),
    }
    entries = {
        metric: next((metrics[name] for name in names if isinstance(metrics.get(name), Mapping)), None)
        for metric, names in spellings.items()
    }
    seconds = _table({metric: (entry, _unit(entry)) for metric, entry in entries.items()})
    config = document.get("input_config") or {}
    cap = first(
        at(config, "loadgen", "concurrency"),
        at(config, "perf_analyzer", "stimulus", "concurrency"),
        config.get("concurrency"),
        _option(str(config.get("cli_command", "")), "concurrency"),
    )
    output = first(at(metrics, "output_sequence_length", "avg"))
    rate = first(at(metrics, "request_throughput", "avg"))
    models = at(config, "endpoint", "model_names") or config.get("model_names") or config.get("model")
    return Benchmark(
        seconds,
        first(at(metrics, "input_sequence_length", "avg")),
        output,
        rate,
        cap if cap > 0 else _loaded(cap, rate, seconds, output),
        model=str(models[0]) if isinstance(models, list) and models else str(models or ""),
        equal_lengths=even(at(metrics, "output_sequence_length", "std"), output),
    )


def aiperf_table(rows: Iterable[Sequence[str]]) -> Document:
    """AIPerf's summary in CSV as the document that its JSON is: a row is a metric with its unit in brackets."""
    document: Document = {"input_config": {}}
    columns: Sequence[str] = ()
    for row in rows:
        if row and row[0] == "Metric":
            columns = ["avg" if name == "Value" else name for name in row]
        elif row and (name := re.fullmatch(r"(.+?) \((.+)\)", row[0])):
            values = {column: number(cell) for column, cell in zip(columns[1:], row[1:], strict=False)}
            document[name.group(1).lower().replace(" ", "_")] = {"unit": name.group(2), **values}
    return document


def _option(command: str, name: str) -> float:
    """The number behind an option of a command line; not a number when it is not there."""
    found = re.search(rf"--{name}[ =](\d+)\b", command)
    return float(found.group(1)) if found else math.nan


def _guidellm(document: Document) -> Benchmark:
    """Both generations. Its time per output token holds the TTFT or divides by one token more: not read."""

    def metric(name: str) -> Any:
        return at(document, "metrics", name, "successful")

    names = (at(document, "worker", "backend_model"), at(document, "config", "backend", "model"))
    output = first(at(metric("output_token_count"), "mean"))
    return Benchmark(
        _table(
            {
                "ttft": (metric("time_to_first_token_ms"), _MS),
                "tpot": (metric("inter_token_latency_ms"), _MS),
                "e2e": (metric("request_latency"), 1.0),
            }
        ),
        first(at(metric("prompt_token_count"), "mean")),
        output,
        first(at(metric("requests_per_second"), "mean")),
        first(at(metric("request_concurrency"), "mean")),
        model=str(next((name for name in names if name), "")),
        equal_lengths=even(at(metric("output_token_count"), "std_dev"), output),
    )


_OF_REQUESTS = {  # of inference-perf and the llm-d report
    "ttft": "time_to_first_token",
    "tpot": "time_per_output_token",
    "itl": "inter_token_latency",
    "e2e": "request_latency",
}


def _inference_perf(document: Document) -> Benchmark:
    """A stage or a whole run, as its client or the engine's own metrics saw it. Seconds everywhere."""
    done = document["successes"]
    latency = done.get("latency") or done
    seconds = _table({metric: (at(latency, name), 1.0) for metric, name in _OF_REQUESTS.items()})
    output = first(at(done, "output_len", "mean"))
    achieved = at(document, "load_summary", "achieved_rate")
    rate = first(at(done, "throughput", "requests_per_sec"), done.get("rate"), achieved)
    cap = first(at(document, "load_summary", "concurrency"))
    spread = first(at(done, "output_len", "p90")) - first(at(done, "output_len", "p10"))
    return Benchmark(
        seconds,
        first(at(done, "prompt_len", "mean")),
        output,
        rate,
        cap if cap > 0 else _loaded(cap, rate, seconds, output),
        equal_lengths=not spread > 2.56 * _SAME * output,  # of a normal law, 2.56 deviations from p10 to p90
    )


def _trtllm_bench(document: Document) -> Benchmark:
    streaming, info = document.get("streaming_metrics"), document.get("request_info")
    entries = {
        metric: {**(at(streaming, f"{metric}_percentiles") or {}), "mean": at(streaming, f"avg_{metric}_ms")}
        for metric in ("ttft", "tpot")
    }
    entries["e2e"] = at(document, "performance", "request_latency_percentiles_ms")
    return Benchmark(
        _table({metric: (entry, _MS) for metric, entry in entries.items()}),
        first(at(info, "avg_input_length")),
        first(at(info, "avg_output_length")),
        first(at(document, "performance", "request_throughput_req_s")),
        first(at(info, "avg_num_concurrent_requests")),
        model=str(at(document, "engine", "model") or ""),
        engine="tensorrt-llm",
    )


def _genai_bench(document: Document) -> Benchmark:
    metrics = document["aggregated_metrics"]
    stats = metrics.get("stats")
    output = first(at(stats, "num_output_tokens", "mean"))
    names = {"ttft": "ttft", "tpot": "tpot", "e2e": "e2e_latency"}
    return Benchmark(
        _table({metric: (at(stats, name), 1.0) for metric, name in names.items()}),
        first(at(stats, "num_input_tokens", "mean")),
        output,
        first(metrics.get("requests_per_minute"), unit=1.0 / 60.0),
        first(metrics.get("num_concurrency")),
        model=str(at(document, "experiment_metadata", "model") or ""),
        equal_lengths=even(at(stats, "num_output_tokens", "stddev"), output),
    )


def _llmperf(document: Document) -> Benchmark:
    """Its inter-token latency holds the first token: TPOT is (end to end - TTFT) / (output - 1) of the medians."""

    def entry(name: str) -> dict[str, Any]:
        start = f"results_{name}_s_"
        return {key.removeprefix(start).removeprefix("quantiles_"): document[key] for key in document if start in key}

    def tokens(side: str) -> float:
        return first(number(document.get(f"results_number_{side}_tokens_mean")), document.get(f"mean_{side}_tokens"))

    seconds = _table({"ttft": (entry("ttft"), 1.0), "e2e": (entry("end_to_end_latency"), 1.0)})
    output, decoded_s = tokens("output"), typical_s(seconds, "e2e") - typical_s(seconds, "ttft")
    return Benchmark(
        seconds,
        tokens("input"),
        output,
        first(document.get("results_num_completed_requests_per_min"), unit=1.0 / 60.0),
        first(document.get("num_concurrent_requests")),
        model=str(document.get("model", "")),
        equal_lengths=even(number(document.get("results_number_output_tokens_stddev")), output),
        tpot_s=decoded_s / (output - 1.0) if output > 1 else math.nan,
    )


def _llmd_report(document: Document) -> Benchmark:
    """Every metric names its unit."""
    results = at(document, "results", "request_performance", "aggregate")
    latency = at(results, "latency")
    seconds = _table({m: (at(latency, name), _unit(at(latency, name), "units")) for m, name in _OF_REQUESTS.items()})
    output = first(at(results, "requests", "output_length", "mean"))
    load = at(document, "scenario", "load", "standardized")
    cap, rate = first(at(load, "concurrency")), first(at(results, "throughput", "request_rate", "mean"))
    stack = at(document, "scenario", "stack")
    names = [at(one, "standardized", "model", "name") for one in stack] if isinstance(stack, list) else []
    return Benchmark(
        seconds,
        first(at(results, "requests", "input_length", "mean")),
        output,
        rate,
        cap if cap > 0 else _loaded(cap, first(rate, at(load, "rate_qps")), seconds, output),
        model=str(next((name for name in names if name), "")),
        equal_lengths=at(load, "output_seq_len", "distribution") == "fixed",
    )


def _simulated(document: Document) -> Benchmark:
    """`planner simulate`: a benchmark without a machine."""
    seconds = {
        metric: {
            name: value
            for name, entry in document["statistics"].get(f"{metric}_s", {}).items()
            if (value := first(at(entry, "simulated"))) > 0
        }
        for metric in METRICS
    }
    return Benchmark(seconds, math.nan, math.nan, first(document["requests_per_s"]))


_READERS: tuple[tuple[Callable[[Document], bool], Callable[[Document], Benchmark]], ...] = (
    (lambda d: "statistics" in d and "requests_per_s" in d, _simulated),
    (lambda d: isinstance(d.get("successes"), dict), _inference_perf),
    (lambda d: "streaming_metrics" in d or "request_info" in d, _trtllm_bench),
    (lambda d: isinstance(d.get("aggregated_metrics"), dict), _genai_bench),
    (lambda d: "results_ttft_s_mean" in d, _llmperf),
    (lambda d: at(d, "results", "request_performance") is not None, _llmd_report),
    (lambda d: "input_config" in d or isinstance(d.get("time_to_first_token"), dict), _aiperf),
    (lambda d: "total_input_tokens" in d and "completed" in d, _bench_serve),
)
