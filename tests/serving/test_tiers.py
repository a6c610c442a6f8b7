"""Tiers below the accelerator's memory: bytes, rates, and fetching against computing, held to published numbers."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
import roofline_examples as ex
import small_scenarios as small
from hypothesis import given, settings
from hypothesis import strategies as st

from planner import sizing
from planner.errors import FieldError
from planner.queueing.service import single_server_wait_s
from planner.records import Deployment, Floats, KvTier, Lengths, Plan, Pool, Scenario, Sessions, Workload
from planner.serving.predict import evaluate_at, predict
from planner.serving.reuse import with_hits
from planner.serving.tiers import (
    access,
    break_even_tokens,
    drive_writes_per_day,
    fetch_s,
    stored_bytes,
    units,
)
from planner.serving.traffic import traffic
from planner.sizing.cost import tokens_per_hour

some = settings(max_examples=25, deadline=None, derandomize=True)
DRAM = KvTier("host-dram", "host-dram", "DDR5", 1e12, 8e12, 0.0, 500e9, 500e9, 0.5e-3, 5e-4, link_factor=0.79)
DRIVES = KvTier("local-ssd", "local-ssd", "NVMe", 30e12, 245e12, 7.68e12, 14e9, 10e9, 1e-3, 2e-5, 1.0, 0.79)
POOL = KvTier("pool", "pool", "RDMA", 10e12, 1e18, 0.0, 190e9, 190e9, 0.45e-3, None, link_factor=0.475)
CHATS = Sessions(40, 10, 2000.0, 1000.0, 500.0, 300.0, 20.0, 1.0)


# ------------------------------------------------------------------------------------------- published numbers, exact


@pytest.mark.parametrize(("tokens", "measured_ms"), [(128, 0.54), (1_024, 1.50), (4_096, 4.75), (32_768, 31.65)])
def test_a_measured_connector(tokens: int, measured_ms: float) -> None:
    """Qwen3-8B on 8 x H800 (PUBLISHED §1.3): 0.45 ms + bytes / 147.5 GB/s; 147,456 bytes per token, in bf16."""
    size = tokens * 147_456.0  # 2 x 36 layers x 8 heads x 128 x 2 bytes
    assert float(fetch_s(size, 0.45e-3, 147.5e9)) * 1e3 == pytest.approx(measured_ms, rel=0.2)


@pytest.mark.parametrize(
    ("tokens", "measured_ms"), [(2_048, 35), (8_192, 57), (16_384, 86), (32_768, 165), (49_152, 235)]
)
def test_a_measured_pull_from_a_peer(tokens: int, measured_ms: float) -> None:
    """gpt-oss-120b on H200 (PUBLISHED §6): 26 ms + 4.2 us per token, so 36,864 bytes at 8.78 GB/s."""
    size = float(stored_bytes(ex.worker(ex.GPT_OSS_120B, "mxfp4"), tokens))
    windows = 18 * 128 * 2048.0  # the windowed layers' share, fixed
    assert size == pytest.approx(tokens * 36_864.0 + windows, rel=1e-9)
    assert float(fetch_s(size, 26e-3, 36_864.0 / 4.2e-6)) * 1e3 == pytest.approx(measured_ms, rel=0.2)


def test_capacity_of_a_terabyte() -> None:
    """320 KB per token of a 70B-like model in bf16: 1 TB holds about 3 M tokens; M tokens take about 305 GB or GiB."""
    per_token = float(stored_bytes(ex.worker(tp=8), 1.0))
    assert per_token == 327_680.0  # 2 x 80 x 8 x 128 x 2
    assert 1e12 / per_token == pytest.approx(3.05e6, rel=0.01)
    assert 1e6 * per_token / 2**30 == pytest.approx(305.0, rel=0.01)


@pytest.mark.parametrize(
    ("gflops_per_s", "published_gbs"), [(8 * 312e12, 6.0), (8 * 989e12, 19.0)], ids=["8 x A800", "8 x H800"]
)
def test_least_useful_rate(gflops_per_s: float, published_gbs: float) -> None:
    """B > 2 d s G / (gqa (a p d + b d^2)), p 8,192, d 8,192, gqa 8, a 4, b 22, s 2 bytes (PUBLISHED §1.3): fetching
    breaks even with computing exactly at that rate."""
    d, p = 8192.0, 8192.0
    token_s = (4.0 * p * d + 22.0 * d**2) / gflops_per_s  # of one layer
    rate = (2.0 * d * 2.0 / 8.0) / token_s
    assert rate / 1e9 == pytest.approx(published_gbs, rel=0.2)
    tokens = np.geomspace(1.0, 1e5, 60)
    for factor, wins in ((1.01, True), (0.99, False)):
        fetched = fetch_s(tokens * (2.0 * d * 2.0 / 8.0), 0.0, factor * rate)
        assert (break_even_tokens(tokens, fetched, tokens * token_s) is not None) == wins


def test_break_even_of_two_lines() -> None:
    """h* = t0 / (s1 - kappa / beta) = 1 ms / (66 us - 327,680 B / 50 GB/s) = 16.8 tokens."""
    tokens = np.unique(np.round(np.geomspace(1.0, 1e6, 121)))
    found = break_even_tokens(tokens, fetch_s(tokens * 327_680.0, 1e-3, 50e9), tokens * 66e-6)
    assert found == pytest.approx(1e-3 / (66e-6 - 327_680.0 / 50e9), rel=1e-6)
    assert break_even_tokens(tokens, fetch_s(tokens * 327_680.0, 1e-3, 1e9), tokens * 66e-6) is None


def test_copies_under_tensor_parallelism_are_stored() -> None:
    """DeepSeek-R1 keeps one latent per token: 61 x 576 x 1 byte (fp8) = 35,136 on each of 4 ranks, all four stored."""
    one = float(stored_bytes(ex.worker(ex.DEEPSEEK_R1, "fp8", "fp8", tp=1, accelerator=ex.H200), 1000.0))
    four = float(stored_bytes(ex.worker(ex.DEEPSEEK_R1, "fp8", "fp8", tp=4, accelerator=ex.H200), 1000.0))
    assert one == pytest.approx(35_136_000.0)
    assert four == pytest.approx(4.0 * one)
    # heads are split, not copied, up to their number: 8 heads over 4 ranks
    assert float(stored_bytes(ex.worker(tp=4), 1.0)) == float(stored_bytes(ex.worker(tp=1), 1.0))


def test_drives() -> None:
    assert units(DRIVES, 1e12) == 1 and units(DRIVES, 30e12) == 4 and units(DRIVES, 200e12) == 8
    # 1 GB/s for a day is 86.4 TB: 2.88 times 30 TB
    assert drive_writes_per_day(1e9, 30e12) == pytest.approx(2.88)


def test_links_share_a_node() -> None:
    """H100: 63 GB/s of host link at 0.79 = 49.8 GB/s each; 8 of them 398 GB/s, less than two sockets' memory."""
    place = access(DRAM, ex.worker(tp=4), None)
    assert place.request_bytes_per_s == pytest.approx(4 * 0.79 * ex.H100.host_bytes_per_s)
    assert place.node_read_bytes_per_s == pytest.approx(min(500e9, 8 * 0.79 * ex.H100.host_bytes_per_s))
    drives = access(DRIVES, ex.worker(tp=4), None)
    assert drives.request_bytes_per_s == pytest.approx(4 * 14e9)
    with pytest.raises(FieldError, match="host link"):
        access(DRAM, ex.worker(accelerator=replace(ex.H100, host_bytes_per_s=None)), None)


@some
@given(load=st.floats(0.0, 0.99), mean=st.floats(1e-3, 10.0), scv=st.floats(0.0, 5.0))
def test_waits_for_a_link(load: float, mean: float, scv: float) -> None:
    assert single_server_wait_s(load, mean, scv) >= 0.0
    assert single_server_wait_s(load, mean, 1.0) == pytest.approx(load / (1.0 - load) * mean)  # M/M/1
    assert single_server_wait_s(1.0, mean, scv) == np.inf


def test_a_published_prompt_from_storage() -> None:
    """Qwen3-32B, 10K tokens: 4.3 s computed, 0.6 s from storage (PUBLISHED §6), which does not name the hardware.

    262,144 bytes a token: 2.6 GB. One A100-80, the smallest that holds the model in bf16, and one PCIe 4 drive of
    6.8 GB/s take 4.2 and 0.54 s.
    """
    drive = KvTier("local-ssd", "local-ssd", "NVMe", 7.68e12, 245e12, 7.68e12, 6.8e9, 4e9, 1e-3, None, 1.0, 0.79)
    base = small.scenario(("a100-sxm-80",), "Qwen/Qwen3-32B", weights="bf16")
    alone = Deployment("colocated-chunked", decode=Pool("a100-sxm-80", 1, tp=1))
    for found, measured_s in ((0.0, 4.3), (9_984.0, 0.6)):
        one = np.array([found])
        lengths = Lengths(np.array([10_000.0]), np.array([100.0]), np.ones(1), one, one[None])
        workload = replace(base.workload, lengths=lengths, requests_per_s=0.01)
        outcome = evaluate_at(replace(base, workload=workload, tiers=(drive,)), alone, traffic(workload))
        assert outcome.ttft_s["mean"] == pytest.approx(measured_s, rel=0.2)


# ------------------------------------------------------------------------------------------------- in a deployment


def question(*tiers: KvTier, sessions: Sessions | None = CHATS) -> Scenario:
    base = small.scenario((small.boxes_of(2),), requests_per_s=8.0)
    own = np.arange(10) * 800.0 + 3000.0
    lengths = Lengths(own, np.full(10, 300.0), np.full(10, 0.1))
    workload = replace(base.workload, lengths=lengths, sessions=sessions)
    return replace(base, tiers=tiers, workload=workload)


@pytest.mark.parametrize("deployment", [small.SPLIT, small.TOGETHER, small.WHOLE])
def test_fetching_adds_its_time_and_nothing_else(deployment: object) -> None:
    asked = question(DRAM)
    near = with_hits(asked.workload, (1e15, 1e15), small.engine("generic"))
    far = with_hits(asked.workload, (0.0, 1e15), small.engine("generic"))
    before = evaluate_at(replace(asked, workload=near), deployment, traffic(near))
    after = evaluate_at(replace(asked, workload=far), deployment, traffic(far))
    assert after.ttft_s["mean"] - before.ttft_s["mean"] == pytest.approx(after.ttft_parts_s["fetch_s"], rel=1e-6)
    assert after.itl_s == pytest.approx(before.itl_s)
    assert sum(after.ttft_parts_s.values()) == pytest.approx(after.ttft_s["mean"], rel=0.02)


def test_a_link_of_endless_rate_is_memory() -> None:
    endless = replace(DRAM, read_bytes_per_s=1e30, write_bytes_per_s=1e30, latency_s=0.0, link_factor=1e20)
    asked = question(endless)
    near, far = (with_hits(asked.workload, levels, small.engine("generic")) for levels in ((1e15, 1e15), (0.0, 1e15)))
    outcomes = [evaluate_at(replace(asked, workload=w), small.SPLIT, traffic(w)) for w in (near, far)]
    assert outcomes[0].ttft_s == pytest.approx(outcomes[1].ttft_s, rel=1e-9)


def test_without_reuse_a_tier_changes_nothing() -> None:
    plain = question(sessions=None)
    first = sizing.size(plain)
    for tiers in ((DRAM,), (DRAM, DRIVES, POOL)):
        plan = sizing.size(replace(plain, tiers=tiers))
        assert plan.deployment == first.deployment
        assert plan.prediction is not None and first.prediction is not None
        assert plan.prediction.ttft_s == first.prediction.ttft_s
        assert plan.prediction.tiers == ()
        assert plan.money is not None and not any(line.name.startswith("KV in") for line in plan.money.lines)


@cache
def tiered_plan() -> Plan:
    return sizing.size(question(DRAM, DRIVES))


def test_rows_of_a_plan() -> None:
    plan = tiered_plan()
    assert plan.verdict == "feasible" and plan.prediction is not None
    memory, dram, drives = plan.prediction.tiers
    assert [row.id for row in (memory, dram, drives)] == ["hbm", "host-dram", "local-ssd"]
    assert memory.capacity_tokens < dram.capacity_tokens < drives.capacity_tokens
    assert 0.5 < memory.hit_fraction + dram.hit_fraction + drives.hit_fraction < 1.0
    for row in (dram, drives):
        assert row.read_bytes_per_s <= row.read_bytes_per_s_max and row.write_bytes_per_s <= row.write_bytes_per_s_max
        assert row.fetch_s < row.recompute_s
        assert row.break_even_tokens is not None and row.break_even_tokens >= 1.0
    assert drives.drive_writes_per_day is not None and drives.drive_writes_per_day > 0.0
    assert dram.write_bytes_per_s == pytest.approx(drives.write_bytes_per_s)  # write-through


def prompt_law(workload: Workload) -> tuple[Floats, Floats, Floats]:
    """Chances, prompts and what they find."""
    lengths = workload.lengths
    assert lengths.cached_tokens is not None
    return lengths.weights, lengths.input_tokens, lengths.cached_tokens


def test_tiers_are_on_the_bill() -> None:
    """5e-4 and 2e-5 USD per GB and hour, on every node of the pool that prefills; the parts sum to the whole."""
    plan = tiered_plan()
    assert plan.money is not None and plan.money.usd_per_hour is not None and plan.deployment is not None
    lines = {line.name: line.usd_per_hour for line in plan.money.lines}
    pool = plan.deployment.prefill or plan.deployment.decode
    nodes = -(-pool.accelerators // 2)
    assert lines["KV in host-dram"] == pytest.approx(nodes * 1e12 / 1e9 * 5e-4)
    assert lines["KV in local-ssd"] == pytest.approx(nodes * 30e12 / 1e9 * 2e-5)
    assert sum(lines.values()) == pytest.approx(plan.money.usd_per_hour)
    dollars = {
        side: plan.money.usd_per_mtok[side] * count / 1e6 for side, count in tokens_per_hour(plan.scenario).items()
    }
    assert sum(dollars.values()) == pytest.approx(plan.money.usd_per_hour)
    for other in plan.alternatives:
        assert other.usd_per_hour is not None and other.usd_per_hour >= 0.0


@pytest.mark.parametrize("deployment", [small.SPLIT, small.TOGETHER])
def test_what_memory_reads_and_writes(deployment: Deployment) -> None:
    """8 requests/s of prompts of 3,000 to 10,200 tokens, all but 800 found; 131,072 bytes per token; nodes of two."""
    asked = question()
    found = with_hits(asked.workload, (1e15,), small.engine("generic"))
    (memory,) = predict(replace(asked, workload=found), deployment, with_intervals=False).tiers
    chance, prompts, cached = prompt_law(found)
    pool = deployment.prefill or deployment.decode
    chunks = np.ceil((prompts - cached) / (pool.token_budget or asked.engine.token_budget))
    read, written = chance @ (chunks * (prompts + cached) / 2.0), chance @ (prompts - cached)
    if deployment.prefill is None:
        read += 299.0 * (chance @ (prompts + 150.0))
        written += 300.0
    rate = 8.0 * 131_072.0 / (pool.accelerators / 2)
    assert memory.read_bytes_per_s == pytest.approx(rate * read, rel=0.01)
    assert memory.write_bytes_per_s == pytest.approx(rate * written, rel=0.01)
    assert memory.read_bytes_per_s_max == 2 * small.accelerator("h100-sxm").memory_bytes_per_s
    assert 0.0 < memory.utilization < 1.0


@some
@given(levels=st.lists(st.floats(0.0, 2e6), min_size=3, max_size=3))
def test_a_token_counts_for_the_nearest_level(levels: list[float]) -> None:
    workload = with_hits(question().workload, levels, small.engine("generic"))
    lengths = workload.lengths
    assert lengths.cached_tokens is not None and lengths.fetched_tokens is not None
    assert np.all(lengths.fetched_tokens >= -1e-9)
    assert np.all(lengths.cached_tokens <= lengths.input_tokens + 1e-9)
    assert lengths.weights.sum() == pytest.approx(1.0)
    alone = with_hits(question().workload, (max(levels),), small.engine("generic")).lengths
    assert lengths.weights @ lengths.cached_tokens == pytest.approx(alone.weights @ alone.cached_tokens, rel=1e-9)


def test_a_larger_tier_never_slows() -> None:
    sizes = (0.0, 2e9, 8e9, 32e9, 256e9, 4e12)
    tier_hits, ttfts = [], []
    for size in sizes:
        asked = sizing.reuse.resolved(question(replace(DRAM, capacity_bytes=size)), small.SPLIT)
        prediction = predict(asked, small.SPLIT, with_intervals=False)
        tier_hits.append(sum(row.hit_fraction for row in prediction.tiers))
        ttfts.append(prediction.ttft_s["mean"])
    assert all(later >= earlier - 1e-9 for earlier, later in pairwise(tier_hits))
    assert ttfts[-1] <= ttfts[0]
