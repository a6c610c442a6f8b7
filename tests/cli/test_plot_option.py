"""`--plot`, which every command that draws takes in the same way."""

from __future__ import annotations

import json
import re
from importlib.util import find_spec
from pathlib import Path
from xml.etree import ElementTree

import drawn_results
import pytest
from inside import Program

import planner.files.scenario
import planner.review.figures
import planner.sizing
import planner.sizing.front
from planner.cli.size import SIZE_KINDS

TRACE = "TIMESTAMP,ContextTokens,GeneratedTokens\n2024-01-01 00:00:00,10,5\n2024-01-01 00:00:09,20,5\n"


@pytest.fixture
def program(program: Program, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Program:
    """`planner` with the same plan as the answer of `size` and `evaluate`, whatever is asked."""
    plan = drawn_results.plan()
    monkeypatch.setattr(planner.files.scenario, "load_scenario", lambda *_, **__: plan.scenario)
    for name in ("size", "evaluate"):
        monkeypatch.setattr(planner.sizing, name, lambda _: plan)
    monkeypatch.setattr(planner.review.figures, "figures_document", lambda *_: dict(drawn_results.figures()))
    monkeypatch.setattr(planner.sizing.front, "front", lambda _: drawn_results.points())
    (tmp_path / "s.yaml").write_text("version: 1\n", encoding="utf-8")
    return program


def test_every_ending_is_a_file_of_its_kind(program: Program, tmp_path: Path) -> None:
    done = program("size", "s.yaml", "--plot", "a.svg", "--plot", "a.html", "--plot", "a.txt", "-qq")
    assert (done.code, done.out) == (0, "")
    ElementTree.parse(tmp_path / "a.svg")
    page, letters = ((tmp_path / name).read_text(encoding="utf-8") for name in ("a.html", "a.txt"))
    assert page.startswith("<!DOCTYPE html>") and "<figure " in page
    assert "Memory of one accelerator" in letters and "█" in letters


def test_a_page_of_a_result_holds_its_pictures(program: Program) -> None:
    page = program("size", "s.yaml", "--format", "html").out
    assert re.findall('<figure id="([a-z]+)">', page) == list(SIZE_KINDS)
    assert "<h2>Pictures</h2>" in page


def test_one_kind_is_drawn_where_one_is_asked_for(program: Program, tmp_path: Path) -> None:
    assert program("evaluate", "s.yaml", "--plot", "a.svg", "--plot-kind", "memory").code == 0
    drawn = (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert "Memory of one accelerator" in drawn and "Mean TTFT" not in drawn


def test_the_screen_shows_figures_below_the_report(program: Program) -> None:
    done = program("size", "s.yaml", "--plot", "-", "--plot-kind", "ttft")
    report, _, drawn = done.out.rpartition("\n\n")
    assert "FEASIBLE" in report and "Mean TTFT, where it goes" in drawn and "total" in drawn


def test_a_file_is_replaced_as_out_replaces_it(program: Program, tmp_path: Path) -> None:
    (tmp_path / "a.svg").write_text("before", encoding="utf-8")
    assert program("size", "s.yaml", "--plot", "a.svg").code == 0
    assert (tmp_path / "a.svg").read_text(encoding="utf-8").startswith("<svg ")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--plot", "a.sgv"), 'did you mean ".svg"?'),
        (("--plot", "a"), "known: .svg, .png, .html, .txt"),
        (("--plot", "a.svg", "--plot-kind", "memry"), 'did you mean "memory"?'),
        (("--plot-kind", "memory"), "give --plot FILE as well"),
        (("--plot", "no/a.svg"), "No such file or directory"),
        (("--plot", "."), "is no picture"),
        (("--plot", "a.svg", "--plot", "a.svg"), "each file is written once"),
        (("--plot", "a.html", "--format", "html", "--out", "a.html"), "each file is written once"),
        (("--plot", "-", "--format", "json"), "the screen shows the json"),
    ],
)
def test_bad_input_is_exit_code_2_with_the_fix(program: Program, arguments: tuple[str, ...], said: str) -> None:
    done = program("size", "s.yaml", *arguments)
    assert (done.code, done.out) == (2, "") and said in done.err


def test_every_fault_is_said_at_once(program: Program) -> None:
    done = program("size", "s.yaml", "--plot", "a.gif", "--plot", "b.bmp", "--plot-kind", "x")
    assert done.code == 2 and all(name in done.err for name in ("a.gif", "b.bmp", '"x"'))


@pytest.mark.skipif(find_spec("matplotlib") is not None, reason="matplotlib is here")
def test_a_png_names_the_extra_that_is_missing(program: Program, tmp_path: Path) -> None:
    done = program("size", "s.yaml", "--plot", "a.png")
    assert done.code == 2 and "planner[plot]" in done.err and not (tmp_path / "a.png").exists()


def test_a_point_of_the_front_is_the_plan_where_it_is_picked(program: Program) -> None:
    listed = program("size", "s.yaml", "--front").out
    assert "What tighter and looser latency costs" in listed
    count = len(drawn_results.points())
    chosen = json.loads(program("size", "s.yaml", "--pick", str(count), "--format", "json").out)
    point = chosen["figures"]["front"][-1]
    assert point["is_plan"] and point["number"] == chosen["search"]["picked"] == count
    assert chosen["plan"]["accelerators"] == point["accelerators"]
    assert chosen["prediction"]["itl_s"]["p99"] == point["itl_s"]["p99"]


@pytest.mark.parametrize("number", ["0", "99", "-1"])
def test_a_pick_that_is_not_there_is_exit_code_2(program: Program, number: str) -> None:
    done = program("size", "s.yaml", "--pick", number)
    assert (done.code, done.out) == (2, "") and f"want 1 to {len(drawn_results.points())}" in done.err


def test_a_saved_result_is_drawn(program: Program, tmp_path: Path) -> None:
    program("size", "s.yaml", "--format", "json", "--out", "r.json")
    done = program("render", "r.json", "--plot", "a.svg", "-qq")
    assert done.code == 0 and done.err == "not drawn, for want of numbers: latency, load, roofline, front\n"
    ElementTree.parse(tmp_path / "a.svg")
    program("size", "s.yaml", "--format", "json", "--out", "r.json", "--plot", "b.svg")
    assert program("render", "r.json", "--plot", "a.svg", "-qq").err == ""
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    assert program("render", "r.json", "--plot", "r.json").code == 2


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("figures", "front", 0, "itl_s", "p99"), 1e308),
        (("figures", "operators", 0, "accelerator"), "none"),
        (("figures", "operators", 0, "flops_per_s"), None),
        (("figures", "load", "points"), 7),
        (("figures", "distributions", "ttft_s"), 5),
    ],
)
def test_a_damaged_result_is_a_fault_of_its_file(
    program: Program, tmp_path: Path, path: tuple[str | int, ...], value: object
) -> None:
    result = json.loads(json.dumps(drawn_results.result()))
    part = result
    for name in path[:-1]:
        part = part[name]
    part[path[-1]] = value
    (tmp_path / "r.json").write_text(json.dumps(result), encoding="utf-8")
    done = program("render", "r.json", "--plot", "a.svg")
    assert done.code == 2 and done.err.startswith("r.json: is no whole result") and not (tmp_path / "a.svg").exists()


@pytest.mark.parametrize(
    ("arguments", "title"),
    [
        (("hardware", "show", "h200-sxm"), "Roofline of h200-sxm"),
        (("model", "show", "openai/gpt-oss-120b"), "Weights of openai/gpt-oss-120b"),
        (("whatif", "s.yaml", "--vary", "load=0.5..1.5:3"), "Time to first token against load"),
    ],
)
def test_other_commands_draw_in_the_same_way(
    program: Program, tmp_path: Path, arguments: tuple[str, ...], title: str
) -> None:
    done = program(*arguments, "--plot", "a.svg", "--plot", "-")
    assert done.code in (0, 1) and title in done.out
    assert f">{title}</text>" in (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert program(*arguments, "--plot", "a.jpg").code == 2


def test_what_cannot_be_drawn_is_said(program: Program, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(TRACE, "utf-8")
    done = program("trace", "show", "t.csv", "--plot", "a.svg")
    assert (done.code, done.err) == (0, "not drawn, for want of numbers: reuse\n")
    assert not (tmp_path / "a.svg").exists()
    done = program("hardware", "show", "gb300-nvl72", "--plot", "a.svg")
    assert done.code == 2 and "give one of its accelerators" in done.err
