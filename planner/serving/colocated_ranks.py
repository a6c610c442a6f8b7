"""A shared pool whose workers have attention ranks that step together: prompts in chunks beside decoding on all."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from planner.queueing.gaps import BatchSpread, TabledGaps
from planner.queueing.lockstep_wait import LockstepWait
from planner.queueing.service import ServiceLaw
from planner.queueing.shared_ranks import LEVELS, SharedPoint, shared_ranks
from planner.queueing.waiting import Wait
from planner.records import Floats
from planner.roofline.steps import mixed_s, step
from planner.serving.ranks import shared_part_s
from planner.serving.role import Role

_NODES, _BATCHES = 64, 24  # tokens and batches at which steps are timed
MOST_BUDGET_TOKENS = 16384.0


@dataclass(frozen=True, eq=False)
class RoleSteps:
    """Steps of a role's worker, rank by rank; prompt tokens are as long as a prompt token sees (`Role.mixed`)."""

    role: Role

    def rank_s(self, batch: float, tokens: Floats) -> Floats:
        """What the fullest rank does alone beside its share of the batch [s]."""
        batches, nodes, times = self._alone
        row = min(max(int(np.searchsorted(batches, batch)) - 1, 0), batches.size - 2)
        part = min(max((batch - batches[row]) / (batches[row + 1] - batches[row]), 0.0), 1.0)
        return np.asarray(np.interp(tokens, nodes, times[row] + part * (times[row + 1] - times[row])))

    @cached_property
    def _alone(self) -> tuple[Floats, Floats, Floats]:
        """The rank part by batch and prompt tokens, with its jump from none to one token."""
        role, traffic = self.role, self.role.traffic
        share = traffic.input_weights * traffic.new_tokens / traffic.mean_new_tokens
        prompt, cached = float(share @ traffic.input_tokens), float(share @ traffic.cached_tokens)
        batches = np.unique(np.round(np.geomspace(1.0, max(role.memory_batch, 2), _BATCHES)))
        nodes = np.append(0.0, np.geomspace(1.0, max(float(role.token_budget), MOST_BUDGET_TOKENS), _NODES))
        time = mixed_s(
            role.worker,
            batches[:, None],
            traffic.context_moments[0],
            nodes,
            prompt,
            context_scv=traffic.context_scv,
            cached_tokens=cached,
        )
        return batches, nodes, np.asarray(time.total_s - shared_part_s(time)) * role.step_factor

    def shared_s(self, batch: float, tokens: Floats) -> Floats:
        """Experts and the exchange around them, for the batch and all prompt tokens [s]."""
        nodes, times = self._together
        factor = self.role.constants.prefill_factor
        alone, both = np.interp(batch, nodes, times), np.interp(batch + tokens, nodes, times)
        return np.asarray((1.0 - factor) * alone + factor * both) * self.role.step_factor

    @cached_property
    def _together(self) -> tuple[Floats, Floats]:
        worker = self.role.worker
        nodes = np.geomspace(1.0, worker.dp * 2.0 * max(float(self.role.token_budget), MOST_BUDGET_TOKENS), _NODES)
        return nodes, shared_part_s(step(worker, nodes / worker.dp, 1.0, expert_tokens=nodes))


@dataclass(frozen=True, slots=True, eq=False)
class SharedRanks:
    """A pool of such workers at every point; fields as those of `queueing.Colocated`."""

    stable: NDArray[np.bool_]
    load: Floats
    mean_batch: Floats
    mean_itl_s: Floats
    mixed_share: Floats
    wait: Wait | LockstepWait
    own_s: Floats
    residual_s: Floats
    gaps: TabledGaps

    @property
    def behind_s(self) -> Floats:
        """Nothing on top: the chain begins a request where its prompt ends."""
        return np.zeros(self.load.shape)

    def itl_quantile_s(self, q: float) -> Floats:
        """q-quantile of the gaps over tokens."""
        return np.where(self.stable, self.gaps.quantile_s(q), np.inf)


def ranks_law(
    role: Role, arrivals_per_s: Floats, budgets: Floats, replicas: Floats, rough: bool = False
) -> tuple[SharedRanks, Floats]:
    """The law of every point, and what a prompt token adds to a worker's steps; arguments broadcast.

    A router that goes by requests in flight hardly sees where prompts wait, so each of the workers has its
    share of the arrivals by chance.
    """
    traffic, steps = role.traffic, RoleSteps(role)
    prompts = ServiceLaw(traffic.new_tokens, traffic.input_weights)
    rates, tokens, counts = np.broadcast_arrays(arrivals_per_s, budgets, replicas)
    more_s = _own_attention_s(role)
    points = [
        shared_ranks(each / workers, prompts, traffic.mean_steps + 1.0, role.dp, budget, steps, rough)
        for each, budget, workers in zip(rates.ravel(), tokens.ravel(), counts.ravel(), strict=True)
    ]
    points = [replace(point, own_s=np.maximum(point.own_s + more_s, point.decode_s)) for point in points]
    return _pool(points, role, counts), _of(points, "token_s", rates.shape)


def _own_attention_s(role: Role) -> Floats:
    """What the attention of each input atom takes more than that of as many tokens of mean prompts [s]."""
    traffic = role.traffic
    chunk = np.minimum(traffic.new_tokens, role.token_budget)
    share = traffic.input_weights * traffic.new_tokens / traffic.mean_new_tokens
    mean, cached = float(share @ traffic.input_tokens), float(share @ traffic.cached_tokens)
    own = step(role.worker, 0.0, 0.0, chunk, traffic.input_tokens, chunk, traffic.cached_tokens)
    usual = step(role.worker, 0.0, 0.0, chunk, np.full(chunk.shape, mean), chunk, np.full(chunk.shape, cached))
    more = own.attention_prefill_s - usual.attention_prefill_s
    return np.asarray(more * traffic.new_tokens / chunk * role.constants.prefill_factor * role.step_factor)


def _of(points: list[SharedPoint], name: str, shape: tuple[int, ...]) -> Floats:
    values = np.array([getattr(point, name) for point in points])
    return values.reshape((*shape, *values.shape[1:]))


def _pool(points: list[SharedPoint], role: Role, counts: Floats) -> SharedRanks:
    shape = counts.shape
    stable, load = _of(points, "stable", shape).astype(bool), _of(points, "load", shape)
    batch, mean_gap_s = _of(points, "batch", shape), _of(points, "mean_gap_s", shape)
    times, tails = _of(points, "times_s", shape), _of(points, "tails", shape)
    means = np.array([np.trapezoid(point.tails, point.times_s) if point.stable else np.inf for point in points])
    own_s = _of(points, "own_s", shape)
    gaps_s, decode_s = _of(points, "gaps_s", shape), _of(points, "decode_s", shape)
    spread = BatchSpread(batch, batch / (1.0 - _of(points, "growth", shape)))
    wait = LockstepWait(
        servers=counts * role.dp,
        load=np.where(stable, load, np.maximum(load, 1.0)),
        probability=tails[..., 0],
        mean_s=means.reshape(shape),
        residual_s=np.zeros(shape),
        own_s=own_s,
        times_s=times,
        tails=tails,
        step_s=np.where(stable, gaps_s[..., -1], np.inf),
        spread=np.zeros(shape),
    )
    return SharedRanks(
        stable=stable,
        load=wait.load,
        mean_batch=np.where(stable, batch, np.inf),
        mean_itl_s=mean_gap_s,
        mixed_share=_of(points, "mixed_share", shape),
        wait=wait,
        own_s=own_s,
        residual_s=_of(points, "residual_s", shape),
        gaps=TabledGaps(LEVELS, gaps_s, decode_s, spread, _of(points, "gap_variance", shape)),
    )
