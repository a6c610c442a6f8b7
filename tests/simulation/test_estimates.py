"""Quantiles, intervals and the requests of a run."""

from __future__ import annotations

import numpy as np
import pytest

from planner.records import Arrivals, Lengths
from planner.simulation.estimates import statistics, weighted_quantile
from planner.simulation.requests import drawn, replayed


def test_weights_count_as_copies() -> None:
    values, copies = np.array([3.0, 1.0, 2.0]), np.array([1.0, 5.0, 4.0])
    spread = np.repeat(values, copies.astype(int))
    for q in (0.1, 0.5, 0.51, 0.9, 0.91, 0.99):
        assert weighted_quantile(values, copies, q) == np.quantile(spread, q, method="inverted_cdf")


def test_intervals_hold_the_mean_about_as_often_as_they_say() -> None:
    random = np.random.default_rng(1)
    held = 0
    for _ in range(200):
        found = statistics(random.exponential(1.0, 2000))["mean"]
        held += found.low <= 1.0 <= found.high
    assert 180 <= held <= 199  # 95 % of 200 is 190, standard deviation 3


def test_short_runs_have_no_interval() -> None:
    found = statistics(np.arange(10.0))["mean"]
    assert found.value == 4.5 and np.isnan(found.low)


def test_nothing_measured_is_not_a_number() -> None:
    assert np.isnan(statistics(np.zeros(0))["p99"].value)


def test_fractional_lengths_keep_their_mean_and_gaps_their_scv() -> None:
    law = Lengths(np.array([10.4, 0.2]), np.array([7.75, 3.0]), np.array([0.5, 0.5]))
    got = drawn(law, 20_000, 5.0, 4.0, np.random.default_rng(0))
    assert got.output_tokens.mean() == pytest.approx(5.375, rel=0.01)
    assert got.input_tokens.min() == 1
    gaps = np.diff(got.arrival_s)
    assert gaps.mean() == pytest.approx(0.2, rel=0.05)
    assert gaps.var() / gaps.mean() ** 2 == pytest.approx(4.0, rel=0.1)
    assert (got.last - got.first, got.first) == (20_000, 2_000)


def test_a_trace_is_measured_once_and_warmed_up_by_its_own_end() -> None:
    times = np.array([0.0, 1.0, 5.0, 6.0, 7.0, 8.0, 8.5, 9.0, 9.2, 9.5])
    tokens = np.arange(1.0, 11.0)
    got = replayed(Arrivals(times, tokens, tokens, 10.0), 0, 0.5)
    assert (got.first, got.last, got.count) == (1, 11, 12)
    assert got.input_tokens.tolist() == [10, *range(1, 11), 1]
    assert np.diff(got.arrival_s[1:11]) == pytest.approx(np.diff(times) / 2.0)
    assert got.arrival_s[1] - got.arrival_s[0] == pytest.approx(0.5 / 2.0)
