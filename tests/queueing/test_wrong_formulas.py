"""Formulas that are wrong in tempting ways do not pass the reference rows."""

import numpy as np
import pytest
from queueing_cases import LAWS, table

import planner.queueing.light_heavy as light_heavy
import planner.queueing.waiting as waiting
from planner.queueing import ServiceLaw, central_queue, join_shortest_queue, total_quantile_s
from planner.queueing.exact import erlang_c


def mean_errors():
    rows = [row for row in table.waits.__wrapped__("exact.csv", single=False) if row["arrival_scv"] == 1.0]
    return np.abs([table.error(row, "mean_wait") for row in rows])


def test_erlang_c_with_the_load_squared_is_seen(monkeypatch):
    assert np.quantile(mean_errors(), 0.9) <= 0.02
    wrong = lambda servers, load: erlang_c(servers, np.asarray(load) ** 2)  # noqa: E731
    monkeypatch.setattr(light_heavy, "erlang_c", wrong)
    monkeypatch.setattr(waiting, "erlang_c", wrong)
    assert np.median(mean_errors()) > 0.1


def test_the_p99_of_a_sum_is_not_the_sum_of_p99s():
    """M/M/1: wait plus own time is exponential with mean 1/(mu - lambda), P99 = 4.605/0.2 = 23.03."""
    probability = (np.arange(4000) + 0.5) / 4000
    own, wait = -np.log1p(-probability), central_queue(1, 0.8, ServiceLaw.exponential(1.0))
    right = np.log(100.0) / 0.2
    added = float(wait.quantile_s(0.99)) + float(np.quantile(own, 0.99))
    assert float(total_quantile_s(wait, own, np.ones(4000), 0.99)) == pytest.approx(right, rel=1e-3)
    assert added > 1.1 * right


@pytest.mark.parametrize("name", ["azure", "lognormal 1"])
def test_one_queue_for_all_is_not_what_a_router_gives(name):
    law = LAWS[name]
    central, shortest = (policy(8, 7.2 / law.mean_s, law) for policy in (central_queue, join_shortest_queue))
    assert float(shortest.quantile_s(0.99)) > 1.3 * float(central.quantile_s(0.99))
