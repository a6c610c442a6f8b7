"""Attention ranks of one worker that step together: what a rank does alone, and what all of them do at once."""

from __future__ import annotations

import numpy as np

from planner.queueing.lockstep import Lockstep
from planner.records import Floats
from planner.roofline.steps import StepTime, prefill_step_s
from planner.roofline.worker import Worker

_NODES = 48  # token counts at which the shared part is timed


def prefill_lockstep(
    worker: Worker, prompts: tuple[Floats, Floats, Floats], budget_tokens: float, step_factor: float = 1.0
) -> Lockstep:
    """Steps of a worker that prefills, for the laws of `queueing.lockstep`.

    Experts and the exchange around them see the tokens of all ranks; the rest of a step is a rank's own.

    Parameters
    ----------
    prompts : tokens, of these cached, and weights of each kind of prompt, each (atoms,).
    """
    tokens, cached, weights = prompts
    chunks = np.maximum(np.ceil((tokens - cached) / budget_tokens), 1.0)
    chunk = (tokens - cached) / chunks
    alone = prefill_step_s(worker, chunk, tokens, chunk * worker.dp, cached)
    nodes = np.geomspace(1.0, worker.dp * max(float(chunk.max()), 1.0), _NODES)
    together = shared_part_s(prefill_step_s(worker, nodes / worker.dp, nodes / worker.dp, nodes)) * step_factor
    return Lockstep(
        rank_s=(np.asarray(alone.total_s) - shared_part_s(alone)) * step_factor,
        tokens=chunk,
        chunks=chunks,
        weights=weights,
        ranks=worker.dp,
        shared_s=lambda total: np.interp(total, nodes, together),
    )


def shared_part_s(time: StepTime) -> Floats:
    """The part of a step that all attention ranks take part in."""
    return np.asarray(time.experts_s + time.collectives_s)
