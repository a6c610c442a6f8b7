"""Two pools in a closed loop from tables: prefill by clients and decode steps by batch, each worker timed once.

What a pair of pools costs then is reading two tables, and there are many more pairs than workers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from planner.records import ClosedLoop, Floats
from planner.serving.closed_loop import Answer, Disaggregated, Load, apart
from planner.serving.stacked import Constants, Named

LEAST_BATCH, BATCHES = 0.02, 56  # of the table of decode steps, up to the most clients


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """Decode steps of one worker, [laws, batches] at `batches`, evenly spaced in their logs."""

    batches: Floats
    step_s: Floats

    def at(self, batch: Floats) -> Floats:
        """At batches [laws, ratios, clients]."""
        place = np.log(np.maximum(batch, LEAST_BATCH) / LEAST_BATCH) / np.log(self.batches[1] / self.batches[0])
        index = np.clip(place.astype(np.intp), 0, self.batches.size - 2)
        part = (batch - self.batches[index]) / (self.batches[index + 1] - self.batches[index])
        law = np.arange(batch.shape[0])[:, None, None]
        low, high = self.step_s[law, index], self.step_s[law, index + 1]
        return np.asarray(low + np.clip(part, 0.0, 1.0) * (high - low))


def decode_steps(runs: Sequence[ClosedLoop], constants: Floats, most: float) -> Steps:
    """One run per law; only their decode pools matter."""
    batches = np.geomspace(LEAST_BATCH, most, BATCHES)
    loop = Disaggregated([run for run in runs for _ in batches])
    rows = np.broadcast_to(constants, (loop.rows, constants.size))
    point = loop.point(rows, np.tile(batches, len(runs)))
    return Steps(batches, loop.decode.total_s(point.decode, rows).reshape(len(runs), batches.size))


@dataclass(frozen=True, slots=True, eq=False)
class Prefills:
    """Prefill of one worker: a prompt alone, and its share of a packed step, [laws, clients]; transfers, [laws]."""

    own_s: Floats
    each_s: Floats
    transfer_s: Floats


def prefills(runs: Sequence[ClosedLoop], constants: Floats, load: Load) -> Prefills:
    """One run per law and number of clients, as `load` has them; only their prefill pools matter."""
    loop = Disaggregated(runs)
    loop.load = load
    rows = np.broadcast_to(constants, (loop.rows, constants.size))
    own, each = loop.prefill_s(rows, loop.point(rows, load.running))
    return Prefills(own, each, loop.transfer_s)


class Pair:
    """The loop of `serving.closed_loop.Disaggregated` with times from tables; arrays [laws, ratios, clients]."""

    def __init__(
        self, first: Prefills, second: Steps, load: Load, servers: Floats, shape: tuple[int, int, int]
    ) -> None:
        self.rows = load.clients.size
        self.load, self.shape, self.steps = load, shape, second
        laws, _, clients = shape
        wide = (own.reshape(laws, 1, clients) for own in (first.own_s, first.each_s, first.transfer_s))
        own, each, transfer = (np.broadcast_to(value, shape).ravel() for value in wide)
        self.own_s, self.service_s, self.transfer_s = own, each / servers, transfer

    def start(self) -> Floats:
        return 0.9 * self.load.running

    def point(self, constants: Constants, batch: Floats) -> Floats:
        return self.steps.at(batch.reshape(self.shape)).ravel()

    def answer(self, constants: Constants, point: Floats) -> Answer:
        return apart(Named(constants), self.load, self.own_s, self.service_s, point, self.transfer_s)
