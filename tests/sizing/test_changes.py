"""One thing changed, by hand; the waste of a wrong ratio in the fluid limit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import small_scenarios as small
from hypothesis import given
from hypothesis import strategies as st

from planner.records import Arrivals, Deployment, Pool
from planner.serving.predict import predict
from planner.sizing import changes

TRACE = Arrivals(
    time_s=np.array([1.0, 2.0, 4.0]),
    input_tokens=np.array([100.0, 200.0, 300.0]),
    output_tokens=np.array([10.0, 20.0, 30.0]),
    duration_s=6.0,
)


def test_load_squeezes_a_trace() -> None:
    question = small.scenario(requests_per_s=0.5)
    question = replace(question, workload=replace(question.workload, arrivals=TRACE))
    twice = changes.with_load(question, 2.0).workload
    assert twice.requests_per_s == 1.0 and twice.arrivals is not None
    assert twice.arrivals.time_s.tolist() == [0.5, 1.0, 2.0] and twice.arrivals.duration_s == 3.0


def test_lengths_are_whole_tokens_of_at_least_one() -> None:
    assert changes.scaled(np.array([1.0, 3.0, 10.0]), 0.25).tolist() == [1.0, 1.0, 2.0]


def test_long_prompts_by_hand() -> None:
    """20 equal shares, factor 2: the longest tenth of the mass becomes 2 x 0.1 / 1.1 = 0.182."""
    tokens = np.arange(1.0, 21.0)
    changed = changes.tilted(tokens, np.full(20, 0.05), 2.0)
    # levels 0.025, 0.075, ...; v(u) = 1.1 u below 0.818, above 0.9 + (u - 0.818) 0.55; lengths at ceil(20 v)
    level = (np.arange(20) + 0.5) / 20
    short = 0.9 / 1.1
    moved = np.where(level < short, 1.1 * level, 0.9 + (level - short) * 0.55)
    assert changed.tolist() == np.ceil(20 * moved).tolist()
    assert np.mean(changed > 18) == pytest.approx(0.2)  # of 20 requests, 4 are long: 0.182 in whole requests


@given(st.floats(0.1, 10.0))
def test_a_heavier_tail_never_shortens(factor: float) -> None:
    tokens, weights = np.array([5.0, 1.0, 9.0, 9.5]), np.array([0.4, 0.4, 0.15, 0.05])
    changed = changes.tilted(tokens, weights, factor)
    assert np.all(changed >= tokens) if factor >= 1.0 else np.all(changed <= tokens)


@pytest.mark.parametrize("scv", [0.25, 4.0, 9.0])
def test_synthetic_arrivals_have_the_rate_and_the_scv(scv: float) -> None:
    arrivals = changes.with_arrival_scv(small.scenario(requests_per_s=20.0), scv).workload.arrivals
    assert arrivals is not None
    gaps = np.diff(arrivals.time_s)
    assert arrivals.time_s.size / arrivals.duration_s == pytest.approx(20.0)
    assert gaps.var() / gaps.mean() ** 2 == pytest.approx(scv, rel=0.02)
    lengths = small.CHAT
    assert arrivals.input_tokens.mean() == pytest.approx(float(lengths.weights @ lengths.input_tokens), rel=1e-3)


def test_a_worker_less_than_one_is_none() -> None:
    one = Deployment("colocated-chunked", decode=Pool("h100-sxm", 1))
    assert changes.with_workers(one, "decode", -1) is None
    assert changes.with_workers(one, "prefill", 1) is None


@pytest.mark.parametrize(("factor", "pools"), [(2.0, (5, 1)), (0.5, (1, 3))])
def test_a_wrong_ratio_of_whole_workers(factor: float, pools: tuple[int, int]) -> None:
    """3 workers of 1 and 2 of 2 are 7 accelerators: 5 and 1, or 1 and 3, are the splits on either side of 3 and 2."""
    changed = changes.with_ratio(small.SPLIT, factor)
    assert changed is not None and changed.prefill is not None
    assert (changed.prefill.replicas, changed.decode.replicas) == pools
    assert changed.accelerators <= small.SPLIT.accelerators


@pytest.mark.parametrize(
    ("pools", "factor", "wrong"),
    [((6, 1), 0.5, (3, 1)), ((6, 1), 2.0, (12, 1)), ((1, 1), 2.0, (2, 1)), ((1, 1), 0.5, (1, 2))],
)
def test_a_ratio_that_whole_workers_cannot_trade(pools: tuple[int, int], factor: float, wrong: tuple[int, int]) -> None:
    """Decode workers of eight: none of them can be traded for what prefill has."""
    fleet = Deployment("disaggregated", Pool("h100-sxm", pools[1], tp=8), Pool("h100-sxm", pools[0], tp=1))
    changed = changes.with_ratio(fleet, factor)
    assert changed is not None and changed.prefill is not None
    assert (changed.prefill.replicas, changed.decode.replicas) == wrong


# ------------------------------------------------------------------------------------------- waste of a wrong ratio


@pytest.mark.parametrize("factor", [2.0, 0.5])
def test_two_large_pools_lose_what_the_fluid_limit_says(factor: float) -> None:
    """A balanced fleet of 3,000 accelerators, as the predictions of its own pools balance it."""
    question = small.scenario()

    def carried(prefill: int, decode: int) -> float:
        fleet = Deployment("disaggregated", Pool("h100-sxm", decode, tp=2), Pool("h100-sxm", prefill, tp=1))
        return predict(question, fleet, with_intervals=False).requests_per_s_max

    per_prefill, per_decode = carried(1, 1000), carried(1000, 1)  # the pool of one binds
    x = (1.0 / per_prefill) / (1.0 / per_prefill + 2.0 / per_decode)  # accelerators per request of prefill over all
    prefill = round(3000 * x)
    balanced = Deployment(
        "disaggregated", Pool("h100-sxm", (3000 - prefill) // 2, tp=2), Pool("h100-sxm", prefill, tp=1)
    )
    wrong = changes.with_ratio(balanced, factor)
    assert wrong is not None and wrong.prefill is not None
    lost = 1.0 - carried(wrong.prefill.replicas, wrong.decode.replicas) / carried(prefill, balanced.decode.replicas)
    assert lost == pytest.approx(x / (1.0 + x) if factor > 1.0 else (1.0 - x) / (2.0 - x), abs=3e-3)
