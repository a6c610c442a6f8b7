"""How tests start the program in a process of its own."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[2]
STUBBED = Path(__file__).with_name("stubbed.py")

PATIENCE_S = 300  # a guard against hanging for ever: much more than anything takes on a busy machine

Run = Callable[..., subprocess.CompletedProcess[str]]


def environment(extra: dict[str, str]) -> dict[str, str]:
    """This process's environment without what changes output, and `extra`."""
    unwanted = ("NO_COLOR", "TERM", "COLUMNS", "PYTHONIOENCODING", "FORCE_COLOR")
    kept = {name: value for name, value in os.environ.items() if name not in unwanted}
    return {
        **kept,
        "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "tests"))),
        "PYTHONUTF8": "0",
        "LC_ALL": "C.UTF-8",
        "TERM": "xterm",
        **extra,
    }


def run_process(command: list[str], cwd: Path, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, capture_output=True, text=True, encoding="utf-8", cwd=cwd, env=environment(env), timeout=PATIENCE_S
    )


def opened_for_writing(fifo: Path, process: subprocess.Popen[str]) -> int:
    """The descriptor of a named pipe, once `process` or a child of it reads there; fails when it ends instead."""
    while process.poll() is None:
        try:
            return os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:  # nobody reads yet
            time.sleep(0.01)
    raise AssertionError(f"ended with {process.returncode} before it read {fifo.name}")
