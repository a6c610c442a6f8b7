"""What tighter or looser latency costs: the cheapest deployments around a plan, each for another P99 of TTFT or of ITL.

One latency is moved at a time; the other keeps its targets, or where it has none what the plan reaches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

from planner.engines.rules import why_not_pair
from planner.errors import FieldError
from planner.records import Deployment, Floats, Mode, Note, Plan, Scenario, Target
from planner.serving.colocated import colocated_law
from planner.serving.outcome import Outcome
from planner.serving.predict import evaluate_at
from planner.serving.traffic import Traffic, scenario_traffic
from planner.sizing import colocated, search
from planner.sizing.blocks import gap_s, late_s
from planner.sizing.candidates import (
    DecodeColumns,
    PrefillColumns,
    batch_caps,
    decode_columns,
    narrowing_s,
    prefill_columns,
    roles,
    undominated,
)
from planner.sizing.cost import budgets_used, ranked_usd_per_hour, worker_usd_per_hour
from planner.sizing.plan import planned
from planner.sizing.resilience import with_spares
from planner.sizing.targets import violation

MOVED = {"ttft": ("ttft", "e2e"), "itl": ("itl", "tpot", "e2e")}  # a latency, and the targets that move with it
FACTORS = (0.3, 0.42, 0.55, 0.7, 0.85, 1.2, 1.5, 2.0, 3.0)  # of the plan's own P99
LOOSEST_S = 1e6  # a limit that asks for a column, and forbids nothing
TRIED = 3  # cheapest rows of a level that are evaluated in full
MARGIN = 1.01  # that full evaluation may be over what the columns said
COLOCATED_SIZES = 8
RIVAL = 1.25  # of the price of the plan, up to which the best of another mode is worth a look
DEAREST = 5.0  # of that price, up to which points are shown

Key = tuple[str, str]  # metric, statistic


@dataclass(frozen=True, slots=True)
class FrontPoint:
    """A deployment on the front. `usd_per_hour` is accelerators where there is no price to rank by."""

    deployment: Deployment
    outcome: Outcome
    usd_per_hour: float
    holds: bool  # every target and budget of the scenario

    @property
    def rank(self) -> tuple[float, ...]:
        return self.usd_per_hour, self.outcome.itl_s["p99"], self.outcome.ttft_s["p99"]


@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    """Deployments as columns: price, and every latency that is asked for."""

    usd_per_hour: Floats
    value_s: Mapping[Key, Floats]
    deployment: Callable[[int], Deployment]


def front(plan: Plan) -> tuple[FrontPoint, ...]:
    """The plan among what is cheaper and slower or dearer and faster, cheapest first; nothing without a deployment.

    The same plan always gives the same points in the same order.
    """
    if plan.deployment is None:
        return ()
    scenario, load = plan.scenario, scenario_traffic(plan.scenario)
    basis = plan.money.basis if plan.money is not None else ""
    own = _evaluated(scenario, load, plan.deployment, basis)
    if not np.isfinite([own.outcome.ttft_s["p99"], own.outcome.itl_s["p99"]]).all():
        return ()
    keys = {(target.metric, target.statistic) for target in scenario.targets} | {("ttft", "p99"), ("itl", "p99")}
    asked = tuple(Target(metric, statistic, LOOSEST_S) for metric, statistic in sorted(keys))
    modes = _modes(plan, own.usd_per_hour)
    grids = list(_grids(scenario, load, modes, asked, basis))
    point_of = cache(lambda deployment: _point(scenario, load, deployment, basis))
    found = [own]
    for metric in MOVED:
        for factor in FACTORS:
            point = _cheapest(grids, _limits(scenario, own.outcome, metric, factor), point_of)
            found += [point] if point is not None and point.usd_per_hour <= DEAREST * own.usd_per_hour else []
    return tuple(sorted(_efficient(found), key=lambda point: point.rank))


def picked(plan: Plan, points: Sequence[FrontPoint], number: int) -> Plan:
    """The point of that number, from 1, as a plan of its own.

    Raises
    ------
    FieldError
        There is no point of that number.
    """
    if not 1 <= number <= len(points):
        known = f"want 1 to {len(points)}" if points else "the plan has none"
        raise FieldError("pick", f"there is no point {number} on the front; {known}")
    chosen = points[number - 1].deployment
    if chosen == plan.deployment:
        return plan
    at = next(index for index, point in enumerate(points, 1) if point.deployment == plan.deployment)
    text = f"point {number} of {len(points)} on the front, as asked; sizing alone finds point {at}"
    other = planned(plan, chosen)
    return replace(other, picked=number, notes=(*other.notes, Note("info", text)))


def _modes(plan: Plan, usd_per_hour: float) -> set[Mode]:
    """That of the plan, and those whose best comes near its price at the same targets."""
    basis = plan.money.basis if plan.money is not None else ""
    near = {
        other.deployment.mode
        for other in plan.alternatives
        if ranked_usd_per_hour(plan.scenario, other.deployment, basis) <= RIVAL * usd_per_hour
    }
    return near | ({plan.deployment.mode} if plan.deployment is not None else set())


def _limits(scenario: Scenario, outcome: Outcome, metric: str, factor: float) -> dict[Key, float]:
    """What a deployment must keep when the P99 of one latency is `factor` of what the plan reaches."""
    kept = {(t.metric, t.statistic): t.limit_s for t in scenario.targets if t.metric not in MOVED[metric]}
    other = "itl" if metric == "ttft" else "ttft"
    if not any(key[0] == other for key in kept):
        kept[other, "p99"] = outcome.statistic(other, "p99")
    return kept | {(metric, "p99"): factor * outcome.statistic(metric, "p99")}


def _cheapest(
    grids: Sequence[_Rows], limits: Mapping[Key, float], point_of: Callable[[Deployment], FrontPoint | None]
) -> FrontPoint | None:
    """The cheapest deployment whose full evaluation keeps the limits; None where none of the first few does."""
    rows: list[tuple[float, int, int]] = []
    for number, grid in enumerate(grids):
        kept = np.isfinite(grid.usd_per_hour)
        for key, limit in limits.items():
            kept = kept & (grid.value_s[key] <= limit)
        price = np.where(kept, grid.usd_per_hour, np.inf)
        best = np.argsort(price, kind="stable")[:TRIED]
        rows += [(float(price[index]), number, int(index)) for index in best if kept[index]]
    for _, number, index in sorted(rows)[:TRIED]:
        point = point_of(grids[number].deployment(index))
        if point is not None and all(
            point.outcome.statistic(metric, statistic) <= MARGIN * limit
            for (metric, statistic), limit in limits.items()
        ):
            return point
    return None


def _point(scenario: Scenario, load: Traffic, deployment: Deployment, basis: str) -> FrontPoint | None:
    """A deployment with its spare workers on top; None where it cannot run."""
    try:
        return _evaluated(scenario, load, with_spares(scenario, deployment, load), basis)
    except FieldError:
        return None


def _evaluated(scenario: Scenario, load: Traffic, bought: Deployment, basis: str) -> FrontPoint:
    outcome = evaluate_at(scenario, bought, load)
    used = budgets_used(scenario, bought, basis, outcome.prefill_time_fraction, outcome.decode.mean_batch)
    holds = max(violation(scenario, outcome), *(share for share, _ in used), 0.0) <= 1.0
    return FrontPoint(bought, outcome, ranked_usd_per_hour(scenario, bought, basis), holds)


def _efficient(points: Sequence[FrontPoint]) -> list[FrontPoint]:
    """Each deployment once, and none that another beats in price and both latencies. The first, the plan, stays."""
    once: dict[Deployment, FrontPoint] = {}
    for point in points:
        once.setdefault(point.deployment, point)
    unique = list(once.values())
    kept = undominated_rows(np.array([point.rank for point in unique]))
    return [point for point, good in zip(unique, kept, strict=True) if good or point is unique[0]]


def undominated_rows(values: Floats) -> NDArray[np.bool_]:
    """Whether no other row is at most as large in every column, and smaller in one; of equal rows the first stays."""
    no_more = (values[:, None, :] <= values[None, :, :]).all(axis=-1)  # [i, j]: i is nowhere larger than j
    less = (values[:, None, :] < values[None, :, :]).any(axis=-1)
    first = np.arange(len(values))[:, None] < np.arange(len(values))
    return np.asarray(~(no_more & (less | first)).any(axis=0))


# ------------------------------------------------------------------------------------------------------------- columns


def _grids(scenario: Scenario, load: Traffic, modes: set[Mode], asked: Sequence[Target], basis: str) -> Iterator[_Rows]:
    for mode in sorted(modes):
        if mode == "disaggregated":
            yield from _two_pools(scenario, load, asked, basis)
        else:
            yield from _one_pool(scenario, load, mode, asked, basis)


def _two_pools(scenario: Scenario, load: Traffic, asked: Sequence[Target], basis: str) -> Iterator[_Rows]:
    """Pools that are not beaten by another of their kind, in pairs."""
    first = [
        prefill_columns(scenario, load, asked, pool, role)
        for pool, role in undominated(roles(scenario, load, "prefill"), basis, search.prefill_merits)
    ]
    second = [
        decode_columns(load, asked, pool, role, batch_caps(role, asked)[0])
        for pool, role in undominated(roles(scenario, load, "decode"), basis, search.decode_merits)
    ]
    kept_in = _kept(first, basis, lambda one: list(one.ttft_s.values()))
    kept_out = _kept(second, basis, lambda one: [*one.latency_s.values(), one.mean_itl_s])
    for one, rows_in in zip(first, kept_in, strict=True):
        for other, rows_out in zip(second, kept_out, strict=True):
            lone = why_not_pair(scenario.engine, scenario.model, one.pool, other.pool)
            if not lone and rows_in.size and rows_out.size:
                yield _pairs(scenario, asked, basis, (one, rows_in), (other, rows_out))


def _kept(
    columns: Sequence[PrefillColumns] | Sequence[DecodeColumns], basis: str, values: Callable[..., list[Floats]]
) -> list[NDArray[np.intp]]:
    """For each shape, the sizes that no other shape and size beats in price and every latency."""
    rows = [np.column_stack([_usd(one, basis), *values(one)]) for one in columns]
    if not rows:
        return []
    fits = [search.overload(one.utilization) <= 1.0 for one in columns]
    stacked = np.where(np.concatenate(fits)[:, None], np.concatenate(rows), np.inf)
    good = undominated_rows(stacked) & np.isfinite(stacked).all(axis=1)
    ends = np.cumsum([len(one) for one in rows])[:-1]
    return [np.flatnonzero(part) for part in np.split(good, ends)]


def _usd(one: PrefillColumns | DecodeColumns, basis: str) -> Floats:
    return np.asarray(one.replicas * worker_usd_per_hour(one.pool, one.role.accelerator, basis, True))


def _pairs(
    scenario: Scenario,
    asked: Sequence[Target],
    basis: str,
    first: tuple[PrefillColumns, NDArray[np.intp]],
    second: tuple[DecodeColumns, NDArray[np.intp]],
) -> _Rows:
    """Every kept size of one prefill shape with every kept size of one decode shape, flattened."""
    (one, rows), (other, columns) = first, second
    after_s = other.shift_s[columns] + narrowing_s(scenario, one.role, other.role)
    stay_s = other.role.traffic.mean_steps * other.mean_itl_s[columns]
    none = np.zeros((rows.size, columns.size))

    def value_s(metric: str, statistic: str) -> Floats:
        if metric == "ttft":
            return np.asarray(one.ttft_s[statistic][rows][:, None] + after_s)
        if metric == "e2e":  # the mean bounds it; full evaluation decides
            return np.asarray(one.ttft_s["mean"][rows][:, None] + after_s + stay_s)
        return np.asarray(none + other.latency_s[metric, statistic][columns])

    def deployment(index: int) -> Deployment:
        row, column = (int(part) for part in divmod(index, columns.size))
        at, to = int(rows[row]), int(columns[column])
        decode = replace(other.pool, replicas=int(other.replicas[to]), max_batch=int(other.max_batch[to]))
        return Deployment("disaggregated", decode, replace(one.pool, replicas=int(one.replicas[at])))

    usd = _usd(one, basis)[rows][:, None] + _usd(other, basis)[columns]
    return _Rows(
        usd.ravel(), {(t.metric, t.statistic): value_s(t.metric, t.statistic).ravel() for t in asked}, deployment
    )


def _one_pool(scenario: Scenario, load: Traffic, mode: Mode, asked: Sequence[Target], basis: str) -> Iterator[_Rows]:
    """Pools that do both, at token budgets a factor of two apart."""
    offered = [(pool, role) for pool, role in roles(scenario, load, "colocated") if colocated.is_sized(role, mode)]
    for pool, role in undominated(offered, basis, colocated.merits):
        budgets = colocated.token_budgets(role, mode, 1)
        law = colocated_law(role, mode, budgets, colocated.sizes_of(role, load)[:COLOCATED_SIZES])
        usable = law.usable & (search.overload(law.utilization) <= 1.0)
        usd = worker_usd_per_hour(pool, role.accelerator, basis) * law.replicas + 0.0 * law.budgets[:, None]

        def deployment(index: int, pool=pool, law=law) -> Deployment:  # type: ignore[no-untyped-def]
            row, column = divmod(index, law.replicas.size)
            sized = replace(pool, replicas=int(law.replicas[column]), token_budget=int(law.budgets[row]))
            return Deployment(law.mode, decode=sized)

        values = {
            (t.metric, t.statistic): (
                late_s(law, t, usable) if t.metric in ("ttft", "e2e") else np.asarray(gap_s(law, t))
            ).ravel()
            for t in asked
        }
        yield _Rows(np.where(usable, usd, np.inf).ravel(), values, deployment)
