"""Whole reports by their bytes. After a wanted change, `python tests/render/test_golden.py` writes them anew."""

from __future__ import annotations

from pathlib import Path

import hand_plans
import pytest

from planner.render.table import to_text
from planner.render.text import Pen
from planner.review.document import document

GOLDEN = Path(__file__).with_name("golden")
REPORTS = {
    "disaggregated.txt": ("DISAGGREGATED", Pen(), True),
    "colocated.txt": ("COLOCATED", Pen(80, unicode=False), False),
    "infeasible.txt": ("INFEASIBLE", Pen(), False),
    "nothing_fits.txt": ("NOTHING_FITS", Pen(), False),
}


def report(name: str) -> str:
    plan, pen, detail = REPORTS[name]
    return to_text(document(getattr(hand_plans, plan)), pen, detail=detail)


@pytest.mark.parametrize("name", REPORTS)
def test_report_is_what_it_was(name: str) -> None:
    assert report(name) == (GOLDEN / name).read_text(encoding="utf-8")


if __name__ == "__main__":
    for name in REPORTS:
        (GOLDEN / name).write_text(report(name), encoding="utf-8")
