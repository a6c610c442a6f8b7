"""Owning: annuities, power and parts by hand and against published figures; duty; the price that decides."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import small_scenarios as small
from hypothesis import given, settings
from hypothesis import strategies as st

from planner import sizing
from planner.errors import FieldError
from planner.files.quoted import read_own_costs
from planner.records import Accelerator, Alternative, Budget, Costs, Deployment, Pool, Provenance, Quoted, Scenario
from planner.serving.predict import predict
from planner.sizing.cost import money, prompt_share, ranked_usd_per_hour, tokens_per_hour, usd_per_mtok
from planner.sizing.tco import (
    capital_recovery_fraction,
    cost_lines,
    own_lines,
    owned_usd_per_hour,
    power_usd_per_hour,
    price_flips,
    priced,
)

OWN = Costs(basis="own", own=read_own_costs())
NOBODY = Provenance("", "", "user")


def owned(**changes: object) -> Scenario:
    return priced(replace(small.scenario(), costs=OWN, **changes))


# ------------------------------------------------------------------------------------------------------------ annuities


def test_published_recovery_factor() -> None:
    """8 % over 4 years is .302; about 50,000 USD all in for an H100 is 1.72 USD/h (MODELLING §11)."""
    assert float(capital_recovery_fraction(0.08, 4.0)) == pytest.approx(0.3019208, abs=1e-7)
    assert float(owned_usd_per_hour(50_000.0, 0.08, 4.0)) == pytest.approx(1.72, abs=0.005)


def test_annuity_of_a_textbook() -> None:
    """A loan of 100,000 at 6 % over 30 years: 7,264.89 a year."""
    assert 1e5 * float(capital_recovery_fraction(0.06, 30.0)) == pytest.approx(7264.89, abs=0.005)
    assert float(capital_recovery_fraction(0.0, 4.0)) == 0.25  # without interest, a quarter a year


@given(st.floats(1e-6, 0.5), st.integers(1, 40))
def test_payments_are_worth_the_loan(interest: float, years: int) -> None:
    payment = float(capital_recovery_fraction(interest, float(years)))
    worth = sum(payment / (1.0 + interest) ** year for year in range(1, years + 1))
    assert worth == pytest.approx(1.0, rel=1e-6)


def test_power_by_hand() -> None:
    """1,275 W at a PUE of 1.3 and 0.08 USD/kWh: 1.275 x 1.3 x 0.08 = 0.1326 USD/h, about the .10 of MODELLING §11."""
    assert float(power_usd_per_hour(1275.0, 1.3, 0.08)) == pytest.approx(0.1326)


def test_parts_of_an_h100_hour_by_hand() -> None:
    lines = own_lines(small.accelerator("h100-sxm"), OWN)
    hourly = (0.30192080 + 0.04) / 8760.0  # annuity and operations
    assert lines["accelerators"].usd_per_hour == pytest.approx(27_500 * hourly)
    assert lines["hosts"].usd_per_hour == pytest.approx(80_000 / 8 * hourly)
    assert lines["host DRAM"].usd_per_hour == pytest.approx(13.8 * 2048 / 8 * hourly)
    assert lines["SSD"].usd_per_hour == pytest.approx(0.3 * 30_720 / 8 * hourly)
    assert lines["fabric"].usd_per_hour == pytest.approx(5_700 * hourly)
    assert lines["power"].usd_per_hour == pytest.approx((0.7 + 0.575) * 0.7 * 1.3 * 0.08)
    capital = 27_500 + 10_000 + 13.8 * 256 + 0.3 * 3840 + 5_700
    assert capital == pytest.approx(50_000, rel=0.05)  # the published all-in price of an H100
    assert all(line.low_usd_per_hour <= line.usd_per_hour <= line.high_usd_per_hour for line in lines.values())
    assert all(line.provenance.source and line.provenance.retrieved for line in lines.values())


def test_two_pools_pay_for_the_fabric_and_one_does_not() -> None:
    question = owned()
    apart = {line.name for line in cost_lines(question, small.SPLIT, "own")}
    together = {line.name for line in cost_lines(question, small.TOGETHER, "own")}
    assert apart - together == {"fabric"}
    wide = Deployment("colocated-chunked", decode=Pool("h100-sxm", 2, tp=16))
    assert "fabric" in {line.name for line in cost_lines(question, wide, "own")}  # wider than a node


@pytest.mark.parametrize("deployment", [small.SPLIT, small.TOGETHER, small.WHOLE])
@pytest.mark.parametrize("basis", ["own", "rent3y"])
def test_lines_sum_to_the_price(deployment: Deployment, basis: str) -> None:
    question = owned()
    total = sum(line.usd_per_hour for line in cost_lines(question, deployment, basis))
    assert total == pytest.approx(ranked_usd_per_hour(question, deployment, basis))


def test_what_has_no_purchase_price_cannot_be_owned() -> None:
    bare = replace(small.accelerator("h100-sxm"), purchase_usd=None)
    with pytest.raises(FieldError, match="h100-sxm has no purchase price"):
        priced(replace(small.scenario((bare,)), costs=OWN))
    given = {"h100-sxm": Quoted(25_000.0, 25_000.0, 25_000.0, NOBODY)}
    assert priced(replace(small.scenario((bare,)), costs=replace(OWN, purchase_usd=given)))


def test_a_basis_that_a_candidate_lacks_is_named() -> None:
    with pytest.raises(FieldError, match="h100-sxm has no price on the basis reserved; known: own, cloud_high"):
        sizing.size(replace(small.scenario(), costs=Costs(basis="reserved")))


def test_a_sheet_of_rents() -> None:
    quote = Quoted(2.1, 1.9, 2.5, NOBODY)
    question = replace(
        small.scenario(), costs=Costs(basis="sheet", rent_usd_per_hour={"h100-sxm": quote}), deployment=small.SPLIT
    )
    plan = sizing.evaluate(question)
    assert plan.money is not None and plan.money.usd_per_hour == pytest.approx(7 * 2.1)
    assert plan.money.lines[0].low_usd_per_hour == pytest.approx(7 * 1.9)


# ----------------------------------------------------------------------------------------------------- published tables


def test_a_published_day_of_serving() -> None:
    """DeepSeek, one day of V3/R1: 226.75 nodes of 8 in the mean at 2 USD per accelerator-hour are 87,072 USD."""
    h800 = replace(small.accelerator("h100-sxm"), id="h800", usd_per_hour={"list": 2.0})
    question = replace(small.scenario((h800,)))
    fleet = Deployment("colocated-chunked", decode=Pool("h800", 907, tp=2))  # 1,814 accelerators = 226.75 x 8
    per_hour = ranked_usd_per_hour(question, fleet, "list")
    assert per_hour * 24.0 == pytest.approx(87_072.0)
    # 608 billion tokens in and 168 billion out: were output to carry it all, 0.518 USD/Mtok
    assert per_hour * 24.0 / 168e9 * 1e6 == pytest.approx(0.518, abs=1e-3)


# ------------------------------------------------------------------------------------------------------- tokens, duty


@given(st.floats(0.05, 1.0))
@settings(deadline=None, max_examples=20)
def test_duty_divides_the_tokens(duty: float) -> None:
    question = small.scenario()
    usd = {"input": 4.0, "output": 6.0}
    plain = usd_per_mtok(question, usd)
    idle = usd_per_mtok(replace(question, costs=Costs(duty_fraction=duty)), usd)
    assert idle["output"] == pytest.approx(plain["output"] / duty)
    assert usd_per_mtok(replace(question, costs=Costs(duty_fraction=1.0)), usd) == plain


def test_prices_add_up_to_the_rent_with_tokens_from_a_cache() -> None:
    question = small.scenario()
    question = replace(question, workload=replace(question.workload, prefix_hit_fraction=0.6))
    spent = money(question, small.SPLIT, predict(question, small.SPLIT, with_intervals=False), "rent3y")
    tokens = tokens_per_hour(question)
    total = sum(spent.usd_per_mtok[side] * tokens[side] / 1e6 for side in tokens)
    assert total == pytest.approx(spent.usd_per_hour)
    assert spent.usd_per_mtok["cached_input"] < 0.2 * spent.usd_per_mtok["input"]  # only attention over them
    assert spent.usd_per_request == pytest.approx(7 * 1.3 / (20.0 * 3600.0))


def test_without_hits_no_token_is_priced_as_cached() -> None:
    question = small.scenario()
    spent = money(question, small.SPLIT, predict(question, small.SPLIT, with_intervals=False), "rent3y")
    assert set(spent.usd_per_mtok) == {"input", "output"}


@given(st.floats(0.0, 1.0), st.floats(0.0, 200.0))
def test_shares_of_a_shared_pool(prefill: float, batch: float) -> None:
    share = float(prompt_share(prefill, batch))
    assert 0.0 <= share <= 1.0 and share >= prefill - 1e-9


def test_a_power_cap_is_a_budget() -> None:
    boxes: tuple[Accelerator, ...] = (small.boxes_of(1),)
    free = sizing.size(small.scenario(boxes, requests_per_s=30.0))
    assert free.money is not None and free.money.watts is not None
    capped = small.scenario(boxes, requests_per_s=30.0, budgets=(Budget("watts", free.money.watts * 0.5, "W"),))
    plan = sizing.size(capped)
    assert plan.verdict == "infeasible" and any(limit.name == "watts" for limit in plan.missed)
    wide = small.scenario(boxes, requests_per_s=30.0, budgets=(Budget("watts", free.money.watts, "W"),))
    assert sizing.size(wide).verdict == "feasible"


# ----------------------------------------------------------------------------------------------- the price that decides


def test_the_price_that_decides_by_hand() -> None:
    """4 a at 2 USD against 6 b at 1.5: 8 and 9 USD/h. a at 2.25 costs 9; b at 4/3 costs 8."""
    a = replace(small.accelerator("h100-sxm"), id="a", usd_per_hour={"list": 2.0})
    b = replace(small.accelerator("h100-sxm"), id="b", usd_per_hour={"list": 1.5, "low": 1.0})
    question = small.scenario((a, b))
    plan = Deployment("colocated-chunked", decode=Pool("a", 4))
    other = Deployment("colocated-chunked", decode=Pool("b", 6))
    question = replace(question, deployment=other)
    prediction = predict(question, replace(other, decode=Pool("b", 6, token_budget=2048)), with_intervals=False)
    rival = Alternative(other, 9.0, prediction, True, "")
    flips = price_flips(question, plan, (rival,), "list")
    assert {(flip.name, round(flip.factor, 4), flip.within_range) for flip in flips} == {
        ("rent of b", round(4 / 3 / 1.5, 4), True),
        ("rent of a", 1.125, False),
    }
    assert price_flips(question, plan, (replace(rival, feasible=False),), "list") == ()


def test_at_the_deciding_price_both_cost_the_same() -> None:
    plan = sizing.size(small.scenario(("h100-sxm", "h200-sxm"), requests_per_s=60.0))
    assert plan.money is not None and plan.deployment is not None
    for flip in plan.money.flips:
        name = flip.name.removeprefix("rent of ")

        def changed(one: Accelerator, name: str = name, factor: float = flip.factor) -> Accelerator:
            prices = {key: usd * factor for key, usd in one.usd_per_hour.items()}
            return replace(one, usd_per_hour=prices) if one.id == name else one

        question = small.on_other_hardware(plan.scenario, changed)
        ours = ranked_usd_per_hour(question, plan.deployment, plan.money.basis)
        theirs = ranked_usd_per_hour(question, plan.alternatives[flip.alternative].deployment, plan.money.basis)
        assert ours == pytest.approx(theirs)
    factors = [abs(math.log(flip.factor)) for flip in plan.money.flips]
    assert factors == sorted(factors)


def test_owning_ranks_by_what_is_owned() -> None:
    plan = sizing.size(replace(small.scenario((small.boxes_of(2),)), costs=OWN))
    assert plan.money is not None and plan.money.basis == "own" and plan.money.usd_per_hour is not None
    assert np.isclose(sum(line.usd_per_hour for line in plan.money.lines), plan.money.usd_per_hour)
