"""Saved results as they are read back: whole, or refused by the part that is not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import hand_plans
import pytest

from planner.errors import InputError
from planner.files.results import load_result
from planner.render.html import to_html
from planner.render.json import to_json
from planner.review.document import document


def saved(folder: Path, **changes: Any) -> Path:
    path = folder / "result.json"
    path.write_text(json.dumps({**json.loads(to_json(document(hand_plans.COLOCATED))), **changes}), encoding="utf-8")
    return path


def test_a_result_comes_back_and_a_plan_may_be_null(tmp_path: Path) -> None:
    assert load_result(saved(tmp_path))["verdict"] == "feasible"
    assert load_result(saved(tmp_path, plan=None, prediction=None))["plan"] is None


@pytest.mark.parametrize("part", ["plan", "prediction", "limits", "checks"])
def test_a_part_of_another_shape_is_refused_by_name(tmp_path: Path, part: str) -> None:
    with pytest.raises(InputError, match=f"{part} is missing or damaged"):
        load_result(saved(tmp_path, **{part: "damaged"}))


def test_a_huge_interval_draws_finite_bars(tmp_path: Path) -> None:
    result = load_result(saved(tmp_path))
    checks = [{**line, "interval": [0.1, 1e308]} if line["kind"] == "limit" else line for line in result["checks"]]
    page = to_html({**result, "checks": checks})
    assert '="inf"' not in page and '="nan"' not in page
