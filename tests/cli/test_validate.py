"""`planner validate` and `planner calibrate` as a user calls them."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
import yaml

from planner.cli.main import main
from planner.files.catalog import Catalog

RUNS = Path(__file__).parents[1] / "data" / "measured" / "serving_sample.csv"
COLUMNS = [
    "id",
    "mode",
    "ttft_s",
    "ttft_low_s",
    "ttft_high_s",
    "tpot_s",
    "tpot_low_s",
    "tpot_high_s",
    "coverage",
    "status",
]


def call(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr("sys.argv", ["planner", *arguments])
    return main()


def table(tmp_path: Path, **changes: str) -> Path:
    with RUNS.open(newline="") as lines:
        rows = list(csv.DictReader(lines))[:3]
    path = tmp_path / "runs.csv"
    with path.open("w", newline="") as out:
        writer = csv.DictWriter(out, rows[0] | changes)
        writer.writeheader()
        writer.writerows([rows[0], {**rows[1], **changes}, rows[2]])
    return path


def test_every_row_in_order(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(monkeypatch, "validate", str(RUNS), "--format", "csv") == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    with RUNS.open(newline="") as lines:
        assert [row["id"] for row in rows] == [row["id"] for row in csv.DictReader(lines)]
    assert list(rows[0]) == COLUMNS
    assert {row["status"] for row in rows} == {"ok"}
    assert {row["coverage"] for row in rows} == {"0.8"}


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"accelerator": "abacus"}, "accelerator abacus is not in the catalog"),
        ({"model": "nobody/nothing"}, "model nobody/nothing is not in the catalog"),
        ({"tp": "3", "moe_ep": "1"}, "tp 3 does not divide"),
    ],
)
def test_a_row_that_cannot_be_says_why(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    changes: dict[str, str],
    status: str,
) -> None:
    assert call(monkeypatch, "validate", str(table(tmp_path, **changes)), "--format", "json") == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["status"] == "ok" for row in rows] == [True, False, True]
    assert rows[1]["status"].startswith(status)
    assert rows[1]["tpot_s"] is None


def test_a_cell_that_is_no_number_is_a_fault_with_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = table(tmp_path, concurrency="many")
    assert call(monkeypatch, "validate", str(path)) == 2
    assert f'{path}:3: concurrency "many" is not a number' in capsys.readouterr().err


def test_drafted_tokens_are_columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    times = []
    drafts = {"draft_tokens": "3", "acceptance_rate": "0.8", "accepted_tokens": "", "colour": "red"}
    # .8 + .64 + .512 = 1.952 accepted
    for more in ({}, drafts, {**drafts, "acceptance_rate": "", "accepted_tokens": "1.952"}, {"draft_tokens": "0"}):
        assert call(monkeypatch, "validate", str(table(tmp_path, **more)), "--format", "json") == 0
        times.append(json.loads(capsys.readouterr().out)["rows"][1]["tpot_s"])
    assert times[1] < 0.8 * times[0]
    assert times[2] == pytest.approx(times[1])
    assert times[3] == times[0]


@pytest.mark.parametrize(
    ("drafts", "fault"),
    [
        ({"draft_tokens": "3"}, "needs accepted_tokens or acceptance_rate, one of them"),
        ({"draft_tokens": "3", "accepted_tokens": "4"}, "accepts 4 tokens of 3 drafted"),
        ({"draft_tokens": "2.5", "accepted_tokens": "1"}, "draft_tokens: 2.5 is not a whole number"),
        ({"draft_tokens": "three", "accepted_tokens": "1"}, 'draft_tokens "three" is not a number'),
        ({"draft_tokens": "inf", "accepted_tokens": "1"}, "draft_tokens inf is not a finite number"),
        ({"draft_tokens": "-1", "accepted_tokens": "1"}, "draft_tokens: -1"),
        ({"draft_tokens": "3", "acceptance_rate": "1.5"}, "acceptance_rate: 1.5 is out of range"),
        ({"accepted_tokens": "1"}, "draft_tokens: missing"),
    ],
)
def test_drafts_that_cannot_be_are_faults_with_their_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    drafts: dict[str, str],
    fault: str,
) -> None:
    path = table(tmp_path, **drafts)
    assert call(monkeypatch, "validate", str(path)) == 2
    error = capsys.readouterr().err
    assert f"{path}:3: " in error
    assert fault in error


def test_the_table(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(monkeypatch, "validate", str(RUNS)) == 0
    text = capsys.readouterr().out
    assert "aggregated vllm" in text
    assert "runs predicted" in text


def test_a_folder_of_configs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = {
        "architectures": ["LlamaForCausalLM"], "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
        "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256, "max_position_embeddings": 8192,
        "model_type": "llama",
    }  # fmt: skip
    (tmp_path / "me--mine.json").write_text(json.dumps(config))
    path = table(tmp_path, model="me/mine", weights="bf16", moe_ep="1")
    assert call(monkeypatch, "validate", str(path), "--models", str(tmp_path), "--format", "csv") == 0
    assert [row["status"] for row in csv.DictReader(io.StringIO(capsys.readouterr().out))] == ["ok"] * 3


# ----------------------------------------------------------------------------------------------------------- calibrate

SCENARIO = """\
version: 1
model: zai-org/GLM-5
weights: fp8
engine: vllm
workload: {requests: 1 /s, input_tokens: 4096, output_tokens: 128}
targets: {ttft: {p99: 10 s}}
deployment:
  mode: colocated-chunked
  colocated: {accelerator: h200-sxm, tp: 8, replicas: 1}
"""
RESULT = {
    "model_id": "zai-org/GLM-5-FP8", "request_rate": "inf", "max_concurrency": 16, "duration": 164.0, "completed": 160,
    "total_input_tokens": 655360, "total_output_tokens": 20480, "request_throughput": 1.6, "median_ttft": 1.0564,
    "median_tpot": 0.0693,
}  # fmt: skip


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    (tmp_path / "scenario.yaml").write_text(SCENARIO)
    (tmp_path / "result.json").write_text(json.dumps(RESULT))
    return str(tmp_path / "result.json"), str(tmp_path / "scenario.yaml")


def test_one_run_moves_constants_towards_it(
    tmp_path: Path, files: tuple[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "mine" / "engines" / "vllm.yaml"
    out.parent.mkdir(parents=True)
    assert call(monkeypatch, "calibrate", files[0], "--deployment", files[1], "-o", str(out)) == 0
    said = capsys.readouterr().err
    assert "result-1: 16 in flight, 4096 + 128 tokens; error before -> after: TPOT 69.3 ms" in said
    engine = Catalog([tmp_path / "mine"]).engine("vllm")
    assert ("zai-org/GLM-5", "h200-sxm") in engine.measured_cells
    assert "colocated/cell/zai-org/GLM-5/fp8/h200-sxm" in engine.deviations


def test_runs_that_do_not_say_what_ran_are_refused(
    files: tuple[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(monkeypatch, "calibrate", files[0]) == 2
    assert "name it with --deployment SCENARIO" in capsys.readouterr().err


def test_runs_that_identify_nothing_write_nothing(
    tmp_path: Path, files: tuple[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # A TPOT a hundred times off is another deployment, not a constant: a robust fit learns nothing from it.
    Path(files[0]).write_text(json.dumps({**RESULT, "median_tpot": 7.0, "median_ttft": 500.0}))
    out = tmp_path / "vllm.yaml"
    assert call(monkeypatch, "calibrate", files[0], "--deployment", files[1], "-o", str(out)) == 2
    assert "identify no constant" in capsys.readouterr().err
    assert not out.exists()


def test_a_table_says_what_ran(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with RUNS.open(newline="") as lines:
        rows = [row for row in csv.DictReader(lines) if row["engine"] == "vllm" and row["accelerator"] == "b200"]
    path = tmp_path / "runs.csv"
    with path.open("w", newline="") as out:
        writer = csv.DictWriter(out, rows[0])
        writer.writeheader()
        writer.writerow(rows[0])
    assert call(monkeypatch, "calibrate", str(path)) == 0
    assert yaml.safe_load(capsys.readouterr().out)["id"] == "vllm"


LLAMA = SCENARIO.replace("zai-org/GLM-5", "meta-llama/Llama-3.1-8B").replace("fp8", "bf16").replace("h200", "h100")
LLAMA = LLAMA.replace("tp: 8", "tp: 1")


@pytest.mark.parametrize(
    "name",
    ["vllm_bench_serve.json", "vllm_serving_seconds.json", "sglang_bench.jsonl", "genai_perf.json", "aiperf.json",
     "guidellm_v0.2.json", "inference_perf_stage.json", "llmperf_summary.json", "genai_bench.json", "lmbenchmark.csv",
     "vllm_multi_turn.csv", "vllm_recorder.jsonl", "inference_perf_requests.json"],
)  # fmt: skip
def test_results_of_every_tool_become_an_overlay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    deployed = {"vllm_serving_seconds.json": SCENARIO, "vllm_recorder.jsonl": LLAMA.replace("h100-sxm", "rtx-4090")}
    (tmp_path / "scenario.yaml").write_text(deployed.get(name, LLAMA))
    result = RUNS.parents[1] / "bench" / name
    assert call(monkeypatch, "calibrate", str(result), "--deployment", str(tmp_path / "scenario.yaml")) == 0
    text = capsys.readouterr().out
    (tmp_path / "vllm.yaml").write_text(text)
    scenario = yaml.safe_load((tmp_path / "scenario.yaml").read_text())
    cell = (scenario["model"], scenario["deployment"]["colocated"]["accelerator"])
    assert cell in Catalog([tmp_path / "vllm.yaml"]).engine("vllm").measured_cells
    assert "error before -> after" in text


def test_a_profile_of_the_user_is_what_runs_are_added_to(
    tmp_path: Path, files: tuple[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    profile = yaml.safe_load(Catalog().engine_path("vllm").read_text())
    own = tmp_path / "vllm.yaml"
    own.write_text(yaml.safe_dump({**profile, "kind": "engine", "version": "mine", "token_budget": 4096}))
    assert call(monkeypatch, "calibrate", files[0], "--deployment", files[1], "--catalog", str(own)) == 0
    overlay = yaml.safe_load(capsys.readouterr().out)
    assert (overlay["version"], overlay["token_budget"]) == ("mine", 4096)


def test_runs_with_speculation_are_measured_against_steps_that_draft(
    tmp_path: Path, files: tuple[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(files[1]).write_text(SCENARIO + "speculation: {draft_tokens: 3, accepted_tokens: 2}\n")
    assert call(monkeypatch, "calibrate", files[0], "--deployment", files[1]) == 0
    assert "error before -> after" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["validate", "evaluate"])
def test_a_wider_coverage_widens_intervals(
    files: tuple[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    target = str(RUNS) if command == "validate" else files[1]
    widths = []
    for coverage in ("0.5", "0.8", "0.9", "0.95"):
        assert call(monkeypatch, command, target, "--coverage", coverage, "--format", "json") == 0
        document = json.loads(capsys.readouterr().out)
        if command == "validate":
            row = document["rows"][0]
            low, high = row["tpot_low_s"], row["tpot_high_s"]
        else:
            low, high = document["prediction"]["intervals"]["itl_s"]["mean"]
            assert document["prediction"]["coverage"] == float(coverage)
        widths.append(high / low)
    assert widths == sorted(set(widths))


def test_a_file_without_requests_in_flight_needs_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "scenario.yaml").write_text(LLAMA)
    result = str(RUNS.parents[1] / "bench" / "llmperf_requests.json")
    asked = ["calibrate", result, "--deployment", str(tmp_path / "scenario.yaml")]
    assert call(monkeypatch, *asked) == 2
    assert "does not hold requests in flight" in capsys.readouterr().err
    assert call(monkeypatch, *asked, "--concurrency", "5") == 0
