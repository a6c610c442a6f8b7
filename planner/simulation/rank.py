"""One attention rank of a worker: the requests it runs, what they hold, and whether one more fits."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from heapq import heappop
from math import inf
from typing import Literal

from planner.simulation.ledger import Ledger

Policy = Literal["chunked", "prefill-first"]


@dataclass(frozen=True)
class Schedule:
    """How a worker runs. Limits are per rank; `gives_away`: prompts leave once they are prefilled."""

    policy: Policy
    token_budget: int
    max_batch: int
    kv_bytes: float
    gives_away: bool = False
    step_tokens: float = 1.0  # that a decoding sequence gains in a step, by speculation


class Rank:
    """Requests of one attention rank."""

    __slots__ = ("active", "context", "finish", "growth", "kv", "reserved", "residents", "waiting")

    def __init__(self) -> None:
        self.waiting: deque[int] = deque()
        self.active: deque[int] = deque()  # being prefilled
        self.residents: dict[int, int] = {}  # decoding: request -> step it finishes at, in order of joining
        self.finish: list[tuple[int, int]] = []  # heap of the same; entries of preempted requests go stale
        self.context = 0.0  # tokens held by residents
        self.kv = 0.0  # bytes held by residents and prompts
        self.growth = 0.0  # bytes per step
        self.reserved = 0.0

    def fits(self, schedule: Schedule, ledger: Ledger, request: int) -> bool:
        """Whether a request may be admitted beside those that run."""
        if len(self.residents) + len(self.active) >= schedule.max_batch:
            return False
        need = max(ledger.kv_bytes[request] + ledger.kv_bytes_per_step[request], ledger.kv_reserved_bytes[request])
        held = self.kv + self.growth
        return max(held, self.reserved) + need <= schedule.kv_bytes

    def admit(self, ledger: Ledger, request: int) -> None:
        """Take the first that waits."""
        self.waiting.popleft()
        self.kv += ledger.kv_bytes[request]
        self.reserved += ledger.kv_reserved_bytes[request]

    def release(self, ledger: Ledger, request: int) -> None:
        """Give back what a request held."""
        self.kv -= ledger.kv_bytes[request]
        self.reserved -= ledger.kv_reserved_bytes[request]
        if not self.residents and not self.active:
            self.kv, self.reserved = 0.0, 0.0

    def steps_left(self, done: int, kv_bytes: float) -> float:
        """Steps until the next resident finishes, or the cache is full, with `done` steps done so far."""
        finish = self.finish
        while finish and self.residents.get(finish[0][1]) != finish[0][0]:
            heappop(finish)
        steps: float = finish[0][0] - done if finish else inf
        return min(steps, (kv_bytes - self.kv) // self.growth) if self.growth else steps
