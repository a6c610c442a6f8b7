"""How tests start the program in a process of its own."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[2]
STUBBED = Path(__file__).with_name("stubbed.py")

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
        command, capture_output=True, text=True, encoding="utf-8", cwd=cwd, env=environment(env), timeout=60
    )
