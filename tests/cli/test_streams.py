"""Pipes, files, terminals and encodings."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from running import STUBBED, Run, environment

FULL = Path("/dev/full")
LONG = ("DISAGGREGATED", "size", "s.yaml", "--format", "json")


def test_reader_that_leaves_is_no_error(tmp_path: Path) -> None:
    """`planner size s.yaml | head -1`, with a reader that closes before anything is written."""
    command = [sys.executable, str(STUBBED), *LONG]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path, env=environment({})
    )
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    error = process.stderr.read()
    process.stderr.close()
    assert (process.wait(timeout=60), error) == (0, b"")


def test_reader_that_leaves_the_help_page(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "planner", "size", "--help"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path, env=environment({})
    )
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    error = process.stderr.read()
    process.stderr.close()
    assert (process.wait(timeout=60), error) == (0, b"")


@pytest.mark.skipif(not FULL.exists(), reason="needs a device that is always full")
def test_full_disk_is_said_once(tmp_path: Path) -> None:
    with FULL.open("w") as full:
        done = subprocess.run(
            [sys.executable, str(STUBBED), *LONG],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
            env=environment({}),
            timeout=60,
        )
    assert done.returncode == 2
    assert os.strerror(errno.ENOSPC) in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_no_escapes_off_a_terminal(run_stubbed: Run) -> None:
    assert "\x1b" not in run_stubbed("DISAGGREGATED", "size", "s.yaml", FORCE_COLOR="1").stdout


def test_ascii_stdout(run_stubbed: Run) -> None:
    done = run_stubbed("DISAGGREGATED", "size", "s.yaml", "-v", PYTHONIOENCODING="ascii")
    assert done.returncode == 0 and done.stdout.isascii()
    assert "3 replicas x TP4 = 12 h100-sxm" in done.stdout


def test_columns_wrap_prose_and_cut_nothing(run_stubbed: Run) -> None:
    narrow = run_stubbed("DISAGGREGATED", "size", "s.yaml", COLUMNS="50").stdout
    wide = run_stubbed("DISAGGREGATED", "size", "s.yaml", COLUMNS="250").stdout
    assert sorted(narrow.split()) == sorted(wide.split())
    assert narrow.count("\n") > wide.count("\n")


def test_json_is_the_result_document(run_stubbed: Run) -> None:
    done = run_stubbed(*LONG)
    result = json.loads(done.stdout)
    assert next(iter(result)) == "schema_version"
    assert result["plan"]["accelerators"] == 52


def test_same_bytes_twice(run_stubbed: Run) -> None:
    first, second = (run_stubbed(*LONG, PYTHONHASHSEED=seed).stdout for seed in ("1", "2"))
    assert first == second


def test_quiet_twice_says_nothing(run_stubbed: Run) -> None:
    done = run_stubbed("INFEASIBLE", "size", "s.yaml", "-qq")
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "")


def test_quiet_leaves_the_result(run_stubbed: Run) -> None:
    loud, quiet = (run_stubbed("DISAGGREGATED", "size", "s.yaml", *flags).stdout for flags in ((), ("-q",)))
    assert "Notes" in loud and "Notes" not in quiet
    assert quiet.startswith("FEASIBLE")


def test_out_writes_the_file_and_one_line_for_people(run_stubbed: Run, tmp_path: Path) -> None:
    done = run_stubbed(*LONG, "--out", "r.json")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.startswith("FEASIBLE  12 h100-sxm") and done.stderr.endswith("(r.json)\n")
    assert len(done.stderr.splitlines()) == 1
    assert json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))["verdict"] == "feasible"
    assert [path.name for path in tmp_path.iterdir()] == ["r.json"]


def test_out_that_cannot_be_written_leaves_nothing(run_stubbed: Run, tmp_path: Path) -> None:
    done = run_stubbed(*LONG, "--out", "no/such/folder/r.json")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("no/such/folder/r.json: cannot be written")
    assert list(tmp_path.iterdir()) == []


def test_out_that_is_a_folder_is_left_alone(run_stubbed: Run, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    done = run_stubbed(*LONG, "--out", "folder")
    assert done.returncode == 2 and "cannot be written" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


@pytest.mark.parametrize(
    ("env", "colored"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False), ({"NO_COLOR": ""}, True)]
)
def test_color_on_a_terminal(tmp_path: Path, env: dict[str, str], colored: bool) -> None:
    pty = pytest.importorskip("pty")
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, str(STUBBED), "DISAGGREGATED", "size", "s.yaml"],
        stdout=slave,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
        env=environment(env),
    )
    os.close(slave)
    shown = b""
    while chunk := read_some(master):
        shown += chunk
    os.close(master)
    _, error = process.communicate(timeout=60)
    assert (process.returncode, error) == (0, b"")
    assert (b"\x1b[" in shown) is colored
    assert b"FEASIBLE" in shown


def read_some(master: int) -> bytes:
    try:
        return os.read(master, 65536)
    except OSError:  # the other end has closed
        return b""
