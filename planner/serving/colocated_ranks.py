"""A shared pool whose workers have attention ranks that step together: prompts in chunks beside decoding on all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from planner.queueing.gaps import BatchSpread, TabledGaps
from planner.queueing.lockstep_wait import LockstepWait
from planner.queueing.service import ServiceLaw
from planner.queueing.shared_engine import met_fraction, prudent
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
        factor, verified = self.role.constants.prefill_factor, self.role.worker.verified_tokens * batch
        alone, both = np.interp(verified, nodes, times), np.interp(verified + tokens, nodes, times)
        return np.asarray((1.0 - factor) * alone + factor * both) * self.role.step_factor

    @cached_property
    def _together(self) -> tuple[Floats, Floats]:
        worker = replace(self.role.worker, speculation=None)
        nodes = np.geomspace(1.0, worker.dp * 2.0 * max(float(self.role.token_budget), MOST_BUDGET_TOKENS), _NODES)
        return nodes, shared_part_s(step(worker, nodes / worker.dp, 1.0, expert_tokens=nodes))


@dataclass(frozen=True, eq=False)
class SharedRanks:
    """A pool of such workers at every point; fields and properties as those of `queueing.Colocated`."""

    role: Role
    points: tuple[SharedPoint, ...]
    counts: Floats  # of workers, and with it the shape of the points
    stable: NDArray[np.bool_]
    load: Floats
    mean_batch: Floats
    mean_itl_s: Floats
    mixed_share: Floats
    residual_s: Floats
    gaps: TabledGaps
    routed: Wait | LockstepWait | None = None  # behind a router, where it is known; else arrivals go by chance

    @property
    def behind_s(self) -> Floats:
        """Nothing on top: the chain begins a request where its prompt ends."""
        return np.zeros(self.load.shape)

    def itl_quantile_s(self, q: float) -> Floats:
        """q-quantile of the gaps over tokens."""
        return np.where(self.stable, self.gaps.quantile_s(q), np.inf)

    def sparing(self, met: Floats) -> SharedRanks:
        """Behind a router that spares busy workers: prompts meet that fraction of the decodes that chance has."""
        plain_s = self.gaps.decode_s
        lone_gap_s = np.where(self.stable, self.mean_itl_s, plain_s)
        mean_gap_s = plain_s + met * (lone_gap_s - plain_s)
        spared = mean_gap_s / lone_gap_s
        spread = self.gaps.batch
        gaps = replace(
            self.gaps,
            batch=BatchSpread(spared * spread.mean, spared * spread.variance),
            variance=met[..., None] * self.gaps.variance,
            share=prudent(met),
        )
        return replace(
            self,
            mean_batch=self.mean_batch * spared,
            mean_itl_s=np.where(self.stable, mean_gap_s, np.inf),
            mixed_share=prudent(met) * self.mixed_share,
            gaps=gaps,
        )

    @cached_property
    def own_s(self) -> Floats:
        """(points, atoms) the prefill of each prompt itself."""
        more_s = _own_attention_s(self.role)
        own = [np.maximum(point.first.own_s + more_s, point.decode_s) for point in self.points]
        return np.array(own).reshape((*self.counts.shape, -1))

    @cached_property
    def wait(self) -> Wait | LockstepWait:
        """For the first chunk to start."""
        if self.routed is not None:
            return self.routed
        shape, laws = self.counts.shape, [point.first for point in self.points]
        times, tails = (
            np.array([getattr(law, name) for law in laws]).reshape((*shape, -1)) for name in ("times_s", "tails")
        )
        return LockstepWait(
            servers=self.counts * self.role.dp,
            load=self.load,
            probability=tails[..., 0],
            mean_s=np.where(self.stable, np.trapezoid(tails, times), np.inf),
            residual_s=np.zeros(shape),
            own_s=self.own_s,
            times_s=times,
            tails=tails,
            step_s=np.where(self.stable, self.gaps.gaps_s[..., -1], np.inf),
            spread=np.zeros(shape),
        )


def ranks_law(
    role: Role, arrivals_per_s: Floats, budgets: Floats, replicas: Floats, rough: bool = False
) -> tuple[SharedRanks, Floats]:
    """The law of every point, and what a prompt token adds to a worker's steps; arguments broadcast.

    A router that goes by requests in flight hardly sees where prompts wait, so each of the workers has its
    share of the arrivals by chance, but for sparing busy workers.
    """
    settle = _settling(role, rough)
    rates, tokens, counts = np.broadcast_arrays(arrivals_per_s, budgets, replicas)
    points = tuple(
        settle(each / workers, budget)
        for each, budget, workers in zip(rates.ravel(), tokens.ravel(), counts.ravel(), strict=True)
    )

    def of(name: str) -> Floats:
        values = np.array([getattr(point, name) for point in points])
        return values.reshape((*counts.shape, *values.shape[1:]))

    stable, load, batch = of("stable").astype(bool), of("load"), of("batch")
    spread = BatchSpread(batch, batch / (1.0 - of("growth")))
    law = SharedRanks(
        role=role,
        points=points,
        counts=counts,
        stable=stable,
        load=np.where(stable, load, np.maximum(load, 1.0)),
        mean_batch=np.where(stable, batch, np.inf),
        mean_itl_s=of("mean_gap_s"),
        mixed_share=of("mixed_share"),
        residual_s=of("residual_s"),
        gaps=TabledGaps(LEVELS, of("gaps_s"), of("decode_s"), spread, of("gap_variance")),
    )
    if role.dp > 1:
        law = law.sparing(met_fraction(counts, batch + load, role.counted_others))
    return law, of("token_s")


def settles(role: Role, replicas: int) -> Callable[[float], bool]:
    """Whether the pool settles, within its memory, at so many requests/s."""
    settle = _settling(role, rough=False)

    def at(requests_per_s: float) -> bool:
        point = settle(requests_per_s / (replicas * role.batches), float(role.token_budget))
        return point.stable and point.batch <= role.memory_batch

    return at


def _settling(role: Role, rough: bool) -> Callable[[float, float], SharedPoint]:
    """Where one worker settles, by its prompts/s and the token budget of a rank."""
    traffic, steps = role.traffic, RoleSteps(role)
    prompts = ServiceLaw(traffic.new_tokens, traffic.input_weights)
    outputs = traffic.mean_steps + 1.0
    return lambda rate, budget: shared_ranks(rate, prompts, outputs, role.dp, budget, steps, rough)


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
