"""One price basis per ranking; tokens charged to the pool that makes them; by hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
import small_scenarios as small

from planner import sizing
from planner.records import Accelerator, Plan, Scenario, Target
from planner.serving.predict import predict
from planner.sizing.cost import money, price_basis, prompt_share


def priced(name: str, usd_per_hour: Mapping[str, float]) -> Accelerator:
    return replace(small.boxes_of(1), id=name, usd_per_hour=usd_per_hour)


A, B = priced("a", {"rent3y": 1.5, "cloud_low": 2.0}), priced("b", {"cloud_low": 3.0, "cloud_high": 9.0})
C, FREE = priced("c", {"rent3y": 1.0}), priced("d", {})


@pytest.mark.parametrize(
    ("candidates", "basis"),
    [((A,), "rent3y"), ((A, C), "rent3y"), ((A, B), "cloud_low"), ((B, C), ""), ((A, FREE), ""), ((A, B, C), "")],
)
def test_a_basis_is_one_that_every_candidate_has(candidates: tuple[Accelerator, ...], basis: str) -> None:
    """rent3y first, then cloud_low; never two in one ranking (HOUSE §7)."""
    assert price_basis(candidates) == basis


def test_tokens_of_two_pools_by_hand() -> None:
    """3 + 4 accelerators at 1.30 USD/h. 20 requests/s of 1,345 and 240 tokens each, see below."""
    question = small.scenario()
    load = question.workload.lengths
    mean_input, mean_output = float(load.weights @ load.input_tokens), float(load.weights @ load.output_tokens)
    spent = money(question, small.SPLIT, predict(question, small.SPLIT, with_intervals=False), "rent3y")
    rent = small.accelerator("h100-sxm").usd_per_hour["rent3y"]
    assert spent.usd_per_hour == pytest.approx(7.0 * rent)
    # USD/h over tokens/h, per million
    assert spent.usd_per_mtok["input"] == pytest.approx(3.0 * rent / (20.0 * mean_input * 3600.0) * 1e6)
    assert spent.usd_per_mtok["output"] == pytest.approx(4.0 * rent / (20.0 * mean_output * 3600.0) * 1e6)
    # 7 accelerators all in, over 20 x mean output tokens/s
    watts = 7.0 * (small.accelerator("h100-sxm").all_in_watts or 0.0)
    assert spent.watts == pytest.approx(watts)
    assert spent.joules_per_output_token == pytest.approx(watts / (20.0 * mean_output))


def test_tokens_of_one_pool_add_up_to_its_rent() -> None:
    question = small.scenario()
    load = question.workload.lengths
    prediction = predict(question, small.TOGETHER, with_intervals=False)
    spent = money(question, small.TOGETHER, prediction, "rent3y")
    hourly = sum(
        spent.usd_per_mtok[kind] * 20.0 * float(load.weights @ tokens) * 3600.0 / 1e6
        for kind, tokens in (("input", load.input_tokens), ("output", load.output_tokens))
    )
    assert spent.usd_per_hour is not None
    assert hourly == pytest.approx(spent.usd_per_hour) == pytest.approx(4.0 * 1.3)
    share = spent.usd_per_mtok["input"] * 20.0 * float(load.weights @ load.input_tokens) * 3600.0 / 1e6 / hourly
    # a busy pool decodes all the time that it does not prefill: input carries the time of prompts
    assert share == pytest.approx(prediction.prefill_time_fraction, rel=1e-3)
    assert 0.0 < share < 1.0


def test_idle_rent_of_a_shared_pool_is_split_as_the_busy_time_is() -> None:
    """Prompts take 10 % of the time. With e^-batch = 0.4 nobody is there 40 % of the rest: 0.1 to 0.9 x 0.6."""
    assert float(prompt_share(0.1, -np.log(0.4))) == pytest.approx(0.1 / (0.1 + 0.54))
    assert float(prompt_share(0.1, 50.0)) == pytest.approx(0.1)
    assert float(prompt_share(0.0, 0.0)) == 0.0
    # nearly idle: 0.2 requests/s keep nobody busy, and output does not carry the rent of the empty hours alone
    question = small.scenario(requests_per_s=0.2)
    prediction = predict(question, small.TOGETHER, with_intervals=False)
    spent = money(question, small.TOGETHER, prediction, "rent3y")
    input_mtok_per_hour = 0.2 * float(small.CHAT.weights @ small.CHAT.input_tokens) * 3600.0 / 1e6
    share = spent.usd_per_mtok["input"] * input_mtok_per_hour / (4.0 * 1.3)
    assert prediction.decode.mean_batch < 0.2
    assert share > 5.0 * prediction.prefill_time_fraction


def test_tokens_of_a_saturated_pool_have_no_price() -> None:
    for deployment in (small.SPLIT, small.TOGETHER):
        question = replace(small.scenario(requests_per_s=1000.0), deployment=deployment)
        plan = sizing.evaluate(question)
        assert plan.money is not None and plan.money.usd_per_mtok == {}
        assert plan.money.joules_per_output_token is None and plan.money.usd_per_hour is not None
        assert any("tokens have no price" in note.text for note in plan.notes)


def test_a_peak_is_paid_at_the_mean() -> None:
    """What is bought survives the peak; what a token costs is spread over the long-run mean."""
    calm = small.scenario()
    peaked = replace(calm, workload=replace(calm.workload, peak_factor=1.5))
    spent = [
        money(each, small.SPLIT, predict(each, small.SPLIT, with_intervals=False), "rent3y") for each in (calm, peaked)
    ]
    assert spent[0].usd_per_mtok == pytest.approx(spent[1].usd_per_mtok)


# ------------------------------------------------------------------------------------------------- without a price


def sized(*candidates: Accelerator) -> Plan:
    question: Scenario = small.scenario(candidates, requests_per_s=30.0, targets=(Target("ttft", "p99", 1.0),))
    return sizing.size(question)


def test_without_a_common_price_accelerators_rank_and_nothing_is_called_usd() -> None:
    plan = sized(A, FREE)
    assert plan.verdict == "feasible" and plan.money is not None
    assert plan.money.basis == "" and plan.money.usd_per_hour is None and plan.money.usd_per_mtok == {}
    assert any("ranked by accelerators" in note.text for note in plan.notes)
    assert plan.alternatives
    for other in plan.alternatives:
        assert other.usd_per_hour is None, "a count of accelerators shown as money"
        assert "dearer" not in other.why_it_lost and "price" not in other.why_it_lost


def test_with_a_price_the_cheaper_of_two_equal_accelerators_is_bought() -> None:
    plan = sized(A, C)
    assert plan.deployment is not None and plan.money is not None
    assert {pool.accelerator for pool in plan.deployment.pools} == {"c"}
    assert plan.money.basis == "rent3y"
    assert plan.money.usd_per_hour == pytest.approx(1.0 * plan.deployment.accelerators)


def test_the_basis_of_a_ranking_is_kept_where_a_dearer_one_exists() -> None:
    """a has rent3y and cloud_low, b only cloud_low: both are priced on cloud_low."""
    plan = sized(A, B)
    assert plan.money is not None and plan.deployment is not None
    assert plan.money.basis == "cloud_low"
    assert {pool.accelerator for pool in plan.deployment.pools} == {"a"}
    assert plan.money.usd_per_hour == pytest.approx(2.0 * plan.deployment.accelerators)
