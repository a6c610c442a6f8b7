"""Spare workers: how many a pool needs so that its targets hold although some have failed (MODELLING §10).

Stops are taken as independent and memoryless: a unit (a worker, or the node or rack that fails as one) is out for a
share u = repair / (MTBF + repair) of the time, and of n units more than s are out with the binomial chance of that.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from planner.errors import FieldError
from planner.records import (
    Accelerator,
    Deployment,
    FailureDomain,
    Floats,
    Pool,
    PoolSpare,
    Reliability,
    Resilience,
    RoleName,
    Scenario,
)
from planner.serving.predict import evaluate_at
from planner.serving.role import Role, build_role
from planner.serving.traffic import Traffic
from planner.sizing.cost import ranked_usd_per_hour
from planner.sizing.targets import violation

MOST_SPARE = 64  # units


def repair_s(reliability: Reliability, weights_bytes: float) -> float:
    """Mean time from a stop until its worker serves again: detection, perhaps a part, loading, start [s]."""
    loading_s = weights_bytes / reliability.load_bytes_per_s.value
    hard_s = reliability.hard_fraction.value * reliability.hard_repair_s.value
    return reliability.detect_s.value + hard_s + loading_s + reliability.start_s.value


def restart_s(reliability: Reliability, weights_bytes: float) -> float:
    """The same where no part is needed [s]."""
    loading_s = weights_bytes / reliability.load_bytes_per_s.value
    return reliability.detect_s.value + loading_s + reliability.start_s.value


def unavailability(mtbf_s: ArrayLike, repair: ArrayLike) -> Floats:
    """Share of the time that something is out, 0..1; both in seconds and above 0. Broadcasts."""
    mtbf, out = np.asarray(mtbf_s, dtype=float), np.asarray(repair, dtype=float)
    return np.asarray(out / (mtbf + out))


def shortfall(units: ArrayLike, spare: ArrayLike, unit_unavailability: ArrayLike) -> Floats:
    """P(Binomial(units, u) > spare): share of the time in which more units are out than may be. Broadcasts."""
    from scipy.special import bdtrc

    n, s = np.asarray(units).astype(np.int64), np.asarray(spare, dtype=float)
    return np.asarray(np.where(s >= n, 0.0, bdtrc(np.minimum(s, n), n, np.asarray(unit_unavailability, dtype=float))))


def spare_units(needed: ArrayLike, unit_unavailability: float, allowed: float) -> Floats:
    """Smallest s with P(Binomial(needed + s, u) > s) <= allowed, of the shape of `needed`; inf beyond MOST_SPARE."""
    n = np.asarray(needed, dtype=float)[..., None]
    tried = np.arange(MOST_SPARE + 1.0)
    enough = shortfall(n + tried, tried, unit_unavailability) <= allowed
    return np.where(enough.any(axis=-1), enough.argmax(axis=-1), np.inf)


def unit_workers(pool: Pool, accelerator: Accelerator, domain: FailureDomain) -> int:
    """Workers that fail as one: those of one node or scale-up rack, packed as densely as they go; at least one."""
    size = {"worker": 1, "node": accelerator.node_accelerators, "rack": accelerator.scaleup_domain}[domain]
    return max(size // pool.worker_accelerators, 1)


def spare_workers(scenario: Scenario, role: Role, pool: Pool, needed: Floats) -> tuple[Floats, Floats]:
    """Workers to buy on top of `needed` ones, and how much of what may be missed they still miss (at most 1 holds).

    A target is shared out evenly: each of two pools may miss half of what the whole may. Where MOST_SPARE units are
    not enough, that many are counted and the second array says by how much they fall short.
    """
    asked, none = scenario.availability, np.zeros(np.shape(needed))
    if asked is None:
        return none, none
    per = unit_workers(pool, role.accelerator, asked.domain)
    if asked.target_fraction is None:
        return none + float((asked.spare or 0) * per), none
    out = _unit(scenario, role, pool, per)[2]
    units = np.ceil(np.asarray(needed, dtype=float) / per)
    allowed = (1.0 - asked.target_fraction) / (1.0 if role.name == "colocated" else 2.0)
    spare = np.minimum(spare_units(units, out, allowed), MOST_SPARE)
    return spare * per, shortfall(units + spare, spare, out) / allowed


def _unit(scenario: Scenario, role: Role, pool: Pool, per: int) -> tuple[float, float, float]:
    """MTBF, repair time and unavailability of one unit."""
    reliability = reliability_of(scenario)
    mtbf_s = reliability.accelerator_mtbf_s.value / (per * pool.worker_accelerators)
    out_s = repair_s(reliability, worker_weights_bytes(role))
    return mtbf_s, out_s, float(unavailability(mtbf_s, out_s))


def reliability_of(scenario: Scenario) -> Reliability:
    if scenario.reliability is None:
        raise FieldError("availability", "the scenario has no failure rates")
    return scenario.reliability


def worker_weights_bytes(role: Role) -> float:
    """Weights of a whole worker [bytes]."""
    return role.memory.parts()["weights"] * role.worker_accelerators


def with_spares(scenario: Scenario, deployment: Deployment, load: Traffic) -> Deployment:
    """The deployment with the spare workers that the scenario asks for on top."""
    if scenario.availability is None:
        return deployment
    grown: dict[str, Pool] = {}
    for name, pool in deployment.named_pools.items():
        more, _ = spare_workers(scenario, _role(scenario, name, pool, load), pool, np.array(float(pool.replicas)))
        grown[name] = replace(pool, replicas=pool.replicas + int(more))
    return _with_pools(deployment, grown)


def without(deployment: Deployment, lost: Mapping[str, int]) -> Deployment:
    """The deployment with so many workers gone from each pool. Raises FieldError where none would be left."""
    left: dict[str, Pool] = {}
    for name, pool in deployment.named_pools.items():
        if lost.get(name, 0) >= pool.replicas:
            text = f"{lost[name]} workers lost at once are more than the {name} pool of {pool.replicas} can spare"
            raise FieldError("availability.spare", text)
        left[name] = replace(pool, replicas=pool.replicas - lost.get(name, 0))
    return _with_pools(deployment, left)


def _with_pools(deployment: Deployment, pools: Mapping[str, Pool]) -> Deployment:
    if deployment.prefill is None:
        return replace(deployment, decode=pools["colocated"])
    return replace(deployment, prefill=pools["prefill"], decode=pools["decode"])


def _role(scenario: Scenario, name: RoleName, pool: Pool, load: Traffic) -> Role:
    return build_role(scenario, load, name, pool, scenario.accelerator(pool.accelerator))


def resilience(
    scenario: Scenario, deployment: Deployment, load: Traffic, basis: str, lost: Mapping[str, int] | None = None
) -> Resilience | None:
    """What `deployment`, spare workers included, does with `lost` of them gone; None where nothing is asked.

    Without `lost` they are what the scenario asks for, or for a target the most that the latency targets bear.
    """
    asked = scenario.availability
    if asked is None:
        return None
    lost = _lost(scenario, deployment, load) if lost is None else lost
    degraded = without(deployment, lost)
    outcome = evaluate_at(scenario, degraded, load)
    pools: dict[str, PoolSpare] = {}
    for name, pool in deployment.named_pools.items():
        role = _role(scenario, name, pool, load)
        per = unit_workers(pool, role.accelerator, asked.domain)
        mtbf_s, out_s, out = _unit(scenario, role, pool, per)
        missed = float(shortfall(math.ceil(pool.replicas / per), lost[name] // per, out))
        pools[name] = PoolSpare(lost[name], per, mtbf_s, out_s, 1.0 - missed)
    usd = ranked_usd_per_hour(scenario, deployment, basis) - ranked_usd_per_hour(scenario, degraded, basis)
    return Resilience(
        domain=asked.domain,
        pools=pools,
        held_fraction=math.prod(pool.held_fraction for pool in pools.values()),
        target_fraction=asked.target_fraction,
        ttft_s=outcome.ttft_s,
        itl_s=outcome.itl_s,
        tpot_s=outcome.tpot_s,
        e2e_s=outcome.e2e_s,
        spare_usd_per_hour=usd if basis else None,
        spare_accelerators=deployment.accelerators - degraded.accelerators,
    )


def _lost(scenario: Scenario, deployment: Deployment, load: Traffic) -> dict[str, int]:
    """Workers of each pool that may be gone: as asked, or units taken away one by one while the targets hold."""
    asked = scenario.availability
    pools = deployment.named_pools
    per: dict[str, int] = {
        name: unit_workers(pool, scenario.accelerator(pool.accelerator), asked.domain if asked else "worker")
        for name, pool in pools.items()
    }
    if asked is not None and asked.spare is not None:
        return {name: asked.spare * per[name] for name in pools}
    lost: dict[str, int] = dict.fromkeys(per, 0)
    for name, pool in pools.items():
        while lost[name] + per[name] < pool.replicas:
            trial = {**lost, name: lost[name] + per[name]}
            if violation(scenario, evaluate_at(scenario, without(deployment, trial), load)) > 1.0:
                break
            lost = trial
    return lost
