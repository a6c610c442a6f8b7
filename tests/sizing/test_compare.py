"""Four architectures on one question: each is the best of its kind, and the cheapest wins."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from small_scenarios import boxes_of, engine, scenario

from planner.records import Target
from planner.sizing import size
from planner.sizing.compare import ARCHITECTURES, Comparison, _rank, compare

TWO_KINDS = (boxes_of(2), boxes_of(2, "h200-sxm"))


@cache
def both_kinds() -> Comparison:
    return compare(scenario(accelerators=TWO_KINDS))


def test_every_architecture_is_answered_in_order() -> None:
    found = both_kinds()
    assert [one.name for one in found.contenders] == list(ARCHITECTURES)
    for one in found.contenders:
        assert one.plan is not None and ARCHITECTURES[one.name](one.deployment)


def test_the_winner_is_the_cheapest_that_holds_and_the_plan_of_size() -> None:
    found = both_kinds()
    costs = {one.name: one.cost for one in found.contenders if one.feasible}
    assert found.winner == min(costs, key=lambda name: costs[name])
    assert found.advantage_fraction is not None
    assert found.advantage_fraction == costs[found.runner_up] / costs[found.winner] - 1.0 >= 0.0
    best = size(scenario(accelerators=TWO_KINDS)).money
    assert best is not None and best.usd_per_hour is not None
    assert costs[found.winner] <= best.usd_per_hour  # budgets are searched more finely


def test_sums_of_the_same_prices_in_another_order_are_a_tie() -> None:
    """0.79 and 0.79 + 1e-16 USD/h, of one accelerator each: the slack decides, as in `size`."""
    held = both_kinds().contenders[0]
    assert held.plan is not None and held.plan.money is not None and held.plan.money.usd_per_hour is not None
    more = replace(held.plan.money, usd_per_hour=held.plan.money.usd_per_hour * (1.0 + 4e-16))
    assert _rank(replace(held, plan=replace(held.plan, money=more))) == _rank(held)


def test_one_accelerator_has_no_heterogeneous_plan() -> None:
    one = compare(scenario(accelerators=(boxes_of(2),))).contender("heterogeneous")
    assert one.plan is None and "one accelerator only" in one.why_not


def test_an_engine_without_chunks_has_no_chunked_plan() -> None:
    whole = replace(scenario(accelerators=(boxes_of(2),)), engine=replace(engine("vllm"), scheduling="whole-prompt"))
    assert "whole prompts only" in compare(whole).contender("colocated-chunked").why_not


def test_nothing_fits_is_said_with_what_each_misses() -> None:
    found = compare(scenario(accelerators=(boxes_of(2),), targets=(Target("itl", "p99", 1e-3),)))
    assert found.winner == "" and found.advantage_fraction is None
    assert "misses itl.p99" in found.reason
