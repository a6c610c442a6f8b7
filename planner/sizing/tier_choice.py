"""Sizes of tiers that are left open: every combination is priced, the cheapest that holds with a margin is taken.

Where a plan is searched for, an option costs its tiers and the accelerators that its misses keep busy; where a
deployment is given, its tiers alone, and it must meet the targets.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from planner.records import Deployment, KvTier, Note, Scenario
from planner.serving.flow import Plant, plant_of
from planner.serving.predict import evaluate_at, predict
from planner.serving.residency import MARGIN_FRACTION, at_load, on_edge, settled
from planner.serving.reuse import knows_reuse, with_hits
from planner.serving.role import Role
from planner.serving.tier_report import HEADROOM_FRACTION, tier_states
from planner.serving.tiers import nodes_of
from planner.serving.traffic import scenario_traffic
from planner.serving.users import with_waiting_users
from planner.sizing.cost import price_basis, tier_usd_per_hour
from planner.sizing.limits import target_value
from planner.units import format_bytes

SMALLEST_BYTES = 128e9
DOUBLINGS = 7
UNITS = (1, 2, 4, 8)
MORE_LOAD = 1.0 / (1.0 - MARGIN_FRACTION) - 1.0


@dataclass(frozen=True, slots=True)
class Option:
    """One set of sizes on one deployment."""

    size_bytes: Mapping[str, float]  # by tier, per node; 0: not there
    hit_fraction: float
    ttft_mean_s: float
    prefill_accelerators: float  # that the misses keep busy, with headroom
    usd_per_hour: float | None  # of those and of the tiers; None without a price
    meets_targets: bool  # and its tiers keep up
    on_edge: bool  # its hits are lost at little more load


def has_open_sizes(scenario: Scenario) -> bool:
    return any(tier.capacity_bytes is None for tier in scenario.tiers)


def chosen(scenario: Scenario, deployment: Deployment | None) -> Scenario:
    """The scenario with every open size filled in, held against a deployment; a tier that does not pay is left out."""
    if not has_open_sizes(scenario):
        return scenario
    if not knows_reuse(scenario.workload) or deployment is None:
        return with_sizes(scenario, {})
    tried = list(options(scenario, deployment))
    held = [option for option in tried if option.meets_targets]
    if not held:
        return with_sizes(scenario, min(tried, key=lambda option: option.ttft_mean_s).size_bytes)

    def price(option: Option) -> tuple[float, float]:
        return option.usd_per_hour or 0.0, sum(option.size_bytes.values())

    cheapest = min(held, key=price)
    best = min((option for option in held if not option.on_edge), key=price, default=cheapest)
    if best is not cheapest:
        text = (
            f"{_told(cheapest)} would do at the load asked, but its hits are lost at less than {MORE_LOAD:.0%} more: "
            f"`auto` took {_told(best)}"
        )
        scenario = replace(scenario, notes=(*scenario.notes, Note("info", text)))
    return with_sizes(scenario, best.size_bytes)


def _told(option: Option) -> str:
    sizes = [f"{tier} of {format_bytes(size)}" for tier, size in option.size_bytes.items() if size]
    return " and ".join(sizes) or "no tier"


def options(scenario: Scenario, deployment: Deployment) -> Iterator[Option]:
    """Every combination of sizes of the open tiers."""
    opened = [tier for tier in scenario.tiers if tier.capacity_bytes is None]
    for sizes in product(*(steps(tier) for tier in opened)):
        yield option(scenario, deployment, {tier.id: each for tier, each in zip(opened, sizes, strict=True)})


def steps(tier: KvTier) -> list[float]:
    """Sizes worth trying: nothing, doublings up to what the slots hold, or whole units."""
    if tier.unit_bytes:
        sizes = [count * tier.unit_bytes for count in UNITS]
    else:
        sizes = [SMALLEST_BYTES * 2.0**power for power in range(DOUBLINGS)]
    return [0.0, *(each for each in sizes if each <= tier.capacity_bytes_max * (1.0 + 1e-9))]


def with_sizes(scenario: Scenario, size_bytes: Mapping[str, float]) -> Scenario:
    """The open tiers with these sizes; those of size 0 or without one are left out."""
    tiers = [
        tier if tier.capacity_bytes is not None else replace(tier, capacity_bytes=size_bytes.get(tier.id, 0.0))
        for tier in scenario.tiers
    ]
    return replace(scenario, tiers=tuple(tier for tier in tiers if tier.capacity_bytes))


def option(scenario: Scenario, deployment: Deployment, size_bytes: Mapping[str, float]) -> Option:
    """What one set of sizes does on a deployment, settled from an empty cache."""
    sized = with_sizes(scenario, size_bytes)
    plant = plant_of(sized, deployment)
    state = settled(plant, "cold")
    asked = at_load(sized, state)
    role = plant.loaded(asked.workload).prefill
    held = _lasts(role, plant) and (scenario.deployment is None or _holds(asked, deployment))
    accelerators = prefill_accelerators(role, state.flow.asked_per_s)
    return Option(
        size_bytes=size_bytes,
        hit_fraction=state.hit_fraction,
        ttft_mean_s=state.flow.ttft_s,
        prefill_accelerators=accelerators,
        usd_per_hour=_usd_per_hour(sized, deployment, accelerators),
        meets_targets=held,
        on_edge=held and on_edge(plant, state),
    )


def _lasts(role: Role, plant: Plant) -> bool:
    """Whether every tier is fast enough for what it must move, and its drives outlive their rating."""
    rows = tier_states(role, plant.cache_replicas, plant.scenario.engine)
    return all(
        row.utilization < 1.0 and (row.drive_writes_per_day or 0.0) <= (row.drive_writes_per_day_max or np.inf)
        for row in rows
    )


def _holds(scenario: Scenario, deployment: Deployment) -> bool:
    found = evaluate_at(scenario, deployment, scenario_traffic(scenario))
    if np.isfinite(found.ttft_s["mean"]):
        return all(found.statistic(each.metric, each.statistic) <= each.limit_s for each in scenario.targets)
    waiting = with_waiting_users(predict(scenario, deployment, with_intervals=False), scenario, deployment)
    return all(target_value(waiting, each) <= each.limit_s for each in scenario.targets)


def prefill_accelerators(role: Role, requests_per_s: float) -> float:
    """Accelerators that the prefill of what is not found keeps busy, with the headroom of a pool."""
    work_s = float(role.traffic.input_weights @ role.service_s)
    return requests_per_s * work_s * role.worker.tp / HEADROOM_FRACTION


def _usd_per_hour(scenario: Scenario, deployment: Deployment, accelerators: float) -> float | None:
    pool = deployment.prefill or deployment.decode
    accelerator = scenario.accelerator(pool.accelerator)
    basis = price_basis([accelerator], scenario.costs.basis)
    if not basis:
        return None
    nodes = nodes_of(pool.accelerators, accelerator)
    tiers = sum(tier_usd_per_hour(tier, nodes) or 0.0 for tier in scenario.tiers)
    return (accelerators * accelerator.usd_per_hour[basis] if scenario.deployment is None else 0.0) + tiers


def nothing_found(scenario: Scenario) -> Scenario:
    """The scenario as if no prompt shared anything."""
    workload = with_hits(scenario.workload, [0.0], scenario.engine)
    lengths = replace(workload.lengths, cached_tokens=None, fetched_tokens=None)
    arrivals = workload.arrivals and replace(workload.arrivals, cached_tokens=None)
    bare = replace(workload, lengths=lengths, arrivals=arrivals, blocks=None, sessions=None, prefix_hit_fraction=0.0)
    return replace(scenario, workload=bare, tiers=())
