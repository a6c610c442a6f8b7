"""Queues that are solved, against closed forms and each other."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from queueing_cases import LAWS

from planner.queueing import ServiceLaw, central_queue, round_robin
from planner.queueing.compound import compound_delay
from planner.queueing.exact import erlang_c, fixed_service, single_server, two_phase_service
from planner.queueing.waiting import gaps_above


def tail_time(law, q):
    return float(law.delay.quantile_s(np.array((1.0 - q) / law.probability)))


def test_erlang_c_by_its_sum():
    # k = 3, rho = 0.5, a = 1.5: (a^3/6)/(1-rho) = 1.125 over 1 + 1.5 + 1.125 + 1.125
    assert float(erlang_c(3, 0.5)) == pytest.approx(1.125 / 4.75)


def test_fixed_service_by_crommelins_series():
    """E[W] = sum_i P(Poisson(i k rho) >= i k) - P(Poisson(i k rho) >= i k + 1)/rho (Crommelin 1932)."""
    from scipy.special import gammainc

    for servers, load in ((1, 0.6), (4, 0.8), (16, 0.9), (64, 0.7)):
        i = np.arange(1.0, 4000.0)
        n, mean = i * servers, i * servers * load
        series = float(np.sum(gammainc(n, mean) - gammainc(n + 1.0, mean) / load))
        assert fixed_service(servers, load).mean_s == pytest.approx(series, rel=1e-8)
        # P(W = 0) = exp(-sum P(S_i > 0)/i), Spitzer
        none = np.exp(-np.sum(gammainc(n, mean) / i))
        assert fixed_service(servers, load).probability == pytest.approx(1.0 - none, rel=1e-8)


def test_two_equal_phases_are_mmk():
    law = two_phase_service(5, 0.8, np.array([0.3, 0.7]), np.array([1.0, 1.0 + 1e-7]))
    assert law.probability == pytest.approx(float(erlang_c(5, 0.8)), rel=1e-6)
    assert law.mean_s == pytest.approx(float(erlang_c(5, 0.8)), rel=1e-6)  # C/(k(1-rho)) with k(1-rho) = 1


@given(
    servers=st.integers(2, 16),
    load=st.floats(0.05, 0.97),
    share=st.floats(0.02, 0.98),
    ratio=st.floats(1.5, 60.0),
)
@settings(max_examples=30, deadline=None)
def test_two_phases_obey_conservation(servers, load, share, ratio):
    """The tail falls and is a probability, and waits lie between those of one and of many servers."""
    means = np.array([1.0, ratio])
    chances = np.array([1.0 - share, share])
    means = means / float(chances @ means)
    law = two_phase_service(servers, load, chances, means)
    assert 0.0 < law.probability < 1.0
    assert np.all(np.diff(law.delay.log_tails) < 0.0)
    times = np.linspace(0.0, 1.0, 40_001) ** 2 * float(law.delay.times_s[-1])
    assert float(np.trapezoid(law.delay.survival(times), times)) * law.probability == pytest.approx(
        law.mean_s, rel=2e-3
    )
    scv = float(chances @ (2.0 * means**2)) - 1.0
    assert law.mean_s < load * (1.0 + scv) / (2.0 * (1.0 - load))


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("load", [0.3, 0.9])
def test_one_server_by_two_ways(name, load):
    """The geometric compound of residuals and the walk service minus gap."""
    law = LAWS[name]
    rate = load / law.mean_s
    walk = single_server(law.work_above, gaps_above(rate, 1.0))
    mean = rate * law.moment(2) / (2.0 * (1.0 - load))
    assert walk.mean_s == pytest.approx(mean, rel=0.03)
    residual = law.residual_survival
    delay = compound_delay(residual, residual, load / (1.0 - load), 8.0 * mean / load)
    assert float(delay.quantile_s(np.array(0.01 / load))) == pytest.approx(tail_time(walk, 0.99), rel=0.03)


@pytest.mark.parametrize(("scv", "share"), [(0.0, 0.7713), (0.5, 0.8), (1.0, 0.8)])
def test_regular_arrivals_to_exponential_servers(scv, share):
    # GI/M/1: W has an exponential tail with sigma = E[e^(-mu (1-sigma) A)]; sigma = 0.8 for M/M/1
    wait = central_queue(1, 0.8, ServiceLaw.exponential(1.0), arrival_scv=scv)
    sigma = 0.5
    for _ in range(200):
        x = (1.0 - sigma) / 0.8
        sigma = np.exp(-x) if scv == 0.0 else (1.0 + scv * x) ** (-1.0 / scv)
    assert float(wait.probability) == pytest.approx(sigma, rel=3e-3)
    assert float(wait.mean_s) == pytest.approx(sigma / (1.0 - sigma), rel=3e-3)
    assert float(wait.quantile_s(0.99)) == pytest.approx(np.log(100.0 * sigma) / (1.0 - sigma), rel=3e-3)
    assert sigma <= share + 0.03


@given(load=st.floats(0.1, 0.95), servers=st.sampled_from([1, 2, 4, 8]), name=st.sampled_from(sorted(LAWS)))
@settings(max_examples=15, deadline=None)
def test_more_regular_arrivals_wait_less(load, servers, name):
    law = LAWS[name]
    rate = servers * load / law.mean_s
    means = [
        float(central_queue(np.array([servers]), rate, law, arrival_scv=scv).mean_s[0]) for scv in (0.3, 1.0, 2.0, 5.0)
    ]
    assert all(a <= b * 1.001 + 1e-12 for a, b in pairwise(means))


def test_bursts_that_no_renewal_stream_has_are_flagged():
    law = LAWS["azure"]
    assert (
        str(central_queue(4, 3.0 / law.mean_s, law, arrival_scv=1.2, arrival_dispersion=16.0).trust) == "no closed form"
    )
    assert str(central_queue(4, 3.0 / law.mean_s, law, arrival_scv=1.2).trust) == "caution"
    assert str(central_queue(4, 3.0 / law.mean_s, law).trust) == "ok"


def test_refined_and_fitted_points_agree():
    for name in ("azure", "gamma 0.5", "lognormal 1", "hyperexponential"):
        law, servers = LAWS[name], 6
        one = central_queue(servers, 4.8 / law.mean_s, law)
        many = central_queue(np.array([servers]), 4.8 / law.mean_s, law)
        assert float(one.mean_s) == pytest.approx(float(many.mean_s[0]), rel=0.03)
        assert float(one.quantile_s(0.99)) == pytest.approx(float(many.quantile_s(0.99)[0]), rel=0.1)
        turn = round_robin(servers, 4.8 / law.mean_s, law), round_robin(np.array([servers]), 4.8 / law.mean_s, law)
        assert float(turn[0].mean_s) == pytest.approx(float(turn[1].mean_s[0]), rel=0.06)
