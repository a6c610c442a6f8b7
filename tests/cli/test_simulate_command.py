"""`planner simulate` on real files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import get_args

import pytest
from running import Run, two_pools

from planner.cli.simulate import RouterName
from planner.simulation.router import ROUTERS

pytestmark = pytest.mark.slow  # each runs whole searches

SCENARIO = two_pools("4 /s", "4000", 300, "3 s", "60 ms", prefill=(4, 2), decode=2)


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    path = tmp_path / "s.yaml"
    path.write_text(SCENARIO, encoding="utf-8")
    return path


def test_predicted_beside_simulated(run: Run, scenario: Path) -> None:
    done = run("simulate", "s.yaml", "--requests", "1000")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == "HOLDS IN SIMULATION"
    assert sum(line.startswith("  holds") for line in lines) == 2
    assert any(line.split()[:2] == ["ITL", "p99"] for line in lines)


def test_a_missed_target_is_1(run: Run, scenario: Path) -> None:
    scenario.write_text(SCENARIO.replace("p99: 60 ms", "p99: 6 ms"), encoding="utf-8")
    done = run("simulate", "s.yaml", "--requests", "200")
    assert done.returncode == 1
    assert done.stdout.startswith("MISSED IN SIMULATION  itl.p99")


def test_json_is_the_same_for_the_same_seed(run: Run, scenario: Path) -> None:
    arguments = ("simulate", "s.yaml", "--requests", "500", "--format", "json", "--seed")
    one, same, other = (run(*arguments, seed).stdout for seed in ("1", "1", "2"))
    assert one == same != other
    answer = json.loads(one)
    assert answer["setting"]["requests"] == 500 and answer["holds"] is True
    item = answer["statistics"]["itl_s"]["p99"]
    assert item["low"] <= item["simulated"] <= item["high"]
    assert item["difference_fraction"] == pytest.approx(item["predicted"] / item["simulated"] - 1.0)
    assert answer["pools"]["decode"]["accelerators"] == 4


def test_a_closed_loop_has_no_prediction(run: Run, scenario: Path) -> None:
    done = run("simulate", "s.yaml", "--requests", "300", "--clients", "32", "--format", "json")
    answer = json.loads(done.stdout)
    assert answer["setting"]["arrivals"] == "closed loop"
    assert answer["statistics"]["ttft_s"]["mean"]["predicted"] is None


def test_result_into_a_file(run: Run, scenario: Path, tmp_path: Path) -> None:
    done = run("simulate", "s.yaml", "--requests", "200", "--out", "r.txt", "--router", "round-robin")
    assert done.stdout == "" and done.stderr == "HOLDS IN SIMULATION  (r.txt)\n"
    assert "router: round-robin" in (tmp_path / "r.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "arguments",
    [
        ("s.yaml", "--requests", "0"),
        ("s.yaml", "--router", "best"),
        ("s.yaml", "--arrival-scv", "-1"),
        ("s.yaml", "--arrival-scv", "nan"),
        ("s.yaml", "--clients", "-3"),
        ("s.yaml", "--clients", "999999999999"),
        ("s.yaml", "--requests", "1"),
        ("s.yaml", "--requests", "100", "--arrival-scv", "1e300"),
        ("s.yaml", "--clients", "3", "--arrival-scv", "1"),
        ("nope.yaml",),
        (),
    ],
)
def test_unusable_arguments_are_2(run: Run, scenario: Path, arguments: tuple[str, ...]) -> None:
    done = run("simulate", *arguments)
    assert done.returncode == 2 and done.stdout == "" and done.stderr
    assert "Traceback" not in done.stderr


def test_a_deployment_that_cannot_run_names_its_line(run: Run, scenario: Path) -> None:
    scenario.write_text(SCENARIO.replace("tp: 2, replicas", "tp: 3, replicas"), encoding="utf-8")
    done = run("simulate", "s.yaml")
    assert done.returncode == 2 and done.stderr.startswith("s.yaml:")


def test_help_has_examples(run: Run) -> None:
    page = run("simulate", "--help").stdout
    assert "--router" in page and "planner simulate scenario.yaml" in page


def test_every_router_can_be_asked_for() -> None:
    assert get_args(RouterName) == ROUTERS
