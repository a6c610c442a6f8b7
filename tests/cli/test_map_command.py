"""`planner map` as people call it."""

from __future__ import annotations

import csv
import io
import json
from importlib.util import find_spec
from pathlib import Path
from xml.etree import ElementTree

import pytest
from running import ROOT, Run

pytestmark = pytest.mark.slow  # each runs whole searches through the command line

EXAMPLE = str(ROOT / "docs" / "examples" / "qwen3-32b-fp8.yaml")
AXES = ("--x", "input_tokens=500..8000:4", "--y", "rate=2/s..50/s:3")


def test_a_picture_of_letters(run: Run) -> None:
    done = run("map", EXAMPLE, *AXES)
    assert done.returncode == 0 and done.stderr == ""
    assert "load [requests/s]" in done.stdout and "mean prompt [tokens]" in done.stdout and "= is a tie" in done.stdout


def test_json_and_csv_hold_every_cell(run: Run) -> None:
    document = json.loads(run("map", EXAMPLE, *AXES, "--format", "json").stdout)
    assert set(document["axes"]) == {"x", "y"} and len(document["cells"]) == 12
    assert document["axes"]["x"]["values"][0] == document["cells"][0]["x"] == 500.0
    rows = list(csv.DictReader(io.StringIO(run("map", EXAMPLE, *AXES, "--format", "csv").stdout)))
    assert [row["winner"] for row in rows] == [cell["winner"] or "" for cell in document["cells"]]


def test_the_same_question_gives_the_same_bytes(run: Run) -> None:
    first, second = (run("map", EXAMPLE, *AXES, "--format", "svg").stdout for _ in range(2))
    assert first == second
    ElementTree.fromstring(first)


def test_facets_are_maps_of_their_own(run: Run, tmp_path: Path) -> None:
    cut = ("--facet", "accelerator=h100-sxm,h200-sxm")
    document = json.loads(run("map", EXAMPLE, *AXES, *cut, "--format", "json", "--plot", "map.svg").stdout)
    assert [one["facet"]["accelerator"] for one in document["facets"]] == ["h100-sxm", "h200-sxm"]
    assert all(len(one["cells"]) == 12 for one in document["facets"])
    drawn = (tmp_path / "map.svg").read_text(encoding="utf-8")
    ElementTree.fromstring(drawn)
    assert drawn.count("one pool or two?") == 4  # a title and a heading each
    page = run("map", EXAMPLE, *AXES, *cut, "--format", "html").stdout
    assert page.startswith("<!DOCTYPE html>") and page.count("<svg ") == 4  # for screens and for phones


def test_a_term_can_be_left_out(run: Run) -> None:
    document = json.loads(run("map", EXAMPLE, *AXES, "--without", "transfer", "--format", "json").stdout)
    assert document["without"] == ["transfer"]


def test_png_needs_matplotlib_and_says_so(run: Run, tmp_path: Path) -> None:
    done = run("map", EXAMPLE, *AXES, "--plot", "map.png")
    if find_spec("matplotlib") is None:
        assert done.returncode == 2 and "planner[plot]" in done.stderr and not (tmp_path / "map.png").exists()
    else:
        assert done.returncode == 0 and (tmp_path / "map.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--x", "input_tokens=9..1", "--y", "rate=1/s..2/s"), "is reversed"),
        (("--x", "inputs=1..9", "--y", "rate=1/s..2/s"), "not a quantity a map can vary"),
        (("--x", "input_tokens=1..9:2000", "--y", "rate=1/s..2/s:2000"), "--yes"),
        (("--x", "price_ratio=1..2", "--y", "rate=1/s..2/s"), "different accelerators"),
        ((*AXES, "--without", "transfers"), 'did you mean "transfer"'),
        ((*AXES, "--facet", "engine=vllm"), "no facet"),
        ((*AXES, "--facet", "accelerator=h1000"), "is not known"),
        ((*AXES, "--facet", "model="), "at least one value"),
        ((*AXES, "--plot", "map.pdf"), "known: .svg, .png, .html, .txt"),
    ],
)
def test_bad_input_is_exit_code_2_with_the_fix(run: Run, arguments: tuple[str, ...], said: str) -> None:
    done = run("map", EXAMPLE, *arguments)
    assert done.returncode == 2 and said in done.stderr and "Traceback" not in done.stderr
    assert done.stdout == ""


def test_three_axes_are_one_too_many(run: Run) -> None:
    assert run("map", EXAMPLE, *AXES, "--z", "itl=1ms..2ms").returncode == 2
    twice = run("map", EXAMPLE, *AXES, "--x", "itl=1ms..2ms:2")
    assert twice.returncode == 2 and "a map has two" in twice.stderr
