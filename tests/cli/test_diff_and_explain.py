"""`planner diff` and `planner explain` as people use them: results and scenarios, exit codes, wrong files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import hand_plans
import pytest
from inside import Program

from planner.render.json import to_json
from planner.review.document import document, gate_document

SMALL = """\
model: meta-llama/Llama-3.1-8B
hardware: {accelerators: [h100-sxm]}
workload: {requests: 4 /s, input_tokens: 1000, output_tokens: 100}
targets: {ttft: {p99: 2 s}}
deployment: {mode: colocated, colocated: {accelerator: h100-sxm, replicas: 1}}
"""


@pytest.fixture
def program(program: Program, tmp_path: Path) -> Program:
    for name in ("DISAGGREGATED", "COLOCATED", "INFEASIBLE", "NOTHING_FITS"):
        result = document(getattr(hand_plans, name))
        (tmp_path / f"{name.lower()}.json").write_text(to_json(result), encoding="utf-8")
    (tmp_path / "s.yaml").write_text(SMALL, encoding="utf-8")
    return program


def test_nothing_changed(program: Program) -> None:
    done = program("diff", "colocated.json", "colocated.json", "--exit-code")
    assert done.code == 0 and done.out.startswith("UNCHANGED") and done.err == ""


def test_exit_code_as_in_git(program: Program) -> None:
    assert program("diff", "colocated.json", "disaggregated.json").code == 0
    done = program("diff", "colocated.json", "disaggregated.json", "--exit-code", "-qq")
    assert (done.code, done.out) == (1, "")


def test_formats_and_a_file(program: Program) -> None:
    done = program("diff", "colocated.json", "disaggregated.json", "--format", "json")
    found: dict[str, Any] = json.loads(done.out)
    assert found["kind"] == "diff" and found["results"] and found["new"]["name"] == "disaggregated.json"
    done = program("diff", "colocated.json", "infeasible.json", "--format", "markdown", "--out", "c.md")
    assert done.out == "" and "(c.md)" in done.err and "infeasible now" in done.err
    assert (program.folder / "c.md").read_text(encoding="utf-8").startswith("<!-- planner:diff -->")


def test_scenarios_are_computed_first(program: Program) -> None:
    (program.folder / "t.yaml").write_text(SMALL.replace("4 /s", "6 /s"), encoding="utf-8")
    done = program("diff", "s.yaml", "t.yaml")
    assert "workload.requests_per_s  4.00 /s  6.00 /s  +50.0%" in done.out
    assert "all by workload.requests_per_s" in done.out


def test_many_scenarios_are_paired(program: Program) -> None:
    one, two = document(hand_plans.DISAGGREGATED), document(hand_plans.COLOCATED)
    one["inputs"]["files"], two["inputs"]["files"] = ([{"path": path, "sha256": ""}] for path in ("a.yaml", "b.yaml"))
    for name, results in (("old.json", [one, two]), ("new.json", [one])):
        (program.folder / name).write_text(to_json(gate_document(results, [], strict=False)), encoding="utf-8")
    done = program("diff", "old.json", "new.json", "--exit-code")
    assert done.code == 1 and "REMOVED  b.yaml" in done.out and "UNCHANGED" in done.out
    assert program("diff", "old.json", "old.json", "--exit-code").code == 0
    assert json.loads(program("diff", "old.json", "new.json", "--format", "json").out)["removed"] == ["b.yaml"]
    assert "**removed**: b.yaml" in program("diff", "old.json", "new.json", "--format", "markdown").out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("diff", "absent.json", "colocated.json"), "absent.json: no such file"),
        (("diff", "empty.json", "colocated.json"), "empty.json"),
        (("diff", "colocated.json", "torn.json"), "torn.json:"),
        (("diff", "colocated.json", "other.json"), "other.json: is no result"),
        (("diff", "colocated.json", "bad.yaml"), "bad.yaml:1:1: model:"),
        (("diff", "colocated.json", "."), ".: is a folder"),
        (("diff", "colocated.json"), "NEW"),
        (("explain", "colocated.json", "ttft.p9"), '"ttft.p9" is no number of this result; did you mean "ttft.p99"?'),
        (("explain", "colocated.json", "x\x1b[2J"), "\\x1b"),
        (("explain", "colocated.json"), "wants a RESULT and a FIELD"),
        (("explain", "many.json", "ttft.p99"), "holds 2 results"),
        (("explain", "damaged.json", "ttft.p99"), "damaged.json: is no whole result"),
        (("explain", "damaged.json", "--list"), "damaged.json: is no whole result"),
        (("diff", "damaged.json", "colocated.json"), "damaged.json or colocated.json: is no whole result"),
        (("explain", "absent.yaml", "ttft.p99"), "absent.yaml: no such file"),
        (("explain", "unpriced.json", "usd_per_hour"), '"usd_per_hour" is not known in this result'),
        (("explain", "s.yaml", "prefill.utilization"), "is no number of this result"),
    ],
)
def test_wrong_input_is_2(program: Program, arguments: tuple[str, ...], message: str) -> None:
    (program.folder / "empty.json").write_bytes(b"")
    (program.folder / "torn.json").write_bytes(b'{"schema_version": 1, ')
    (program.folder / "other.json").write_text('{"a": 1}', encoding="utf-8")
    (program.folder / "bad.yaml").write_text(SMALL.replace("Llama-3.1-8B", "Llama-9"), encoding="utf-8")
    unpriced = document(hand_plans.COLOCATED)
    unpriced["plan"] = {**unpriced["plan"], "usd_per_hour": None}
    (program.folder / "unpriced.json").write_text(to_json(unpriced), encoding="utf-8")
    damaged = document(hand_plans.COLOCATED)
    damaged = {**damaged, "plan": {**damaged["plan"], "decode": ["a"]}, "inputs": {"files": ["x"]}}
    (program.folder / "damaged.json").write_text(to_json(damaged), encoding="utf-8")
    both = [document(hand_plans.DISAGGREGATED), document(hand_plans.COLOCATED)]
    (program.folder / "many.json").write_text(to_json(gate_document(both, [], strict=False)), encoding="utf-8")
    done = program(*arguments)
    assert (done.code, done.out) == (2, "")
    assert message in done.err and "Traceback" not in done.err and "\x1b" not in done.err


def test_a_number_is_explained(program: Program) -> None:
    done = program("explain", "s.yaml", "usd_per_hour")
    assert done.code == 0 and "cost.usd_per_hour" in done.out and "third-party:" in done.out
    found = json.loads(program("explain", "colocated.json", "ttft.p99", "--format", "json").out)
    assert found["field"] == "prediction.ttft_s.p99" and found["tree"]["formula"]["id"] == "ttft.quantile"


def test_lists(program: Program) -> None:
    assert "ttft.front_end" in program("explain", "--list").out
    assert "plan.usd_per_hour" in program("explain", "disaggregated.json", "--list").out
    assert json.loads(program("explain", "--list", "--format", "json").out)[0]["equation"]
