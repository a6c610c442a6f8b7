"""Hits, waits and residency that settle together: warm and cold, and the cliff between them."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
import small_scenarios as small
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.records import Deployment, KvTier, Lengths, Pool, Scenario, Sessions
from planner.serving.flow import Plant, plant_of
from planner.serving.predict import evaluate_at
from planner.serving.residency import at_load, cliffs, level_tokens, requests_per_turn, settled, sweep
from planner.serving.traffic import traffic

some = settings(max_examples=15, deadline=None, derandomize=True)
AGENTS = Sessions(20, 12, 2000.0, 6000.0, 2000.0, 500.0, 20.0)
DRAM = KvTier("host-dram", "host-dram", "DDR5", 2e11, 8e12, 0.0, 500e9, 500e9, 0.5e-3, 5e-4, link_factor=0.79)
ONE = Deployment("colocated-chunked", decode=Pool("h100-sxm", 1, tp=1))
TWO = Deployment("disaggregated", decode=Pool("h100-sxm", 2, tp=1), prefill=Pool("h100-sxm", 2, tp=1))


def question(sessions: Sessions = AGENTS, *tiers: KvTier) -> Scenario:
    base = small.scenario()
    prompts = (
        sessions.system_tokens
        + sessions.first_tokens
        + np.arange(sessions.turns) * (sessions.growth_tokens + sessions.output_tokens)
    )
    count = sessions.turns
    lengths = Lengths(prompts, np.full(count, sessions.output_tokens), np.full(count, 1.0 / count))
    workload = replace(base.workload, lengths=lengths, sessions=sessions)
    return replace(base, workload=workload, tiers=tiers)


@cache
def plant(deployment: Deployment = ONE, scv: float = 0.0, dram_bytes: float = 0.0) -> Plant:
    tiers = (replace(DRAM, capacity_bytes=dram_bytes),) if dram_bytes else ()
    return plant_of(question(replace(AGENTS, think_scv=scv), *tiers), deployment)


@pytest.mark.parametrize("deployment", [ONE, TWO])
def test_users_are_where_their_time_is(deployment: Deployment) -> None:
    """Little's law: users = turns per second x (wait + own + run + thought)."""
    for factor in (0.2, 1.0, 3.0, 10.0):
        flow = settled(plant(deployment), "warm", factor).flow
        turns = flow.requests_per_s / requests_per_turn(AGENTS)
        assert turns * (flow.wait_s + flow.own_s + flow.run_s + 20.0) == pytest.approx(20 * factor, rel=0.02)
        assert flow.batch <= flow.slots_batch * (1.0 + 1e-9)


def test_means_agree_with_the_prediction_where_both_hold() -> None:
    for deployment in (ONE, TWO):
        state = settled(plant(deployment), "cold", 0.5)
        asked = at_load(question(), state)
        outcome = evaluate_at(asked, deployment, traffic(asked.workload))
        assert state.flow.itl_s == pytest.approx(outcome.itl_s["mean"], rel=0.15)
        assert state.flow.ttft_s == pytest.approx(outcome.ttft_s["mean"], rel=0.35)


@pytest.mark.parametrize("deployment", [ONE, TWO])
def test_the_cliff_of_agents_in_turn(deployment: Deployment) -> None:
    """Equal pauses: users in turn, so the cliff is a step where users x live context fill the memory (MODELLING §9).

    Live context: what a user holds when used again, the mean prompt less the shared system prompt. Alone they share
    a pool's memory; where running requests hold theirs elsewhere, the same sum counts.
    """
    built = plant(deployment)
    swept = sweep(built, np.geomspace(0.1, 20.0, 24).tolist())
    cliff = cliffs(built, swept)[0]
    live = float(np.mean(2000.0 + 6000.0 + np.arange(12) * 2500.0)) - 2000.0 + 500.0
    expected = (level_tokens(built)[0] - 2000.0) / live / 20.0
    assert cliff.lost_at_factor == pytest.approx(expected, rel=0.2)
    assert cliff.recovers_at_factor is not None and cliff.recovers_at_factor <= cliff.lost_at_factor * 1.01


def test_a_tier_below_moves_the_last_cliff() -> None:
    """Ten times the memory in host DRAM: what leaves the accelerator is found there, up to ten times the users."""
    built = plant(ONE, 0.0, 4e11)
    levels = level_tokens(built)
    swept = sweep(built, np.geomspace(0.1, 40.0, 24).tolist())
    near, far = cliffs(built, swept)
    assert near.lost_at_factor is not None and far.lost_at_factor is not None
    assert far.lost_at_factor / near.lost_at_factor == pytest.approx(levels[1] / levels[0], rel=0.25)


@some
@given(factor=st.floats(0.1, 20.0), scv=st.sampled_from([0.0, 0.5, 2.0]), disaggregated=st.booleans())
def test_the_fixed_point_lies_between_cold_and_warm(factor: float, scv: float, disaggregated: bool) -> None:
    built = plant(TWO if disaggregated else ONE, scv, 2e11)
    cold, warm = settled(built, "cold", factor), settled(built, "warm", factor)
    everything = settled(built, "warm", 1e-3).hit_fraction
    assert -1e-9 <= cold.hit_fraction <= warm.hit_fraction + 2e-3
    assert warm.hit_fraction <= everything + 2e-3
    for state in (cold, warm):  # settled: one round more changes nothing
        assert all(share >= -1e-9 for share in state.hits)
        assert np.all(np.diff(state.capacities_tokens) >= 0.0)


@pytest.mark.parametrize("scv", [0.0, 1.0])
def test_more_memory_never_finds_less(scv: float) -> None:
    found = [settled(plant(ONE, scv, size), "cold", 3.0).hit_fraction for size in (1e9, 2e10, 1e11, 4e11, 2e12)]
    assert all(later >= earlier - 2e-3 for earlier, later in pairwise(found))


@pytest.mark.parametrize("deployment", [ONE, TWO])
def test_more_users_never_find_more(deployment: Deployment) -> None:
    built = plant(deployment, 1.0)
    found = [settled(built, "cold", float(factor)).hit_fraction for factor in np.geomspace(0.1, 20.0, 12)]
    assert all(later <= earlier + 5e-3 for earlier, later in pairwise(found))
