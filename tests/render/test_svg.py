"""Pictures: well-formed, deterministic, escaped, and nothing outside the frame."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import combinations
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.render.bars import Bar, Bars, bars_svg
from planner.render.crossover import areas
from planner.render.heat_map import Contour, Label, heat_map, level_lines
from planner.render.lines import Lines, Note, Rule, Series, Span, Zone, lines_svg
from planner.render.svg import Axis, Canvas, Entry, number, size_px, stacked, tick_text

SVG = "{http://www.w3.org/2000/svg}"
TOKENS = Axis("input", "tokens", 256.0, 131072.0, log=True)
RATE = Axis("rate", "requests/s", 1.0, 1000.0, log=True)
LENGTHS = [256.0, 2048.0, 16384.0, 131072.0]
RATES = [1.0, 10.0, 100.0, 1000.0]
FILLS = [["#0072b2", "#0072b2", "hatch:#777777:#ffffff", "#e69f00"]] * 4


LINES = Lines(
    "lines",
    TOKENS,
    RATE,
    [Series("one", [(300.0, 2.0), (900.0, None), (1000.0, 5.0), (2000.0, 7.0)]), Series("two", [(1e9, 2.0)])],
    zones=[Zone(2000.0, 1.0, "target < here")],
    rules=[Rule(500.0, "knee", upright=True), Rule(50.0, "a limit")],
    spans=[Span(300.0, 400.0, 2.0), Span(300.0, None, 10.0)],
    span_name="interval",
    notes=[Note(2048.0, 10.0, "here"), Note(2048.0, 10.5, "there"), Note(2050.0, 10.0, "and everywhere")],
)


def heat(narrow: bool = False) -> str:
    values = [[1.0, 2.0, 3.0, None]] * 4
    return heat_map(
        "a < b & c",
        TOKENS,
        RATE,
        LENGTHS,
        RATES,
        FILLS,
        [Entry("<wins>", "#0072b2"), Entry("nothing", "hatch:#777777:#ffffff")],
        contours=[Contour("2.5", level_lines(LENGTHS, RATES, values, 2.5))],
        labels=[Label(2048.0, 3.0, "here", 0.5), Label(2048.0, 3.0, "no room for so long a name", 0.1)],
        source="source & date",
        narrow=narrow,
    )


def narrow_heat() -> str:
    return heat(narrow=True)


def lines() -> str:
    return lines_svg(LINES)


def bars() -> str:
    return bars_svg(
        Bars(
            "bars",
            "cost",
            "USD/h",
            [
                Bar("a & b", [("prefill", 2.0), ("decode", 3.0)], limit=4.0),
                Bar("none", [], span=(0.0, 99.0)),
                Bar("a name that takes most of the width of the whole picture, and more", [("free", 1.0)]),
            ],
        )
    )


@pytest.mark.parametrize("draw", [heat, lines, bars])
def test_a_picture_is_one_well_formed_document_with_a_title_and_a_description(draw: object) -> None:
    text = draw()  # type: ignore[operator]
    root = ElementTree.fromstring(text)
    assert root.tag == f"{SVG}svg" and root.attrib["role"] == "img"
    assert root.find(f"{SVG}title").text and root.find(f"{SVG}desc").text  # type: ignore[union-attr]
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")  # nothing is fetched
    assert text == draw()  # type: ignore[operator]


@pytest.mark.parametrize("draw", [heat, narrow_heat, lines, bars])
def test_every_text_is_inside_the_picture_and_readable_at_half_size(draw: object) -> None:
    root = ElementTree.fromstring(draw())  # type: ignore[operator]
    texts = list(root.iter(f"{SVG}text"))
    assert texts
    for text in texts:
        assert 0.0 <= float(text.attrib["x"]) <= float(root.attrib["width"])
        assert 0.0 < float(text.attrib["y"]) <= float(root.attrib["height"])
        assert float(text.attrib["font-size"]) >= 15.0


def test_axis_titles_carry_units_and_ticks_have_labels() -> None:
    words = {text.text for text in ElementTree.fromstring(heat()).iter(f"{SVG}text")}
    assert {"input [tokens]", "rate [requests/s]", "1k", "100k", "source & date"} <= words


def test_areas_are_named_where_there_is_room() -> None:
    words = [text.text for text in ElementTree.fromstring(heat()).iter(f"{SVG}text")]
    assert words.count("here") == 2 and "no room for so long a name" not in words  # a rim below the letters


def test_an_area_is_named_at_its_middle() -> None:
    names = [["", "a", "a", "a", "a", "a", ""]] * 5
    (found,) = areas([float(2**n) for n in range(7)], [1.0, 2.0, 3.0, 4.0, 5.0], names)
    assert (found.x, found.y, found.text) == (8.0, 3.0, "a") and found.width == pytest.approx(5 / 7)
    assert areas([1.0, 2.0], [1.0, 2.0], [["a", "b"], ["b", "a"]]) == []  # too small to be named


def test_equal_neighbors_are_one_area() -> None:
    areas = re.findall(r'<rect x="[^>]*fill="#0072b2" stroke="none"', heat())
    assert len(areas) == len(RATES)


def test_a_line_breaks_where_there_is_no_value_and_outside_the_frame() -> None:
    """Of the first series a lone point and a line are left, of the second nothing."""
    assert lines().count('stroke="#0072b2" stroke-width="3"') == 1
    assert lines().count("<circle") == 1 + len(LINES.notes)
    leaves = replace(LINES, series=[Series("out", [(100.0, 2.0), (400.0, 2.0)], color="#123456")])
    points = re.search(r'points="([^"]*)" fill="none" stroke="#123456" stroke-width="3"', lines_svg(leaves))
    assert points is not None and points[1].startswith("84,")  # the left edge of the plot


def test_names_of_points_do_not_cover_each_other() -> None:
    boxes = []
    for text in ElementTree.fromstring(lines()).iter(f"{SVG}text"):
        if text.text in ("here", "there", "and everywhere", "knee", "a limit", "target < here"):
            x, y, size = (float(text.attrib[name]) for name in ("x", "y", "font-size"))
            width = 0.56 * size * len(text.text)
            left = x - {"start": 0.0, "middle": width / 2.0, "end": width}[text.attrib["text-anchor"]]
            boxes.append((text.text, left, y - size, left + width, y))
    assert len({name for name, *_ in boxes}) == 6
    for one, other in combinations(boxes, 2):
        apart = one[3] <= other[1] or other[3] <= one[1] or one[4] <= other[2] or other[4] <= one[2]
        assert apart or one[0] == other[0], (one, other)


def test_pictures_are_stacked_by_their_own_heights() -> None:
    whole = ElementTree.fromstring(stacked([lines(), bars(), heat()]))
    inner = list(whole.iter(f"{SVG}svg"))[1:]
    height = size_px(bars())[1]
    assert [float(one.attrib["y"]) for one in inner] == [0.0, 640.0, 640.0 + height]
    assert size_px(stacked([lines(), bars()]))[1] == 640.0 + height
    ids = re.findall(r' id="([^"]*)"', stacked([lines(), lines()]))
    assert len(ids) == len(set(ids))


def test_ticks_of_axes() -> None:
    assert Axis("", "", 0.0, 140.0).ticks() == [0.0, 20.0, 40.0, 60.0, 80.0, 100.0, 120.0, 140.0]
    assert TOKENS.ticks(6) == [300.0, 1000.0, 3000.0, 10000.0, 30000.0, 100000.0]
    assert Axis("", "", 1.0, 12.0, log=True).ticks() == [1.0, 2.0, 5.0, 10.0]


@given(st.floats(1e-6, 1e6), st.floats(1.001, 1e9), st.booleans())
def test_ticks_are_few_ascending_and_inside(low: float, factor: float, log: bool) -> None:
    axis = Axis("", "", low, low * factor, log)
    ticks = axis.ticks()
    assert 1 <= len(ticks) <= 9 and ticks == sorted(ticks)
    assert all(low * (1 - 1e-6) <= tick <= low * factor * (1 + 1e-6) for tick in ticks)


@pytest.mark.parametrize(("low", "high", "log"), [(1.0, 1.0, False), (2.0, 1.0, False), (0.0, 1.0, True)])
def test_an_axis_without_extent_is_refused(low: float, high: float, log: bool) -> None:
    with pytest.raises(ValueError, match="axis"):
        Axis("x", "s", low, high, log)


def test_texts_of_numbers() -> None:
    assert [tick_text(value) for value in (0.0, 0.05, 250.0, 4000.0, 1.5e6)] == ["0", "0.05", "250", "4k", "1.5M"]
    assert [number(value) for value in (-0.001, 1.0, 2.345, 3.10)] == ["0", "1", "2.35", "3.1"]


def test_a_contour_lies_where_the_value_is() -> None:
    """On log axes a value that grows with log x passes 2.5 half way, in log x, between its grid values 2 and 3."""
    found = level_lines(LENGTHS, RATES, [[1.0, 2.0, 3.0, 4.0]] * 4, 2.5)
    assert len(found) == 1 and len(found[0]) == 4
    assert all(abs(x - (2048.0 * 16384.0) ** 0.5) < 1e-6 for x, _ in found[0])
    assert level_lines(LENGTHS, RATES, [[1.0, None, 3.0, 4.0]] * 4, 1.5) == []


def test_text_is_escaped() -> None:
    canvas = Canvas("<t>", "d & e")
    canvas.text(1.0, 1.0, "a < b & c")
    canvas.text(1.0, 1.0, 'a "quote" \x07', halo=True)
    assert ElementTree.fromstring(canvas.document()).findall(f"{SVG}text")[-1].text == 'a "quote" \ufffd'
    assert "a &lt; b &amp; c" in canvas.document() and '<title id="title">&lt;t&gt;' in canvas.document()
