"""Prefill pools against queues whose waits are known exactly."""

from __future__ import annotations

import numpy as np
import pytest
from linear_runs import rows, waits

from planner.simulation.estimates import statistics

EXACT = rows("exact.csv")


def near(simulated: np.ndarray, exact: float, sigmas: float = 3.5) -> None:
    """The mean of waits, within standard errors by batch means."""
    found = statistics(simulated)["mean"]
    standard_error = found.half_width / 2.093
    assert abs(found.value - exact) < sigmas * standard_error
    assert standard_error < 0.08 * exact


def case(model: str, servers: int, rho: float) -> dict[str, str]:
    key = (model, servers, rho)
    return next(row for row in EXACT.values() if (row["model"], int(row["servers"]), float(row["rho"])) == key)


@pytest.mark.parametrize(("servers", "rho"), [(1, 0.8), (4, 0.8)])
def test_erlang_c(servers: int, rho: float) -> None:
    row = case("M/M/k", servers, rho)
    found = waits(servers, rho, np.random.default_rng(5).exponential(1.0, 30_000), seed=2)
    near(found, float(row["mean_wait"]))
    assert np.mean(found > 1e-9) == pytest.approx(float(row["p_wait"]), abs=0.02)
    assert np.quantile(found, 0.9) == pytest.approx(float(row["p90"]), rel=0.1)


@pytest.mark.parametrize(("servers", "rho"), [(1, 0.8), (2, 0.8), (4, 0.8)])
def test_constant_service_behind_round_robin_is_a_central_queue(servers: int, rho: float) -> None:
    """In turn or first come first served, equal jobs start at the same times (M/D/k)."""
    row = case("M/D/k", servers, rho)
    near(waits(servers, rho, np.ones(25_000), seed=3, router="round-robin"), float(row["mean_wait"]))


def test_random_routing_is_a_queue_per_worker() -> None:
    # M/M/1 at 0.6: 0.6 / (1 - 0.6) = 1.5 service times
    near(waits(4, 0.6, np.random.default_rng(6).exponential(1.0, 30_000), seed=4, router="random"), 1.5)


def test_a_clock_and_equal_jobs_never_wait() -> None:
    assert waits(2, 0.95, np.ones(2000), seed=1, router="round-robin", gap_scv=0.0).max() < 1e-6


def test_routers_rank_as_they_should() -> None:
    service = np.random.default_rng(7).exponential(1.0, 12_000)
    mean = {name: waits(8, 0.8, service, 5, name).mean() for name in ("least-work", "join-shortest-queue", "random")}
    assert mean["least-work"] < mean["join-shortest-queue"] < 0.5 * mean["random"]
