"""`--currency`: everything that people read says it, everything that programs read refuses it."""

from __future__ import annotations

from pathlib import Path

import hand_plans
import pytest
from inside import Program

from planner.render.json import to_json
from planner.review.currency import Currency, converted
from planner.review.document import document


@pytest.fixture
def saved(program: Program, tmp_path: Path) -> Program:
    (tmp_path / "r.json").write_text(to_json(document(hand_plans.DISAGGREGATED)), encoding="utf-8")
    return program


@pytest.mark.parametrize("shape", ["table", "markdown", "html"])
def test_money_for_people_is_in_it(saved: Program, shape: str) -> None:
    done = saved("render", "r.json", "--format", shape, "--currency", "EUR=2", *(["-v"] if shape == "table" else []))
    assert done.code == 0
    assert "62.00 EUR/h" in done.out and "USD" not in done.out  # 124 USD/h at 2 USD each


@pytest.mark.parametrize("shape", ["json", "csv", "yaml", "junit", "sarif", "github"])
def test_names_for_programs_stay(saved: Program, shape: str) -> None:
    done = saved("render", "r.json", "--format", shape, "--currency", "EUR=2")
    assert (done.code, done.out) == (2, "")
    assert done.err == f"--currency: {shape} has USD in its names; EUR is for table, markdown, html\n"


def test_out_tells_it_too(saved: Program) -> None:
    done = saved("render", "r.json", "--currency", "EUR=2", "--out", "r.txt")
    assert "62.00 EUR/h" in done.err and "USD" not in done.err


def test_amounts_by_name_and_by_unit_and_quotes_left_alone() -> None:
    found = converted(
        {
            "extra_usd_per_hour": 3.0, "usd_per_hour_without": 4.0, "usd_per_mtok": {"input": 1.0}, "accelerators": 8,
            "checks": [{"unit": "USD/h", "value": 10.0, "limit": 20.0, "interval": [8.0, 12.0], "reference": 6.0,
                        "delta": 4.0, "delta_fraction": 0.5}],
            "limits": [{"unit": "s", "value": 1.0, "limit": 2.0}],
            "source": "a rack for 3.1M USD", "priced": None, "holds": True,
        },
        Currency("EUR", 2.0),
    )  # fmt: skip
    assert found == {
        "extra_usd_per_hour": 1.5, "usd_per_hour_without": 2.0, "usd_per_mtok": {"input": 0.5}, "accelerators": 8,
        "checks": [{"unit": "USD/h", "value": 5.0, "limit": 10.0, "interval": [4.0, 6.0], "reference": 3.0,
                    "delta": 2.0, "delta_fraction": 0.5}],
        "limits": [{"unit": "s", "value": 1.0, "limit": 2.0}],
        "source": "a rack for 3.1M US dollars", "priced": None, "holds": True,
    }  # fmt: skip
