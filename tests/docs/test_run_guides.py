"""Guides and the README whose blocks run as they stand, one after the other, in a folder with the examples' data."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from excerpts import ROOT

GUIDES = ("size.md", "calibrate.md", "own-hardware.md", "own-model.md")
SHELL = 'set -eo pipefail\nplanner() { "$PYTHON" -m planner "$@"; }\n'


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def run_blocks(found: list[str], folder: Path) -> None:
    done = subprocess.run(
        ["bash", "-c", SHELL + "".join(found)],
        cwd=folder,
        env={**os.environ, "PYTHON": sys.executable, "PYTHONPATH": str(ROOT), "LC_ALL": "C.UTF-8"},
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
    assert done.returncode == 0, done.stderr
    assert "FEASIBLE" in done.stdout


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("bash") is None, reason="the blocks are shell")
@pytest.mark.parametrize("name", GUIDES)
def test_every_block_runs(name: str, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "docs" / "examples" / "data", tmp_path / "data")
    run_blocks(blocks(ROOT / "docs" / "guides" / name, "bash"), tmp_path)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("bash") is None, reason="the blocks are shell")
def test_the_first_commands_of_the_readme_run(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "docs" / "examples" / "data" / "qwen3-8b", tmp_path / "my-model")
    install, *more = blocks(ROOT / "README.md", "sh")
    assert install.startswith("make demo") and "planner size" in more[0]
    run_blocks(more, tmp_path)
