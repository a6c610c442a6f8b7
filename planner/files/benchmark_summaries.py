"""One run out of the summary that a benchmark tool writes. Times are medians where the file has them, else means."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from planner.records import Measurement

Document = dict[str, Any]
UNITS = {"ms": 1e-3, "s": 1.0, "sec": 1.0, "s/token": 1.0, "ms/token": 1e-3, "us": 1e-6, "ns": 1e-9}
_MS = 1e-3
_SAME = 0.01  # standard deviation over mean of lengths that are all equal


def run_of(
    model: str,
    prompt: float,
    output: float,
    clients: float,
    ttft_s: float,
    tpot_s: float,
    *,
    equal_lengths: bool = True,
    engine: str = "",
) -> Measurement:
    """A run as far as a file of results tells of it; numbers it lacks are not numbers."""
    return Measurement(
        id="",
        model=model,
        engine=engine,
        engine_version="",
        weights="",
        kv_dtype="",
        deployment=None,
        input_tokens=prompt,
        output_tokens=output,
        equal_lengths=equal_lengths,
        clients=clients,
        ttft_s=ttft_s,
        tpot_s=tpot_s,
    )


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


def in_flight(cap: float, requests_per_s: float, ttft_s: float, tpot_s: float, output: float) -> float:
    """Mean requests in flight: the client's cap where it is one, else Little's law over what was achieved."""
    mean = requests_per_s * (ttft_s + max(output - 1.0, 0.0) * tpot_s)
    return min(cap, mean) if cap > 0 and mean > 0.5 * cap else first(mean, cap)


def even(deviation: Any, mean: float) -> bool:
    """Whether lengths are all equal, by their standard deviation; a file that does not say is taken to have them so."""
    return not (isinstance(deviation, int | float) and deviation > _SAME * mean)


def runs_of_summary(document: Document) -> list[Measurement]:
    """The runs of one document; empty when no tool that is known writes such."""
    if isinstance(document.get("benchmarks"), list):
        return [_guidellm(one) for one in document["benchmarks"] if isinstance(one, dict)]
    for known, read in _READERS:
        if known(document):
            return [read(document)]
    return []


# ------------------------------------------------------------------------------------------------------ one tool each


def _bench_serve(document: Document) -> Measurement:
    """vLLM and SGLang. Keys carry `_ms`; a published variant leaves it out and is in seconds."""

    def time(name: str) -> float:
        keys = [f"{statistic}_{name}" for statistic in ("median", "mean")]
        return first(
            first(*(document.get(f"{key}_ms") for key in keys), unit=_MS), *(document.get(key) for key in keys)
        )

    completed = first(document.get("completed"))
    ttft, tpot = time("ttft"), time("tpot")
    output = first(document.get("total_output_tokens")) / completed
    rate = first(document.get("request_throughput"), completed / first(document.get("duration")))
    cap = first(document.get("max_concurrency"))
    every_at_once = document.get("request_rate") in ("inf", math.inf)
    # Without a cap everything is sent at once: what SGLang measured in flight, else Little's law.
    clients = cap if every_at_once and cap > 0 else in_flight(cap, rate, ttft, tpot, output)
    clients = clients if cap > 0 else first(document.get("concurrency"), clients)
    lengths = document.get("output_lens")
    law = even(_deviation(lengths), output) if isinstance(lengths, list) else True
    prompt = first(document.get("total_input_tokens")) / completed
    model = document.get("model_id") or at(document, "server_info", "model_path") or ""
    return run_of(str(model), prompt, output, clients, ttft, tpot, equal_lengths=law)


def _deviation(values: list[Any]) -> float:
    numbers = [float(value) for value in values if isinstance(value, int | float)]
    if not numbers:
        return 0.0
    mean = sum(numbers) / len(numbers)
    return math.sqrt(sum((value - mean) ** 2 for value in numbers) / len(numbers))


def _aiperf(document: Document) -> Measurement:
    """AIPerf of both layouts, and genai-perf: metrics with their unit, at the top or below `records`."""
    metrics = document["records"] if isinstance(document.get("records"), dict) else document

    def metric(*names: str) -> float:
        found = [entry for name in names if isinstance(entry := metrics.get(name), dict)]
        return first(found[0].get("p50"), found[0].get("avg"), unit=_unit(found[0].get("unit"))) if found else math.nan

    def tokens(name: str) -> float:
        return first(at(metrics, name, "avg"))

    config = document.get("input_config") or {}
    told = (
        at(config, "loadgen", "concurrency"),
        at(config, "perf_analyzer", "stimulus", "concurrency"),
        config.get("concurrency"),
        _option(str(config.get("cli_command", "")), "concurrency"),
    )
    cap = first(*told)
    ttft, tpot = metric("time_to_first_token", "ttft"), metric("inter_token_latency")
    output = tokens("output_sequence_length")
    clients = cap if cap > 0 else in_flight(cap, first(at(metrics, "request_throughput", "avg")), ttft, tpot, output)
    models = at(config, "endpoint", "model_names") or config.get("model_names") or config.get("model")
    name = str(models[0]) if isinstance(models, list) and models else str(models or "")
    law = even(at(metrics, "output_sequence_length", "std"), output)
    return run_of(name, tokens("input_sequence_length"), output, clients, ttft, tpot, equal_lengths=law)


def aiperf_table(rows: Iterable[Sequence[str]]) -> Document:
    """AIPerf's summary in CSV as the document that its JSON is: a row is a metric with its unit in brackets."""
    document: Document = {"input_config": {}}
    columns: Sequence[str] = ()
    for row in rows:
        if row and row[0] == "Metric":
            columns = ["avg" if name == "Value" else name for name in row]
        elif row and (name := re.fullmatch(r"(.+?) \((.+)\)", row[0])):
            values = {column: _number(cell) for column, cell in zip(columns[1:], row[1:], strict=False)}
            document[name.group(1).lower().replace(" ", "_")] = {"unit": name.group(2), **values}
    return document


def _unit(name: Any) -> float:
    """Seconds of a unit of time; 1 for tokens and counts."""
    return UNITS.get(str(name), 1.0)


def _option(command: str, name: str) -> float:
    """The number behind an option of a command line; not a number when it is not there."""
    found = re.search(rf"--{name}[ =](\d+)\b", command)
    return float(found.group(1)) if found else math.nan


def _guidellm(document: Document) -> Measurement:
    """Both generations. Its time per output token holds the TTFT or divides by one token more: not read."""
    metrics = document.get("metrics")

    def metric(name: str, statistic: str, unit: float = 1.0) -> float:
        return first(at(metrics, name, "successful", statistic), unit=unit)

    names = (at(document, "worker", "backend_model"), at(document, "config", "backend", "model"))
    output = metric("output_token_count", "mean")
    return run_of(
        str(next((name for name in names if name), "")),
        metric("prompt_token_count", "mean"),
        output,
        metric("request_concurrency", "mean"),
        metric("time_to_first_token_ms", "median", _MS),
        metric("inter_token_latency_ms", "median", _MS),
        equal_lengths=even(at(metrics, "output_token_count", "successful", "std_dev"), output),
    )


def _inference_perf(document: Document) -> Measurement:
    """A stage or a whole run, as its client or the engine's own metrics saw it. Seconds everywhere."""
    done = document["successes"]
    latency = done.get("latency") or done

    def time(name: str) -> float:
        return first(at(latency, name, "median"), at(latency, name, "mean"))

    ttft, tpot = time("time_to_first_token"), time("time_per_output_token")
    output = first(at(done, "output_len", "mean"))
    rate = first(
        at(done, "throughput", "requests_per_sec"), done.get("rate"), at(document, "load_summary", "achieved_rate")
    )
    cap = first(at(document, "load_summary", "concurrency"))
    clients = cap if cap > 0 else in_flight(cap, rate, ttft, tpot, output)
    spread = first(at(done, "output_len", "p90")) - first(at(done, "output_len", "p10"))
    law = not spread > 2.56 * _SAME * output  # of a normal law, 2.56 deviations lie between p10 and p90
    return run_of("", first(at(done, "prompt_len", "mean")), output, clients, ttft, tpot, equal_lengths=law)


def _trtllm_bench(document: Document) -> Measurement:
    streaming, info = document.get("streaming_metrics"), document.get("request_info")

    def time(name: str) -> float:
        return first(at(streaming, f"{name}_percentiles", "p50"), at(streaming, f"avg_{name}_ms"), unit=_MS)

    return run_of(
        str(at(document, "engine", "model") or ""),
        first(at(info, "avg_input_length")),
        first(at(info, "avg_output_length")),
        first(at(info, "avg_num_concurrent_requests")),
        time("ttft"),
        time("tpot"),
        engine="tensorrt-llm",
    )


def _genai_bench(document: Document) -> Measurement:
    metrics = document["aggregated_metrics"]

    def metric(name: str) -> float:
        return first(at(metrics, "stats", name, "p50"), at(metrics, "stats", name, "mean"))

    output = first(at(metrics, "stats", "num_output_tokens", "mean"))
    return run_of(
        str(at(document, "experiment_metadata", "model") or ""),
        first(at(metrics, "stats", "num_input_tokens", "mean")),
        output,
        first(metrics.get("num_concurrency")),
        metric("ttft"),
        metric("tpot"),
        equal_lengths=even(at(metrics, "stats", "num_output_tokens", "stddev"), output),
    )


def _llmperf(document: Document) -> Measurement:
    """Its inter-token latency holds the first token: TPOT is (end to end - TTFT) / (output - 1) of the medians."""

    def time(name: str) -> float:
        return first(document.get(f"results_{name}_s_quantiles_p50"), document.get(f"results_{name}_s_mean"))

    def tokens(side: str) -> float:
        return first(_number(document.get(f"results_number_{side}_tokens_mean")), document.get(f"mean_{side}_tokens"))

    ttft, output = time("ttft"), tokens("output")
    tpot = (time("end_to_end_latency") - ttft) / (output - 1.0) if output > 1 else math.nan
    law = even(_number(document.get("results_number_output_tokens_stddev")), output)
    clients = first(document.get("num_concurrent_requests"))
    return run_of(str(document.get("model", "")), tokens("input"), output, clients, ttft, tpot, equal_lengths=law)


def _number(value: Any) -> float:
    """Numbers of llmperf are text at times."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return math.nan


def _llmd_report(document: Document) -> Measurement:
    """Every metric names its unit."""
    results = at(document, "results", "request_performance", "aggregate")

    def metric(part: str, name: str) -> float:
        entry = at(results, part, name)
        return first(at(entry, "p50"), at(entry, "mean"), unit=_unit(at(entry, "units")))

    ttft, tpot = metric("latency", "time_to_first_token"), metric("latency", "time_per_output_token")
    output = first(at(results, "requests", "output_length", "mean"))
    load = at(document, "scenario", "load", "standardized")
    cap = first(at(load, "concurrency"))
    rate = first(at(results, "throughput", "request_rate", "mean"), at(load, "rate_qps"))
    stack = at(document, "scenario", "stack")
    names = [at(one, "standardized", "model", "name") for one in stack] if isinstance(stack, list) else []
    return run_of(
        str(next((name for name in names if name), "")),
        first(at(results, "requests", "input_length", "mean")),
        output,
        cap if cap > 0 else in_flight(cap, rate, ttft, tpot, output),
        ttft,
        tpot,
        equal_lengths=at(load, "output_seq_len", "distribution") == "fixed",
    )


_READERS: tuple[tuple[Callable[[Document], bool], Callable[[Document], Measurement]], ...] = (
    (lambda d: isinstance(d.get("successes"), dict), _inference_perf),
    (lambda d: "streaming_metrics" in d or "request_info" in d, _trtllm_bench),
    (lambda d: isinstance(d.get("aggregated_metrics"), dict), _genai_bench),
    (lambda d: "results_ttft_s_mean" in d, _llmperf),
    (lambda d: at(d, "results", "request_performance") is not None, _llmd_report),
    (lambda d: "input_config" in d or isinstance(d.get("time_to_first_token"), dict), _aiperf),
    (lambda d: "total_input_tokens" in d and "completed" in d, _bench_serve),
)
