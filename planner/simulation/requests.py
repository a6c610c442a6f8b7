"""The requests of a run: when they come and how long they are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planner.records import Arrivals, Floats, Lengths, Workload

WARM_UP_FRACTION = 0.1
WAVES = 2  # requests of each client of a closed loop that a warm-up adds
TAIL_FRACTION = 0.03  # come after the measured ones, so that those do not finish in an emptying system

Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Requests:
    """In order of arrival; those from `first` to before `last` are measured. `arrival_s` is empty in a closed loop."""

    arrival_s: Floats
    input_tokens: Integers
    output_tokens: Integers
    first: int
    last: int
    cached_tokens: Floats | None = None  # of each prompt, found in a cache

    @property
    def count(self) -> int:
        return int(self.input_tokens.size)


def drawn(
    lengths: Lengths,
    requests: int,
    requests_per_s: float,
    arrival_scv: float,
    random: np.random.Generator,
    warm_up: int = 0,
) -> Requests:
    """Renewal arrivals with gamma gaps of the given SCV (1: Poisson, 0: a clock) and lengths of the joint law.

    At least `warm_up` requests run before the measured ones.
    """
    more = max(warm_up - _sections(requests)[0], 0)
    first, last, count = (edge + more for edge in _sections(requests))
    inputs, outputs = _lengths(lengths, count, random)
    return Requests(np.cumsum(_gaps_s(requests_per_s, arrival_scv, count, random)), inputs, outputs, first, last)


def closed(lengths: Lengths, requests: int, clients: int, random: np.random.Generator) -> Requests:
    """Lengths only: clients send the next request when the last one is answered.

    All begin at once, so the warm-up holds at least two requests of each.
    """
    first, last, count = (edge + WAVES * clients for edge in _sections(requests))
    inputs, outputs = _lengths(lengths, count, random)
    return Requests(np.zeros(0), inputs, outputs, first, last)


def replayed(arrivals: Arrivals, requests: int, squeeze: float) -> Requests:
    """The trace once when `requests` is 0, else that many requests of it, from its start and around again.

    Its own last tenth runs before it as a warm-up, its own beginning after it. `squeeze` < 1 makes it faster.
    """
    size = int(arrivals.time_s.size)
    first, _, _ = _sections(size if requests == 0 else requests)
    measured = requests or size
    tail = max(int(TAIL_FRACTION * measured), 1)
    index = np.arange(-first, measured + tail)
    around, at = index // size, index % size
    times = (arrivals.time_s[at] - arrivals.time_s[0] + around * arrivals.duration_s) * squeeze
    return Requests(
        times - times[0],
        np.maximum(arrivals.input_tokens[at], 1.0).astype(np.int64),
        np.maximum(arrivals.output_tokens[at], 1.0).astype(np.int64),
        first,
        first + measured,
    )


def requests_of(
    workload: Workload,
    requests: int,
    arrival_scv: float | None,
    clients: int,
    random: np.random.Generator,
    warm_up: int = 0,
) -> Requests:
    """What the workload asks for: its trace unless `arrival_scv` is given, at its peak rate, or a closed loop.

    `warm_up`: requests at least before the measured ones, where arrivals are drawn.
    """
    rate = workload.requests_per_s * workload.peak_factor
    if clients:
        return closed(workload.lengths, requests, clients, random)
    if workload.arrivals is not None and arrival_scv is None:
        return replayed(workload.arrivals, requests, 1.0 / workload.peak_factor)
    return drawn(workload.lengths, requests, rate, 1.0 if arrival_scv is None else arrival_scv, random, warm_up)


def _sections(requests: int) -> tuple[int, int, int]:
    first = max(int(WARM_UP_FRACTION * requests), 1)
    return first, first + requests, first + requests + max(int(TAIL_FRACTION * requests), 1)


def _gaps_s(requests_per_s: float, scv: float, count: int, random: np.random.Generator) -> Floats:
    if scv == 0.0:
        return np.full(count, 1.0 / requests_per_s)
    return random.gamma(1.0 / scv, scv / requests_per_s, count)


def _lengths(lengths: Lengths, count: int, random: np.random.Generator) -> tuple[Integers, Integers]:
    chosen = random.choice(lengths.weights.size, size=count, p=lengths.weights / lengths.weights.sum())
    inputs = _whole(lengths.input_tokens[chosen], random)
    return inputs, _whole(lengths.output_tokens[chosen], random)


def _whole(tokens: Floats, random: np.random.Generator) -> Integers:
    """Whole tokens, at least one, that keep the mean of a law whose atoms are fractions."""
    return np.maximum(np.floor(tokens + random.random(tokens.size)), 1.0).astype(np.int64)
