"""docs/checks.md says what the program does: every metric with its statistics, the bands, the formats."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest

from planner import metrics
from planner.cli.options import CheckFormat
from planner.files import checks
from planner.files.checks import parse
from planner.review.witness import band_fraction

PAGE = (Path(__file__).parents[2] / "docs" / "checks.md").read_text(encoding="utf-8")


def row(name: str) -> str:
    found = re.search(rf"^\| `?{re.escape(name)}`? \|.*$", PAGE, re.MULTILINE)
    assert found, f"{name} has no row"
    return found[0]


@pytest.mark.parametrize("name", metrics.ALL)
def test_every_metric_has_a_row_with_its_statistics(name: str) -> None:
    metric = metrics.ALL[name]
    assert all(f"`{metrics.written(statistic)}`" in row(name) for statistic in metric.statistics)
    assert metric.meaning in row(name)


@pytest.mark.parametrize("name", get_args(CheckFormat))
def test_every_format_has_a_row(name: str) -> None:
    assert row(name)


def test_the_grammar_is_that_of_the_reader() -> None:
    rules = re.findall(r"^\s*(\w+ +::= .*)$", str(checks.__doc__), re.MULTILINE)
    assert len(rules) == 5 and all(rule in PAGE for rule in rules)


def test_expressions_of_the_page_are_read() -> None:
    shown = re.findall(r"`((?:change\()?[a-z_]+(?:\.\w+)?\)? (?:<=|>=) [^`]+)`", PAGE)
    assert len(shown) >= 2
    for text in shown:
        assert parse(text).text == text


@pytest.mark.parametrize("metric", ["ttft", "itl", "tpot", "e2e"])
def test_bands_are_those_of_the_witness(metric: str) -> None:
    _, mean, quantiles = (cell.strip() for cell in row(metric.upper()).strip("|").split("|"))
    assert mean == f"{100 * band_fraction(metric, 'mean', 'disaggregated'):.0f} %"
    assert quantiles.startswith(f"{100 * band_fraction(metric, 'p99', 'disaggregated'):.0f} %")
