"""Exact stack distances of block references, by counting instead of keeping a stack, and the curves they give.

The stack distance of a reference is the number of different blocks touched since its block was touched last, itself
included: a least-recently-used cache of C blocks holds the block exactly when the distance is at most C (Mattson,
Gecsei, Slutz and Traiger, Evaluation techniques for storage hierarchies, IBM Systems Journal 9(2), 1970). One pass
therefore gives every capacity at once. A prompt block is only of use when all blocks before it are there too, so the
distance that counts is the largest so far in the request: the prefix rule.

Two orders of touching:

    lru          a request looks up and touches its blocks one by one, first to last
    leaf-first   a request looks up all its blocks, then touches them last to first, so that the tail of a chain is
                 evicted before its head: the order in which serving engines free blocks
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from planner.reuse.counting import Ints, previous_use, smaller_before
from planner.reuse.records import EVICTIONS, BlockRequests, CachedLengths, Eviction, Floats, HitCurve

GRID_POINTS = 20
MOST_ATOMS = 2048
_CELLS = (32, 8, 8)  # of what is left to compute, of prompts, of outputs; their product is MOST_ATOMS


@dataclass(frozen=True, slots=True, eq=False)
class TraceReuse:
    """Exact reuse of a trace under one eviction order, for every capacity.

    Attributes
    ----------
    source : the requests it was computed from.
    distance : shape (references,), smallest capacity (blocks) at which the reference and all earlier ones of its
        request are hits; inf where one of them is seen for the first time.
    """

    source: BlockRequests
    eviction: Eviction
    distance: Floats

    @property
    def block_tokens(self) -> int | None:
        return self.source.block_tokens

    @property
    def distinct_blocks(self) -> int:
        return int((self.source.previous < 0).sum())

    @property
    def ceiling(self) -> float:
        """Hit ratio with room for every block."""
        return float(self.hit_ratio(self.source.blocks.size))

    @property
    def token_ceiling(self) -> float | None:
        """Token hit ratio with room for every block."""
        ratio = self.token_hit_ratio(self.source.blocks.size)
        return None if ratio is None else float(ratio)

    def hit_ratio(self, capacity_blocks: ArrayLike) -> Floats:
        """Hit blocks over block references; the shape of `capacity_blocks`. 0 for a trace without blocks."""
        return _share(self.distance, None, float(self.distance.size), capacity_blocks)

    def token_hit_ratio(self, capacity_blocks: ArrayLike) -> Floats | None:
        """Cached over all prompt tokens; the shape of `capacity_blocks`. None where blocks have no fixed size."""
        if self.block_tokens is None:
            return None
        sizes = np.diff(self.source.offsets)
        before = (np.arange(self.distance.size) - np.repeat(self.source.offsets[:-1], sizes)) * self.block_tokens
        tokens = np.clip(np.repeat(self.source.input_tokens, sizes) - before, 0.0, self.block_tokens)
        return _share(self.distance, tokens, float(self.source.input_tokens.sum()), capacity_blocks)

    def hit_blocks(self, capacity_blocks: float) -> Ints:
        """Blocks found by each request, shape (requests,)."""
        hit = np.isfinite(self.distance) & (self.distance <= capacity_blocks)
        counted = np.concatenate(([0], np.cumsum(hit)))
        return np.asarray(np.diff(counted[self.source.offsets]), dtype=np.int64)

    def cached_tokens(self, capacity_blocks: float) -> Floats:
        """Prompt tokens found by each request, shape (requests,): hit blocks x block size, at most the prompt.

        Raises
        ------
        ValueError
            When blocks have no fixed size.
        """
        if self.block_tokens is None:
            raise ValueError("block_tokens is not known, so blocks cannot be told in tokens")
        hit = self.hit_blocks(capacity_blocks) * float(self.block_tokens)
        return np.asarray(np.minimum(hit, self.source.input_tokens), dtype=float)

    def joint_law(self, capacity_blocks: float) -> CachedLengths:
        """Cached, input and output tokens of a request at one capacity, in at most 2,048 atoms.

        More requests than that are cut by what is left to compute, then by prompt, then by output, finer in the
        tails, and each cell becomes its mean: all means stay exact. Raises ValueError when blocks have no fixed size.
        """
        cached = self.cached_tokens(capacity_blocks)
        rows = np.stack(
            (self.source.input_tokens - cached, self.source.input_tokens, self.source.output_tokens), axis=1
        )
        atoms, counts = np.unique(rows, axis=0, return_counts=True)
        if len(atoms) > MOST_ATOMS:
            cells = _cells(rows)
            counts = np.array([len(cell) for cell in cells])
            atoms = np.array([cell.mean(axis=0) for cell in cells])
        weights = counts / counts.sum()
        return CachedLengths(atoms[:, 1] - atoms[:, 0], atoms[:, 1].copy(), atoms[:, 2].copy(), weights)

    def hit_curve(self, capacity_blocks: ArrayLike | None = None) -> HitCurve:
        """Ratios at the given capacities, or at up to 20 log-spaced ones.

        Those run from the blocks of a mean request to the least capacity that reaches the ceiling.
        """
        capacity = self._grid() if capacity_blocks is None else np.atleast_1d(np.asarray(capacity_blocks, dtype=float))
        seen = np.cumsum(self.source.previous < 0)  # distinct blocks after each reference
        full = np.searchsorted(seen, capacity) + 1
        return HitCurve(
            capacity_blocks=capacity,
            hit_ratio=self.hit_ratio(capacity),
            token_hit_ratio=self.token_hit_ratio(capacity),
            cold_start_fraction=np.minimum(full / max(seen.size, 1), 1.0),
            ceiling=self.ceiling,
            token_ceiling=self.token_ceiling,
            block_tokens=self.block_tokens,
            requests=self.source.requests,
        )

    def _grid(self) -> Floats:
        finite = self.distance[np.isfinite(self.distance)]
        most = float(finite.max()) if finite.size else float(max(self.distinct_blocks, 1))
        least = min(max(1.0, self.distance.size / self.source.requests), most)
        return np.unique(np.ceil(np.geomspace(least, most, GRID_POINTS) - 1e-9))


def reuse_curve(requests: BlockRequests, eviction: Eviction = "lru") -> TraceReuse:
    """Exact reuse of a trace at every capacity.

    Raises
    ------
    ValueError
        An eviction order other than lru and leaf-first.
    """
    if eviction not in EVICTIONS:
        raise ValueError(f"eviction must be one of {', '.join(EVICTIONS)}, got {eviction}")
    distances = lru_distances(requests) if eviction == "lru" else leaf_first_distances(requests)
    return TraceReuse(requests, eviction, prefix_distances(distances, requests.offsets))


def lru_distances(requests: BlockRequests) -> Floats:
    """Stack distance of each reference, blocks looked up and touched one by one; inf at a first use.

    distance(i) = |{j < i: previous(j) < previous(i)}| - previous(i): of the references since the last use, those that
    are the first to their block since then, and the block itself.
    """
    previous = requests.previous
    counts = smaller_before(previous + 1, np.ones(previous.size, dtype=bool))
    return np.where(previous < 0, np.inf, (counts - previous).astype(float))


def leaf_first_distances(requests: BlockRequests, *, leaf_first: bool = True) -> Floats:
    """Stack distance of each reference when a request looks up all blocks first and then touches them.

    Touches run last to first; with `leaf_first` False, first to last. Distances are measured before any touch of the
    request, so a block that it names twice is judged by its last use in an earlier request.
    """
    sizes = np.diff(requests.offsets)
    places = np.arange(requests.blocks.size)
    if leaf_first:
        places = np.repeat(requests.offsets[:-1] + requests.offsets[1:] - 1, sizes) - places
    touched = requests.blocks[places]  # `places` is its own inverse
    previous = previous_use(touched)
    earlier = _use_before_request(touched, requests.request_of)
    # of each request first the look-ups, then the touches; only touches count
    begin = np.repeat(requests.offsets[:-1], sizes)
    look_up = places + begin
    touch = np.arange(touched.size) + np.repeat(requests.offsets[1:], sizes)
    line = np.empty(2 * touched.size, dtype=np.int64)
    line[look_up], line[touch] = earlier + 1, previous + 1
    counted = np.zeros(line.size, dtype=bool)
    counted[touch] = True
    found = smaller_before(line, counted)[look_up] - earlier
    return np.where(earlier < 0, np.inf, found.astype(float))[places]


def _use_before_request(blocks: Ints, request_of: Ints) -> Ints:
    """Place of the last use of the same block in an earlier request; -1 where there is none."""
    order = np.argsort(blocks, kind="stable")
    block, request = blocks[order], request_of[order]
    other_block = np.concatenate(([True], block[1:] != block[:-1]))
    other = other_block | np.concatenate(([True], request[1:] != request[:-1]))
    start = np.maximum.accumulate(np.where(other, np.arange(order.size), 0))
    result = np.empty_like(order)
    result[order] = np.where(other_block[start], -1, order[start - 1])
    return result


def prefix_distances(distances: Floats, offsets: Ints) -> Floats:
    """The largest distance so far within each request: a block counts only behind all the blocks before it."""
    never = distances.size + 1  # beyond every finite distance
    highest = np.where(np.isfinite(distances), distances, never).astype(np.int64)
    lift = np.repeat(np.arange(offsets.size - 1) * (never + 1), np.diff(offsets))  # no request below the one before
    highest += lift
    np.maximum.accumulate(highest, out=highest)
    highest -= lift
    return np.where(highest == never, np.inf, highest.astype(float))


def _share(distance: Floats, weights: Floats | None, total: float, capacity_blocks: ArrayLike) -> Floats:
    """Weight (1 each when None) of the finite distances up to each capacity, over `total`; 0 where the total is."""
    kept = np.isfinite(distance)
    whole = distance[kept].astype(np.int64)
    gained = np.cumsum(np.bincount(whole, None if weights is None else weights[kept], minlength=1))
    places = np.clip(np.asarray(capacity_blocks, dtype=float), 0.0, gained.size - 1.0).astype(np.int64)
    return np.asarray(gained[places] / total if total > 0.0 else 0.0 * places, dtype=float)


def _cells(rows: Floats) -> list[Floats]:
    """Rows of (uncached, prompt, output) cut by each in turn, at even steps of a half turn's cosine."""
    parts = [rows]
    for column, cells in enumerate(_CELLS):
        edges = (1.0 - np.cos(np.pi * np.arange(1, cells) / cells)) / 2.0
        ordered = (part[np.argsort(part[:, column], kind="stable")] for part in parts)
        parts = [cut for part in ordered for cut in np.split(part, np.rint(edges * len(part)).astype(int)) if len(cut)]
    return parts
