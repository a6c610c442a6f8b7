"""Mean gaps of several replicas behind a router that spares busy ones, against token steps one by one."""

from __future__ import annotations

import numpy as np
import pytest
from linear_runs import UNBOUNDED, LinearSteps

from planner.queueing.colocated import chunked
from planner.simulation.fleet import Fleet, PoolPlan
from planner.simulation.ledger import open_ledger
from planner.simulation.rank import Schedule
from planner.simulation.requests import Requests

STEPS = LinearSteps(0.01, 1e-4, prompt_token_s=5e-5)


def simulated_gap_s(replicas: int, rate: float, prompt: int, outputs: int, budget: int, seed: int) -> float:
    random, count = np.random.default_rng(seed), int(np.clip(2e6 / outputs, 5000, 20_000))
    arrivals = np.cumsum(random.exponential(1.0 / rate, count))
    answers = np.maximum(1, random.gamma(2.0, outputs / 2.0, count).round()).astype(int)
    requests = Requests(arrivals, np.full(count, prompt), answers, count // 10, count - count // 20)
    ledger = open_ledger(requests, STEPS.attention_s, lambda x: x, 0.0)
    pool = PoolPlan(STEPS, replicas, 1, Schedule("chunked", budget, UNBOUNDED, np.inf))
    Fleet(requests, ledger, pool, None, None, "join-shortest-queue", random).run()
    stays = np.asarray(ledger.finished_s) - np.asarray(ledger.prefilled_s)
    measured = slice(requests.first, requests.last)
    return float(stays[measured].sum() / (answers[measured] - 1).sum())


@pytest.mark.slow
def test_the_law_holds_for_cases_it_was_not_fitted_to() -> None:
    random, errors = np.random.default_rng(20), []
    while len(errors) < 16:
        replicas, budget = int(random.choice([2, 4, 8, 16, 32])), int(random.choice([1024, 4096, 16384]))
        prompt, outputs = int(2.0 ** random.uniform(9.0, 15.0)), int(2.0 ** random.uniform(4.0, 10.0))
        rate = replicas * random.uniform(0.15, 0.7) / (prompt * 5e-5 + 0.01 * prompt / min(budget, prompt))
        law = chunked(rate, [float(prompt)], [1.0], float(outputs), 0.01, 1e-4, 5e-5, float(budget), replicas)
        if not law.stable or law.mean_batch > 0.2 * budget or law.mean_batch > 100.0:
            continue
        seen_s = simulated_gap_s(replicas, rate, prompt, outputs, budget, seed=len(errors))
        errors.append(abs(float(law.mean_itl_s) / seen_s - 1.0))
    assert float(np.median(errors)) < 0.04
    assert float(np.quantile(errors, 0.9)) < 0.15
    assert max(errors) < 0.5, sorted(errors)
