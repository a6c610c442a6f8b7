"""How many smaller numbers stand before each number: the counting under every stack distance."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from planner.reuse.records import Ints


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
    order = np.arange(values.size)
    for bit in range(int(values.max()).bit_length() - 1, -1, -1):
        key = values[order]
        one = (key >> bit) & 1 == 1
        group = key >> (bit + 1)
        start = np.flatnonzero(np.concatenate(([True], group[1:] != group[:-1])))
        sizes = np.diff(np.append(start, values.size))
        passed = _before(counted[order] & ~one)
        result[order[one]] += (passed - np.repeat(passed[start], sizes))[one]
        # where each goes: zeros of the group first, then its ones, both in their old order
        zeros = _before(~one)
        zero_rank = zeros - np.repeat(zeros[start], sizes)
        place = np.arange(values.size) - np.repeat(start, sizes)
        group_zeros = np.repeat(np.add.reduceat((~one).astype(np.int64), start), sizes)
        target = np.repeat(start, sizes) + np.where(one, group_zeros + place - zero_rank, zero_rank)
        moved = np.empty_like(order)
        moved[target] = order
        order = moved
    return result


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
