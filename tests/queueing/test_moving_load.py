"""Load that moves: the composite against event simulation of a public trace."""

import numpy as np
import pytest
from queueing_cases import LAWS, central_waits, rows, shortest_queue_waits

from planner.queueing import (
    ServiceLaw,
    backlog_composite,
    central_queue,
    index_of_dispersion,
    join_shortest_queue,
    total_quantile_s,
    window_rates,
)

TRACE = np.array([(float(row["arrival_s"]), float(row["input_tokens"])) for row in rows("azure_2023_conv_slice.csv")])
SERVICE_S = 0.003 + 66e-6 * TRACE[:, 1] + 0.47e-9 * TRACE[:, 1] ** 2
LAW = ServiceLaw.from_samples(SERVICE_S).compressed(64)


def at_load(servers, load):
    """Arrival times stretched so that `servers` are busy for `load` of the time; the trace's end."""
    stretch = SERVICE_S.sum() / (TRACE[-1, 0] * servers * load)
    return TRACE[:, 0] * stretch, float(TRACE[-1, 0] * stretch)


@pytest.mark.parametrize("load", [0.5, 0.7, 0.85])
def test_one_server_is_exact(load):
    arrivals, duration = at_load(1, load)
    simulated = central_waits(arrivals, SERVICE_S, 1)
    wait = backlog_composite(arrivals, SERVICE_S, 1, duration, LAW)
    assert float(wait.load) == pytest.approx(load)
    assert float(wait.mean_s) == pytest.approx(simulated.mean(), rel=1e-9)
    assert float(wait.probability) == pytest.approx((simulated > 0.0).mean(), abs=1e-3)
    for q in (0.8, 0.9, 0.99):
        assert float(wait.quantile_s(q)) == pytest.approx(np.quantile(simulated, q), rel=0.02)


@pytest.mark.parametrize(("servers", "load"), [(4, 0.5), (4, 0.7), (4, 0.85), (16, 0.7), (16, 0.85)])
def test_several_servers_against_simulation(servers, load):
    arrivals, duration = at_load(servers, load)
    central = central_waits(arrivals, SERVICE_S, servers)
    wait = backlog_composite(arrivals, SERVICE_S, servers, duration, LAW, central_queue)
    # the short waits of many servers that are seldom all busy carry a warning
    assert str(wait.trust) == ("caution" if servers == 16 and load == 0.7 else "ok")
    loose = str(wait.trust) == "caution"
    assert float(wait.mean_s) == pytest.approx(central.mean(), rel=0.5 if loose else 0.2)
    assert float(wait.quantile_s(0.99)) == pytest.approx(np.quantile(central, 0.99), rel=0.5 if loose else 0.2)
    shortest = shortest_queue_waits(arrivals, SERVICE_S, servers)
    wait = backlog_composite(arrivals, SERVICE_S, servers, duration, LAW)
    assert float(wait.mean_s) == pytest.approx(shortest.mean(), rel=0.15)
    assert float(wait.quantile_s(0.99)) == pytest.approx(np.quantile(shortest, 0.99), rel=0.22)


def test_the_stationary_wait_at_the_mean_rate_would_be_far_too_short():
    servers, load = 4, 0.85
    arrivals, duration = at_load(servers, load)
    simulated = central_waits(arrivals, SERVICE_S, servers)
    stationary = central_queue(servers, SERVICE_S.size / duration, LAW)
    assert float(stationary.mean_s) < 0.7 * simulated.mean()


@pytest.mark.parametrize(("servers", "load"), [(1, 0.8), (4, 0.8), (8, 0.9)])
@pytest.mark.parametrize("policy", [central_queue, join_shortest_queue])
def test_steady_load_gives_back_the_stationary_wait(servers, load, policy):
    random, count = np.random.default_rng(4), 200_000
    law = LAWS["azure"]
    service = random.choice(law.values_s, count, p=law.weights)
    arrivals = np.cumsum(random.exponential(law.mean_s / (servers * load), count))
    wait = backlog_composite(arrivals, service, servers, arrivals[-1], law, policy)
    stationary = policy(servers, servers * load / law.mean_s, law)
    assert float(wait.mean_s) == pytest.approx(float(stationary.mean_s), rel=0.08)
    assert float(wait.quantile_s(0.99)) == pytest.approx(float(stationary.quantile_s(0.99)), rel=0.12)


def test_a_burst_is_a_fluid():
    # 1000 jobs of 1 s at once on 10 servers: the last waits about 99 s, the mean is half of that
    arrivals = np.linspace(0.0, 1e-6, 1000)
    wait = backlog_composite(
        arrivals, np.ones(1000), 10, 1000.0, ServiceLaw.deterministic(1.0), central_queue, window_s=1.0
    )
    assert float(wait.mean_s) == pytest.approx(49.95, rel=1e-3)
    assert float(wait.quantile_s(0.99)) == pytest.approx(98.9, rel=0.01)
    assert float(wait.load) == pytest.approx(0.1)


def test_more_servers_never_wait_longer_and_shapes():
    arrivals, duration = at_load(4, 0.8)
    wait = backlog_composite(arrivals, SERVICE_S, np.arange(3, 35).reshape(4, 8), duration, LAW)
    assert wait.mean_s.shape == wait.load.shape == (4, 8)
    assert (
        np.isinf(wait.mean_s[0, 0])
        and str(wait.trust[0, 0]) == "no closed form"
        and "saturated" in wait.trust_reason[0, 0]
    )
    assert np.all(np.diff(np.ravel(wait.mean_s)[1:]) <= 0.0)
    p99 = np.ravel(wait.quantile_s(0.99))
    assert np.isinf(p99[0]) and np.all(np.diff(p99[1:]) <= 1e-9)
    assert wait.survival([0.0, 1.0]).shape == (4, 8, 2)
    assert wait.quantile_s([0.5, 0.9, 0.99]).shape == (4, 8, 3)
    assert np.all(wait.survival(-1.0) == 1.0)


def test_survival_and_quantile_agree():
    arrivals, duration = at_load(4, 0.85)
    wait = backlog_composite(arrivals, SERVICE_S, 4, duration, LAW)
    for q in (0.5, 0.9, 0.99):
        assert float(wait.survival(wait.quantile_s(q))) == pytest.approx(1.0 - q, rel=1e-6)
    times = np.append(0.0, np.geomspace(1e-6, 100.0, 5000))
    assert float(np.trapezoid(wait.survival(times), times)) == pytest.approx(float(wait.mean_s), rel=2e-3)


def test_total_of_a_moving_wait():
    arrivals, duration = at_load(4, 0.85)
    wait = backlog_composite(arrivals, SERVICE_S, np.array([1, 4, 8]), duration, LAW)
    total = total_quantile_s(wait, LAW.values_s, LAW.weights, 0.99)
    assert np.isinf(total[0])
    for row in (1, 2):
        before, after = (float(wait.survival(total[row] * f - LAW.values_s)[row] @ LAW.weights) for f in (0.99, 1.01))
        assert after <= 0.01 <= before


def test_long_traces_are_sampled_but_counted_whole():
    random, count = np.random.default_rng(5), 120_000
    arrivals, service = np.cumsum(random.exponential(1.0, count)), random.exponential(0.8, count)
    wait = backlog_composite(arrivals, service, 1, arrivals[-1], ServiceLaw.exponential(0.8))
    assert float(wait.load) == pytest.approx(0.8, rel=0.01)
    assert float(wait.mean_s) == pytest.approx(central_waits(arrivals, service, 1).mean(), rel=0.03)


def test_window_rates():
    # 2 + 3 in [0, 5), 4 in [5, 10]: 1 and 0.8 per second
    assert window_rates([1.0, 4.0, 9.0], [2.0, 3.0, 4.0], 5.0, 10.0) == pytest.approx([1.0, 0.8])
    assert window_rates([1.0, 4.0, 9.0], 1.0, 20.0, 10.0) == pytest.approx([0.3])
    with pytest.raises(ValueError, match="window_s"):
        window_rates([1.0], 1.0, 0.0, 10.0)


def test_index_of_dispersion():
    # 4 and 0 per window: mean 2, variance 4
    assert index_of_dispersion([1.0, 1.0, 2.0, 3.0], 5.0, 10.0) == pytest.approx(2.0)
    poisson = np.cumsum(np.random.default_rng(6).exponential(0.1, 50_000))
    assert index_of_dispersion(poisson, 10.0, poisson[-1]) == pytest.approx(1.0, abs=0.15)
    assert index_of_dispersion(TRACE[:, 0], 60.0, TRACE[-1, 0]) > 5.0
    assert np.isnan(index_of_dispersion([], 5.0, 10.0))


@pytest.mark.parametrize(
    ("arrivals", "service", "duration", "window", "word"),
    [
        ([], [], 1.0, None, "equally long"),
        ([0.0, 1.0], [1.0], 2.0, None, "equally long"),
        ([1.0, 0.5], [1.0, 1.0], 2.0, None, "ascend"),
        ([0.0, 3.0], [1.0, 1.0], 2.0, None, "ascend"),
        ([0.0, 1.0], [1.0, 0.0], 2.0, None, "service_s"),
        ([0.0, 1.0], [1.0, 1.0], 2.0, 0.0, "window_s"),
    ],
)
def test_refused_arguments(arrivals, service, duration, window, word):
    with pytest.raises(ValueError, match=word):
        backlog_composite(arrivals, service, 1, duration, LAW, window_s=window)
