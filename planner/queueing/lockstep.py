"""Workers whose ranks step together: each step reads a chunk on every busy rank and lasts as long as the slowest.

Attention data parallelism joins its ranks in every step (all-to-all between the experts), so a prompt waits for the
step in progress even on an idle rank, and a long prompt holds up the short ones beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from planner.queueing.service import Floats, scv_of, weighted_scv

_NODES = 49  # busy ranks at which steps are tabulated
_TIMES = 128  # of a tabulated residual


@dataclass(frozen=True, eq=False)
class Lockstep:
    """Steps of one worker; `rank_s`, `tokens`, `chunks` and `weights` are (atoms,), one for each kind of prompt.

    Attributes
    ----------
    rank_s : what a chunk takes on its own rank [s].   tokens : of a chunk.   chunks : steps of a prompt, >= 1.
    weights : of prompts, normalized.   ranks : of the worker.
    shared_s : tokens on all ranks together -> what every rank takes part in [s]; rising.

    Notes
    -----
    A busy rank holds a chunk of kind i with chance w_i n_i / E[n]. Of j busy ranks the slowest has the law F^j, so a
    step takes E[max of j] + shared(j E[x]). Derivation: order statistics of independent draws; exact at saturation,
    where every step reads a chunk on every rank, so that a worker clears ranks / (E[n] T(ranks)) prompts/s.
    """

    rank_s: Floats
    tokens: Floats
    chunks: Floats
    weights: Floats
    ranks: int
    shared_s: Callable[[Floats], Floats]

    @cached_property
    def mean_chunks(self) -> float:
        return float(self.weights @ self.chunks)

    @cached_property
    def chunk_weights(self) -> Floats:
        return self.weights * self.chunks / self.mean_chunks

    @cached_property
    def busy(self) -> Floats:
        """Numbers of busy ranks at which steps are tabulated, from 1 to all, fractions among them."""
        count = min(_NODES, 4 * (self.ranks - 1) + 1)
        return np.geomspace(1.0, self.ranks, count) if count > 1 else np.ones(1)

    @cached_property
    def _ordered(self) -> tuple[Floats, Floats]:
        order = np.argsort(self.rank_s)
        return self.rank_s[order], np.minimum(np.cumsum(self.chunk_weights[order]), 1.0)

    @cached_property
    def _laws(self) -> tuple[Floats, Floats]:
        """Values and chances of the step time at every entry of `busy`, (busy, atoms)."""
        own, below = self._ordered
        chances = np.diff(below ** self.busy[:, None], axis=1, prepend=0.0)
        return own + self._shared_at_busy[:, None], chances

    @cached_property
    def _shared_at_busy(self) -> Floats:
        return np.asarray(self.shared_s(self.busy * float(self.chunk_weights @ self.tokens)))

    @cached_property
    def moments_s(self) -> tuple[Floats, Floats]:
        """E[T] and E[T^2] of a step at every entry of `busy` [s, s^2]."""
        times, chances = self._laws
        return (times * chances).sum(axis=1), (times**2 * chances).sum(axis=1)

    @property
    def full_step_s(self) -> float:
        return float(self.moments_s[0][-1])

    def step_s(self, busy: Floats) -> Floats:
        """Mean step with so many busy ranks, at least 1."""
        return np.interp(busy, self.busy, self.moments_s[0])

    @cached_property
    def residuals(self) -> tuple[Floats, Floats, Floats]:
        """Times t (times,), and at every entry of `busy` P(R > t) of what is left of a step at a random time, and
        P(T* > t) of the whole step that a random time falls into; (busy, times)."""
        values, chances = self._laws
        times = np.linspace(0.0, float(values.max()), _TIMES)
        mean = self.moments_s[0]
        left, whole = np.empty((mean.size, times.size)), np.empty((mean.size, times.size))
        for row, (value, chance) in enumerate(zip(values, chances, strict=True)):
            upto, work = np.append(0.0, np.cumsum(chance)), np.append(0.0, np.cumsum(chance * value))
            place = np.searchsorted(value, times, side="right")
            longer = mean[row] - work[place]
            left[row] = (longer - times * (1.0 - upto[place])) / mean[row]
            whole[row] = longer / mean[row]
        return times, np.clip(left, 0.0, 1.0), np.clip(whole, 0.0, 1.0)

    def own_s(self, busy: Floats) -> Floats:
        """Time of a whole prompt of each kind beside others, (points, atoms), `busy` (points,) its own rank included.

        n_i (E[max(r_i, max of the others)] + shared). At `ranks` their mean is E[n] T(ranks): what a prompt costs.
        """
        own, below = self._ordered
        others = np.asarray(busy, dtype=float)[:, None] - 1.0
        chances = np.diff(np.where(others > 0.0, below**others, 1.0), axis=1, prepend=0.0)
        over = np.cumsum((chances * own)[:, ::-1], axis=1)[:, ::-1] - chances * own
        slowest = np.empty_like(chances)
        slowest[:, np.argsort(self.rank_s)] = np.cumsum(chances, axis=1) * own + over
        beside = others * float(self.chunk_weights @ self.tokens)
        return self.chunks * (slowest + self.shared_s(self.tokens + beside))

    @cached_property
    def own_at_busy_s(self) -> Floats:
        return self.own_s(self.busy)

    @property
    def work_s(self) -> Floats:
        """What prompts of each kind cost a rank of a worker that is busy on all ranks, (atoms,)."""
        return np.asarray(self.own_at_busy_s[-1])

    @cached_property
    def spread(self) -> float:
        """SCV of the time between departures of a rank: of chunks per prompt, and of steps, which all ranks share.

        A long prompt holds its worker for all its steps: `chunks` weighted by the variance that each kind gives.
        """
        mean, square = (float(moment[-1]) for moment in self.moments_s)
        apart = self.chunk_weights * (self.rank_s - float(self.chunk_weights @ self.rank_s)) ** 2
        held = float(apart @ self.chunks) / max(float(apart.sum()), 1e-300) if apart.any() else 1.0
        of_steps, of_chunks = float(scv_of(mean, square)) * held, float(weighted_scv(self.chunks, self.weights))
        return of_chunks + self.ranks * of_steps / self.mean_chunks
