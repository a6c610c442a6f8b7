"""What a simulation found."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planner.records import Floats
from planner.simulation.estimates import Estimate, Statistics, estimate, statistics
from planner.simulation.fleet import Run
from planner.simulation.incidents import Incident
from planner.simulation.ledger import Log

BUSY_SLICES = 20


@dataclass(frozen=True, slots=True)
class PoolSimulation:
    """One pool over the measured window. Batches and tokens are per worker, averaged over time, idle time included."""

    utilization: Estimate  # share of time that a worker runs steps
    mean_batch: Estimate
    kv_tokens: Statistics
    preemptions: int
    most_kv_bytes: float  # on any rank at any time


@dataclass(frozen=True, slots=True)
class FailureSimulation:
    """What a failure did. `before` is up to it; `after` the later half of the time since it."""

    event: str  # an IncidentKind
    at_s: float  # since the first arrival
    lost_requests: int  # whose cache was lost or moved, or that waited there
    restored_mean_s: float  # from when they stop until they decode (again); NaN where none was to decode
    restored_last_s: float
    ttft_most_s: float  # longest of those that came between the failure and the last restored
    ttft_before_s: Statistics
    ttft_after_s: Statistics
    itl_before_s: Statistics
    itl_after_s: Statistics


@dataclass(frozen=True, slots=True)
class Simulation:
    """One deployment under one workload, simulated. Statistics have the keys of records.STATISTICS."""

    ttft_s: Statistics
    itl_s: Statistics
    tpot_s: Statistics
    e2e_s: Statistics
    wait_s: Statistics  # before the first prompt chunk
    requests_per_s: float
    output_tokens_per_s: float
    prefill: PoolSimulation | None
    decode: PoolSimulation
    requests: int  # measured
    refused: int  # too long for the cache of any worker
    seed: int
    failure: FailureSimulation | None = None

    def statistic(self, metric: str, name: str) -> Estimate:
        return {"ttft": self.ttft_s, "itl": self.itl_s, "tpot": self.tpot_s, "e2e": self.e2e_s}[metric][name]


@dataclass(frozen=True, slots=True, eq=False)
class Latencies:
    """Per measured request that was served [s], in order of arrival."""

    arrival_s: Floats
    wait_s: Floats
    ttft_s: Floats
    tpot_s: Floats  # NaN for a single output token
    e2e_s: Floats


def window(run: Run) -> tuple[float, float]:
    """From the first to the last measured arrival [s]."""
    first, last = run.requests.first, run.requests.last
    return float(run.arrival_s[first]), float(run.arrival_s[last - 1])


def itl_statistics(log: Log, begin_s: float, end_s: float) -> Statistics:
    """Over tokens given out inside the window."""
    table = log.gap_table()
    inside = table[(table[:, 0] >= begin_s) & (table[:, 0] < end_s)]
    inside = inside[np.argsort(inside[:, 0], kind="stable")]
    return statistics(inside[:, 1], inside[:, 2])


def tokens_per_s(log: Log, begin_s: float, end_s: float) -> float:
    table = log.gap_table()
    inside = (table[:, 0] >= begin_s) & (table[:, 0] < end_s)
    return float(table[inside, 2].sum()) / max(end_s - begin_s, 1e-12)


def failure_simulation(
    run: Run, times: Latencies, begin_s: float, end_s: float, incident: Incident
) -> FailureSimulation:
    """Before, during and after a failure."""
    at_s, ledger = incident.at_s, run.ledger
    again = np.array([ledger.restored_s[request] for request in ledger.lost_s], dtype=float)
    stood = again - np.array(list(ledger.lost_s.values()), dtype=float)
    stood, again = stood[np.isfinite(again)], again[np.isfinite(again)]
    last_s = float(again.max()) - at_s if again.size else 0.0
    came, ttft_s = times.arrival_s, times.ttft_s
    disturbed = ttft_s[(came >= at_s) & (came <= at_s + last_s)]
    settled_s = max((at_s + end_s) / 2.0, at_s + last_s)
    return FailureSimulation(
        event=incident.kind,
        at_s=at_s,
        lost_requests=len(ledger.lost_s),
        restored_mean_s=float(stood.mean()) if stood.size else np.nan,
        restored_last_s=last_s if again.size else np.nan,
        ttft_most_s=float(disturbed.max()) if disturbed.size else np.nan,
        ttft_before_s=statistics(ttft_s[came + ttft_s < at_s]),  # answered before it
        ttft_after_s=statistics(ttft_s[came >= settled_s]),
        itl_before_s=itl_statistics(run.decode, begin_s, at_s),
        itl_after_s=itl_statistics(run.decode, settled_s, end_s),
    )


def pool_simulation(log: Log, replicas: int, batches: int, begin_s: float, end_s: float) -> PoolSimulation:
    """Time averages per worker over the window; a worker has a batch on its way in each of its pipeline stages."""
    table = log.state_table()
    table = table[(table[:, 0] >= begin_s) & (table[:, 0] < end_s)]
    edges = np.linspace(begin_s, end_s, BUSY_SLICES + 1)
    piece = np.clip(np.searchsorted(edges, table[:, 0], side="right") - 1, 0, BUSY_SLICES - 1)
    whole_s = (end_s - begin_s) * replicas * batches

    def share(values: Floats) -> Estimate:
        parts = np.bincount(piece, weights=values, minlength=BUSY_SLICES) / (whole_s / BUSY_SLICES)
        return estimate(float(values.sum()) / whole_s, parts.tolist())

    order = np.argsort(table[:, 0], kind="stable")
    duration = table[order, 1]
    idle_s = max(whole_s - float(duration.sum()), 0.0)
    return PoolSimulation(
        utilization=share(table[:, 1]),
        mean_batch=share(table[:, 1] * table[:, 2]).times(batches),
        kv_tokens=statistics(*_with_idle(table[order, 3] * batches, duration, idle_s)),
        preemptions=log.preemptions,
        most_kv_bytes=log.most_kv_bytes,
    )


def _with_idle(tokens: Floats, duration: Floats, idle_s: float) -> tuple[Floats, Floats]:
    """Idle time as zeros spread evenly over the run."""
    if idle_s <= 0.0 or not tokens.size:
        return tokens, duration
    shares = np.full(tokens.size, idle_s / tokens.size)
    return np.stack([tokens, np.zeros_like(tokens)], 1).ravel(), np.stack([duration, shares], 1).ravel()
