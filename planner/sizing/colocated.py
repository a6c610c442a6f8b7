"""Search of one pool that does both phases: worker shapes, token budgets and pool sizes as one array per shape."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from planner.records import PROBABILITY, Deployment, Floats, Mode, Pool, Scenario, Target
from planner.serving.colocated import ColocatedLaw, colocated_law
from planner.serving.role import Role
from planner.serving.traffic import Traffic
from planner.sizing.candidates import MAX_UTILIZATION, roles, undominated
from planner.sizing.search import Candidate, Found, best_of, budget_violation, found, overload, worker_usd

BUDGETS_PER_OCTAVE = 4  # powers of two alone overstate the cost of chunks by up to 1.7 (MODELLING §8)
SMALLEST_BUDGET, LARGEST_BUDGET = 256, 16384
SIZES = 40


def search(scenario: Scenario, traffic: Traffic, mode: Mode, targets: Sequence[Target], basis: str) -> Found:
    """The best pools of one colocated mode."""
    kept: list[Candidate] = []
    judged = 0
    for pool, role in undominated(roles(scenario, traffic, "colocated"), basis, _merits):
        budgets = token_budgets(role, mode)
        law = colocated_law(role, mode, budgets, _sizes(role, traffic))
        kept += _judge(scenario, traffic, targets, basis, pool, role, law)
        judged += law.usable.size
    return found(kept, judged)


def token_budgets(role: Role, mode: Mode) -> Floats:
    """Tokens of one step of the worker: a fine grid for chunks, the engine's own where prompts go whole."""
    if mode == "colocated-whole-prompt":
        return np.array([float(role.token_budget * role.dp)])
    octaves = np.log2(LARGEST_BUDGET / SMALLEST_BUDGET)
    grid = np.geomspace(SMALLEST_BUDGET, LARGEST_BUDGET, int(octaves * BUDGETS_PER_OCTAVE) + 1)
    return np.round(grid / 16.0) * 16.0 * role.dp


def _merits(role: Role) -> tuple[float, float]:
    """Step time of a lone request, and worker-seconds of a mean request: its prefill and its share of full batches."""
    curve = role.decode_curve_s(max(min(role.memory_batch, 512 * role.dp), 1))
    prefill_s = float(role.traffic.input_weights @ role.service_s) / role.dp
    return float(curve[0]), prefill_s + role.traffic.mean_steps * float(np.min(curve / np.arange(1, curve.size + 1)))


def _sizes(role: Role, traffic: Traffic) -> Floats:
    """From the fewest workers that could do the work, all sizes of small pools and a stride for large ones."""
    work = traffic.requests_per_s * _merits(role)[1]
    start = max(int(np.floor(work)), 1)
    return start + max(1, start // (SIZES // 2)) * np.arange(SIZES, dtype=float)


def _judge(
    scenario: Scenario, traffic: Traffic, targets: Sequence[Target], basis: str, pool: Pool, role: Role, law: ColocatedLaw
) -> list[Candidate]:
    """All budgets and sizes of one shape: (C, m) arrays."""
    usd = worker_usd(pool, role, basis) * law.replicas + 0.0 * law.budgets[:, None]
    accelerators = pool.worker_accelerators * law.replicas + 0.0 * law.budgets[:, None]
    violation = np.where(law.usable, overload(law.utilization), np.inf)
    for target in targets:
        violation = np.maximum(violation, np.where(law.usable, _value_s(law, target), np.inf) / target.limit_s)
    share = np.clip(np.einsum("cmw,w->cm", law.prefill_share, traffic.window_weights), 0.0, 1.0)
    over_budget = budget_violation(scenario.budgets, traffic, usd, accelerators, (usd * share, usd * (1.0 - share)))

    def deployment(index: int) -> Deployment:
        row, column = divmod(index, law.replicas.size)
        per_rank = int(law.budgets[row]) // role.dp
        return Deployment(law.mode, decode=replace(pool, replicas=int(law.replicas[column]), token_budget=per_rank))

    return best_of(usd, accelerators, violation, over_budget, deployment)


def _value_s(law: ColocatedLaw, target: Target) -> Floats:
    """The statistic a target limits, (C, m); of TPOT and end-to-end the mean, which full evaluation refines."""
    if target.metric == "ttft":
        return law.ttft_mean_s() if target.statistic == "mean" else law.ttft_quantile_s(PROBABILITY[target.statistic])
    if target.metric == "itl" and target.statistic != "mean":
        return law.itl_quantile_s(PROBABILITY[target.statistic])
    if target.metric == "e2e":
        return law.ttft_mean_s() + law.role.traffic.mean_steps * law.mean_itl_s
    return law.mean_itl_s
