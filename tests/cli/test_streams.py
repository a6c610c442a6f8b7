"""Pipes, files, terminals and encodings."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from inside import Program
from running import PATIENCE_S, STUBBED, Run, environment

FULL = Path("/dev/full")
LONG = ("DISAGGREGATED", "size", "s.yaml", "--format", "json")
WIDE = """\
version: 1
model: meta-llama/Llama-3.1-8B
engine: vllm
hardware: {accelerators: [h100-sxm]}
workload: {requests: 20 /s, input_tokens: {mean: 2000, p99: 8000}, output_tokens: 200}
targets: {ttft: {p99: 2 s}, itl: {p99: 50 ms}}
deployment:
  mode: disaggregated
  prefill: {accelerator: h100-sxm, replicas: 3}
  decode: {accelerator: h100-sxm, replicas: 2, max_batch: 128}
"""


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
    assert (process.wait(timeout=PATIENCE_S), error) == (0, b"")


def test_reader_that_leaves_the_help_page(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "planner", "size", "--help"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path, env=environment({})
    )
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    error = process.stderr.read()
    process.stderr.close()
    assert (process.wait(timeout=PATIENCE_S), error) == (0, b"")


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
            timeout=PATIENCE_S,
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
    head = Counter(["relaxed", "by"])  # of a column whose cells stand below their rows
    assert not Counter(wide.split()) - Counter(narrow.split()) - head  # a folded table repeats its first column
    assert set(wide.split()) - set(narrow.split()) == set(head)
    assert set(narrow.split()) <= set(wide.split())
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


def run_in_shell(script: str, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    """`$RUN PLAN ARGUMENT…` in a shell that can close and redirect streams."""
    env = environment({"RUN": f"{sys.executable} {STUBBED}"})
    return subprocess.run(
        ["sh", "-c", script], capture_output=True, text=True, cwd=tmp_path, env=env, timeout=PATIENCE_S
    )


@pytest.mark.parametrize("target", [".", "folder", "/", "no/folder/r.json", "file/r.json", "x" * 300, "to-nowhere/r"])
@pytest.mark.parametrize("command", ["size", "evaluate", "check", "simulate"])
def test_out_that_cannot_be_written_is_known_before_anything_runs(
    run_stubbed: Run, tmp_path: Path, command: str, target: str
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("kept", encoding="utf-8")
    (tmp_path / "to-nowhere").symlink_to(tmp_path / "gone")
    done = run_stubbed("BUG", command, "s.yaml", "--out", target)
    assert (done.returncode, done.stdout) == (2, "")
    assert "cannot be written" in done.stderr and len(done.stderr.splitlines()) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder", "to-nowhere"]


def test_out_never_replaces_the_scenario(run_stubbed: Run, tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text("mine", encoding="utf-8")
    (tmp_path / "link.yaml").symlink_to("s.yaml")
    for target in ("s.yaml", "./s.yaml", "link.yaml", str(tmp_path / "s.yaml")):
        done = run_stubbed("DISAGGREGATED", "size", "s.yaml", "--out", target)
        assert done.returncode == 2 and "is read by this command" in done.stderr
    assert (tmp_path / "s.yaml").read_text(encoding="utf-8") == "mine"


def test_out_follows_links_and_keeps_permissions(run_stubbed: Run, tmp_path: Path) -> None:
    (tmp_path / "real.json").write_text("old", encoding="utf-8")
    (tmp_path / "real.json").chmod(0o640)
    (tmp_path / "link.json").symlink_to("real.json")
    assert run_stubbed(*LONG, "--out", "link.json").returncode == 0
    assert (tmp_path / "link.json").is_symlink()
    assert json.loads((tmp_path / "real.json").read_text(encoding="utf-8"))["verdict"] == "feasible"
    assert (tmp_path / "real.json").stat().st_mode & 0o777 == 0o640


def test_out_through_a_link_to_a_new_file(run_stubbed: Run, tmp_path: Path) -> None:
    (tmp_path / "link.json").symlink_to("new.json")
    assert run_stubbed(*LONG, "--out", "link.json").returncode == 0
    assert (tmp_path / "link.json").is_symlink() and (tmp_path / "new.json").is_file()


@pytest.mark.parametrize("redirect", ["", "> caught", ">> caught", "| cat"])
def test_out_to_stdout_is_written_through(tmp_path: Path, redirect: str) -> None:
    (tmp_path / "caught").write_text("before\n", encoding="utf-8")
    done = run_in_shell(f"$RUN {' '.join(LONG)} --out /dev/stdout {redirect}", tmp_path)
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "caught").read_text(encoding="utf-8") if "caught" in redirect else done.stdout
    assert json.loads(text.removeprefix("before\n"))["verdict"] == "feasible"
    assert text.startswith("before") is (redirect == ">> caught")


def test_out_that_is_a_loop_of_links(run_stubbed: Run, tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    done = run_stubbed("BUG", "size", "s.yaml", "--out", "a")
    assert done.returncode == 2 and os.strerror(errno.ELOOP) in done.stderr
    assert (tmp_path / "a").is_symlink() and (tmp_path / "b").is_symlink()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_out_that_may_not_be_written(run_stubbed: Run, tmp_path: Path) -> None:
    (tmp_path / "kept.json").write_text("old", encoding="utf-8")
    (tmp_path / "kept.json").chmod(0o444)
    (tmp_path / "shut").mkdir(mode=0o555)
    for target in ("kept.json", "shut/r.json"):
        done = run_stubbed("BUG", "size", "s.yaml", "--out", target)
        assert done.returncode == 2 and os.strerror(errno.EACCES) in done.stderr


def test_out_to_a_device_leaves_the_device(run_stubbed: Run) -> None:
    assert run_stubbed(*LONG, "--out", os.devnull).returncode == 0
    assert not Path(os.devnull).is_file()


def test_out_to_a_pipe_reaches_its_reader(tmp_path: Path) -> None:
    done = run_in_shell(f"mkfifo p; cat p > caught & $RUN {' '.join(LONG)} --out p; wait", tmp_path)
    assert done.returncode == 0 and (tmp_path / "p").is_fifo()
    assert json.loads((tmp_path / "caught").read_text(encoding="utf-8"))["verdict"] == "feasible"


@pytest.mark.skipif(not FULL.exists(), reason="needs a device that is always full")
def test_out_to_a_full_device(run_stubbed: Run) -> None:
    done = run_stubbed(*LONG, "--out", str(FULL))
    assert done.returncode == 2 and os.strerror(errno.ENOSPC) in done.stderr and len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ("size s.yaml", 2),
        ("size s.yaml -qq", 0),
        ("size s.yaml --out r.txt", 0),
        ("check s.yaml --format json", 2),
        ("--version", 0),
        ("--help", 0),
        ("size --help", 0),
        ("hardware list", 2),
    ],
)
def test_closed_stdout_is_no_bug(tmp_path: Path, arguments: str, code: int) -> None:
    done = run_in_shell(f"$RUN DISAGGREGATED {arguments} >&-", tmp_path)
    assert done.returncode == code, done.stderr
    assert ("standard output is closed" in done.stderr) is (code == 2)


@pytest.mark.parametrize("closed", ["2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("arguments", ["DISAGGREGATED size s.yaml", "DISAGGREGATED size --nope", "BUG size s.yaml"])
def test_closed_streams_end_in_a_code(tmp_path: Path, closed: str, arguments: str) -> None:
    wanted = 2 if "--nope" in arguments else 3 if "BUG" in arguments else 2 if ">&- 2" in closed else 0
    assert run_in_shell(f"$RUN {arguments} {closed}", tmp_path).returncode == wanted


def test_a_reader_that_leaves_keeps_the_verdict(tmp_path: Path) -> None:
    """`planner check | head -1` must not turn a failure into a success under pipefail."""
    script = "$RUN INFEASIBLE {} | true; echo ${{PIPESTATUS[0]}}"
    bash = subprocess.run(
        ["bash", "-c", script.format("check s.yaml --format json")],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment({"RUN": f"{sys.executable} {STUBBED}"}),
        timeout=PATIENCE_S,
    )
    assert (bash.stdout, bash.stderr) == ("1\n", "")


def test_quiet_twice_hides_faults_too(run: Run) -> None:
    done = run("size", "nope.yaml", "-qq")
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "")


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
    _, error = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, error) == (0, b"")
    assert (b"\x1b[" in shown) is colored
    assert b"FEASIBLE" in shown


def read_some(master: int) -> bytes:
    try:
        return os.read(master, 65536)
    except OSError:  # the other end has closed
        return b""


@pytest.mark.parametrize(
    "command",
    [
        ("whatif", "a.yaml"),
        ("check", "b.yaml", "a.yaml"),
        ("explain", "a.yaml", "ttft.p99"),
        ("diff", "b.yaml", "a.yaml"),
        ("render", "a.yaml"),
        ("trace", "show", "a.yaml"),
        ("validate", "a.yaml"),
        ("calibrate", "b.yaml", "--deployment", "a.yaml"),
        ("map", "a.yaml", "--x", "rate=1/s..2/s:2", "--y", "ttft=1s..2s:2"),
    ],
)
def test_no_command_replaces_what_it_reads(command: tuple[str, ...], program: Program) -> None:
    for name in ("a.yaml", "b.yaml"):
        (program.folder / name).write_text("not looked at\n", encoding="utf-8")
    done = program(*command, "--out", "a.yaml")
    assert (done.code, done.out) == (2, "")
    assert done.err == "a.yaml: is read by this command; give --out another file\n"
    assert (program.folder / "a.yaml").read_text(encoding="utf-8") == "not looked at\n"


@pytest.mark.parametrize("width", [60, 80, 200])
@pytest.mark.parametrize(
    "command", [("evaluate",), ("check",), ("compare",), ("whatif",), ("simulate", "--requests", "200")]
)
@pytest.mark.slow
def test_every_report_keeps_to_the_width_and_to_ascii(
    command: tuple[str, ...], width: int, run: Run, tmp_path: Path
) -> None:
    """Tables fold and prose wraps; only a title may be a little longer than the narrowest screen."""
    (tmp_path / "s.yaml").write_text(WIDE, encoding="utf-8")
    done = run(command[0], "s.yaml", *command[1:], COLUMNS=str(width), PYTHONIOENCODING="ascii", TERM="dumb")
    assert done.returncode in (0, 1) and done.stdout.isascii() and "\x1b" not in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= max(width, 80)


def test_small_matrices_keep_to_one_thread_unless_the_user_says_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    from planner.cli import main

    monkeypatch.setattr(sys, "argv", ["planner", "--version"])
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert main.main() == 0
    assert (os.environ["OPENBLAS_NUM_THREADS"], os.environ["OMP_NUM_THREADS"]) == ("1", "3")
