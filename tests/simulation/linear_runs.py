"""Runs under linear step laws, as `tests/data/queueing` has them."""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from planner.records import Floats
from planner.simulation.estimates import Statistics, statistics
from planner.simulation.fleet import Fleet, PoolPlan, Run
from planner.simulation.ledger import open_ledger
from planner.simulation.rank import Policy, Schedule
from planner.simulation.requests import Integers, Requests
from planner.simulation.result import PoolSimulation, itl_statistics, pool_simulation, window
from planner.simulation.router import RouterName

DATA = Path(__file__).parents[1] / "data" / "queueing"
UNBOUNDED = 10**9
TOKENS = 10_000  # of a prompt whose prefill takes one unit of time


@dataclass(frozen=True)
class LinearSteps:
    """a + c b + d (sum of contexts) + e (prompt tokens): the step law of QUEUEING §4.1 (seconds, per rank)."""

    base_s: float
    sequence_s: float
    context_token_s: float = 0.0
    prompt_token_s: float = 0.0
    prefill_factor: float = 1.0

    def decode_line(self, batch: int, context_tokens: float) -> tuple[float, float, float]:
        rise_s = self.context_token_s * batch
        return self.base_s + self.sequence_s * batch + rise_s * context_tokens, rise_s, np.inf

    def shared_s(self, batch: float, prompt_tokens: float = 0.0) -> float:
        return 0.0

    def added_s(self, batch: int, tokens: float) -> float:
        return self.prompt_token_s * tokens

    def prefill_s(self, tokens: float) -> float:
        return self.base_s + self.prompt_token_s * tokens

    def attention_s(self, prompt_tokens: Floats) -> Floats:
        return np.zeros_like(prompt_tokens)


@dataclass(frozen=True, eq=False)
class Answer:
    """What one row of `serve_steps.csv` measures."""

    run: Run
    pool: PoolSimulation
    itl_s: Statistics
    ttft_s: Statistics
    tpot_s: Statistics
    requests_per_s: float


def rows(name: str) -> dict[str, dict[str, str]]:
    """A test data file by case."""
    with (DATA / name).open(encoding="utf-8") as file:
        return {row["case_id"]: row for row in csv.DictReader(file)}


def waits(
    servers: int, rho: float, service: Floats, seed: int, router: RouterName = "least-work", gap_scv: float = 1.0
) -> Floats:
    """Waits in units of the mean service time; `service` of each request has mean 1."""
    random = np.random.default_rng(seed)
    count = service.size
    gap = 1.0 / (servers * rho)
    gaps = random.gamma(1.0 / gap_scv, gap_scv * gap, count) if gap_scv else np.full(count, gap)
    tokens = np.maximum(np.rint(service * TOKENS), 1).astype(np.int64)
    requests = Requests(np.cumsum(gaps), tokens, np.ones(count, dtype=np.int64), count // 10, count)
    law = LinearSteps(0.0, 0.0, prompt_token_s=1.0 / TOKENS)
    plan = PoolPlan(law, servers, 1, Schedule("prefill-first", UNBOUNDED, UNBOUNDED, np.inf))
    ledger = open_ledger(requests, law.attention_s, lambda x: x, 0.0)
    run = Fleet(requests, ledger, plan, None, None, router, random).run()
    return (np.asarray(ledger.start_s) - run.arrival_s)[requests.first :]


def serve(case: dict[str, str], most: int, seed: int = 1) -> Answer:
    """Run a case of `serve_steps.csv` with at most that many requests."""
    params: dict[str, Any] = json.loads(case["params"])
    random = np.random.default_rng(seed)
    count = min(params["n"], most)
    inputs = _tokens(params.get("Im", 1000), params.get("Iscv", 0.0), params.get("Ikind", 1), count, random)
    outputs = _tokens(params.get("Om", 200), params.get("Oscv", 1.0), params.get("Okind", 1), count, random)
    clients = params.get("nclient", 0)
    arrivals = np.zeros(0) if clients else np.cumsum(random.exponential(1.0 / params["lam"], count))
    requests = Requests(arrivals, inputs, outputs, count // 10, count - count * 3 // 100)
    law = LinearSteps(params.get("a", 0.01), params.get("c", 1e-4), params.get("d", 0.0), params.get("e", 5e-5))
    ledger = open_ledger(requests, law.attention_s, lambda x: x, 0.0)
    decode, prefill = _plans(case["kind"], params, law)
    if case["kind"].startswith("open_decode"):
        ledger.prompt_tokens = [0.0] * count  # they come prefilled
    run = Fleet(requests, ledger, decode, prefill, None, "join-shortest-queue", random, clients).run()
    return _answer(run, decode.replicas, prefilled=prefill is not None or params.get("mode", 0) > 0)


def _plans(kind: str, params: dict[str, Any], law: LinearSteps) -> tuple[PoolPlan, PoolPlan | None]:
    if kind == "closed_disagg":
        prompts = LinearSteps(0.0, 0.0, prompt_token_s=params["Sp"] / 1000.0)
        first = PoolPlan(prompts, params["kp"], 1, Schedule("prefill-first", UNBOUNDED, 1, np.inf, gives_away=True))
        return PoolPlan(law, params["kd"], 1, Schedule("prefill-first", UNBOUNDED, 4096, np.inf)), first
    policy: Policy = "chunked" if params["mode"] == 1 else "prefill-first"
    budget = params.get("C", 512) if policy == "chunked" else UNBOUNDED
    return PoolPlan(law, 1, 1, Schedule(policy, budget, params.get("B", 256), np.inf)), None


def _answer(run: Run, replicas: int, prefilled: bool) -> Answer:
    ledger, requests = run.ledger, run.requests
    measured = slice(requests.first, requests.last)
    begin_s, end_s = window(run)
    first = np.asarray(ledger.prefilled_s if prefilled else ledger.joined_s)
    steps = requests.output_tokens - 1
    stay = (np.asarray(ledger.finished_s) - first) / np.maximum(steps, 1)
    first_s = (first - run.arrival_s)[measured]
    return Answer(
        run,
        pool_simulation(run.decode, replicas, 1, begin_s, end_s),
        itl_statistics(run.decode, begin_s, end_s),
        statistics(first_s[np.isfinite(first_s)]),
        statistics(stay[measured][steps[measured] > 0]),
        (requests.last - requests.first) / (end_s - begin_s),
    )


def _tokens(mean: float, scv: float, kind: int, count: int, random: np.random.Generator) -> Integers:
    if scv == 0.0 or kind == 0:
        return np.full(count, int(mean), dtype=np.int64)
    if kind == 3:
        drawn = random.uniform(scv * mean, mean, count)
    elif kind == 2:
        sigma = np.sqrt(np.log1p(scv))
        drawn = np.exp(random.normal(np.log(mean) - sigma**2 / 2.0, sigma, count))
    else:
        drawn = random.gamma(1.0 / scv, scv * mean, count)
    return np.maximum(np.rint(drawn), 1.0).astype(np.int64)
