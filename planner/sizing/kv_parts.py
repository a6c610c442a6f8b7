"""Parts of the KV report: who keeps a prefix, what a burst of sub-agents takes, and the memory beside the decode."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from planner.records import (
    Arrivals,
    Deployment,
    Floats,
    Lengths,
    Prediction,
    PromptBlocks,
    Scenario,
    Sessions,
    Workload,
)
from planner.reuse import reuse_curve
from planner.roofline.collectives import LINE_FRACTION, SET_UP_S
from planner.roofline.steps import prefill_s
from planner.serving.flow import Plant, plant_of
from planner.serving.residency import Settled, pause_s
from planner.serving.reuse import block_requests, described, hit_fractions, session_hits, trace_reuse
from planner.serving.role import Role
from planner.serving.tiers import fetch_s, stored_bytes
from planner.shapes.ranks import sequence_kv_bytes
from planner.sizing.tier_choice import prefill_accelerators

HOST_FACTOR = 0.79  # of the host link's rate that copies reach, where no tier says (PUBLISHED §6, vLLM offload)


@dataclass(frozen=True, slots=True)
class Routing:
    """Hits by who sees which request, with the accelerator's memory and nothing below it."""

    instances: int
    random_fraction: float  # each instance caches what happens to come to it
    aware_fraction: float  # requests go where their prefix is
    pool_fraction: float  # one cache of the same size, seen by all
    aware_saves_accelerators: float  # prefill work of cache-aware routing against random
    pool_saves_accelerators: float


@dataclass(frozen=True, slots=True)
class Burst:
    """Children that start together: room beside the running requests, or their cache moved to another worker."""

    children: int
    demand_tokens: float  # when they end, what they share counted once
    headroom_tokens: float  # that a worker has free, mean
    has_room: bool
    headroom_accelerators: float  # whose memory a burst takes while it lasts
    migration_bytes: float
    migration_s: float
    recompute_s: float  # of the same tokens on the worker they go to


@dataclass(frozen=True, slots=True)
class DecodeSide:
    """Memory of the decode workers, and what moving a thinking user's cache out and back takes."""

    staging_tokens: float  # of prompts on their way, per worker
    replication_factor: float  # bytes that the ranks hold over bytes of the sequence
    context_tokens: float
    offload_bytes: float
    swap_out_s: float
    swap_in_s: float
    think_s: float | None
    offload_pays: bool | None  # the way out and back is shorter than the pause


# ------------------------------------------------------------------------------------------------------------- routing


def routing(plant: Plant, state: Settled) -> Routing | None:
    """None with a single instance, which sees everything."""
    instances = plant.cache_replicas
    if instances < 2:
        return None
    alone = state.capacities_tokens[0] / instances
    workload = plant.scenario.workload
    if workload.sessions is not None:
        ways = _session_ways(plant, state, workload.sessions, alone, instances)
    elif workload.blocks is not None and workload.arrivals is not None:
        ways = _trace_ways(workload, workload.blocks, workload.arrivals, alone, instances)
    else:
        return None
    work = [prefill_accelerators(plant.loaded(way).prefill, state.flow.requests_per_s) for way in ways]
    found = [hit_fractions(way)[0] for way in ways]
    saved = [max(work[0] - other, 0.0) for other in work[1:]]
    return Routing(instances, found[0], found[1], found[2], *saved)


def _session_ways(plant: Plant, state: Settled, sessions: Sessions, alone: float, instances: int) -> list[Workload]:
    """Random: an instance sees every k-th turn of everybody, so prefixes are older, pauses longer, copies k-fold."""
    workload, engine = plant.scenario.workload, plant.scenario.engine
    idle_s = state.flow.wait_s if plant.colocated else state.flow.wait_s + state.flow.run_s
    own = described(sessions, idle_s)
    together = session_hits(workload, own, [alone * instances], engine)
    skipped = (instances - 1) * (sessions.growth_tokens + sessions.output_tokens)
    cycle_s = state.flow.e2e_s + pause_s(sessions)
    rare = replace(
        own,
        turns=max(round(sessions.turns / instances), 1),
        growth_tokens=sessions.growth_tokens + skipped,
        service_s=own.service_s + (instances - 1) * cycle_s,
        sub_agents=None,
    )
    apart = session_hits(workload, rare, [alone], engine)
    scaled = _rescaled(workload.lengths, hit_fractions(apart)[0])
    return [replace(workload, lengths=scaled), together, together]


def _rescaled(lengths: Lengths, found_fraction: float) -> Lengths:
    """The same share of every prompt."""
    return replace(lengths, cached_tokens=found_fraction * lengths.input_tokens, fetched_tokens=None)


def _trace_ways(
    workload: Workload, blocks: PromptBlocks, arrivals: Arrivals, alone: float, instances: int
) -> list[Workload]:
    capacity = alone / float(blocks.block_tokens or 1)
    requests = block_requests(blocks, arrivals)
    random = np.random.default_rng(0).integers(0, instances, requests.requests)
    pooled = trace_reuse(blocks, arrivals).cached_tokens(capacity * instances)
    ways = []
    for owner in (random, _by_prefix(blocks, requests.requests, instances)):
        found = np.zeros(requests.requests)
        for instance in range(instances):
            mine = owner == instance
            if mine.any():
                found[mine] = reuse_curve(requests.subset(mine), "leaf-first").cached_tokens(capacity)
        ways.append(found)
    return [_traced(workload, arrivals, found) for found in (*ways, pooled)]


def _traced(workload: Workload, arrivals: Arrivals, found: Floats) -> Workload:
    weights = np.full(found.size, 1.0 / found.size)
    lengths = Lengths(arrivals.input_tokens, arrivals.output_tokens, weights, found)
    return replace(workload, lengths=lengths, arrivals=replace(arrivals, cached_tokens=found))


def _by_prefix(blocks: PromptBlocks, requests: int, instances: int) -> Floats:
    """Each request to the instance that saw its longest prefix last, among those no fuller than a fair share and a
    quarter; a new prefix to the one with the fewest requests."""
    seen: dict[int, int] = {}
    counts = np.zeros(instances)
    owner = np.zeros(requests)
    ids, offsets = blocks.ids.tolist(), blocks.offsets.tolist()
    for request in range(requests):
        run = ids[offsets[request] : offsets[request + 1]]
        known = next((seen[block] for block in reversed(run) if block in seen), -1)
        if known < 0 or counts[known] > 1.25 * (request + instances) / instances:
            known = int(counts.argmin())
        counts[known] += 1.0
        owner[request] = known
        seen.update(dict.fromkeys(run, known))
    return owner


# ------------------------------------------------------------------------------------------------- bursts, decode side


def burst(plant: Plant, state: Settled) -> Burst | None:
    """None without sub-agents."""
    sessions = plant.scenario.workload.sessions
    if sessions is None or sessions.sub_agents is None:
        return None
    session = described(sessions)
    sub, role = sessions.sub_agents, plant.decode
    demand = session.sub_agents.burst_tokens if session.sub_agents else 0.0
    capacity = role.kv_capacity_tokens
    headroom = max(capacity - state.flow.batch * role.traffic.context_moments[0], 0.0)
    moved = float(sequence_kv_bytes(role.worker.shape, role.worker.kv_dtype, demand))
    own = replace(role, traffic=plant.loaded(plant.scenario.workload).load)
    return Burst(
        children=sub.children,
        demand_tokens=demand,
        headroom_tokens=headroom,
        has_room=demand <= headroom,
        headroom_accelerators=demand / capacity * role.worker_accelerators,
        migration_bytes=moved,
        migration_s=float(fetch_s(moved, SET_UP_S, _network_bytes_per_s(plant.scenario, role))),
        recompute_s=_prefix_s(own, demand / sub.children) * sub.children,
    )


def _network_bytes_per_s(scenario: Scenario, role: Role) -> float:
    rate = scenario.network_bytes_per_s or role.accelerator.nic_bytes_per_s or 0.0
    fabric = role.accelerator.scaleup_bytes_per_s or 0.0
    return LINE_FRACTION * (rate or fabric or 1.0) * role.worker_accelerators


def _prefix_s(role: Role, tokens: float) -> float:
    return float(prefill_s(role.worker, tokens, role.token_budget, role.dp).total_s)


def decode_side(scenario: Scenario, deployment: Deployment, prediction: Prediction | None) -> DecodeSide:
    """Staging, copies under tensor parallelism, and the way of a mean context to host memory and back."""
    plant = plant_of(scenario, deployment)
    role, context = plant.decode, plant.decode.traffic.context_moments[0]
    size = float(stored_bytes(role.worker, context))
    whole = float(sequence_kv_bytes(role.worker.shape, role.worker.kv_dtype, context))
    place = next((place for place in role.tiers if place.tier.kind == "host-dram"), None)
    link = HOST_FACTOR * (role.accelerator.host_bytes_per_s or 0.0) * role.worker.tp * role.worker.pp
    rate, latency = (place.request_bytes_per_s, place.tier.latency_s) if place else (link, 0.0)
    way_s = float(fetch_s(size, latency, rate)) if rate else float("inf")
    sessions = scenario.workload.sessions
    think = pause_s(sessions) if sessions else None
    transfer = prediction.transfer if prediction else None
    return DecodeSide(
        staging_tokens=transfer.staging_tokens if transfer else 0.0,
        replication_factor=size / whole if whole else 1.0,
        context_tokens=context,
        offload_bytes=size,
        swap_out_s=way_s,
        swap_in_s=way_s,
        think_s=think,
        offload_pays=None if think is None else 2.0 * way_s < think,
    )
