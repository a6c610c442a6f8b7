"""Whole reports by their bytes. After a wanted change, `python tests/render/test_golden.py` writes them anew."""

from __future__ import annotations

from pathlib import Path

import hand_plans
import pytest

from planner.render.table import to_text
from planner.review.document import document

GOLDEN = Path(__file__).with_name("golden")
REPORTS = {
    "disaggregated.txt": ("DISAGGREGATED", {"detail": True}),
    "colocated.txt": ("COLOCATED", {"unicode": False, "width": 80}),
    "infeasible.txt": ("INFEASIBLE", {}),
    "nothing_fits.txt": ("NOTHING_FITS", {}),
}


def report(name: str) -> str:
    plan, options = REPORTS[name]
    return to_text(document(getattr(hand_plans, plan)), **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", REPORTS)
def test_report_is_what_it_was(name: str) -> None:
    assert report(name) == (GOLDEN / name).read_text(encoding="utf-8")


if __name__ == "__main__":
    for name in REPORTS:
        (GOLDEN / name).write_text(report(name), encoding="utf-8")
