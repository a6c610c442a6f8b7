"""Independent witnesses: textbook sums, a job-by-job queue, an exact chain and a token-step engine, in plain Python.

Nothing here imports `planner`. They take service times, step times and lengths as numbers and answer what the closed
forms answer.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Sequence
from itertools import accumulate
from math import exp, factorial, log

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


# ----------------------------------------------------------------------------------------------- waits, by hand


def erlang_c(servers: int, load: float) -> float:
    """The textbook sum: (a^k/k!)/(1-rho) over sum_(n<k) a^n/n! + the same, a = k rho."""
    offered = servers * load
    full = offered**servers / factorial(servers) / (1.0 - load)
    return full / (sum(offered**n / factorial(n) for n in range(servers)) + full)


def kimura_mean_s(servers: int, load: float, mean_s: float, scv: float) -> float:
    """Kimura 1986 between M/M/k and Cosmetatos' M/D/k (MODELLING §7.1)."""
    exponential = erlang_c(servers, load) * mean_s / (servers * (1.0 - load))
    rise = (1.0 - load) * (servers - 1.0) * ((4.0 + 5.0 * servers) ** 0.5 - 2.0) / (16.0 * servers * load)
    fixed = 0.5 * exponential * (1.0 + min(rise, 1.0))
    return (1.0 + scv) / (2.0 * scv / exponential + (1.0 - scv) / fixed)


# --------------------------------------------------------------------------------------------- waits, job by job


def queue_waits(arrival_s: Floats, service_s: Floats, servers: int, seed: int, shortest: bool = True) -> Floats:
    """Wait of every job, first come first served, in front of `servers` queues or, without `shortest`, of one.

    With `shortest` a job joins a server with the fewest jobs, ties broken by lot.
    """
    if not shortest:
        free = [0.0] * servers
        waits = np.empty(arrival_s.size)
        for i, (now, work) in enumerate(zip(arrival_s.tolist(), service_s.tolist(), strict=True)):
            start = max(now, heapq.heappop(free))
            waits[i] = start - now
            heapq.heappush(free, start + work)
        return waits
    draw = np.random.default_rng(seed).integers(0, servers, arrival_s.size).tolist()
    count, free_at = [0] * servers, [0.0] * servers
    leaving: list[tuple[float, int]] = []
    waits = np.empty(arrival_s.size)
    for i, (now, work) in enumerate(zip(arrival_s.tolist(), service_s.tolist(), strict=True)):
        while leaving and leaving[0][0] <= now:
            count[heapq.heappop(leaving)[1]] -= 1
        fewest, first = min(count), draw[i]
        try:
            server = count.index(fewest, first)
        except ValueError:
            server = count.index(fewest)
        start = max(now, free_at[server])
        free_at[server] = start + work
        count[server] += 1
        heapq.heappush(leaving, (start + work, server))
        waits[i] = start - now
    return waits


def in_exact_shares(weights: Floats, count: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Indices in random order, each as often as its weight says to within one: no luck in the offered work."""
    share = np.cumsum(weights) / np.sum(weights)
    return rng.permutation(np.searchsorted(share, (np.arange(count) + 0.5) / count))


def poisson_arrivals(rate: float, count: int, rng: np.random.Generator) -> Floats:
    return np.cumsum(rng.exponential(1.0 / rate, count))


# -------------------------------------------------------------------------------------------- decode batch, exact


def batch_chain(requests_per_s: float, steps: float, step_s: Sequence[float], replicas: int) -> list[float]:
    """P(n requests in service in the whole pool), by the recursion p_n = p_(n-1) rate steps t(n/k) / n.

    The batch of a replica is n/k, between whole numbers the step time is linear, and t(x) = t(1) below one.
    Above k B the law is geometric; its mass is put on k B.
    """
    cap = len(step_s)
    logs, total = [0.0], 0.0
    for n in range(1, replicas * cap + 1):
        total += log(requests_per_s * steps * step_at(n / replicas, step_s) / n)
        logs.append(total)
    top = max(logs)
    masses = [exp(value - top) for value in logs]
    load = requests_per_s * steps * step_s[-1] / (replicas * cap)
    masses[-1] /= 1.0 - load
    whole = sum(masses)
    return [mass / whole for mass in masses]


def step_at(batch: float, step_s: Sequence[float]) -> float:
    """t at a batch that need not be whole."""
    place = min(max(batch, 1.0), float(len(step_s)))
    low = int(place)
    high = min(low + 1, len(step_s))
    return step_s[low - 1] + (place - low) * (step_s[high - 1] - step_s[low - 1])


def gaps_of_chain(masses: Sequence[float], step_s: Sequence[float], replicas: int, q: float) -> tuple[float, float]:
    """Mean and q-quantile of the gap over tokens: tokens of state n come at n / t(n/k) per second.

    A token finds itself more often in the fuller of the whole-number batches: (k-1)/2k above n/k (QUEUEING §4.1's +0.5
    of large pools, 0 of a single replica).
    """
    rates = [mass * n / step_at(n / replicas, step_s) for n, mass in enumerate(masses)]
    tokens_per_s = sum(rates)
    requests = sum(mass * n for n, mass in enumerate(masses))
    place = next(n for n, seen in enumerate(accumulate(rates)) if seen >= q * tokens_per_s)
    return requests / tokens_per_s, step_at(place / replicas + (1.0 - 1.0 / replicas) / 2.0, step_s)


# ------------------------------------------------------------------------------------------ decode, step by step


def decode_gaps(
    arrival_s: Floats,
    input_tokens: Floats,
    steps: NDArray[np.int64],
    replicas: int,
    max_batch: int,
    step_s: Callable[[int, float], float],
    warm_up_s: float,
    seed: int,
) -> tuple[Floats, Floats, Floats]:
    """A decode pool step by step: gaps and how many tokens had each, and the mean gap of every request.

    `step_s(batch, tokens held)`. A request goes to the replica with the fewest, joins at its next step, and leaves
    after `steps` steps; each replica's batch is at most `max_batch`.
    """
    rng = np.random.default_rng(seed)
    ends: list[list[tuple[int, int, float, float]]] = [[] for _ in range(replicas)]
    waiting: list[deque[int]] = [deque() for _ in range(replicas)]
    held, step_of, busy, count = [0.0] * replicas, [0] * replicas, [False] * replicas, [0] * replicas
    events: list[tuple[float, int]] = []
    gaps, tokens, request_gaps = [], [], []
    arrivals = arrival_s.tolist()
    place = 0

    def start(replica: int, now: float) -> None:
        while waiting[replica] and len(ends[replica]) < max_batch:
            i = waiting[replica].popleft()
            heapq.heappush(ends[replica], (step_of[replica] + int(steps[i]), i, now, float(input_tokens[i])))
            held[replica] += float(input_tokens[i])
        batch = len(ends[replica])
        busy[replica] = batch > 0
        if batch:
            length = step_s(batch, held[replica])
            if now >= warm_up_s:
                gaps.append(length)
                tokens.append(batch)
            heapq.heappush(events, (now + length, replica))

    while place < len(arrivals) or events:
        if place < len(arrivals) and (not events or arrivals[place] <= events[0][0]):
            fewest = min(count)
            choices = [r for r in range(replicas) if count[r] == fewest]
            replica = choices[int(rng.integers(len(choices)))] if len(choices) > 1 else choices[0]
            count[replica] += 1
            waiting[replica].append(place)
            if not busy[replica]:
                start(replica, arrivals[place])
            place += 1
            if place == len(arrivals):
                break  # what is left would run in an emptying pool
            continue
        now, replica = heapq.heappop(events)
        step_of[replica] += 1
        held[replica] += len(ends[replica])
        while ends[replica] and ends[replica][0][0] <= step_of[replica]:
            _, i, joined, prompt = heapq.heappop(ends[replica])
            held[replica] -= prompt + float(steps[i])
            count[replica] -= 1
            if joined >= warm_up_s:
                request_gaps.append((now - joined) / float(steps[i]))
        start(replica, now)
    return np.array(gaps), np.array(tokens, dtype=float), np.array(request_gaps)


def weighted_quantile(values: Floats, weights: Floats, q: float) -> float:
    order = np.argsort(values)
    share = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(share, q * share[-1])])


# ------------------------------------------------------------------------------- prefill and decode in one engine


def shared_engine(
    arrival_s: Floats,
    input_tokens: Floats,
    steps: NDArray[np.int64],
    replicas: int,
    token_budget: int,
    step_s: Callable[[int, int], float],
    warm_up_s: float,
    waiting_weight: int = 1,
) -> tuple[Floats, Floats, Floats, Floats]:
    """Chunked prefill beside the decodes, step by step: gaps, tokens with each, wait and prefill time of every prompt.

    Every step takes one token of each decoding request, then prompt tokens in order of arrival up to the budget.
    `step_s(batch, prompt tokens)`. A request goes to the replica with the fewest,
    where one that waits for or is in prefill counts `waiting_weight` times.
    """
    decoding: list[list[int]] = [[] for _ in range(replicas)]  # heaps of the step at which each leaves
    queue: list[deque[list[float]]] = [deque() for _ in range(replicas)]  # [request, tokens left, first start]
    finishing: list[list[list[float]]] = [[] for _ in range(replicas)]
    step_of, busy = [0] * replicas, [False] * replicas
    events: list[tuple[float, int]] = []
    gaps, tokens, waits, prompts = [], [], [], []
    arrivals = arrival_s.tolist()
    place = 0

    def start(replica: int, now: float) -> None:
        batch, room, finishing[replica] = len(decoding[replica]), 0, []
        for entry in queue[replica]:
            left = token_budget - batch - room
            if left <= 0:
                break
            if entry[2] < 0.0:
                entry[2] = now
            taken = min(left, int(entry[1]))
            entry[1] -= taken
            room += taken
            if entry[1] <= 0:
                finishing[replica].append(entry)
        busy[replica] = batch + room > 0
        if busy[replica]:
            length = step_s(batch, room)
            if now >= warm_up_s and batch:
                gaps.append(length)
                tokens.append(batch)
            heapq.heappush(events, (now + length, replica))

    while place < len(arrivals):
        if not events or arrivals[place] <= events[0][0]:
            count = [len(decoding[r]) + waiting_weight * len(queue[r]) for r in range(replicas)]
            replica = count.index(min(count))
            queue[replica].append([float(place), float(int(input_tokens[place])), -1.0])
            if not busy[replica]:
                start(replica, arrivals[place])
            place += 1
            continue
        now, replica = heapq.heappop(events)
        step_of[replica] += 1
        for entry in finishing[replica]:
            queue[replica].popleft()
            i = int(entry[0])
            if arrivals[i] >= warm_up_s:
                waits.append(entry[2] - arrivals[i])
                prompts.append(now - entry[2])
            if steps[i] > 0:
                heapq.heappush(decoding[replica], step_of[replica] + int(steps[i]))
        while decoding[replica] and decoding[replica][0] <= step_of[replica]:
            heapq.heappop(decoding[replica])
        start(replica, now)
    return np.array(gaps), np.array(tokens, dtype=float), np.array(waits), np.array(prompts)
