"""Every statistic of a benchmark's result, by metric: what a plan is held against.

Metrics are those of a result document. A quantity that a tool names alike but counts otherwise is left out: GuideLLM's
time per output token, llmperf's inter-token latency.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from planner.errors import Fault, InputError
from planner.files.benchmark_requests import Request, finished_requests
from planner.files.benchmark_summaries import UNITS, aiperf_table, at, first, runs_of_summary
from planner.files.measurements import MOST_BYTES, UNKNOWN, documents
from planner.files.reading import decode, read_bytes
from planner.records import METRICS, PROBABILITY

Document = dict[str, Any]
Table = dict[str, dict[str, float]]

# Names that tools give to a statistic.
_NAMES = {
    "mean": ("mean", "avg", "average"),
    "p50": ("p50", "median"),
    "p90": ("p90",),
    "p95": ("p95",),
    "p99": ("p99",),
    "p99_9": ("p99_9", "p99.9", "p999", "p99p9"),
}
_MS = 1e-3


@dataclass(frozen=True, slots=True)
class Benchmark:
    """One run: seconds by metric and statistic, and the load it ran under; a number that the file lacks is NaN."""

    name: str
    seconds: Mapping[str, Mapping[str, float]]
    requests_per_s: float
    input_tokens: float
    output_tokens: float


def read_statistics(path: Path) -> tuple[Benchmark, ...]:
    """The runs of a benchmark's result file, or of `planner simulate --format json`.

    Raises
    ------
    InputError
        The file is none of those that are known, or holds no latency.
    """
    text = decode(read_bytes(path, MOST_BYTES), str(path))
    if path.suffix == ".csv":
        rows = list(csv.reader(io.StringIO(text)))
        found = [aiperf_table(rows)] if text.startswith("Metric,") else list(csv.DictReader(io.StringIO(text)))
    else:
        found = documents(text, path)
    requests = finished_requests(found)
    runs = [_of_requests(requests)] if requests else [run for one in found for run in _of_summary(one)]
    usable = [run for run in runs if any(run.seconds.values())]
    if not usable:
        raise InputError([Fault("holds no latency" if runs else UNKNOWN, str(path))])
    return tuple(
        Benchmark(
            path.name if len(usable) == 1 else f"{path.name} run {number}",
            run.seconds,
            run.requests_per_s,
            run.input_tokens,
            run.output_tokens,
        )
        for number, run in enumerate(usable, 1)
    )


# ------------------------------------------------------------------------------------------------------------- requests


def _of_requests(requests: Sequence[Request]) -> Benchmark:
    several = [one for one in requests if one.output_tokens > 1 and one.ttft_s > 0]
    values = {
        "ttft": [one.ttft_s for one in requests if one.ttft_s > 0],
        "tpot": [(one.e2e_s - one.ttft_s) / (one.output_tokens - 1.0) for one in several],
        "e2e": [one.e2e_s for one in requests],
    }
    starts = [one.start_s for one in requests if math.isfinite(one.start_s)]
    window = max(starts) - min(starts) if len(starts) == len(requests) else 0.0
    return Benchmark(
        "",
        {metric: _statistics(sorted(numbers)) for metric, numbers in values.items() if numbers},
        (len(requests) - 1) / window if window > 0 else math.nan,
        fmean(one.input_tokens for one in requests),
        fmean(one.output_tokens for one in requests),
    )


def _statistics(ordered: Sequence[float]) -> dict[str, float]:
    """Mean and quantiles, of which only those that the number of values can tell."""
    found = {"mean": fmean(ordered)}
    for name, probability in PROBABILITY.items():
        if len(ordered) * (1.0 - probability) >= 1.0 or name == "p50":
            found[name] = ordered[min(math.ceil(probability * len(ordered)) - 1, len(ordered) - 1)]
    return found


# ------------------------------------------------------------------------------------------------------------ summaries


def _of_summary(document: Document) -> Iterator[Benchmark]:
    if isinstance(document.get("benchmarks"), list):
        for one in document["benchmarks"]:
            if isinstance(one, dict):
                yield _run(one, _guidellm(one), first(at(one, "metrics", "requests_per_second", "successful", "mean")))
        return
    if "statistics" in document and "requests_per_s" in document:
        yield _simulated(document)
        return
    for known, read, rate in _TOOLS:
        if known(document):
            yield _run(document, read(document), rate(document))
            return


def _run(document: Document, seconds: Table, requests_per_s: float) -> Benchmark:
    """The load of a run as its tool's summary tells it."""
    whole = {"benchmarks": [document]} if "metrics" in document and "benchmarks" not in document else document
    told = runs_of_summary(whole)
    prompt, output = (told[0].input_tokens, told[0].output_tokens) if told else (math.nan, math.nan)
    return Benchmark("", seconds, requests_per_s, prompt, output)


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
    return Benchmark("", seconds, first(document["requests_per_s"]), math.nan, math.nan)


def _entry(entry: Any, unit: float) -> dict[str, float]:
    """Statistics of one mapping; percentiles may lie one level deeper."""
    if not isinstance(entry, Mapping):
        return {}
    deeper = entry.get("percentiles")
    values = {**(deeper if isinstance(deeper, Mapping) else {}), **entry}
    found = {name: first(*(values.get(alias) for alias in aliases), unit=unit) for name, aliases in _NAMES.items()}
    return {name: value for name, value in found.items() if value > 0}


def _table(entries: Mapping[str, tuple[Any, float]]) -> Table:
    return {metric: found for metric, (entry, unit) in entries.items() if (found := _entry(entry, unit))}


def _bench_serve(document: Document) -> Table:
    """vLLM and SGLang: a key for each statistic, with `_ms`; a published variant has seconds without it."""
    names = {"ttft": ("ttft",), "tpot": ("tpot",), "itl": ("itl",), "e2e": ("e2el", "e2e_latency")}
    found: Table = {}
    for metric, spellings in names.items():
        for spelling in spellings:
            statistics = {
                name: first(
                    first(*(document.get(f"{alias}_{spelling}_ms") for alias in aliases), unit=_MS),
                    *(document.get(f"{alias}_{spelling}") for alias in aliases),
                )
                for name, aliases in _NAMES.items()
            }
            known = {name: value for name, value in statistics.items() if value > 0}
            found |= {metric: known} if known else {}
    return found


def _aiperf(document: Document) -> Table:
    metrics = document["records"] if isinstance(document.get("records"), dict) else document
    names = {
        "ttft": ("time_to_first_token", "ttft"),
        "tpot": ("inter_token_latency",),
        "itl": ("inter_chunk_latency",),
        "e2e": ("request_latency",),
    }
    found: dict[str, tuple[Any, float]] = {}
    for metric, spellings in names.items():
        entry = next((metrics[name] for name in spellings if isinstance(metrics.get(name), Mapping)), None)
        if entry is not None:
            found[metric] = (entry, UNITS.get(str(entry.get("unit")), 1.0))
    return _table(found)


def _guidellm(document: Document) -> Table:
    metrics = document.get("metrics")
    return _table(
        {
            "ttft": (at(metrics, "time_to_first_token_ms", "successful"), _MS),
            "tpot": (at(metrics, "inter_token_latency_ms", "successful"), _MS),
            "e2e": (at(metrics, "request_latency", "successful"), 1.0),
        }
    )


def _inference_perf(document: Document) -> Table:
    done = document["successes"]
    latency = done.get("latency") or done
    return _table(
        {
            "ttft": (at(latency, "time_to_first_token"), 1.0),
            "tpot": (at(latency, "time_per_output_token"), 1.0),
            "itl": (at(latency, "inter_token_latency"), 1.0),
            "e2e": (at(latency, "request_latency"), 1.0),
        }
    )


def _trtllm_bench(document: Document) -> Table:
    streaming = document.get("streaming_metrics") or {}
    performance = document.get("performance") or {}
    found: Table = {}
    for metric in ("ttft", "tpot"):
        entry = {**(at(streaming, f"{metric}_percentiles") or {}), "mean": at(streaming, f"avg_{metric}_ms")}
        found[metric] = _entry(entry, _MS)
    found["e2e"] = _entry(at(performance, "request_latency_percentiles_ms"), _MS)
    return {metric: values for metric, values in found.items() if values}


def _genai_bench(document: Document) -> Table:
    stats = at(document, "aggregated_metrics", "stats")
    return _table(
        {"ttft": (at(stats, "ttft"), 1.0), "tpot": (at(stats, "tpot"), 1.0), "e2e": (at(stats, "e2e_latency"), 1.0)}
    )


def _llmperf(document: Document) -> Table:
    def entry(name: str) -> dict[str, Any]:
        start = f"results_{name}_s_"
        return {key.removeprefix(start).removeprefix("quantiles_"): document[key] for key in document if start in key}

    return _table({"ttft": (entry("ttft"), 1.0), "e2e": (entry("end_to_end_latency"), 1.0)})


def _llmd_report(document: Document) -> Table:
    latency = at(document, "results", "request_performance", "aggregate", "latency")
    names = {
        "ttft": "time_to_first_token",
        "tpot": "time_per_output_token",
        "itl": "inter_token_latency",
        "e2e": "request_latency",
    }
    return _table(
        {metric: (at(latency, name), UNITS.get(str(at(latency, name, "units")), 1.0)) for metric, name in names.items()}
    )


Reader = Callable[[Document], Table]
_TOOLS: tuple[tuple[Callable[[Document], bool], Reader, Callable[[Document], float]], ...] = (
    (
        lambda d: isinstance(d.get("successes"), dict),
        _inference_perf,
        lambda d: first(at(d, "successes", "throughput", "requests_per_sec"), at(d, "load_summary", "achieved_rate")),
    ),
    (
        lambda d: "streaming_metrics" in d or "request_info" in d,
        _trtllm_bench,
        lambda d: first(at(d, "performance", "request_throughput_req_s")),
    ),
    (
        lambda d: isinstance(d.get("aggregated_metrics"), dict),
        _genai_bench,
        lambda d: first(at(d, "aggregated_metrics", "requests_per_minute"), unit=1.0 / 60.0),
    ),
    (
        lambda d: "results_ttft_s_mean" in d,
        _llmperf,
        lambda d: first(d.get("results_num_completed_requests_per_min"), unit=1.0 / 60.0),
    ),
    (
        lambda d: at(d, "results", "request_performance") is not None,
        _llmd_report,
        lambda d: first(
            at(d, "results", "request_performance", "aggregate", "throughput", "request_rate", "mean"),
        ),
    ),
    (
        lambda d: "input_config" in d or isinstance(d.get("time_to_first_token"), dict),
        _aiperf,
        lambda d: first(at(d, "records", "request_throughput", "avg"), at(d, "request_throughput", "avg")),
    ),
    (
        lambda d: "total_input_tokens" in d and "completed" in d,
        _bench_serve,
        lambda d: first(d.get("request_throughput"), first(d.get("completed")) / first(d.get("duration"))),
    ),
)
