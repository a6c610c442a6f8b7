"""The KV report: rows, sizes left open, curves over size and load, routing, bursts, and the memory beside decode."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
import small_scenarios as small

from planner import sizing
from planner.errors import FieldError
from planner.records import Arrivals, KvTier, Lengths, PromptBlocks, Scenario, Sessions, SubAgents, Target
from planner.review.kv import kv_document
from planner.serving.flow import plant_of
from planner.serving.residency import settled
from planner.serving.traffic import traffic
from planner.sizing.changes import with_hit_ratio
from planner.sizing.kv import KvReport, kv
from planner.sizing.tier_choice import chosen, options, steps
from planner.sizing.variables import VARIABLES

pytestmark = pytest.mark.slow  # each runs whole searches

CHATS = Sessions(60, 10, 2000.0, 1000.0, 500.0, 300.0, 20.0, 1.0, SubAgents(3, 5, 1000.0, 500.0, 2, 200.0, 100.0, 4.0))
DRAM = KvTier("host-dram", "host-dram", "DDR5", 1e12, 8e12, 0.0, 500e9, 500e9, 0.5e-3, 5e-4, link_factor=0.79)
DRIVES = KvTier("local-ssd", "local-ssd", "NVMe", None, 245e12, 7.68e12, 14e9, 10e9, 1e-3, 2e-5, 1.0, 0.79)


def in_sessions(*tiers: KvTier, given: bool = True) -> Scenario:
    own = np.arange(10) * 800.0 + 3000.0
    base = small.scenario((small.boxes_of(2),), deployment=small.SPLIT if given else None)
    workload = replace(
        base.workload, lengths=Lengths(own, np.full(10, 300.0), np.full(10, 0.1)), sessions=CHATS, requests_per_s=4.0
    )
    return replace(base, workload=workload, tiers=tiers)


def traced(*tiers: KvTier) -> Scenario:
    """Twenty users in turn, each sending one more block of 512 tokens every time, thirty times."""
    ids = [[user * 1000 + block for block in range(turn + 4)] for turn in range(30) for user in range(20)]
    sizes = np.array([len(run) for run in ids])
    inputs, count = sizes * 512.0, sizes.size
    arrivals = Arrivals(np.arange(count) * 0.25, inputs, np.full(count, 100.0), count * 0.25)
    blocks = PromptBlocks(np.concatenate([np.array(run) for run in ids]), np.concatenate(([0], np.cumsum(sizes))), 512)
    base = small.scenario((small.boxes_of(2),), deployment=small.SPLIT)
    lengths = Lengths(inputs, np.full(count, 100.0), np.full(count, 1.0 / count))
    workload = replace(base.workload, lengths=lengths, arrivals=arrivals, blocks=blocks, requests_per_s=4.0)
    return replace(base, workload=workload, tiers=tiers)


@cache
def report(name: str) -> KvReport:
    return kv({"sessions": in_sessions(DRAM), "trace": traced(DRAM)}[name])


@pytest.mark.parametrize("name", ["sessions", "trace"])
def test_hits_stay_below_the_ceiling_and_rise_with_size(name: str) -> None:
    answer = report(name)
    assert answer.ceiling_fraction is not None
    for state in answer.states.values():
        assert 0.0 < state.hit_fraction <= answer.ceiling_fraction + 1e-9
    hits = [point.option.hit_fraction for point in answer.points]
    assert all(later >= earlier - 1e-3 for earlier, later in pairwise(hits))
    assert [point.capacity_bytes for point in answer.points] == sorted(point.capacity_bytes for point in answer.points)


def test_exact_hits_of_a_trace_in_turn() -> None:
    """A turn finds all but its last block once all 20 users' contexts fit: of n blocks n - 1, first turns nothing."""
    answer = report("trace")
    found = sum(range(4, 33))  # at turn t of 1..29 the t + 3 blocks of the turn before
    assert answer.ceiling_fraction == pytest.approx(found / sum(range(4, 34)), rel=1e-9)
    assert answer.states["cold"].hit_fraction == pytest.approx(answer.ceiling_fraction, rel=1e-6)


@pytest.mark.parametrize("name", ["sessions", "trace"])
def test_who_sees_which_request(name: str) -> None:
    routing = report(name).routing
    assert routing is not None and routing.instances == 3
    assert routing.random_fraction <= routing.aware_fraction + 1e-6
    assert routing.aware_fraction <= routing.pool_fraction + 0.02
    assert routing.pool_saves_accelerators >= routing.aware_saves_accelerators - 0.05 >= -0.05


def test_burst_and_decode_side() -> None:
    answer = report("sessions")
    assert answer.burst is not None and answer.decode_side is not None
    # 1000 shared + 3 x (500 + 1 x (200 + 100) + 100) = 3,700
    assert answer.burst.demand_tokens == pytest.approx(3700.0)
    assert answer.burst.has_room and answer.burst.migration_s > 0.0
    # 8 KV heads over tp 2: no copies; 131,072 bytes a token in bf16
    side = answer.decode_side
    assert side.replication_factor == pytest.approx(1.0)
    assert side.offload_bytes == pytest.approx(side.context_tokens * 131_072.0)
    assert side.offload_pays and side.swap_in_s < 0.1
    assert report("trace").burst is None


def test_open_sizes_are_the_cheapest_that_hold() -> None:
    asked = in_sessions(DRIVES)
    tried = list(options(asked, small.SPLIT))
    assert (
        [option.size_bytes["local-ssd"] for option in tried]
        == steps(DRIVES)
        == [0.0, 7.68e12, 15.36e12, 30.72e12, 61.44e12]
    )
    picked = chosen(asked, small.SPLIT)
    held = [option for option in tried if option.meets_targets]
    cheapest = min(held, key=lambda option: (option.usd_per_hour or 0.0, sum(option.size_bytes.values())))
    assert {tier.id: tier.capacity_bytes for tier in picked.tiers} == {
        name: size for name, size in cheapest.size_bytes.items() if size
    }


def test_a_plan_with_open_sizes_costs_no_more_than_without_tiers() -> None:
    bare = sizing.size(in_sessions(given=False))
    tiered = sizing.size(in_sessions(replace(DRAM, capacity_bytes=None), given=False))
    assert bare.money is not None and tiered.money is not None
    assert tiered.money.usd_per_hour <= bare.money.usd_per_hour


def test_what_nothing_found_would_take() -> None:
    answer = kv(in_sessions(DRAM, given=False))
    assert answer.plan.deployment is not None and answer.accelerators_without is not None
    assert answer.accelerators_without >= answer.plan.deployment.accelerators


def test_a_plan_with_hits_can_be_asked_what_if() -> None:
    """Hits and what tiers hand over move together, and more than a whole prompt is never found."""
    plan = report("sessions").plan
    doubled = with_hit_ratio(plan.scenario, 2.0)
    load = traffic(doubled.workload)
    assert np.all(load.new_tokens >= 1.0 - 1e-9) and np.all(load.fetched_tokens >= 0.0)
    assert np.all(load.fetched_tokens.sum(axis=0) <= load.cached_tokens + 1e-6)
    assert "hit ratio" in VARIABLES


def test_a_stated_ratio_has_rows_and_no_curve() -> None:
    base = small.scenario((small.boxes_of(2),), deployment=small.SPLIT)
    answer = kv(replace(base, workload=replace(base.workload, prefix_hit_fraction=0.5)))
    assert answer.plan.prediction is not None
    assert answer.plan.prediction.tiers[0].hit_fraction == pytest.approx(0.5, abs=0.01)
    assert answer.points == () and answer.cliffs == ()


def test_nothing_known_of_reuse_is_a_fault() -> None:
    with pytest.raises(FieldError, match="what its prompts share"):
        kv(small.scenario(deployment=small.SPLIT))


def test_a_short_trace_says_so() -> None:
    notes = [note.text for note in report("trace").plan.notes]
    assert any("cold start" in text for text in notes)


@pytest.mark.parametrize("name", ["sessions", "trace"])
def test_the_document_is_plain(name: str) -> None:
    kinds = set()

    def walk(value: object) -> None:
        kinds.add(type(value))
        if isinstance(value, dict):
            for item in value.values():
                walk(item)
        elif isinstance(value, list):
            for item in value:
                walk(item)

    document = kv_document(report(name))
    walk(document)
    assert kinds <= {dict, list, str, float, int, bool, type(None)}
    assert [cliff["tier"] for cliff in document["kv"]["cliffs"]] == ["hbm", "host-dram"]


BUSY = Sessions(300, 15, 4000.0, 2000.0, 1200.0, 300.0, 40.0, 1.0)  # 300 contexts of 12k tokens in the mean


def busy(*tiers: KvTier) -> Scenario:
    own = np.arange(15) * 1500.0 + 6000.0
    base = small.scenario((small.accelerator("h100-sxm"),), "meta-llama/Llama-3.1-70B", weights="fp8", kv_dtype="fp8")
    lengths = Lengths(own, np.full(15, 300.0), np.full(15, 1.0 / 15.0))
    targets = (Target("ttft", "p99", 3.0), Target("itl", "p99", 0.06))
    workload = replace(base.workload, lengths=lengths, sessions=BUSY, requests_per_s=6.0)
    return replace(base, workload=workload, targets=targets, tiers=tiers)


def test_no_plan_is_sized_for_users_who_are_kept_waiting() -> None:
    """The chosen plan carries what its users send, and finds what it says it finds; host memory makes it cheaper."""
    plans = [sizing.size(busy(*tiers)) for tiers in ((), (replace(DRAM, capacity_bytes=None),))]
    for plan in plans:
        assert plan.verdict == "feasible" and plan.deployment is not None and plan.prediction is not None
        state = settled(plant_of(plan.scenario, plan.deployment), "cold")
        assert not state.flow.saturated
        assert state.flow.requests_per_s == pytest.approx(state.flow.asked_per_s, rel=0.03)
        assert plan.scenario.workload.requests_per_s == pytest.approx(state.flow.requests_per_s, rel=0.02)
        found = [row.hit_fraction for row in plan.prediction.tiers]
        assert found == pytest.approx(state.hits, abs=0.02)
    bare, tiered = (plan.money.usd_per_hour for plan in plans if plan.money is not None)
    assert bare is not None and tiered is not None and tiered < bare
    assert [tier.id for tier in plans[1].scenario.tiers] == ["host-dram"]
