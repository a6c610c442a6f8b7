"""Search of one pool that does both phases: worker shapes, token budgets and pool sizes as one array per shape."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from heapq import heapify, heappop, heappush

import numpy as np

from planner.records import Floats, Mode, Pool, Scenario, Target
from planner.serving.colocated import ColocatedLaw, chained_law, colocated_law
from planner.serving.role import Role
from planner.serving.traffic import Traffic
from planner.sizing.blocks import Block, block_of, gap_violation, nearest
from planner.sizing.candidates import pool_sizes, roles, tightest_step_s, undominated
from planner.sizing.cost import worker_usd_per_hour
from planner.sizing.search import Candidate, Found, found

BUDGETS_PER_OCTAVE = 4  # powers of two alone overstate the cost of chunks by up to 1.7 (MODELLING §8)
SMALLEST_BUDGET, LARGEST_BUDGET = 256, 16384
SHARED_STEPS = 0.6  # of the work of two pools that one pool may need
BLOCK = 8  # sizes at a time that are judged on TTFT and on every window
RANK_BUDGETS = np.geomspace(512.0, 8192.0, 5)  # tokens of a step on each attention rank that are tried
RANK_SIZES = [0, 1, 2, 3, 4, 6, 8, 11, 15, 19, 24]  # of the pool sizes, by place
PEAK_TOLERANCE = 1.1  # gap violation in the busiest window that all windows together may still meet


def shapes_worth_sizing(
    scenario: Scenario, traffic: Traffic, targets: Sequence[Target], basis: str
) -> list[tuple[Pool, Role]]:
    """Workers of a shared pool; last those with attention ranks, which not every colocated mode takes."""
    offered = list(roles(scenario, traffic, "colocated"))
    limit_s = tightest_step_s(targets, traffic)
    found = undominated([one for one in offered if one[1].dp == 1], basis, merits, limit_s)
    in_step = [one for one in offered if one[1].dp > 1 and is_sized(one[1], "colocated-chunked")]
    return [*found, *undominated(in_step, basis, merits, limit_s)]


def search(
    scenario: Scenario,
    traffic: Traffic,
    mode: Mode,
    targets: Sequence[Target],
    basis: str,
    shapes: Sequence[tuple[Pool, Role]],
    budgets_per_octave: int = BUDGETS_PER_OCTAVE,
) -> Found:
    """The best pools of one colocated mode, by accelerator, out of worker shapes from `shapes_worth_sizing`.

    Blocks of sizes are judged cheapest first; an accelerator is done once no block left is cheaper than what holds.
    """
    shapes = [(pool, role) for pool, role in shapes if is_sized(role, mode)]
    queue = [(_least_usd(pool, role, traffic, basis), index) for index, (pool, role) in enumerate(shapes)]
    heapify(queue)
    grids = [(token_budgets(role, mode, budgets_per_octave), sizes_of(role, traffic)) for _, role in shapes]
    laws = [_promising(role, mode, targets, *grid) for (_, role), grid in zip(shapes, grids, strict=True)]
    cheapest: dict[str, float] = {}
    kept: list[Candidate] = []
    missed: dict[str, list[Block]] = {}
    while queue:
        usd, index = heappop(queue)
        pool, role = shapes[index]
        law = next(laws[index], None) if usd <= cheapest.get(pool.accelerator, np.inf) else None
        if law is None:
            continue
        block = block_of(scenario, traffic, targets, basis, pool, law)
        holding = block.holding()
        kept += holding
        if holding:  # larger pools of this shape only cost more
            usd = min(candidate.usd_per_hour for candidate in holding)
            cheapest[pool.accelerator] = min(usd, cheapest.get(pool.accelerator, np.inf))
        else:
            missed.setdefault(pool.accelerator, []).append(block)
            next_usd = float(law.replicas[-1] + 1.0) * worker_usd_per_hour(pool, role.accelerator, basis)
            heappush(queue, (next_usd, index))
    for accelerator, blocks in missed.items():
        kept += nearest(blocks) if accelerator not in cheapest else []
    return found(kept, sum(budgets.size * sizes.size for budgets, sizes in grids))


def of_shape(
    scenario: Scenario, traffic: Traffic, mode: Mode, targets: Sequence[Target], basis: str, pool: Pool, role: Role
) -> list[Candidate]:
    """Pools of one worker shape at its own token budget: blocks of sizes, smallest first, until one holds."""
    budgets = np.array([float(pool.token_budget or role.token_budget)])
    missed: list[Block] = []
    for law in _promising(role, mode, targets, budgets, sizes_of(role, traffic)):
        block = block_of(scenario, traffic, targets, basis, pool, law)
        holding = block.holding()
        if holding:
            return holding
        missed.append(block)
    return nearest(missed)


def is_sized(role: Role, mode: Mode) -> bool:
    """Ranks that step together are priced one point at a time, too slowly for the many windows of a trace."""
    return role.dp == 1 or (mode == "colocated-chunked" and role.batches == 1 and role.traffic.arrivals is None)


def _least_usd(pool: Pool, role: Role, traffic: Traffic, basis: str) -> float:
    """What the smallest pool with headroom costs [USD/h]: no plan of this shape is cheaper."""
    return float(sizes_of(role, traffic)[0]) * worker_usd_per_hour(pool, role.accelerator, basis)


def token_budgets(role: Role, mode: Mode, per_octave: int = BUDGETS_PER_OCTAVE) -> Floats:
    """Tokens of one step of the worker: a fine grid for chunks, the engine's own where prompts go whole."""
    if mode == "colocated-whole-prompt":
        return np.array([float(role.token_budget)])
    if role.dp > 1:
        return RANK_BUDGETS
    octaves = np.log2(LARGEST_BUDGET / SMALLEST_BUDGET)
    grid = np.geomspace(SMALLEST_BUDGET, LARGEST_BUDGET, int(octaves * per_octave) + 1)
    return np.round(grid / 16.0) * 16.0


def merits(role: Role) -> tuple[float, float]:
    """Step time of a lone request, and worker-seconds of a mean request: its prefill and its share of full batches."""
    curve = role.decode_curve_s(max(min(role.memory_batch, 512 * role.dp), 1))
    prefill_s = float(role.traffic.input_weights @ role.service_s) / role.dp
    decode_s = role.traffic.mean_steps * float(np.min(curve / np.arange(1, curve.size + 1)))
    return float(curve[0]), (prefill_s + decode_s) / role.batches


def sizes_of(role: Role, traffic: Traffic) -> Floats:
    """From fewer workers than could do the work apart, because shared steps read the weights once for both."""
    sizes = pool_sizes(SHARED_STEPS * traffic.requests_per_s * merits(role)[1])
    return sizes if role.dp == 1 else sizes[RANK_SIZES]


def _promising(
    role: Role, mode: Mode, targets: Sequence[Target], budgets: Floats, sizes: Floats
) -> Iterator[ColocatedLaw]:
    """The law on blocks of sizes, smallest first, at the budgets that meet the gap targets with the fewest workers.

    Judged in the busiest window alone. Where none meets the targets, those that miss by least. Nothing when nothing
    settles.
    """
    if role.dp > 1:
        yield from (chained_law(role, mode, budgets, sizes[at : at + 1], rough=True) for at in range(sizes.size))
        return
    moving = role.traffic.window_requests_per_s.size > 1
    law = colocated_law(_at_peak(role) if moving else role, mode, budgets, sizes)
    violation = gap_violation(law, targets)
    if not np.isfinite(violation).any():
        return
    reachable = bool(violation.min() <= PEAK_TOLERANCE)
    enough = violation <= (PEAK_TOLERANCE if reachable else float(violation.min()) * PEAK_TOLERANCE)
    first = np.where(enough.any(axis=1), enough.argmax(axis=1), sizes.size)
    rows = np.flatnonzero(first <= first.min() + BLOCK)
    for start in range(int(first.min()), sizes.size, BLOCK):
        columns = np.arange(start, min(start + BLOCK, sizes.size))
        yield colocated_law(role, mode, budgets[rows], sizes[columns]) if moving else law.at(rows, columns)
        if not reachable:
            return


def _at_peak(role: Role) -> Role:
    """The same role in its busiest window alone."""
    busiest = np.array([float(role.traffic.window_requests_per_s.max())])
    return replace(role, traffic=replace(role.traffic, window_requests_per_s=busiest, window_weights=np.ones(1)))
