"""`planner compare` as people call it."""

from __future__ import annotations

import csv
import io
import json

import pytest
from running import ROOT, Run

pytestmark = pytest.mark.slow  # each runs whole searches through the command line

EXAMPLE = str(ROOT / "docs" / "examples" / "qwen3-32b-fp8.yaml")


def test_table_names_the_cheapest_and_why(run: Run) -> None:
    done = run("compare", EXAMPLE)
    assert done.returncode == 0 and done.stderr == ""
    assert done.stdout.startswith("cheapest: ") and "Why" in done.stdout and "one accelerator only" in done.stdout


def test_json_csv_and_markdown_say_the_same(run: Run) -> None:
    document = json.loads(run("compare", EXAMPLE, "--format", "json").stdout)
    rows = list(csv.DictReader(io.StringIO(run("compare", EXAMPLE, "--format", "csv").stdout)))
    page = run("compare", EXAMPLE, "--format", "markdown").stdout
    assert [row["contender"] for row in rows] == [one["contender"] for one in document["contenders"]]
    assert f"| **{document['winner']}** |" in page
    for row, one in zip(rows, document["contenders"], strict=True):
        assert row["accelerators"] == str(one.get("accelerators") or "")


def test_nothing_fits_is_exit_code_1(run: Run) -> None:
    done = run("compare", str(ROOT / "docs" / "examples" / "infeasible.yaml"))
    assert done.returncode == 1 and done.stdout.startswith("NOTHING FITS")


@pytest.mark.parametrize("arguments", [("nowhere.yaml",), (EXAMPLE, "--format", "sarif")])
def test_bad_input_is_exit_code_2(run: Run, arguments: tuple[str, ...]) -> None:
    assert run("compare", *arguments).returncode == 2
