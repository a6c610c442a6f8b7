"""Closed loops: so many requests in flight, and the fewest workers that keep the targets (FIDELITY §3-4).

A loop is solved for every length law, worker shape and number of clients per worker; a cell reads how many workers its
own clients need. Means come from the loop; a quantile of TTFT adds what a place in the burst and a longer prompt cost,
a quantile of the gap is a step with or without prefill.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from planner.engines.rules import why_not_pair
from planner.records import PROBABILITY, ClosedLoop, Deployment, Floats, Mode
from planner.serving.closed_loop import Answer, Colocated, Load, Loop, P, Workers, solve
from planner.serving.stacked import as_row
from planner.sizing.crossover.cells import Bid, Cells, Goal, Integers, Laws, cheapest
from planner.sizing.crossover.pools import Bought
from planner.sizing.crossover.tables import Pair, Prefills, decode_steps, prefills
from planner.sizing.crossover.workers import Shape

ITERATIONS = 4
TOKEN_BUDGETS = (256, 336, 448, 576, 768, 1024, 1536, 2048, 4096, 8192, 16384)
PER_WORKER = np.geomspace(1.0, 1024.0, 21)  # clients per decoding worker; there are never more workers than clients
RATIOS = np.geomspace(1 / 16, 16.0, 11)  # prefill workers per decode worker
SMALL = 12  # pools up to this size are tried at every size


@dataclass(frozen=True, eq=False)
class _Law:
    """Whether the goals hold, read from a grid: [laws, budgets or ratios, clients]."""

    answer: Answer
    shape: tuple[int, ...]
    laws: Laws
    step_tokens: float  # that a request gains in a step

    def value_s(self, goal: Goal) -> Floats:
        """The statistic a goal limits, in the grid's shape."""
        answer, laws = self.answer, self.laws
        if goal.metric == "ttft":
            return self._quantile_of_ttft(goal).reshape(self.shape)
        if goal.metric == "e2e":
            steps = np.broadcast_to(laws.mean_steps[:, None, None], self.shape)
            return answer.ttft_s.reshape(self.shape) + steps * answer.tpot_s.reshape(self.shape)
        if goal.metric == "tpot":
            return answer.tpot_s.reshape(self.shape)
        if goal.statistic == "mean":
            return self.step_tokens * answer.tpot_s.reshape(self.shape)
        others = np.tile(
            1.0 - 1.0 / PER_WORKER, answer.busy_share.size // PER_WORKER.size
        )  # their prompts are in the way
        stalled = answer.busy_share * others > 1.0 - PROBABILITY[goal.statistic]
        return np.where(stalled, answer.busy_gap_s, answer.step_s).reshape(self.shape)

    def _quantile_of_ttft(self, goal: Goal) -> Floats:
        if goal.statistic == "mean":
            return self.answer.ttft_s
        level = PROBABILITY[goal.statistic]
        order = np.argsort(self.laws.relative_tokens)
        reached = np.cumsum(self.laws.weights[order]) >= level - 1e-12
        long = self.laws.relative_tokens[order][np.argmax(reached)]
        longer = long / float(self.laws.relative_tokens @ self.laws.weights) - 1.0
        return np.asarray(self.answer.ttft_s + (2.0 * level - 1.0) * self.answer.wait_s + longer * self.answer.own_s)


def closed_run(cells: Cells, law: int, decode: Shape, prefill: Shape | None, budget: int) -> ClosedLoop:
    """The closed loop of one length law on a pair of shapes, or on one with a token budget."""
    scenario, laws = cells.scenario, cells.laws
    pool = replace(decode.pool, token_budget=budget)
    deployment = Deployment("colocated-chunked", decode=pool)
    if prefill is not None:
        deployment = Deployment("disaggregated", decode=decode.pool, prefill=prefill.pool)
    return ClosedLoop(
        model=scenario.model,
        weights=scenario.weights,
        kv_dtype=scenario.kv_dtype,
        engine=scenario.engine,
        accelerator=decode.role.accelerator,
        prefill_accelerator=prefill.role.accelerator if prefill is not None else None,
        deployment=deployment,
        input_tokens=float(laws.mean_input_tokens[law]),
        output_tokens=float(laws.mean_output_tokens[law]),
        equal_lengths=laws.weights.size == 1,
        clients=1.0,
        speculation=scenario.speculation,
    )


def _solved(loop: Loop[P], shape: Shape) -> Answer:
    constants = np.broadcast_to(as_row(shape.role.constants), (loop.rows, as_row(shape.role.constants).size))
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        return solve(loop, constants, iterations=ITERATIONS)


def _tiled(values: Sequence[ClosedLoop], times: int) -> list[ClosedLoop]:
    return [value for value in values for _ in range(times)]


def shared_pools(cells: Cells, shapes: Sequence[Shape], mode: Mode) -> Bought:
    """One pool in chunks: replicas share the clients evenly."""
    made: Workers = {}
    laws = cells.laws
    bids, pools = [], []
    for shape in shapes:
        runs = [
            closed_run(cells, law, shape, None, budget)
            for law in range(laws.mean_steps.size)
            for budget in TOKEN_BUDGETS
        ]
        loop = Colocated(_tiled(runs, PER_WORKER.size), made)
        clients = np.tile(PER_WORKER, len(runs))
        loop.load = replace(loop.load, clients=clients, running=_running(shape, clients))
        sizes = (laws.mean_steps.size, len(TOKEN_BUDGETS), PER_WORKER.size)
        grid = _Law(_solved(loop, shape), sizes, laws, runs[0].step_tokens)
        pool = _ClientPool(cells, shape, mode, *_most_clients(cells, grid))
        pools.append(pool)
        bids.append(_known(pool.usd))
    if not bids:
        return Bought.nothing(cells.count)
    cost, winner = cheapest(bids, cells.count)
    return Bought(
        cost,
        [pools[index].deployment(cell) if index >= 0 else None for cell, index in enumerate(winner)],
        [("itl", "ttft") if index >= 0 else ("targets",) for index in winner],
    )


def _known(usd: Floats) -> Bid:
    return Bid(usd, lambda chosen, below, hopeful: usd[chosen])


def _running(shape: Shape, clients: Floats) -> Floats:
    """Requests of a worker that memory holds, at least one; `clients` are grouped by law."""
    held = np.repeat(np.maximum(shape.memory_batch, 1.0), clients.size // shape.memory_batch.size)
    return np.asarray(np.minimum(clients, held))


def _most_clients(cells: Cells, grid: _Law) -> tuple[Floats, Floats]:
    """Clients per worker up to which every goal holds, at the best budget, and that budget; [cells]."""
    rows = cells.laws.of_cell
    share = _worst_share(cells, grid, rows)  # [cells, budgets, clients] value / limit
    most = _last_below(np.log(PER_WORKER), share)
    best = np.argmax(most, axis=1)
    each = np.arange(cells.count)
    return np.exp(most[each, best]), np.array(TOKEN_BUDGETS, dtype=float)[best]


def _worst_share(cells: Cells, grid: _Law, rows: Integers) -> Floats:
    worst = np.zeros((cells.count, *grid.shape[1:]))
    for goal in cells.goals:
        value = np.nan_to_num(grid.value_s(goal), nan=np.inf, posinf=np.inf)
        worst = np.maximum(worst, value[rows] / goal.limit_s[:, None, None])
    return np.maximum.accumulate(np.minimum(worst, 1e6), axis=-1)


def _last_below(positions: Floats, share: Floats) -> Floats:
    """Where the last axis, rising, passes 1: log-linear between points; -inf where it never is below."""
    below = share <= 1.0
    count = below.sum(axis=-1)
    index = np.clip(count - 1, 0, positions.size - 2)
    low = np.take_along_axis(share, index[..., None], axis=-1)[..., 0]
    high = np.take_along_axis(share, index[..., None] + 1, axis=-1)[..., 0]
    low, high = np.log(np.maximum(low, 1e-9)), np.log(np.maximum(high, 1e-9))
    part = np.clip(-low / np.maximum(high - low, 1e-9), 0.0, 1.0)
    reached = positions[index] + part * (positions[index + 1] - positions[index])
    return np.asarray(np.where(count == 0, -np.inf, np.where(count == positions.size, positions[-1], reached)))


@dataclass(frozen=True, eq=False)
class _ClientPool:
    cells: Cells
    shape: Shape
    mode: Mode
    most: Floats  # clients per worker
    budgets: Floats

    @property
    def replicas(self) -> Floats:
        clients = self.cells.clients if self.cells.clients is not None else np.ones(self.cells.count)
        fits = self.shape.memory_batch[self.cells.laws.of_cell] >= 1.0
        workers = np.where((self.most > 0.0) & fits, clients / np.maximum(self.most, 1e-12), np.inf)
        if "integers" in self.cells.without:
            return workers
        return np.where(np.isfinite(workers), np.maximum(np.ceil(workers - 1e-6), 1.0), np.inf)

    @property
    def usd(self) -> Floats:
        return self.replicas * self.shape.usd_per_hour

    def deployment(self, cell: int) -> Deployment:
        replicas = max(int(np.ceil(self.replicas[cell])), 1)
        return Deployment(
            self.mode, decode=replace(self.shape.pool, replicas=replicas, token_budget=int(self.budgets[cell]))
        )


def separate_pools(cells: Cells, prefill: Sequence[Shape], decode: Sequence[Shape]) -> Bought:
    """Two pools: what matters is clients per decode worker, and prefill workers per decode worker."""
    scenario, laws = cells.scenario, cells.laws
    every = range(laws.mean_steps.size)
    grid = (len(every), RATIOS.size, PER_WORKER.size)
    timed: dict[tuple[int, bytes], Prefills] = {}
    bids, pairs = [], []
    for second in decode:
        constants = as_row(second.role.constants)
        runs = [closed_run(cells, law, second, prefill[0], 0) for law in every]
        steps = decode_steps(runs, constants, float(PER_WORKER[-1])) if runs else None
        for number, first in enumerate(prefill):
            if steps is None or why_not_pair(scenario.engine, scenario.model, first.pool, second.pool):
                continue
            key = (number, constants.tobytes())
            if key not in timed:
                ones = _tiled([closed_run(cells, law, second, first, 0) for law in every], PER_WORKER.size)
                timed[key] = prefills(ones, constants, _load_of(ones, np.tile(PER_WORKER, len(every)), None))
            clients = np.tile(PER_WORKER, RATIOS.size * len(every))
            load = _load_of(_tiled(runs, RATIOS.size * PER_WORKER.size), clients, second)
            servers = np.tile(np.repeat(RATIOS, PER_WORKER.size), len(every)) * first.role.dp
            answer = _solved(Pair(timed[key], steps, load, servers, grid), second)
            pair = _ClientPair.of(cells, first, second, _Law(answer, grid, laws, runs[0].step_tokens))
            pairs.append(pair)
            bids.append(_known(pair.usd))
    if not bids:
        return Bought.nothing(cells.count)
    cost, winner = cheapest(bids, cells.count)
    return Bought(
        cost,
        [pairs[index].deployment(cell) if index >= 0 else None for cell, index in enumerate(winner)],
        [("itl", "ttft") if index >= 0 else ("targets",) for index in winner],
    )


def _load_of(runs: Sequence[ClosedLoop], clients: Floats, decode: Shape | None) -> Load:
    """One entry per run and number of clients; all of them run where there is no decode worker to hold them."""
    prompt, output, equal, gained = (
        np.array([getattr(run, name) for run in runs], dtype=float)
        for name in ("input_tokens", "output_tokens", "equal_lengths", "step_tokens")
    )
    return Load(clients, prompt, output, equal, clients if decode is None else _running(decode, clients), gained)


@dataclass(frozen=True, eq=False)
class _ClientPair:
    first: Shape
    second: Shape
    prefill: Floats
    decode: Floats
    usd: Floats

    @classmethod
    def of(cls, cells: Cells, first: Shape, second: Shape, grid: _Law) -> _ClientPair:
        rows = cells.laws.of_cell
        most = _last_below(np.log(PER_WORKER), _worst_share(cells, grid, rows))  # [cells, ratios]
        clients = cells.clients if cells.clients is not None else np.ones(cells.count)
        sizes = _sizes(clients, np.exp(np.max(most, axis=1)), "integers" in cells.without)
        ratio = _least_ratio(most, np.log(clients[:, None] / sizes))  # [cells, sizes]
        prefill = ratio * sizes
        if "integers" not in cells.without:
            prefill = np.where(np.isfinite(prefill), np.maximum(np.ceil(prefill - 1e-6), 1.0), np.inf)
        usd = prefill * first.usd_per_hour + sizes * second.usd_per_hour * cells.price_factor[:, None]
        fits = (first.memory_batch[rows] >= 1.0) & (second.memory_batch[rows] >= 1.0)
        usd = np.where(fits[:, None], usd, np.inf)
        best, each = np.argmin(usd, axis=1), np.arange(cells.count)
        return cls(first, second, prefill[each, best], sizes[each, best], usd[each, best])

    def deployment(self, cell: int) -> Deployment:
        decode = replace(self.second.pool, replicas=max(int(np.ceil(self.decode[cell])), 1))
        prefill = replace(self.first.pool, replicas=max(int(np.ceil(self.prefill[cell])), 1))
        return Deployment("disaggregated", decode=decode, prefill=prefill)


def _sizes(clients: Floats, most: Floats, fractions: bool) -> Floats:
    """Decode workers to try, [cells, sizes]: every small pool, and from the fewest possible on upwards."""
    least = clients / np.maximum(most, 1e-12)
    grown = least[:, None] * np.geomspace(1.0, 6.0, 2 * SMALL)
    small = np.broadcast_to(np.arange(1.0, SMALL + 1.0), (clients.size, SMALL))
    return grown if fractions else np.concatenate([small, np.maximum(np.ceil(grown - 1e-6), 1.0)], axis=1)


def _least_ratio(most: Floats, wanted: Floats) -> Floats:
    """Fewest prefill per decode worker with which a decode worker may have so many clients; inf where none is enough.

    `most` is [cells, ratios] in log clients per worker, `wanted` [cells, sizes].
    """
    rising = np.maximum.accumulate(most, axis=1)
    enough = rising[:, None, :] >= wanted[..., None] - 1e-9
    index = np.argmax(enough, axis=2)
    before = np.maximum(index - 1, 0)
    each = np.arange(most.shape[0])[:, None]
    low, high = rising[each, before], rising[each, index]
    rises = np.isfinite(low) & (high > low + 1e-12)
    with np.errstate(invalid="ignore", divide="ignore"):
        part = np.where(rises, (wanted - low) / np.where(rises, high - low, 1.0), 1.0)
    logs = np.log(RATIOS)
    ratio = np.exp(logs[before] + np.clip(part, 0.0, 1.0) * (logs[index] - logs[before]))
    return np.where(enough.any(axis=2), ratio, np.inf)
