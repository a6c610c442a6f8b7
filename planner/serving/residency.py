"""Hits depend on what stays resident, that on how long requests stay, and that on hits: the fixed point and its cliff.

Running requests hold their contexts, and only what they leave is a cache. A miss is computed again, so requests stay
longer, hold more and leave less: there may be a warm and a cold settled state at the same load. Both are found by
iterating from a cache that holds everything and from one that holds nothing; the map never falls when hits rise, so the
two end at the largest and the smallest fixed point (MODELLING §9). Users who wait push the other way, because they
send less: where rounds point to and fro, each goes half as far as the one before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

import numpy as np

from planner.records import Floats, Scenario, Sessions, Workload
from planner.serving.flow import Flow, Loaded, Plant
from planner.serving.reuse import EVERYTHING_TOKENS, ceiling_fraction, described, hit_fractions, session_hits, with_hits
from planner.serving.tiers import NETWORK_KINDS, nodes_of, stored_bytes

Start = Literal["warm", "cold"]
ROUNDS = 60
SETTLED = 5e-4  # of all prompt tokens, between two rounds
MARGIN_FRACTION = 0.15  # of the load at which hits are lost, that a plan should keep
LEAST_STEP = 1.0 / 128.0  # of the way to where a round points, after rounds that pointed to and fro


@dataclass(frozen=True, slots=True, eq=False)
class Settled:
    """One fixed point. `hits` : share of prompt tokens by level, the accelerator's memory first."""

    workload: Workload
    flow: Flow
    hits: tuple[float, ...]
    capacities_tokens: tuple[float, ...]  # of all of the deployment, what the live contexts take already taken off

    @property
    def hit_fraction(self) -> float:
        return sum(self.hits)


def level_tokens(plant: Plant) -> tuple[float, ...]:
    """Tokens that each level of the deployment holds, live contexts included: memory first, then the tiers."""
    role, scenario = plant.cache_role, plant.scenario
    tokens = [role.kv_capacity_tokens * plant.cache_replicas]
    nodes = nodes_of(plant.cache_replicas * role.worker_accelerators, role.accelerator)
    per_token = bytes_per_token(plant)
    for tier in scenario.tiers:
        whole = 1 if tier.kind in NETWORK_KINDS else nodes
        tokens.append((tier.capacity_bytes or 0.0) * whole / per_token)
    return tuple(tokens)


def bytes_per_token(plant: Plant) -> float:
    """Stored per token of a mean prompt, copies of the ranks counted."""
    mean = plant.cache_role.traffic.mean_input_tokens
    return float(stored_bytes(plant.cache_role.worker, mean)) / mean


def requests_per_turn(sessions: Sessions) -> float:
    """A turn, and the turns of the children it starts."""
    sub = sessions.sub_agents
    return 1.0 if sub is None else 1.0 + sub.children * sub.turns / sub.every_turns


def pause_s(sessions: Sessions) -> float:
    """From an answer to the next turn: thought, and the wait for children."""
    sub = sessions.sub_agents
    return sessions.think_s + (0.0 if sub is None else sub.turns * sub.gap_s / sub.every_turns)


def settled(plant: Plant, start: Start = "warm", load_factor: float = 1.0) -> Settled:
    """The fixed point reached from a full or an empty cache, at `load_factor` times the users or the rate."""
    levels = np.asarray(level_tokens(plant))
    first = np.full(levels.size, EVERYTHING_TOKENS if start == "warm" else 0.0)
    workload = _found(plant, first, load_factor)
    hits, place, step, last = np.cumsum(hit_fractions(workload)), None, 1.0, 0.0
    for _ in range(ROUNDS):
        flow = _flow(plant.loaded(workload), load_factor)
        here = _place(plant, levels, flow, load_factor)
        place = here if place is None else place + step * (here - place)
        workload = _found(plant, place[: levels.size], load_factor, *place[levels.size :])
        before, hits = hits, np.cumsum(hit_fractions(workload))
        change = float(np.sum(hits - before))
        if np.max(np.abs(hits - before)) < SETTLED * step or (step <= LEAST_STEP and change * last < 0.0 > change):
            break
        step, last = max(step / 2.0, LEAST_STEP) if change * last < 0.0 else step, change or last
    flow = _flow(plant.loaded(workload), load_factor)
    free = first if place is None else place[: levels.size]
    return Settled(workload, flow, hit_fractions(workload), tuple(np.maximum.accumulate(free).tolist()))


def _place(plant: Plant, levels: Floats, flow: Flow, load_factor: float) -> Floats:
    """What decides on hits: tokens that contexts in use leave at each level, seconds idle, and users who are idle."""
    free, idle_s = np.maximum(levels - _live_tokens(plant, flow), 0.0), _idle_s(plant, flow)
    sessions = plant.scenario.workload.sessions
    if sessions is None:
        return np.concatenate((free, [0.0, 0.0]))
    users = flow.requests_per_s / requests_per_turn(sessions) * (idle_s + pause_s(sessions))
    return np.concatenate((free, [idle_s, min(max(users, 1e-6), sessions.users * load_factor)]))


def _flow(loaded: Loaded, load_factor: float) -> Flow:
    workload = loaded.plant.scenario.workload
    if workload.sessions is None:
        return loaded.at_rate(workload.requests_per_s * workload.peak_factor * load_factor)
    sessions = workload.sessions
    factor = max(sessions.output_tokens - 1.0, 1e-6) / loaded.load.mean_steps
    return loaded.with_users(sessions.users * load_factor, pause_s(sessions), requests_per_turn(sessions), factor)


def _live_tokens(plant: Plant, flow: Flow) -> float:
    """Contexts that are held in the memory that caches: of running requests, of prompts alone in a prefill pool."""
    if plant.colocated:
        return flow.batch * plant.cache_replicas * plant.decode.traffic.context_moments[0]
    role = plant.prefill
    return flow.prefill_utilization * plant.cache_replicas * role.dp * role.traffic.mean_input_tokens


def _idle_s(plant: Plant, flow: Flow) -> float:
    """Time besides thought that a context must last without being held."""
    return flow.wait_s if plant.colocated else flow.wait_s + flow.run_s


def _found(
    plant: Plant, free: Floats, load_factor: float, idle_s: float = 0.0, idle_users: float | None = None
) -> Workload:
    workload, engine = plant.scenario.workload, plant.scenario.engine
    sessions = workload.sessions
    if sessions is None:
        return with_hits(workload, free.tolist(), engine)
    users = sessions.users * load_factor if idle_users is None else float(idle_users)
    return session_hits(workload, described(sessions, float(idle_s), users), free.tolist(), engine)


# --------------------------------------------------------------------------------------------------------------- cliff


@dataclass(frozen=True, slots=True)
class Cliff:
    """Where a level's hits break down, in multiples of the load asked about; None: not within the loads tried."""

    level: int
    lost_at_factor: float | None  # the warm state gives way
    recovers_at_factor: float | None  # an empty cache fills again below this


@dataclass(frozen=True, slots=True, eq=False)
class Sweep:
    """Settled states from both starts over load factors."""

    factors: Floats
    warm: tuple[Settled, ...]
    cold: tuple[Settled, ...]


def sweep(plant: Plant, factors: Sequence[float]) -> Sweep:
    loads = np.asarray(factors, dtype=float)
    return Sweep(
        loads,
        tuple(settled(plant, "warm", float(factor)) for factor in loads),
        tuple(settled(plant, "cold", float(factor)) for factor in loads),
    )


def cliffs(plant: Plant, swept: Sweep, halvings: int = 4) -> tuple[Cliff, ...]:
    """Per level the load at which less than half of what it found at the least load is found, from each start."""

    @cache
    def found(start: Start, factor: float) -> Floats:
        return np.cumsum(settled(plant, start, factor).hits)

    return tuple(_cliff(swept, found, level, halvings) for level in range(1 + len(plant.scenario.tiers)))


def _cliff(swept: Sweep, found: Callable[[Start, float], Floats], level: int, halvings: int) -> Cliff:
    def edge(start: Start, states: Sequence[Settled]) -> tuple[float, float] | None:
        """The last load that holds and the first that does not, by bisection in the logarithm."""
        hits = [sum(state.hits[: level + 1]) for state in states]
        broken = [index for index, share in enumerate(hits) if share < hits[0] / 2.0]
        if not broken:
            return None
        low, high = float(swept.factors[broken[0] - 1]), float(swept.factors[broken[0]])
        for _ in range(halvings):
            middle = float(np.sqrt(low * high))
            low, high = (middle, high) if found(start, middle)[level] >= hits[0] / 2.0 else (low, middle)
        return low, high

    warm = edge("warm", swept.warm)
    least = sum(swept.cold[0].hits[: level + 1]) / 2.0
    alike = warm is not None and found("cold", warm[0])[level] >= least
    cold = warm if alike else edge("cold", swept.cold)
    return Cliff(level, *(float(np.sqrt(each[0] * each[1])) if each else None for each in (warm, cold)))


def on_edge(plant: Plant, state: Settled) -> bool:
    """Whether hits that an empty cache reaches at the load asked are mostly lost at a load without the margin above."""
    half = ceiling_fraction(plant.scenario.workload, plant.scenario.engine) / 2.0
    if state.hit_fraction < half:
        return False
    return settled(plant, "cold", 1.0 / (1.0 - MARGIN_FRACTION)).hit_fraction < half


def at_load(scenario: Scenario, state: Settled, asked: bool = False) -> Scenario:
    """The scenario with the hits, the lengths and the rate of a settled state; `asked`: the rate if nobody waited."""
    workload, rate = scenario.workload, scenario.workload.requests_per_s
    if workload.sessions is not None:
        rate = state.flow.asked_per_s if asked else state.flow.requests_per_s
    return replace(scenario, workload=replace(state.workload, requests_per_s=rate))
