"""Waits whose law is a table of times and tails."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from planner.queueing.service import Floats
from planner.queueing.waiting import checked_level


class Tabled:
    """P(W > t) at every point, from `times_s` and `tails` of the points' shape and one more axis.

    The wait is inf where `load` is 1 or more.
    """

    __slots__ = ()

    load: Floats
    probability: Floats
    times_s: Floats
    tails: Floats

    def survival(self, t_s: ArrayLike) -> Floats:
        """P(W > t). A scalar `t_s` gives the points' shape, otherwise its last axis is appended to it."""
        t = np.asarray(t_s, dtype=float)
        asked = np.broadcast_to(t, self.load.shape + (t.shape[-1:] if t.ndim else (1,)))
        rows = zip(asked.reshape(-1, asked.shape[-1]), self._rows(self.times_s), self._rows(self.tails), strict=True)
        out = np.array([np.interp(at, times, tails) for at, times, tails in rows]).reshape(asked.shape)
        out = np.where((self.load >= 1.0)[..., None] | (asked < 0.0), 1.0, out)
        return out if t.ndim else out[..., 0]

    def quantile_s(self, q: ArrayLike) -> Floats:
        """The smallest t with P(W <= t) >= q; shapes as in `survival`. Raises ValueError for q outside (0, 1)."""
        level = checked_level(q)
        tail = np.broadcast_to(1.0 - level, self.load.shape + (level.shape[-1:] if level.ndim else (1,)))
        rows = zip(tail.reshape(-1, tail.shape[-1]), self._rows(self.times_s), self._rows(self.tails), strict=True)
        out = np.array([np.interp(-at, -tails, times) for at, times, tails in rows]).reshape(tail.shape)
        out = np.where(self.probability[..., None] <= tail, 0.0, out)
        out = np.where((self.load >= 1.0)[..., None], np.inf, out)
        return out if level.ndim else out[..., 0]

    def _rows(self, table: Floats) -> Floats:
        return table.reshape(-1, table.shape[-1])
