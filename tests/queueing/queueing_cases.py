"""Reference rows, their laws, and event simulations of queues that share no code with the product."""

from __future__ import annotations

import csv
import heapq
import json
from pathlib import Path

import numpy as np

from planner.queueing import ServiceLaw

DATA = Path(__file__).parents[1] / "data" / "queueing"
STEP_DEFAULTS = {
    **{"mode": 0, "Im": 1000, "Iscv": 0, "Om": 200, "Oscv": 1, "Okind": 1},
    **{"a": 0.01, "c": 1e-4, "d": 0, "e": 5e-5, "B": 256, "C": 512},
}


def rows(name: str) -> list[dict[str, str]]:
    with (DATA / name).open(newline="") as file:
        return list(csv.DictReader(file))


def trace_law(name: str) -> ServiceLaw:
    atoms = np.array(
        [(float(row["value"]), float(row["weight"])) for row in rows("emp_laws.csv") if row["law"] == name]
    )
    return ServiceLaw(atoms[:, 0], atoms[:, 1])


def law_of(row: dict[str, str]) -> ServiceLaw:
    """The unit-mean service law of a row of exact.csv."""
    parameters, scv, name = json.loads(row["service_params"]), float(row["service_scv"]), row["service"]
    if name == "exp":
        return ServiceLaw.exponential(1.0)
    if name == "det":
        return ServiceLaw.deterministic(1.0)
    if name == "lognormal":
        return ServiceLaw.lognormal(1.0, scv)
    if name in ("gamma", "erlang"):
        return ServiceLaw.gamma(1.0, scv)
    if name.startswith("h2"):
        return ServiceLaw.hyperexponential(parameters["p"], parameters["means"])
    if name == "bimodal":
        long = parameters["p_long"]
        return ServiceLaw(np.array([parameters["short"], parameters["long"]]), np.array([1.0 - long, long]))
    return trace_law(name)


LAWS = {
    "fixed": ServiceLaw.deterministic(1.0),
    "exponential": ServiceLaw.exponential(1.0),
    "gamma 0.5": ServiceLaw.gamma(1.0, 0.5),
    "gamma 4": ServiceLaw.gamma(1.0, 4.0),
    "lognormal 1": ServiceLaw.lognormal(1.0, 1.0),
    "lognormal 10": ServiceLaw.lognormal(1.0, 10.0),
    "hyperexponential": ServiceLaw.hyperexponential([0.887298, 0.112702], [0.563508, 4.436492]),
    "bimodal": ServiceLaw(np.array([0.541168, 9.717798]), np.array([0.95, 0.05])),
    "azure": trace_law("emp_conv"),
    "mooncake": trace_law("emp_moon"),
}


def step_cases(kind: str) -> list[tuple[dict[str, float], dict[str, float]]]:
    """(parameters, measured columns) of the serve_steps rows of one kind."""
    chosen = [row for row in rows("serve_steps.csv") if row["kind"] == kind]
    return [
        (
            {**STEP_DEFAULTS, **json.loads(row["params"])},
            {name: float(value) for name, value in row.items() if name not in ("case_id", "kind", "params") and value},
        )
        for row in chosen
    ]


def shortest_queue_decode(
    rate: float, steps: int, step_s: np.ndarray, replicas: int, requests: int, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Token steps of replicas behind a least-requests router, requests of `steps` steps each.

    Returns the length of every step that had a batch, and its batch. Requests join at the next step's start.
    """
    random = np.random.default_rng(seed)
    arrivals = np.cumsum(random.exponential(1.0 / rate, requests)).tolist()
    held, waiting, ends = [0] * replicas, [0] * replicas, [[] for _ in range(replicas)]
    done, running = [0] * replicas, [False] * replicas
    events, times, batches = [(at, 0, -1) for at in arrivals], [], []
    heapq.heapify(events)
    while events:
        now, is_step, replica = heapq.heappop(events)
        if is_step:
            done[replica] += 1
            while ends[replica] and ends[replica][0] <= done[replica]:
                heapq.heappop(ends[replica])
                held[replica] -= 1
            running[replica] = False
        else:
            least = min(held)
            replica = random.choice([index for index in range(replicas) if held[index] == least])
            held[replica] += 1
            waiting[replica] += 1
        if not running[replica] and held[replica]:
            for _ in range(waiting[replica]):
                heapq.heappush(ends[replica], done[replica] + steps)
            waiting[replica], running[replica] = 0, True
            batch = held[replica]
            times.append(step_s[batch - 1])
            batches.append(batch)
            heapq.heappush(events, (now + step_s[batch - 1], 1, replica))
    return np.array(times), np.array(batches)


def central_waits(arrival_s: np.ndarray, service_s: np.ndarray, servers: int) -> np.ndarray:
    """First come, first served: each job starts when the first server gets free."""
    free = [0.0] * servers
    waits = []
    for arrival, service in zip(arrival_s.tolist(), service_s.tolist(), strict=True):
        start = max(arrival, heapq.heappop(free))
        waits.append(start - arrival)
        heapq.heappush(free, start + service)
    return np.array(waits)


def shortest_queue_waits(arrival_s: np.ndarray, service_s: np.ndarray, servers: int, seed: int = 0) -> np.ndarray:
    """Each job joins the server with the fewest jobs, ties at random."""
    random = np.random.default_rng(seed)
    free, jobs, departures, waits = [0.0] * servers, [0] * servers, [], []
    for arrival, service in zip(arrival_s.tolist(), service_s.tolist(), strict=True):
        while departures and departures[0][0] <= arrival:
            jobs[heapq.heappop(departures)[1]] -= 1
        least = min(jobs)
        ties = [server for server in range(servers) if jobs[server] == least]
        server = ties[int(random.random() * len(ties))]
        start = max(arrival, free[server])
        waits.append(start - arrival)
        free[server] = start + service
        jobs[server] += 1
        heapq.heappush(departures, (free[server], server))
    return np.array(waits)
