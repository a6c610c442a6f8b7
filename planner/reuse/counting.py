"""Places of last uses, stretches of them, and how many smaller numbers stand before each: what stack distances rest on.

Prompts repeat prefixes, so the last uses of neighboring references are mostly neighbors too. Such a stretch is counted
as one element with a weight, which makes traces of many blocks as quick as those of few.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.integer[Any]]
Flags = NDArray[np.bool_]

_TOGETHER = 200_000  # elements that are parted in one go
_PIECE_BITS = 20
PIECE = 1 << _PIECE_BITS  # references that are looked at in one go, so that only results take memory by their number


def whole(size: int) -> type[np.signedinteger[Any]]:
    """The smaller type that counts to `size`."""
    return np.int32 if size < 2**31 - 2 else np.int64


def pieces(offsets: Ints) -> Iterator[tuple[int, int]]:
    """Stretches of requests with about `PIECE` references each, or one request with more: first, and past the last."""
    first, requests = 0, offsets.size - 1
    while first < requests:
        end = int(np.searchsorted(offsets, offsets[first] + PIECE, side="right")) - 1
        end = min(max(end, first + 1), requests)
        yield first, end
        first = end


def smaller_before(values: Ints, weights: Ints) -> Ints:
    """For each element, the weight of the elements before it that are smaller.

    Parameters
    ----------
    values : shape (n,), whole numbers of at least 0.   weights : shape (n,), whole numbers of at least 0.

    Returns
    -------
    array
        Shape (n,).

    Notes
    -----
    One stable partition per bit, highest first (as a wavelet tree is built): elements that agree in all higher bits
    stand together in their old order, so each with the bit set passes the weight of those before it without. Time
    O(n log max(values)), all in array operations.
    """
    result = np.zeros(values.size, dtype=whole(int(weights.sum())))
    if not values.size:
        return result
    kind = whole(max(values.size, int(values.max())))
    bits = int(values.max()).bit_length()
    pending: list[tuple[Ints, Ints, int]]
    pending = [(np.arange(values.size, dtype=kind), values.astype(kind), bits)]
    while pending:  # many are parted in two and counted apart, which takes less memory than all at once
        order, key, bits = pending.pop()
        if order.size <= _TOGETHER or not bits:
            _count(result, order, key, weights, bits)
            continue
        one = (key >> (bits - 1)) & 1 == 1
        result[order[one]] += np.cumsum(np.where(one, 0, weights[order]))[one]
        pending += [(order[side], key[side], bits - 1) for side in (~one, one)]
    return result


def _count(result: Ints, order: Ints, key: Ints, weights: Ints, bits: int) -> None:
    """Adds up `result` for the elements of `order`, which agree in all but the last `bits` bits of their `key`."""
    if order.size < 2:
        return
    for bit in range(bits - 1, -1, -1):
        one = (key >> bit) & 1 == 1
        group = key >> (bit + 1)
        start = np.flatnonzero(np.concatenate(([True], group[1:] != group[:-1])))
        sizes = np.diff(np.append(start, order.size))
        passed = _before(np.where(one, 0, weights[order]))
        result[order[one]] += (passed - np.repeat(passed[start], sizes))[one]
        # where each goes: zeros of the group first, then its ones, both in their old order
        zeros = _before(~one)
        zero_rank = zeros - np.repeat(zeros[start], sizes)
        place = np.arange(order.size) - np.repeat(start, sizes)
        group_zeros = np.repeat(np.add.reduceat((~one).astype(np.int64), start), sizes)
        target = np.repeat(start, sizes) + np.where(one, group_zeros + place - zero_rank, zero_rank)
        moved, moved_key = np.empty_like(order), np.empty_like(key)
        moved[target], moved_key[target] = order, key
        order, key = moved, moved_key


def _before(weights: NDArray[Any]) -> Ints:
    """Weight before each place."""
    return np.asarray(np.cumsum(weights) - weights, dtype=np.int64)


def previous_use(blocks: Ints) -> Ints:
    """Place of the last earlier reference to the same block, shape of `blocks`; -1 where there is none."""
    kind = whole(blocks.size)
    previous = np.empty(blocks.size, dtype=kind)
    if not blocks.size:
        return previous
    table = _from_zero(blocks)
    last = np.full(int(table.max()) + 1, -1, dtype=kind)
    for begin in range(0, blocks.size, PIECE):
        piece = table[begin : begin + PIECE]
        keyed = (piece.astype(np.int64) << _PIECE_BITS) | np.arange(piece.size)
        keyed.sort()  # by block, then by place
        place, block = (keyed & (PIECE - 1)) + begin, keyed >> _PIECE_BITS
        first = np.concatenate(([True], block[1:] != block[:-1]))
        before = np.concatenate(([-1], place[:-1]))
        before[first] = last[block[first]]
        previous[place] = before
        ends = np.append(np.flatnonzero(first)[1:] - 1, block.size - 1)
        last[block[ends]] = place[ends]
    return previous


def _from_zero(blocks: Ints) -> Ints:
    """Ids that may index an array of not much more than their number: themselves, or their rank."""
    if blocks.min() >= 0 and blocks.max() < 4 * blocks.size + PIECE:
        return blocks
    return np.asarray(np.unique(blocks, return_inverse=True)[1])


def stretch_starts(previous: Ints, edges: Flags) -> Ints:
    """Where stretches begin in which each last use is the place after that of the reference before, or there is none.

    `edges` : shape of `previous`, places that begin a stretch both as a reference and as a last use.
    """
    starts = []
    for begin in range(0, previous.size, PIECE):
        here = previous[begin : begin + PIECE]
        before = np.concatenate((previous[begin - 1 : begin] if begin else [-2], here[:-1]))
        joined = np.where(here < 0, before == -1, (before >= 0) & (here == before + 1))
        joined &= ~edges[begin : begin + PIECE] & ~((here >= 0) & edges[here])
        starts.append(np.flatnonzero(~joined) + begin)
    return np.concatenate(starts).astype(whole(previous.size)) if starts else np.zeros(0, dtype=np.int64)
