"""One pool that does both phases in every cell: the fewest workers, over token budgets and over whole prompts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from planner.queueing.colocated import chunked
from planner.queueing.shared_engine import Colocated
from planner.queueing.whole_prompt import whole_prompt
from planner.records import PROBABILITY, Deployment, Floats, Mode
from planner.roofline.steps import mixed_s
from planner.serving.colocated import LONE_BATCH, MEMORY_SIGMAS
from planner.sizing.candidates import LATENCY_METRICS
from planner.sizing.colocated import LARGEST_BUDGET, SMALLEST_BUDGET
from planner.sizing.crossover.cells import Bid, Cells, Goal, Integers, Marks, cheapest, least_size, rows_at
from planner.sizing.crossover.pools import Bought, first_token_holds, utilization_limit, whole
from planner.sizing.crossover.workers import Shape

BUDGETS = 24  # token budgets between the smallest and the largest, 20 % apart
LEVELS = np.geomspace(1.0, 0.01, 25)  # of the batch at the highest load, falling
TIMED = LEVELS[::6]  # at which chunks are timed: beside few requests a chunk reads experts that nobody else has read
PASSES = 2  # that settle the batch at which steps are taken as linear
BISECTIONS = 40
MORE_WORKERS = 16.0  # a pool is tried up to so many times the size that its load needs, whatever the targets
GAP_SIGMAS = 2.3263


@dataclass(frozen=True, eq=False)
class TokenTimes:
    """Seconds that one prompt token adds to a full step, [laws, budgets, TIMED], beside TIMED x `top` requests."""

    each_s: Floats
    top: Floats  # [laws, budgets]

    def at(self, rows: Integers, budget: Integers, batch: Floats) -> Floats:
        """Of some laws and budgets beside a batch, linear in its log."""
        level = np.maximum(batch, 1e-9) / np.maximum(self.top[rows, budget], 1e-9)
        place = np.clip(np.log(level) / np.log(TIMED[1]), 0.0, TIMED.size - 1.0)
        index = np.minimum(place.astype(np.intp), TIMED.size - 2)
        low, high = (self.each_s[rows, budget, index + step] for step in (0, 1))
        return np.asarray(low + (place - index) * (high - low))

    def at_levels(self) -> Floats:
        """[laws, budgets, LEVELS]."""
        index = np.minimum(np.arange(LEVELS.size) // 6, TIMED.size - 2)
        part = np.arange(LEVELS.size) / 6.0 - index
        return np.asarray(self.each_s[..., index] * (1.0 - part) + self.each_s[..., index + 1] * part)


@dataclass(frozen=True, eq=False)
class Capacity:
    """What one worker carries at every budget and batch, [laws, budgets, levels]."""

    token_s: TokenTimes
    rate: Floats  # requests/s
    mean_gap_s: Floats
    full_step_s: Floats  # at the 99th percentile of the batch


def capacity(cells: Cells, shape: Shape, budgets: Floats) -> Capacity:
    """At the highest load with headroom and at fractions of its batch (QUEUEING §4.2, without partial chunks).

    Mixed steps take the share `top` of the time there: lambda = top C' / (I tf), with 1/gap = top/tf + (1 - top)/td.
    """
    laws, top = cells.laws, utilization_limit(cells)
    prompt, steps = (laws.mean_input_tokens * shape.new_factor)[:, None], laws.mean_steps[:, None]
    token_s = chunk_token_s(cells, shape, budgets, np.minimum(0.2 * budgets, 16.0)[None, :] + 0.0 * prompt)
    for _ in range(2):
        batch = _batch_at_load(shape, budgets, token_s, prompt, steps, top)
        token_s = chunk_token_s(cells, shape, budgets, batch)
    memory = np.maximum(shape.memory_batch, 1e-9)[:, None]
    roomy = (np.sqrt(memory + MEMORY_SIGMAS**2 / 4.0) - MEMORY_SIGMAS / 2.0) ** 2  # b + 3.1 sqrt(b) = memory
    most = np.minimum(batch, roomy)
    times = TokenTimes(chunk_token_s(cells, shape, budgets[:, None], most[..., None] * TIMED), most)
    batch, token_s = most[..., None] * LEVELS, times.at_levels()
    td = _decode_s(shape, batch)
    room = np.maximum(budgets[:, None] - batch, 1.0)
    tf = td + token_s * room
    # lambda from the batch: lambda steps = b [lambda I/C' + (1 - lambda I tf/C')/td]
    rate = batch / td / (steps[..., None] + batch * prompt[..., None] / room * (tf / td - 1.0))
    reached = batch + GAP_SIGMAS * np.sqrt(batch)
    longest = _decode_s(shape, reached) + token_s * np.maximum(budgets[:, None] - reached, 1.0)
    if "mixed-steps" in cells.without:
        longest = _decode_s(shape, reached)
    gap = np.where(rate > 0.0, batch / np.maximum(rate * steps[..., None], 1e-300), np.inf)  # no room: no rate
    return Capacity(times, rate, gap, longest)


def chunk_token_s(cells: Cells, shape: Shape, budgets: Floats, batch: Floats) -> Floats:
    """Seconds that a prompt token adds to a full step beside `batch` requests, [laws, budgets] or with more axes."""
    laws = cells.laws
    room = np.maximum(budgets - batch, 1.0)

    def wide(values: Floats) -> Floats:
        return values.reshape(-1, *(1,) * (batch.ndim - 1))

    seen = wide(laws.seen_tokens)
    cached = np.minimum(wide(shape.hit_fraction) * seen, seen - 1.0)
    full = mixed_s(shape.worker, batch, wide(laws.context[0]), room, seen, cached_tokens=cached).total_s
    each = np.maximum(np.asarray(full) - _decode_s(shape, batch), 1e-9) / room
    if "chunking" in cells.without:  # a token costs no more than one of a whole prompt
        alone = shape.service_s @ laws.weights / (laws.mean_input_tokens * shape.new_factor)
        each = np.minimum(each, wide(alone))
    return each


def _decode_s(shape: Shape, batch: Floats) -> Floats:
    """Decode steps at batches [laws, ...]."""
    flat = batch.reshape(batch.shape[0], -1)
    times = [np.interp(row, shape.batches, curve) for row, curve in zip(flat, shape.step_s, strict=True)]
    return np.array(times).reshape(batch.shape)


def _batch_at_load(shape: Shape, budgets: Floats, token_s: Floats, prompt: Floats, steps: Floats, top: float) -> Floats:
    """The batch where mixed steps take the share `top` of the time, [laws, budgets]."""
    low, high = np.zeros(token_s.shape), np.broadcast_to(budgets, token_s.shape).copy()
    for _ in range(BISECTIONS // 2):
        batch = (low + high) / 2.0
        td, room = _decode_s(shape, batch), np.maximum(budgets - batch, 1e-9)
        tf = td + token_s * room
        leads_to = top * room * steps / prompt / (top + (1.0 - top) * tf / td)
        short = leads_to > batch
        low, high = np.where(short, batch, low), np.where(short, high, batch)
    return low


def colocated(cells: Cells, shapes: Sequence[Shape], mode: Mode) -> Bought:
    """The cheapest pool of one mode in every cell."""
    propose = _every_budget if mode == "colocated-chunked" else _whole_prompts
    pools = [SharedPool.of(cells, shape, mode, propose(cells, shape)) for shape in shapes]
    if not pools:
        return Bought.nothing(cells.count)
    bids = [bid for pool in pools for bid in pool.bids()]
    cost, place = cheapest(bids, cells.count)
    winner = np.where(place >= 0, place // (len(bids) // len(pools)), -1)
    gap_holds = np.any([np.isfinite(pool.least).any(axis=1) for pool in pools], axis=0)
    fits = np.any([pool.shape.memory_batch[cells.laws.of_cell] >= 1.0 for pool in pools], axis=0)
    # whole prompts are started from load alone, so either target may be what no pool keeps
    late = "ttft" if mode == "colocated-chunked" else "latency"
    missing = np.where(~fits, "memory", np.where(gap_holds, late, "itl"))
    return Bought(
        cost,
        [pools[index].deployment(cell) if index >= 0 else None for cell, index in enumerate(winner)],
        [pools[index].limits(cell) if index >= 0 else (str(missing[cell]),) for cell, index in enumerate(winner)],
    )


@dataclass(frozen=True, eq=False)
class Proposal:
    """Token budgets of one shape, [budgets], and how many workers each asks for in every cell, [cells, budgets]."""

    budgets: Floats
    token_s: TokenTimes
    least: Floats  # workers by load, memory and gaps
    carry: Floats  # workers by load and memory alone


def _every_budget(cells: Cells, shape: Shape) -> Proposal:
    """None is left out, whatever the targets: what holds within a tight one is asked about within a looser one too."""
    rows = cells.laws.of_cell
    budgets = np.round(np.geomspace(SMALLEST_BUDGET, LARGEST_BUDGET, BUDGETS) / 16.0) * 16.0
    one = capacity(cells, shape, budgets)
    ok = np.ones((cells.count, budgets.size, LEVELS.size), dtype=bool)
    for goal in cells.goals:
        if goal.metric in LATENCY_METRICS:
            mean = goal.metric == "tpot" or goal.statistic in ("mean", "p50")
            value = (one.mean_gap_s if mean else one.full_step_s)[rows]
            ok &= value <= goal.limit_s[:, None, None]
    ok[..., :-1] |= ok[..., 1:]  # what holds lies between the levels: start above it, and let the full law decide

    def workers(rate: Floats) -> Floats:
        most = np.max(rate, axis=2)
        needed = cells.requests_per_s[:, None] / np.maximum(most, 1e-12)
        return np.where(most > 0.0, whole(cells, needed), np.inf)

    return Proposal(budgets, one.token_s, workers(np.where(ok, one.rate[rows], 0.0)), workers(one.rate[rows]))


def _whole_prompts(cells: Cells, shape: Shape) -> Proposal:
    rows, laws = cells.laws.of_cell, cells.laws
    prefill = (shape.service_s @ laws.weights)[rows]
    memory = np.maximum(shape.memory_batch[rows], 1.0)
    tokens_per_s = rows_at(shape.grid, shape.steps_per_s, rows, memory)
    work = prefill + laws.mean_steps[rows] / tokens_per_s
    alone = shape.service_s @ laws.weights - shape.step_s[:, 0]
    token_s = np.maximum(alone, 1e-9) / (laws.mean_input_tokens * shape.new_factor)
    times = TokenTimes(np.repeat(token_s[:, None, None], TIMED.size, axis=2), np.ones((token_s.size, 1)))
    low = whole(cells, cells.requests_per_s * work / utilization_limit(cells))
    return Proposal(np.array([float(shape.role.token_budget)]), times, low[:, None], low[:, None])


@dataclass(frozen=True, eq=False)
class SharedPool:
    """One shape at every token budget. `replicas` and `chosen` fill up as cells are asked about."""

    cells: Cells
    shape: Shape
    mode: Mode
    budgets: Floats
    token_s: TokenTimes
    least: Floats  # [cells, budgets] workers by load, memory and gaps
    most: Floats  # [cells, budgets] workers to try at most
    likely: Integers  # the budget to ask about first: of those with the fewest workers the largest, soonest done
    replicas: Floats  # [cells]
    chosen: Integers  # the budget of those

    @classmethod
    def of(cls, cells: Cells, shape: Shape, mode: Mode, one: Proposal) -> SharedPool:
        fits = shape.memory_batch[cells.laws.of_cell] >= 1.0
        most = np.ceil(MORE_WORKERS * one.carry) + 16.0
        least = np.where(fits[:, None] & (one.least <= most), one.least, np.inf)
        likely = np.argmin(least - 1e-6 * np.arange(one.budgets.size), axis=1)
        none = np.full(cells.count, np.inf), np.zeros(cells.count, dtype=np.intp)
        return cls(cells, shape, mode, one.budgets, one.token_s, least, most, likely, *none)

    def bids(self) -> list[Bid]:
        """The likely budget, then all others at once."""
        usd, each = self.shape.usd_per_hour, np.arange(self.cells.count)
        first = Bid(self.least[each, self.likely] * usd, partial(self._cost, False))
        if self.budgets.size == 1:
            return [first]
        others = np.where(np.arange(self.budgets.size) == self.likely[:, None], np.inf, self.least)
        return [first, Bid(np.min(others, axis=1) * usd, partial(self._cost, True))]

    def _cost(self, others: bool, chosen: Integers, below: Floats, hopeful: Marks) -> Floats:
        """The fewest workers that keep every goal, found and remembered; inf where they cost no less than `below`."""
        usd = self.shape.usd_per_hour
        asked = self.least[chosen] * usd < below[:, None] * (1.0 - 1e-9)
        asked &= (np.arange(self.budgets.size) == self.likely[chosen, None]) ^ others
        place, budget = np.nonzero(asked)
        cells = chosen[place]
        low, high = self.least[cells, budget], self.most[cells, budget]

        def holds(part: Integers, replicas: Floats) -> Marks:
            return self._holds(cells[part], budget[part], replicas)

        every = np.arange(place.size)
        if "integers" in self.cells.without:
            found = np.where(holds(every, high), low, np.inf)
        else:
            high = np.minimum(high, np.ceil(below[place] / usd - 1e-9) - 1.0)
            found = least_size(holds, every, low, high, hopeful[place])
        table = np.full(asked.shape, np.inf)
        table[place, budget] = found
        best = np.argmin(table - 1e-6 * np.arange(self.budgets.size), axis=1)
        fewest = table[np.arange(chosen.size), best]
        better = fewest < self.replicas[chosen]
        self.replicas[chosen[better]], self.chosen[chosen[better]] = fewest[better], best[better]
        return np.asarray(fewest * usd)

    def _law(self, cells: Cells, budget: Integers, replicas: Floats) -> Colocated:
        """The forms of QUEUEING §4.2-4.3, linearized about the batch that they settle at."""
        shape, laws, rows = self.shape, cells.laws, cells.laws.of_cell
        rate, steps = cells.requests_per_s, laws.mean_steps[rows]
        most = np.maximum(shape.memory_batch[rows], 1.0)
        stretch = (laws.input_factor * shape.new_factor)[rows]
        prompt_tokens_per_s = rate / replicas * (laws.mean_input_tokens * shape.new_factor)[rows]
        batch = rate / replicas * steps * shape.step_s[rows, 0]
        for _ in range(PASSES):
            prefill = prompt_tokens_per_s * self.token_s.at(rows, budget, batch)
            batch = shape.batch_at(rows, rate / replicas * steps / np.maximum(1.0 - prefill, 0.3))
        token_s = self.token_s.at(rows, budget, batch)
        base, slope = self._tangent(rows, np.clip(batch, 1.0, most))
        lengths = (laws.relative_tokens, laws.weights, steps + 1.0)
        others = shape.role.counted_others
        if self.mode == "colocated-whole-prompt":
            return whole_prompt(rate, *lengths, base, slope, token_s, replicas, others, stretch)
        claims = shape.token_claims[rows]
        law = chunked(rate, *lengths, base, slope, token_s, self.budgets[budget], replicas, others, stretch, claims)
        more_s = (claims - 1.0) * laws.relative_tokens * (token_s * stretch)[:, None]
        return replace(law, read_own=lambda: law.own_s + more_s)

    def _tangent(self, rows: Integers, batch: Floats) -> tuple[Floats, Floats]:
        low, high = np.maximum(0.75 * batch, 1.0), 1.25 * batch + 1.0
        at, below, above = (self.shape.step_at(rows, x) for x in (batch, low, high))
        slope = np.clip((above - below) / np.maximum(high - low, 1e-9), 0.0, at / batch)
        slope = np.where(batch < LONE_BATCH, 0.0, slope)
        return at - slope * batch, slope

    def _holds(self, chosen: Integers, budget: Integers, replicas: Floats) -> Marks:
        if not chosen.size:
            return np.zeros(0, dtype=bool)
        cells = self.cells.at(chosen)
        law = self._law(cells, budget, np.maximum(np.ceil(replicas), 1.0))
        spread, memory = law.gaps.batch, self.shape.memory_batch[cells.laws.of_cell]
        fits = spread.mean + MEMORY_SIGMAS * np.sqrt(spread.variance) <= np.maximum(memory, 1.0)
        ok = law.stable & fits & (law.load <= utilization_limit(cells) * (1.0 + 1e-9))
        for goal in cells.goals:
            ok &= self._gap(goal, law) if goal.metric in LATENCY_METRICS else self._ttft(cells, goal, law)
        return np.asarray(ok)

    def _gap(self, goal: Goal, law: Colocated) -> Marks:
        if goal.metric == "tpot" or goal.statistic == "mean":
            return np.asarray(law.mean_itl_s <= goal.limit_s)
        if "mixed-steps" in self.cells.without:
            gaps = law.gaps.decode_s + law.gaps.decode_slope_s * law.gaps.batch.excess(np.asarray(0.99))
            return np.asarray(gaps <= goal.limit_s)
        return np.asarray(law.itl_quantile_s(PROBABILITY[goal.statistic]) <= goal.limit_s)

    def _ttft(self, cells: Cells, goal: Goal, law: Colocated) -> Marks:
        constants, rows = self.shape.role.constants, cells.laws.of_cell
        gap_s, batch = np.where(law.stable, law.mean_itl_s, 1.0), np.where(law.stable, law.mean_batch, 1.0)
        own = self.shape.service_s[rows] if self.mode == "colocated-whole-prompt" else law.own_s
        own = constants.own_prefill_factor * np.where(law.stable[:, None], own, 1.0)
        shift = constants.ttft_fixed_s + constants.ttft_steps * gap_s + constants.ttft_sequence_s * batch
        wait = law.wait
        if "queueing" in cells.without:
            wait = replace(
                wait, probability=0.0 * wait.probability, mean_s=0.0 * np.where(law.stable, wait.mean_s, 0.0)
            )
        stay = cells.laws.mean_steps[rows] * gap_s
        return law.stable & first_token_holds(goal, wait, own, law.own_weights, shift, stay)

    def deployment(self, cell: int) -> Deployment:
        replicas = max(int(np.ceil(self.replicas[cell])), 1)
        budget = int(self.budgets[self.chosen[cell]])
        return Deployment(self.mode, decode=replace(self.shape.pool, replicas=replicas, token_budget=budget))

    def limits(self, cell: int) -> tuple[str, ...]:
        more = self.replicas[cell] > self.least[cell, self.chosen[cell]]
        return ("ttft",) if more else ("colocated.utilization", "itl")
