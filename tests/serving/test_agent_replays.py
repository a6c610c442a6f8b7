"""Agents replayed on measured hardware: where their hits are, and how long first tokens take in each regime."""

from __future__ import annotations

import csv
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import small_scenarios as small

from planner.records import Deployment, KvTier, Lengths, Pool, Sessions
from planner.serving.flow import Plant, plant_of
from planner.serving.residency import cliffs, settled, sweep

DATA = Path(__file__).parents[1] / "data" / "measured" / "agent_replays.csv"
ROWS = {(int(row["users"]), row["offload"]): row for row in csv.DictReader(DATA.open())}
# 150 GB on each of 4 ranks, over PCIe 5
DRAM = KvTier("host-dram", "host-dram", "DDR5", 600e9, 8e12, 0.0, 500e9, 500e9, 0.5e-3, None, link_factor=0.79)
B200_TP4 = Deployment("colocated-chunked", decode=Pool("b200", 1, tp=4, ep=4))
# prompts of 82k tokens, answers of 2.9k; six turns a session in half an hour, so a sixth of the prompts is new
AGENTS = Sessions(1, 6, 2000.0, 72_000.0, 300.0, 2_850.0, 10.0)


@cache
def plant(offload: bool) -> Plant:
    base = small.scenario(("b200",), "deepseek-ai/DeepSeek-R1", weights="nvfp4", kv_dtype="fp8")
    prompts = 74_000.0 + np.arange(6) * 3_150.0
    lengths = Lengths(prompts, np.full(6, 2_850.0), np.full(6, 1.0 / 6.0))
    workload = replace(base.workload, lengths=lengths, sessions=AGENTS)
    asked = replace(base, workload=workload, tiers=(DRAM,) if offload else ())
    return plant_of(asked, B200_TP4)


@pytest.mark.parametrize(("users", "offload"), sorted(ROWS))
def test_hits_are_where_they_were_measured(users: int, offload: str) -> None:
    """Most of what can be found is found in memory, in host memory, or nowhere, as in the run."""
    row = ROWS[users, offload]
    reachable = float(row["infinite_hit_fraction"])
    measured = [float(row["gpu_hit_fraction"]), float(row["host_hit_fraction"] or 0.0)]
    state = settled(plant(offload == "on"), "cold", float(users))
    everything = settled(plant(offload == "on"), "warm", 1e-3).hit_fraction
    for level, share in enumerate(state.hits):
        assert (share > everything / 2.0) == (measured[level] > reachable / 2.0), (level, state.hits)


def test_cliffs_lie_between_the_measured_points() -> None:
    """Hits in memory: whole at 8 users, none at 32; in host memory: whole at 32, a fifth at 64."""
    near, far = cliffs(plant(True), sweep(plant(True), np.geomspace(2.0, 128.0, 16).tolist()))
    assert near.lost_at_factor is not None and 8.0 < near.lost_at_factor < 32.0
    assert far.lost_at_factor is not None and 32.0 < far.lost_at_factor < 64.0
    # users x live context fill the memory: 1,901,888 tokens / (82 k + 2.9 k) = 22.4 users, measured
    assert near.lost_at_factor == pytest.approx(1_901_888 / 84_900, rel=0.25)
    assert far.lost_at_factor == pytest.approx(600e9 / 140_544 / 84_900, rel=0.25)


@pytest.mark.parametrize(("users", "offload", "factor"), [(64, "on", 1.5), (64, "off", 1.5), (32, "on", 5.0)])
def test_waits_for_room(users: int, offload: str, factor: float) -> None:
    """Nothing found, and hits in host memory.

    The last is barely past the edge, where the wait is a small difference of large numbers: the run held 21 requests
    at a time, the form 24, and its steps were a third longer.
    """
    measured = float(ROWS[users, offload]["mean_ttft_s"])
    predicted = settled(plant(offload == "on"), "cold", float(users)).flow.ttft_s
    assert measured / factor <= predicted <= measured * factor


@pytest.mark.parametrize("offload", ["on", "off"])
def test_first_tokens_with_everything_in_memory(offload: str) -> None:
    """The run begins with the first prompts of all users at once, which pulls its mean away from its median."""
    row = ROWS[8, offload]
    predicted = settled(plant(offload == "on"), "cold", 8.0).flow.ttft_s
    assert float(row["median_ttft_s"]) <= predicted <= float(row["mean_ttft_s"])
