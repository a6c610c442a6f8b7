"""`planner export`: files or nothing, refusals with a way out, other engines planned again."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from running import ROOT, Run

pytestmark = pytest.mark.slow  # each runs whole searches

RESULT = ROOT / "tests" / "data" / "export" / "heterogeneous.json"
SCENARIO = ROOT / "docs" / "examples" / "heterogeneous.yaml"
SMALL = """version: 1
model: Qwen/Qwen3-32B
engine: {engine}
hardware: {{accelerators: [h100-sxm, a100-sxm-80]}}
workload: {{requests: 4 /s, input_tokens: 1000, output_tokens: 200}}
targets: {{ttft: {{p99: 3 s}}, itl: {{p99: {itl}}}}}
{more}
"""


def scenario(folder: Path, engine: str = "vllm", itl: str = "200 ms", more: str = "") -> Path:
    path = folder / "small.yaml"
    path.write_text(SMALL.format(engine=engine, itl=itl, more=more), encoding="utf-8")
    return path


def test_files_of_a_result(run: Run, tmp_path: Path) -> None:
    done = run("export", str(RESULT), "--to", "vllm", "-o", "out")
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert "6 files" in done.stderr or "7 files" in done.stderr
    assert os.access(tmp_path / "out" / "prefill.sh", os.X_OK)
    assert json.loads((tmp_path / "out" / "plan.json").read_text()) == json.loads(RESULT.read_text())
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_an_existing_directory_is_kept(run: Run, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("x")
    done = run("export", str(RESULT), "--to", "vllm", "-o", "out")
    assert done.returncode == 2 and "--force" in done.stderr
    forced = run("export", str(RESULT), "--to", "vllm", "-o", "out", "--force")
    assert forced.returncode == 2 and "no directory of an export" in forced.stderr
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["mine"]


def test_force_replaces_an_export_whole(run: Run, tmp_path: Path) -> None:
    assert run("export", str(RESULT), "--to", "vllm", "-o", "out").returncode == 0
    assert run("export", str(RESULT), "--to", "dynamo", "-o", "out", "--force").returncode == 0
    assert not (tmp_path / "out" / "prefill.sh").exists() and (tmp_path / "out" / "dgd.yaml").exists()


def test_another_engine_is_planned_again(run: Run, tmp_path: Path) -> None:
    done = run("export", str(scenario(tmp_path)), "--to", "sglang", "-o", "out")
    assert done.returncode == 0, done.stderr
    assert "planned again for sglang" in done.stderr
    assert "--tp-size" in "".join(path.read_text() for path in (tmp_path / "out").glob("*.sh"))


def test_a_result_for_another_engine_needs_its_scenario(run: Run) -> None:
    done = run("export", str(RESULT), "--to", "sglang", "-o", "out")
    assert done.returncode == 2 and "heterogeneous.yaml" in done.stderr


def test_an_infeasible_plan_is_refused(run: Run, tmp_path: Path) -> None:
    done = run("export", str(scenario(tmp_path, itl="1 ms")), "--to", "vllm", "-o", "out")
    assert done.returncode == 1
    assert "infeasible (itl.p99" in done.stderr and "relax" in done.stderr
    assert not (tmp_path / "out").exists()


def test_what_the_connector_cannot_move_is_refused_with_the_nearest_plan(run: Run, tmp_path: Path) -> None:
    document = json.loads(RESULT.read_text())
    document["plan"]["prefill"]["tp"], document["plan"]["decode"]["tp"] = 4, 2
    saved = tmp_path / "result.json"
    saved.write_text(json.dumps(document))
    done = run("export", str(saved), "--to", "llm-d", "-o", "out")
    assert done.returncode == 1, done.stderr
    assert "use decode tp 4 or more; nearest that runs: prefill 6 x tp 4, decode 1 x tp 4" in done.stderr
    assert run("export", str(saved), "--to", "vllm", "-o", "out").returncode == 0  # its own connector copes


GIVEN = "deployment: {mode: disaggregated, prefill: {accelerator: h100-sxm, tp: 4, replicas: 2}, decode: {%s}}"


def test_a_given_deployment_is_for_its_own_engine(run: Run, tmp_path: Path) -> None:
    path = scenario(tmp_path, more=GIVEN % "accelerator: h100-sxm, tp: 2, replicas: 2")
    done = run("export", str(path), "--to", "sglang", "-o", "out")
    assert done.returncode == 0, done.stderr
    assert "planned again for sglang 0.5.23, without its own deployment" in done.stderr


def test_a_given_deployment_that_cannot_run_names_one_that_does(run: Run, tmp_path: Path) -> None:
    more = GIVEN % "accelerator: h100-sxm, tp: 2, replicas: 2"
    path = scenario(tmp_path, more=more)
    done = run("export", str(path), "--to", "vllm", "--connector", "lmcache", "-o", "out")
    assert done.returncode == 2
    assert "equal tp only; nearest that runs: prefill" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--to", "vllm", "--engine-version", "0.19.0"), "options are known for 0.33.0 only"),
        (("--to", "vllm", "--engine-version", "99"), "known: 0.33.0"),
        (("--to", "sglang", "--connector", "lmcache"), "mooncake or nixl"),
        (("--to", "nomad"), "nomad"),
    ],
)
def test_wrong_options(run: Run, tmp_path: Path, arguments: tuple[str, ...], words: str) -> None:
    done = run("export", str(scenario(tmp_path)), *arguments, "-o", "out")
    assert done.returncode == 2 and words in done.stderr
    assert not (tmp_path / "out").exists()


def test_an_older_version_in_the_scenario_is_not_passed_over(run: Run, tmp_path: Path) -> None:
    path = scenario(tmp_path, more='engine_version: "0.19.0"')
    done = run("export", str(path), "--to", "vllm", "-o", "out")
    assert done.returncode == 2 and "vllm 0.19.0: options are known for 0.33.0 only" in done.stderr


def test_a_patch_release_is_named(run: Run, tmp_path: Path) -> None:
    done = run("export", str(scenario(tmp_path)), "--to", "vllm", "--engine-version", "0.33.2", "-o", "out")
    assert done.returncode == 0, done.stderr
    assert "vLLM 0.33.2" in (tmp_path / "out" / "README.md").read_text()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is not JSON"),
        ("[1]", "no result of planner"),
        ("{}", "no result of planner"),
        ('{"schema_version": 99, "tool": {"name": "planner"}}', "use the release that wrote it"),
        ('{"schema_version": 1, "verdict": "feasible", "tool": {"name": "planner"}}', "no result to render"),
        ("[" * 100000, "nested too deeply"),
        ("1" * 5_000, "is no result"),
    ],
)
def test_wrong_results(run: Run, tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "r.json").write_text(text)
    done = run("export", "r.json", "--to", "vllm", "-o", "out")
    assert done.returncode == 2 and words in done.stderr, done.stderr


def test_a_result_with_holes_is_the_users(run: Run, tmp_path: Path) -> None:
    document = json.loads(RESULT.read_text())
    del document["memory_per_accelerator"]
    (tmp_path / "r.json").write_text(json.dumps(document))
    done = run("export", "r.json", "--to", "vllm", "-o", "out")
    assert done.returncode == 2 and "memory_per_accelerator" in done.stderr


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("plan", "decode", "replicas"), "1; rm -rf $HOME"),
        (("plan", "decode", "tp"), 2.5),
        (("plan", "decode", "max_batch"), "$(id)"),
        (("plan", "decode", "dp"), 0),
        (("inputs", "engine", "version"), "0.33.0\nrm -rf $HOME"),
        (("inputs", "model", "id"), "a/b\nid"),
        (("inputs", "workload", "longest_input_tokens"), "x"),
        (("inputs", "workload"), None),
        (("kv",), 7),
    ],
)
def test_a_result_that_was_tampered_with(run: Run, tmp_path: Path, path: tuple[str, ...], value: object) -> None:
    document = json.loads(RESULT.read_text())
    at = document
    for name in path[:-1]:
        at = at[name]
    at[path[-1]] = value
    (tmp_path / "r.json").write_text(json.dumps(document))
    done = run("export", "r.json", "--to", "vllm", "-o", "out")
    assert done.returncode == 2 and "r.json" in done.stderr, done.stderr
    assert not (tmp_path / "out").exists()


def test_an_engine_without_the_models_layers(run: Run, tmp_path: Path) -> None:
    path = scenario(tmp_path)
    path.write_text(path.read_text().replace("Qwen/Qwen3-32B", "moonshotai/Kimi-K3"))
    done = run("export", str(path), "--to", "tensorrt-llm", "-o", "out")
    assert done.returncode == 2 and "has no kda layers" in done.stderr, done.stderr


def test_missing_files(run: Run) -> None:
    assert run("export", "no.yaml", "--to", "vllm", "-o", "out").returncode == 2
    assert run("export", "no.json", "--to", "vllm", "-o", "out").returncode == 2
    assert run("export", str(RESULT), "--to", "vllm", "-o", "/proc/nothing/out").returncode == 2
