"""Agents and chats on measured hardware: where their hits are, and how long first tokens take in each regime."""

from __future__ import annotations

import csv
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import small_scenarios as small

from planner.files.catalog_engines import at_version
from planner.files.sessions import USUAL_SIZE_SCV, size_factors
from planner.records import Deployment, KvTier, Lengths, Pool, Sessions, Workload
from planner.serving.flow import Plant, plant_of
from planner.serving.residency import cliffs, settled, sweep

DATA = Path(__file__).parents[1] / "data" / "measured" / "agent_replays.csv"
ROWS = {(int(row["users"]), row["offload"]): row for row in csv.DictReader(DATA.open())}
# 150 GB on each of 4 ranks, over PCIe 5
DRAM = KvTier("host-dram", "host-dram", "DDR5", 600e9, 8e12, 0.0, 500e9, 500e9, 0.5e-3, None, link_factor=0.79)
B200_TP4 = Deployment("colocated-chunked", decode=Pool("b200", 1, tp=4, ep=4))
# prompts of 82k tokens, answers of 2.9k; six turns a session in half an hour, so a sixth of the prompts is new
SIZES = size_factors(USUAL_SIZE_SCV, 162_000.0 / 90_900.0)  # no context beyond 164k tokens
AGENTS = Sessions(1, 6, 2000.0, 72_000.0, 300.0, 2_850.0, 10.0, size_factors=SIZES)
# 16..512 clients without a pause: prompts of 2,064 tokens, answers of 592, 12 % of the prompt tokens new
CHATS = Sessions(1, 5, 0.0, 350.0, 265.0, 592.0, 0.01, size_factors=size_factors(USUAL_SIZE_SCV))
CHAT_ROWS = {
    (int(row["clients"]), row["offload"]): row for row in csv.DictReader(DATA.with_name("chat_clients.csv").open())
}


@cache
def plant(offload: bool) -> Plant:
    base = small.scenario(("b200",), "deepseek-ai/DeepSeek-R1", weights="nvfp4", kv_dtype="fp8")
    workload, engine = in_sessions(base.workload, AGENTS), at_version(base.engine, "0.19.1")
    asked = replace(base, engine=engine, workload=workload, tiers=(DRAM,) if offload else ())
    return plant_of(asked, B200_TP4)


@cache
def chats(offload: bool) -> Plant:
    base = small.scenario(("b200",), "meta-llama/Llama-3.1-70B", weights="nvfp4", kv_dtype="fp8")
    tiers = (replace(DRAM, capacity_bytes=300e9),) if offload else ()
    workload, engine = in_sessions(base.workload, CHATS), at_version(base.engine, "0.19.1")
    asked = replace(base, engine=engine, workload=workload, tiers=tiers)
    return plant_of(asked, Deployment("colocated-chunked", decode=Pool("b200", 1, tp=1)))


def in_sessions(workload: Workload, sessions: Sessions) -> Workload:
    sizes = np.asarray(sessions.size_factors)
    steps = np.arange(sessions.turns) * (sessions.growth_tokens + sessions.output_tokens)
    prompts = sessions.system_tokens + np.outer(sizes, sessions.first_tokens + steps).ravel()
    outputs = np.repeat(sizes * sessions.output_tokens, sessions.turns)
    lengths = Lengths(prompts, outputs, np.full(prompts.size, 1.0 / prompts.size))
    return replace(workload, lengths=lengths, sessions=sessions)


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


@pytest.mark.parametrize(("users", "offload", "factor"), [(64, "on", 1.2), (64, "off", 1.2), (32, "on", 1.2)])
def test_waits_for_room(users: int, offload: str, factor: float) -> None:
    """Nothing found, and hits in host memory; the last is just past the edge, where waits are differences.

    Of the run with 32 users and nothing offloaded four fifths of what the engine generated reached no client: 679,217
    tokens for 73 prompts, where the 53 requests that ended in time had 2,770 each. It says nothing of such answers.
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


def test_chats_lose_their_hits_between_128_and_256_clients() -> None:
    """87 % of prompt tokens are found in memory at 128 clients, 12 % at 256: half of it at 202, between the two."""
    first, last = CHAT_ROWS[128, "off"], CHAT_ROWS[256, "on"]
    halfway = (float(first["gpu_hit_percent"]) / 2.0 - float(last["gpu_hit_percent"])) / (
        float(first["gpu_hit_percent"]) - float(last["gpu_hit_percent"])
    )
    measured = 256.0 - 128.0 * halfway
    for offload in (True, False):
        built = chats(offload)
        cliff = cliffs(built, sweep(built, [64.0, 128.0, 192.0, 256.0, 512.0]))[0]
        assert cliff.lost_at_factor == pytest.approx(measured, rel=0.25)
        assert 128.0 < cliff.lost_at_factor < 256.0


@pytest.mark.parametrize("clients", [256, 512])
def test_host_memory_holds_prompts_without_answers(clients: int) -> None:
    """300 GB hold the chats of 512 clients, but this engine offloads prompts alone: 60 % is found, not 88 %."""
    row = CHAT_ROWS[clients, "on"]
    found = settled(chats(True), "cold", float(clients)).hit_fraction
    measured = (float(row["gpu_hit_percent"]) + float(row["host_hit_percent"])) / 100.0
    assert found == pytest.approx(measured, abs=0.09)
    everything = replace(chats(True).scenario, engine=replace(chats(True).scenario.engine, tiers_hold="everything"))
    kept = settled(plant_of(everything, chats(True).deployment), "cold", float(clients)).hit_fraction
    assert kept > found + 0.2


@pytest.mark.parametrize("clients", [256, 512])
@pytest.mark.parametrize("offload", ["on", "off"])
def test_waits_of_chats_for_room(clients: int, offload: str) -> None:
    measured = float(CHAT_ROWS[clients, offload]["mean_ttft_ms"]) / 1e3
    predicted = settled(chats(offload == "on"), "cold", float(clients)).flow.ttft_s
    assert measured / 1.25 <= predicted <= measured * 1.25


@pytest.mark.parametrize("clients", [16, 32, 64, 128])
def test_first_tokens_of_chats_with_everything_in_memory(clients: int) -> None:
    for offload in ("on", "off"):
        row = CHAT_ROWS[clients, offload]
        predicted_ms = 1e3 * settled(chats(offload == "on"), "cold", float(clients)).flow.ttft_s
        for measured in (float(row["mean_ttft_ms"]), float(row["p50_ttft_ms"])):
            assert measured / 1.5 <= predicted_ms <= measured * 1.5
