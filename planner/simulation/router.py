"""Which rank of which worker a request is sent to."""

from __future__ import annotations

from typing import Literal

import numpy as np

RouterName = Literal["join-shortest-queue", "round-robin", "random", "least-work"]
ROUTERS: tuple[RouterName, ...] = ("join-shortest-queue", "round-robin", "random", "least-work")


class Router:
    """Sees outstanding requests (or the prompt work left) of every rank, as a front end does.

    Join-shortest-queue takes the rank with the fewest outstanding requests, then the emptiest worker, then by lot.
    """

    def __init__(self, policy: RouterName, workers: int, ranks: int, random: np.random.Generator) -> None:
        self._policy = policy
        self._ranks = ranks
        self._servers = workers * ranks
        self._keys = np.zeros(self._servers, dtype=np.int64)
        self._outstanding = np.zeros(workers, dtype=np.int64)
        self._free_s = np.zeros(self._servers)
        self._random = random
        self._next = -1

    def choose(self, now_s: float, work_s: float) -> tuple[int, int]:
        """Worker and rank of the next request; `work_s` is what its prompt takes on an idle rank."""
        server = self._server(now_s, work_s)
        worker, rank = divmod(server, self._ranks)
        self._count(worker, rank, 1)
        return worker, rank

    def release(self, worker: int, rank: int) -> None:
        self._count(worker, rank, -1)

    def _count(self, worker: int, rank: int, change: int) -> None:
        if self._ranks > 1:
            self._outstanding[worker] += change
        self._keys[worker * self._ranks + rank] += change

    def _server(self, now_s: float, work_s: float) -> int:
        if self._servers == 1:
            return 0
        if self._policy == "round-robin":
            self._next = (self._next + 1) % self._servers
            return self._next
        if self._policy == "random":
            return int(self._random.integers(self._servers))
        if self._policy == "least-work":
            server = int(np.argmin(np.maximum(self._free_s, now_s)))
            self._free_s[server] = max(float(self._free_s[server]), now_s) + work_s
            return server
        keys = self._keys
        if self._ranks > 1:
            keys = keys * (int(self._outstanding.max()) + 1) + np.repeat(self._outstanding, self._ranks)
        least = np.flatnonzero(keys == keys.min())
        return int(least[int(self._random.random() * least.size)]) if least.size > 1 else int(least[0])
