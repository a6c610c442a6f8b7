"""What changed between two results: order, classes, directions, causes, and what only moved by rounding."""

from __future__ import annotations

import copy
from typing import Any

import hand_plans
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.render.diff import diff_markdown, diff_text, headline
from planner.render.text import Pen
from planner.review.diff import diff_document, flat, unit_of
from planner.review.document import document

Document = dict[str, Any]
BASE: Document = document(hand_plans.DISAGGREGATED)
PLANS = ("DISAGGREGATED", "COLOCATED", "INFEASIBLE", "NOTHING_FITS")


def changed(**values: Any) -> Document:
    """The base result with some leaves replaced; `__` stands for a dot."""
    result = copy.deepcopy(BASE)
    for path, value in values.items():
        part: Any = result
        *above, last = path.split("__")
        for name in above:
            part = part[int(name)] if name.isdigit() else part[name]
        part[last] = value
    return result


def rows(diff: Document, part: str = "results") -> dict[str, str]:
    return {row["field"]: row["kind"] for row in diff[part]}


@pytest.mark.parametrize("name", PLANS)
def test_a_result_does_not_differ_from_itself(name: str) -> None:
    one = document(getattr(hand_plans, name))
    diff = diff_document(one, copy.deepcopy(one))
    assert diff["verdict"] == "unchanged"
    assert not (diff["inputs"] or diff["catalog"] or diff["catalog_changed"] or diff["results"] or diff["notes"])


@pytest.mark.parametrize(("old", "new"), [(old, new) for old in PLANS for new in PLANS if old != new])
def test_any_two_results_can_be_compared_and_shown(old: str, new: str) -> None:
    before, after = document(getattr(hand_plans, old)), document(getattr(hand_plans, new))
    diff, back = diff_document(before, after), diff_document(after, before)
    swap = {"improved": "regressed", "regressed": "improved", "added": "removed", "removed": "added"}
    assert {field: swap.get(kind, kind) for field, kind in rows(diff).items()} == rows(back)
    assert diff_text(diff, Pen(60, unicode=False)).isascii()
    assert len(diff_markdown(diff)) < 60_000
    assert diff_document(before, after) == diff


def test_directions() -> None:
    better = changed(
        prediction__ttft_s__p99=BASE["prediction"]["ttft_s"]["p99"] / 2,
        prediction__requests_per_s_max=BASE["prediction"]["requests_per_s_max"] * 2,
        plan__usd_per_hour=BASE["plan"]["usd_per_hour"] - 1,
        plan__decode__utilization=0.01,
    )
    kinds = rows(diff_document(BASE, better))
    assert kinds == {
        "prediction.ttft_s.p99": "improved",
        "prediction.requests_per_s_max": "improved",
        "plan.usd_per_hour": "improved",
        "plan.decode.utilization": "changed",
    }
    assert set(rows(diff_document(better, BASE)).values()) == {"regressed", "changed"}
    assert diff_document(better, BASE)["verdict"] == "regressed"


def test_a_latency_that_loses_its_bound_regresses() -> None:
    assert rows(diff_document(BASE, changed(prediction__ttft_s__p99=None))) == {"prediction.ttft_s.p99": "regressed"}
    assert diff_document(BASE, changed(verdict="infeasible"))["results"][0]["kind"] == "regressed"


def test_one_input_is_the_cause_of_what_it_can_move() -> None:
    slower = changed(
        inputs__workload__requests_per_s=BASE["inputs"]["workload"]["requests_per_s"] * 2,
        prediction__ttft_s__p99=BASE["prediction"]["ttft_s"]["p99"] * 2,
    )
    diff = diff_document(BASE, slower)
    assert rows(diff, "inputs") == {"inputs.workload.requests_per_s": "changed"}
    assert diff["results"][0]["cause"] == "inputs.workload.requests_per_s"
    assert diff["results"][0]["change_fraction"] == pytest.approx(1.0)
    slower["inputs"]["model"]["kv_dtype"] = "int9"
    assert diff_document(BASE, slower)["results"][0]["cause"] is None  # either may have


def test_a_price_moves_cost_and_no_latency() -> None:
    first = next(iter(BASE["inputs"]["accelerators"]))["values"]
    price = next(name for name in first if name.startswith("usd_per_hour."))
    dearer = changed(plan__usd_per_hour=BASE["plan"]["usd_per_hour"] * 2)
    dearer["inputs"]["accelerators"][0]["values"][price]["value"] *= 2
    dearer["inputs"]["accelerators"][0]["sha256"] = "f" * 64
    diff = diff_document(BASE, dearer)
    assert [entry["id"] for entry in diff["catalog_changed"]] == [BASE["inputs"]["accelerators"][0]["id"]]
    assert diff["catalog"][0]["source"] == first[price]["source"]
    assert diff["results"][0]["cause"] == diff["catalog"][0]["field"]
    assert "catalog changed" in headline(diff) and "Catalog changed: accelerator" in diff_text(diff, Pen())
    dearer["prediction"]["ttft_s"]["p99"] *= 2
    causes = {row["field"]: row["cause"] for row in diff_document(BASE, dearer)["results"]}
    assert causes["prediction.ttft_s.p99"] is None


def test_a_hash_alone_is_told() -> None:
    moved = copy.deepcopy(BASE)
    moved["inputs"]["engine"]["sha256"] = "e" * 64
    diff = diff_document(BASE, moved)
    assert diff["verdict"] == "changed" and not diff["results"]
    assert "none of the values listed here did" in " ".join(diff_text(diff, Pen()).split())
    comment = copy.deepcopy(BASE)
    comment["inputs"]["files"][0]["sha256"] = "0" * 64
    assert [row["field"] for row in diff_document(BASE, comment)["inputs"]] == [
        f"inputs.files[{BASE['inputs']['files'][0]['path']}]"
    ]


def test_candidates_targets_and_versions_are_inputs() -> None:
    other = copy.deepcopy(BASE)
    other["inputs"]["accelerators"] = other["inputs"]["accelerators"][:1]
    other["inputs"]["targets"] = other["inputs"]["targets"][1:]
    other["tool"]["version"] = "9.9.9"
    diff = diff_document(BASE, other)
    target = BASE["inputs"]["targets"][0]
    assert rows(diff, "inputs")[f"inputs.targets[{target['metric']}.{target['statistic']}]"] == "removed"
    assert rows(diff, "catalog") == {"tool.version": "changed"}


def test_units() -> None:
    assert unit_of("prediction.ttft_s.p99") == "s"
    assert unit_of("inputs.accelerators[h100-sxm].values.usd_per_hour.rent3y") == "USD/h"
    assert unit_of("inputs.accelerators[h100-sxm].values.memory_bytes_per_s") == "bytes/s"
    assert unit_of("kv.bytes_per_token") == "bytes"
    assert unit_of("prediction.output_tokens_per_s") == "tokens/s"
    assert unit_of("plan.accelerators") == ""


@given(st.floats(1e-6, 1e6), st.floats(1e-6, 1e6))
def test_classes_are_antisymmetric(old: float, new: float) -> None:
    before, after = changed(prediction__ttft_s__p99=old), changed(prediction__ttft_s__p99=new)
    there, back = rows(diff_document(before, after)), rows(diff_document(after, before))
    swap = {"improved": "regressed", "regressed": "improved"}
    assert {field: swap[kind] for field, kind in there.items()} == back
    assert bool(there) == (abs(old - new) > 1e-9 * max(old, new))


def test_every_leaf_has_one_path() -> None:
    leaves = flat(BASE)
    assert leaves["prediction.ttft_s.p99"] == BASE["prediction"]["ttft_s"]["p99"]
    assert leaves["schema_version"] == 1
