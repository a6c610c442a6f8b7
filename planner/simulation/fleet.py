"""The event loop: arrivals, routers, prefill workers, cache transfers and workers that decode."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import inf

import numpy as np

from planner.records import Floats
from planner.roofline.collectives import exposed_transfer_s
from planner.simulation.incidents import Incident
from planner.simulation.ledger import Ledger, Log
from planner.simulation.rank import Schedule
from planner.simulation.requests import Requests
from planner.simulation.router import Router, RouterName
from planner.simulation.steps import StepLaw
from planner.simulation.worker import Worker

ARRIVAL, READY, BOUNDARY, BEGIN, FAILURE, MOVE = 0, 1, 2, 3, 4, 5
REPORT_EVERY = 1000  # finished requests

Progress = Callable[[int, int], None]  # requests finished, requests of the run


@dataclass(frozen=True, eq=False)
class PoolPlan:
    """Identical workers: how many, how they step and what they hold."""

    law: StepLaw
    replicas: int
    ranks: int
    schedule: Schedule


@dataclass(frozen=True, eq=False)
class Handover:
    """Caches moving between pools: bytes of each request, rate between two workers, layers pushed one by one."""

    bytes_per_request: Floats
    bytes_per_s: float
    set_up_s: float
    layers: int


@dataclass(eq=False)
class _Pool:
    """Workers in the run; `offset` numbers them among all workers."""

    workers: list[Worker]
    router: Router
    log: Log
    offset: int
    link_free_s: list[float] = field(default_factory=list)
    link_fraction: list[float] = field(default_factory=list)  # of its network cards that a worker still has
    dead: set[int] = field(default_factory=set)


@dataclass(frozen=True, eq=False)
class Run:
    """Everything that a run left behind."""

    requests: Requests
    arrival_s: Floats
    ledger: Ledger
    prefill: Log | None
    decode: Log
    refused: int  # requests that no worker can ever hold


class Fleet:
    """One run. `prefill` is None when one pool does both phases."""

    def __init__(
        self,
        requests: Requests,
        ledger: Ledger,
        decode: PoolPlan,
        prefill: PoolPlan | None,
        handover: Handover | None,
        router: RouterName,
        random: np.random.Generator,
        clients: int = 0,
        think_s: Callable[[int], float] = lambda request: 0.0,
        incident: Incident | None = None,
    ) -> None:
        self._incident = incident
        self._draining: dict[int, float] = {}  # worker that gives its requests away -> when its link is free
        self._requests, self._ledger, self._handover = requests, ledger, handover
        self._clients, self._think_s = clients, think_s
        self._work_s = _idle_prefill_s(prefill or decode, requests, ledger)
        self._prefill = None if prefill is None else _pool(prefill, ledger, router, random, 0)
        offset = 0 if self._prefill is None else len(self._prefill.workers)
        self._decode = _pool(decode, ledger, router, random, offset)
        self._workers = [*(self._prefill.workers if self._prefill else ()), *self._decode.workers]
        final = np.asarray(ledger.kv_bytes) + np.asarray(ledger.kv_bytes_per_step) * requests.output_tokens
        self._refused = final > decode.schedule.kv_bytes
        self._arrival_s = [inf] * requests.count
        self._from: dict[int, int] = {}  # request -> prefill worker
        self._events: list[tuple[float, int, int, int, int]] = []
        self._order = 0
        self._sent = 0
        self._finished = 0

    def run(self, progress: Progress | None = None) -> Run:
        """Until every request has finished."""
        count = self._requests.count
        for _ in range(min(self._clients, count) if self._clients else 1):
            self._send(0.0)
        if self._incident is not None:
            self._push(self._incident.at_s, FAILURE, 0)
        reported = REPORT_EVERY
        while self._events:
            now_s, _, kind, first, second = heappop(self._events)
            if kind == BOUNDARY:
                if self._workers[first].version == second:
                    self._end(first, now_s)
            elif kind == BEGIN:
                self._begin(first, now_s)
            elif kind == ARRIVAL:
                self._arrive(first, now_s)
            elif kind == FAILURE:
                self._fail(now_s)
            elif kind == MOVE:
                self._decode.workers[first].pause(now_s)
                self._pushed(self._decode, first)
            else:
                self._ready(first, second, now_s)
            if progress is not None and self._finished >= reported:
                progress(self._finished, count)
                reported += REPORT_EVERY
        if progress is not None:
            progress(count, count)
        log = None if self._prefill is None else self._prefill.log
        arrival_s = np.asarray(self._arrival_s)
        return Run(self._requests, arrival_s, self._ledger, log, self._decode.log, int(self._refused.sum()))

    # -------------------------------------------------------------------------------------------------------- events

    def _push(self, at_s: float, kind: int, first: int, second: int = 0) -> None:
        self._order += 1
        heappush(self._events, (at_s, self._order, kind, first, second))

    def _send(self, now_s: float) -> None:
        """Schedule the next arrival: the next of the list, or a client's next request."""
        if self._sent < self._requests.count:
            at_s = now_s if self._clients else float(self._requests.arrival_s[self._sent])
            self._push(at_s, ARRIVAL, self._sent)
            self._sent += 1

    def _arrive(self, request: int, now_s: float) -> None:
        self._arrival_s[request] = now_s
        if not self._clients:
            self._send(now_s)
        if self._refused[request]:
            self._finish(request, now_s)
            return
        self._enter(request, now_s)

    def _enter(self, request: int, now_s: float) -> None:
        """Send a request to whoever prefills."""
        pool = self._prefill or self._decode
        worker, rank = pool.router.choose(now_s, self._work_s[request])
        if pool is self._prefill:
            self._from[request] = worker
        self._submit(pool, worker * len(pool.workers[worker].ranks) + rank, request, now_s)

    def _ready(self, server: int, request: int, now_s: float) -> None:
        """A cache has arrived; at a worker that has failed it is lost again."""
        if server // len(self._decode.workers[0].ranks) in self._decode.dead:
            self._lose(request, now_s)
        else:
            self._submit(self._decode, server, request, now_s)

    def _fail(self, now_s: float) -> None:
        """Stop workers, or send them nothing more; what waits there goes to others. Or slow the network of one."""
        incident = self._incident
        if incident is None or incident.kind == "cache node":
            return  # prompts that come from now on were told what they find
        pool = self._prefill if incident.prefill and self._prefill is not None else self._decode
        gone = range(len(pool.workers) - incident.workers, len(pool.workers))
        if incident.kind == "network card":
            for index in gone:
                pool.link_fraction[index] = incident.network_fraction
            return
        for index in gone:
            pool.router.remove(index)
        if incident.kind == "drain":
            self._drain(gone, now_s)
            return
        pool.dead.update(gone)
        free_s = now_s
        for index in gone:
            for request in pool.workers[index].fail(now_s):
                self._ledger.move(request, now_s)
                if incident.kv_bytes_per_s and self._ledger.prompt_tokens[request] == 0.0:
                    free_s = self._fetch(request, free_s)
                else:
                    self._ledger.forget(request)
                    self._enter(request, now_s)

    def _fetch(self, request: int, from_s: float) -> float:
        """Bring the cache of a request from where it stands to another worker, one after another; when that is done."""
        incident = self._incident
        rate = incident.kv_bytes_per_s if incident is not None else inf
        done_s = from_s + self._ledger.kv_bytes[request] / rate
        target, rank = self._decode.router.choose(from_s, 0.0)
        self._push(done_s, READY, target * len(self._decode.workers[0].ranks) + rank, request)
        return done_s

    def _drain(self, gone: range, now_s: float) -> None:
        for index in gone:
            worker = self._decode.workers[index]
            self._draining[index] = now_s
            for request in worker.withdraw():
                self._ledger.move(request, now_s)
                if self._ledger.prompt_tokens[request]:
                    self._enter(request, now_s)
                else:
                    self._draining[index] = self._fetch(request, self._draining[index])
            self._push(self._draining[index], MOVE, index)

    def _move(self, index: int, now_s: float) -> None:
        """At a boundary of a worker that is drained, send one of its requests away once its link is free."""
        worker = self._decode.workers[index]
        if now_s < self._draining[index]:
            return
        request = worker.take()
        if request >= 0:
            self._ledger.move(request, now_s)
            self._draining[index] = self._fetch(request, now_s)
        if not worker.empty:
            self._push(max(self._draining[index], now_s), MOVE, index)

    def _lose(self, request: int, now_s: float) -> None:
        self._ledger.move(request, now_s)
        self._ledger.forget(request)
        self._enter(request, now_s)

    def _submit(self, pool: _Pool, server: int, request: int, now_s: float) -> None:
        index, rank = divmod(server, len(pool.workers[0].ranks))
        worker = pool.workers[index]
        version = worker.version
        worker.submit(rank, request, now_s)
        if worker.version != version:
            self._pushed(pool, index)

    def _pushed(self, pool: _Pool, index: int) -> None:
        """The boundary of a worker becomes an event."""
        worker = pool.workers[index]
        if worker.boundary_s < inf:
            self._push(worker.boundary_s, BOUNDARY, pool.offset + index, worker.version)

    def _end(self, index: int, now_s: float) -> None:
        """End a step; in a closed loop the next one begins only after clients have answered to what finished."""
        worker = self._workers[index]
        pool = self._prefill if self._prefill is not None and index < self._decode.offset else self._decode
        left = worker.end(now_s)
        for rank, request in left:
            pool.router.release(index - pool.offset, rank)
            if pool is self._prefill and self._ledger.steps[request] > 0:
                self._hand_over(request, now_s)
            else:
                self._finish(request, now_s)
        if pool is self._decode and index - pool.offset in self._draining:
            self._move(index - pool.offset, now_s)
        if self._clients and left:
            self._push(now_s, BEGIN, index)
        else:
            self._begin(index, now_s)

    def _begin(self, index: int, now_s: float) -> None:
        worker = self._workers[index]
        worker.begin(now_s)
        if worker.boundary_s < inf:
            self._push(worker.boundary_s, BOUNDARY, index, worker.version)

    def _hand_over(self, request: int, now_s: float) -> None:
        """Choose who decodes and push the cache there; a worker's network card carries one cache at a time."""
        ledger, handover, source = self._ledger, self._handover, self._from.pop(request)
        ledger.prompt_tokens[request] = 0.0
        target, rank = self._decode.router.choose(now_s, 0.0)
        ready_s = now_s
        if handover is not None and self._prefill is not None:
            size, rate = float(handover.bytes_per_request[request]), handover.bytes_per_s
            own_s = now_s - ledger.start_s[request]
            rate *= min(self._prefill.link_fraction[source], self._decode.link_fraction[target])
            begin_s = now_s + float(exposed_transfer_s(size, rate, own_s, handover.layers)) - size / rate
            out, into = self._prefill.link_free_s, self._decode.link_free_s
            end_s = max(begin_s, out[source], into[target]) + size / rate
            out[source] = into[target] = end_s
            ready_s = end_s + handover.set_up_s
        ledger.ready_s[request] = ready_s
        self._push(ready_s, READY, target * len(self._decode.workers[0].ranks) + rank, request)

    def _finish(self, request: int, now_s: float) -> None:
        self._ledger.finished_s[request] = now_s
        self._finished += 1
        if self._clients:
            self._send(now_s + self._think_s(request))


def _pool(plan: PoolPlan, ledger: Ledger, router: RouterName, random: np.random.Generator, offset: int) -> _Pool:
    log = Log()
    workers = [Worker(plan.law, plan.ranks, plan.schedule, ledger, log) for _ in range(plan.replicas)]
    ranks = [rank for worker in workers for rank in worker.ranks]

    def prompts() -> Floats:
        return np.array([float(len(rank.waiting) + len(rank.active)) for rank in ranks])

    chooser = Router(router, plan.replicas, plan.ranks, random, prompts)
    return _Pool(workers, chooser, log, offset, [0.0] * plan.replicas, [1.0] * plan.replicas)


def _idle_prefill_s(plan: PoolPlan, requests: Requests, ledger: Ledger) -> list[float]:
    """Prefill of each request on a worker that does nothing else: what a router by work goes by [s]."""
    law, budget = plan.law, plan.schedule.token_budget
    known: dict[int, float] = {}
    for tokens, attention_s in zip(requests.input_tokens.tolist(), ledger.attention_s, strict=True):
        if tokens not in known:
            chunks = -(-tokens // budget)
            one_s = law.prefill_s(tokens / chunks) + law.prefill_factor * law.shared_s(0.0, tokens / chunks)
            known[tokens] = chunks * one_s + attention_s
    return [known[tokens] for tokens in requests.input_tokens.tolist()]
