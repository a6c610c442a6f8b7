"""Measured serving runs: our table of runs, and the result files of benchmark tools, as `Measurement` records."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from planner.errors import Fault, InputError
from planner.files.reading import decode, read_bytes
from planner.records import Deployment, Measurement, Pool

MOST_BYTES = 200_000_000
_NEEDED = (
    "id", "model", "accelerator", "engine", "weights", "input_tokens_max", "output_tokens_max", "concurrency",
)  # fmt: skip
_UNIFORM_MEAN = 0.9  # lengths drawn evenly from [0.8 L, L]


def read_table(path: Path) -> tuple[Measurement, ...]:
    """The runs of a table in CSV, one a row (columns: docs/accuracy.md).

    Raises
    ------
    InputError
        Missing columns, and every cell that is not the number it must be, with its line.
    """
    text = decode(read_bytes(path, MOST_BYTES), str(path))
    lines = csv.DictReader(io.StringIO(text))
    missing = [name for name in _NEEDED if name not in (lines.fieldnames or ())]
    if missing:
        raise InputError([Fault(f"has no column {', '.join(missing)}", str(path), 1)])
    faults: list[Fault] = []
    found = []
    for row in lines:
        try:
            found.append(_measurement(row))
        except ValueError as error:
            faults.append(Fault(str(error), str(path), lines.line_num))
    if faults:
        raise InputError(faults)
    if not found:
        raise InputError([Fault("holds no run", str(path))])
    return tuple(found)


def _measurement(row: Mapping[str, str]) -> Measurement:
    uniform = (row.get("length_law") or "").startswith("uniform")
    mean = _UNIFORM_MEAN if uniform else 1.0
    mode = row.get("mode") or "aggregated"
    if mode not in ("aggregated", "disaggregated"):
        raise ValueError(f'mode "{mode}" is neither aggregated nor disaggregated')
    return Measurement(
        id=row["id"],
        model=row["model"],
        engine=row["engine"],
        engine_version=row.get("engine_version") or "",
        weights=row["weights"],
        kv_dtype=row.get("kv_dtype") or "",
        deployment=_disaggregated(row) if mode == "disaggregated" else _colocated(row),
        input_tokens=mean * _number(row, "input_tokens_max"),
        output_tokens=mean * _number(row, "output_tokens_max"),
        equal_lengths=not uniform,
        clients=_number(row, "concurrency"),
        ttft_s=_measured(row, "ttft_ms"),
        tpot_s=_measured(row, "tpot_ms"),
        origin=row.get("origin") or "",
        flags=tuple((row.get("flags") or "").split()),
    )


def _colocated(row: Mapping[str, str]) -> Deployment:
    tp, dp, ep = _count(row, "tp"), _count(row, "attention_dp"), _count(row, "moe_ep")
    return Deployment("colocated-chunked", Pool(row["accelerator"], 1, tp=tp, dp=dp, ep=ep))


def _disaggregated(row: Mapping[str, str]) -> Deployment:
    pools = []
    for side in ("prefill", "decode"):
        tp, dp, ep, workers = (_count(row, f"{side}_{name}") for name in ("tp", "attention_dp", "moe_ep", "workers"))
        pools.append(Pool(row["accelerator"], workers, tp=tp, dp=dp, ep=ep))
    return Deployment("disaggregated", decode=pools[1], prefill=pools[0])


def _number(row: Mapping[str, str], name: str) -> float:
    text = (row.get(name) or "").strip()
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f'{name} "{text}" is not a number') from None
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"{name} {text} is not a positive number")
    return value


def _count(row: Mapping[str, str], name: str) -> int:
    """A whole number of ranks; 1 where the cell is empty."""
    if not (row.get(name) or "").strip():
        return 1
    value = _number(row, name)
    if value != int(value):
        raise ValueError(f"{name} {row[name]} is not a whole number")
    return int(value)


def _measured(row: Mapping[str, str], name: str) -> float:
    """Milliseconds as seconds; not a number where nothing was measured."""
    return _number(row, name) * 1e-3 if (row.get(name) or "").strip() else math.nan


# -------------------------------------------------------------------------------------- result files of benchmark tools

_MS, _S = 1e-3, 1.0


def read_benchmark(path: Path) -> tuple[Measurement, ...]:
    """The runs of a benchmark tool's result file, or of our table when it is CSV.

    Known: vLLM bench serve, SGLang bench_serving (one object a line), AIPerf, GuideLLM, inference-perf, trtllm-bench.
    Times are medians where the file has them, else means. What a file does not hold (engine, accelerator, split) is
    empty, and `deployment` is None.

    Raises
    ------
    InputError
        The file is none of these, or holds no run with a TPOT and requests in flight.
    """
    if path.suffix == ".csv":
        return read_table(path)
    documents = _json_documents(decode(read_bytes(path, MOST_BYTES), str(path)), str(path))
    found = [run for document in documents for run in _runs_of(document)]
    usable = [run for run in found if run.tpot_s > 0 and run.clients > 0 and run.output_tokens > 1]
    if not usable:
        known = "vLLM, SGLang, AIPerf, GuideLLM, inference-perf and trtllm-bench"
        message = "holds a run without TPOT, lengths or requests in flight" if found else f"is no result of {known}"
        raise InputError([Fault(message, str(path))])
    named = [replace(run, id=f"{path.stem}-{number + 1}", source=str(path)) for number, run in enumerate(usable)]
    return tuple(named)


def _json_documents(text: str, path: str) -> list[dict[str, Any]]:
    """One JSON object, or one a line."""
    try:
        values = [json.loads(text)]
    except json.JSONDecodeError as whole:
        try:
            values = [json.loads(line) for line in text.splitlines() if line.strip()]
        except json.JSONDecodeError:
            message = f"is not JSON: {whole.msg}"
            raise InputError([Fault(message, path, whole.lineno, whole.colno)]) from None
    return [value for value in values if isinstance(value, dict)]


def _runs_of(document: dict[str, Any]) -> list[Measurement]:
    if "benchmarks" in document:
        return [_guidellm(one) for one in document["benchmarks"] if isinstance(one, dict)]
    if "load_summary" in document:
        return [_inference_perf(document)]
    if "streaming_metrics" in document or "request_info" in document:
        return [_trtllm_bench(document)]
    if "input_config" in document:
        return [_aiperf(document)]
    if "total_input_tokens" in document and "completed" in document:
        return [_bench_serve(document)]
    return []


def _run(model: str, prompt: float, output: float, clients: float, ttft_s: float, tpot_s: float) -> Measurement:
    return Measurement(
        id="",
        model=model,
        engine="",
        engine_version="",
        weights="",
        kv_dtype="",
        deployment=None,
        input_tokens=prompt,
        output_tokens=output,
        equal_lengths=True,
        clients=clients,
        ttft_s=ttft_s,
        tpot_s=tpot_s,
    )


def _at(value: Any, *names: str) -> Any:
    """The value below nested keys; None where one is missing."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _first(*values: Any, unit: float = 1.0) -> float:
    """The first that is a positive number, in base units; not a number when none is."""
    for value in values:
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value > 0:
            return float(value) * unit
    return math.nan


def _in_flight(given: float, requests_per_s: float, ttft_s: float, tpot_s: float, output: float) -> float:
    """Requests in flight: the client's cap where it is one, else Little's law over what was achieved."""
    mean = requests_per_s * (ttft_s + max(output - 1.0, 0.0) * tpot_s)
    return min(given, mean) if given > 0 and mean > 0.5 * given else _first(mean, given)


def _bench_serve(document: dict[str, Any]) -> Measurement:
    """vLLM and SGLang. Keys carry `_ms`; a published variant leaves it out and is in seconds."""

    def time(name: str) -> float:
        keys = [f"{statistic}_{name}" for statistic in ("median", "mean")]
        return _first(
            _first(*(document.get(f"{key}_ms") for key in keys), unit=_MS), *(document.get(key) for key in keys)
        )

    completed = _first(document.get("completed"))
    ttft, tpot = time("ttft"), time("tpot")
    output = _first(document.get("total_output_tokens")) / completed
    rate = _first(document.get("request_throughput"), completed / _first(document.get("duration")))
    cap = _first(document.get("max_concurrency"))
    clients = cap if document.get("request_rate") in ("inf", math.inf) else math.nan
    clients = clients if clients > 0 else _in_flight(cap, rate, ttft, tpot, output)
    prompt = _first(document.get("total_input_tokens")) / completed
    return _run(str(document.get("model_id", "")), prompt, output, clients, ttft, tpot)


def _aiperf(document: dict[str, Any]) -> Measurement:
    metrics = document.get("records") if isinstance(document.get("records"), dict) else document
    units = {"ms": _MS, "s": _S, "sec": _S, "us": 1e-6, "ns": 1e-9}

    def metric(*names: str) -> float:
        for name in names:
            entry = _at(metrics, name)
            if isinstance(entry, dict):
                return _first(entry.get("p50"), entry.get("avg"), unit=units.get(str(entry.get("unit")), 1.0))
        return math.nan

    config = document["input_config"]
    models = _at(config, "endpoint", "model_names")
    cap = _first(_at(config, "loadgen", "concurrency"))
    ttft, tpot = metric("time_to_first_token", "ttft"), metric("inter_token_latency")
    output = metric("output_sequence_length")
    rate = _first(_at(metrics, "request_throughput", "avg"))
    clients = cap if cap > 0 else _in_flight(cap, rate, ttft, tpot, output)
    name = str(models[0]) if isinstance(models, list) and models else ""
    return _run(name, metric("input_sequence_length"), output, clients, ttft, tpot)


def _guidellm(document: dict[str, Any]) -> Measurement:
    metrics = document.get("metrics")

    def metric(name: str, statistic: str, unit: float = 1.0) -> float:
        return _first(_at(metrics, name, "successful", statistic), unit=unit)

    return _run(
        str(_at(document, "worker", "backend_model") or ""),
        metric("prompt_token_count", "mean"),
        metric("output_token_count", "mean"),
        metric("request_concurrency", "mean"),
        metric("time_to_first_token_ms", "median", _MS),
        metric("inter_token_latency_ms", "median", _MS),
    )


def _inference_perf(document: dict[str, Any]) -> Measurement:
    latency = _at(document, "successes", "latency")

    def time(name: str) -> float:
        return _first(_at(latency, name, "median"), _at(latency, name, "mean"))

    ttft, tpot = time("time_to_first_token"), time("time_per_output_token")
    output = _first(_at(document, "successes", "output_len", "mean"))
    rate = _first(
        _at(document, "successes", "throughput", "requests_per_sec"), _at(document, "load_summary", "achieved_rate")
    )
    cap = _first(_at(document, "load_summary", "concurrency"))
    clients = cap if cap > 0 else _in_flight(cap, rate, ttft, tpot, output)
    return _run("", _first(_at(document, "successes", "prompt_len", "mean")), output, clients, ttft, tpot)


def _trtllm_bench(document: dict[str, Any]) -> Measurement:
    streaming, info = document.get("streaming_metrics"), document.get("request_info")

    def time(name: str) -> float:
        return _first(_at(streaming, f"{name}_percentiles", "p50"), _at(streaming, f"avg_{name}_ms"), unit=_MS)

    return _run(
        str(_at(document, "engine", "model") or ""),
        _first(_at(info, "avg_input_length")),
        _first(_at(info, "avg_output_length")),
        _first(_at(info, "avg_num_concurrent_requests")),
        time("ttft"),
        time("tpot"),
    )


# ------------------------------------------------------------------------------------------------------ catalog overlay


def engine_overlay(
    profile: Path, deviation: Mapping[str, Mapping[str, float]], cell: tuple[str, str], comments: Sequence[str]
) -> str:
    """The engine file `profile` with log deviations of one more measured group and cell, as YAML text."""
    import yaml

    document = yaml.safe_load(profile.read_text(encoding="utf-8"))
    known = document.get("deviations") or {}
    added = {key: {name: round(value, 4) for name, value in found.items()} for key, found in deviation.items()}
    document["kind"] = "engine"
    document["deviations"] = {**known, **added}
    cells = document.get("measured_cells") or {}
    model, accelerator = cell
    cells[model] = sorted({*cells.get(model, []), accelerator})
    document["measured_cells"] = cells
    text = yaml.safe_dump(document, sort_keys=False, width=100_000, allow_unicode=True)
    return "".join(f"# {line}\n" for line in comments) + text
