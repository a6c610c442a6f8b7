"""`planner whatif` on real files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from running import Run, two_pools

pytestmark = pytest.mark.slow  # each runs whole searches through the command line

SCENARIO = two_pools("8 /s", "{mean: 4000, p99: 12000}", 300, "2 s", "40 ms", prefill=(2, 4), decode=2)


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    path = tmp_path / "s.yaml"
    path.write_text(SCENARIO, encoding="utf-8")
    return path


def test_the_report(run: Run, scenario: Path) -> None:
    done = run("whatif", "s.yaml")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0].startswith("HOLDS") and "changes break it" in lines[0]
    for start in ("One thing changed at a time", "Tornado", "Breaks first", "Cheapest slack"):
        assert any(line.startswith(start) for line in lines), start
    assert any("failure decode worker" in line for line in lines)


def test_the_document(run: Run, scenario: Path) -> None:
    done = run("whatif", "s.yaml", "--format", "json")
    result = json.loads(done.stdout)
    for case in result["cases"]:
        assert {"name", "change", "plan", "ttft_s", "itl_s", "holds", "extra_usd_per_hour"} <= case.keys()
    names = {case["name"]: case for case in result["cases"]}
    assert {"load +20%", "prefill -1 worker", "input x2", "failure decode worker"} <= names.keys()
    assert names["prefill -1 worker"]["plan"]["prefill"]["replicas"] == 3
    assert run("whatif", "s.yaml", "--format", "json").stdout == done.stdout  # the same bytes


def test_a_sweep(run: Run, scenario: Path) -> None:
    result = json.loads(run("whatif", "s.yaml", "--vary", "load=0.5..3:6", "--format", "json").stdout)
    assert [case["value"] for case in result["cases"]] == [0.5, 1.0, 1.5, 2.0, 2.5, 3.0]
    assert 1.0 < result["knee"]["value"] < 3.0
    assert result["knee"]["requests_per_s"] == pytest.approx(8.0 * result["knee"]["value"])
    shown = run("whatif", "s.yaml", "--vary", "step-time=0.9..1.1:3").stdout
    assert "step time" in shown and "It breaks nowhere in this range." in shown


def test_a_plan_that_misses_is_1(run: Run, scenario: Path) -> None:
    scenario.write_text(SCENARIO.replace("p99: 40 ms", "p99: 4 ms"), encoding="utf-8")
    done = run("whatif", "s.yaml")
    assert done.returncode == 1 and done.stdout.startswith("MISSES")


def test_without_a_deployment_it_sizes(run: Run, scenario: Path) -> None:
    scenario.write_text(SCENARIO.partition("deployment:")[0], encoding="utf-8")
    assert run("whatif", "s.yaml").returncode == 0


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("lod=1..2:3", 'did you mean "load"'),
        ("load", "want NAME=LOW..HIGH"),
        ("load=2..1:3", "not below"),
        ("load=1..2:1", "from 2 to 500"),
        ("load=1..2:x", "from 2 to 500"),
        ("load=0..2", "out of range"),
        ("load=nan..2", "out of range"),
        ("load=1..1e9", "out of range"),
        ("load=a..b", "not a number"),
        ("", "want NAME=LOW..HIGH"),
    ],
)
def test_a_wrong_range_is_2(run: Run, scenario: Path, given: str, said: str) -> None:
    done = run("whatif", "s.yaml", "--vary", given)
    assert done.returncode == 2 and done.stdout == ""
    assert said in done.stderr, done.stderr


def test_out_and_ascii(run: Run, scenario: Path, tmp_path: Path) -> None:
    done = run("whatif", "s.yaml", "--out", "r.txt")
    assert done.stdout == "" and done.stderr.startswith("HOLDS")
    assert "One thing changed" in (tmp_path / "r.txt").read_text(encoding="utf-8")
    plain = run("whatif", "s.yaml", LC_ALL="C", PYTHONIOENCODING="ascii")
    assert plain.stdout.isascii() and "#|" in plain.stdout
