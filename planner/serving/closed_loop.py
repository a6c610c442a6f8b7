"""N clients in a closed loop on one engine or on two pools: mean TTFT and TPOT of many runs at once (FIDELITY §3-4).

A benchmark keeps N requests in flight and starts them together. The number that decode at once, b, is the fixed point
of a loop: step times follow from b, waiting follows from step times, and b from the share of its life that a request
decodes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

import numpy as np

from planner.errors import FieldError
from planner.records import Accelerator, ClosedLoop, Floats, Pool
from planner.roofline.worker import Worker, build_worker
from planner.serving.admitted import slots, token_budget
from planner.serving.stacked import UNIT, Constants, Integers, Named, Parts, Stack
from planner.shapes.ranks import sequence_kv_bytes, weight_bytes_per_rank

Workers = dict[tuple[object, ...], Worker]  # made so far, by what they are made of

ITERATIONS = 6
_SET_UP_S = 5e-3  # of one cache transfer
_TRANSFER_BYTES_PER_S = 50e9


@dataclass(frozen=True, slots=True, eq=False)
class Point:
    """Steps of every run at a given decoding batch; only `answer` applies the constants that scale their sums."""

    batch: Floats
    decode: Parts
    busy: Parts  # a step with prefill, or the whole prefill of one prompt where another pool does it
    packed: Parts  # a prefill step that holds several prompts, of the first burst where one pool does both
    chunks: Floats
    tokens: Floats  # prefill tokens of a busy step on one rank
    busy_steps: Floats  # per decode step


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """What a client sees, and the batch that this implies; [rows]."""

    ttft_s: Floats
    tpot_s: Floats
    batch: Floats
    own_s: Floats  # of the TTFT, what the request's own prefill takes
    wait_s: Floats  # of the TTFT, behind the prompts of its burst; the mean
    step_s: Floats  # a gap without prefill in it
    busy_gap_s: Floats  # a gap with one; as `step_s` where another pool prefills
    busy_share: Floats  # of the gaps


P = TypeVar("P")


class Loop(Protocol[P]):
    """A closed loop of many runs. `constants` are [rows, constants] in the order of `stacked.CONSTANTS`.

    A point is what takes long to compute at a batch.
    """

    rows: int

    def start(self) -> Floats: ...

    def point(self, constants: Constants, batch: Floats) -> P: ...

    def answer(self, constants: Constants, point: P) -> Answer: ...


def solve(loop: Loop[P], constants: Constants, batch: Floats | None = None, iterations: int = ITERATIONS) -> Answer:
    """The fixed point of the loop by secant steps on the log of the batch, from `batch` where one is near.

    Four steps leave 1e-4 of the batch at worst, six 1e-6. `Answer.batch` is the fixed point.
    """
    batch = loop.start() if batch is None else batch
    step, before, off_before = np.full(loop.rows, 0.7), batch, np.zeros(loop.rows)
    for iteration in range(iterations):
        answer = loop.answer(constants, loop.point(constants, batch))
        off = np.log(answer.batch / batch)
        if iteration:
            moved = np.log(batch / before)
            slope = np.where(np.abs(moved) > 1e-9, (off - off_before) / np.where(moved == 0.0, 1.0, moved), -1.0)
            step = np.clip(-1.0 / np.minimum(slope, -0.5), 0.3, 2.0)
        before, off_before = batch, off
        batch = batch * np.exp(np.clip(step * off, -1.0, 1.0))
    return replace(answer, batch=batch)


@dataclass(frozen=True, slots=True, eq=False)
class Load:
    """What the clients ask for, [rows]."""

    clients: Floats
    prompt: Floats
    output: Floats
    equal_lengths: Floats
    running: Floats  # most that the engine admits at once
    step_tokens: float | Floats = 1.0  # that a request gains in a decode step

    @property
    def steps(self) -> Floats:
        """Decode steps of a request: those of its tokens after the first."""
        return np.maximum(self.output - 1.0, 1.0) / self.step_tokens

    @property
    def context(self) -> Floats:
        return self.prompt + self.output / 2.0

    def window(self, by: Named) -> Floats:
        """Share of the decode time over which requests that started together come back."""
        return np.where(self.equal_lengths > 0, by["fixed_window_fraction"], by["uniform_window_fraction"])

    def first_token_s(self, answer_s: Floats, decode_s: Floats, held_back: Floats) -> Floats:
        """TTFT with the admission queue: those beyond the running ones wait for their turn (Little's law)."""
        running = np.minimum(self.running, np.maximum(self.clients - held_back, self.clients / 2.0))
        return answer_s + (self.clients - running) / running * (decode_s + answer_s)


def burst_wait_s(burst_s: Floats, spread_s: Floats, service_s: Floats) -> Floats:
    """Mean wait in a burst of work `burst_s` that comes spread over `spread_s` to a server of `service_s` each.

    ((x - y) + sqrt((x - y)^2 + 4 x S)) / 4: (x - y) / 2 when the burst overflows its window, the M/D/1 wait
    x S / (2 (y - x)) when it does not (FIDELITY §3).
    """
    over = burst_s - spread_s
    return (over + np.sqrt(over**2 + 4.0 * burst_s * service_s)) / 4.0


class Colocated:
    """Engines that prefill and decode (FIDELITY §3)."""

    def __init__(self, runs: Sequence[ClosedLoop], made: Workers | None = None) -> None:
        self.rows = len(runs)
        made = {} if made is None else made
        runs = [_of_one_replica(run) for run in runs]
        workers, of_row = _workers(runs, decode_side, made)
        self.stack = Stack(workers, of_row)
        self.load = _load(runs, [workers[i] for i in of_row])
        self.mixed = np.array([run.engine.scheduling == "mixed" for run in runs])
        self.budget = _once(runs, lambda run: token_budget(run.engine, run.deployment.decode, run.accelerator))

    def start(self) -> Floats:
        return 0.8 * self.load.running

    def point(self, constants: Constants, batch: Floats) -> Point:
        load, dp = self.load, self.stack.dp
        none = np.zeros(self.rows)
        on_rank = batch / dp
        decode = self.stack.parts(constants, on_rank, load.context, none, none, batch)
        room = np.where(self.mixed, np.maximum(self.budget - self.stack.verified * on_rank, 1.0), self.budget)
        chunks = np.ceil(load.prompt / room)
        completions = batch / load.steps  # per decode step
        arrived = -np.expm1(-completions / dp)  # chance that a rank has a new prompt at all
        per_rank = completions / dp * load.prompt
        tokens = np.minimum(room, np.maximum(load.prompt / chunks, per_rank / arrived))
        busy_steps = per_rank / tokens * np.where(dp > 1, -np.expm1(-completions) / arrived, 1.0)
        decoding = np.where(self.mixed, on_rank, 0.0)
        routed = tokens * np.maximum(1.0, dp * arrived) + np.where(self.mixed, batch, 0.0)
        busy = self.stack.parts(constants, decoding, load.context, tokens, load.prompt, routed)
        full, ranks = self._full_step(), np.minimum(dp, np.maximum(1.0, load.running))
        packed = self.stack.parts(constants, none, load.context, full, load.prompt, full * ranks)
        return Point(batch, decode, busy, packed, chunks, tokens, busy_steps)

    def _full_step(self) -> Floats:
        """Prefill tokens of a step of the burst that the clients start with, on one rank."""
        return np.minimum(self.budget, self.load.running / self.stack.dp * self.load.prompt)

    def answer(self, constants: Constants, point: Point) -> Answer:
        by, load, mixed, dp = Named(constants), self.load, self.mixed, self.stack.dp
        decode_step = self.stack.total_s(point.decode, constants)
        alone = self.stack.total_s(point.busy, constants) - np.where(mixed, decode_step, 0.0)
        launches = self.stack.busy_launches_s(constants)
        extra = by["prefill_factor"] * alone + launches
        gap = decode_step + np.where(mixed, np.minimum(point.busy_steps, 1.0), point.busy_steps) * extra
        busy_step = extra + np.where(mixed, decode_step, 0.0)
        own = point.chunks * busy_step
        service = busy_step * load.prompt / point.tokens
        burst = service * load.running / dp
        decode = load.steps * gap
        wait = burst_wait_s(burst, load.window(by) * decode + np.where(mixed, burst, 0.0), service)
        packed = by["prefill_factor"] * self.stack.total_s(point.packed, constants) + launches
        # prompts of the first burst share steps, but few of them in full: between both ways to serve one
        first_service = np.sqrt(service * packed * load.prompt / self._full_step())
        wait = by["burst_wait_factor"] * wait + by["burst_ahead_fraction"] * first_service * load.running / dp
        before = by["own_prefill_factor"] * own + wait
        first = by["ttft_fixed_s"] + by["ttft_steps"] * gap + before
        batch = load.running * decode / (decode + before)
        request = load.prompt + self.stack.verified * load.steps
        most = dp * self.budget * load.steps / request  # prefill must keep up with completions
        batch = np.where(mixed, np.minimum(batch, most), batch)
        return Answer(
            ttft_s=load.first_token_s(first, decode, by["held_back_requests"]),
            tpot_s=gap / load.step_tokens,
            batch=batch,
            own_s=by["own_prefill_factor"] * own,
            wait_s=by["burst_wait_factor"] * wait,
            step_s=decode_step,
            busy_gap_s=decode_step + extra,
            busy_share=np.minimum(point.busy_steps, 1.0),
        )


class Disaggregated:
    """A pool that prefills and a pool that decodes (FIDELITY §4)."""

    def __init__(self, runs: Sequence[ClosedLoop], made: Workers | None = None) -> None:
        self.rows = len(runs)
        made = {} if made is None else made
        prefill, prefill_row = _workers(runs, prefill_side, made)
        decode, decode_row = _workers(runs, decode_side, made)
        self.prefill, self.decode = Stack(prefill, prefill_row), Stack(decode, decode_row)
        self.workers = _once(runs, lambda run: run.deployment.decode.replicas)
        self.load = _load(runs, [decode[i] for i in decode_row])
        self.servers = _once(runs, lambda run: prefill_side(run)[0].replicas) * self.prefill.dp
        self.budget = _once(runs, lambda run: token_budget(run.engine, *prefill_side(run)))
        moved = _once(runs, lambda run: sequence_kv_bytes(run.model, run.kv_dtype, run.input_tokens))
        self.transfer_s = _SET_UP_S + moved / _TRANSFER_BYTES_PER_S

    def start(self) -> Floats:
        return 0.9 * self.load.running

    def point(self, constants: Constants, batch: Floats) -> Point:
        load, none = self.load, np.zeros(self.rows)
        per_worker = batch / self.workers
        on_rank = np.maximum(per_worker / self.decode.dp, np.minimum(per_worker, 1.0))
        decode = self.decode.parts(constants, on_rank, load.context, none, none, per_worker)
        chunks = np.ceil(load.prompt / self.budget)
        chunk = load.prompt / chunks
        busy = self.prefill.parts(constants, none, none, chunk, load.prompt, chunk)
        tokens = np.maximum(np.floor(self.budget / load.prompt), 1.0) * load.prompt / chunks
        ranks = np.minimum(self.prefill.dp, np.maximum(1.0, load.running))
        packed = self.prefill.parts(constants, none, none, tokens, load.prompt, tokens * ranks)
        return Point(batch, decode, busy, packed, chunks, tokens, none)

    def prefill_s(self, constants: Constants, point: Point) -> tuple[Floats, Floats]:
        """Prefill of a prompt alone, and its share of a packed step on one server [s]."""
        factor, launches = Named(constants)["prefill_factor"], self.prefill.busy_launches_s(constants)
        own = point.chunks * (factor * self.prefill.total_s(point.busy, constants) + launches)
        step = factor * self.prefill.total_s(point.packed, constants) + launches
        return own, step * self.load.prompt / point.tokens

    def answer(self, constants: Constants, point: Point) -> Answer:
        own, each = self.prefill_s(constants, point)
        step = self.decode.total_s(point.decode, constants)
        return apart(Named(constants), self.load, own, each / self.servers, step, self.transfer_s)


def apart(by: Named, load: Load, own_s: Floats, service_s: Floats, step_s: Floats, transfer_s: Floats) -> Answer:
    """What clients of two pools see: prefill alone, prefill of the whole pool per prompt, and a decode step (§4)."""
    decode = load.steps * step_s
    burst = service_s * load.running
    wait = burst_wait_s(burst, load.window(by) * decode + burst, service_s)
    before = by["own_prefill_factor"] * own_s + by["burst_wait_factor"] * wait
    before = np.maximum(before, burst - decode)  # a saturated prefill pool holds all who do not decode
    first = by["ttft_fixed_s"] + by["ttft_steps"] * step_s + before + by["burst_ahead_fraction"] * burst + transfer_s
    return Answer(
        ttft_s=load.first_token_s(first, decode, by["held_back_requests"]),
        tpot_s=step_s / load.step_tokens,
        batch=load.running * decode / (decode + before),
        own_s=by["own_prefill_factor"] * own_s,
        wait_s=by["burst_wait_factor"] * wait,
        step_s=step_s,
        busy_gap_s=step_s,
        busy_share=np.zeros_like(step_s),
    )


# ------------------------------------------------------------------------------------------------------------- building


def spanning(accelerator: Accelerator, ranks: int) -> Accelerator:
    """The accelerator as a worker of `ranks` of them sees it that leaves its scale-up domain over the NICs.

    A two-level all-reduce moves 2 (d - 1) / d S inside a domain of d and 2 (m - 1) / m S / d between m of them; the
    rate is the one that makes a flat all-reduce over all ranks take as long. The same accelerator when it fits.
    """
    domain = max(accelerator.scaleup_domain, accelerator.node_accelerators)
    inside, outside = accelerator.scaleup_bytes_per_s, accelerator.nic_bytes_per_s
    if ranks <= domain or not inside or not outside:
        return accelerator
    domains = ranks / domain
    time = 2.0 * (domain - 1) / domain / inside + 2.0 * (domains - 1) / domains / domain / outside
    rate = 2.0 * (ranks - 1) / ranks / time
    return replace(accelerator, scaleup_domain=ranks, node_accelerators=ranks, scaleup_bytes_per_s=rate)


def decode_side(run: ClosedLoop) -> tuple[Pool, Accelerator]:
    """The pool that decodes, and what it is made of."""
    return run.deployment.decode, run.accelerator


def prefill_side(run: ClosedLoop) -> tuple[Pool, Accelerator]:
    """The pool that prefills, and what it is made of."""
    return run.deployment.prefill or run.deployment.decode, run.prefill_accelerator or run.accelerator


def worker_of(run: ClosedLoop, pool: Pool, accelerator: Accelerator, made: Workers) -> Worker:
    """The worker of one pool of a run with constants of 1, out of those `made` already or added to them.

    Raises
    ------
    FieldError
        The model, the accelerator or the engine cannot be split so.
    """
    if pool.pp > 1:
        raise FieldError("pp", f"pp {pool.pp}: closed loops of pipeline stages are not predicted; use pp 1")
    split = (pool.tp, pool.pp, pool.ep, pool.dp)
    key = (run.model.id, run.weights, run.kv_dtype, accelerator.id, run.engine.id, run.speculation, *split)
    if key not in made:
        reached = spanning(accelerator, pool.tp)
        formats = (run.weights, run.kv_dtype)
        made[key] = build_worker(run.model, *formats, reached, run.engine.id, UNIT, *split, run.speculation)
    return made[key]


def why_not(run: ClosedLoop, made: Workers) -> str:
    """Why this run cannot be: a split that nothing runs, or weights that do not fit; empty when it can."""
    for pool, accelerator in (decode_side(run), prefill_side(run)):
        try:
            worker_of(run, pool, accelerator, made)
        except FieldError as error:
            return error.message
        weights = float(weight_bytes_per_rank(run.model, run.weights, pool.tp, pool.pp, pool.ep, pool.dp))
        if weights > accelerator.memory_bytes:
            return (
                f"{run.weights} weights of {run.model.id} take {weights / 1e9:.1f} GB per accelerator at tp {pool.tp}, "
                f"and {accelerator.id} has {accelerator.memory_bytes / 1e9:.1f} GB"
            )
    return ""


def _workers(
    runs: Sequence[ClosedLoop], side: Callable[[ClosedLoop], tuple[Pool, Accelerator]], made: Workers
) -> tuple[list[Worker], Integers]:
    """Every distinct worker once, and for each run which one it is."""
    position: dict[int, int] = {}
    workers: list[Worker] = []

    def place(run: ClosedLoop) -> float:
        worker = worker_of(run, *side(run), made)
        if id(worker) not in position:
            position[id(worker)] = len(workers)
            workers.append(worker)
        return position[id(worker)]

    return workers, _once(runs, place).astype(np.intp)


def _of_one_replica(run: ClosedLoop) -> ClosedLoop:
    """The share of the clients that one of several equal engines serves."""
    replicas = run.deployment.decode.replicas
    if replicas == 1:
        return run
    alone = replace(run.deployment, decode=replace(run.deployment.decode, replicas=1))
    return replace(run, deployment=alone, clients=run.clients / replicas)


def _load(runs: Sequence[ClosedLoop], workers: Sequence[Worker]) -> Load:
    clients = _once(runs, lambda run: run.clients)
    worker = {id(run): one for run, one in zip(runs, workers, strict=True)}
    held = _once(runs, lambda run: slots(run, worker[id(run)]))
    return Load(
        clients,
        _once(runs, lambda run: run.input_tokens),
        _once(runs, lambda run: run.output_tokens),
        _once(runs, lambda run: run.equal_lengths),
        np.minimum(clients, np.maximum(held, 1.0)),
        _once(runs, lambda run: run.step_tokens),
    )


def _once(runs: Sequence[ClosedLoop], value: Callable[[ClosedLoop], float | Floats]) -> Floats:
    """A value of every run, computed once for a run that stands in many rows."""
    known: dict[int, float | Floats] = {}
    for run in runs:
        if id(run) not in known:
            known[id(run)] = value(run)
    return np.array([known[id(run)] for run in runs], dtype=float)
