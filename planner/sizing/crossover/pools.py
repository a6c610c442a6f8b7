"""Two pools in every cell: the fewest decode workers that keep the gaps, then the fewest prefill workers for TTFT."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from planner.engines.rules import why_not_pair
from planner.errors import FieldError
from planner.queueing.jobs import Jobs
from planner.queueing.routing import shortest_wait
from planner.queueing.service import ServiceLaw, single_server_wait_s, weighted_scv
from planner.queueing.waiting import SHORTEST, Wait, fitted_wait
from planner.records import PROBABILITY, Deployment, Floats
from planner.roofline.collectives import LINE_FRACTION, SET_UP_S, exposed_transfer_s
from planner.serving.disaggregated import ttft_shift_s
from planner.serving.statistics import STAY_AVERAGING_FACTOR
from planner.shapes.ranks import sequence_kv_bytes
from planner.sizing.candidates import LATENCY_METRICS, MAX_UTILIZATION
from planner.sizing.crossover.cells import Bid, Cells, Goal, Integers, Marks, cheapest, least_size, rows_at
from planner.sizing.crossover.workers import Shape

MINIMA = 12  # service laws whose least residuals are integrated; the others take those of the nearest
_FEW = np.unique(np.round(np.concatenate([np.arange(1.0, 17.0), np.geomspace(17.0, 512.0, 18)])))  # counts integrated
EXTRA_WORKERS = (0, 1, 2, 3)  # that decode: the fewest that keep the gaps hold first tokens up longest
MORE_WORKERS = 4.0  # a pool is tried up to so many times the size that its load needs, and 16 more
QUANTILE_SIGMAS = {"p50": 0.0, "p90": 1.2816, "p95": 1.6449, "p99": 2.3263, "p99_9": 3.0902}


@dataclass(frozen=True, eq=False)
class Bought:
    """The cheapest deployment of one architecture in every cell; `cost` is inf where none meets the goals.

    `limits` names what holds it; where nothing fits, what prevents it.
    """

    cost: Floats  # USD/h; accelerators where there is no price to rank by
    deployments: Sequence[Deployment | None]
    limits: Sequence[tuple[str, ...]]

    @classmethod
    def nothing(cls, count: int, limit: str = "memory") -> Bought:
        """No worker of any shape."""
        return cls(np.full(count, np.inf), [None] * count, [(limit,)] * count)


@dataclass(frozen=True, eq=False)
class DecodePool:
    """The fewest workers of one shape that decode every cell's load; `replicas` is inf where the gaps cannot hold."""

    shape: Shape
    replicas: Floats
    max_batch: Floats
    mean_itl_s: Floats
    shift_s: Floats  # what it adds to TTFT
    held_by_gap: Marks  # whether the gap, not memory, sets the batch


def utilization_limit(cells: Cells) -> float:
    return 1.0 if "headroom" in cells.without else MAX_UTILIZATION


def whole(cells: Cells, workers: Floats) -> Floats:
    """Workers as they are bought."""
    return workers if "integers" in cells.without else np.maximum(np.ceil(workers - 1e-9), 1.0)


def decode_pool(cells: Cells, shape: Shape, more: int = 0) -> DecodePool:
    """The smaller of two pools: batches capped where a full one keeps the gap, or large enough to seldom pass it.

    With `more` workers it holds first tokens up less.
    """
    rows = cells.laws.of_cell
    demand = cells.requests_per_s * cells.laws.mean_steps[rows]  # tokens/s
    memory = shape.memory_batch[rows]
    grid, top = shape.grid, utilization_limit(cells)
    capped, free = np.zeros(cells.count), np.zeros(cells.count)
    gap_batch, possible = memory.copy(), memory >= 1.0
    full = rows_at(grid, shape.steps_per_s, rows, np.maximum(memory, 1.0))
    least = demand / (top * full)
    free, capped = np.maximum(free, least), np.maximum(capped, least)
    for goal in cells.goals:
        if goal.metric not in LATENCY_METRICS:
            continue
        possible &= shape.step_s[rows, 0] <= goal.limit_s
        batch = np.minimum(rows_at(shape.step_s, grid, rows, goal.limit_s), np.maximum(memory, 1.0))
        gap_batch = np.minimum(gap_batch, batch)
        rate = rows_at(grid, shape.steps_per_s, rows, batch)
        free = np.maximum(free, demand / rate)
        capped = np.maximum(capped, demand / (rate if goal.statistic == "mean" else top * rate))
    low, high = whole(cells, free), whole(cells, capped)
    seldom = low if "integers" in cells.without else _seldom_long(cells, shape, demand, low, high)
    replicas = np.where(possible, np.minimum(seldom, high) + more, np.inf)
    finite = np.where(possible, replicas, 1.0)
    batch = shape.batch_at(rows, demand / finite)
    itl = shape.step_at(rows, batch)
    cap = np.where(finite >= high, np.maximum(np.floor(gap_batch), 1.0), np.floor(memory))
    shift = ttft_shift_s(shape.role, itl, batch) + np.where(
        finite >= high,
        admission_s(cells, shape, demand / finite, np.maximum(np.minimum(gap_batch, memory), 1.0), finite),
        0.0,
    )
    return DecodePool(shape, replicas, cap, itl, shift, gap_batch < 0.999 * memory)


def _growth(shape: Shape, rows: Integers, tokens_per_s: Floats, batch: Floats) -> Floats:
    """d ln b / d ln rate: the variance of the batch over its mean."""
    steeper = shape.batch_at(rows, tokens_per_s * 1.02)
    return np.clip((steeper / np.maximum(batch, 1e-9) - 1.0) / 0.02, 1.0, 20.0)


def admission_s(cells: Cells, shape: Shape, tokens_per_s: Floats, cap: Floats, replicas: Floats) -> Floats:
    """99th percentile of the wait for a place in capped batches, P(W > t) = P(full) e^(-t / d) (QUEUEING §4.1).

    A place frees every O t(B) / (m B); the batch is taken as normal about its mean without a cap.
    """
    rows = cells.laws.of_cell
    batch = shape.batch_at(rows, tokens_per_s)
    sigma = np.sqrt(np.maximum(batch, 1e-9) * _growth(shape, rows, tokens_per_s, batch) / replicas)
    z = np.maximum(cap - 0.5 / replicas - batch, 0.0) / sigma
    full = 0.5 * np.exp(-0.717 * z - 0.416 * z**2)  # of a normal variable beyond z, to 1 %
    steps_per_s = rows_at(shape.grid, shape.steps_per_s, rows, cap)
    load = np.minimum(tokens_per_s / steps_per_s, 0.99)
    each_s = cells.laws.mean_steps[rows] / (replicas * steps_per_s * (1.0 - load))
    return np.asarray(each_s * np.maximum(np.log(np.maximum(full, 1e-12) / 0.01), 0.0))


def _seldom_long(cells: Cells, shape: Shape, demand: Floats, low: Floats, high: Floats) -> Floats:
    """Fewest workers without a cap at which the quantile of the batch keeps the gap (QUEUEING §4.1, pooled)."""
    goals = [goal for goal in cells.goals if goal.metric in LATENCY_METRICS and goal.statistic != "mean"]

    def holds(chosen: Integers, replicas: Floats) -> Marks:
        rows, rate = cells.laws.of_cell[chosen], demand[chosen] / replicas
        batch = shape.batch_at(rows, rate)
        growth = _growth(shape, rows, rate, batch)
        ok = np.ones(chosen.size, dtype=bool)
        for goal in goals:
            spread = QUANTILE_SIGMAS[goal.statistic] * np.sqrt(np.maximum(batch, 1e-9) * growth / replicas)
            reached = batch + 1.0 / replicas + spread + (1.0 - 1.0 / replicas) / 2.0
            at = shape.step_at(rows, reached)
            if goal.metric == "tpot":
                mean = shape.step_at(rows, batch)
                at = mean + STAY_AVERAGING_FACTOR * (at - mean)
            ok &= at <= goal.limit_s[chosen]
        return ok

    return least_size(holds, np.arange(cells.count), low, np.maximum(high, low))


# -------------------------------------------------------------------------------------------------------------- prefill


@dataclass(frozen=True, eq=False)
class ServiceMoments:
    """Moments of the prefill time of every law; least residuals are integrated for a few laws and scaled to others."""

    moments: tuple[Floats, Floats, Floats, Floats]
    samples: Sequence[ServiceLaw]
    nearest: Integers

    def jobs(self, rows: Integers, servers: Floats) -> Jobs:
        m1, m2, m3, m4 = (moment[rows] for moment in self.moments)
        minima = np.zeros((3, rows.size))
        known = _FEW[np.searchsorted(_FEW, np.minimum(servers, _FEW[-1]))]
        for index, law in enumerate(self.samples):
            mine = np.flatnonzero(self.nearest[rows] == index)
            if mine.size:
                distinct, place = np.unique(known[mine], return_inverse=True)
                scale = m1[mine] / law.mean_s
                found = law.residual_minimum_moments(distinct)[:, place]
                minima[:, mine] = found * np.stack([scale, scale**2, scale**3])
        return Jobs((m1, m2, m3, m4), (minima[0], minima[1], minima[2]))


def service_moments(service_s: Floats, weights: Floats) -> ServiceMoments:
    """Of service times [laws, atoms]."""
    moments = tuple((service_s**order) @ weights for order in (1, 2, 3, 4))
    spread = moments[1] / moments[0] ** 2
    order = np.argsort(spread, kind="stable")
    picked = order[np.unique(np.linspace(0, order.size - 1, MINIMA).astype(np.intp))]
    nearest = np.argmin(np.abs(spread[:, None] - spread[picked]), axis=1)
    laws = [ServiceLaw(service_s[row], weights) for row in picked]
    return ServiceMoments((moments[0], moments[1], moments[2], moments[3]), laws, nearest)


def first_token_holds(goal: Goal, wait: Wait, own_s: Floats, weights: Floats, shift_s: Floats, stay_s: Floats) -> Marks:
    """Whether wait + own + shift keeps a goal on TTFT, or with the stay on the mean end-to-end time.

    `own_s` is [cells, atoms]. The quantile is checked at its limit: sum_i w_i P(W > limit - shift - own_i) <= 1 - q.
    """
    if goal.metric == "e2e" or goal.statistic == "mean":
        mean = wait.mean_s + own_s @ weights + shift_s
        return np.asarray(mean + (stay_s if goal.metric == "e2e" else 0.0) <= goal.limit_s)
    left = (goal.limit_s - shift_s)[:, None] - own_s
    beyond = np.where(left < 0.0, 1.0, wait.survival(np.maximum(left, 0.0))) @ weights
    return np.asarray((beyond <= 1.0 - PROBABILITY[goal.statistic]) & (wait.load < 1.0))


@dataclass(frozen=True, slots=True, eq=False)
class HandOver:
    """KV on its way in every cell."""

    exposed_s: Floats  # [cells, atoms]
    queue_s: Floats  # [cells]; inf where the network cannot carry it
    load: Floats


def hand_over(cells: Cells, first: Shape, second: Shape, prefill: Floats, decode: Floats) -> HandOver:
    """As `planner.serving.transfer`, with NICs and prompts that differ by cell (MODELLING §5).

    `prefill` and `decode` are workers of the two pools.
    """
    rows, laws = cells.laws.of_cell, cells.laws
    if "transfer" in cells.without:
        return HandOver(np.zeros((cells.count, laws.weights.size)), np.zeros(cells.count), np.zeros(cells.count))
    sizes = np.asarray(sequence_kv_bytes(first.worker.shape, first.worker.kv_dtype, laws.input_tokens))[rows]
    lines = [_nic_bytes_per_s(cells, side) * side.role.worker_accelerators for side in (first, second)]
    one = LINE_FRACTION * np.minimum(lines[0] / first.role.dp, lines[1] / second.role.dp)
    layers = sum(kind.count for kind in first.worker.shape.layers)
    exposed = exposed_transfer_s(sizes, one[:, None], first.service_s[rows], layers) + SET_UP_S
    mean = sizes @ laws.weights
    line = LINE_FRACTION * np.minimum(prefill * lines[0], decode * lines[1])
    load = cells.requests_per_s * mean / line
    return HandOver(exposed, single_server_wait_s(load, mean / one, weighted_scv(sizes, laws.weights)), load)


def _nic_bytes_per_s(cells: Cells, shape: Shape) -> Floats:
    if cells.network_bytes_per_s is not None:
        return cells.network_bytes_per_s
    own = shape.role.accelerator.nic_bytes_per_s
    if not own:
        name = shape.pool.accelerator
        raise FieldError("hardware.network", f"{name} names no NIC; give hardware.network, e.g. 400 Gb/s")
    return np.full(cells.count, own)


@dataclass(frozen=True, eq=False)
class Pair:
    """A prefill shape in front of a decode pool. `replicas` fills up as cells are asked about."""

    cells: Cells
    first: Shape
    queue: ServiceMoments
    second: DecodePool
    least: Floats  # prefill workers by load
    replicas: Floats

    @classmethod
    def of(cls, cells: Cells, first: Shape, queue: ServiceMoments, second: DecodePool) -> Pair:
        rows = cells.laws.of_cell
        work = cells.requests_per_s * queue.moments[0][rows] / first.role.dp
        least = whole(cells, work / utilization_limit(cells))
        possible = np.isfinite(second.replicas) & (first.memory_batch[rows] >= 1.0)
        return cls(cells, first, queue, second, np.where(possible, least, np.inf), np.full(cells.count, np.inf))

    def usd(self, prefill: Floats, chosen: Integers | slice = slice(None)) -> Floats:
        decode = self.second.replicas[chosen] * self.second.shape.usd_per_hour * self.cells.price_factor[chosen]
        return prefill * self.first.usd_per_hour + decode

    def cost(self, chosen: Integers, below: Floats, hopeful: Marks) -> Floats:
        """The fewest prefill workers that keep TTFT, found and remembered; inf where they cost no less than `below`."""
        low = self.least[chosen]
        high = np.ceil(low * MORE_WORKERS) + 16.0
        if "integers" in self.cells.without:
            found = np.where(self._holds(chosen, high), low, np.inf)
        else:
            left = below - self.usd(np.zeros(chosen.size), chosen)
            high = np.minimum(high, np.ceil(left / self.first.usd_per_hour - 1e-9) - 1.0)
            found = least_size(self._holds, chosen, low, high, hopeful)
        self.replicas[chosen] = found
        return self.usd(found, chosen)

    def _holds(self, chosen: Integers, replicas: Floats) -> Marks:
        cells, second = self.cells.at(chosen), self.second
        rows, laws, dp = cells.laws.of_cell, cells.laws, self.first.role.dp
        moved = hand_over(cells, self.first, second.shape, replicas, second.replicas[chosen])
        ok = moved.load < 1.0
        servers = np.maximum(np.round(replicas), 1.0) * dp
        if "queueing" in cells.without:
            servers = np.full(chosen.size, 1e6)
        wait = fitted_wait(servers, cells.requests_per_s, self.queue.jobs(rows, servers), shortest_wait, SHORTEST)
        own = self.first.role.constants.own_prefill_factor * self.first.service_s[rows] + moved.exposed_s
        own = own + self.first.step_wait_s[rows, None]
        shift = second.shift_s[chosen] + moved.queue_s
        stay = laws.mean_steps[rows] * second.mean_itl_s[chosen]
        for goal in cells.goals:
            if goal.metric in ("ttft", "e2e"):
                ok &= first_token_holds(goal, wait, own, laws.weights, shift, stay)
        return ok

    def deployment(self, cell: int) -> Deployment:
        decode = replace(
            self.second.shape.pool,
            replicas=max(int(np.ceil(self.second.replicas[cell])), 1),
            max_batch=max(int(self.second.max_batch[cell]), 1),
        )
        prefill = replace(self.first.pool, replicas=max(int(np.ceil(self.replicas[cell])), 1))
        return Deployment("disaggregated", decode=decode, prefill=prefill)

    def limits(self, cell: int) -> tuple[str, ...]:
        """What holds the two pools, of those that any plan is held by."""
        prefill = "ttft" if self.replicas[cell] > self.least[cell] else "prefill.utilization"
        return prefill, "itl" if self.second.held_by_gap[cell] else "decode.kv_tokens"


def disaggregated(cells: Cells, prefill: Sequence[Shape], decode: Sequence[Shape]) -> Bought:
    """The cheapest pair of pools in every cell."""
    scenario = cells.scenario
    extra = (0,) if "integers" in cells.without else EXTRA_WORKERS
    seconds = [decode_pool(cells, shape, more) for shape in decode for more in extra]
    queues = [service_moments(first.service_s, cells.laws.weights) for first in prefill]
    pairs = [
        Pair.of(cells, first, queue, second)
        for first, queue in zip(prefill, queues, strict=True)
        for second in seconds
        if not why_not_pair(scenario.engine, scenario.model, first.pool, second.shape.pool)
    ]
    if not pairs:
        return Bought.nothing(cells.count)
    cost, winner = cheapest([Bid(pair.usd(pair.least), pair.cost) for pair in pairs], cells.count)
    gap_holds = np.any([np.isfinite(second.replicas) for second in seconds], axis=0)
    fits = np.any([second.shape.memory_batch[cells.laws.of_cell] >= 1.0 for second in seconds], axis=0)
    missing = np.where(~fits, "memory", np.where(gap_holds, "ttft", "itl"))
    return Bought(
        cost,
        [pairs[index].deployment(cell) if index >= 0 else None for cell, index in enumerate(winner)],
        [pairs[index].limits(cell) if index >= 0 else (str(missing[cell]),) for cell, index in enumerate(winner)],
    )
