"""What prompts find in a cache, as lengths: from a trace's blocks or from described sessions, level by level.

A level is a place that holds KV, the accelerator's memory first. Levels hold what nearer ones hold (write-through),
so their capacities never fall, and a token counts for the nearest level that has it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from planner.records import Arrivals, EngineProfile, Floats, Lengths, PromptBlocks, Sessions, Workload
from planner.reuse import BlockRequests, Session, SubAgents, TraceReuse, reuse_curve, session_reuse

EVERYTHING_TOKENS = 1e15
MOST_USERS = 1e9  # that the reuse room takes


def knows_reuse(workload: Workload) -> bool:
    """Whether hits follow from a capacity; a stated ratio does not."""
    return workload.sessions is not None or _sized_blocks(workload)


def _sized_blocks(workload: Workload) -> bool:
    """Whether the prompts of the workload's trace are known as blocks of so many tokens."""
    blocks = workload.blocks
    return blocks is not None and blocks.block_tokens is not None and workload.arrivals is not None


def with_hits(workload: Workload, capacities_tokens: Sequence[float], engine: EngineProfile) -> Workload:
    """The workload with what its prompts find at levels of so many tokens, the accelerator's memory first.

    Tokens beyond the first level are `fetched_tokens`, one row per further level.
    """
    levels = np.maximum.accumulate(np.asarray(capacities_tokens, dtype=float))
    if workload.blocks is not None and workload.arrivals is not None and _sized_blocks(workload):
        return _traced(workload, workload.blocks, workload.arrivals, levels)
    if workload.sessions is not None:
        return session_hits(workload, described(workload.sessions), tuple(levels), engine)
    return workload


def ceiling_fraction(workload: Workload, engine: EngineProfile) -> float:
    """Share of prompt tokens found with room for everything."""
    return hit_fractions(with_hits(workload, (EVERYTHING_TOKENS,), engine))[0]


def hit_fractions(workload: Workload) -> tuple[float, ...]:
    """Share of all prompt tokens that each level hands over, the accelerator's memory first."""
    lengths = workload.lengths
    total = float(lengths.weights @ lengths.input_tokens)
    if lengths.cached_tokens is None:
        return (workload.prefix_hit_fraction,)
    fetched = np.zeros((0, lengths.weights.size)) if lengths.fetched_tokens is None else lengths.fetched_tokens
    near = lengths.cached_tokens - fetched.sum(axis=0)
    return tuple(float(lengths.weights @ tokens) / total for tokens in (near, *fetched))


# -------------------------------------------------------------------------------------------------------------- traces


def block_requests(blocks: PromptBlocks, arrivals: Arrivals) -> BlockRequests:
    """The requests of a trace as the reuse room takes them."""
    lengths = (arrivals.input_tokens, arrivals.output_tokens)
    return BlockRequests(blocks.ids, blocks.offsets, *lengths, blocks.block_tokens, arrivals.time_s)


@lru_cache(maxsize=4)
def trace_reuse(blocks: PromptBlocks, arrivals: Arrivals) -> TraceReuse:
    """Exact reuse of a trace, in the order in which engines free blocks."""
    return reuse_curve(block_requests(blocks, arrivals), "leaf-first")


def _traced(workload: Workload, blocks: PromptBlocks, arrivals: Arrivals, levels: Floats) -> Workload:
    reuse, block_tokens = trace_reuse(blocks, arrivals), float(blocks.block_tokens or 1)
    found = np.stack([reuse.cached_tokens(level / block_tokens) for level in levels])
    inputs = arrivals.input_tokens
    weights = np.full(inputs.size, 1.0 / inputs.size)
    lengths = Lengths(inputs, arrivals.output_tokens, weights, found[-1], np.diff(found, axis=0))
    return replace(workload, lengths=lengths, arrivals=replace(arrivals, cached_tokens=found[-1]))


# ------------------------------------------------------------------------------------------------------------ sessions


def described(sessions: Sessions, wait_s: float = 0.0, users: float | None = None) -> Session:
    """The record of the reuse room; `wait_s` is the time that a turn waits with its context idle."""
    sub = sessions.sub_agents
    return Session(
        users=min(sessions.users if users is None else users, MOST_USERS),
        turns=sessions.turns,
        system_tokens=sessions.system_tokens,
        first_tokens=sessions.first_tokens,
        growth_tokens=sessions.growth_tokens,
        output_tokens=sessions.output_tokens,
        think_s=sessions.think_s,
        think_scv=sessions.think_scv,
        service_s=wait_s,
        outputs_cached=True,
        size_factors=sessions.size_factors,
        sub_agents=None
        if sub is None
        else SubAgents(
            sub.children,
            sub.every_turns,
            sub.shared_tokens,
            sub.first_tokens,
            sub.turns,
            sub.growth_tokens,
            sub.output_tokens,
            sub.gap_s,
        ),
    )


def session_hits(
    workload: Workload, session: Session, capacities_tokens: Sequence[float], engine: EngineProfile
) -> Workload:
    """The workload with what the turns of `session` find at levels of so many tokens.

    The accelerator's memory keeps answers for the next prompt to repeat; levels below it where the engine puts them
    there.
    """
    levels = np.maximum.accumulate(np.maximum(np.asarray(capacities_tokens, dtype=float), 0.0))
    block_tokens = engine.memory.block_tokens
    answers = [True] + [engine.tiers_hold == "everything"] * (levels.size - 1)
    law = session_reuse(session, block_tokens).levels_law((levels / block_tokens).tolist(), answers)
    found = np.maximum.accumulate(law.found_tokens)
    lengths = Lengths(law.input_tokens, law.output_tokens, law.weights, found[-1], np.diff(found, axis=0))
    return replace(workload, lengths=lengths)
