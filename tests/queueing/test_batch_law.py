"""The decode batch against token-step simulations, exact chains and closed forms."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from queueing_cases import shortest_queue_decode, step_cases

import planner.queueing.occupancy as occupancy
from planner.queueing import (
    ServiceLaw,
    batch_for_memory,
    batch_law,
    context_moments,
    kv_tokens_quantile,
)

OPEN, CAPPED = step_cases("open_decode"), step_cases("open_decode_capped")


def law_of_case(parameters, measured):
    """Step times with the mean context of a request in service, and the outputs that were drawn."""
    output, scv = measured["out_mean"], measured["out_scv"]
    context = parameters["Im"] + output * (1.0 + scv) / 2.0
    steps = parameters["a"] + (parameters["c"] + parameters["d"] * context) * np.arange(1.0, parameters["B"] + 1.0)
    return batch_law(parameters["lam"], output, steps, 1, ServiceLaw.gamma(output, parameters["Oscv"]))


@pytest.mark.parametrize(("parameters", "measured"), OPEN)
def test_open_decode(parameters, measured):
    law = law_of_case(parameters, measured)
    assert float(law.mean_batch[0, 0]) == pytest.approx(measured["b"], rel=0.015)
    assert float(law.mean_itl_s[0, 0]) == pytest.approx(measured["itl"], rel=0.006)
    for q, column in ((0.5, "itl50"), (0.9, "itl90"), (0.99, "itl99")):
        assert float(law.itl_quantile_s(q)[0]) == pytest.approx(measured[column], rel=0.02)


@pytest.mark.parametrize(("parameters", "measured"), CAPPED)
def test_capped_decode(parameters, measured):
    law = law_of_case(parameters, measured)
    assert float(law.mean_batch[0, 0]) == pytest.approx(measured["b"], rel=0.005)
    assert float(law.itl_quantile_s(0.99)[0]) == pytest.approx(measured["itl99"], rel=0.005)
    boundary = law.mean_itl_s[0, 0] / 2.0  # of the step on arrival
    assert float(law.wait_mean_s[0, 0] + boundary) == pytest.approx(measured["qd"], rel=0.15)
    if measured["qd99"] > 0.1:  # else less than 1 % wait and P99 is one step
        assert float(law.wait_quantile_s(0.99)[0, 0] + boundary) == pytest.approx(measured["qd99"], rel=0.25)


def test_flat_steps_give_a_poisson_batch():
    # M/G/inf: lambda O t = 4 requests in service, P(N >= 64) nil; token-weighted batch = N + 1
    law = batch_law(2.0, 200.0, np.full(64, 0.01))
    assert float(law.mean_batch[0, 0]) == pytest.approx(4.0)
    assert float(law.variance_batch[0, 0]) == pytest.approx(4.0)
    assert law.token_mass[0, 0, 1:6] == pytest.approx([np.exp(-4.0) * m for m in (1, 4, 8, 32 / 3, 32 / 3)])


def test_linear_steps_give_mm1_sharing():
    # t(b) = c b is processor sharing: N geometric with rho = lambda O c = 0.8, mean 4, variance rho/(1-rho)^2 = 20
    law = batch_law(4.0, 200.0, 1e-3 * np.arange(1.0, 801.0))
    assert float(law.mean_batch[0, 0]) == pytest.approx(4.0)
    assert float(law.variance_batch[0, 0]) == pytest.approx(20.0)


def test_multi_server_wait_is_erlang_c_for_flat_steps():
    # M/M/8 at load 0.8: P(N >= 8) = 0.45764493; mean wait of those that wait m/(k(1-rho)) = O t/1.6
    law = batch_law(6.4, 100.0, np.full(8, 0.01), 1, ServiceLaw.exponential(100.0))
    assert float(law.wait_probability[0, 0]) == pytest.approx(0.45764493, rel=1e-6)
    assert float(law.delay_mean_s[0, 0]) == pytest.approx(1.0 / 1.6)
    # 2 replicas of 4 pool into the same 8 places
    pooled = batch_law(6.4, 100.0, np.full(4, 0.01), 2, ServiceLaw.exponential(100.0))
    assert float(pooled.wait_mean_s[0, 0]) == pytest.approx(float(law.wait_mean_s[0, 0]))


def test_growing_steps_wait_less_than_erlang_c():
    steps = 0.012 + 0.00015 * np.arange(1.0, 33.0)
    law = batch_law(0.8 * 32 / (200 * steps[-1]), 200.0, steps)
    flat = batch_law(0.8 * 32 / (200 * steps[-1]), 200.0, np.full(32, steps[-1]))
    assert float(law.load[0, 0]) == pytest.approx(float(flat.load[0, 0])) == pytest.approx(0.8)
    assert float(law.wait_probability[0, 0]) < 0.9 * float(flat.wait_probability[0, 0])


@pytest.mark.parametrize("replicas", [3, 8, 40])
@pytest.mark.parametrize("load", [0.1, 0.5, 0.9, 0.97])
def test_strided_lattice_is_the_integer_chain(monkeypatch, replicas, load):
    steps = 0.012 + 1e-4 * np.arange(1.0, 513.0)
    rate = load * replicas * 512 / (200 * steps[-1])
    strided = batch_law(rate, 200.0, steps, replicas)
    monkeypatch.setattr(occupancy, "_STATES", 10**6)
    exact = batch_law(rate, 200.0, steps, replicas)
    assert exact.lattice.shape[1] == replicas * 512 + 1 > 1.4 * strided.lattice.shape[1]
    for name in ("mean_batch", "variance_batch", "mean_itl_s"):
        assert float(getattr(strided, name)[0, 0]) == pytest.approx(float(getattr(exact, name)[0, 0]), rel=1e-3)
    for q in (0.5, 0.99, 0.999):
        assert float(strided.itl_quantile_s(q)[0]) == pytest.approx(float(exact.itl_quantile_s(q)[0]), rel=1e-3)


def test_integer_chain_against_its_definition():
    """p_n by the recursion itself, with plain numbers."""
    steps, rate, output, replicas = 0.01 + 0.002 * np.arange(1.0, 5.0), 2.5, 50.0, 2
    p = [1.0]
    for n in range(1, 9):
        per_replica = max(n / replicas, 1.0)
        t = np.interp(per_replica, np.arange(1.0, 5.0), steps)
        p.append(p[-1] * rate * output * t / n)
    rho = rate * output * steps[-1] / 8.0
    p += [p[-1] * rho**j for j in range(1, 400)]
    p = np.array(p) / sum(p)
    busy = np.minimum(np.arange(p.size), 8.0)
    law = batch_law(rate, output, steps, replicas)
    assert float(law.mean_batch[0, 0]) == pytest.approx(float(p @ busy) / 2.0)
    assert float(law.wait_probability[0, 0]) == pytest.approx(float(p[8:].sum()))
    times = np.interp(np.maximum(busy / 2.0, 1.0), np.arange(1.0, 5.0), steps)
    assert float(law.mean_itl_s[0, 0]) == pytest.approx(float(p @ busy) / float(p @ (busy / times)))


@pytest.mark.parametrize(
    ("replicas", "rate", "output", "base", "slope"), [(2, 10.0, 100, 0.01, 5e-4), (8, 60.0, 200, 0.012, 1e-4)]
)
def test_pooled_replicas_against_simulation(replicas, rate, output, base, slope):
    """QUEUEING §4.1: P99 gap within 1 % behind a least-requests router."""
    steps = base + slope * np.arange(1.0, 257.0)
    times, batches = shortest_queue_decode(rate, output, steps, replicas, 15_000)
    times, batches = times[times.size // 20 :], batches[batches.size // 20 :]
    law = batch_law(rate, output, steps, replicas)
    order = np.argsort(times)
    cumulative = np.cumsum(batches[order]) / batches.sum()
    assert float(law.mean_itl_s[0, 0]) == pytest.approx(np.average(times, weights=batches), rel=0.01)
    for q in (0.5, 0.9, 0.99):  # simulated batches are whole: to one request
        simulated = times[order][np.searchsorted(cumulative, q)]
        assert float(law.itl_quantile_s(q)[0]) == pytest.approx(simulated, rel=0.01, abs=slope)


def test_tokens_sit_in_the_larger_batches():
    # 9 requests on 4 replicas: 3 2 2 2; on average over remainders a batch is (k-1)/2k = 0.375 above the mean
    law = batch_law(5.0, 100.0, np.full(16, 0.01), 4)
    assert law.batches[0, [1, 9, 64]] == pytest.approx([1.0, 9 / 4 + 0.375, 16.0])
    assert batch_law(5.0, 100.0, np.full(16, 0.01), 1).batches[0, 9] == pytest.approx(9.0)


def test_windows_mix_by_their_tokens():
    steps = 0.012 + 1e-4 * np.arange(1.0, 257.0)
    quiet, busy = batch_law(2.0, 200.0, steps), batch_law(30.0, 200.0, steps)
    both = batch_law(np.array([2.0, 30.0]), 200.0, steps)
    assert float(both.itl_quantile_s(0.9, [0.0, 1.0])[0]) == pytest.approx(float(busy.itl_quantile_s(0.9)[0]))
    # 2/32 of the tokens are quiet: P50 of all is a low quantile (0.5 - 0.0625)/0.9375 of the busy ones
    assert float(both.itl_quantile_s(0.5)[0]) == pytest.approx(float(busy.itl_quantile_s(0.4667)[0]), rel=2e-3)
    assert float(both.itl_quantile_s(0.9, [1.0, 0.0])[0]) == pytest.approx(float(quiet.itl_quantile_s(0.9)[0]))


def test_unstable_windows_never_end():
    steps = 0.012 + 1e-4 * np.arange(1.0, 65.0)
    law = batch_law(np.array([1.0, 100.0]), 200.0, steps, np.array([1, 8]))
    assert law.stable.tolist() == [[True, False], [True, True]]
    assert (
        np.isinf(law.mean_itl_s[0, 1]) and np.isinf(law.wait_mean_s[0, 1]) and np.isinf(law.wait_quantile_s(0.5)[0, 1])
    )
    assert law.wait_probability[0, 1] == 1.0
    assert np.isinf(law.itl_quantile_s(0.5)[0]) and np.isfinite(law.itl_quantile_s(0.5)[1])
    assert np.isfinite(law.itl_quantile_s(0.5, [0.9, 0.1])[0])


def test_no_arrivals():
    law = batch_law(0.0, 200.0, np.array([0.01, 0.02]))
    assert float(law.mean_batch[0, 0]) == pytest.approx(0.0, abs=1e-12)
    assert float(law.mean_itl_s[0, 0]) == pytest.approx(0.01)
    assert float(law.itl_quantile_s(0.99)[0]) == pytest.approx(0.01)
    assert float(law.wait_mean_s[0, 0]) == pytest.approx(0.0, abs=1e-12)


@given(
    rate=st.floats(0.1, 40.0),
    slope=st.floats(0.0, 1e-3),
    output=st.floats(10.0, 500.0),
    cap=st.integers(1, 300),
)
@settings(max_examples=40, deadline=None)
def test_batch_properties(rate, slope, output, cap):
    steps = 0.01 + slope * np.arange(1.0, cap + 1.0)
    law = batch_law(np.array([rate, 1.1 * rate]), output, steps, np.array([1, 2, 3, 8]))
    stable = law.stable
    assert np.all(law.mean_batch[stable] <= cap + 1e-9)
    # Little's law: requests in service = rate x steps x mean gap
    in_service = law.mean_batch * np.array([1, 2, 3, 8])[:, None]
    expected = np.array([rate, 1.1 * rate]) * output * law.mean_itl_s
    assert in_service[stable] == pytest.approx(expected[stable], rel=2e-3)
    gaps = np.where(stable, law.mean_itl_s, 1e9)
    assert np.all(np.diff(gaps, axis=1) >= -1e-12) and np.all(np.diff(gaps, axis=0) <= 1e-12)
    quantiles = np.array([law.itl_quantile_s(q) for q in (0.1, 0.5, 0.9, 0.99, 0.999)])
    assert np.all(np.diff(np.nan_to_num(quantiles, posinf=1e9), axis=0) >= -1e-12)
    finite = quantiles[np.isfinite(quantiles)]
    assert np.all((finite >= steps[0] - 1e-12) & (finite <= steps[-1] + 1e-12))


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ((-1.0, 200.0, [0.01]), "arrivals_per_s"),
        ((1.0, 0.0, [0.01]), "steps_per_request"),
        ((1.0, 200.0, []), "step_s"),
        ((1.0, 200.0, [0.0]), "step_s"),
        ((1.0, 200.0, [0.01], 0), "servers"),
    ],
)
def test_refused_arguments(arguments, word):
    with pytest.raises(ValueError, match=word):
        batch_law(*arguments)


def test_refused_window_weights():
    law = batch_law([1.0, 2.0], 200.0, [0.01])
    for weights in ([1.0], [0.0, 0.0], [1.0, -1.0]):
        with pytest.raises(ValueError, match="window_weights"):
            law.itl_quantile_s(0.5, weights)


def test_context_moments_of_fixed_lengths():
    # I + u O, u uniform: mean 1100, second moment 1000^2 + 1000 x 200 + 200^2/3, third the mean of x^3 on [1000, 1200]
    k1, k2, k3 = context_moments([1000.0], [200.0], [1.0])
    assert (k1, k2) == pytest.approx((1100.0, 1e6 + 2e5 + 4e4 / 3))
    assert k3 == pytest.approx((1200.0**4 - 1000.0**4) / (4 * 200.0))


def test_context_moments_lean_to_long_outputs():
    # outputs 100 and 300 equally often: seen 1 : 3; mean 0.25 x 50 + 0.75 x 150 = 125
    assert context_moments([0.0, 0.0], [100.0, 300.0], [0.5, 0.5])[0] == pytest.approx(125.0)


@pytest.mark.parametrize(("parameters", "measured"), OPEN)
def test_kv_held_against_simulation(parameters, measured):
    """QUEUEING §5: the shifted gamma is -1..+2 % off at q99, and the q99 of one run with SCV 2 by a few percent."""
    law = law_of_case(parameters, measured)
    o1, scv = measured["out_mean"], measured["out_scv"]
    outputs = ServiceLaw.lognormal(o1, scv) if parameters["Okind"] == 2 else ServiceLaw.gamma(o1, scv)
    inputs = (
        ServiceLaw.gamma(parameters["Im"], parameters["Iscv"])
        if parameters["Iscv"]
        else ServiceLaw.deterministic(1000.0)
    )
    i, o = (grid.ravel() for grid in np.meshgrid(_values(inputs), _values(outputs)))
    weights = np.outer(outputs.weights, inputs.weights).ravel()
    context = context_moments(i, o, weights)
    p99 = kv_tokens_quantile(law.mean_batch, law.variance_batch, context, 0.99)
    assert float(p99[0, 0]) == pytest.approx(measured["kv99"], rel=0.07)


def _values(law):
    return law.values_s


def test_kv_limits():
    # fixed contexts of 1000 and a fixed batch hold exactly 1000 each
    context = (1000.0, 1e6, 1e9)
    assert kv_tokens_quantile(8.0, 0.0, context, 0.999) == pytest.approx(8000.0)
    assert float(kv_tokens_quantile(0.0, 0.0, context, 0.99)) == 0.0
    assert batch_for_memory([999.0, 1000.0, 8999.0], context).tolist() == [0, 1, 8]
    with pytest.raises(ValueError, match="mean_requests"):
        kv_tokens_quantile(-1.0, 0.0, context, 0.99)
    with pytest.raises(ValueError, match="capacity_tokens"):
        batch_for_memory(np.nan, context)


@given(capacity=st.floats(1e3, 1e7), q=st.floats(0.9, 0.9999), spread=st.floats(0.0, 2.0))
@settings(max_examples=40, deadline=None)
def test_memory_batch_is_the_largest_that_fits(capacity, q, spread):
    context = (1e3, 1e6 * (1.0 + spread), 1e9 * (1.0 + spread) ** 3)
    batch = int(batch_for_memory(capacity, context, q))
    assert batch == 0 or float(kv_tokens_quantile(batch, 0.0, context, q)) <= capacity
    assert float(kv_tokens_quantile(batch + 1, 0.0, context, q)) > capacity
