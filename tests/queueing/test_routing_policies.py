"""Routing policies against event simulation and each other."""

import itertools

import numpy as np
import pytest
from queueing_cases import LAWS, central_waits, shortest_queue_waits

from planner.queueing import (
    ServiceLaw,
    central_queue,
    fewest_in_flight,
    join_shortest_queue,
    least_work,
    random_split,
    round_robin,
    two_choices,
)
from planner.queueing.exact import single_server
from planner.queueing.waiting import gaps_above


@pytest.mark.parametrize("name", LAWS)
def test_one_server_has_nothing_to_route(name):
    law = LAWS[name]
    central = central_queue(1, 0.8 / law.mean_s, law)
    for policy in (join_shortest_queue, least_work, random_split, two_choices, round_robin):
        wait = policy(1, 0.8 / law.mean_s, law)
        assert float(wait.mean_s) == float(central.mean_s)
        assert float(wait.quantile_s(0.99)) == float(central.quantile_s(0.99))


@pytest.mark.parametrize("name", LAWS)
def test_order_of_the_policies(name):
    law = LAWS[name]
    servers = np.array([2, 4, 16])
    policies = (least_work, join_shortest_queue, two_choices, random_split)
    waits = [policy(servers, 0.8 * servers / law.mean_s, law) for policy in policies]
    for better, worse in itertools.pairwise(waits):
        assert np.all(better.mean_s <= worse.mean_s * 1.01)
        assert np.all(better.quantile_s(0.99) <= worse.quantile_s(0.99) * 1.02)


def test_shortest_queue_of_exponential_jobs():
    # D1 = 1 + rho^k/(1 - rho^k) = 1/(1 - 0.8^4) = 1.693767; simulated 1.736, with P(W>0) 0.915 of Erlang C
    law = ServiceLaw.exponential(1.0)
    shortest = join_shortest_queue(4, 3.2, law)
    assert float(shortest.mean_s / shortest.probability) == pytest.approx(1.0 / (1.0 - 0.8**4))
    assert float(shortest.probability / central_queue(4, 3.2, law).probability) == pytest.approx(0.915, abs=0.02)


def test_two_choices_of_many_servers():
    # k to infinity: P(W>0) = rho^2 = 0.64, E[W] = rho^2 + rho^6 + rho^14 + ... = 0.64 + 0.262144 + 0.043980 + ...
    wait = two_choices(4096, 0.8 * 4096, ServiceLaw.exponential(1.0))
    assert float(wait.probability) == pytest.approx(0.64, rel=1e-3)
    assert float(wait.mean_s) == pytest.approx(sum(0.8 ** (2.0**n - 2.0) for n in range(2, 9)), rel=2e-3)


@pytest.mark.parametrize("servers", [2, 4, 8])
def test_round_robin_of_fixed_service_is_one_queue(servers):
    # every k-th arrival to each server: the same waits as M/D/k
    law = ServiceLaw.deterministic(2.0)
    turn, central = (policy(servers, 0.8 * servers / 2.0, law) for policy in (round_robin, central_queue))
    assert float(turn.mean_s) == float(central.mean_s)
    assert float(turn.quantile_s(0.99)) == float(central.quantile_s(0.99))
    # and the walk of a single server finds them as well, by another way
    walk = single_server(law.work_above, gaps_above(0.4, 1.0 / servers))
    assert walk.mean_s == pytest.approx(float(central.mean_s), rel=1e-4)
    tail = np.array(0.01 / walk.probability)
    assert float(walk.delay.quantile_s(tail)) == pytest.approx(float(central.quantile_s(0.99)), rel=2e-3)


def test_random_split_is_as_many_single_queues():
    law = ServiceLaw.exponential(1.0)
    wait = random_split(np.array([2, 8]), np.array([1.6, 6.4]), law)
    # M/M/1 at 0.8: rho/(1-rho) = 4, P99 = ln(80)/0.2
    assert wait.mean_s == pytest.approx([4.0, 4.0])
    assert wait.quantile_s(0.99) == pytest.approx([np.log(80.0) / 0.2] * 2)


@pytest.mark.parametrize("name", ["exponential", "azure"])
@pytest.mark.parametrize(("servers", "load"), [(2, 0.8), (4, 0.9)])
def test_shortest_queue_against_simulation(name, servers, load):
    """Three times the errors of docs/queueing.md; the central queue is measured beside it."""
    law, random = LAWS[name], np.random.default_rng(3)
    count = 120_000
    service = random.exponential(1.0, count) if law.phases else random.choice(law.values_s, count, p=law.weights)
    arrival = np.cumsum(random.exponential(1.0 / (servers * load), count))
    simulated = shortest_queue_waits(arrival, service, servers)[count // 20 :]
    wait = join_shortest_queue(servers, servers * load, law)
    assert float(wait.mean_s) == pytest.approx(simulated.mean(), rel=0.06)
    assert float(wait.quantile_s(0.99)) == pytest.approx(np.quantile(simulated, 0.99), rel=0.1)
    low, high = wait.band(0.99)
    assert low <= np.quantile(simulated, 0.99) <= high
    central = central_waits(arrival, service, servers)[count // 20 :]
    assert float(central_queue(servers, servers * load, law).mean_s) == pytest.approx(central.mean(), rel=0.1)


def test_a_router_of_all_in_flight_sees_the_queue_as_far_as_it_varies() -> None:
    """Nothing else on the servers: join the shortest queue. Very much else: as many separate M/G/1 queues."""
    service, servers, rate = ServiceLaw.gamma(1.0, 1.0), np.array([4.0, 16.0]), np.array([2.8, 11.2])
    shortest = join_shortest_queue(servers, rate, service)
    blind = random_split(servers, rate, service)
    others = np.array([0.0, 1.0, 10.0, 100.0, 1e9])[:, None]
    waits = fewest_in_flight(servers, rate, service, others)
    assert waits.mean_s[0] == pytest.approx(shortest.mean_s, rel=1e-9)
    assert waits.mean_s[-1] == pytest.approx(blind.mean_s, rel=1e-6)
    assert np.all(np.diff(waits.mean_s, axis=0) > 0.0)
    assert np.all(np.diff(waits.quantile_s(0.99), axis=0) > 0.0)
    # load 0.7, exponential: L = 0.7 + 0.49 x 2 / 0.6 = 2.333, V = 2.333 x 3.333 = 7.78; of 10 more a sight of 0.4375
    sight = 7.7778 / 17.7778
    between = sight * shortest.probability + (1.0 - sight) * blind.probability
    assert waits.probability[2] == pytest.approx(between, rel=1e-4)


def test_one_server_needs_no_router() -> None:
    service = ServiceLaw.gamma(1.0, 2.0)
    alone = fewest_in_flight(np.array([1.0]), np.array([0.6]), service, 5.0)
    assert alone.mean_s == pytest.approx(central_queue(np.array([1.0]), np.array([0.6]), service).mean_s, rel=1e-9)


def test_a_server_that_holds_nothing_is_found() -> None:
    """16 servers, 0.25 requests on each: all are held by chance of Erlang's loss, 4^16 / 16! / sum 4^n / n! = 3.7e-6;
    a fifth of those requests is prefilled. Simulated step by step: 16 servers at load 0.22 beside 0.44 others wait
    with 0.011, 12 at 0.3 beside 0.67 with 0.058; half of that to all of it is what sight leaves."""
    service = ServiceLaw.deterministic(1.0)

    def waits(servers: float, load: float, others: float) -> float:
        found = fewest_in_flight(np.array([servers]), np.array([load * servers]), service, others)
        return float(found.probability[0])

    assert waits(16.0, 0.05, 0.2) < 4e-6 / 5.0
    assert 0.5 <= waits(16.0, 0.22, 0.44) / 0.011 <= 1.0
    assert 0.5 <= waits(12.0, 0.3, 0.67) / 0.058 <= 1.0
    assert waits(16.0, 0.05, 20.0) == pytest.approx(0.05, rel=0.1)  # as good as a random one
