"""`planner kv` at the command line: formats, exit codes, faults with their place."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from running import Run

pytestmark = pytest.mark.slow  # each runs whole searches through the command line

SCENARIO = """
model: meta-llama/Llama-3.1-8B
engine: vllm
workload:
  {workload}
targets: {{ttft: {{p99: 2 s}}, itl: {{p99: 50 ms}}}}
kv_tiers: {{{tiers}}}
deployment: {{mode: colocated, colocated: {{accelerator: h100-sxm, replicas: 2}}}}
"""
SESSIONS = (
    "sessions: {users: 40, turns: 8, growth_tokens: 500, output_tokens: 200, think_time: 20 s, "
    "system_prompt_tokens: 1000}"
)


def written(folder: Path, workload: str = SESSIONS, tiers: str = "host-dram: 256 GB") -> Path:
    path = folder / "s.yaml"
    path.write_text(SCENARIO.format(workload=workload, tiers=tiers), encoding="utf-8")
    return path


def test_table_and_json(tmp_path: Path, run: Run) -> None:
    path = written(tmp_path)
    table = run("kv", str(path))
    assert table.returncode == 0, table.stderr
    for heading in ("Where KV is", "One size moved", "More and less load", "The cliff", "Memory beside the decode"):
        assert heading in table.stdout
    result = json.loads(run("kv", str(path), "--format", "json").stdout)
    assert [row["tier"] for row in result["kv"]["tiers"]] == ["hbm", "host-dram"]
    assert result["kv"]["cliffs"][0]["unit"] == "users"
    assert result["kv"]["load_curve"][0]["warm"]["hit_fractions"]


@pytest.mark.parametrize(
    ("workload", "tiers", "message"),
    [
        ("requests: 2 /s\n  input_tokens: 4000\n  output_tokens: 100", "host-dram: 1 TB", "what its prompts share"),
        (SESSIONS, "host-dram: 99 TB", "more than the slots of a node hold"),
        (SESSIONS, "host-drum: 1 TB", 'did you mean "host-dram"'),
        (SESSIONS, "local-ssd: {size: 8 TB, read_rate: 0 GB/s}", "is not above zero"),
        (SESSIONS, "host-dram: 1", "has no unit"),
        (SESSIONS.replace("users: 40", "users: 0"), "host-dram: 1 TB", "is not a whole number from 1"),
        (SESSIONS.replace("20 s", "0 s"), "host-dram: 1 TB", "is not above zero"),
        (SESSIONS.replace("turns: 8", "turns: 9000"), "host-dram: 1 TB", "tokens of context"),
        (SESSIONS + "\n  prefix_hit_ratio: 0.5", "host-dram: 1 TB", "stands beside sessions"),
    ],
)
def test_faults(tmp_path: Path, run: Run, workload: str, tiers: str, message: str) -> None:
    answer = run("kv", str(written(tmp_path, workload, tiers)))
    assert answer.returncode == 2
    assert message in answer.stderr and "s.yaml:" in answer.stderr
    assert answer.stdout == ""


def test_a_given_deployment_that_misses_is_an_answer(tmp_path: Path, run: Run) -> None:
    path = written(tmp_path, SESSIONS.replace("users: 40", "users: 1000000"))
    answer = run("kv", str(path), "--format", "json")
    assert answer.returncode == 0, answer.stderr
    assert json.loads(answer.stdout)["verdict"] == "infeasible"


def test_a_trace_in_place_of_a_scenario_is_said_to_be_one(tmp_path: Path, run: Run) -> None:
    (tmp_path / "t.jsonl").write_text("{}\n")
    done = run("kv", str(tmp_path / "t.jsonl"))
    assert done.returncode == 2
    assert "t.jsonl is a trace by its name, not a scenario: `planner trace show` has its curve" in done.stderr
