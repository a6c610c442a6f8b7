"""One pool that does both phases, judged: gaps, budgets, spares of all points at once, TTFT only where it decides."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from planner.records import PROBABILITY, Deployment, Floats, Pool, Scenario, Target
from planner.serving.colocated import ColocatedLaw
from planner.serving.traffic import Traffic
from planner.sizing.cost import prompt_share, worker_usd_per_hour
from planner.sizing.resilience import spare_workers
from planner.sizing.search import KEPT_PER_PAIR, Candidate, best_of, budget_violation, missed_by, overload

SAME_PRICE = 1.0 + 1e-9


@dataclass(frozen=True, eq=False)
class Block:
    """Token budgets and sizes of one worker shape; arrays are (C, m).

    `violation` is the largest value / limit of all but TTFT and end-to-end time, which are asked for later and only
    where they decide: they cost a hundred times as much.
    """

    pool: Pool
    law: ColocatedLaw
    late_targets: tuple[Target, ...]
    usd: Floats
    accelerators: Floats
    over_budget: Floats
    violation: Floats

    def holding(self) -> list[Candidate]:
        """The cheapest points that meet every limit, at most KEPT_PER_PAIR."""
        violation = np.full(self.violation.shape, np.inf)
        for columns in self._cheapest_first():
            asked = (self.violation <= 1.0) & columns & ~self._late
            violation[asked] = self._exact(asked)[asked]
            if np.count_nonzero(violation <= 1.0) >= KEPT_PER_PAIR:
                break
        return self._best(violation) if np.any(violation <= 1.0) else []

    @cached_property
    def _late(self) -> NDArray[np.bool_]:
        """Points whose prompts alone take too long, for which no wait need be known."""
        late = np.zeros(self.violation.shape, dtype=bool)
        for target in self.late_targets:
            if target.metric == "ttft" and target.statistic != "mean":
                late |= self.law.surely_later(PROBABILITY[target.statistic], target.limit_s)
        return late

    def misses(self) -> list[Candidate]:
        """The points that miss their limits by least."""
        return self._best(self._exact(np.ones(self.violation.shape, dtype=bool)))

    def _cheapest_first(self) -> Iterator[NDArray[np.bool_]]:
        """Sizes, (m,), in parts that have just enough points that may hold; equal prices stay together."""
        price = self.usd.max(axis=0)
        order = np.argsort(price, kind="stable")
        points = np.cumsum(np.count_nonzero(self.violation <= 1.0, axis=0)[order])
        start = 0
        while start < order.size:
            seen = points[start - 1] if start else 0
            enough = min(int(np.searchsorted(points, seen + KEPT_PER_PAIR)), order.size - 1)
            stop = int(np.searchsorted(price[order], price[order[enough]] * SAME_PRICE, side="right"))
            yield np.isin(np.arange(order.size), order[start:stop])
            start = stop

    def _exact(self, asked: NDArray[np.bool_]) -> Floats:
        violation = self.violation
        for target in self.late_targets:
            violation = np.maximum(violation, late_s(self.law, target, asked) / target.limit_s)
        return violation

    def _best(self, violation: Floats) -> list[Candidate]:
        law = self.law

        def deployment(index: int) -> Deployment:
            row, column = divmod(index, law.replicas.size)
            sized = replace(self.pool, replicas=int(law.replicas[column]), token_budget=int(law.budgets[row]))
            return Deployment(law.mode, decode=sized)

        return best_of(self.usd, self.accelerators, violation, self.over_budget, deployment)


def block_of(
    scenario: Scenario, traffic: Traffic, targets: Sequence[Target], basis: str, pool: Pool, law: ColocatedLaw
) -> Block:
    """All budgets and sizes of one shape with what they cost, spares included."""
    role = law.role
    spare, short = spare_workers(scenario, role, pool, law.replicas)
    workers = law.replicas + spare + 0.0 * law.budgets[:, None]
    usd = worker_usd_per_hour(pool, role.accelerator, basis) * workers
    accelerators = pool.worker_accelerators * workers
    share = prompt_share(law.prefill_share @ traffic.window_weights, np.where(law.usable, law.mean_batch, 1.0))
    watts = accelerators * (role.accelerator.all_in_watts or role.accelerator.tdp_watts or 0.0)
    over_budget = budget_violation(scenario, role, usd, accelerators, (usd * share, usd * (1.0 - share)), watts)
    over_budget = np.maximum(over_budget, short)
    late = tuple(target for target in targets if target.metric in ("ttft", "e2e"))
    violation = np.maximum(gap_violation(law, targets), over_budget)
    return Block(pool, law, late, usd, accelerators, over_budget, violation)


def nearest(blocks: Sequence[Block]) -> list[Candidate]:
    """The nearest misses where nothing holds. A block that misses by more before TTFT than another in all is left."""
    kept: list[Candidate] = []
    least = np.inf
    for block in sorted(blocks, key=lambda block: float(np.min(block.violation))):
        if missed_by(np.min(block.violation)) > least:
            break
        candidates = block.misses()
        kept += candidates
        least = min([least, *(float(missed_by(candidate.violation)) for candidate in candidates)])
    return kept


def gap_violation(law: ColocatedLaw, targets: Sequence[Target]) -> Floats:
    """Largest value / limit of gaps, of time per output token and of the load."""
    violation = np.where(law.usable, overload(law.utilization), np.inf)
    for target in targets:
        if target.metric in ("itl", "tpot"):
            violation = np.maximum(violation, np.where(law.usable, gap_s(law, target), np.inf) / target.limit_s)
    return violation


def gap_s(law: ColocatedLaw, target: Target) -> Floats:
    """ITL, or of TPOT the mean, which full evaluation refines."""
    if target.metric == "tpot":
        return law.mean_itl_s / law.role.traffic.step_tokens
    return law.mean_itl_s if target.statistic == "mean" else law.itl_quantile_s(PROBABILITY[target.statistic])


def late_s(law: ColocatedLaw, target: Target, asked: NDArray[np.bool_]) -> Floats:
    """TTFT, or of the end-to-end time the mean, which full evaluation refines."""
    if target.metric == "ttft" and target.statistic != "mean":
        return law.ttft_quantile_s(PROBABILITY[target.statistic], asked)
    mean = law.ttft_mean_s(asked)
    return mean if target.metric == "ttft" else mean + law.role.traffic.mean_steps * law.mean_itl_s
