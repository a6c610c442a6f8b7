"""The notebooks run from the root of a clone and print what they say."""

from __future__ import annotations

import contextlib
import io
import os
import runpy
from pathlib import Path

import pytest
from excerpts import ROOT

pytestmark = pytest.mark.slow  # each runs whole searches through the command line

NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.py"))
SAYS = {
    "read_a_trace": "no cache finds more than",
    "size_a_scenario": "what binds:",
    "vary_the_load": "requests/s, targets aside",
}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path) -> None:
    before, shown = Path.cwd(), io.StringIO()
    os.chdir(ROOT)
    try:
        with contextlib.redirect_stdout(shown):
            runpy.run_path(str(path))
    finally:
        os.chdir(before)
    assert SAYS[path.stem] in shown.getvalue()


def test_notebooks_write_nothing() -> None:
    assert all("open(" not in path.read_text(encoding="utf-8") for path in NOTEBOOKS)
