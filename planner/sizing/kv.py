"""Everything about the KV of a plan: where prompts find it, what that saves, and the load at which it is lost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from planner.errors import FieldError
from planner.records import Deployment, KvTier, Note, Plan, Scenario
from planner.serving.flow import Plant, plant_of
from planner.serving.residency import Cliff, Settled, Sweep, at_load, cliffs, level_tokens, settled, sweep
from planner.serving.reuse import ceiling_fraction, knows_reuse, trace_reuse
from planner.sizing.kv_parts import Burst, DecodeSide, Routing, burst, decode_side, routing
from planner.sizing.plan import evaluate, evaluate_as_is, size_as_is
from planner.sizing.reuse import sized
from planner.sizing.tco import priced
from planner.sizing.tier_choice import Option, nothing_found, option, steps

NO_REUSE = (
    "says nothing of what its prompts share: give a trace with block ids, sessions:, or prefix_hit_ratio: with a number"
)
LOADS, TRACE_LOADS = 20, 9
LEAST_LOAD, MOST_LOAD = 0.1, 4.0  # of the load asked about, unless the tiers hold more than that
MOSTLY = 0.5  # of a trace that fills a cache for the first time
BEYOND = 1.6  # past the load that fills the last level


@dataclass(frozen=True, slots=True)
class SizePoint:
    """One size of one tier, the others as they are."""

    tier: str
    capacity_bytes: float  # per node
    capacity_tokens: float
    option: Option


@dataclass(frozen=True, slots=True)
class KvReport:
    """`plan` is the sized or given deployment with the hits of its caches; the rest explains them."""

    plan: Plan
    ceiling_fraction: float | None  # of prompt tokens, with room for everything
    accelerators_without: int | None  # that the same targets take if nothing is found; None: given, or nothing holds
    usd_per_hour_without: float | None
    states: Mapping[str, Settled]  # from a warm and from a cold start
    live_tokens: float | None  # that everybody's contexts take together
    points: tuple[SizePoint, ...]
    swept: Sweep | None
    cliffs: tuple[Cliff, ...]
    routing: Routing | None
    burst: Burst | None
    decode_side: DecodeSide | None


def kv(scenario: Scenario) -> KvReport:
    """The report of a scenario's own deployment, or of the plan that `size` finds.

    Raises
    ------
    FieldError
        The workload does not say what its prompts share, or the deployment cannot run.
    """
    scenario = priced(scenario)
    workload = scenario.workload
    if not knows_reuse(workload) and not workload.prefix_hit_fraction:
        raise FieldError("workload", NO_REUSE)
    searched = scenario.deployment is None
    without = size_as_is(nothing_found(scenario)) if searched else None
    plan = sized(scenario, size_as_is, evaluate_as_is, without) if searched else evaluate(scenario)
    asked = replace(scenario, tiers=plan.scenario.tiers)
    report = KvReport(
        plan=plan,
        ceiling_fraction=None,
        accelerators_without=_accelerators(without),
        usd_per_hour_without=_usd(without),
        states={},
        live_tokens=None,
        points=(),
        swept=None,
        cliffs=(),
        routing=None,
        burst=None,
        decode_side=None,
    )
    if plan.deployment is None:
        return report
    if not knows_reuse(workload):
        return replace(report, decode_side=decode_side(plan.scenario, plan.deployment, plan.prediction))
    return _explained(report, scenario, asked, plan.deployment)


def _accelerators(plan: Plan | None) -> int | None:
    return plan.deployment.accelerators if plan and plan.deployment and plan.verdict == "feasible" else None


def _usd(plan: Plan | None) -> float | None:
    return plan.money.usd_per_hour if plan and plan.money and plan.verdict == "feasible" else None


def _explained(report: KvReport, scenario: Scenario, asked: Scenario, deployment: Deployment) -> KvReport:
    plant = plant_of(asked, deployment)
    swept = sweep(plant, _factors(plant))
    states = {"warm": settled(plant, "warm"), "cold": settled(plant, "cold")}
    here = at_load(asked, states["cold"])
    return replace(
        report,
        plan=_with_note(report.plan, plant),
        ceiling_fraction=ceiling_fraction(asked.workload, asked.engine),
        states=states,
        live_tokens=_live_tokens(plant),
        points=tuple(_points(scenario, asked, deployment)),
        swept=swept,
        cliffs=cliffs(plant, swept),
        routing=routing(plant, states["cold"]),
        burst=burst(plant, states["cold"]),
        decode_side=decode_side(here, deployment, report.plan.prediction),
    )


def _with_note(plan: Plan, plant: Plant) -> Plan:
    """A word where a trace is too short to fill what is asked of it."""
    blocks, arrivals = plant.scenario.workload.blocks, plant.scenario.workload.arrivals
    if blocks is None or arrivals is None:
        return plan
    tokens = max(level_tokens(plant))
    curve = trace_reuse(blocks, arrivals).hit_curve([tokens / float(blocks.block_tokens or 1)])
    if curve.cold_start_fraction[0] < MOSTLY:
        return plan
    text = (
        f"the trace touches too little to fill {tokens:,.0f} tokens of cache (cold start): its hits are what these "
        "requests share, and longer traffic may find more"
    )
    return replace(plan, notes=(*plan.notes, Note("caution", text)))


def _live_tokens(plant: Plant) -> float | None:
    """Users times their mean context: what must be held for nobody to miss."""
    sessions = plant.scenario.workload.sessions
    return None if sessions is None else sessions.users * plant.decode.traffic.context_moments[0]


def _factors(plant: Plant) -> list[float]:
    """Loads that reach past what fills the last level, from no less than one user."""
    live = _live_tokens(plant)
    if live is None:
        return [float(x) for x in np.geomspace(LEAST_LOAD, MOST_LOAD, TRACE_LOADS)]
    most = max(MOST_LOAD, BEYOND * max(level_tokens(plant)) / live)
    least = max(min(LEAST_LOAD, 0.3 * level_tokens(plant)[0] / live), plant.decode.traffic.context_moments[0] / live)
    return [float(x) for x in np.geomspace(least, most, LOADS)]


def _points(scenario: Scenario, asked: Scenario, deployment: Deployment) -> list[SizePoint]:
    """How the answer moves with the size of each tier."""
    points = []
    for tier in scenario.tiers:
        others = [other for other in asked.tiers if other.id != tier.id]
        given = {other.id: other for other in asked.tiers}.get(tier.id)
        sizes = sorted({*steps(tier), *([given.capacity_bytes] if given and given.capacity_bytes else [])})
        for each in sizes:
            opened = replace(tier, capacity_bytes=None)
            trial = replace(asked, tiers=_ordered(scenario, [*others, opened]))
            found = option(trial, deployment, {tier.id: each})
            points.append(SizePoint(tier.id, each, _tokens(trial, deployment, tier, each), found))
    return points


def _ordered(scenario: Scenario, tiers: list[KvTier]) -> tuple[KvTier, ...]:
    place = {tier.id: index for index, tier in enumerate(scenario.tiers)}
    return tuple(sorted(tiers, key=lambda tier: place[tier.id]))


def _tokens(scenario: Scenario, deployment: Deployment, tier: KvTier, size_bytes: float) -> float:
    alone = replace(scenario, tiers=(replace(tier, capacity_bytes=max(size_bytes, 1.0)),))
    return level_tokens(plant_of(alone, deployment))[1]
