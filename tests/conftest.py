"""Fixtures shared by the tests of documents, renderers and commands."""

from __future__ import annotations

import hand_plans
import pytest
from hypothesis import settings

from planner.records import Plan

settings.register_profile("planner", deadline=None)  # no clocks in tests: a busy machine is no fault
settings.load_profile("planner")


@pytest.fixture
def disaggregated_plan() -> Plan:
    return hand_plans.DISAGGREGATED


@pytest.fixture
def colocated_plan() -> Plan:
    return hand_plans.COLOCATED


@pytest.fixture
def infeasible_plan() -> Plan:
    return hand_plans.INFEASIBLE


@pytest.fixture
def nothing_fits_plan() -> Plan:
    return hand_plans.NOTHING_FITS


@pytest.fixture(params=["DISAGGREGATED", "COLOCATED", "INFEASIBLE", "NOTHING_FITS"])
def any_plan(request: pytest.FixtureRequest) -> Plan:
    plan: Plan = getattr(hand_plans, request.param)
    return plan
