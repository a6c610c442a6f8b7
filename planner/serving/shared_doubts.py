"""What the laws of a shared pool leave out at the point it settles at (see `doubts`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from planner.queueing.gaps import ChunkedGaps, TabledGaps
from planner.records import PROBABILITY
from planner.serving.doubts import (
    MOVING,
    OK,
    Mark,
    bent_mark,
    edge_mark,
    growing_mark,
    mark,
    packed_mark,
    ranks_mark,
    shared_mark,
    short_mark,
    worst,
)

if TYPE_CHECKING:
    from planner.serving.colocated import ColocatedLaw

NAMES = {"p50": "P50", "p90": "P90", "p95": "P95", "p99": "P99", "p99_9": "P99.9"}


@dataclass(frozen=True, slots=True)
class Doubts:
    """Marks on all gaps, on first tokens besides their wait, on TPOT besides its gaps, and on single quantiles."""

    gaps: Mark
    first: Mark
    pace: Mark
    edges: Mapping[str, Mark]


def doubts(pool: ColocatedLaw) -> Doubts:
    """Marks of one deployment: the first budget and size of `pool`."""
    law, weights = pool.law, pool.token_weights
    mean_gap_s = float(pool.mean_itl_s[0, 0])
    behind_s = max(float(law.behind_s[0, 0] @ weights), 0.0)
    bent, packed = worst((_bent(pool), _growing(pool))), _packed(pool)
    moving = mark(weights.size > 1, MOVING)
    ranks = ranks_mark(pool.role.dp if weights.size > 1 else 1)
    shares = law.mixed_share[0, 0]
    edges = {
        name: worst((moving, packed, *(edge_mark(NAMES[name], 1.0 - q, float(share)) for share in shares)))
        for name, q in PROBABILITY.items()
    }
    plain_s = float(pool.law.gaps.decode_s[0, 0] @ weights)
    shared = shared_mark(mean_gap_s - plain_s, mean_gap_s, float(pool.workers[0]))
    short = short_mark(behind_s, mean_gap_s, _unevenness(pool))
    return Doubts(gaps=worst((bent, shared)), first=worst((bent, packed, ranks)), pace=short, edges=edges)


def bends(pool: ColocatedLaw) -> bool:
    """Whether the linear law is off at the point of `pool`, its first, where stationary load lets the chain replace it.

    Of several replicas the wait, and how far busy ones are spared, stay those of their router.
    """
    role = pool.role
    if role.traffic.arrivals is not None or not isinstance(pool.law.gaps, ChunkedGaps):
        return False
    return worst((_bent(pool), _packed(pool))) != OK


def _bent(pool: ColocatedLaw) -> Mark:
    """Chunks of the mean size, in the busiest window; whole prompts are timed one by one."""
    gaps = pool.law.gaps
    if not isinstance(gaps, ChunkedGaps):
        return OK
    at = (0, 0, int(np.argmax(pool.role.traffic.window_requests_per_s)))
    linear_s = float(gaps.mixed_s[at])
    tokens = (linear_s - float(gaps.decode_s[at])) / float(pool.prefill_token_s[at])
    step = pool.role.mixed(np.array([float(pool.law.mean_batch[at])]), np.array([tokens]))
    return bent_mark(linear_s, float(np.ravel(step.total_s)[0]) * pool.role.step_factor)


def _growing(pool: ColocatedLaw) -> Mark:
    """The worst window of ranks that step together."""
    gaps = pool.law.gaps
    if not isinstance(gaps, TabledGaps):
        return OK
    pairs = zip(gaps.batch.mean[0, 0], gaps.batch.variance[0, 0], strict=True)
    return worst(growing_mark(float(batch), float(variance)) for batch, variance in pairs)


def _packed(pool: ColocatedLaw) -> Mark:
    """The busiest window; a prompt falls into a step of twice its mean residual."""
    if not isinstance(pool.law.gaps, ChunkedGaps):
        return OK
    traffic = pool.role.traffic
    at = (0, 0, int(np.argmax(traffic.window_requests_per_s)))
    rate = float(traffic.window_requests_per_s[at[2]]) / float(pool.servers[0])
    prompt_s = float(pool.prefill_token_s[at]) * traffic.mean_new_tokens
    own_s = float(pool.law.own_s[at] @ pool.law.own_weights)
    return packed_mark(rate, 2.0 * float(pool.law.residual_s[at]), prompt_s, own_s)


def _unevenness(pool: ColocatedLaw) -> float:
    """E[1/n] E[n] - 1 over the steps n of requests that have any."""
    traffic = pool.role.traffic
    steps = (traffic.joint_output_tokens - 1.0) / traffic.step_tokens
    some = steps > 0.0
    if not some.any():
        return 0.0
    steps, weights = np.maximum(steps[some], 1.0), traffic.joint_weights[some] / traffic.joint_weights[some].sum()
    return float(weights @ (1.0 / steps)) * float(weights @ steps) - 1.0
