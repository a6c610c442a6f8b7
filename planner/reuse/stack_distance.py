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

from planner.reuse.counting import PIECE, Ints, pieces, previous_use, smaller_before, stretch_starts, whole
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
        request are hits; `references` + 1, more than there are blocks, where one of them is seen for the first time.
    """

    source: BlockRequests
    eviction: Eviction
    distance: Ints

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
        return self._share(None, float(self.distance.size), capacity_blocks)

    def token_hit_ratio(self, capacity_blocks: ArrayLike) -> Floats | None:
        """Cached over all prompt tokens; the shape of `capacity_blocks`. None where blocks have no fixed size."""
        if self.block_tokens is None:
            return None
        return self._share(self.block_tokens, float(self.source.input_tokens.sum()), capacity_blocks)

    def _share(self, block_tokens: int | None, total: float, capacity_blocks: ArrayLike) -> Floats:
        """References, or their tokens, found at each capacity, over `total`; 0 where the total is."""
        asked = np.floor(np.clip(np.asarray(capacity_blocks, dtype=float), 0.0, self.distance.size)).astype(np.int64)
        capacities, place = np.unique(asked, return_inverse=True)
        found, offsets = np.zeros(capacities.size + 1), self.source.offsets
        for first, end in pieces(offsets):
            least = np.searchsorted(capacities, self.distance[offsets[first] : offsets[end]])
            tokens = None if block_tokens is None else self._tokens(first, end, block_tokens)
            found += np.bincount(least, tokens, minlength=found.size)
        return np.asarray(np.cumsum(found)[place.reshape(asked.shape)] / (total or 1.0), dtype=float)

    def _tokens(self, first: int, end: int, block_tokens: int) -> Floats:
        """Prompt tokens in each block of some requests."""
        offsets = self.source.offsets[first : end + 1]
        sizes = np.diff(offsets)
        before = (np.arange(offsets[0], offsets[-1]) - np.repeat(offsets[:-1], sizes)) * block_tokens
        return np.asarray(np.clip(np.repeat(self.source.input_tokens[first:end], sizes) - before, 0.0, block_tokens))

    def hit_blocks(self, capacity_blocks: float) -> Ints:
        """Blocks found by each request, shape (requests,)."""
        most, offsets = min(capacity_blocks, self.distance.size), self.source.offsets
        result = np.zeros(self.source.requests, dtype=np.int64)
        for first, end in pieces(offsets):
            counted = np.concatenate(([0], np.cumsum(self.distance[offsets[first] : offsets[end]] <= most)))
            result[first:end] = np.diff(counted[offsets[first : end + 1] - offsets[first]])
        return result

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
        return HitCurve(
            capacity_blocks=capacity,
            hit_ratio=self.hit_ratio(capacity),
            token_hit_ratio=self.token_hit_ratio(capacity),
            cold_start_fraction=self._cold_start_fraction(capacity),
            ceiling=self.ceiling,
            token_ceiling=self.token_ceiling,
            block_tokens=self.block_tokens,
            requests=self.source.requests,
        )

    def _cold_start_fraction(self, capacity_blocks: Floats) -> Floats:
        """Share of the references up to the one that is the capacity's last first use; 1 where there are too few."""
        references, wanted = self.distance.size, np.ceil(capacity_blocks)
        result, seen = np.ones(wanted.shape), 0
        for begin in range(0, references, PIECE):
            first = np.flatnonzero(self.source.previous[begin : begin + PIECE] < 0)
            here = (wanted > seen) & (wanted <= seen + first.size)
            result[here] = (begin + first[(wanted[here] - seen).astype(np.int64) - 1] + 1) / references
            seen += first.size
        return result

    def _grid(self) -> Floats:
        references = self.distance.size
        most = float(np.max(self.distance, where=self.distance <= references, initial=0))
        most = most or float(max(self.distinct_blocks, 1))
        least = min(max(1.0, references / self.source.requests), most)
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


def lru_distances(requests: BlockRequests) -> Ints:
    """Stack distance of each reference, blocks looked up and touched one by one; `references` + 1 at a first use.

    distance(i) = |{j < i: previous(j) < previous(i)}| - previous(i): of the references since the last use, those that
    are the first to their block since then, and the block itself. Over a stretch it is the same: from one reference to
    the next, one block enters between the two uses and one leaves.
    """
    starts, sizes = requests.stretches
    previous = requests.previous[starts]
    distances = smaller_before(previous + 1, sizes) - previous
    distances[previous < 0] = requests.blocks.size + 1
    return np.repeat(distances.astype(whole(requests.blocks.size)), sizes)


def leaf_first_distances(requests: BlockRequests, *, leaf_first: bool = True) -> Ints:
    """Stack distance of each reference when a request looks up all blocks first and then touches them.

    Touches run last to first; with `leaf_first` False, first to last. Distances are measured before any touch of the
    request, so a block that it names twice is judged by its last use in an earlier request. Over a stretch they fall
    by one from touch to touch, because a later last use has one block fewer above it.
    """
    never, kind = requests.blocks.size + 1, whole(requests.blocks.size)
    places = np.arange(requests.blocks.size, dtype=kind)
    if leaf_first:
        ends = (requests.offsets[:-1] + requests.offsets[1:] - 1).astype(kind)
        places = np.repeat(ends, np.diff(requests.offsets)) - places
    previous = previous_use(requests.blocks[places])
    earlier = _use_before_request(previous, requests.offsets)
    starts = np.union1d(stretch_starts(previous, requests.edges), stretch_starts(earlier, requests.edges))
    sizes = np.diff(starts, append=requests.blocks.size)
    # of each request first the look-ups, then the touches; only touches count
    of = requests.request_of(starts)
    begin = np.searchsorted(of, of)
    look_up, touch = np.arange(of.size) + begin, np.arange(of.size) + np.searchsorted(of, of, side="right")
    line, weights = np.empty((2, 2 * of.size), dtype=np.int64)
    line[look_up], line[touch] = earlier[starts] + 1, previous[starts] + 1
    weights[look_up], weights[touch] = 0, sizes
    first = smaller_before(line, weights)[look_up] - earlier[starts]
    found = np.repeat((first + starts).astype(kind), sizes) - np.arange(requests.blocks.size, dtype=kind)
    found[earlier < 0] = never
    return found[places]  # `places` is its own inverse


def _use_before_request(previous: Ints, offsets: Ints) -> Ints:
    """Place of the last use of the same block in an earlier request; -1 where there is none."""
    earlier = previous.copy()
    for first, end in pieces(offsets):
        begin = np.repeat(offsets[first:end], np.diff(offsets[first : end + 1]))
        here = earlier[offsets[first] : offsets[end]]
        while (same := np.flatnonzero(here >= begin)).size:
            here[same] = previous[here[same]]
    return earlier


def prefix_distances(distances: Ints, offsets: Ints) -> Ints:
    """The largest distance so far within each request: a block counts only behind all the blocks before it.

    `distances` are overwritten, because a second array of them would be the largest thing in memory.
    """
    step = distances.size + 2
    for first, end in pieces(offsets):
        here = slice(int(offsets[first]), int(offsets[end]))
        lift = np.repeat(np.arange(end - first) * step, np.diff(offsets[first : end + 1]))  # none below the one before
        distances[here] = np.maximum.accumulate(distances[here] + lift) - lift
    return distances


def _cells(rows: Floats) -> list[Floats]:
    """Rows of (uncached, prompt, output) cut by each in turn, at even steps of a half turn's cosine."""
    parts = [rows]
    for column, cells in enumerate(_CELLS):
        edges = (1.0 - np.cos(np.pi * np.arange(1, cells) / cells)) / 2.0
        ordered = (part[np.argsort(part[:, column], kind="stable")] for part in parts)
        parts = [cut for part in ordered for cut in np.split(part, np.rint(edges * len(part)).astype(int)) if len(cut)]
    return parts
