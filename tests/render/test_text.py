"""Columns, bars and values."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.render.inputs import field_text
from planner.render.text import Cell, Pen, columns, name_text, percent_text, seconds_text, value_text


def test_columns_are_as_wide_as_their_content() -> None:
    lines = columns([["a", "1"], ["longer", "100"]], "lr", Pen(width=1))
    assert lines == ["  a         1", "  longer  100"]


def test_last_column_wraps_under_itself() -> None:
    lines = columns([["name", "four words of prose that run on and on"]], "lw", Pen(width=28))
    assert lines == ["  name  four words of prose that run on", "        and on"]  # never under 32 columns of prose


def test_no_rows_no_lines() -> None:
    assert columns([], "ll", Pen()) == []


def test_tone_pads_before_it_paints() -> None:
    lines = columns([[Cell("ok", "good"), "x"], ["MISSED", "y"]], "ll", Pen(color=True))
    assert lines[0] == "  \x1b[32mok    \x1b[0m  x"


@given(st.floats(-2, 3), st.integers(1, 60))
def test_bar_never_passes_its_columns(fraction: float, width: int) -> None:
    for unicode in (True, False):
        bar = Pen(unicode=unicode).bar(fraction, width)
        assert len(bar) <= width
        assert fraction <= 1 or len(bar) == width


def test_bar_of_unknown_is_empty() -> None:
    assert Pen().bar(None) == ""
    assert Pen(unicode=False).bar(0.5, 10) == "#####"
    assert Pen().bar(0.53, 10) == "█████▎"  # 42.4 eighths: 5 whole and 2


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.8, "s", "800 ms"),
        (141e9, "bytes", "141.0 GB"),
        (0.25, "1", "25.0%"),
        (64.0, "accelerators", "64 accelerators"),
        (12.0, "USD/h", "12.00 USD/h"),
        (None, "s", "-"),
    ],
)
def test_value_text(value: float | None, unit: str, text: str) -> None:
    assert value_text(value, unit) == text


def test_missing_latency_is_unbounded() -> None:
    assert seconds_text(None) == "unbounded"


def test_percent() -> None:
    assert (percent_text(0.113, sign=True), percent_text(-0.5, sign=True), percent_text(None)) == ("+11%", "-50%", "-")


@pytest.mark.parametrize(
    ("name", "text"),
    [("ttft_s", "TTFT"), ("p99_9", "p99.9"), ("kv_bytes", "KV"), ("first_steps", "first steps")],
)
def test_name_text(name: str, text: str) -> None:
    assert name_text(name) == text


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("memory_bytes_per_s", 4.8e12, "4.80 TB/s"),
        ("usd_per_hour.rent3y", 1.6, "1.60 USD/h"),
        ("host_step_s", 9e-5, "90.0 us"),
        ("compute_factor", 1.08, "1.08"),
        ("max_batch", 1024, "1,024"),
        ("basis", "total", "total"),
    ],
)
def test_field_text_takes_the_unit_from_the_name(name: str, value: float | str, text: str) -> None:
    assert field_text(name, value) == text


NARROW = Pen(40, unicode=False, table_width=40)


def test_a_wide_table_is_folded_into_parts_that_repeat_their_first_column() -> None:
    rows = [["", "mean", "p99"], ["TTFT", "1" * 20, "2" * 20], ["ITL", "3" * 20, "4" * 20]]
    assert columns(rows, "lrr", NARROW) == [
        "                        mean",
        f"  TTFT  {'1' * 20}",
        f"  ITL   {'3' * 20}",
        "                         p99",
        f"  TTFT  {'2' * 20}",
        f"  ITL   {'4' * 20}",
    ]
    assert max(map(len, columns(rows, "lrr", Pen(40)))) > 40  # a file or a pipe keeps its lines whole


def test_prose_goes_below_where_it_has_no_room_beside() -> None:
    assert columns([["name", "12.3 ms", "one two three four five six seven"]], "lrw", NARROW) == [
        "  name  12.3 ms",
        "    one two three four five six seven",
    ]
    cells = [["x" * 25, "y" * 15, "why"]]
    assert columns(cells, "llw", NARROW) == ["  " + "x" * 25, "    " + "y" * 15 + "  why"]


@given(
    st.lists(st.lists(st.text("ab ", max_size=30), min_size=3, max_size=3), min_size=1, max_size=5),
    st.integers(40, 120),
)
def test_folding_loses_nothing(rows: list[list[str]], width: int) -> None:
    for align in ("lrr", "llw"):
        lines = columns(rows, align, Pen(width, table_width=width))
        assert Counter("".join("".join(row) for row in rows).replace(" ", "")) - Counter("".join(lines)) == Counter()
