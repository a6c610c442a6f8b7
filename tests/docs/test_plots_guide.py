"""docs/guides/plots.md: its commands draw what they say, its pictures are of today's program."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from excerpts import ROOT

from planner.cli.size import SIZE_KINDS

sys.path.insert(0, str(ROOT / "tools"))

import build_plots

GUIDE = ROOT / "docs" / "guides" / "plots.md"
NUMBER = re.compile(r"\d[\d.,]*")


def lines() -> list[str]:
    blocks = re.findall(r"^```sh\n(.*?)^```$", GUIDE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    return [line for block in blocks for line in block.splitlines()]


def words(svg: str) -> set[str]:
    """What a picture says, without its numbers."""
    texts = ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")
    return {NUMBER.sub("#", text.text or "") for text in texts if not (text.text or "").startswith("planner ")}


def test_the_guide_names_every_kind() -> None:
    named = set(re.findall(r"`([a-z]+)`", GUIDE.read_text(encoding="utf-8")))
    assert set(SIZE_KINDS) | {"curve", "tornado", "compare", "tiers", "reuse", "map", "weights"} <= named


@pytest.mark.slow
def test_the_commands_draw_what_they_say(tmp_path: Path) -> None:
    (tmp_path / "docs").symlink_to(ROOT / "docs", target_is_directory=True)
    env = {"PYTHONPATH": str(ROOT), "PYTHONUTF8": "1", "LC_ALL": "C.UTF-8", "PATH": ""}
    for line in lines():
        command = [sys.executable, "-m", *line.split()]
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=env, check=False, timeout=300)
        assert done.returncode in (0, 1) and "Traceback" not in done.stderr, (line, done.stderr)
        for name in re.findall(r"--(?:plot|out) ([\w.]+)", line):
            text = (tmp_path / name).read_text(encoding="utf-8")
            assert "\x00" not in text and text
            if name.endswith(".svg"):
                ElementTree.fromstring(text)


@pytest.mark.slow
def test_the_pictures_are_current() -> None:
    """By their words: numbers move with the constants, and the line under a picture says which they were."""
    for name, drawn in build_plots.pictures().items():
        kept = words((build_plots.TARGET / name).read_text(encoding="utf-8"))
        assert len(kept & words(drawn)) > 0.7 * len(kept), f"{name}: run python tools/build_plots.py"
