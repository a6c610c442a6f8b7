"""Every command of the questions page runs; the answer may be no, the input is never at fault."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from excerpts import ROOT

PAGE = (ROOT / "docs" / "faq.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```sh\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
COMMANDS = list(dict.fromkeys(line for block in BLOCKS for line in block.splitlines()))
NO = {"planner size docs/examples/infeasible.yaml"}


def run(line: str, tmp_path: Path) -> int:
    words = [str(tmp_path / word) if word == "launch" else word for word in shlex.split(line)[1:]]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "LC_ALL": "C.UTF-8"}
    done = subprocess.run(
        [sys.executable, "-m", "planner", *words],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        timeout=200,
        check=False,
    )
    return done.returncode


@pytest.mark.slow
@pytest.mark.parametrize("line", COMMANDS)
def test_a_command_answers(line: str, tmp_path: Path) -> None:
    assert run(line, tmp_path) == (1 if line in NO else 0)


@pytest.mark.parametrize("line", [line for line in COMMANDS if " model " in line or " hardware " in line])
def test_a_catalog_command_answers(line: str, tmp_path: Path) -> None:
    assert run(line, tmp_path) == 0


def test_every_question_has_an_answer() -> None:
    questions = re.findall(r"^\*\*[^*]+?\*\*(.*?)(?=^\*\*|^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert len(questions) >= 30 and all(answer.strip() for answer in questions)
