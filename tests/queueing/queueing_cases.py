"""Reference rows, their laws, and event simulations of queues that share no code with the product."""

from __future__ import annotations

import heapq
import importlib.util
from pathlib import Path

import numpy as np

from planner.queueing import ServiceLaw

ROOT = Path(__file__).parents[2]
_spec = importlib.util.spec_from_file_location("queueing_table", ROOT / "tools" / "queueing_table.py")
assert _spec is not None and _spec.loader is not None
table = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(table)

ranks = table.queueing_ranks
rows, law_of, step_cases = table.read, table.service_of, table.step_cases


def trace_law(name: str) -> ServiceLaw:
    return law_of({"service": name, "service_scv": "1", "service_params": "{}"})


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
