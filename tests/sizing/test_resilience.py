"""Spare workers: the binomial against enumeration, by hand, and what availability does to a plan."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import small_scenarios as small
from hypothesis import given, settings
from hypothesis import strategies as st

from planner import sizing
from planner.errors import FieldError
from planner.files.quoted import read_reliability
from planner.records import Availability, Budget, Plan, Pool, Scenario
from planner.serving.predict import evaluate_at
from planner.serving.traffic import traffic
from planner.sizing.resilience import repair_s, shortfall, spare_units, unavailability, unit_workers, without

RELIABILITY = read_reliability()
HOUR_S = 3600.0


def question(availability: Availability | None, requests_per_s: float = 38.0, **changes: object) -> Scenario:
    base = small.scenario((small.boxes_of(2),), requests_per_s=requests_per_s)
    return replace(base, availability=availability, **{"reliability": RELIABILITY, **changes})


def spare(count: int) -> Availability:
    return Availability(count, None, "worker")


def held(share: float) -> Availability:
    return Availability(None, share, "worker")


# ---------------------------------------------------------------------------------------------------------- arithmetic


def test_out_of_service_by_hand() -> None:
    """MTBF 99 h and repair 1 h: one hour in a hundred."""
    assert float(unavailability(99.0 * HOUR_S, HOUR_S)) == pytest.approx(0.01)


def test_published_rates() -> None:
    """54 days x 24 h x 16,384 accelerators over 419 stops is 50,680 h; 220 of 419 need a part."""
    assert RELIABILITY.accelerator_mtbf_s.value == pytest.approx(54 * 24 * 16384 / 419 * HOUR_S, rel=1e-3)
    assert RELIABILITY.hard_fraction.value == pytest.approx((148 + 72) / 419, abs=0.01)
    # an EP group of 72 fails every 29 days, one of 320 every 6.6 days
    assert RELIABILITY.accelerator_mtbf_s.value / 72 / HOUR_S / 24 == pytest.approx(29.3, abs=0.1)
    assert RELIABILITY.accelerator_mtbf_s.value / 320 / HOUR_S / 24 == pytest.approx(6.6, abs=0.05)


def test_repair_by_hand() -> None:
    """15 s + 0.53 x 24 h + 100 GB / 5 GB/s + 60 s."""
    assert repair_s(RELIABILITY, 100e9) == pytest.approx(15.0 + 0.53 * 24 * HOUR_S + 20.0 + 60.0)


@given(st.integers(1, 9), st.integers(0, 9), st.floats(0.001, 0.6))
@settings(deadline=None)
def test_the_binomial_against_every_way_to_fail(units: int, spared: int, out: float) -> None:
    """All 2^n states of n units, each with its probability."""
    missed = sum(
        math.prod(out if down else 1.0 - out for down in state)
        for state in itertools.product((True, False), repeat=units)
        if sum(state) > spared
    )
    assert float(shortfall(units, spared, out)) == pytest.approx(missed, abs=1e-12)


@given(st.integers(1, 6), st.floats(0.001, 0.3), st.floats(1e-4, 0.2))
@settings(max_examples=60, deadline=None)
def test_the_smallest_spare_against_enumeration(needed: int, out: float, allowed: float) -> None:
    def missed(s: int) -> float:
        n = needed + s
        return sum(math.comb(n, down) * out**down * (1.0 - out) ** (n - down) for down in range(s + 1, n + 1))

    smallest = next(s for s in range(65) if missed(s) <= allowed * (1.0 + 1e-12))
    assert float(spare_units(needed, out, allowed)) in (smallest, smallest + 1)
    assert missed(int(spare_units(needed, out, allowed))) <= allowed * (1.0 + 1e-9)


def test_what_no_number_reaches_is_infinite() -> None:
    assert np.isinf(float(spare_units(10, 0.95, 1e-3)))


def test_workers_that_fail_as_one() -> None:
    box = small.accelerator("h100-sxm")
    rack = small.accelerator("gb200")
    assert unit_workers(Pool("h100-sxm", 9, tp=2), box, "worker") == 1
    assert unit_workers(Pool("h100-sxm", 9, tp=2), box, "node") == 4
    assert unit_workers(Pool("h100-sxm", 9, tp=8, dp=2, ep=16), box, "node") == 1  # wider than a node: one worker
    assert unit_workers(Pool("gb200", 9, tp=4), rack, "rack") == 18


# ---------------------------------------------------------------------------------------------------------------- plans


@pytest.fixture(scope="module")
def plain() -> Plan:
    return sizing.size(question(None))


def test_one_spare_in_every_pool(plain: Plan) -> None:
    plan = sizing.size(question(spare(1)))
    assert plan.verdict == "feasible" and plan.deployment is not None and plan.resilience is not None
    lost = {name: pool.spare for name, pool in plan.resilience.pools.items()}
    assert set(lost.values()) == {1}
    asked = question(None)
    outcome = evaluate_at(asked, without(plan.deployment, lost), traffic(asked.workload))
    assert outcome.ttft_s["p99"] <= 1.0 and outcome.itl_s["p99"] <= 0.04
    assert outcome.ttft_s == plan.resilience.ttft_s
    assert plan.money is not None and plain.money is not None
    assert plan.money.usd_per_hour is not None and plain.money.usd_per_hour is not None
    assert plan.resilience.spare_usd_per_hour is not None
    bought = plan.money.usd_per_hour - plan.resilience.spare_usd_per_hour
    assert bought == pytest.approx(
        plan.money.usd_per_hour * (1.0 - plan.resilience.spare_accelerators / plan.deployment.accelerators)
    )


def test_spare_is_never_cheaper(plain: Plan) -> None:
    costs = [plain, *(sizing.size(question(spare(count))) for count in (0, 1, 2))]
    usd = [plan.money.usd_per_hour for plan in costs if plan.money is not None]
    assert usd == sorted(usd) and usd[0] == usd[1]


def test_a_tighter_availability_never_needs_fewer() -> None:
    plans = [sizing.size(question(held(share))) for share in (0.99, 0.9999, 0.999999)]
    bought = [plan.money.usd_per_hour for plan in plans if plan.money is not None]
    assert bought == sorted(bought) and bought[0] < bought[-1]
    for plan, share in zip(plans, (0.99, 0.9999, 0.999999), strict=True):
        assert plan.verdict == "feasible" and plan.resilience is not None
        assert plan.resilience.held_fraction >= share


def test_a_target_out_of_reach_says_what_is() -> None:
    poor = replace(
        RELIABILITY,
        accelerator_mtbf_s=replace(RELIABILITY.accelerator_mtbf_s, value=0.1 * HOUR_S),
        hard_repair_s=replace(RELIABILITY.hard_repair_s, value=100.0 * HOUR_S),
    )
    plan = sizing.size(question(held(0.999), reliability=poor))
    assert plan.verdict == "infeasible"
    missed = next(limit for limit in plan.missed if limit.name == "workers_lost.out_in_a_year")
    assert "is reached" in missed.what_would_relax_it
    assert missed.limit == pytest.approx(0.001 * 8760 * HOUR_S) and missed.value > missed.limit


def test_spares_count_against_budgets(plain: Plan) -> None:
    assert plain.deployment is not None
    few = (Budget("accelerators", float(plain.deployment.accelerators), "accelerators"),)
    assert sizing.size(question(None, budgets=few)).verdict == "feasible"
    assert sizing.size(question(spare(2), budgets=few)).verdict == "infeasible"


def test_a_given_deployment_is_judged_without_its_spares() -> None:
    enough = sizing.evaluate(question(spare(1), requests_per_s=20.0, deployment=small.SPLIT))
    assert enough.verdict == "feasible" and enough.resilience is not None
    tight = sizing.evaluate(question(spare(1), requests_per_s=60.0, deployment=small.SPLIT))
    assert tight.verdict == "infeasible"
    assert any(limit.name.startswith("workers_lost.") for limit in tight.missed)


def test_a_given_deployment_tells_the_availability_it_reaches() -> None:
    plan = sizing.evaluate(question(held(0.999), requests_per_s=20.0, deployment=small.SPLIT))
    assert plan.resilience is not None
    assert 0.99 < plan.resilience.held_fraction < 1.0
    assert all(pool.spare >= 0 for pool in plan.resilience.pools.values())


def test_more_spare_than_workers_is_refused() -> None:
    with pytest.raises(FieldError, match="more than the prefill pool of 3 can spare"):
        sizing.evaluate(question(spare(3), deployment=small.SPLIT))
