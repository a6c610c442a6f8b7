"""An open loop with two settled states: where the warm one is lost, where it comes back, and what a tier does to it.

PUBLISHED §6 has a fluid model of KV in balance whose warm state collapses at 10.8 requests/s and recovers only below
8.0. Its parameters are not public. Here 80 documents of 2,048 tokens are asked for in turn, with answers of 500
tokens, on one H100 that runs an 8B model: sized so that it collapses near 10.8; where it recovers then follows.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import small_scenarios as small

from planner.records import Arrivals, Deployment, KvTier, Lengths, Pool, PromptBlocks
from planner.serving.flow import Plant, plant_of
from planner.serving.residency import cliffs, level_tokens, settled, sweep
from planner.serving.reuse import with_hits

DOCUMENTS, TOKENS, ANSWER, ROUNDS = 80, 2048, 500.0, 12
DRAM = KvTier("host-dram", "host-dram", "DDR5", 1e12, 8e12, 0.0, 500e9, 500e9, 0.5e-3, None, link_factor=0.79)


@cache
def plant(tiered: bool = False) -> Plant:
    count, each = DOCUMENTS * ROUNDS, TOKENS // 512
    ids = (np.arange(count)[:, None] % DOCUMENTS * 1000 + np.arange(each)).ravel().astype(np.int64)
    inputs, outputs = np.full(count, float(TOKENS)), np.full(count, ANSWER)
    base = small.scenario()
    workload = replace(
        base.workload,
        requests_per_s=1.0,
        lengths=Lengths(inputs, outputs, np.full(count, 1.0 / count)),
        arrivals=Arrivals(np.arange(float(count)), inputs, outputs, float(count)),
        blocks=PromptBlocks(ids, np.arange(count + 1, dtype=np.int64) * each, 512),
    )
    asked = replace(base, workload=workload, tiers=(DRAM,) if tiered else ())
    return plant_of(asked, Deployment("colocated-chunked", decode=Pool("h100-sxm", 1, tp=1)))


def fills_up_at(found: bool) -> float:
    """The rate at which what runs, with everything or nothing found, leaves too little for all documents."""
    built = plant()
    workload = with_hits(built.scenario.workload, [1e15 if found else 0.0], small.engine("generic"))
    loaded = built.loaded(workload)
    left = level_tokens(built)[0] - DOCUMENTS * TOKENS
    context = built.decode.traffic.context_moments[0]
    low, high = 0.1, 40.0
    for _ in range(40):
        middle = (low + high) / 2.0
        low, high = (middle, high) if loaded.at_rate(middle).batch * context < left else (low, middle)
    return low


def test_collapse_and_recovery_are_where_what_runs_leaves_no_room() -> None:
    cliff = cliffs(plant(), sweep(plant(), np.geomspace(1.0, 24.0, 16).tolist()))[0]
    assert cliff.lost_at_factor == pytest.approx(fills_up_at(True), rel=0.03)
    assert cliff.recovers_at_factor == pytest.approx(fills_up_at(False), rel=0.03)
    assert cliff.lost_at_factor == pytest.approx(10.8, rel=0.1)
    assert cliff.recovers_at_factor == pytest.approx(8.0, rel=0.1)


def test_between_the_two_both_states_stand() -> None:
    for rate, warm, cold in ((7.0, True, True), (9.0, True, False), (12.0, False, False)):
        for start, full in (("warm", warm), ("cold", cold)):
            assert (settled(plant(), start, rate).hit_fraction > 0.5) == full, (rate, start)


def test_a_tier_below_removes_the_bad_state() -> None:
    for rate in (7.0, 9.0, 12.0):
        states = [settled(plant(True), start, rate) for start in ("warm", "cold")]
        assert all(state.hit_fraction > 0.9 for state in states)
        assert states[0].flow.ttft_s == pytest.approx(states[1].flow.ttft_s, rel=0.25)
