"""`planner render` and the formats of the other commands, as they are called."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from running import Run, environment

from planner.cli.main import main

pytestmark = pytest.mark.slow  # each runs whole searches

FORMATS = ("table", "json", "csv", "yaml", "markdown", "html", "junit", "sarif", "github")


@pytest.fixture
def saved(run_stubbed: Run, tmp_path: Path) -> Path:
    for command, name in (("size", "one.json"), ("check", "many.json")):
        assert run_stubbed("DISAGGREGATED", command, "s.yaml", "--format", "json", "--out", name).returncode == 0
    return tmp_path


@pytest.mark.parametrize("file", ["one.json", "many.json"])
def test_a_saved_result_renders_as_the_command_did(saved: Path, run: Run, run_stubbed: Run, file: str) -> None:
    # pages have figures that a result holds only when it was written with --plot
    command, formats = ("size", FORMATS[:5]) if file == "one.json" else ("check", FORMATS)
    for shape in set(formats) - {"html"}:
        first = run_stubbed("DISAGGREGATED", command, "s.yaml", "--format", shape)
        again = run("render", file, "--format", shape)
        assert (again.returncode, again.stderr) == (0, "")
        assert again.stdout == first.stdout


def test_a_single_result_has_the_formats_of_checks(saved: Path, run: Run) -> None:
    for shape in ("junit", "sarif", "github"):
        assert "ttft.p99" in run("render", "one.json", "--format", shape).stdout or shape == "github"


@pytest.mark.parametrize("shape", ["junit", "sarif", "github"])
def test_formats_of_checks_are_not_of_size(run: Run, shape: str) -> None:
    assert run("size", "s.yaml", "--format", shape).returncode == 2


def test_render_replaces_neither_its_input_nor_anything_on_a_fault(saved: Path, run: Run) -> None:
    before = (saved / "one.json").read_bytes()
    assert run("render", "one.json", "--out", "one.json").returncode == 2
    assert (saved / "one.json").read_bytes() == before
    (saved / "page.html").write_text("old", encoding="utf-8")
    (saved / "bad.json").write_text("{}", encoding="utf-8")
    assert run("render", "bad.json", "--format", "html", "--out", "page.html").returncode == 2
    assert (saved / "page.html").read_text(encoding="utf-8") == "old"


@pytest.mark.parametrize("name", ["gone.json", ".", "s.yaml"])
def test_what_is_no_result_is_2(run: Run, tmp_path: Path, name: str) -> None:
    (tmp_path / "s.yaml").write_text("version: 1\n", encoding="utf-8")
    done = run("render", name)
    assert (done.returncode, done.stdout) == (2, "") and len(done.stderr.splitlines()) == 1


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    if isinstance(value, dict):
        return [path, *(place for key, item in value.items() for place in places(item, (*path, key)))]
    if isinstance(value, list):
        return [path, *(place for index, item in enumerate(value) for place in places(item, (*path, index)))]
    return [path]


@given(data=st.data())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_damaged_result_is_never_our_bug(
    data: st.DataObject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Any value of a result replaced by any other: it renders, or it is the file's fault."""
    import hand_plans

    from planner.review.document import document

    result = json.loads(json.dumps(document(hand_plans.INFEASIBLE)))
    place = data.draw(st.sampled_from(places(result)[1:]))
    holder = result
    for part in place[:-1]:
        holder = holder[part]
    holder[place[-1]] = data.draw(st.sampled_from([None, -1, 0.5, "x", [], {}, [1], {"a": 1}, True]))
    path = tmp_path / "r.json"
    path.write_text(json.dumps(result), encoding="utf-8")
    shape = data.draw(st.sampled_from(FORMATS))
    monkeypatch.setattr("sys.argv", ["planner", "render", str(path), "--format", shape])
    assert main() in (0, 2)
    capsys.readouterr()


def test_paths_are_from_the_root_of_the_repository(run_stubbed: Run, tmp_path: Path) -> None:
    """The scenario of the hand-built plan is chat.yaml beside the caller, in a folder of a repository."""
    import sys

    from running import STUBBED, run_process

    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True, env=environment({}))
    folder = tmp_path / "plans" / "eu"
    folder.mkdir(parents=True)
    command = [sys.executable, str(STUBBED), "INFEASIBLE", "check", "s.yaml", "--format", "sarif"]
    run = json.loads(run_process(command, folder, {}).stdout)["runs"][0]
    uris = {one["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for one in run["results"]}
    assert uris == {"plans/eu/chat.yaml"}


def test_github_adds_to_the_step_summary(run_stubbed: Run, tmp_path: Path) -> None:
    summary = tmp_path / "summary.md"
    summary.write_text("before\n", encoding="utf-8")
    done = run_stubbed("INFEASIBLE", "check", "s.yaml", "--format", "github", GITHUB_STEP_SUMMARY=str(summary))
    assert done.returncode == 1 and done.stdout.startswith("::error file=chat.yaml,title=")
    text = summary.read_text(encoding="utf-8")
    assert text.startswith("before\n<!-- planner:check -->") and "### planner check: FAIL" in text


def test_a_step_summary_that_cannot_be_written_is_2(run_stubbed: Run) -> None:
    done = run_stubbed("INFEASIBLE", "check", "s.yaml", "--format", "github", GITHUB_STEP_SUMMARY="no/such/file")
    assert done.returncode == 2 and "GITHUB_STEP_SUMMARY cannot be written" in done.stderr
