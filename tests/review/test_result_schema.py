"""The result schema: every kind of result validates in both drafts, and what is no result does not."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import drawn_results
import hand_plans
import pytest
from jsonschema import Draft7Validator, Draft202012Validator
from jsonschema.protocols import Validator

from planner.cli.reading import computed
from planner.files.catalog_schema import as_draft
from planner.review.document import document, gate_document
from planner.review.result_schema import result_schema

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "docs" / "examples").glob("*.yaml"))
PLANS = ("DISAGGREGATED", "COLOCATED", "INFEASIBLE", "NOTHING_FITS")


@pytest.fixture(scope="module", params=["7", "2020-12"])
def validator(request: pytest.FixtureRequest) -> Validator:
    kind: Any = Draft7Validator if request.param == "7" else Draft202012Validator
    schema = as_draft(result_schema(), request.param)
    kind.check_schema(schema)
    assert ("$defs" in schema) == (request.param != "7") and ("definitions" in schema) == (request.param == "7")
    found: Validator = kind(schema)
    return found


def errors(validator: Validator, value: Any) -> list[str]:
    return [f"{list(error.path)}: {error.message[:200]}" for error in validator.iter_errors(value)]


@pytest.mark.parametrize("plan", PLANS)
def test_results_are_valid(validator: Validator, plan: str) -> None:
    result = document(getattr(hand_plans, plan))
    assert errors(validator, result) == []
    assert errors(validator, gate_document([result], [], strict=False)) == []


def test_a_result_with_figures_is_valid(validator: Validator) -> None:
    assert errors(validator, drawn_results.result()) == []


@pytest.mark.slow
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_results_of_the_examples_are_valid(validator: Validator, path: Path) -> None:
    assert errors(validator, computed(path, ())) == []


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("schema_version",), 2),
        (("verdict",), "maybe"),
        (("plan", "accelerators"), 2.5),
        (("prediction", "ttft_s", "p99"), "fast"),
        (("inputs", "model", "sha256"), "abc"),
        (("limits", 0, "binding"), "yes"),
        (("notes",), [{"level": "loud", "text": ""}]),
    ],
)
def test_what_is_no_result_is_refused(validator: Validator, place: tuple[Any, ...], value: Any) -> None:
    result = copy.deepcopy(document(hand_plans.DISAGGREGATED))
    part: Any = result
    for name in place[:-1]:
        part = part[name]
    part[place[-1]] = value
    assert errors(validator, result)


@pytest.mark.parametrize("name", ["verdict", "plan", "prediction", "inputs", "kv", "alternatives"])
def test_what_is_missing_is_seen(validator: Validator, name: str) -> None:
    result = document(hand_plans.DISAGGREGATED)
    del result[name]
    assert errors(validator, result)


def test_there_are_two_drafts_only() -> None:
    with pytest.raises(ValueError, match="no draft 4"):
        as_draft(result_schema(), "4")
