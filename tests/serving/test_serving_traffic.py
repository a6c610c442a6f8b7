"""A workload reduced to atoms and windows keeps its work."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.records import Arrivals, Lengths, Workload
from planner.serving.traffic import INPUT_ATOMS, reduced, trace_work, traffic

MOST_JOINT_ATOMS = 600  # a thousand waits are convolved with them
some = settings(max_examples=25, deadline=None, derandomize=True)


def recorded(seed: int, requests: int, duration_s: float) -> Workload:
    rng = np.random.default_rng(seed)
    times = np.sort(rng.uniform(0.0, duration_s, requests))
    inputs = np.ceil(rng.lognormal(6.5, 1.0, requests))
    outputs = np.ceil(rng.lognormal(5.0, 0.8, requests))
    lengths = Lengths(inputs, outputs, np.full(requests, 1.0 / requests))
    return Workload(requests / duration_s, lengths, Arrivals(times, inputs, outputs, duration_s))


@some
@given(seed=st.integers(0, 999), requests=st.integers(1, 3000))
def test_reducing_keeps_the_mean_and_the_number_of_atoms(seed: int, requests: int) -> None:
    values = np.ceil(np.random.default_rng(seed).lognormal(7.0, 1.2, requests))
    weights = np.full(requests, 1.0 / requests)
    atoms, mass = reduced(values, weights, INPUT_ATOMS)
    assert atoms.size <= INPUT_ATOMS
    assert mass.sum() == pytest.approx(1.0)
    assert mass @ atoms == pytest.approx(values.mean(), rel=1e-9)
    assert mass @ atoms**2 == pytest.approx(float((values**2).mean()), rel=0.03)
    assert values.min() <= atoms.min() and atoms.max() <= values.max()


@some
@given(seed=st.integers(0, 999), requests=st.integers(2, 3000))
def test_joint_atoms_keep_both_means_and_the_product(seed: int, requests: int) -> None:
    workload = recorded(seed, requests, 600.0)
    load, lengths = traffic(workload), workload.lengths
    assert load.joint_weights.size <= min(requests, MOST_JOINT_ATOMS)
    assert load.joint_weights.sum() == pytest.approx(1.0)
    assert load.joint_weights @ load.joint_input_tokens == pytest.approx(load.mean_input_tokens, rel=1e-9)
    assert load.joint_weights @ load.joint_output_tokens == pytest.approx(load.mean_output_tokens, rel=1e-9)
    product = float(lengths.weights @ (lengths.input_tokens * lengths.output_tokens))
    assert load.joint_weights @ (load.joint_input_tokens * load.joint_output_tokens) == pytest.approx(product, rel=0.1)


@some
@given(seed=st.integers(0, 999), requests=st.integers(50, 2000), peak=st.floats(1.0, 2.0))
def test_windows_hold_all_the_decode_work_of_a_trace(seed: int, requests: int, peak: float) -> None:
    """Rates are of the mean request: their mean is the rate of the trace, at its peak factor."""
    base = recorded(seed, requests, 3600.0)
    load = traffic(Workload(base.requests_per_s, base.lengths, base.arrivals, peak))
    assert load.window_weights.sum() == pytest.approx(1.0)
    assert load.window_requests_per_s @ load.window_weights == pytest.approx(base.requests_per_s * peak, rel=1e-6)
    assert load.requests_per_s == pytest.approx(base.requests_per_s * peak)
    assert load.mean_requests_per_s == base.requests_per_s


def test_a_peak_squeezes_the_trace_in_time() -> None:
    base = recorded(1, 500, 100.0)
    load = traffic(Workload(base.requests_per_s, base.lengths, base.arrivals, 2.0))
    times, work, duration = trace_work(load, 1e-4 * load.input_tokens)
    assert base.arrivals is not None
    assert duration == pytest.approx(50.0)
    assert times == pytest.approx(base.arrivals.time_s / 2.0)
    assert work.sum() == pytest.approx(1e-4 * base.arrivals.input_tokens.sum(), rel=0.01)


def test_stated_lengths_are_one_window_and_all_their_atoms() -> None:
    """K1 = E[O I + O^2/2] / E[O] = (100 x 1000 + 5000) / 100 = 1,050 tokens."""
    load = traffic(Workload(3.0, Lengths(np.array([1000.0]), np.array([100.0]), np.ones(1))))
    assert load.window_requests_per_s.tolist() == [3.0] and load.window_weights.tolist() == [1.0]
    assert load.context_moments[0] == pytest.approx(1050.0)
    assert load.mean_steps == 99.0  # the first token comes from prefill
    with pytest.raises(ValueError, match="no trace"):
        trace_work(load, load.input_tokens)
