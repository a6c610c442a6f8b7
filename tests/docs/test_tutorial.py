"""The tutorial runs from top to bottom in a copy of the examples, and shows the scenario that it ships."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from excerpts import ROOT

PAGE = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
INSTALL, *COMMANDS = [block for kind, block in BLOCKS if kind == "sh"]
SHELL = 'set -e\nplanner() { "$PYTHON" -m planner "$@"; }\n'


def test_the_first_block_installs() -> None:
    assert INSTALL.startswith("make demo") and "planner size" not in INSTALL


def test_the_scenario_shown_is_the_one_that_ships() -> None:
    shipped = (ROOT / "docs" / "examples" / "tutorial" / "chat.yaml").read_text(encoding="utf-8")
    assert shipped in [block for kind, block in BLOCKS if kind == "yaml"]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("bash") is None, reason="the blocks are shell")
def test_every_other_block_runs(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "docs" / "examples", tmp_path / "docs" / "examples")
    done = subprocess.run(
        ["bash", "-c", SHELL + "".join(COMMANDS)],
        cwd=tmp_path,
        env={**os.environ, "PYTHON": sys.executable, "PYTHONPATH": str(ROOT), "LC_ALL": "C.UTF-8"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    kept = tmp_path / "my-plan"
    assert json.loads((kept / "plan.json").read_text(encoding="utf-8"))["verdict"] == "feasible"
    assert (kept / "plan.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert (kept / "launch" / "README.md").exists()
