"""Who asks for what: lengths, arrivals, traces, sessions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.records.common import Floats, Note


@dataclass(frozen=True, slots=True)
class SubAgents:
    """Children that a turn of a session starts now and then, all at once; the turn waits for them."""

    children: int
    every_turns: int  # of the parent, from one burst to the next
    shared_tokens: float  # prompt that every child of every user shares
    first_tokens: float  # a child's own task
    turns: int
    growth_tokens: float
    output_tokens: float
    gap_s: float  # from one turn of a child to its next


@dataclass(frozen=True, slots=True)
class Sessions:
    """Users who each hold one session at a time: a closed loop of turns that send everything said so far."""

    users: int
    turns: int
    system_tokens: float  # shared by all
    first_tokens: float  # own part of the first prompt
    growth_tokens: float  # that a user or a tool adds per turn, the answer apart
    output_tokens: float
    think_s: float  # between an answer and the next turn
    think_scv: float = 0.0
    sub_agents: SubAgents | None = None
    size_factors: tuple[float, ...] = (1.0,)  # own tokens of a session over the mean; equally likely, mean 1


@dataclass(frozen=True, slots=True, eq=False)
class Lengths:
    """Joint law of prompt and output lengths: atoms with weights that sum to 1."""

    input_tokens: Floats
    output_tokens: Floats
    weights: Floats
    cached_tokens: Floats | None = None  # of each prompt found in a cache; None: the workload's ratio of all of it
    fetched_tokens: Floats | None = None  # (tiers, atoms) of the cached ones, those that a tier must hand over


@dataclass(frozen=True, slots=True, eq=False)
class Arrivals:
    """Requests of a trace in time order, for load that moves."""

    time_s: Floats
    input_tokens: Floats
    output_tokens: Floats
    duration_s: float
    cached_tokens: Floats | None = None  # as in Lengths


@dataclass(frozen=True, slots=True, eq=False)
class PromptBlocks:
    """Prompts of a trace as cache blocks, in the order of its requests; equal ids are one block.

    Request r holds ids[offsets[r]:offsets[r + 1]]; `block_tokens` is None where blocks have no fixed size.
    """

    ids: NDArray[np.integer[Any]]
    offsets: NDArray[np.integer[Any]]
    block_tokens: int | None


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """A read trace. `arrivals` is None for a list of lengths without times; lengths stand in the order of requests."""

    arrivals: Arrivals | None
    lengths: Lengths
    notes: tuple[Note, ...]
    sha256: str
    format: str
    input_tokens: Floats
    output_tokens: Floats
    blocks: PromptBlocks | None = None
    cached_tokens: Floats | None = None  # that the provider's own cache gave, where the trace says so


@dataclass(frozen=True, slots=True, eq=False)
class Workload:
    """Open-loop traffic. `requests_per_s` is the long-run mean, `peak_factor` what the targets must also survive."""

    requests_per_s: float
    lengths: Lengths
    arrivals: Arrivals | None = None
    peak_factor: float = 1.0
    peak_duration_s: float = 0.0
    description: str = ""
    prefix_hit_fraction: float = 0.0  # of prompt tokens found in a cache, the same share of every prompt
    blocks: PromptBlocks | None = None  # of a trace that has them, in the order of `arrivals`
    sessions: Sessions | None = None  # who sends the requests, where the file says; rate and lengths follow from it
