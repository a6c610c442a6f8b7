"""The front around a plan: every point is a deployment that can be had, none beats another, numbers stay."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import small_scenarios as small
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from planner import sizing
from planner.errors import FieldError
from planner.files.quoted import read_reliability
from planner.records import Availability, Plan
from planner.sizing.front import FrontPoint, front, picked, undominated_rows


@cache
def plan() -> Plan:
    return sizing.size(small.scenario((small.boxes_of(4),), requests_per_s=60.0))


@cache
def points() -> tuple[FrontPoint, ...]:
    return front(plan())


def test_the_plan_is_on_its_front_with_its_own_numbers() -> None:
    (own,) = (point for point in points() if point.deployment == plan().deployment)
    prediction, money = plan().prediction, plan().money
    assert prediction is not None and money is not None
    assert own.outcome.ttft_s["p99"] == prediction.ttft_s["p99"] and own.outcome.itl_s["p99"] == prediction.itl_s["p99"]
    assert own.usd_per_hour == pytest.approx(money.usd_per_hour) and own.holds


def test_dearer_points_are_faster_and_there_are_some() -> None:
    assert len(points()) >= 5
    prices = [point.usd_per_hour for point in points()]
    assert prices == sorted(prices)
    values = np.array([point.rank for point in points()])
    assert undominated_rows(values).all()
    least = min(point.outcome.itl_s["p99"] for point in points())
    assert least < 0.8 * plan().prediction.itl_s["p99"]  # type: ignore[union-attr]


def test_every_point_can_be_picked_with_the_numbers_of_the_front() -> None:
    for number, point in enumerate(points(), 1):
        found = picked(plan(), points(), number)
        assert found.deployment == point.deployment and found.prediction is not None and found.money is not None
        assert found.prediction.ttft_s["p99"] == point.outcome.ttft_s["p99"]
        assert found.prediction.itl_s["p99"] == point.outcome.itl_s["p99"]
        assert found.money.usd_per_hour == pytest.approx(point.usd_per_hour)
        assert (found.verdict == "feasible") == point.holds
        assert found.picked == (0 if found is plan() else number)


def test_the_same_plan_has_the_same_front() -> None:
    assert [point.deployment for point in front(plan())] == [point.deployment for point in points()]


@pytest.mark.parametrize("number", [0, -1, 1000])
def test_a_number_that_is_not_on_the_front_is_refused(number: int) -> None:
    with pytest.raises(FieldError, match=f"no point {number} on the front; want 1 to {len(points())}"):
        picked(plan(), points(), number)


@given(arrays(float, st.tuples(st.integers(1, 12), st.just(3)), elements=st.integers(0, 4)))
def test_undominated_rows_are_those_that_no_other_beats(values: np.ndarray) -> None:
    rows, kept = [tuple(row) for row in values], undominated_rows(values)
    for index, row in enumerate(rows):
        beaten = any(all(a <= b for a, b in zip(other, row, strict=True)) and other != row for other in rows)
        assert kept[index] == (not beaten and row not in rows[:index])


def test_the_plan_stays_on_its_front_with_spare_workers_and_where_others_are_as_good() -> None:
    asked = {"availability": Availability(1, None, "worker"), "reliability": read_reliability()}
    spared = sizing.size(replace(small.scenario((small.boxes_of(2),)), **asked))
    for one in (spared, sizing.evaluate(small.scenario(deployment=small.TOGETHER))):
        assert one.prediction is not None
        (own,) = (point for point in front(one) if point.deployment == one.deployment)
        assert own.outcome.itl_s["p99"] == one.prediction.itl_s["p99"]
