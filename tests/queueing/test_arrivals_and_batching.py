"""Regularity of arrivals from a trace; prompts that share a prefill step; admission that reserves."""

import numpy as np
import pytest
from queueing_cases import rows

from planner.queueing import (
    ServiceLaw,
    arrival_profile,
    batch_for_reservation,
    batched_prefill,
    central_queue,
    mean_gap_quantile_s,
)


def test_a_poisson_stream():
    random = np.random.default_rng(1)
    arrivals = np.sort(random.uniform(0.0, 4000.0, 20_000))
    profile = arrival_profile(arrivals, 500.0, 4000.0)
    assert profile.requests_per_s == pytest.approx(np.full(8, 5.0), rel=0.08)
    assert profile.gap_scv == pytest.approx(1.0, abs=0.05)
    assert np.nanmax(np.abs(profile.scv - 1.0)) < 0.15
    assert profile.renewal


def test_a_clock():
    profile = arrival_profile(np.arange(0.5, 1000.0), 100.0, 1000.0)
    assert profile.gap_scv == pytest.approx(0.0, abs=1e-12)
    assert profile.long_dispersion < 0.3


def test_a_real_trace_is_not_a_renewal_stream():
    """Azure conversations: gaps look Poisson, counts do not (MODELLING §7.2: SCV 1.2, dispersion 16)."""
    arrivals = np.array([float(row["arrival_s"]) for row in rows("azure_2023_conv_slice.csv")])
    profile = arrival_profile(arrivals, 60.0, float(arrivals[-1]))
    assert profile.gap_scv < 3.0
    assert profile.long_dispersion > 2.0 * profile.gap_scv
    assert not profile.renewal
    wait = central_queue(
        4, 3.0, ServiceLaw.exponential(1.0), profile.gap_scv, arrival_dispersion=profile.long_dispersion
    )
    assert str(wait.trust) == "no closed form"


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (([1.0, 2.0], 1.0, 10.0), "arrival_s"),
        (([1.0, 3.0, 2.0], 1.0, 10.0), "ascend"),
        (([1.0, 2.0, 3.0], 0.0, 10.0), "window_s"),
        (([1.0, 2.0, 3.0], 20.0, 10.0), "window_s"),
    ],
)
def test_refused_traces(arguments, word):
    with pytest.raises(ValueError, match=word):
        arrival_profile(*arguments)


def packed_steps(rate, prompts, base, token, budget):
    """Mean TTFT and share of time at work of a worker that packs whatever waits into each step."""
    arrivals = np.cumsum(np.random.default_rng(5).exponential(1.0 / rate, prompts.size))
    left, ttft, now, worked, head, came = prompts.copy(), np.zeros(prompts.size), 0.0, 0.0, 0, 0
    while head < prompts.size:
        if head == came and (came >= prompts.size or arrivals[came] > now):
            now = max(now, arrivals[head])
        while came < prompts.size and arrivals[came] <= now:
            came += 1
        room, done = budget, []
        while room > 1e-9 and head < came:
            part = min(left[head], room)
            left[head] -= part
            room -= part
            if left[head] > 1e-9:
                break
            done.append(head)
            head += 1
        step = base + token * (budget - room)
        now, worked = now + step, worked + step
        ttft[done] = now - arrivals[done]
    return ttft[prompts.size // 10 :].mean(), worked / now


@pytest.mark.parametrize(
    ("mean", "budget", "load"),
    [
        (200.0, 4096.0, 0.3),
        (200.0, 4096.0, 0.6),
        (200.0, 4096.0, 0.85),
        (1000.0, 4096.0, 0.6),
        (4000.0, 1024.0, 0.6),
    ],
)
def test_packed_prefill(mean, budget, load):
    prompts = np.random.default_rng(3).exponential(mean, 12_000) + 1.0
    law = ServiceLaw.from_samples(prompts).compressed(96)
    rate = load * budget / ((0.01 + 4e-5 * budget) * law.mean_s)
    seen, busy = packed_steps(rate, prompts, 0.01, 4e-5, budget)
    ours = batched_prefill(rate, law, 0.01, 4e-5, budget)
    assert float(ours.load) == pytest.approx(load)
    assert float(ours.ttft_mean_s) == pytest.approx(seen, rel=0.12)
    assert float(ours.busy) == pytest.approx(busy, rel=0.04)
    assert float(ours.busy) <= float(ours.alone_load) + 1e-9


def test_short_prompts_batch_almost_free():
    """100 tokens take 10 ms of set-up and 4 ms of work: alone 100 a second would be 1.4 of the time."""
    law = batched_prefill(np.array([1e-6, 100.0, 240.0, 260.0]), ServiceLaw.deterministic(100.0), 0.01, 4e-5, 8192.0)
    assert law.alone_load[1] == pytest.approx(1.4)
    assert law.stable.tolist() == [True, True, True, False]  # 1/(100 (0.01/8192 + 4e-5)) = 242.6 a second
    assert law.ttft_mean_s[0] == pytest.approx(0.014, rel=1e-4)
    assert law.prompts_per_run[1] > 1.5
    assert np.isinf(law.ttft_mean_s[3])
    with pytest.raises(ValueError, match="token_budget"):
        batched_prefill(1.0, ServiceLaw.deterministic(100.0), 0.01, 4e-5, 0.0)


def test_reserved_batch():
    # I = 900, O = 100: R = 1000, idle 1000/2, each resident holds 1000: (10500 - 500)/1000
    assert float(batch_for_reservation(10_500.0, [900.0], [100.0], [1.0])) == pytest.approx(10.0)
    assert batch_for_reservation([0.0, 400.0], [900.0], [100.0], [1.0]).tolist() == [0.0, 0.0]


def test_mean_gap_where_hardly_a_step_carries_a_prompt():
    """The longest gap there is can be the decode step itself, at 1e-4 prompts/s of 100,000 tokens."""
    assert mean_gap_quantile_s(0.99, [1000.0], [1.0], 0.01, 0.01001, (5.0, 25.0), 5e-4, 0.01) == 0.01


def test_mean_gap_without_prefill_and_its_order():
    assert mean_gap_quantile_s(0.99, [100.0], [1.0], 0.01, 0.01, (0.05, 0.005), 0.2) == 0.01
    values = [
        mean_gap_quantile_s(q, [20.0, 200.0], [0.5, 0.5], 0.01, 0.014, (0.05, 0.005), 0.25)
        for q in (0.1, 0.5, 0.9, 0.99)
    ]
    assert values == sorted(values) and values[0] >= 0.01
    # many gaps: the law of large numbers
    assert mean_gap_quantile_s(0.5, [1e6], [1.0], 0.01, 0.014, (0.05, 0.005), 0.25) == pytest.approx(0.014, rel=0.01)
    # a full step is the longest gap there is
    assert mean_gap_quantile_s(0.999, [1.0], [1.0], 0.01, 0.014, (0.05, 0.005), 0.25, 0.03) <= 0.03 + 1e-9
