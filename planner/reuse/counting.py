"""How many smaller numbers stand before each number: the counting under every stack distance."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.integer[Any]]

_TOGETHER = 200_000  # elements that are parted in one go


def smaller_before(values: Ints, counted: NDArray[np.bool_]) -> Ints:
    """For each element, how many counted elements before it are smaller.

    Parameters
    ----------
    values : shape (n,), whole numbers of at least 0.   counted : shape (n,), which elements count for later ones.

    Returns
    -------
    array
        Shape (n,).

    Notes
    -----
    One stable partition per bit, highest first (as a wavelet tree is built): elements that agree in all higher bits
    stand together in their old order, so each with the bit set passes the counted ones before it without. Time
    O(n log max(values)), all in array operations.
    """
    result = np.zeros(values.size, dtype=np.int64)
    if not values.size:
        return result
    kind = np.int32 if max(values.size, int(values.max())) < 2**31 else np.int64
    bits = int(values.max()).bit_length()
    pending: list[tuple[NDArray[Any], NDArray[Any], int]]
    pending = [(np.arange(values.size, dtype=kind), values.astype(kind), bits)]
    while pending:  # many are parted in two and counted apart, which takes less memory than all at once
        order, key, bits = pending.pop()
        if order.size <= _TOGETHER or not bits:
            _count(result, order, key, counted, bits)
            continue
        one = (key >> (bits - 1)) & 1 == 1
        result[order[one]] += np.cumsum(counted[order] & ~one)[one]
        pending += [(order[side], key[side], bits - 1) for side in (~one, one)]
    return result


def _count(result: Ints, order: NDArray[Any], key: NDArray[Any], counted: NDArray[np.bool_], bits: int) -> None:
    """Adds up `result` for the elements of `order`, which agree in all but the last `bits` bits of their `key`."""
    if order.size < 2:
        return
    for bit in range(bits - 1, -1, -1):
        one = (key >> bit) & 1 == 1
        group = key >> (bit + 1)
        start = np.flatnonzero(np.concatenate(([True], group[1:] != group[:-1])))
        sizes = np.diff(np.append(start, order.size))
        passed = _before(counted[order] & ~one)
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


def _before(flags: NDArray[np.bool_]) -> Ints:
    """How many flags are set before each place."""
    return np.asarray(np.cumsum(flags) - flags, dtype=np.int64)


def previous_use(blocks: Ints) -> Ints:
    """Place of the last earlier reference to the same block, shape of `blocks`; -1 where there is none."""
    order = np.argsort(blocks, kind="stable")
    same = blocks[order][1:] == blocks[order][:-1]
    previous = np.full(blocks.size, -1, dtype=np.int64)
    previous[order[1:][same]] = order[:-1][same]
    return previous
