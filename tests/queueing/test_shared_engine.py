"""Prefill and decode on one engine against token-step simulations."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from queueing_cases import step_cases

from planner.queueing import ServiceLaw, central_queue, chunked, join_shortest_queue, whole_prompt

# prompts of the simulations are gamma with SCV 1: exponential, cut into equally likely quantiles
PROMPTS = ServiceLaw.from_samples(-np.log1p(-(np.arange(4800) + 0.5) / 4800)).compressed(96)


def engine(parameters, measured):
    scaled = PROMPTS.values_s / PROMPTS.mean_s * parameters["Im"]
    steps = (parameters["a"], parameters["c"], parameters["e"])
    arguments = (parameters["lam"], scaled, PROMPTS.weights, measured["out_mean"], *steps)
    return chunked(*arguments, parameters["C"]) if parameters["mode"] == 1 else whole_prompt(*arguments)


@pytest.mark.parametrize(("parameters", "measured"), step_cases("open_chunked"))
def test_chunked_prefill(parameters, measured):
    """QUEUEING §4.2: batch and gap 5.5 %, mixed share -2..-17 %, P99 gap -4..+2 %, TTFT -7..+4 %, P99 -11..+12 %."""
    law = engine(parameters, measured)
    assert bool(law.stable)
    assert float(law.mean_batch) == pytest.approx(measured["b"], rel=0.07)
    assert float(law.mean_itl_s) == pytest.approx(measured["itl"], rel=0.075)
    assert -0.17 <= float(law.mixed_share) / measured["fmix_tok"] - 1.0 <= 0.0
    assert float(law.itl_quantile_s(0.99)) == pytest.approx(measured["itl99"], rel=0.02)
    if str(law.itl_trust) == "ok":
        assert float(law.itl_quantile_s(0.5)) == pytest.approx(measured["itl50"], rel=0.05)
    assert float(law.ttft_mean_s) == pytest.approx(measured["ttft"], rel=0.07)
    for q, column in ((0.5, "ttft50"), (0.9, "ttft90"), (0.99, "ttft99")):
        assert float(law.ttft_quantile_s(q)) == pytest.approx(measured[column], rel=0.125)


@pytest.mark.parametrize(("parameters", "measured"), step_cases("open_prefill_first"))
def test_whole_prompts(parameters, measured):
    """QUEUEING §4.3: mean gap 3 % (-8..-10 % for 4k prompts), P99 gap -12..+26 %, TTFT mean 6 %."""
    law = engine(parameters, measured)
    assert bool(law.stable)
    assert float(law.mean_itl_s) == pytest.approx(measured["itl"], rel=0.06)
    assert float(law.itl_quantile_s(0.5)) == pytest.approx(measured["itl50"], rel=0.02)
    assert float(law.itl_quantile_s(0.99)) == pytest.approx(measured["itl99"], rel=0.1)
    assert float(law.ttft_mean_s) == pytest.approx(measured["ttft"], rel=0.06)
    for q, column in ((0.5, "ttft50"), (0.9, "ttft90"), (0.99, "ttft99")):
        assert float(law.ttft_quantile_s(q)) == pytest.approx(measured[column], rel=0.04)


def test_whole_prompt_by_hand():
    # S = 0.012 + 4e-5 x 1000 = 0.052; lambda 2: rho 0.104; O 201: token rate 400, c 1e-4: free 1 - 0.104 - 0.04
    law = whole_prompt(2.0, [1000.0], [1.0], 201.0, 0.012, 1e-4, 4e-5)
    batch = 400 * 0.012 / 0.856
    step = 0.012 + 1e-4 * batch
    assert float(law.mean_batch) == pytest.approx(batch)
    assert float(law.mean_itl_s) == pytest.approx(step / 0.896)
    assert float(law.load) == pytest.approx(0.144)
    # TTFT = lambda E[S^2]/(2(1-rho)) + td/2 + S
    assert float(law.ttft_mean_s) == pytest.approx(2.0 * 0.052**2 / (2 * 0.896) + step / 2 + 0.052)
    assert float(law.mixed_share) == pytest.approx(1.0 - np.exp(-2.0 * step))


def test_stall_by_hand():
    # E[S] 0.052, E[S^2] 0.052^2, rate 8: rho 0.416. Of the 1 - e^(-8 td) of gaps with a stall, P99 is a gamma quantile
    law = whole_prompt(8.0, [1000.0], [1.0], 101.0, 0.012, 1e-4, 4e-5)
    from scipy.special import gammaincinv

    td, rest = float(law.gaps.decode_s), 1.0 - 8.0 * 0.052
    share = 1.0 - np.exp(-8.0 * td)
    mean = 8.0 * td * 0.052 / rest
    variance = 8.0 * td * 0.052**2 / rest**2 + 8.0 * td * 0.052 * 8.0 * 0.052**2 / rest**3
    assert float(law.gaps.stall_mean_s) == pytest.approx(mean / share)
    assert float(law.gaps.stall_second_moment) == pytest.approx((variance + mean**2) / share)
    spread = (variance + mean**2) / share - (mean / share) ** 2
    shape = (mean / share) ** 2 / spread
    stall = gammaincinv(shape, 1.0 - 0.01 / share) * spread * share / mean
    assert float(law.itl_quantile_s(0.99)) == pytest.approx(td + stall)


def test_chunked_by_hand():
    """The fixed point satisfies its own equations, written out for prompts of one length."""
    lam, prompt, output, a, c, e, budget = 4.0, 1000.0, 201.0, 0.012, 1e-4, 4e-5, 512.0
    law = chunked(lam, [prompt], [1.0], output, a, c, e, budget)
    b = float(law.mean_batch)
    room, td = budget - b, a + c * b
    tf, u = td + e * room, lam * prompt
    chunks = np.ceil(prompt / room)
    steps = 1.0 / float(law.mean_itl_s)
    mixed = float(law.mixed_share) * steps
    decode = steps - mixed
    assert mixed == pytest.approx(
        u / room + min(lam, decode * (1 - np.exp(-lam * td))) * (chunks - prompt / room), rel=1e-6
    )
    assert decode == pytest.approx((1 - mixed * td - e * u) / td, rel=1e-6)
    assert b == pytest.approx(lam * (output - 1) / steps, rel=1e-4)
    assert float(law.load) == pytest.approx(u * tf / room)
    wait = central_queue(1, lam, ServiceLaw.deterministic(prompt / room * tf))
    assert float(law.wait.mean_s) == pytest.approx(float(wait.mean_s))
    mixed_step = td + e * u / mixed
    residual = (decode * td**2 + mixed * mixed_step**2) / 2
    assert float(law.ttft_mean_s) == pytest.approx(float(wait.mean_s) + residual + td * chunks + e * prompt)


@pytest.mark.parametrize("kind", ["chunked", "whole"])
def test_overload_is_said(kind):
    arguments = (np.array([1.0, 1e3]), [1000.0], [1.0], 200.0, 0.012, 1e-4, 4e-5)
    law = chunked(*arguments, 512.0) if kind == "chunked" else whole_prompt(*arguments)
    assert law.stable.tolist() == [True, False]
    assert law.load[1] >= 1.0
    for value in (law.mean_itl_s, law.itl_quantile_s(0.99), law.ttft_mean_s, law.ttft_quantile_s(0.9), law.mean_batch):
        assert np.isfinite(value[0]) and np.isinf(value[1])


def test_decode_overload_of_whole_prompts():
    # prefill alone is nothing, but 100 x 199 tokens/s at 1e-4 s each are 1.99 s of work per second
    law = whole_prompt(100.0, [1.0], [1.0], 200.0, 0.0, 1e-4, 1e-9)
    assert not bool(law.stable)


def test_budget_below_the_batch_is_unstable():
    law = chunked(20.0, [100.0], [1.0], 400.0, 0.02, 1e-4, 4e-5, np.array([128.0, 2048.0]))
    assert law.stable.tolist() == [False, True]


@pytest.mark.parametrize("make", [chunked, whole_prompt])
def test_replicas_share_the_load_and_pool_the_wait(make):
    extra = (1024.0,) if make is chunked else ()
    lengths = (PROMPTS.values_s * 1000.0, PROMPTS.weights)
    arguments = (*lengths, 200.0, 0.012, 1e-4, 4e-5, *extra)
    one, four = make(5.0, *arguments, 1), make(20.0, *arguments, 4)
    assert float(four.mean_batch) == pytest.approx(float(one.mean_batch))
    assert float(four.itl_quantile_s(0.99)) == pytest.approx(float(one.itl_quantile_s(0.99)))
    assert float(four.wait.mean_s) < 0.6 * float(one.wait.mean_s)
    assert float(four.ttft_quantile_s(0.99)) < float(one.ttft_quantile_s(0.99))


def test_tabulated_residuals_of_whole_prompts():
    """Points with their own fixed share agree with the law built for each of them."""
    base, servers = np.array([0.001, 0.02, 0.2]), np.array([2, 4, 16])
    values = PROMPTS.values_s * 1000.0
    law = whole_prompt(5.0, values, PROMPTS.weights, 2.0, base, 1e-6, 4e-5, servers)
    for row in range(3):
        own = ServiceLaw(base[row] + 4e-5 * values, PROMPTS.weights)
        shortest = join_shortest_queue(servers[row], 5.0, own)
        assert float(law.wait.mean_s[row]) == pytest.approx(float(shortest.mean_s), rel=2e-3)


@given(
    rate=st.floats(0.1, 12.0),
    budget=st.sampled_from([256.0, 512.0, 1024.0, 4096.0]),
    prompt=st.floats(50.0, 5000.0),
    output=st.floats(2.0, 500.0),
)
@settings(max_examples=40, deadline=None)
def test_properties(rate, budget, prompt, output):
    arguments = (np.array([rate, 1.05 * rate]), PROMPTS.values_s * prompt, PROMPTS.weights, output, 0.012, 1e-4, 4e-5)
    for law in (chunked(*arguments, budget), whole_prompt(*arguments)):
        assert bool(law.stable[0]) or not bool(law.stable[1])
        if not law.stable.all():
            continue
        assert law.load[0] < law.load[1] < 1.0
        assert law.mean_batch[0] < law.mean_batch[1]
        assert law.mean_itl_s[0] <= law.mean_itl_s[1] * (1.0 + 1e-9)
        # Little's law on the decoding requests
        assert law.mean_batch == pytest.approx(arguments[0] * (output - 1.0) * law.mean_itl_s, rel=2e-3)
        gaps = np.array([law.itl_quantile_s(q) for q in (0.1, 0.5, 0.9, 0.99, 0.999)])
        assert np.all(np.diff(gaps, axis=0) >= -1e-9)
        ttft = np.array([law.ttft_quantile_s(q) for q in (0.1, 0.5, 0.9, 0.99)])
        assert np.all(np.diff(ttft, axis=0) >= -1e-6 * ttft[-1])
        assert np.all(ttft[-1] >= law.own_s[:, 0])


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({0: -1.0}, "arrivals_per_s"),
        ({3: 0.5}, "mean_output_tokens"),
        ({4: np.nan}, "step times"),
        ({1: [-5.0]}, "values_s"),
    ],
)
def test_refused_arguments(change, word):
    arguments = [1.0, [1000.0], [1.0], 200.0, 0.012, 1e-4, 4e-5]
    for position, value in change.items():
        arguments[position] = value
    with pytest.raises(ValueError, match=word):
        chunked(*arguments, 512.0)
    with pytest.raises(ValueError, match=word):
        whole_prompt(*arguments)
    with pytest.raises(ValueError, match="servers"):
        whole_prompt(1.0, [1000.0], [1.0], 200.0, 0.012, 1e-4, 4e-5, 1.5)
