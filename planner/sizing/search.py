"""The cheapest deployments by arrays: both pools sized apart, then every pair of sizes and shapes judged together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from planner.engines.rules import why_not_pair
from planner.records import Deployment, Floats, Scenario, Target
from planner.serving.role import Role
from planner.serving.traffic import Traffic
from planner.sizing.candidates import (
    MAX_UTILIZATION,
    DecodeColumns,
    PrefillColumns,
    batch_caps,
    decode_columns,
    narrowing_s,
    prefill_columns,
    roles,
    tightest_s,
    tightest_step_s,
    undominated,
)
from planner.sizing.cost import TOKENS_PER_MTOK, cached_time_fraction, tokens_per_hour, worker_usd_per_hour
from planner.sizing.resilience import spare_workers

KEPT_PER_PAIR = 8
SAME_MISS = 1.1
NEAR_SATURATION = 0.999


def missed_by(violation: Floats | float) -> Floats:
    """A miss in steps of 10 %: among misses as good as equal the cheaper one is the nearer plan."""
    return np.asarray(np.ceil(np.log(np.maximum(violation, 1.0)) / np.log(SAME_MISS)))


@dataclass(frozen=True, slots=True)
class Candidate:
    """One joint deployment as the arrays see it. `violation` is its largest value / limit; at most 1 is feasible.

    The deployment is what must do the work; price and accelerators are with the spare workers on top.
    """

    usd_per_hour: float  # accelerators where there is no price to rank by
    accelerators: int
    violation: float
    over_budget: float  # largest value / limit over budgets and availability; exact, so full evaluation keeps it
    deployment: Deployment

    @property
    def rank(self) -> tuple[float, ...]:
        """Feasible first; then cheapest, fewest accelerators, most slack. Infeasible: the nearest miss first."""
        if self.violation <= 1.0:
            return (0.0, self.usd_per_hour, self.accelerators, self.violation)
        return (1.0, float(missed_by(self.violation)), self.usd_per_hour, self.accelerators)


@dataclass(frozen=True, slots=True)
class Found:
    """The best candidates of one mode, best first, and how many were judged."""

    candidates: tuple[Candidate, ...]
    judged: int


def found(candidates: Iterable[Candidate], judged: int) -> Found:
    return Found(tuple(sorted(candidates, key=lambda candidate: candidate.rank)), judged)


def disaggregated(scenario: Scenario, traffic: Traffic, targets: Sequence[Target], basis: str) -> Found:
    """Every pair of a prefill and a decode pool, at every size."""
    prefill = [
        prefill_columns(scenario, traffic, targets, pool, role)
        for pool, role in undominated(
            roles(scenario, traffic, "prefill"), basis, prefill_merits, tightest_s(targets, ("ttft", "e2e"))
        )
    ]
    decode = [
        decode_columns(traffic, targets, pool, role, cap)
        for pool, role in undominated(
            roles(scenario, traffic, "decode"), basis, decode_merits, tightest_step_s(targets, traffic)
        )
        for cap in batch_caps(role, targets)
    ]
    kept: list[Candidate] = []
    judged = 0
    for first in prefill:
        for second in decode:
            if why_not_pair(scenario.engine, scenario.model, first.pool, second.pool):
                continue
            kept += pair(scenario, traffic, targets, basis, first, second)
            judged += first.replicas.size * second.replicas.size
    return found(kept, judged)


def prefill_merits(role: Role) -> tuple[float, float]:
    """Seconds of a mean prompt, and worker-seconds it takes from the pool."""
    mean_s = float(role.traffic.input_weights @ role.service_s)
    return mean_s, mean_s / (role.dp * role.batches)


def decode_merits(role: Role) -> tuple[float, float]:
    """Step time of a lone request, and worker-seconds per token of the fullest batch."""
    curve = role.decode_curve_s(max(min(role.memory_batch, 512 * role.dp), 1))
    return float(curve[0]), float(np.min(curve / np.arange(1, curve.size + 1))) / role.batches


def pair(
    scenario: Scenario,
    traffic: Traffic,
    targets: Sequence[Target],
    basis: str,
    first: PrefillColumns,
    second: DecodeColumns,
) -> list[Candidate]:
    """All sizes of one prefill shape against all sizes of one decode shape: (P, D) arrays."""
    spare_in, short_in = spare_workers(scenario, first.role, first.pool, first.replicas)
    spare_out, short_out = spare_workers(scenario, second.role, second.pool, second.replicas)
    workers_in, workers_out = (first.replicas + spare_in)[:, None], (second.replicas + spare_out)[None, :]
    usd_in = worker_usd_per_hour(first.pool, first.role.accelerator, basis, True) * workers_in
    usd_out = worker_usd_per_hour(second.pool, second.role.accelerator, basis, True) * workers_out
    usd = usd_in + usd_out
    accelerators = first.pool.worker_accelerators * workers_in + second.pool.worker_accelerators * workers_out
    violation = np.maximum(_ttft_violation(scenario, targets, first, second), _gap_violation(targets, second))
    violation = np.maximum(violation, overload(first.utilization)[:, None])
    watts = _watts(first.role) * first.pool.worker_accelerators * workers_in
    watts = watts + _watts(second.role) * second.pool.worker_accelerators * workers_out
    over_budget = budget_violation(scenario, first.role, usd, accelerators, (usd_in, usd_out), watts)
    over_budget = np.maximum(over_budget, np.maximum(short_in[:, None], short_out))

    def deployment(index: int) -> Deployment:
        row, column = divmod(index, second.replicas.size)
        return Deployment(
            "disaggregated",
            decode=replace(second.pool, replicas=int(second.replicas[column]), max_batch=int(second.max_batch[column])),
            prefill=replace(first.pool, replicas=int(first.replicas[row])),
        )

    return best_of(usd, accelerators, violation, over_budget, deployment)


def _ttft_violation(
    scenario: Scenario, targets: Sequence[Target], first: PrefillColumns, second: DecodeColumns
) -> Floats:
    worst = np.zeros((first.replicas.size, second.replicas.size))
    after_s = second.shift_s + narrowing_s(scenario, first.role, second.role)
    stay_s = second.role.traffic.mean_steps * second.mean_itl_s
    for target in targets:
        if target.metric == "ttft":
            worst = np.maximum(worst, (first.ttft_s[target.statistic][:, None] + after_s) / target.limit_s)
        elif target.metric == "e2e":  # the mean bounds it; full evaluation decides
            worst = np.maximum(worst, (first.ttft_s["mean"][:, None] + after_s + stay_s) / target.limit_s)
    return worst


def _gap_violation(targets: Sequence[Target], second: DecodeColumns) -> Floats:
    worst = overload(second.utilization)
    for target in targets:
        values = second.latency_s.get((target.metric, target.statistic))
        if values is not None:
            worst = np.maximum(worst, values / target.limit_s)
    return worst


def overload(utilization: Floats) -> Floats:
    """Violation by load alone: nothing close to saturation is proposed, nothing past it is kept."""
    scaled = np.where(utilization > MAX_UTILIZATION, utilization / MAX_UTILIZATION, 0.0)
    return np.where(utilization < NEAR_SATURATION, scaled, np.inf)


def _watts(role: Role) -> float:
    """Of one accelerator; 0 where it is not known, so that no budget is judged by it."""
    return role.accelerator.all_in_watts or role.accelerator.tdp_watts or 0.0


def budget_violation(
    scenario: Scenario, role: Role, usd: Floats, accelerators: Floats, by_pool: tuple[Floats, Floats], watts: Floats
) -> Floats:
    """Largest value / limit over the budgets; `by_pool` is USD/h that input and output tokens carry.

    `role` prefills: where prompts are found in a cache it says what those tokens carry of it.
    """
    worst = np.zeros(usd.shape)
    if not scenario.budgets:
        return worst
    tokens = tokens_per_hour(scenario)
    fresh = 1.0 - cached_time_fraction(role)
    values = {
        "accelerators": accelerators,
        "usd_per_hour": usd,
        "usd_per_mtok_input": by_pool[0] * fresh / tokens["input"] * TOKENS_PER_MTOK,
        "usd_per_mtok_output": by_pool[1] / tokens["output"] * TOKENS_PER_MTOK,
        "watts": watts,
    }
    for budget in scenario.budgets:
        worst = np.maximum(worst, values[budget.name] / budget.limit)
    return worst


def best_of(
    usd: Floats, accelerators: Floats, violation: Floats, over_budget: Floats, deployment: Callable[[int], Deployment]
) -> list[Candidate]:
    """The few best rows as candidates: the cheapest feasible ones, else the cheapest of the nearest misses.

    `deployment` takes an index into the flattened arrays.
    """
    usd, accelerators, over_budget = usd.ravel(), accelerators.ravel(), over_budget.ravel()
    violation = np.maximum(violation.ravel(), over_budget)
    feasible = violation <= 1.0
    order = (
        np.where(feasible, usd * (1.0 + 1e-9 * accelerators + 1e-12 * violation), np.inf)
        if feasible.any()
        else missed_by(violation) + usd * 1e-9
    )
    count = min(KEPT_PER_PAIR, order.size)
    return [
        Candidate(float(usd[i]), int(accelerators[i]), float(violation[i]), float(over_budget[i]), deployment(int(i)))
        for i in np.argpartition(order, count - 1)[:count]
        if np.isfinite(order[i])
    ]
