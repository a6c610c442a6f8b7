"""The worker shapes that any cell may want, with the arrays that all cells share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np

from planner.engines.rules import why_not_worker
from planner.errors import FieldError
from planner.queueing.lockstep import Lockstep
from planner.queueing.occupancy import batch_for_memory
from planner.queueing.service import scv_of
from planner.records import Floats, Pool, RoleName, Scenario
from planner.roofline.steps import decode_s, mixed_s, prefill_s
from planner.roofline.worker import Worker
from planner.serving.ranks import prefill_lockstep
from planner.serving.role import MEMORY_QUANTILE, Role, build_role
from planner.serving.traffic import scenario_traffic
from planner.sizing.candidates import EQUAL, LARGEST_BATCH, candidates_of, worker_shapes
from planner.sizing.cost import worker_usd_per_hour
from planner.sizing.crossover.cells import Cells, Integers, Laws, rows_at

BATCHES = 40  # points of the step-time curve over the batch
KEPT = 7  # worker shapes of a role that cells are offered
SHAPE_TERMS = frozenset({"collectives", "cache-locality", "kv-room"})  # that change what one worker does
PROBES = 5  # laws at which shapes are weighed against each other


@dataclass(frozen=True, eq=False)
class Shape:
    """One worker shape in a role, under every length law of the cells."""

    role: Role
    pool: Pool
    laws: Laws
    without: frozenset[str]
    usd_per_hour: float  # of one worker; its accelerators where there is no price to rank by

    @property
    def worker(self) -> Worker:
        return self.role.worker

    @cached_property
    def service_s(self) -> Floats:
        """Prefill of every prompt, alone; of ranks that step together, on a worker with all busy [laws, atoms]."""
        tokens, dp = self.laws.input_tokens, self.role.dp
        cached = np.minimum(self.hit_fraction[:, None] * tokens, np.maximum(tokens - 1.0, 0.0))
        if self._in_step:
            return np.stack([steps.work_s for steps in self._lockstep])
        time = prefill_s(self.worker, tokens, self.role.token_budget, busy_ranks=dp, cached_tokens=cached)
        return np.asarray(time.total_s)

    @cached_property
    def token_claims(self) -> Floats:
        """What a token of each prompt adds to a full step over that of a mean token, [laws, atoms]."""
        laws, tokens = self.laws, self.laws.input_tokens
        cached = np.minimum(self.hit_fraction[:, None] * tokens, np.maximum(tokens - 1.0, 0.0))
        context, budget = laws.context[0][:, None], float(self.role.token_budget)
        full = mixed_s(self.worker, np.ones_like(tokens), context, budget, tokens, cached_tokens=cached).total_s
        added = np.maximum(np.asarray(full) - decode_s(self.worker, 1.0, context).total_s, 1e-12)
        return np.asarray(added / ((tokens * added) @ laws.weights / laws.mean_input_tokens)[:, None])

    @property
    def _in_step(self) -> bool:
        return self.role.name == "prefill" and self.role.dp > 1

    @cached_property
    def _lockstep(self) -> list[Lockstep]:
        """Steps of ranks that read a prompt each, one for each law."""
        tokens, weights, budget = self.laws.input_tokens, self.laws.weights, self.role.token_budget
        cached = np.minimum(self.hit_fraction[:, None] * tokens, np.maximum(tokens - 1.0, 0.0))
        pairs = zip(np.broadcast_to(tokens, cached.shape), cached, strict=True)
        return [prefill_lockstep(self.worker, (row, found, weights), budget) for row, found in pairs]

    @cached_property
    def step_wait_s(self) -> Floats:
        """Half a full step that a prompt waits for on ranks that step together, [laws]."""
        if not self._in_step:
            return np.zeros(self.laws.input_factor.size)
        return np.array([steps.full_step_s / 2.0 for steps in self._lockstep])

    @cached_property
    def hit_fraction(self) -> Floats:
        """Prompt tokens that this worker finds in its cache, [laws]: one that never decodes has no answers there."""
        laws = self.laws
        if self.role.name != "prefill" or "cache-locality" in self.without:
            return laws.hit_fraction
        return laws.hit_fraction * laws.mean_input_tokens / (laws.mean_input_tokens + laws.mean_output_tokens)

    @cached_property
    def new_factor(self) -> Floats:
        """Share of a prompt that is prefilled, [laws]."""
        return 1.0 - self.hit_fraction

    @cached_property
    def memory_batch(self) -> Floats:
        """Largest batch of the worker that KV memory holds, [laws]; 0 where the longest request does not fit."""
        role, laws = self.role, self.laws
        room = role.memory.kv_bytes
        longest = laws.longest_input_tokens if role.name == "prefill" else laws.longest_tokens
        fits = role.kv_bytes_on_rank(longest) <= room
        most = float(min(role.engine_max_batch, LARGEST_BATCH))
        if "kv-room" in self.without:
            return np.where(fits, most * role.dp, 0.0)
        taken = role.kv_bytes_on_rank(laws.seen_tokens) if role.name == "colocated" else np.zeros(fits.shape)
        held = role.kv_bytes_on_rank(laws.context[0])
        per_rank = self._batch(np.maximum(room - taken, 0.0), held)
        return np.where(fits, np.minimum(per_rank, most), 0.0) * role.dp

    def _batch(self, room: Floats, held: Floats) -> Floats:
        """By the moments of what residents hold, bytes in proportion to tokens about the mean."""
        k1, k2, k3 = self.laws.context
        if self.role.reserved_output_fraction >= 1.0:
            mean, square, biased = self.laws.reserved
            per_token = held / k1
            return np.maximum(np.floor((room - 0.5 * square / mean * per_token) / (biased * per_token)), 0.0)
        moments = (held, held**2 * k2 / k1**2, held**3 * k3 / k1**3)
        return np.asarray(batch_for_memory(room, moments, q=MEMORY_QUANTILE), dtype=float)

    @cached_property
    def batches(self) -> Floats:
        """Batches at which steps are timed, [points], of the whole worker."""
        most = max(float(self.memory_batch.max()), 2.0)
        return np.unique(np.round(np.geomspace(1.0, most, BATCHES)))

    @cached_property
    def step_s(self) -> Floats:
        """One decode step at every batch, [laws, points]; never shorter with more in it."""
        k1, k2, _ = self.laws.context
        each = decode_s(self.worker, self.batches[None, :], k1[:, None], scv_of(k1, k2)[:, None]).total_s
        return np.maximum.accumulate(np.asarray(each), axis=1)

    @cached_property
    def grid(self) -> Floats:
        """`batches` once per law."""
        return np.broadcast_to(self.batches, self.step_s.shape)

    def step_at(self, rows: Integers, batch: Floats) -> Floats:
        """Step time of some laws at a batch; below one request the step is no shorter."""
        return rows_at(self.grid, self.step_s, rows, np.maximum(batch, 1.0))

    @cached_property
    def steps_per_s(self) -> Floats:
        """Tokens per second of a worker that always has so many in its batch, ascending, [laws, points]."""
        return np.maximum.accumulate(self.batches[None, :] / self.step_s, axis=1)

    def batch_at(self, rows: Integers, tokens_per_s: Floats) -> Floats:
        """Mean batch at a token rate: b with b / t(b) = rate, below one request in proportion."""
        alone = tokens_per_s * self.step_s[rows, 0]
        return np.where(alone < 1.0, alone, rows_at(self.steps_per_s, self.grid, rows, tokens_per_s))


def shapes(cells: Cells, name: RoleName, basis: str) -> list[Shape]:
    """The worker shapes of a role worth offering, cheapest per unit of work first."""
    found, without = [], cells.without & SHAPE_TERMS
    for pool, role in _possible(cells.scenario, name):
        bound = replace(role, worker=_without(role.worker, without))
        usd = worker_usd_per_hour(pool, role.accelerator, basis)
        shape = Shape(bound, pool, cells.laws, without, usd)
        if shape.memory_batch.max() >= 1.0:
            found.append(shape)
    return _worth_trying(found, name)


@lru_cache(maxsize=12)
def _possible(scenario: Scenario, name: RoleName) -> tuple[tuple[Pool, Role], ...]:
    """Every worker of a role whose weights fit, in one pipeline stage; kept because one scenario is asked again."""
    load = scenario_traffic(scenario)
    found = []
    for accelerator in candidates_of(scenario, name):
        for pool in worker_shapes(scenario, accelerator):
            if why_not_worker(scenario.engine, scenario.model, pool, name, scenario.weights):
                continue
            if name == "colocated" and pool.dp > 1:  # priced point by point, too slowly for a map
                continue
            try:
                role = build_role(scenario, load, name, pool, accelerator)
            except FieldError:
                continue
            if role.memory.fits:
                found.append((pool, role))
    return tuple(found)


def _without(worker: Worker, terms: frozenset[str]) -> Worker:
    if "collectives" not in terms:
        return worker
    return replace(worker, constants=replace(worker.constants, collective_factor=0.0))


def _worth_trying(found: Sequence[Shape], name: RoleName) -> list[Shape]:
    """Shapes that no other beats in speed, price of work and size at some of the laws; the best few."""
    if not found:
        return []
    probes = np.unique(np.linspace(0, found[0].laws.input_factor.size - 1, PROBES).astype(np.intp))
    laws = found[0].laws.at(probes)
    probed = [replace(shape, laws=laws) for shape in found]
    speed = np.array([_speed_s(shape, name) for shape in probed])
    price = np.array([_work_s(shape, name) * shape.usd_per_hour for shape in probed])
    usd = np.array([shape.usd_per_hour for shape in found])
    kept: dict[int, float] = {}
    for column in range(probes.size):
        for index in _undominated(speed[:, column], price[:, column], usd):
            rank = float(price[index, column] / np.nanmin(price[:, column]))
            kept[index] = min(kept.get(index, np.inf), rank)
    chosen = sorted(kept, key=lambda index: (kept[index], index))[:KEPT]
    fastest = int(np.argmin(np.nan_to_num(speed, nan=np.inf, posinf=1e30).sum(axis=1)))
    return [found[index] for index in dict.fromkeys([*chosen, fastest])]


def _undominated(speed: Floats, price: Floats, usd: Floats) -> list[int]:
    alive = np.isfinite(price)
    keep = []
    for index in np.flatnonzero(alive):
        better = alive & (speed <= speed[index] * EQUAL) & (price <= price[index] * EQUAL) & (usd <= usd[index])
        better &= (speed < speed[index]) | (price < price[index]) | (usd < usd[index])
        if not better.any():
            keep.append(int(index))
    return keep


def _speed_s(shape: Shape, name: RoleName) -> Floats:
    if name == "prefill":
        return shape.service_s @ shape.laws.weights
    return shape.step_s[:, 0]


def _work_s(shape: Shape, name: RoleName) -> Floats:
    """Worker-seconds of a mean request in its role; inf where it does not fit."""
    prefill = shape.service_s @ shape.laws.weights / shape.role.dp if name != "decode" else 0.0
    inside = shape.batches[None, :] <= np.maximum(shape.memory_batch, 1.0)[:, None]
    decode = np.max(np.where(inside, shape.steps_per_s, 0.0), axis=1)
    work = prefill + (shape.laws.mean_steps / np.maximum(decode, 1e-12) if name != "prefill" else 0.0)
    return np.where(shape.memory_batch >= 1.0, work, np.inf)
