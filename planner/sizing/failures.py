"""What a failure does to a plan: during, after, until all is back (MODELLING §10)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from planner.errors import FieldError
from planner.records import Deployment, Floats, Pool, Scenario
from planner.roofline.copies import copy_rates
from planner.roofline.steps import prefill_s
from planner.serving.outcome import Outcome
from planner.serving.predict import evaluate_at
from planner.serving.role import RESIDENCE_NODES, RESIDENCE_WEIGHTS, Role, build_role
from planner.serving.traffic import Traffic, scenario_traffic
from planner.sizing import changes
from planner.sizing.cost import ranked_usd_per_hour
from planner.sizing.resilience import (
    reliability_of,
    restart_s,
    unit_workers,
    without,
    worker_weights_bytes,
)
from planner.sizing.targets import violation

_COPIES = {"host-dram": "copy in host DRAM", "local-ssd": "copy on local SSD", "pool": "copy in a pool"}


@dataclass(frozen=True, slots=True)
class Failure:
    """One event.

    During: `lost_requests` in flight lose their cache and must be prefilled again (`work_s` worker-seconds, shared by
    the ranks) or fetched from a copy; `ttft_added_s` is what a request that comes then waits longer, `stall_s` how
    long a lost one stands still in the mean, `drain_s` until the queue is as before.
    After: `outcome` with the workers gone, None where none is left. Back: `restart_s` without a part, `repair_s` with
    one. `spare_usd_per_hour` is the price of as many spare workers, 0 where the targets hold without.
    `fail` and `restore` make `planner simulate` lose the same; empty where it cannot, because nothing would be left.
    """

    name: str
    route: str  # recompute | copy in host DRAM | copy on local SSD | copy in a pool | migrate | no loss
    lost_workers: int
    lost_requests: float
    work_s: float
    ttft_added_s: float
    stall_s: float
    drain_s: float
    write_fraction: float | None  # of the copy's link that writing through takes, all the time
    outcome: Outcome | None
    holds: bool
    restart_s: float
    repair_s: float
    spare_usd_per_hour: float | None
    why: str = ""
    fail: str = ""
    restore: str = ""


class _Fleet:
    """A deployment under its load, with what every event needs."""

    def __init__(self, scenario: Scenario, deployment: Deployment, basis: str) -> None:
        self.scenario, self.deployment, self.basis = scenario, deployment, basis
        self.load: Traffic = scenario_traffic(scenario)
        self.reliability = reliability_of(scenario)
        self.outcome = evaluate_at(scenario, deployment, self.load)
        self.roles: dict[str, Role] = {
            name: build_role(scenario, self.load, name, pool, scenario.accelerator(pool.accelerator))
            for name, pool in deployment.named_pools.items()
        }
        self.pools: dict[str, Pool] = dict(deployment.named_pools.items())

    @property
    def prompts(self) -> str:
        """The pool that prefills."""
        return "prefill" if self.deployment.prefill is not None else "colocated"

    @property
    def decodes(self) -> str:
        return self.deployment.decode_name

    def idle_ranks(self, lost_workers: int) -> tuple[float, float]:
        """Ranks that prefill, and how many of them are idle on average, with workers of that pool lost."""
        role = self.roles[self.prompts]
        each = role.dp * role.batches
        ranks = float((self.pools[self.prompts].replicas - lost_workers) * each)
        state = self.outcome.prefill or self.outcome.decode
        busy = state.utilization * self.pools[self.prompts].replicas * each
        return ranks, max(ranks - busy, 0.0)

    def resident_tokens(self) -> tuple[Floats, Floats]:
        """Tokens that a decoding request holds, with weights: output-biased and at any moment of its stay."""
        shares = (RESIDENCE_NODES + 1.0) / 2.0
        tokens = self.load.joint_input_tokens[:, None] + self.load.joint_output_tokens[:, None] * shares
        weights = (self.load.joint_weights * self.load.joint_output_tokens)[:, None] * RESIDENCE_WEIGHTS / 2.0
        return tokens.ravel(), weights.ravel() / weights.sum()

    def recompute_s(self) -> float:
        """Mean time to prefill again what one decoding request holds [s]."""
        tokens, weights = self.resident_tokens()
        role = self.roles[self.prompts]
        whole_s = prefill_s(role.worker, tokens, role.token_budget, busy_ranks=role.dp).total_s
        return float(weights @ np.asarray(whole_s)) * role.step_factor

    def after(self, scenario: Scenario, deployment: Deployment) -> tuple[Outcome | None, bool, str]:
        """Evaluation once things have settled, whether it holds, and why there is none."""
        try:
            outcome = evaluate_at(scenario, deployment, scenario_traffic(scenario))
        except FieldError as error:
            return None, False, error.message
        return outcome, violation(scenario, outcome) <= 1.0, ""

    def lose(self, name: str, pool: str, workers: int, lost_requests: float, work_s: float) -> Failure:
        """Workers gone; what they held is prefilled again."""
        role = self.roles[pool]
        try:
            outcome, holds, why = self.after(self.scenario, without(self.deployment, {pool: workers}))
        except FieldError:
            outcome, holds, why = None, False, "no worker is left"
        left = self.pools[pool].replicas - workers
        ranks, idle = self.idle_ranks(workers if pool == self.prompts else 0)
        added_s = work_s / ranks if ranks > 0.0 else math.inf
        weights = worker_weights_bytes(role)
        return Failure(
            name=name,
            route="recompute",
            lost_workers=workers,
            lost_requests=lost_requests,
            work_s=work_s,
            ttft_added_s=added_s,
            stall_s=self.reliability.detect_s.value
            + added_s / 2.0
            + (work_s / lost_requests if lost_requests else 0.0),
            drain_s=work_s / idle if idle > 0.0 else math.inf,
            write_fraction=None,
            outcome=outcome,
            holds=holds,
            restart_s=restart_s(self.reliability, weights),
            repair_s=self.reliability.hard_repair_s.value + restart_s(self.reliability, weights),
            spare_usd_per_hour=self._spare_usd(pool, workers, holds),
            why=why,
            fail="" if left <= 0 else pool if workers == 1 else f"{pool}:{workers}",
        )

    def _spare_usd(self, pool: str, workers: int, holds: bool) -> float | None:
        if not self.basis:
            return None
        more = changes.with_workers(self.deployment, "prefill" if pool == "prefill" else "decode", workers)
        if holds or more is None:
            return 0.0
        return ranked_usd_per_hour(self.scenario, more, self.basis) - ranked_usd_per_hour(
            self.scenario, self.deployment, self.basis
        )


def failures(scenario: Scenario, deployment: Deployment, basis: str) -> tuple[Failure, ...]:
    """Every kind of failure of this deployment, once each. Raises FieldError when it cannot run."""
    fleet = _Fleet(scenario, deployment, basis)
    return (
        *_decode_worker(fleet),
        *_prefill_worker(fleet),
        *_network_card(fleet),
        *_cache_node(fleet),
        *_domains(fleet),
    )


def _residents(fleet: _Fleet) -> float:
    """Requests whose cache one worker that decodes holds."""
    return fleet.outcome.decode.mean_batch


def _decode_worker(fleet: _Fleet) -> Iterator[Failure]:
    name = f"{fleet.decodes} worker"
    lost = _residents(fleet)
    base = fleet.lose(name, fleet.decodes, 1, lost, lost * fleet.recompute_s())
    yield base
    role = fleet.roles[fleet.decodes]
    tokens, weights = fleet.resident_tokens()
    held_bytes = float(weights @ role.kv_bytes_on_rank(tokens)) * _ranks_that_hold(role)
    written_per_s = fleet.load.requests_per_s / fleet.pools[fleet.decodes].replicas
    whole = fleet.load.joint_input_tokens + fleet.load.joint_output_tokens
    bytes_per_s = (
        written_per_s * float(fleet.load.joint_weights @ role.kv_bytes_on_rank(whole)) * _ranks_that_hold(role)
    )
    rates = _rates(fleet, role)
    for place, route in _COPIES.items():
        if place not in rates:
            continue
        rate = rates[place]
        fetch_s = lost * held_bytes / rate
        yield replace(
            base,
            route=route,
            work_s=0.0,
            ttft_added_s=0.0,
            stall_s=fleet.reliability.detect_s.value + fetch_s / 2.0,
            drain_s=fetch_s,
            write_fraction=bytes_per_s / rate,
            restore=place if base.fail else "",
        )
    if "the network" in rates:
        moved_s = lost * held_bytes / rates["the network"]
        yield replace(
            base,
            name=f"{fleet.decodes} worker drained for an upgrade",
            route="migrate",
            work_s=0.0,
            ttft_added_s=0.0,
            stall_s=moved_s / max(lost, 1.0),
            drain_s=moved_s,
            repair_s=base.restart_s,
            fail=base.fail and f"{base.fail}-drain",
        )


def _ranks_that_hold(role: Role) -> int:
    """Ranks of the group that holds one sequence: all of a worker without attention data parallelism."""
    return role.worker_accelerators // role.dp


def _rates(fleet: _Fleet, role: Role) -> dict[str, float]:
    """How fast one worker reads caches back, by where their copies stand [bytes/s]."""
    ssd = fleet.reliability.ssd_bytes_per_s.value
    return copy_rates(role.accelerator, role.worker_accelerators, fleet.scenario.network_bytes_per_s, ssd)


def _prefill_worker(fleet: _Fleet) -> Iterator[Failure]:
    """Prompts in service are begun again: those seen by a failure are the long ones, E[S^2] / E[S]."""
    if fleet.deployment.prefill is None or fleet.outcome.prefill is None:
        return
    role = fleet.roles["prefill"]
    weights = fleet.load.input_weights
    mean_s, square = float(weights @ role.service_s), float(weights @ role.service_s**2)
    busy = min(fleet.outcome.prefill.utilization, 1.0) * role.dp * role.batches
    yield fleet.lose("prefill worker", "prefill", 1, busy, busy * square / mean_s)


def _network_card(fleet: _Fleet) -> Iterator[Failure]:
    """One card less: every request of that worker is handed over at the rate of those left."""
    if fleet.deployment.prefill is None:
        return
    for pool in ("prefill", "decode"):
        cards = fleet.roles[pool].worker_accelerators
        name = f"network card of a {pool} worker"
        if cards == 1:
            lost, work_s = (
                (_residents(fleet), _residents(fleet) * fleet.recompute_s()) if pool == "decode" else (0.0, 0.0)
            )
            yield fleet.lose(name, pool, 1, lost, work_s)
            continue
        slower = changes.with_network(fleet.scenario, (cards - 1) / cards)
        outcome, holds, why = fleet.after(slower, fleet.deployment)
        base = fleet.lose(name, pool, 1, 0.0, 0.0)
        yield replace(
            base,
            route="no loss",
            lost_workers=0,
            stall_s=0.0,
            drain_s=0.0,
            outcome=outcome,
            holds=holds,
            restart_s=0.0,
            spare_usd_per_hour=base.spare_usd_per_hour if not holds else 0.0 if fleet.basis else None,
            why=why,
            fail=f"{pool}-network",
        )


def _cache_node(fleet: _Fleet) -> Iterator[Failure]:
    """A host that holds a share of the cached prefixes: those prompts are prefilled in whole until seen again."""
    workload = fleet.scenario.workload
    if workload.prefix_hit_fraction <= 0.0 and workload.lengths.cached_tokens is None:
        return
    pool = fleet.pools[fleet.prompts]
    node = fleet.scenario.accelerator(pool.accelerator).node_accelerators
    hosts = max(math.ceil(pool.accelerators / node), 1)
    colder = changes.with_hit_ratio(fleet.scenario, max(1.0 - 1.0 / hosts, 1e-9))
    outcome, holds, why = fleet.after(colder, fleet.deployment)
    base = fleet.lose("cache node", fleet.prompts, 1, 0.0, 0.0)
    yield replace(
        base, route="no loss", lost_workers=0, stall_s=0.0, drain_s=0.0, outcome=outcome, holds=holds,
        spare_usd_per_hour=base.spare_usd_per_hour if not holds else 0.0 if fleet.basis else None, why=why,
        fail="cache" if workload.prefix_hit_fraction > 0.0 else "",
    )  # fmt: skip


def _domains(fleet: _Fleet) -> Iterator[Failure]:
    """Nodes and racks whose workers fail as one, where that is more than one worker or less than the whole of one."""
    for domain in ("node", "rack"):
        for name, pool in fleet.pools.items():
            accelerator = fleet.scenario.accelerator(pool.accelerator)
            if domain == "rack" and accelerator.scaleup_domain <= accelerator.node_accelerators:
                continue
            workers = min(unit_workers(pool, accelerator, domain), pool.replicas)
            if workers < 2:
                continue
            lost, work_s = 0.0, 0.0
            if name == fleet.decodes:
                lost = workers * _residents(fleet)
                work_s = lost * fleet.recompute_s()
            yield fleet.lose(f"{domain} of {workers} {name} workers", name, workers, lost, work_s)
