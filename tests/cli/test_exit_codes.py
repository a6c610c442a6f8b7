"""What each outcome exits with, and which stream says so."""

from __future__ import annotations

from pathlib import Path

import pytest
from running import Run

from planner import __version__
from planner.cli.main import main


def test_feasible_is_0_and_only_on_stdout(run_stubbed: Run) -> None:
    done = run_stubbed("DISAGGREGATED", "size", "s.yaml")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("FEASIBLE  ")


@pytest.mark.parametrize("plan", ["INFEASIBLE", "NOTHING_FITS"])
def test_nothing_fits_is_1_and_still_an_answer(run_stubbed: Run, plan: str) -> None:
    done = run_stubbed(plan, "size", "s.yaml")
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.startswith("INFEASIBLE  ")


def test_evaluating_a_deployment_that_misses_is_0(run_stubbed: Run) -> None:
    assert run_stubbed("INFEASIBLE", "evaluate", "s.yaml").returncode == 0


def test_missing_file_is_2_in_one_line(run: Run) -> None:
    done = run("size", "nope.yaml")
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "nope.yaml: no such file\n")


def test_every_fault_has_a_line_of_its_own(run: Run, tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text("modle: x\nengien: vllm\n", encoding="utf-8")
    done = run("size", "s.yaml")
    faults = done.stderr.splitlines()
    assert done.returncode == 2 and done.stdout == ""
    assert all(fault.startswith("s.yaml:") for fault in faults)
    assert sum("unknown key" in fault for fault in faults) == 2


@pytest.mark.parametrize(
    "arguments",
    [
        ("size", "s.yaml", "--fromat", "json"),
        ("size", "s.yaml", "--format", "xml"),
        ("size",),
        ("sise", "s.yaml"),
        ("hardware", "show", "h2000"),
        ("model", "show", "no/such-model"),
        ("model", "show", "meta-llama/Llama-3.1-70B", "--kv-dtype", "fp7"),
        ("size", "s.yaml", "--catalog", "nowhere"),
    ],
)
def test_unusable_arguments_are_2(run: Run, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    (tmp_path / "s.yaml").write_text("version: 1\n", encoding="utf-8")
    done = run(*arguments)
    assert done.returncode == 2 and done.stdout == "" and done.stderr
    assert "Traceback" not in done.stderr


def test_near_names_are_proposed(run: Run) -> None:
    assert 'did you mean "h200-sxm"' in run("hardware", "show", "h200-smx").stderr


def test_our_bug_is_3_in_one_line(run_stubbed: Run) -> None:
    done = run_stubbed("BUG", "size", "s.yaml")
    assert (done.returncode, done.stdout) == (3, "")
    hint = "a bug of planner: please report it with what -vv prints"
    assert done.stderr == f"planner: internal error: RuntimeError: a formula ({hint})\n"


@pytest.mark.parametrize("flags", [("-vv",), ("-v", "-v"), ("--verbose", "-v")])
def test_traceback_when_asked(run_stubbed: Run, flags: tuple[str, ...]) -> None:
    done = run_stubbed("BUG", "size", "s.yaml", *flags)
    assert done.returncode == 3
    assert done.stderr.startswith("Traceback") and "went wrong" in done.stderr


def test_interrupted_is_130(run_stubbed: Run) -> None:
    done = run_stubbed("INTERRUPT", "size", "s.yaml")
    assert done.returncode == 130 and done.stdout == "" and "Traceback" not in done.stderr


@pytest.mark.parametrize("flag", ["--version", "-V"])
def test_version(run: Run, flag: str) -> None:
    done = run(flag)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"planner {__version__}\n", "")


@pytest.mark.parametrize(
    "page",
    [(), ("size",), ("evaluate",), ("hardware",), ("hardware", "list"), ("hardware", "show"), ("model",),
     ("model", "list"), ("model", "show")],
)  # fmt: skip
def test_every_help_page_has_examples(
    page: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["planner", *page, "--help"])
    assert main() == 0
    text, errors = capsys.readouterr()
    assert errors == "" and text.isascii()
    assert "Examples:\n" in text
    assert "\n    planner " in text
