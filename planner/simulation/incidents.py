"""What fails in a run, and when: workers, a worker that is drained, a network card, a node that holds caches."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from planner.errors import FieldError
from planner.records import Deployment, Floats, Pool, Scenario
from planner.roofline.copies import copy_rates
from planner.simulation.requests import Requests

IncidentKind = Literal["worker", "drain", "network card", "cache node"]
_WORDS: Mapping[str, IncidentKind] = {"": "worker", "drain": "drain", "network": "network card"}


@dataclass(frozen=True, slots=True)
class Incident:
    """One event half-way through the measured requests. Nothing comes back; the last workers go, the first stay.

    kind : `worker`: `workers` of one pool (one for each batch in a pipeline) stop and lose their caches; `drain`: the
        same are sent nothing more and give their requests away; `network card`: they are left with
        `network_fraction` of their rate; `cache node`: so many hosts lose the prefixes they hold.
    kv_bytes_per_s : at which caches are read from a copy, or moved off, by the bytes on one rank; 0: prefilled again.
    """

    kind: IncidentKind
    prefill: bool
    workers: int
    at_s: float
    network_fraction: float = 1.0
    kv_bytes_per_s: float = 0.0


def half_way_s(requests: Requests) -> float:
    """In the middle of the measured requests [s]."""
    return (float(requests.arrival_s[requests.first]) + float(requests.arrival_s[requests.last - 1])) / 2.0


def events_of(deployment: Deployment) -> tuple[str, ...]:
    """What may be asked for, in the words of `--fail`."""
    pools = deployment.named_pools
    network = [f"{name}-network" for name in pools] if deployment.prefill is not None else []
    return (*pools, f"{list(pools)[-1]}-drain", *network, "cache")


def incident_of(
    scenario: Scenario, deployment: Deployment, event: str, count: int, restore: str, at_s: float
) -> Incident:
    """What `event` does to this deployment: `decode`, `decode-drain`, `prefill-network`, `cache`, `count` of them.

    Raises
    ------
    FieldError
        The deployment has no such part, or would be left without any.
    """
    known = events_of(deployment)
    if event not in known:
        raise FieldError("--fail", f"{event} is not a pool or part of this deployment; want one of {', '.join(known)}")
    name, _, part = event.partition("-")
    pools: dict[str, Pool] = dict(deployment.named_pools.items())
    if restore and (part or name == "cache" or name == "prefill"):
        raise FieldError("--restore", f"--fail {event} loses no cache of a request that decodes")
    if event == "cache":
        return _cache_node(scenario, deployment, count, at_s)
    kind, pool = _WORDS[part], pools[name]
    if kind == "network card":
        return _network_card(name, pool, count, at_s)
    if not 1 <= count < pool.replicas:
        text = f"{count} of {pool.replicas} {name} workers; at least one must be left"
        raise FieldError("--fail", text)
    found = Incident(kind, name == "prefill", count * pool.pp, at_s)
    where = "the network" if kind == "drain" else restore
    return replace(found, kv_bytes_per_s=_rate(scenario, pool, where)) if where else found


def _network_card(name: str, pool: Pool, count: int, at_s: float) -> Incident:
    cards = pool.worker_accelerators
    if not 1 <= count < cards:
        text = f"{count} of the {cards} network cards of a {name} worker; without any it is lost: --fail {name}"
        raise FieldError("--fail", text)
    return Incident("network card", name == "prefill", pool.pp, at_s, network_fraction=(cards - count) / cards)


def hosts_of(scenario: Scenario, deployment: Deployment) -> int:
    """Hosts over which the cached prefixes are spread: those of the pool that prefills."""
    pool = deployment.prefill or deployment.decode
    return max(math.ceil(pool.accelerators / scenario.accelerator(pool.accelerator).node_accelerators), 1)


def _cache_node(scenario: Scenario, deployment: Deployment, count: int, at_s: float) -> Incident:
    if not scenario.workload.prefix_hit_fraction:
        raise FieldError("--fail", "no prompt finds anything in a cache; state workload.prefix_hit_ratio")
    hosts = hosts_of(scenario, deployment)
    if not 1 <= count <= hosts:
        raise FieldError("--fail", f"{count} of {hosts} hosts that hold prefixes")
    return Incident("cache node", True, count, at_s)


def _rate(scenario: Scenario, pool: Pool, where: str) -> float:
    """Bytes of one rank's caches that one worker reads from a copy, or moves off, per second."""
    accelerator = scenario.accelerator(pool.accelerator)
    if scenario.reliability is None:
        raise FieldError("availability", "no reliability sheet was read")
    rates = copy_rates(
        accelerator, pool.worker_accelerators, scenario.network_bytes_per_s, scenario.reliability.ssd_bytes_per_s.value
    )
    if where not in rates:
        raise FieldError("--restore", f"{accelerator.id} reaches no {where}; want one of {', '.join(rates)}")
    return rates[where] / (pool.worker_accelerators // pool.dp)


def found_tokens(
    input_tokens: Floats,
    prefix_hit_fraction: float,
    lost_hosts: int,
    hosts: int,
    late: Floats,
    random: np.random.Generator,
) -> Floats:
    """Tokens of each prompt that are in a cache; of those that come `late` none where their host is lost.

    Every prompt has its prefix on one host, drawn by lot. Its last token is always computed.
    """
    found = np.minimum(np.floor(prefix_hit_fraction * input_tokens), input_tokens - 1.0)
    if not lost_hosts:
        return found
    gone = random.integers(hosts, size=input_tokens.size) < lost_hosts
    return np.where(gone & (late > 0.0), 0.0, found)
