"""Statistics of every tool's result, by metric, in seconds, with the load."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from planner.errors import InputError
from planner.files.benchmarks import read_statistics

BENCH = Path(__file__).parents[1] / "data" / "bench"
UNREAD = ("README.md", "kv_cache_tester.csv")  # the second has a line for each half minute and no run


@pytest.mark.parametrize("path", [path for path in sorted(BENCH.iterdir()) if path.name not in UNREAD], ids=str)
def test_every_tool_is_read(path: Path) -> None:
    for run in read_statistics(path):
        assert run.seconds["ttft"]
        assert run.seconds.keys() & {"tpot", "e2e"}
        for statistics in run.seconds.values():
            ordered = [statistics[name] for name in ("p50", "p90", "p95", "p99", "p99_9") if name in statistics]
            assert ordered == sorted(ordered)
            assert all(0.0 < value < 300.0 for value in statistics.values())


@pytest.mark.parametrize(
    ("name", "metric", "statistic", "seconds"),
    [
        ("vllm_bench_serve.json", "itl", "p99", 0.6138),
        ("vllm_serving_seconds.json", "ttft", "p50", 1.0564),
        ("aiperf.json", "tpot", "mean", 0.0278),
        ("aiperf.json", "itl", "p99", 0.1405),
        ("guidellm_v0.8.json", "e2e", "mean", 0.0198),
        ("inference_perf_stage.json", "ttft", "p99_9", 0.0570),
        ("genai_bench.json", "ttft", "p99", 0.4723),
        ("llmperf_summary.json", "e2e", "p99", 3.7057),
        ("llmd_report.yaml", "ttft", "p99", 0.0503),
        ("trtllm_bench.json", "tpot", "p90", 0.0101),
        ("sglang_bench.jsonl", "e2e", "mean", 3.925),
    ],
)
def test_values(name: str, metric: str, statistic: str, seconds: float) -> None:
    assert read_statistics(BENCH / name)[0].seconds[metric][statistic] == pytest.approx(seconds, abs=6e-5)


def test_the_load_is_told() -> None:
    (run,) = read_statistics(BENCH / "inference_perf_stage.json")
    assert (run.requests_per_s, run.input_tokens) == (pytest.approx(37.676, abs=1e-3), pytest.approx(200.93, abs=0.01))


def test_few_requests_tell_no_tail(tmp_path: Path) -> None:
    lines = [
        {"ttft_s": 0.1 * n, "end_to_end_latency_s": 1.0 + n, "number_input_tokens": 10, "number_output_tokens": 5}
        for n in range(1, 21)
    ]
    (tmp_path / "r.json").write_text(json.dumps(lines), encoding="utf-8")
    (run,) = read_statistics(tmp_path / "r.json")
    assert run.seconds["ttft"] == {
        "mean": pytest.approx(1.05),
        "p50": pytest.approx(1.0),
        "p90": pytest.approx(1.8),
        "p95": pytest.approx(1.9),
    }
    assert math.isnan(run.requests_per_s)


def test_a_simulation_is_a_benchmark(tmp_path: Path) -> None:
    document = {
        "requests_per_s": 5.0,
        "statistics": {"ttft_s": {"p99": {"predicted": 1.0, "simulated": 2.0, "low": 1.9, "high": 2.1}}},
    }
    (tmp_path / "s.json").write_text(json.dumps(document), encoding="utf-8")
    (run,) = read_statistics(tmp_path / "s.json")
    assert run.seconds["ttft"] == {"p99": 2.0} and run.requests_per_s == 5.0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is no result"),
        ("{", "is not JSON"),
        ("{}", "is no result"),
        ("[]", "is no result"),
        ('{"completed": 1, "total_input_tokens": 2}', "no latency"),
    ],
)
def test_wrong_files(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "r.json").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=words):
        read_statistics(tmp_path / "r.json")
