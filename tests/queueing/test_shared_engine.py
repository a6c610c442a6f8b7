"""Prefill and decode on one engine against token-step simulations."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from queueing_cases import step_cases

from planner.queueing import ServiceLaw, central_queue, chunked, fewest_in_flight, whole_prompt
from planner.queueing.colocated import _ChunkedEngine
from planner.queueing.gaps import BatchSpread, TabledGaps, packed_steps

sys.path.insert(0, str(Path(__file__).parents[1] / "simulation"))
from linear_runs import serve

STEP = {"a": 0.006, "c": 5e-5, "e": 2.4e-5}

# prompts of the simulations are gamma with SCV 1: exponential, cut into equally likely quantiles
PROMPTS = ServiceLaw.from_samples(-np.log1p(-(np.arange(4800) + 0.5) / 4800)).compressed(96)


def engine(parameters, measured):
    scaled = PROMPTS.values_s / PROMPTS.mean_s * parameters["Im"]
    steps = (parameters["a"], parameters["c"], parameters["e"])
    arguments = (parameters["lam"], scaled, PROMPTS.weights, measured["out_mean"], *steps)
    return chunked(*arguments, parameters["C"]) if parameters["mode"] == 1 else whole_prompt(*arguments)


@pytest.mark.parametrize(("parameters", "measured"), step_cases("open_chunked"))
def test_chunked_prefill(parameters, measured):
    """QUEUEING §4.2 has batch and gap 5.5 %, mixed share -2..-17 %, P99 gap -4..+2 %, TTFT -7..+4 %, P99 -11..+12 %."""
    law = engine(parameters, measured)
    assert bool(law.stable)
    assert float(law.mean_batch) == pytest.approx(measured["b"], rel=0.04)
    assert float(law.mean_itl_s) == pytest.approx(measured["itl"], rel=0.015)
    assert -0.12 <= float(law.mixed_share) / measured["fmix_tok"] - 1.0 <= 0.06
    assert float(law.itl_quantile_s(0.99)) == pytest.approx(measured["itl99"], rel=0.02)
    share = float(law.mixed_share)
    if not (0.4 <= share <= 0.6 or 0.005 <= share <= 0.02):  # P50 and P99 do not sit between two kinds of steps
        assert float(law.itl_quantile_s(0.5)) == pytest.approx(measured["itl50"], rel=0.05)
    assert float(law.ttft_mean_s) == pytest.approx(measured["ttft"], rel=0.07)
    for q, column in ((0.5, "ttft50"), (0.9, "ttft90"), (0.99, "ttft99")):
        assert float(law.ttft_quantile_s(q)) == pytest.approx(measured[column], rel=0.125)


@pytest.mark.parametrize(("parameters", "measured"), step_cases("open_prefill_first"))
def test_whole_prompts(parameters, measured):
    """QUEUEING §4.3 has mean gap 3 % (-8..-10 % for 4k prompts), P99 gap -12..+26 %, TTFT mean 6 %."""
    law = engine(parameters, measured)
    assert bool(law.stable)
    assert float(law.mean_itl_s) == pytest.approx(measured["itl"], rel=0.015)
    assert float(law.itl_quantile_s(0.5)) == pytest.approx(measured["itl50"], rel=0.02)
    assert float(law.itl_quantile_s(0.99)) == pytest.approx(measured["itl99"], rel=0.105)
    assert float(law.ttft_mean_s) == pytest.approx(measured["ttft"], rel=0.01)
    for q, column in ((0.5, "ttft50"), (0.9, "ttft90"), (0.99, "ttft99")):
        assert float(law.ttft_quantile_s(q)) == pytest.approx(measured[column], rel=0.04)


def behind_s(rho: float, job_s: float) -> float:
    """Prefill time of what M/D/1 leaves behind, in all and on average: E[L] busy periods of job_s / (1 - rho)."""
    return (rho + rho**2 / (2.0 * (1.0 - rho))) * job_s / (1.0 - rho)


def test_whole_prompt_by_hand():
    # S = 0.012 + 4e-5 x 1000 = 0.052; lambda 2: rho 0.104; O 201: token rate 400, c 1e-4: free 1 - 0.104 - 0.04
    law = whole_prompt(2.0, [1000.0], [1.0], 201.0, 0.012, 1e-4, 4e-5)
    first = behind_s(0.104, 0.052)  # 6.4 ms before the first of 200 steps
    batch = (400 * 0.012 + 2.0 * first * 0.896) / 0.856
    step = 0.012 + 1e-4 * batch
    assert float(law.mean_batch) == pytest.approx(batch)
    assert float(law.mean_itl_s) == pytest.approx(step / 0.896 + first / 200)
    assert float(law.mean_batch) == pytest.approx(400 * float(law.mean_itl_s))  # Little's law
    assert float(law.load) == pytest.approx(0.144)
    # TTFT = lambda E[S^2]/(2(1-rho)) + td/2 + S
    assert float(law.ttft_mean_s) == pytest.approx(2.0 * 0.052**2 / (2 * 0.896) + step / 2 + 0.052)
    own = 1.0 - np.exp(-2.0 * step)
    assert float(law.mixed_share) == pytest.approx(own + 0.104 / 200 * (1.0 - own))


def test_stall_by_hand():
    # E[S] 0.052, E[S^2] 0.052^2, rate 8: rho 0.416. Of the 1 - e^(-8 td) of gaps with a stall, and of the first of
    # 100 with the prompts behind, P99 is a gamma quantile
    law = whole_prompt(8.0, [1000.0], [1.0], 101.0, 0.012, 1e-4, 4e-5)
    from scipy.special import gammaincinv

    td, rest = float(law.gaps.decode_s), 1.0 - 8.0 * 0.052
    every = 1.0 - np.exp(-8.0 * td)
    behind = behind_s(0.416, 0.052) / 0.416  # given that there is any
    first = 0.416 / 100 * (1.0 - every)
    share = every + first
    mean = 8.0 * td * 0.052 / rest
    variance = 8.0 * td * 0.052**2 / rest**2 + 8.0 * td * 0.052 * 8.0 * 0.052**2 / rest**3
    second = variance + mean**2 + first * 2.0 * behind**2
    mean = mean + first * behind
    assert float(law.gaps.stall_mean_s) == pytest.approx(mean / share)
    assert float(law.gaps.stall_second_moment) == pytest.approx(second / share)
    spread = second / share - (mean / share) ** 2
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
    # steps per second: r = u/C' + rd (1 - e^(-lambda td)) spare, rd = (1 - r td - e u)/td
    spare, alone = chunks - prompt / room, 1 - np.exp(-lam * td)
    mixed = (u / room + alone / td * spare * (1 - e * u)) / (1 + alone * spare)
    decode = (1 - mixed * td - e * u) / td
    load = u * tf / room
    share = mixed / (mixed + decode)
    mixed_step = td + e * u / mixed
    # 200 steps forget the prompts behind, which take so many steps
    passed = 200.0 / (behind_s(load, prompt / room * tf) / load / mixed_step)
    token_share = share + (load - share) * (1 - np.exp(-passed)) / passed
    assert float(law.mixed_share) == pytest.approx(token_share, rel=1e-2)
    assert float(law.mean_itl_s) == pytest.approx(td + token_share * (mixed_step - td), rel=1e-3)
    assert b == pytest.approx(lam * (output - 1) * float(law.mean_itl_s), rel=1e-3)
    assert float(law.load) == pytest.approx(load, rel=1e-3)
    wait = central_queue(1, lam, ServiceLaw.deterministic(prompt / room * tf))
    assert float(law.wait.mean_s) == pytest.approx(float(wait.mean_s), rel=1e-3)
    residual = (decode * td**2 + mixed * mixed_step**2) / 2
    assert float(law.ttft_mean_s) == pytest.approx(float(wait.mean_s) + residual + td * chunks + e * prompt, rel=1e-3)


@pytest.mark.parametrize(
    ("prompt", "output", "rate"), [(8000, 20, 1.0), (32000, 20, 0.3), (32000, 20, 0.45), (8000, 200, 1.2)]
)
def test_prompts_that_queue_meet_the_tokens_of_those_before(prompt, output, rate):
    """Long prompts and short answers: what decodes, decodes beside prompts. Shares of steps are 3 to 6 times short."""
    params = {"mode": 1, "C": 8192, "Im": prompt, "Om": output, "Oscv": 0.0, "lam": rate, "n": 6000} | STEP
    simulated = serve({"kind": "open_chunked", "params": json.dumps(params)}, 6000)
    law = chunked(rate, [prompt], [1.0], output, STEP["a"], STEP["c"], STEP["e"], 8192.0)
    assert float(law.mean_itl_s) == pytest.approx(simulated.itl_s["mean"].value, rel=0.25)


def test_steps_that_take_several_prompts():
    """Gated service: X' = td + work of Poisson(rate X) prompts, run as it stands."""
    rng, td, rate, work = np.random.default_rng(3), 0.007, 25.0, 0.02
    step, steps = td, []
    for _ in range(100_000):
        step = td + work * rng.poisson(rate * step)
        steps.append(step)
    drawn = np.array(steps)
    mixed = float((drawn > td).mean())
    law = packed_steps(np.array(td), np.array(rate), (work, work**2), np.array(mixed), np.array(True))
    extra = drawn[drawn > td] - td
    assert float(law.mean_s) == pytest.approx(extra.mean(), rel=0.03)  # 0.007 / (1 - 0.5) - 0.007, over the share
    assert float(law.variance) == pytest.approx(extra.var(), rel=0.1)
    assert float(law.quantile_s(np.array(0.99))) == pytest.approx(np.quantile(extra, 0.99), rel=0.15)


def test_gaps_of_short_prompts_under_a_large_budget():
    """A step of 8,192 tokens is seldom filled by prompts of 1,000: P99 is of a few of them, not of a full step."""
    params = {"mode": 1, "C": 8192, "Im": 1000, "Om": 200, "Oscv": 0.0, "lam": 15.0, "n": 6000} | STEP
    simulated = serve({"kind": "open_chunked", "params": json.dumps(params)}, 6000)
    law = chunked(15.0, [1000.0], [1.0], 200.0, STEP["a"], STEP["c"], STEP["e"], 8192.0)
    full_s = STEP["a"] + STEP["e"] * 8192.0
    assert float(law.itl_quantile_s(0.99)) < 0.4 * full_s
    assert float(law.itl_quantile_s(0.99)) == pytest.approx(simulated.itl_s["p99"].value, rel=0.25)


@given(
    rate=st.floats(0.0, 60.0),
    outputs=st.floats(1.0, 3000.0),
    budget=st.floats(1.0, 16384.0),
    steps=st.tuples(st.floats(1e-3, 0.1), st.floats(0.0, 1e-3), st.floats(1e-6, 1e-3)),
)
@settings(max_examples=200, deadline=None)
def test_the_settled_batch_leads_to_itself_or_prefill_takes_all_time(rate, outputs, budget, steps):
    points = (np.array([value]) for value in (rate, outputs, *steps, budget))
    law = _ChunkedEngine(*points, PROMPTS, np.array([1000.0 / PROMPTS.mean_s]), np.ones(1))
    point = law.settle()
    assert 0.0 <= point.batch[0] <= budget
    if law.stable(point)[0]:
        assert law.next_batch(point)[0] == pytest.approx(point.batch[0], rel=1e-9)
    else:
        more = law.at(point.batch + 1e-6 * budget)
        assert more.prefill_share[0] >= 1.0 or law.next_batch(more)[0] > budget * (1.0 - 1e-3)


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
    assert 0.96 * float(one.mean_batch) < float(four.mean_batch) < float(one.mean_batch)  # busy replicas are spared
    assert float(four.itl_quantile_s(0.99)) == pytest.approx(float(one.itl_quantile_s(0.99)), rel=0.04)
    assert float(four.wait.mean_s) < float(one.wait.mean_s)
    assert float(four.ttft_quantile_s(0.99)) < float(one.ttft_quantile_s(0.99))


@pytest.mark.parametrize(
    ("prompt", "outputs", "budget", "load", "replicas", "simulated_ms"),
    [
        (4000, 20, 8192, 0.6, 1, 46.6),
        (4000, 20, 8192, 0.6, 4, 24.2),
        (4000, 20, 8192, 0.6, 16, 17.8),
        (4000, 200, 8192, 0.6, 4, 27.0),
        (4000, 1000, 8192, 0.4, 16, 23.1),
        (16000, 200, 2048, 0.5, 4, 19.8),
        (16000, 200, 2048, 0.5, 16, 17.6),
        (1000, 20, 2048, 0.5, 16, 15.8),
    ],
)
def test_gaps_behind_a_router_that_spares_busy_replicas(prompt, outputs, budget, load, replicas, simulated_ms):
    """Means of token-step simulations, 20,000 requests each; random routing would have the first row's in all."""
    rate = replicas * load / (prompt * 5e-5 + 0.01)
    law = chunked(rate, [float(prompt)], [1.0], float(outputs), 0.01, 1e-4, 5e-5, float(budget), replicas)
    assert float(law.mean_itl_s) * 1e3 == pytest.approx(simulated_ms, rel=0.08)


def test_quantiles_behind_a_router_err_to_the_slow_side():
    """Gaps hold a prefill up to half as often again as the mean gap says, because a P99 may sit on that edge."""
    law = chunked(np.array([3.0, 12.0]), [4000.0], [1.0], 20.0, 0.01, 1e-4, 5e-5, 8192.0, np.array([1, 4]))
    assert law.gaps.decode_share == pytest.approx(1.0 - law.mixed_share)
    told = (law.mean_itl_s - law.gaps.decode_s) / (law.gaps.mixed_s - law.gaps.decode_s)
    lone, routed = law.mixed_share / told
    assert lone == pytest.approx(1.0, rel=1e-3)
    assert 1.2 < routed <= 1.5


def test_tabulated_residuals_of_whole_prompts():
    """Points with their own fixed share agree with the law built for each of them."""
    base, servers = np.array([0.001, 0.02, 0.2]), np.array([2, 4, 16])
    values = PROMPTS.values_s * 1000.0
    law = whole_prompt(5.0, values, PROMPTS.weights, 2.0, base, 1e-6, 4e-5, servers)
    for row in range(3):
        own = ServiceLaw(base[row] + 4e-5 * values, PROMPTS.weights)
        routed = fewest_in_flight(servers[row], 5.0, own, law.mean_batch[row])
        assert float(law.wait.mean_s[row]) == pytest.approx(float(routed.mean_s), rel=0.01)


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


def test_a_rare_second_token_waits_for_the_prompts_behind_once():
    """One request in 1,000 has a gap; it holds what came behind the prompt, which is shorter than a busy period."""
    law = whole_prompt(0.5, [1000.0], [1.0], 1.001, 0.012, 1e-4, 4e-5)
    assert float(law.mean_itl_s) < 0.012 + 0.052 / (1.0 - 0.5 * 0.052)


@pytest.mark.filterwarnings("error")
def test_ends_of_what_is_served_print_no_warnings():
    """A million prompts of one token each second in steps of one, and gaps that no prompt ever meets."""
    assert not chunked([1e6, 1e12], [1.0], [1.0], 1.000001, 3e-3, 0.0, 1e-9, 1.0).stable.any()
    spread = BatchSpread(np.ones(1), np.ones(1))
    gaps = TabledGaps(np.array([0.0, 1.0]), np.array([[0.02, 0.03]]), np.array([0.01]), spread, np.zeros((1, 2)), 0.0)
    assert float(gaps.quantile_s(0.99)[0]) == 0.01


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
