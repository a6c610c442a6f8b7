"""Ranks that step together: order statistics by hand, physics, and runs of the token-step simulator."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from queueing_cases import ranks, table

from planner.queueing import Lockstep, lockstep_wait, total_mean_s

TWO = (np.array([1.0, 3.0]), np.array([10.0, 30.0]), np.array([1.0, 1.0]), np.array([0.5, 0.5]))


def two_kinds(ranks: int, shared_s: float = 0.5) -> Lockstep:
    return Lockstep(*TWO, ranks, lambda tokens: shared_s + 0.0 * tokens)


def test_a_step_lasts_as_long_as_its_slowest_rank() -> None:
    steps = two_kinds(2)
    # of two chunks both are short with 1/4: 1 * 1/4 + 3 * 3/4 + 0.5 = 3; E[T^2] = (1.5^2 + 3 * 3.5^2) / 4 = 9.75
    assert steps.full_step_s == pytest.approx(3.0)
    assert steps.moments_s[1][-1] == pytest.approx(9.75)
    # beside one other: a short prompt (1 + 3)/2 + 0.5, a long one 3 + 0.5
    assert steps.work_s == pytest.approx([2.5, 3.5])


def test_prompts_cost_what_the_worker_takes() -> None:
    chunks = np.array([1.0, 4.0])
    steps = Lockstep(*TWO[:2], chunks, TWO[3], 8, lambda tokens: 0.1 + 0.01 * tokens)
    assert TWO[3] @ steps.work_s == pytest.approx(steps.mean_chunks * steps.full_step_s)
    wait = lockstep_wait([2.0], 0.5, steps)
    assert wait.load[0] == pytest.approx(0.5 * TWO[3] @ steps.work_s / 16.0)


def test_alone_a_prompt_takes_its_own_time() -> None:
    wait = lockstep_wait([4.0], 1e-6, two_kinds(8))
    assert wait.own_s[0] == pytest.approx([1.5, 3.5], rel=1e-4)
    assert wait.mean_s[0] == pytest.approx(0.0, abs=1e-4)


@given(ranks=st.integers(2, 12), load=st.floats(0.05, 0.85), workers=st.integers(1, 6))
def test_twice_the_workers_are_sooner_and_bounds_hold(ranks: int, load: float, workers: int) -> None:
    steps = two_kinds(ranks)
    rate = load * workers * ranks / (steps.mean_chunks * steps.full_step_s)
    wait = lockstep_wait([workers, 2 * workers], rate, steps)
    total = total_mean_s(wait, wait.own_s, TWO[3])
    assert total[1] <= total[0]
    assert np.all(wait.quantile_s(0.99) >= wait.quantile_s(0.5))
    assert np.all(wait.own_s[0] <= steps.work_s + 1e-9)
    assert np.all(wait.own_s[0] >= TWO[0] + 0.5 - 1e-9)
    times = np.linspace(0.0, float(wait.times_s[0, -1]), 4000)
    assert np.trapezoid(wait.survival(times)[0], times) == pytest.approx(wait.mean_s[0], rel=0.06, abs=0.02)


def test_more_than_the_ranks_clear_waits_forever() -> None:
    wait = lockstep_wait([1.0, 4.0], 1.2 * 8 / 3.5, two_kinds(8))
    assert (wait.mean_s[0], wait.quantile_s(0.5)[0], wait.trust[0]) == (np.inf, np.inf, "no closed form")
    assert np.isfinite(wait.mean_s[1])


@pytest.mark.parametrize(("workers", "rate"), [(0, 1.0), (1.5, 1.0), (1, 0.0), (1, -1.0), (1, np.nan)])
def test_what_makes_no_sense_is_refused(workers: float, rate: float) -> None:
    with pytest.raises(ValueError, match=r"servers|arrivals_per_s"):
        lockstep_wait([workers], rate, two_kinds(2))


def test_against_simulated_workers() -> None:
    """Rows L fitted two constants, rows H none."""
    cases = [(row, *ranks.ranks_in_step(row)) for row in table.read("lockstep.csv")]
    even = [(row, ours) for row, ours, wait in cases if wait.trust[0] == "ok"]
    assert len(even) >= 0.9 * len(cases)
    for column, median, most in (("wait", 0.10, 0.35), ("ttft", 0.05, 0.17), ("ttft99", 0.08, 0.32)):
        errors = np.abs([ours[column] / float(row[column]) - 1.0 for row, ours in even])
        assert np.median(errors) < median, column
        assert errors.max() < most, column
    held = [low <= float(row["wait99"]) <= high for row, _, wait in cases for low, high in [_band(wait)]]
    assert np.mean(held) >= 0.95


def _band(wait: object) -> tuple[float, float]:
    low, high = wait.band(0.99)  # type: ignore[attr-defined]
    return float(low[0]), float(high[0])


@pytest.mark.slow
def test_separate_servers_are_far_off() -> None:
    """What taking every rank as a server of its own makes of the same rows: half of the wait, or less."""
    errors = []
    for row in table.read("lockstep.csv"):
        ours, wait = ranks.ranks_in_step(row)
        if wait.trust[0] == "ok":
            apart = ranks.ranks_apart(row)
            errors.append((abs(ours["ttft"] / float(row["ttft"]) - 1.0), abs(apart / float(row["ttft"]) - 1.0)))
    together, apart = np.median(np.array(errors), axis=0)
    assert together < 0.25 * apart


def test_total_time_of_the_lone_prompt() -> None:
    wait = lockstep_wait([4.0], 1e-6, two_kinds(8))
    assert total_mean_s(wait, wait.own_s, TWO[3])[0] == pytest.approx(2.5, rel=1e-3)
