"""Where a number comes from: what is shown as a formula gives the number, and every branch ends at a source."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hand_plans
import pytest
import small_scenarios as small

from planner import sizing
from planner.render.explain import explain_text, fields_text, formulas_text
from planner.render.text import Pen
from planner.review import explain, explain_rules
from planner.review.document import document
from planner.review.explain import UnknownField, explain_document, listed
from planner.review.formulas import formulas, joined_lines

Document = dict[str, Any]
EXACT = (
    "plan.accelerators", "plan.usd_per_hour", "usd_per_mtok.input", "usd_per_mtok.output", "energy.watts",
    "energy.joules_per_output_token", "prediction.ttft_s.mean", "prediction.e2e_s.mean",
    "prediction.output_tokens_per_s", "prediction.surplus_fraction",
)  # fmt: skip
QUESTIONS = {
    "disaggregated": small.scenario((small.boxes_of(2),), deployment=small.SPLIT),
    "chunked": small.scenario((small.boxes_of(2),), deployment=small.TOGETHER),
    "whole-prompt": small.scenario((small.boxes_of(2),), deployment=small.WHOLE),
    "experts": small.scenario(
        (small.boxes_of(4, "h200-sxm"),), "openai/gpt-oss-20b", weights="mxfp4", deployment=small.TOGETHER
    ),
}


@pytest.fixture(scope="module", params=[name for name in QUESTIONS if name != "experts"])
def result(request: pytest.FixtureRequest) -> Document:
    return document(sizing.evaluate(QUESTIONS[request.param]))


def nodes(tree: Document) -> Iterator[Document]:
    yield tree
    for part in tree["parts"]:
        yield from nodes(part)


def numbers(result: Document) -> list[str]:
    return [row["field"] for row in listed(result)]


def recomputed(result: Document, field: str) -> float:
    """A number from the parts that its explanation shows as a formula."""
    values = explain.flat(result)
    rule = explain_rules.rule_of(result, values, field)
    assert rule is not None and rule.compute is not None, field
    return rule.compute([float(values[part]) for part in rule.parts])


def test_the_parts_of_a_formula_give_its_number(result: Document) -> None:
    for field in EXACT:
        value = explain_document(result, field)["tree"]["value"]
        assert recomputed(result, field) == pytest.approx(value, rel=1e-9), field


def test_parts_of_a_first_token_in_separate_pools() -> None:
    result = document(sizing.evaluate(QUESTIONS["disaggregated"]))
    for field in ("prediction.ttft_parts_s.first_steps", "prediction.ttft_parts_s.front_end"):
        tree = explain_document(result, field)["tree"]
        assert tree["kind"] == "formula"
        assert recomputed(result, field) == pytest.approx(tree["value"], rel=1e-9)


def test_by_hand() -> None:
    """Two pools of h100 at 1.30 USD/h: 3 x 1 and 2 x 2 accelerators cost 7 x 1.30 = 9.10 USD/h."""
    result = document(sizing.evaluate(QUESTIONS["disaggregated"]))
    tree = explain_document(result, "usd_per_hour")["tree"]
    assert [part["value"] for part in tree["parts"]] == [3, 1.3, 4]  # the price once
    assert tree["value"] == pytest.approx(9.1)
    assert tree["formula"]["id"] == "cost.usd_per_hour"
    price = tree["parts"][1]
    assert price["kind"] == "catalog" and price["source"]["source"] and price["source"]["retrieved"]


def test_every_number_shown_is_that_of_the_result(result: Document) -> None:
    values = explain.flat(result)
    for field in numbers(result):
        tree = explain_document(result, field)["tree"]
        for node in nodes(tree):
            assert node["value"] == values[node["field"]]
            assert node["kind"] != "formula" or recomputed(result, node["field"]) == pytest.approx(node["value"])
            if not node["parts"] and node["field"].startswith("inputs."):
                assert node["source"] or not result["inputs"]["files"], node["field"]


def test_every_result_number_has_a_formula(result: Document) -> None:
    told = {row["field"]: row["formula"] for row in listed(result)}
    assert {field for field, formula in told.items() if formula is None and not field.startswith("inputs.")} == set()
    assert all(formula in formulas() for formula in told.values() if formula)
    for field in ("prediction.ttft_s.p99", "prediction.itl_s.p99", "plan.usd_per_hour", "kv.bytes_per_token"):
        assert told[field]


def test_every_formula_that_a_rule_names_stands_in_a_docstring() -> None:
    source = Path(explain_rules.__file__).read_text(encoding="utf-8")
    named = set(re.findall(r'Rule\(\s*"([a-z0-9_.]+)"', source)) | set(explain_rules._STEP_LAWS.values())
    named |= {f"{metric}.quantile" for metric in ("itl", "tpot")}
    named = {name for name in named if "{" not in name}
    assert named <= formulas().keys()
    assert formulas().keys() <= named
    assert all(formula.equation and formula.source for formula in formulas().values())


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("ttft.p99", "prediction.ttft_s.p99"),
        ("ttft_s.p99.9", "prediction.ttft_s.p99_9"),
        ("accelerators", "plan.accelerators"),
        ("usd_per_mtok_output", "usd_per_mtok.output"),
        ("watts", "energy.watts"),
        ("utilization.decode", "plan.decode.utilization"),
        ("requests_per_s", "inputs.workload.requests_per_s"),
        ("h100-sxm.memory_bytes_per_s", "inputs.accelerators[h100-sxm].values.memory_bytes_per_s.value"),
        ("surplus_fraction", "prediction.surplus_fraction"),
        ("prediction.ttft_parts_s.wait", "prediction.ttft_parts_s.wait"),
    ],
)
def test_names(name: str, field: str) -> None:
    result = document(sizing.evaluate(QUESTIONS["disaggregated"]))
    assert explain_document(result, name)["field"] == field


@pytest.mark.parametrize("name", ["ttft.p9", "", "plan", "prediction.ttft_s", "no such thing", "\x1b[0m"])
def test_unknown_names(name: str) -> None:
    with pytest.raises(UnknownField) as raised:
        explain_document(document(hand_plans.DISAGGREGATED), name)
    assert raised.value.known


@pytest.mark.parametrize("plan", ["DISAGGREGATED", "COLOCATED", "INFEASIBLE", "NOTHING_FITS"])
def test_any_result_can_be_explained(plan: str) -> None:
    result = document(getattr(hand_plans, plan))
    for field in numbers(result):
        found = explain_document(result, field)
        assert explain_text(found, Pen(60, unicode=False)).isascii()
        json.dumps(found, allow_nan=False)
    assert fields_text(listed(result), Pen())


def test_listing_without_a_result() -> None:
    text = formulas_text(listed(), Pen(80))
    assert "ttft.first_steps" in text and "FIDELITY §4" in text


def test_docstring_lines_are_joined() -> None:
    lines = joined_lines("Text.\n\nId: a.b.  x * y\n    + z  (Book 3)\n\nMore.")
    assert "Id: a.b.  x * y + z  (Book 3)" in lines
