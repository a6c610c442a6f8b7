"""Guides whose bash blocks run as they stand, one after the other, in a folder with the examples' data."""

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


def blocks(name: str) -> list[str]:
    text = (ROOT / "docs" / "guides" / name).read_text(encoding="utf-8")
    return re.findall(r"^```bash\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("bash") is None, reason="the blocks are shell")
@pytest.mark.parametrize("name", GUIDES)
def test_every_block_runs(name: str, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "docs" / "examples" / "data", tmp_path / "data")
    done = subprocess.run(
        ["bash", "-c", SHELL + "".join(blocks(name))],
        cwd=tmp_path,
        env={**os.environ, "PYTHON": sys.executable, "PYTHONPATH": str(ROOT), "LC_ALL": "C.UTF-8"},
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
    assert done.returncode == 0, done.stderr
    assert "FEASIBLE" in done.stdout
