"""JSON output."""

from __future__ import annotations

import json
import math

import pytest

from planner.records import Plan
from planner.render.json import to_json
from planner.review.document import document


def test_reads_back_as_it_was(any_plan: Plan) -> None:
    result = document(any_plan)
    assert json.loads(to_json(result)) == result


def test_schema_version_leads_and_a_newline_ends(any_plan: Plan) -> None:
    text = to_json(document(any_plan))
    assert text.startswith('{\n  "schema_version": 1,')
    assert text.endswith("}\n") and text.isascii()


def test_refuses_what_json_cannot_hold() -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        to_json({"ttft_s": math.inf})
