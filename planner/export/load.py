"""The load test of an export: a benchmark command whose load is that of the plan."""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import exp, log, sqrt
from random import Random
from statistics import NormalDist
from typing import Any

from planner.export.launch import Launch

LOAD_FILE = "load.jsonl"
_SEED = 1
_LEAST_REQUESTS, _MOST_REQUESTS, _WANTED_S = 500, 2000, 120.0
_SAME = 1.001  # statistics closer than this are one length
_P99 = NormalDist().inv_cdf(0.99)


def fixed_lengths(result: Mapping[str, Any]) -> bool:
    """Whether all prompts, and all outputs, have one length."""
    workload = result["inputs"]["workload"]
    return all(
        max(workload[side].values()) <= _SAME * min(workload[side].values())
        for side in ("input_tokens", "output_tokens")
    )


def requests(result: Mapping[str, Any]) -> int:
    """Requests of the test: two minutes of traffic, and enough for a 99th percentile."""
    wanted: int = round(result["inputs"]["workload"]["requests_per_s"] * _WANTED_S)
    return min(max(wanted, _LEAST_REQUESTS), _MOST_REQUESTS)


def load_file(result: Mapping[str, Any]) -> str:
    """Requests as a trace, one a line: Poisson arrivals at the plan's rate, lengths of its mean and 99th percentile.

    Lengths are lognormal and drawn apart. The same result gives the same bytes.
    """
    workload = result["inputs"]["workload"]
    random = Random(_SEED)
    lines, now_s = [], 0.0
    for _ in range(requests(result)):
        now_s -= log(1.0 - random.random()) / workload["requests_per_s"]
        prompt = _length(workload["input_tokens"], random.random(), workload["longest_input_tokens"])
        room = workload["longest_request_tokens"] - prompt
        output = _length(workload["output_tokens"], random.random(), max(room, 1))
        line = {"timestamp": round(1000.0 * now_s), "input_length": prompt, "output_length": output}
        lines.append(json.dumps(line, separators=(", ", ": ")))
    return "\n".join(lines) + "\n"


def _length(statistics: Mapping[str, float], share: float, most: int) -> int:
    """The length below which `share` of a lognormal with this mean and 99th percentile lies."""
    mean, p99 = statistics["mean"], statistics["p99"]
    spread = log(p99 / mean) if p99 > mean else 0.0
    sigma = _P99 - sqrt(max(_P99**2 - 2.0 * spread, 0.0))
    tokens = exp(log(mean) - sigma**2 / 2.0 + sigma * NormalDist().inv_cdf(min(max(share, 1e-9), 1.0 - 1e-9)))
    return min(max(round(tokens), 1), most)


def command(launch: Launch, url: str) -> tuple[list[str], str]:
    """The benchmark as arguments, and the file that it writes its result to."""
    result = launch.result
    if not fixed_lengths(result):
        return _trace_command(launch, url), "bench/profile_export_aiperf.json"
    if launch.engine == "sglang":
        return _sglang_command(launch, url), "bench.jsonl"
    if launch.engine == "vllm":
        return _vllm_command(launch, url), "bench.json"
    return _aiperf_command(launch, url), "bench/profile_export_aiperf.json"


def _lengths(launch: Launch) -> tuple[str, str]:
    workload = launch.result["inputs"]["workload"]
    return str(round(workload["input_tokens"]["mean"])), str(round(workload["output_tokens"]["mean"]))


def _rate(launch: Launch) -> str:
    return f"{launch.result['inputs']['workload']['requests_per_s']:g}"


def _vllm_command(launch: Launch, url: str) -> list[str]:
    prompt, output = _lengths(launch)
    return [
        "vllm", "bench", "serve", "--base-url", url, "--model", launch.model, "--dataset-name", "random",
        "--random-input-len", prompt, "--random-output-len", output, "--ignore-eos",
        "--request-rate", _rate(launch), "--num-prompts", str(requests(launch.result)),
        "--percentile-metrics", "ttft,tpot,itl,e2el", "--metric-percentiles", "50,90,95,99",
        "--save-result", "--result-filename", "bench.json",
    ]  # fmt: skip


def _sglang_command(launch: Launch, url: str) -> list[str]:
    prompt, output = _lengths(launch)
    return [
        "python3", "-m", "sglang.bench_serving", "--backend", "sglang-oai", "--base-url", url, "--model", launch.model,
        "--dataset-name", "random", "--random-input-len", prompt, "--random-output-len", output,
        "--random-range-ratio", "1", "--request-rate", _rate(launch), "--num-prompts", str(requests(launch.result)),
        "--output-file", "bench.jsonl",
    ]  # fmt: skip


def _aiperf_command(launch: Launch, url: str) -> list[str]:
    prompt, output = _lengths(launch)
    return [
        *_aiperf(launch, url), "--synthetic-input-tokens-mean", prompt, "--synthetic-input-tokens-stddev", "0",
        "--output-tokens-mean", output, "--output-tokens-stddev", "0", "--request-rate", _rate(launch),
        "--request-count", str(requests(launch.result)), "--extra-inputs", "ignore_eos:true",
    ]  # fmt: skip


def _trace_command(launch: Launch, url: str) -> list[str]:
    return [
        *_aiperf(launch, url), "--input-file", LOAD_FILE, "--custom-dataset-type", "mooncake_trace",
        "--fixed-schedule", "--extra-inputs", "ignore_eos:true",
    ]  # fmt: skip


def _aiperf(launch: Launch, url: str) -> list[str]:
    return [
        "aiperf", "profile", "--model", launch.model, "--url", url, "--endpoint-type", "chat", "--streaming",
        "--output-artifact-dir", "bench",
    ]  # fmt: skip
