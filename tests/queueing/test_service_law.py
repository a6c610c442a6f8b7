"""Laws of service time: moments, residuals, compression."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from queueing_cases import LAWS

from planner.queueing import ServiceLaw
from planner.queueing.service import scv_of, weighted_scv


@pytest.mark.parametrize("scv", [0.01, 0.25, 1.0, 4.0, 10.0])
def test_gamma_moments(scv):
    # E[S^j] = theta^j a (a+1) … (a+j-1), a = 1/scv, theta = mean scv
    law, a, theta = ServiceLaw.gamma(0.3, scv), 1.0 / scv, 0.3 * scv
    expected = np.cumprod(theta * (a + np.arange(4)))
    assert [law.moment(j) for j in (1, 2, 3, 4)] == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("scv", [0.25, 1.0, 4.0, 10.0])
def test_lognormal_moments(scv):
    # E[S^j] = m^j (1+scv)^(j(j-1)/2)
    law = ServiceLaw.lognormal(0.3, scv)
    expected = [0.3**j * (1.0 + scv) ** (j * (j - 1) / 2) for j in (1, 2, 3, 4)]
    assert [law.moment(j) for j in (1, 2, 3, 4)] == pytest.approx(expected, rel=1e-9)


def test_hyperexponential_moments():
    # 0.9 x 0.5 + 0.1 x 5.5 = 1;  E[S^2] = 2 (0.9 x 0.25 + 0.1 x 30.25) = 6.5, so scv 5.5
    law = ServiceLaw.hyperexponential([0.9, 0.1], [0.5, 5.5])
    assert law.mean_s == pytest.approx(1.0)
    assert law.scv == pytest.approx(5.5)


def test_least_residual_of_exponential_servers():
    # the least of k exponential residuals is exponential with mean m/k: 0.5, 2 x 0.25, 6 x 0.125
    law = ServiceLaw.exponential(2.0)
    assert law.residual_minimum_moments([4])[:, 0] == pytest.approx([0.5, 0.5, 0.75])
    # the quadrature finds the same for two equal phases
    phases = ServiceLaw.hyperexponential([0.5, 0.5], [2.0, 2.0])
    assert phases.residual_minimum_moments([4])[:, 0] == pytest.approx([0.5, 0.5, 0.75], rel=1e-9)


@pytest.mark.parametrize("servers", [1, 2, 16, 500])
def test_least_residual_of_fixed_service(servers):
    # residual uniform on [0, d]: E[X^j] = d^j j! k! / (k+j)!
    k = float(servers)
    expected = [2.0 / (k + 1), 8.0 / ((k + 1) * (k + 2)), 48.0 / ((k + 1) * (k + 2) * (k + 3))]
    assert ServiceLaw.deterministic(2.0).residual_minimum_moments([servers])[:, 0] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("name", LAWS)
def test_one_residual_has_the_residual_moments(name):
    law = LAWS[name]
    expected = [law.residual_moment(j) for j in (1, 2, 3)]
    assert law.residual_minimum_moments([1])[:, 0] == pytest.approx(expected, rel=1e-6)


@given(
    values=st.lists(st.floats(1e-3, 1e3), min_size=200, max_size=300),
    atoms=st.integers(4, 80),
)
@settings(max_examples=25, deadline=None)
def test_compression_keeps_three_moments(values, atoms):
    law = ServiceLaw.from_samples(values)
    small = law.compressed(atoms)
    assert small.values_s.size <= atoms
    assert [small.moment(j) for j in (1, 2, 3)] == pytest.approx([law.moment(j) for j in (1, 2, 3)], rel=1e-7)


def test_compression_keeps_the_least_residual():
    samples = np.random.default_rng(1).lognormal(0.0, 1.0, 20_000)
    law = ServiceLaw.from_samples(samples)
    exact, small = law.residual_minimum_moments([8]), law.compressed(64).residual_minimum_moments([8])
    assert small == pytest.approx(exact, rel=5e-3)


def test_survival_and_residual_survival():
    law = ServiceLaw(np.array([1.0, 3.0]), np.array([1.0, 1.0]))
    assert law.survival([0.5, 1.0, 2.0, 3.0]) == pytest.approx([1.0, 0.5, 0.5, 0.0])
    # E[(S-t)+]/E[S] at 0, 1, 2: 1, (3-1)/2/2 = 0.5, (3-2)/2/2 = 0.25
    assert law.residual_survival([0.0, 1.0, 2.0, 3.0]) == pytest.approx([1.0, 0.5, 0.25, 0.0])


def test_heavy_share_and_long_jobs():
    # 0.5 % of jobs of 100 carry 0.005 x 1e4 = 50 of 50.995, the other 0.5 % of the top 1 % 0.005
    law = ServiceLaw(np.array([1.0, 100.0]), np.array([0.995, 0.005]))
    assert law.heavy_share == pytest.approx(50.005 / 50.995)
    # work: 0.5 of 1.495 in long jobs
    assert law.long_job_work == pytest.approx(0.5 / 1.495)
    # an exponential law: e^-t (t^2+2t+2) / 2 at t = ln 100 -> 0.01 x 32.42 / 2
    assert ServiceLaw.exponential(3.0).heavy_share == pytest.approx(0.1621, abs=1e-4)
    assert ServiceLaw.exponential(3.0).long_job_work == 0.0


@pytest.mark.parametrize(
    ("values", "weights", "word"),
    [
        ([], [], "equally long"),
        ([1.0, 2.0], [1.0], "equally long"),
        ([1.0, np.nan], [1.0, 1.0], "values_s"),
        ([-1.0], [1.0], "values_s"),
        ([1.0], [0.0], "weights"),
        ([1.0, 1.0], [1.0, -0.5], "weights"),
        ([0.0], [1.0], "mean"),
    ],
)
def test_refused_laws(values, weights, word):
    with pytest.raises(ValueError, match=word):
        ServiceLaw(np.array(values), np.array(weights))


@pytest.mark.parametrize("make", [ServiceLaw.gamma, ServiceLaw.lognormal])
@pytest.mark.parametrize(("mean", "scv"), [(0.0, 1.0), (np.nan, 1.0), (1.0, -1.0)])
def test_refused_parameters(make, mean, scv):
    with pytest.raises(ValueError, match=r"mean_s|scv"):
        make(mean, scv)


def test_scaling():
    law = ServiceLaw.lognormal(1.0, 2.0).scaled(0.2)
    assert law.mean_s == pytest.approx(0.2)
    assert law.scv == pytest.approx(2.0)


def test_variation_of_a_weighted_law():
    # 1 and 3, equally likely: mean 2, variance 1
    assert weighted_scv(np.array([[1.0, 3.0], [5.0, 5.0]]), np.array([0.5, 0.5])) == pytest.approx([0.25, 0.0])
    assert scv_of(2.0, 5.0) == pytest.approx(0.25)
    assert ServiceLaw(np.array([1.0, 3.0]), np.ones(2)).scv == pytest.approx(0.25)
