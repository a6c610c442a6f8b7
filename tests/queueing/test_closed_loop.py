"""A fixed number of clients: conservation, limits, and a step simulation written here."""

from collections import deque

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.queueing import ServiceLaw, closed_loop

STEP = (0.012, 1e-4, 4e-5)
PROMPTS, OUTPUTS = ServiceLaw.gamma(1000.0, 0.5).compressed(16), ServiceLaw.gamma(200.0, 1.0)


def loops(clients, prompts=PROMPTS, outputs=OUTPUTS):
    return (
        closed_loop.chunked(clients, prompts, outputs, *STEP, 1024.0),
        closed_loop.whole_prompt(clients, prompts, outputs, *STEP),
        closed_loop.disaggregated(clients, prompts.scaled(4e-5), outputs, *STEP[:2], 2, 2),
    )


@given(clients=st.integers(1, 400), prompt=st.floats(50.0, 8000.0), output=st.floats(5.0, 2000.0))
@settings(max_examples=20, deadline=None)
def test_littles_law(clients, prompt, output):
    for law in loops(clients, PROMPTS.scaled(prompt / 1000.0), ServiceLaw.gamma(output, 1.0)):
        assert law.requests_per_s * (law.ttft_mean_s + (output - 1.0) * law.tpot_s) == pytest.approx(clients, rel=1e-6)
        assert law.mean_prefilling + law.mean_decoding == pytest.approx(clients, rel=0.02)
        low, high = law.ttft_band_s(0.99)
        assert 0.0 < low <= law.ttft_quantile_s(0.99) <= high
        assert law.ttft_quantile_s(0.5) <= law.ttft_quantile_s(0.9) <= law.ttft_quantile_s(0.99)


def test_one_client_waits_for_nobody():
    for law in loops(1, ServiceLaw.deterministic(1000.0), ServiceLaw.gamma(200.0, 0.3)):
        assert law.ttft_mean_s == pytest.approx(law.own.mean_s, rel=1e-9)
    # 200 tokens alone: TTFT 0.012 + 1000 x 4e-5 = 0.052, 199 gaps of 0.0121 s
    law = loops(1, ServiceLaw.deterministic(1000.0), ServiceLaw.gamma(200.0, 0.3))[1]
    assert law.requests_per_s == pytest.approx(1.0 / (0.052 + 199 * 0.0121), rel=1e-3)


def test_a_saturated_prefill_sets_the_pace():
    # 2 servers of 0.2 s: at most 10 requests a second however many clients
    law = closed_loop.disaggregated(256, ServiceLaw.deterministic(0.2), OUTPUTS, *STEP[:2], 2, 2)
    assert law.requests_per_s == pytest.approx(10.0, rel=0.01)
    assert law.prefill_utilization == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize("clients", [2, 8, 64, 256])
def test_throughput_rises_with_the_clients(clients):
    for few, many in zip(loops(clients), loops(2 * clients), strict=True):
        assert many.requests_per_s >= few.requests_per_s * (1.0 - 1e-6)
        assert many.tpot_s >= few.tpot_s * (1.0 - 1e-6)


def test_outputs_of_one_length_are_flagged():
    law = closed_loop.chunked(16, PROMPTS, ServiceLaw.deterministic(300.0), *STEP, 1024.0)
    assert law.cohorts and law.trust == "no closed form" and "in step" in law.trust_reason
    assert not loops(16)[0].cohorts


def whole_prompt_steps(clients, prompts, outputs):
    """TTFTs and mean gaps of an engine that reads whole prompts first."""
    base, sequence, token = STEP
    waiting = deque((0.0, index) for index in range(clients))
    started, now, decoding, ttft, first, gaps = clients, 0.0, {}, {}, {}, {}
    while len(gaps) < prompts.size - clients:
        if waiting:
            came, index = waiting.popleft()
            now += base + token * prompts[index]
            ttft[index], first[index], decoding[index] = now - came, now, outputs[index] - 1
            continue
        now += base + sequence * len(decoding)
        for index in list(decoding):
            decoding[index] -= 1
            if decoding[index] <= 0:
                del decoding[index]
                gaps[index] = (now - first[index]) / max(outputs[index] - 1, 1)
                waiting.append((now, started))
                started += 1
    kept = [index for index in gaps if index > clients * 3]
    return np.array([ttft[index] for index in kept]), np.array([gaps[index] for index in kept]), kept


def test_whole_prompts_against_steps():
    random = np.random.default_rng(2)
    prompts = np.round(random.gamma(2.0, 1000.0, 2500)) + 1.0
    outputs = np.round(random.gamma(1.0, 100.0, 2500)) + 2.0
    ttft, gaps, kept = whole_prompt_steps(16, prompts, outputs)
    law = closed_loop.whole_prompt(
        16, ServiceLaw.from_samples(prompts).compressed(64), ServiceLaw.from_samples(outputs), *STEP
    )
    assert law.ttft_mean_s == pytest.approx(ttft.mean(), rel=0.04)
    assert law.ttft_quantile_s(0.99) == pytest.approx(np.quantile(ttft, 0.99), rel=0.12)
    weights = outputs[kept] - 1.0
    assert law.tpot_s == pytest.approx(float(gaps @ weights) / weights.sum(), rel=0.05)


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda: closed_loop.chunked(0, PROMPTS, OUTPUTS, *STEP, 1024.0), "clients"),
        (lambda: closed_loop.chunked(4, PROMPTS, OUTPUTS, *STEP, 4.0), "token_budget"),
        (lambda: closed_loop.whole_prompt(4, PROMPTS, ServiceLaw.deterministic(1.0), *STEP), "outputs"),
        (lambda: closed_loop.whole_prompt(4, PROMPTS, OUTPUTS, np.nan, 0.0, 0.0), "step times"),
        (lambda: closed_loop.disaggregated(4, PROMPTS, OUTPUTS, 0.01, 0.0, 0), "prefill_servers"),
    ],
)
def test_refused(call, word):
    with pytest.raises(ValueError, match=word):
        call()
