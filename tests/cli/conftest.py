"""Running the program as people do: in a process of its own, or in this one where that is as good."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from inside import Program
from running import STUBBED, Run, run_process


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Program:
    """`planner` in this process, in an empty folder."""
    return Program(monkeypatch, capsys, tmp_path)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run `planner` on real files."""

    def call(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
        return run_process([sys.executable, "-m", "planner", *arguments], tmp_path, env)

    return call


@pytest.fixture
def run_stubbed(tmp_path: Path) -> Run:
    """Run `planner` with a hand-built plan as the answer, whatever is asked."""

    def call(plan: str, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
        return run_process([sys.executable, str(STUBBED), plan, *arguments], tmp_path, env)

    return call
