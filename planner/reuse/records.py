"""Records of the reuse room: what goes in (requests as blocks) and what comes out (curves, laws of cached tokens)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from planner.reuse.counting import Flags, Ints, previous_use, stretch_starts, whole

Floats = NDArray[np.float64]
Eviction = Literal["lru", "leaf-first"]
EVICTIONS: tuple[Eviction, ...] = ("lru", "leaf-first")


@dataclass(frozen=True, eq=False)
class BlockRequests:
    """Requests in time order, each a run of block ids from the prompt's first block to its last.

    Attributes
    ----------
    blocks : shape (references,), ids of all requests one after another; equal ids are one block in the cache.
    offsets : shape (requests + 1,), from 0 to `references`: request r holds blocks[offsets[r]:offsets[r + 1]].
    input_tokens, output_tokens : shape (requests,).
    block_tokens : tokens of a full block; None where blocks have no fixed size (then no token ratio is known).
    time_s : shape (requests,), ascending arrival times; None where not known.

    Raises
    ------
    ValueError
        When shapes disagree, offsets do not ascend from 0 to the number of blocks, or `block_tokens` is below 1.
    """

    blocks: Ints
    offsets: Ints
    input_tokens: Floats
    output_tokens: Floats
    block_tokens: int | None = None
    time_s: Floats | None = None

    def __post_init__(self) -> None:
        requests = self.offsets.size - 1
        if requests < 1 or self.offsets[0] != 0 or self.offsets[-1] != self.blocks.size:
            raise ValueError(f"offsets must run from 0 to the {self.blocks.size} blocks of at least one request")
        if np.any(np.diff(self.offsets) < 0):
            raise ValueError("offsets must not descend")
        for name in ("input_tokens", "output_tokens", "time_s"):
            values = getattr(self, name)
            if values is not None and values.shape != (requests,):
                raise ValueError(f"{name} must hold one number for each of {requests} requests, got {values.shape}")
        if self.block_tokens is not None and self.block_tokens < 1:
            raise ValueError(f"block_tokens must be at least 1, got {self.block_tokens}")

    @property
    def requests(self) -> int:
        return self.offsets.size - 1

    @cached_property
    def previous(self) -> Ints:
        """Place of the last earlier reference to the same block, shape (references,); -1 at a first use."""
        return previous_use(self.blocks)

    @cached_property
    def edges(self) -> Flags:
        """Which references begin a request, shape (references,)."""
        begin = np.zeros(self.blocks.size, dtype=bool)
        begin[self.offsets[:-1][np.diff(self.offsets) > 0]] = True
        return begin

    @cached_property
    def stretches(self) -> tuple[Ints, Ints]:
        """References of one request whose last uses follow one another in one request, or that have none.

        First reference of each stretch, and number of references.
        """
        starts = stretch_starts(self.previous, self.edges)
        return starts, np.diff(starts, append=starts.dtype.type(self.blocks.size))

    def request_of(self, places: Ints) -> Ints:
        """Request that references belong to."""
        return (np.searchsorted(self.offsets, places, side="right") - 1).astype(whole(self.requests))

    def subset(self, chosen: ArrayLike) -> BlockRequests:
        """The requests where `chosen`, shape (requests,) of bool, is true: what one instance of several sees."""
        kept = np.asarray(chosen, dtype=bool)
        counts = np.diff(self.offsets)
        return BlockRequests(
            self.blocks[np.repeat(kept, counts)],
            np.concatenate(([0], np.cumsum(counts[kept]))).astype(np.int64),
            self.input_tokens[kept],
            self.output_tokens[kept],
            self.block_tokens,
            None if self.time_s is None else self.time_s[kept],
        )


@dataclass(frozen=True, slots=True, eq=False)
class HitCurve:
    """Hit ratios by capacity; arrays have one shape. The token ratio is None where blocks have no fixed size.

    Attributes
    ----------
    hit_ratio : share of block references found, each after all earlier blocks of its request.
    token_hit_ratio : share of prompt tokens found.
    ceiling, token_ceiling : the same with room for everything: what is missed then is seen for the first time.
    cold_start_fraction : share of the references that came before a cache of this capacity was full for the first
        time; 1 where it never filled, and the ratio then says what this trace reuses, not what longer traffic would.
    """

    capacity_blocks: Floats
    hit_ratio: Floats
    token_hit_ratio: Floats | None
    cold_start_fraction: Floats
    ceiling: float
    token_ceiling: float | None
    block_tokens: int | None
    requests: int

    @property
    def capacity_tokens(self) -> Floats | None:
        return None if self.block_tokens is None else self.capacity_blocks * self.block_tokens


@dataclass(frozen=True, slots=True, eq=False)
class CachedLengths:
    """Joint law of the cached part of a prompt, the whole prompt, and the output: atoms whose weights sum to 1.

    `cached_tokens` <= `input_tokens`; what prefill still has to compute is their difference, over a context of
    `cached_tokens`.
    """

    cached_tokens: Floats
    input_tokens: Floats
    output_tokens: Floats
    weights: Floats

    @property
    def uncached_tokens(self) -> Floats:
        return self.input_tokens - self.cached_tokens

    @property
    def token_hit_ratio(self) -> float:
        total = float(self.weights @ self.input_tokens)
        return float(self.weights @ self.cached_tokens) / total if total > 0.0 else 0.0


@dataclass(frozen=True, slots=True, eq=False)
class LevelLengths:
    """Joint law of prompts, outputs and what several caches hold of them, the smallest cache first.

    `found_tokens` has shape (levels, atoms); the rest (atoms,), with weights that sum to 1.
    """

    input_tokens: Floats
    output_tokens: Floats
    weights: Floats
    found_tokens: Floats


class Reuse(Protocol):
    """What a caller may ask of a reuse curve, wherever it came from."""

    @property
    def block_tokens(self) -> int | None: ...
    @property
    def ceiling(self) -> float: ...
    @property
    def token_ceiling(self) -> float | None: ...

    def hit_ratio(self, capacity_blocks: ArrayLike) -> Floats:
        """Share of block references found by capacity; the shape of `capacity_blocks`."""
        ...

    def token_hit_ratio(self, capacity_blocks: ArrayLike) -> Floats | None:
        """Share of prompt tokens found by capacity; None where blocks have no fixed size."""
        ...

    def joint_law(self, capacity_blocks: float) -> CachedLengths:
        """Cached, input and output tokens of a request at one capacity."""
        ...
