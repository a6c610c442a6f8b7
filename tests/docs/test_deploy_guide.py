"""The guide from a plan to a running system: its commands run as they stand, one after the other."""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path

import pytest
from excerpts import ROOT

sys.path.insert(0, str(ROOT / "tests" / "cli"))

from running import run_process

GUIDE = ROOT / "docs" / "guides" / "deploy.md"
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def blocks(language: str) -> list[str]:
    return [block for kind, block in _FENCE.findall(GUIDE.read_text(encoding="utf-8")) if kind == language]


def commands() -> list[str]:
    return [line for block in blocks("sh") for line in block.splitlines() if line.startswith("planner ")]


@pytest.mark.slow
def test_the_guide_runs_from_top_to_bottom(tmp_path: Path) -> None:
    (tmp_path / "chat.yaml").write_text(blocks("yaml")[0], encoding="utf-8")
    shown = {}
    for line in commands():
        command, _, out = line.partition(" > ")
        done = run_process([sys.executable, "-m", "planner", *shlex.split(command)[1:]], tmp_path, {})
        assert done.returncode == 0, f"{line}: {done.stderr}"
        if out:
            (tmp_path / out).write_text(done.stdout, encoding="utf-8")
        shown[line] = done.stdout
    assert "`planner size` would change nothing" in shown["planner evaluate chat.yaml --from launch"]
    assert "inside the 80% interval" in shown["planner validate --result bench.json --plan chat.json"]
    imported = json.loads((tmp_path / "running.json").read_text())["imported"]
    assert imported["unread_options"] == [] and imported["size_would_change"] == []


@pytest.mark.parametrize("link", re.findall(r"\]\(([^)#]+)", GUIDE.read_text(encoding="utf-8")))
def test_links_lead_somewhere(link: str) -> None:
    assert (GUIDE.parent / link).resolve().exists()
