"""Which rank of which worker a request is sent to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from planner.records import Floats

RouterName = Literal["join-shortest-queue", "fewest-prompts", "least-work", "round-robin", "random"]
ROUTERS: tuple[RouterName, ...] = ("join-shortest-queue", "fewest-prompts", "least-work", "round-robin", "random")


class Router:
    """A front end that sees every rank.

    join-shortest-queue : fewest outstanding requests on the rank, waiting and decoding alike; then the emptiest worker
    fewest-prompts : fewest prompts not prefilled yet, then as above
    least-work : least prefill time left, then as above; with one rank a worker and no decodes a central queue
    round-robin, random : blind

    What is still equal is drawn by lot. `prompts` counts the prompts on every rank.
    """

    def __init__(
        self, policy: RouterName, workers: int, ranks: int, random: np.random.Generator, prompts: Callable[[], Floats]
    ) -> None:
        self._policy = policy
        self._ranks = ranks
        self._prompts = prompts
        self._outstanding = np.zeros(workers * ranks)
        self._free_s = np.zeros(workers * ranks)
        self._random = random
        self._next = -1

    def choose(self, now_s: float, work_s: float) -> tuple[int, int]:
        """Worker and rank of the next request; `work_s` is what its prompt takes on an idle rank."""
        server = self._server(now_s)
        self._outstanding[server] += 1.0
        self._free_s[server] = max(float(self._free_s[server]), now_s) + work_s
        return divmod(server, self._ranks)

    def release(self, worker: int, rank: int) -> None:
        self._outstanding[worker * self._ranks + rank] -= 1.0

    def remove(self, worker: int) -> None:
        """Never choose a worker again."""
        gone = slice(worker * self._ranks, (worker + 1) * self._ranks)
        self._outstanding[gone] = self._free_s[gone] = np.inf

    def _server(self, now_s: float) -> int:
        count = self._outstanding.size
        if count == 1:
            return 0
        if self._policy == "round-robin":
            self._next = (self._next + 1) % count
            while np.isinf(self._outstanding[self._next]):
                self._next = (self._next + 1) % count
            return self._next
        if self._policy == "random":
            alive = np.flatnonzero(np.isfinite(self._outstanding))
            return int(alive[self._random.integers(alive.size)])
        if self._policy == "join-shortest-queue":
            return self._emptiest(np.flatnonzero(self._outstanding == self._outstanding.min()))
        seen = self._prompts() if self._policy == "fewest-prompts" else np.maximum(self._free_s, now_s)
        seen = np.where(np.isinf(self._outstanding), np.inf, seen)
        least = np.flatnonzero(seen == seen.min())
        own = self._outstanding[least]
        return self._emptiest(least[own == own.min()])

    def _emptiest(self, equal: np.ndarray[tuple[int], np.dtype[np.intp]]) -> int:
        """Of ranks with as few requests, one on the worker with the fewest."""
        if self._ranks > 1 and equal.size > 1:
            workers = self._outstanding.reshape(-1, self._ranks).sum(axis=1)[equal // self._ranks]
            equal = equal[workers == workers.min()]
        return int(equal[int(self._random.random() * equal.size)]) if equal.size > 1 else int(equal[0])
