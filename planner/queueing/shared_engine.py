"""What the laws of an engine that prefills and decodes share, whichever way prompts go (QUEUEING §4.2 and §4.3)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from planner.queueing.gaps import ChunkedGaps, StalledGaps
from planner.queueing.service import Floats
from planner.queueing.total import total_mean_s, total_quantile_s
from planner.queueing.waiting import Jobs, Wait, checked_points

PASSES = 2  # of the queue and the batch it meets
_MOST_CHANCE = 0.98
_SPARED, _SPARED_POWER = 0.4, 0.75
_PRUDENCE = 1.5  # of the fit, at its worst
_MOST_SPARING = 32.0  # replicas; more spare no better than these, as far as is known


@dataclass(frozen=True, eq=False)
class Colocated:
    """One engine kind under load; arrays have the points' shape, and everything is inf where not `stable`.

    Attributes
    ----------
    load : share of the time that the slower of prefill and decode needs.   mean_batch : decoding requests, per replica.
    mixed_share : share of tokens that share their step with a prefill (chunked), or that are followed by a prefill
        (whole prompts).
    wait : for the first chunk to start.   residual_s : of the step in progress, mean.
    own_weights : (atoms,) of `own_s`, (points, atoms): the prefill of each prompt itself.
    behind_s : of the mean gap, what prompts behind a request's own add.
    read_own, read_gaps : compute `own_s` and `gaps`, the law of the gaps, once they are asked for.
    """

    stable: NDArray[np.bool_]
    load: Floats
    mean_batch: Floats
    mean_itl_s: Floats
    mixed_share: Floats
    wait: Wait
    residual_s: Floats
    own_weights: Floats
    behind_s: Floats
    read_own: Callable[[], Floats]
    read_gaps: Callable[[], ChunkedGaps | StalledGaps]

    @cached_property
    def own_s(self) -> Floats:
        return self.read_own()

    @cached_property
    def gaps(self) -> ChunkedGaps | StalledGaps:
        return self.read_gaps()

    def at(self, index: Any) -> Colocated:
        """The same engine at some of the points: `index` goes to every array as in ``array[index]``."""
        names = ("stable", "load", "mean_batch", "mean_itl_s", "mixed_share", "residual_s", "behind_s")
        return replace(
            self,
            **{name: getattr(self, name)[index] for name in names},
            wait=self.wait.at(index),
            read_own=lambda: self.own_s[index],
            read_gaps=lambda: at_points(self.gaps, index),
        )

    def itl_quantile_s(self, q: float) -> Floats:
        """q-quantile of the gaps over tokens."""
        return np.where(self.stable, self.gaps.quantile_s(q), np.inf)

    @property
    def ttft_mean_s(self) -> Floats:
        """Mean time from arrival to the end of the prompt's own prefill."""
        return np.where(self.stable, total_mean_s(self.wait, self._own(), self.own_weights), np.inf)

    def ttft_quantile_s(self, q: float) -> Floats:
        """q-quantile of the same, averaged over prompts: P(W > t - R - own) (QUEUEING §4.2)."""
        total = total_quantile_s(self.wait, self._own(), self.own_weights, q)
        return np.where(self.stable, total, np.inf)

    def _own(self) -> Floats:
        return np.where(self.stable[..., None], self.own_s + self.residual_s[..., None], 1.0)


def at_points(record: Any, index: Any) -> Any:
    """A record of arrays over points, or of such records, at some of the points."""
    if isinstance(record, np.ndarray):
        return record[index]
    return replace(record, **{part.name: at_points(getattr(record, part.name), index) for part in fields(record)})


@dataclass(frozen=True, slots=True, eq=False)
class Behind:
    """What a prompt leaves behind when its prefill ends: other prompts by `chance`, and then prefill for `mean_s`."""

    chance: Floats
    mean_s: Floats


def behind_of(wait: Wait, jobs: Jobs) -> Behind:
    """By level crossing as many departures leave a queue behind as arrivals find one, so the chance is P(W > 0).

    Then the queue left is that of M/G/1 with the chance in place of the load, and each of its jobs opens a busy
    period: E[L | L > 0] m_1 / (1 - p). Exact for one server and for the mean.
    """
    chance = np.minimum(wait.probability, _MOST_CHANCE)
    queue = 1.0 + chance * (1.0 + jobs.scv) / (2.0 * (1.0 - chance))
    return Behind(chance, queue * jobs.moments[0] / (1.0 - chance))


def met_fraction(replicas: Floats, in_flight: Floats, counted_others: float) -> Floats:
    """Of the decoding requests that prompts would meet on one replica alone, those that they meet behind a router.

    Prompts go where the fewest are in flight, so busy replicas are spared: m^(-0.4 / n^0.75) with n in flight on each
    of m. Fitted to 57 token-step simulations (m 2-32, n 0.3-100, load 0.15-0.75), right to 4 % in the median. A router
    that counts no decoding requests spares none.
    """
    spared = counted_others * _SPARED / np.maximum(in_flight, 1e-3) ** _SPARED_POWER
    return np.asarray(np.minimum(replicas, _MOST_SPARING) ** -spared)


def prudent(met: Floats) -> Floats:
    """The same for quantiles: of how often gaps hold a prefill, so that a P99 on the edge errs to the slow side."""
    return np.minimum(_PRUDENCE * met, 1.0)


def engine_points(*arguments: ArrayLike) -> tuple[Floats, ...]:
    """All of one shape, the last being replicas and the first the rate."""
    points = np.broadcast_arrays(*(np.asarray(argument, dtype=float) for argument in arguments))
    checked_points(points[-1], points[0], 1.0)
    for argument, value in zip(arguments[1:-1], points[1:-1], strict=True):
        if not np.all((value >= 0.0) & np.isfinite(value)):
            raise ValueError(f"outputs, step times and budget must be finite and >= 0, got {argument!r}")
    if np.any(points[1] < 1.0):
        raise ValueError(f"mean_output_tokens must be >= 1, got {arguments[1]!r}")
    return tuple(points)
