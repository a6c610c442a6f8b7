"""`planner check`: verdicts as exit codes, many scenarios, baselines, faults beside results."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from running import PATIENCE_S, Run, environment, opened_for_writing

pytestmark = pytest.mark.slow  # each runs whole searches

GIVEN = """\
version: 1
model: meta-llama/Llama-3.1-70B
weights: fp8
engine: vllm
workload: {requests: 2 /s, input_tokens: 2000, output_tokens: 200}
targets:
  ttft: {p99: 20 s}
budgets:
  accelerators: 8
deployment:
  mode: colocated
  colocated: {accelerator: h200-sxm, replicas: 2, tp: 4, max_batch: 64}
"""


def write(folder: Path, name: str, text: str = GIVEN) -> str:
    (folder / name).write_text(text, encoding="utf-8")
    return name


@pytest.mark.parametrize(
    ("plan", "flags", "code", "word"),
    [
        ("DISAGGREGATED", (), 0, "AT RISK"),
        ("DISAGGREGATED", ("--strict",), 1, "FAIL"),
        ("DISAGGREGATED", ("--strict", "--exit-zero"), 0, "FAIL"),
        ("INFEASIBLE", (), 1, "FAIL"),
        ("INFEASIBLE", ("--exit-zero",), 0, "FAIL"),
        ("NOTHING_FITS", (), 1, "FAIL"),
    ],
)
def test_verdicts_and_codes(run_stubbed: Run, plan: str, flags: tuple[str, ...], code: int, word: str) -> None:
    done = run_stubbed(plan, "check", "s.yaml", *flags)
    assert (done.returncode, done.stderr) == (code, "")
    assert done.stdout.startswith(f"{word}  ")


@pytest.mark.parametrize(("plan", "code"), [("DISAGGREGATED", 0), ("INFEASIBLE", 1)])
def test_quiet_twice_is_the_code_only(run_stubbed: Run, plan: str, code: int) -> None:
    done = run_stubbed(plan, "check", "s.yaml", "-qq")
    assert (done.returncode, done.stdout, done.stderr) == (code, "", "")


def test_out_keeps_one_line_for_people(run_stubbed: Run, tmp_path: Path) -> None:
    done = run_stubbed("INFEASIBLE", "check", "s.yaml", "--format", "json", "--out", "r.json")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "FAIL  2 of 4 checks pass, 1 at risk, 1 fail; 1 scenario  (r.json)\n"
    assert json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))["verdict"] == "fail"


@pytest.mark.parametrize("width", ["60", "80", "200"])
def test_legible_at_any_width_without_unicode(run_stubbed: Run, width: str) -> None:
    done = run_stubbed("INFEASIBLE", "check", "s.yaml", COLUMNS=width, PYTHONIOENCODING="ascii")
    assert done.stdout.isascii() and "\x1b" not in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= int(width)
    for shown in (
        "FAIL     ITL p99",
        "568 ms .. 923 ms",
        "slack +11%" if width == "60" else "+11%",
        "unbounded",
        "124.00 USD/h",
        "nothing bounds it",
    ):
        assert shown in done.stdout


def test_verbose_adds_what_the_numbers_rest_on(run_stubbed: Run) -> None:
    plain, more = (run_stubbed("DISAGGREGATED", "check", "s.yaml", *flags).stdout for flags in ((), ("-v",)))
    assert "NVIDIA H200 datasheet" in more and "NVIDIA H200 datasheet" not in plain


def test_our_bug_is_3_and_the_others_are_told(run: Run, run_stubbed: Run) -> None:
    done = run_stubbed("BUG", "check", "s.yaml")
    assert done.returncode == 3 and "internal error: RuntimeError: a formula" in done.stderr
    assert done.stdout.startswith("BROKEN  ") and "Traceback" not in done.stderr
    assert "Traceback" in run_stubbed("BUG", "check", "s.yaml", "-vv").stderr


def test_interrupted_is_130(run_stubbed: Run) -> None:
    assert run_stubbed("INTERRUPT", "check", "s.yaml").returncode == 130


# --------------------------------------------------------------------------------------------------------- real files


def test_a_broken_scenario_stops_no_other(run: Run, tmp_path: Path) -> None:
    names = [write(tmp_path, "a.yaml"), write(tmp_path, "b.yaml", "modle: x\n"), write(tmp_path, "c.yaml"), "gone.yaml"]
    done = run("check", *names, "--format", "json", "--jobs", "2")
    assert done.returncode == 2
    result = json.loads(done.stdout)
    assert [one["inputs"]["scenario"] for one in result["results"]] == ["a", "c"]
    assert [one["scenario"] for one in result["broken"]] == ["b.yaml", "gone.yaml"]
    assert result["summary"]["scenarios"] == 4 and result["verdict"] == "broken"
    assert "b.yaml:1:1: modle: unknown key" in done.stderr and "gone.yaml: no such file" in done.stderr


def test_faults_stand_on_stderr_and_the_table_names_the_file(run: Run, tmp_path: Path) -> None:
    write(tmp_path, "b.yaml", "modle: x\n")
    done = run("check", "b.yaml")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (2, "BROKEN  b.yaml")
    assert "b.yaml:1:1: modle: unknown key" in done.stderr and "unknown key" not in done.stdout
    assert run("check", "b.yaml", "-qq").stderr == ""


def test_order_and_bytes_do_not_depend_on_processes(run: Run, tmp_path: Path) -> None:
    names = [write(tmp_path, f"{name}.yaml") for name in "dacb"]
    one, two = (run("check", *names, "--format", "json", "--jobs", jobs).stdout for jobs in ("1", "2"))
    assert one == two
    assert [result["inputs"]["scenario"] for result in json.loads(one)["results"]] == list("dacb")


def test_unknown_metric_is_2_with_the_nearest_name(run: Run, tmp_path: Path) -> None:
    write(tmp_path, "s.yaml", GIVEN + "checks: [usd_per_hor <= 5 USD/h]\n")
    done = run("check", "s.yaml")
    assert done.returncode == 2
    assert 's.yaml:13:10: checks[0]: "usd_per_hor <= 5 USD/h": no metric "usd_per_hor"; did you mean' in done.stderr


def test_changes_need_a_baseline(run: Run, tmp_path: Path) -> None:
    write(tmp_path, "s.yaml", GIVEN + "checks: [change(accelerators) <= 0]\n")
    done = run("check", "s.yaml")
    assert done.returncode == 2 and "s.yaml:13:10:" in done.stderr and "needs --baseline RESULT.json" in done.stderr


def test_changes_against_a_baseline(run: Run, tmp_path: Path) -> None:
    write(tmp_path, "s.yaml")
    assert run("evaluate", "s.yaml", "--format", "json", "--out", "one.json").returncode == 0
    assert run("check", "s.yaml", "--format", "json", "--out", "many.json").returncode == 0
    more = GIVEN.replace("accelerators: 8", "accelerators: 16").replace("replicas: 2", "replicas: 3")
    write(tmp_path, "s.yaml", more + 'checks: ["change(usd_per_hour) <= 5 %", "change(accelerators) <= 4"]\n')
    for baseline in ("one.json", "many.json"):
        done = run("check", "s.yaml", "--baseline", baseline, "--format", "json")
        assert done.returncode == 1, done.stderr
        lines = {line["name"]: line for line in json.loads(done.stdout)["results"][0]["checks"]}
        rent = lines["change(usd_per_hour)"]
        assert rent["verdict"] == "fail" and rent["delta_fraction"] == pytest.approx(0.5)
        assert lines["change(accelerators)"]["verdict"] == "pass"  # 12 against 8
        assert lines["accelerators"]["reference"] == 8


def test_a_baseline_of_another_scenario(run: Run, tmp_path: Path) -> None:
    write(tmp_path, "old.yaml")
    write(tmp_path, "new.yaml", GIVEN + "checks: [change(accelerators) <= 0]\n")
    assert run("check", "old.yaml", "--format", "json", "--out", "many.json").returncode == 0
    done = run("check", "new.yaml", "--baseline", "many.json")
    assert done.returncode == 2 and "the baseline holds no result of this scenario" in done.stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is not JSON"),
        ("{", "r.json:1:2: is not JSON"),
        ("[1]", "is no result of planner"),
        ("{}", "is no result of planner"),
        ('{"schema_version": 1, "tool": {"name": "other"}}', "is no result of planner"),
        ('{"schema_version": 99, "tool": {"name": "planner"}}', "schema_version 99, this release reads 1"),
        ('{"schema_version": 0, "tool": {"name": "planner"}}', "it is older"),
        ('{"schema_version": 1, "tool": {"name": "planner"}, "statistics": {}}', "no result to render or compare"),
        ('{"schema_version": 1, "tool": {"name": "planner"}, "plan": null, "limits": []}', "inputs is missing"),
        ('{"schema_version": NaN}', "NaN is no number"),
        ("[" * 100_000, "too deeply"),
        ("\x00\x01", "binary"),
    ],
)
def test_a_baseline_that_is_no_result(run: Run, tmp_path: Path, text: str, said: str) -> None:
    write(tmp_path, "s.yaml")
    (tmp_path / "r.json").write_text(text, encoding="utf-8")
    done = run("check", "s.yaml", "--baseline", "r.json")
    assert done.returncode == 2 and said in done.stderr and "Traceback" not in done.stderr


def test_an_interrupt_ends_every_process(tmp_path: Path) -> None:
    """Two processes wait for scenarios that never come; whoever interrupts the first process ends them all."""
    os.mkfifo(tmp_path / "a.yaml")
    os.mkfifo(tmp_path / "b.yaml")
    process = subprocess.Popen(
        [sys.executable, "-m", "planner", "check", "a.yaml", "b.yaml", "--jobs", "2"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env=environment({}),
    )
    held = [opened_for_writing(tmp_path / name, process) for name in ("a.yaml", "b.yaml")]
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, stdout) == (130, "")
    assert "Traceback" not in stderr
    for pipe in held:
        os.close(pipe)


def test_the_witness_agrees_with_a_plain_deployment(run: Run, tmp_path: Path) -> None:
    write(tmp_path, "s.yaml", GIVEN.replace("requests: 2 /s", "requests: 0.2 /s"))
    done = run("check", "s.yaml", "--witness", "--format", "json")
    assert done.returncode == 0, done.stdout
    lines = [line for line in json.loads(done.stdout)["results"][0]["checks"] if line["kind"] == "witness"]
    assert [line["name"] for line in lines][:2] == ["witness(ttft.mean)", "witness(itl.mean)"]
    assert all(abs(line["delta_fraction"]) <= line["limit"] for line in lines)
