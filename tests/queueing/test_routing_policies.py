"""Routing policies against event simulation and each other."""

import numpy as np
import pytest
from queueing_cases import LAWS, central_waits, shortest_queue_waits

from planner.queueing import ServiceLaw, central_queue, join_shortest_queue, least_work, random_split


@pytest.mark.parametrize("name", LAWS)
def test_one_server_has_nothing_to_route(name):
    law = LAWS[name]
    central = central_queue(1, 0.8 / law.mean_s, law)
    for policy in (join_shortest_queue, least_work, random_split):
        wait = policy(1, 0.8 / law.mean_s, law)
        assert float(wait.mean_s) == float(central.mean_s)
        assert float(wait.quantile_s(0.99)) == float(central.quantile_s(0.99))


@pytest.mark.parametrize("name", LAWS)
def test_order_of_the_policies(name):
    law = LAWS[name]
    servers = np.array([2, 4, 16])
    central, shortest, blind = (
        policy(servers, 0.8 * servers / law.mean_s, law) for policy in (least_work, join_shortest_queue, random_split)
    )
    assert np.all(central.mean_s < shortest.mean_s) and np.all(shortest.mean_s < blind.mean_s)
    assert np.all(central.quantile_s(0.99) < shortest.quantile_s(0.99))
    assert np.all(shortest.quantile_s(0.99) < blind.quantile_s(0.99))


def test_shortest_queue_adds_a_third_of_a_residual():
    # E[W] = E[W_central] + C E[R]/3 with E[R] = m2/(2 m1) = 1 for exponential service of mean 1
    law = ServiceLaw.exponential(1.0)
    central, shortest = central_queue(4, 3.2, law), join_shortest_queue(4, 3.2, law)
    assert float(shortest.mean_s - central.mean_s) == pytest.approx(float(central.probability) / 3.0)


def test_random_split_is_as_many_single_queues():
    law = ServiceLaw.exponential(1.0)
    wait = random_split(np.array([2, 8]), np.array([1.6, 6.4]), law)
    # M/M/1 at 0.8: rho/(1-rho) = 4, P99 = ln(80)/0.2
    assert wait.mean_s == pytest.approx([4.0, 4.0])
    assert wait.quantile_s(0.99) == pytest.approx([np.log(80.0) / 0.2] * 2)


@pytest.mark.parametrize("name", ["exponential", "azure"])
@pytest.mark.parametrize(("servers", "load"), [(2, 0.8), (4, 0.9)])
def test_shortest_queue_against_simulation(name, servers, load):
    """QUEUEING §3: mean 3 / 14 %, P99 13 / 33 % (median / p90); the central queue is measured beside it."""
    law, random = LAWS[name], np.random.default_rng(3)
    count = 120_000
    service = random.exponential(1.0, count) if law.phases else random.choice(law.values_s, count, p=law.weights)
    arrival = np.cumsum(random.exponential(1.0 / (servers * load), count))
    simulated = shortest_queue_waits(arrival, service, servers)[count // 20 :]
    wait = join_shortest_queue(servers, servers * load, law)
    assert float(wait.mean_s) == pytest.approx(simulated.mean(), rel=0.12)
    assert float(wait.quantile_s(0.99)) == pytest.approx(np.quantile(simulated, 0.99), rel=0.2)
    low, high = wait.band(0.99)
    assert low <= np.quantile(simulated, 0.99) <= high
    central = central_waits(arrival, service, servers)[count // 20 :]
    assert float(central_queue(servers, servers * load, law).mean_s) == pytest.approx(central.mean(), rel=0.1)
