"""Wait plus own time."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from queueing_cases import LAWS

from planner.queueing import ServiceLaw, central_queue, join_shortest_queue, total_mean_s, total_quantile_s

OWN_S = np.array([0.05, 0.1, 0.4, 1.5])
WEIGHTS = np.array([0.4, 0.3, 0.2, 0.1])


def test_time_in_an_exponential_queue():
    # wait + own exponential time in M/M/1 is exponential with mean 1/(mu - lambda) = 5 at load 0.8
    probability = (np.arange(4000) + 0.5) / 4000
    own = -np.log1p(-probability)
    total = total_quantile_s(central_queue(1, 0.8, ServiceLaw.exponential(1.0)), own, np.ones(4000), 0.99)
    assert float(total) == pytest.approx(5.0 * np.log(100.0), rel=2e-4)


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("q", [0.5, 0.9, 0.99, 0.999])
def test_solves_its_equation(name, q):
    law, servers = LAWS[name], np.array([1, 2, 5, 16])
    wait = join_shortest_queue(servers, 0.8 * servers / law.mean_s, law)
    total = total_quantile_s(wait, OWN_S, WEIGHTS, q)
    for row, t in enumerate(total):
        one = wait.at(row)
        before, after = (float(one.survival(t * f - OWN_S) @ WEIGHTS) for f in (1.0 - 1e-3, 1.0 + 1e-3))
        assert after <= 1.0 - q <= before


def test_levels_together_are_those_one_by_one():
    levels = np.array([0.5, 0.9, 0.999])
    for servers in (3, np.array([1, 4]), np.array([[1, 2], [3, 80]])):
        wait = join_shortest_queue(servers, 0.8 * np.asarray(servers) / LAWS["azure"].mean_s, LAWS["azure"])
        together = total_quantile_s(wait, OWN_S, WEIGHTS, levels)
        assert together.shape == (*np.shape(servers), 3)
        for place, level in enumerate(levels):
            assert np.array_equal(together[..., place], total_quantile_s(wait, OWN_S, WEIGHTS, level))


def test_never_two_quantiles_added_and_never_less_than_either():
    wait = central_queue(np.arange(1, 9), 0.8 * np.arange(1, 9), LAWS["azure"])
    total = total_quantile_s(wait, OWN_S, WEIGHTS, 0.99)
    assert np.all(total >= np.maximum(wait.quantile_s(0.99), 1.5) - 1e-9)
    assert np.all(total < wait.quantile_s(0.99) + 1.5)


def test_without_arrivals_the_own_time_is_left():
    wait = central_queue(2, 0.0, LAWS["azure"])
    assert [float(total_quantile_s(wait, OWN_S, WEIGHTS, q)) for q in (0.3, 0.5, 0.85, 0.95)] == pytest.approx(
        [0.05, 0.1, 0.4, 1.5], rel=1e-5
    )
    assert float(total_mean_s(wait, OWN_S, WEIGHTS)) == pytest.approx(0.02 + 0.03 + 0.08 + 0.15)


def test_one_own_law_per_point_and_saturation():
    wait = central_queue(1, np.array([0.5, 0.9, 1.0]), ServiceLaw.exponential(1.0))
    own = OWN_S * np.array([1.0, 2.0, 3.0])[:, None]
    total = total_quantile_s(wait, own, WEIGHTS, 0.9)
    assert np.isinf(total[2])
    endless = total_quantile_s(wait, np.where([[True], [False], [False]], np.inf, own), WEIGHTS, 0.9)
    assert list(np.isinf(endless)) == [True, False, True]
    for row in (0, 1):
        assert total[row] == pytest.approx(float(total_quantile_s(wait.at(row), own[row], WEIGHTS, 0.9)), rel=1e-5)
    assert total_mean_s(wait, own, WEIGHTS)[1] == pytest.approx(9.0 + 2.0 * 0.28)


@given(
    load=st.floats(0.05, 0.95),
    servers=st.integers(1, 32),
    name=st.sampled_from(sorted(LAWS)),
    factor=st.floats(1e-4, 1e4),
)
@settings(max_examples=40, deadline=None)
def test_rises_with_the_level_and_scales(load, servers, name, factor):
    law = LAWS[name]
    wait = join_shortest_queue(servers, servers * load / law.mean_s, law)
    totals = [float(total_quantile_s(wait, OWN_S, WEIGHTS, q)) for q in (0.5, 0.9, 0.95, 0.99)]
    assert np.all(np.diff(totals) >= -1e-5 * totals[-1])
    scaled = join_shortest_queue(servers, servers * load / law.mean_s / factor, law, scale=factor)
    assert float(total_quantile_s(scaled, OWN_S * factor, WEIGHTS, 0.95)) == pytest.approx(totals[2] * factor, rel=1e-4)


@pytest.mark.parametrize(
    ("own", "weights", "word"),
    [
        (OWN_S, WEIGHTS[:2], "own_s"),
        (-OWN_S, WEIGHTS, "own_s"),
        (OWN_S * np.nan, WEIGHTS, "own_s"),
        (OWN_S, -WEIGHTS, "weights"),
    ],
)
def test_refused_arguments(own, weights, word):
    with pytest.raises(ValueError, match=word):
        total_quantile_s(central_queue(1, 0.5, ServiceLaw.exponential(1.0)), own, weights, 0.9)


def test_points_may_have_more_axes():
    wait = central_queue(np.array([1, 2])[:, None], np.array([0.2, 0.5, 0.8]), ServiceLaw.exponential(1.0))
    own = OWN_S * np.arange(1.0, 7.0).reshape(2, 3, 1)
    total = total_quantile_s(wait, own, WEIGHTS, 0.9)
    assert total.shape == (2, 3)
    assert total[1, 2] == pytest.approx(float(total_quantile_s(wait.at((1, 2)), own[1, 2], WEIGHTS, 0.9)), rel=1e-5)
