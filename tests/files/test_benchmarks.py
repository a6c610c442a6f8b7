"""Result files of benchmark tools, read into runs."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from planner.errors import InputError
from planner.files.benchmark_summaries import in_flight
from planner.files.benchmarks import read_benchmark
from planner.records import Measurement

BENCH = Path(__file__).parents[1] / "data" / "bench"


def numbers(run: Measurement) -> tuple[float, ...]:
    values = (run.input_tokens, run.output_tokens, run.clients, 1e3 * run.ttft_s, 1e3 * run.tpot_s)
    return tuple(round(value, 2) for value in values)


# (mean prompt, mean output, in flight, TTFT ms, TPOT ms)
@pytest.mark.parametrize(
    ("name", "wanted", "equal"),
    [
        # open loop: 1.7289 /s (0.77887 s + 199 x 0.0409360 s) = 15.431 in flight
        ("vllm_bench_serve.json", (8000.0, 200.0, 15.43, 778.87, 40.94), True),
        ("vllm_serving_seconds.json", (4096.0, 128.0, 16.0, 1056.38, 69.29), True),
        ("sglang_bench.jsonl", (1024.0, 256.0, 16.0, 180.0, 14.5), True),
        ("aiperf.json", (550.0, 242.97, 100.0, 2369.32, 27.62), False),
        # the table does not say the concurrency: 9.55 /s (2.36932 s + 241.97 x 0.0276151 s) = 86.45
        ("aiperf.csv", (550.0, 242.97, 86.45, 2369.32, 27.62), False),
        ("genai_perf.json", (512.0, 128.0, 8.0, 98.0, 9.0), False),
        ("guidellm_v0.2.json", (257.11, 128.0, 1.0, 16.38, 4.92), True),
        ("trtllm_bench.json", (1024.0, 128.0, 31.6, 140.0, 9.2), True),
        # 37.676 /s (0.030647 s + 61.80 x 0.0040916 s) = 10.68
        ("inference_perf_stage.json", (200.93, 62.8, 10.68, 30.65, 4.09), False),
        ("inference_perf_prometheus.json", (1123.0, 367.0, 227.88, 16.59, 10.0), True),
        ("genai_bench.json", (90.72, 100.0, 1.0, 32.41, 17.89), True),
        # (2.259534 - 0.212830) / (146.95 - 1) s: its own inter-token latency holds the first token
        ("llmperf_summary.json", (550.0, 146.95, 5.0, 212.83, 14.02), False),
    ],
)
def test_summaries(name: str, wanted: tuple[float, ...], equal: bool) -> None:
    run = read_benchmark(BENCH / name)[0]
    assert numbers(run) == wanted
    assert run.equal_lengths is equal
    assert run.id == f"{Path(name).stem}-1"


@pytest.mark.parametrize("name", ["aiperf_requests.jsonl", "inference_perf_requests.json", "vllm_recorder.jsonl",
                                  "lmbenchmark.csv", "vllm_multi_turn.csv"])  # fmt: skip
def test_records_of_requests_give_medians_and_the_time_they_share(name: str) -> None:
    (run,) = read_benchmark(BENCH / name)
    assert 0 < run.ttft_s < 60
    assert 1e-3 < run.tpot_s < 0.2
    assert 0 < run.clients < 30


def test_a_request_table_by_hand(tmp_path: Path) -> None:
    # Requests of 3 s from 0 s and of 2 s from 1 s: 5 s of requests in 3 s. TPOT (3 - 1) / 10 and (2 - 1) / 20.
    rows = "prompt_tokens,generation_tokens,ttft,generation_time,launch_time,finish_time\n"
    (tmp_path / "run.csv").write_text(rows + "100,11,1.0,2.0,0.0,3.0\n300,21,1.0,1.0,1.0,3.0\n")
    (run,) = read_benchmark(tmp_path / "run.csv")
    assert numbers(run) == (200.0, 16.0, 1.67, 1000.0, 125.0)
    assert not run.equal_lengths


def test_every_line_of_an_appended_file_is_a_run() -> None:
    assert [run.clients for run in read_benchmark(BENCH / "sglang_bench.jsonl")] == [16.0, 32.0]


def test_every_load_of_a_sweep_is_a_run() -> None:
    assert len(read_benchmark(BENCH / "guidellm_v0.8.json")) == 2


def test_cancelled_requests_do_not_count() -> None:
    lines = (BENCH / "aiperf_requests.jsonl").read_text().splitlines()
    assert sum('"error": {' in line for line in lines) == 1
    assert read_benchmark(BENCH / "aiperf_requests.jsonl")[0].output_tokens > 1


def test_the_models_that_files_name() -> None:
    assert read_benchmark(BENCH / "aiperf.json")[0].model == "openai/gpt-oss-20b"
    assert read_benchmark(BENCH / "llmd_report.yaml")[0].model == "Qwen/Qwen3-0.6B"
    assert read_benchmark(BENCH / "sglang_bench.jsonl")[0].model == "meta-llama/Llama-3.1-8B-Instruct"


def test_what_a_file_lacks_is_named() -> None:
    with pytest.raises(InputError, match="does not hold requests in flight"):
        read_benchmark(BENCH / "llmperf_requests.json")
    assert read_benchmark(BENCH / "llmperf_requests.json", clients=5.0)[0].clients == 5.0


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.json", "{", "is not JSON"),
        ("a.json", "", "is no result of"),
        ("a.json", "[1, 2]", "is no result of vLLM bench"),
        ("a.json", json.dumps({"benchmarks": []}), "is no result of"),
        ("a.json", json.dumps({"completed": 0, "total_input_tokens": 0}), "does not hold a TPOT"),
        ("a.yaml", "a: [", "is not YAML"),
        ("a.json", "[" * 100_000, "is nested too deeply"),
        ("a.json", "1" * 5_000, "or holds a date or a number that cannot be read"),
        ("a.yaml", "a: " + "[" * 5_000, "is nested too deeply"),
        ("a.yaml", "a: 2026-99-99", "or holds a date or a number that cannot be read"),
        ("a.csv", "x,y\n1,2\n", "is no result of"),
        ("a.csv", "", "is no result of"),
    ],
)
def test_wrong_files_are_faults(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=message):
        read_benchmark(tmp_path / name)


def test_windows_of_a_replay_hold_no_tpot() -> None:
    with pytest.raises(InputError, match="is no result of"):
        read_benchmark(BENCH / "kv_cache_tester.csv")


def test_a_cap_that_is_never_reached_is_not_the_load() -> None:
    # 10 /s x (0.1 s + 9 x 0.01 s) = 1.9 in flight below a cap of 100
    assert in_flight(100.0, 10.0, 0.1, 0.01, 10.0) == pytest.approx(1.9)
    assert in_flight(2.0, 10.0, 0.1, 0.01, 10.0) == pytest.approx(1.9)
    assert math.isnan(in_flight(math.nan, math.nan, 0.1, 0.01, 10.0))
