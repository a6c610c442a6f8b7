"""`planner validate --result --plan`: a benchmark beside the plan it was built from."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from running import ROOT, Run

pytestmark = pytest.mark.slow  # each runs whole searches

PLAN = ROOT / "tests" / "data" / "export" / "gpt-oss-120b.json"
BENCH = ROOT / "tests" / "data" / "bench"


def test_a_table(run: Run) -> None:
    done = run("validate", "--result", str(BENCH / "vllm_bench_serve.json"), "--plan", str(PLAN))
    assert done.returncode == 0, done.stderr
    assert "statistics inside the 80% interval" in done.stdout
    assert "OUTSIDE  TPOT mean" in done.stdout
    assert "another load than planned" in done.stdout
    assert "Explained best by step time: steps" in done.stdout


def test_json(run: Run, tmp_path: Path) -> None:
    files = ("--result", str(BENCH / "guidellm_v0.8.json"), "--plan", str(PLAN))
    done = run("validate", *files, "--format", "json", "--out", "v.json")
    assert done.returncode == 0, done.stderr
    runs = json.loads((tmp_path / "v.json").read_text())["runs"]
    assert len(runs) > 1 and runs[0]["benchmark"] == "guidellm_v0.8.json run 1"
    assert {"metric", "measured_s", "inside"} <= runs[0]["statistics"][0].keys()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "give FILE"),
        (("--plan", str(PLAN)), "go together"),
        (("--result", str(BENCH / "aiperf.json")), "go together"),
        (("x.csv", "--result", "a", "--plan", "b"), "go together"),
        (("--result", str(BENCH / "aiperf.json"), "--plan", "none.json"), "no such file"),
        (("--result", "none.json", "--plan", str(PLAN)), "no such file"),
        (("--result", str(PLAN), "--plan", str(PLAN)), "is no result of"),
        (("--result", str(BENCH / "aiperf.json"), "--plan", str(BENCH / "aiperf.json")), "no result of planner"),
        (("--result", str(BENCH / "aiperf.json"), "--plan", str(PLAN), "--format", "csv"), "table or json"),
    ],
)
def test_wrong_input(run: Run, arguments: tuple[str, ...], words: str) -> None:
    done = run("validate", *arguments)
    assert done.returncode == 2 and words in done.stderr, done.stderr


def test_a_plan_without_a_prediction(run: Run, tmp_path: Path) -> None:
    document = json.loads(PLAN.read_text())
    document["prediction"] = None
    (tmp_path / "p.json").write_text(json.dumps(document))
    done = run("validate", "--result", str(BENCH / "aiperf.json"), "--plan", "p.json")
    assert done.returncode == 2 and "no prediction" in done.stderr
