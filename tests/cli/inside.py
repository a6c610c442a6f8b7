"""Running the program in this process, for commands that need no process of their own."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from planner.cli.main import main


class Done(NamedTuple):
    code: int
    out: str
    err: str


class Program:
    """`planner` in a folder: `program("size", "s.yaml")`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], folder: Path) -> None:
        self.monkeypatch, self.capsys, self.folder = monkeypatch, capsys, folder
        monkeypatch.chdir(folder)
        monkeypatch.delenv("PLANNER_CONFIG", raising=False)

    def __call__(self, *arguments: str) -> Done:
        self.monkeypatch.setattr("sys.argv", ["planner", *arguments])
        code = main()
        out, err = self.capsys.readouterr()
        return Done(code, out, err)
