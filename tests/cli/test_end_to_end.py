"""Real scenarios through the whole program."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from running import ROOT, Run, two_pools

EXAMPLES = ROOT / "docs" / "examples"
GIVEN = two_pools("4 /s", "4000", 500, "2 s", "40 ms", prefill=(4, 3), decode=4)


def result(run: Run, *arguments: str, code: int = 0) -> dict[str, Any]:
    done = run(*arguments, "--format", "json")
    assert done.returncode == code, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def names(value: Any) -> set[str]:
    if isinstance(value, dict):
        return {*value, *(name for item in value.values() for name in names(item))}
    return {name for item in value for name in names(item)} if isinstance(value, list) else set()


def check(answer: dict[str, Any]) -> None:
    """What holds for any result with a plan."""
    listed = set(re.findall(r"^\| `(\w+)`", (ROOT / "docs" / "nomenclature.md").read_text(encoding="utf-8"), re.M))
    assert {name.partition(".")[0] for name in names(answer)} <= listed
    prediction = answer["prediction"]
    assert sum(prediction["ttft_parts_s"].values()) == pytest.approx(prediction["ttft_s"]["mean"], rel=0.02)
    pools = [answer["plan"][name] for name in ("prefill", "decode", "colocated") if name in answer["plan"]]
    assert answer["plan"]["accelerators"] == sum(pool["accelerators"] for pool in pools)
    for parts in answer["memory_per_accelerator"].values():
        used = sum(size for name, size in parts.items() if name != "capacity_bytes")
        assert used == pytest.approx(parts["capacity_bytes"], rel=1e-9)
    for item in answer["inputs"]["accelerators"]:
        assert all(value["source"] for value in item["values"].values()), item["id"]


def test_size_an_example(run: Run) -> None:
    answer = result(run, "size", str(EXAMPLES / "heterogeneous.yaml"))
    check(answer)
    assert answer["verdict"] == "feasible"
    for target in answer["inputs"]["targets"]:
        assert answer["prediction"][f"{target['metric']}_s"][target["statistic"]] <= target["limit_s"]


def test_size_what_cannot_be_met(run: Run) -> None:
    answer = result(run, "size", str(EXAMPLES / "infeasible.yaml"), code=1)
    check(answer)
    assert answer["nearest_miss"]["missed"]


def test_evaluate_a_given_deployment(run: Run, tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(GIVEN, encoding="utf-8")
    answer = result(run, "evaluate", "s.yaml")
    check(answer)
    assert answer["plan"]["accelerators"] == 20  # 3 * 4 + 4 * 2
    assert answer["inputs"]["deployment_given"] is True


def test_a_split_the_model_refuses_names_its_line(run: Run, tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(GIVEN.replace("tp: 2", "tp: 3"), encoding="utf-8")
    done = run("evaluate", "s.yaml")
    assert (done.returncode, done.stdout) == (2, "")
    assert re.match(r"s\.yaml:(8|11):\d+: deployment.decode.tp: 3 does not divide", done.stderr)


def test_nothing_to_evaluate_is_the_users_fault(run: Run, tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(GIVEN.partition("deployment:")[0], encoding="utf-8")
    done = run("evaluate", "s.yaml")
    assert done.returncode == 2 and "planner size" in done.stderr


def test_the_library_gives_the_same_answer(run: Run, tmp_path: Path) -> None:
    import planner
    from planner.review.document import document

    (tmp_path / "s.yaml").write_text(GIVEN, encoding="utf-8")
    plan = planner.evaluate(planner.load_scenario(tmp_path / "s.yaml"))  # type: ignore[operator]
    assert document(plan)["prediction"] == result(run, "evaluate", "s.yaml")["prediction"]
