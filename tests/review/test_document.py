"""The result document: shape, order, and that nothing unbounded reaches a reader as a number."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import hand_plans
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.records import Limit, Note, Plan
from planner.review.document import document
from planner.review.inputs import length_statistics

TOP = [
    "schema_version", "tool", "inputs", "verdict", "plan", "prediction", "limits", "kv", "usd_per_mtok", "cost",
    "energy",
    "memory_per_accelerator", "search", "resilience", "alternatives",
]  # fmt: skip


def leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for item in value.values():
            yield from leaves(item)
    elif isinstance(value, list):
        for item in value:
            yield from leaves(item)
    else:
        yield value


def test_top_level_names_in_order(any_plan: Plan) -> None:
    middle = ["nearest_miss"] if any_plan.verdict == "infeasible" else []
    assert list(document(any_plan)) == [*TOP, *middle, "notes", "checks"]


def test_only_plain_finite_values(any_plan: Plan) -> None:
    for leaf in leaves(document(any_plan)):
        assert leaf is None or type(leaf) in (str, bool, int, float)
        assert not isinstance(leaf, float) or math.isfinite(leaf)


def test_same_plan_same_bytes(any_plan: Plan) -> None:
    assert json.dumps(document(any_plan)) == json.dumps(document(replace(any_plan)))


def test_pools_of_a_disaggregated_plan(disaggregated_plan: Plan) -> None:
    plan = document(disaggregated_plan)["plan"]
    assert (plan["mode"], plan["accelerators"]) == ("disaggregated", 52)  # 3 * 4 + 5 * 8
    assert plan["prefill"]["accelerators"] == 12
    assert plan["decode"]["accelerators"] == 40
    assert plan["decode"]["max_batch"] == 128
    assert plan["decode"]["mean_batch"] == 38.4
    assert "max_batch" not in plan["prefill"]
    assert "colocated" not in plan


def test_one_pool_of_a_colocated_plan(colocated_plan: Plan) -> None:
    result = document(colocated_plan)
    assert result["plan"]["colocated"]["token_budget"] == 8192  # the engine's, the pool has none of its own
    assert "prefill" not in result["plan"] and "decode" not in result["plan"]
    assert list(result["memory_per_accelerator"]) == ["colocated"]
    assert result["kv"]["transfer"] is None
    assert result["plan"]["usd_per_hour"] is None and result["plan"]["price_basis"] is None
    assert result["usd_per_mtok"] == {"input": None, "cached_input": None, "output": None}


def test_missing_and_infinite_statistics_are_null(infeasible_plan: Plan) -> None:
    prediction = document(infeasible_plan)["prediction"]
    assert prediction["itl_s"]["p99"] is None
    assert prediction["ttft_s"]["p99_9"] is None
    assert prediction["requests_per_s_max"] is None
    assert prediction["intervals"]["ttft_s"]["p99_9"] == [None, None]
    assert list(prediction["ttft_s"]) == ["mean", "p50", "p90", "p95", "p99", "p99_9"]


def test_interval_holds_its_statistic(disaggregated_plan: Plan) -> None:
    prediction = document(disaggregated_plan)["prediction"]
    low, high = prediction["intervals"]["itl_s"]["p99"]
    assert low < prediction["itl_s"]["p99"] < high
    assert prediction["coverage"] == 0.8


def test_limits_tightest_first(infeasible_plan: Plan) -> None:
    limits = document(infeasible_plan)["limits"]
    assert [limit["name"] for limit in limits] == ["itl.p99", "ttft.p99", "decode.kv_tokens"]
    assert limits[0]["slack_fraction"] is None  # infinitely far beyond


def test_limit_without_a_slack_comes_last(disaggregated_plan: Plan) -> None:
    unknown = Limit("a", math.nan, 1.0, "s", math.nan, False, "")
    plan = replace(disaggregated_plan, limits=(unknown, *disaggregated_plan.limits))
    assert [limit["name"] for limit in document(plan)["limits"]][-1] == "a"


def test_nearest_miss_states_its_policy(infeasible_plan: Plan) -> None:
    miss = document(infeasible_plan)["nearest_miss"]
    assert [limit["name"] for limit in miss["missed"]] == ["itl.p99"]
    assert "no limit was relaxed" in miss["policy"]


def test_nothing_fits_has_no_plan_but_a_reason(nothing_fits_plan: Plan) -> None:
    result = document(nothing_fits_plan)
    assert result["plan"] is None and result["prediction"] is None
    assert result["memory_per_accelerator"] == {}
    assert result["nearest_miss"]["missed"][0]["name"] == "decode.weights_memory"
    assert result["kv"]["bytes_per_token"] == 163840.0  # known without a plan


def test_kv_of_llama_70b_in_fp8(disaggregated_plan: Plan) -> None:
    # 80 layers * 2 (K and V) * 8 heads * 128 elements * 1 byte = 163,840
    kv = document(disaggregated_plan)["kv"]
    assert kv["bytes_per_token"] == kv["bytes_per_token_beyond_window"] == 163840.0
    assert kv["demand_tokens"] == {"mean": 170000.0, "p99": 260000.0}


def test_memory_parts_sum_to_the_accelerator(disaggregated_plan: Plan) -> None:
    for parts in document(disaggregated_plan)["memory_per_accelerator"].values():
        used = sum(size for name, size in parts.items() if name != "capacity_bytes")
        assert used == pytest.approx(parts["capacity_bytes"], rel=1e-12)


def test_memory_is_never_negative(disaggregated_plan: Plan) -> None:
    """Parts that sum to the capacity leave nothing free, not minus a rounding error."""
    decode = replace(disaggregated_plan.prediction.decode, memory_bytes={"weights": 151.0e9 * (1 + 1e-15)})
    plan = replace(disaggregated_plan, prediction=replace(disaggregated_plan.prediction, decode=decode))
    assert document(plan)["memory_per_accelerator"]["decode"]["free_bytes"] == 0.0


def test_parts_are_named_without_the_unit_around_them(disaggregated_plan: Plan) -> None:
    prediction = document(disaggregated_plan)["prediction"]
    assert list(prediction["ttft_parts_s"]) == ["wait", "prefill", "transfer", "first_steps", "front_end"]
    assert sum(prediction["ttft_parts_s"].values()) == pytest.approx(prediction["ttft_s"]["mean"])


def test_inputs_name_every_file_and_source(disaggregated_plan: Plan) -> None:
    inputs = document(disaggregated_plan)["inputs"]
    assert inputs["files"] == [{"path": "chat.yaml", "sha256": "12" * 32}]
    assert [item["id"] for item in inputs["accelerators"]] == ["h100-sxm", "h200-sxm"]  # each once
    values = inputs["accelerators"][1]["values"]
    assert values["memory_bytes_per_s"] == {
        "value": 4.8e12, "source": "NVIDIA H200 datasheet", "retrieved": "2025-06-01", "kind": "datasheet",
    }  # fmt: skip
    assert values["usd_per_hour.rent3y"]["kind"] == "third-party"
    assert "fp4_dense_flops_per_s" not in values  # not known


def test_engine_constants_of_the_mode_that_was_chosen(disaggregated_plan: Plan, colocated_plan: Plan) -> None:
    assert document(disaggregated_plan)["inputs"]["engine"]["constants"]["ttft_fixed_s"] == 0.025
    assert document(colocated_plan)["inputs"]["engine"]["constants"]["ttft_fixed_s"] == 0.015


def test_notes_once_and_most_serious_first(disaggregated_plan: Plan) -> None:
    doubled = replace(disaggregated_plan, notes=(Note("info", "a"), Note("warning", "b"), Note("info", "a")))
    notes = document(doubled)["notes"]
    assert [note["level"] for note in notes] == ["warning", "warning", "caution", "info"]
    assert [note["text"] for note in notes].count("a") == 1


def test_numpy_numbers_become_plain(disaggregated_plan: Plan) -> None:
    prediction = replace(disaggregated_plan.prediction, output_tokens_per_s=np.float64(6000.0))
    value = document(replace(disaggregated_plan, prediction=prediction))["prediction"]["output_tokens_per_s"]
    assert type(value) is float


def test_length_statistics_of_three_atoms() -> None:
    # mean 0.5 * 1000 + 0.4 * 4000 + 0.1 * 16000 = 3700; half the weight is reached at 1000, 0.9 at 4000
    law = hand_plans.LENGTHS
    assert length_statistics(law.input_tokens, law.weights) == {
        "mean": pytest.approx(3700.0), "p50": 1000.0, "p90": 4000.0, "p99": 16000.0,
    }  # fmt: skip


@given(st.lists(st.floats(1, 1e6), min_size=1, max_size=50))
def test_length_quantiles_are_values_that_occur(tokens: list[float]) -> None:
    statistics = length_statistics(np.array(tokens), np.full(len(tokens), 1 / len(tokens)))
    assert {statistics["p50"], statistics["p90"], statistics["p99"]} <= set(tokens)
    assert statistics["p50"] <= statistics["p90"] <= statistics["p99"]
