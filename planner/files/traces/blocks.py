"""Block ids of a trace's prompts: one name space, the size of a block, and what is odd about them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from planner.errors import Fault, InputError
from planner.files.traces.formats import MOONCAKE, RAGPULSE
from planner.files.traces.rows import Ints, Rows
from planner.records import Note, PromptBlocks

_MOONCAKE_TOKENS = 512
_USUAL_TOKENS = (512, 16, 32, 64, 128, 256, 1024, 8, 1, 2, 4, 2048, 4096)
_MOST_FAULTS = 10
_TOGETHER = 50_000  # rows, or ids, that are looked at in one go


def with_own_ids(files: list[Rows]) -> list[Rows]:
    """Files whose ids mean something in that file only, with ids that no other file has."""
    result, used = [], 0
    for rows in files:
        if rows.local_ids and rows.blocks is not None:
            distinct, places = np.unique(rows.blocks, return_inverse=True)
            result.append(replace(rows, blocks=places.astype(np.int64) + used))
            used += distinct.size
        else:
            result.append(rows)
    return result


def block_tokens(rows: Rows, given: int | None) -> tuple[int | None, list[Note]]:
    """Tokens of a block: as given, as the file states, or what goes with every row's length.

    Raises
    ------
    InputError
        When the size contradicts rows: a prompt of n tokens has n / size blocks, the last of which may be partial.
    """
    stated = given or rows.block_tokens
    if stated is not None:
        _check(rows, stated, "" if given else " that the file states")
        return stated, []
    if rows.form is RAGPULSE or rows.sizes is None:
        text = "block ids have no fixed size: hit ratios count blocks, none counts tokens"
        return None, [Note("info", text)] if rows.sizes is not None else []
    fitting = next((size for size in _USUAL_TOKENS if not _contradicting(rows, size).any()), None)
    if fitting is None:
        _check(rows, _MOONCAKE_TOKENS, ", as in Mooncake's traces; say another with --block-tokens")
    if fitting != _MOONCAKE_TOKENS or rows.form is not MOONCAKE:
        return fitting, [Note("info", f"blocks of {fitting} tokens, inferred from prompt lengths")]
    return fitting, []


def _contradicting(rows: Rows, size: int) -> NDArray[np.bool_]:
    if rows.sizes is None:
        return np.zeros(rows.input_tokens.size, dtype=bool)
    return np.asarray(np.abs(rows.sizes * float(size) - rows.input_tokens) >= size, dtype=bool)


def _check(rows: Rows, size: int, origin: str) -> None:
    wrong = np.flatnonzero(_contradicting(rows, size))
    if not wrong.size or rows.sizes is None:
        return
    faults = [
        Fault(
            f"{rows.sizes[row]:,} block ids for {rows.input_tokens[row]:,.0f} tokens contradict blocks of "
            f"{size:,} tokens{origin}",
            rows.path,
            int(rows.lines[row]),
        )
        for row in (wrong[:_MOST_FAULTS] if wrong.size <= rows.sizes.size / 2 else wrong[:1])  # the size, or some rows
    ]
    more = wrong.size - len(faults)
    raise InputError([*faults, *([Fault(f"and {more:,} more rows contradict it", rows.path)] * (more > 0))])


def chosen(blocks: Ints, sizes: Ints, rows: Ints) -> tuple[Ints, Ints]:
    """Blocks and offsets of `rows`, in their order."""
    offsets = np.concatenate(([0], np.cumsum(sizes[rows], dtype=np.int64)))
    if rows.size == sizes.size and np.all(np.diff(rows) == 1):
        return blocks, offsets
    starts, result = np.cumsum(sizes, dtype=np.int64) - sizes, np.empty(offsets[-1], dtype=blocks.dtype)
    for first in range(0, rows.size, _TOGETHER):
        here = slice(first, min(first + _TOGETHER, rows.size))
        begin, end = int(offsets[here.start]), int(offsets[here.stop])
        places = np.arange(begin, end) + np.repeat(starts[rows[here]] - offsets[here], sizes[rows[here]])
        result[begin:end] = blocks[places]
    return result, offsets


def numbered(blocks: Ints) -> Ints:
    """Ids that may index an array of not much more than their number: themselves, or numbers in their stead."""
    if not blocks.size or (blocks.min() >= 0 and blocks.max() < 4 * blocks.size + (1 << 20)):
        return blocks
    result: Ints = np.empty(blocks.size, dtype=np.int32 if blocks.size < 2**31 else np.int64)
    used = 0
    parts = 1 + blocks.size // (_TOGETHER * 16)  # sorted apart, which takes less memory
    for part in range(parts):
        places = np.flatnonzero(blocks % parts == part) if parts > 1 else slice(None)
        distinct, number = np.unique(blocks[places], return_inverse=True)
        result[places] = number + used
        used += distinct.size
    return result


def chain_notes(blocks: PromptBlocks) -> list[Note]:
    """Whether an id always follows the same id, as the hash of a whole prefix must; ids as `numbered`."""
    ids, offsets = blocks.ids, blocks.offsets
    if not ids.size:
        return []
    first = np.zeros(ids.size, dtype=bool)  # of a prompt, which no id leads
    first[offsets[:-1][np.diff(offsets) > 0]] = True
    lead_of = np.full(int(ids.max()) + 1, -2, dtype=ids.dtype)
    odd = np.zeros(lead_of.size, dtype=bool)
    for begin in range(0, ids.size, _TOGETHER):
        here = np.arange(begin, min(begin + _TOGETHER, ids.size))
        block, leads = ids[here], np.where(first[here], -1, ids[here - 1])
        new = lead_of[block] == -2
        lead_of[block[new]] = leads[new]  # of several, one
        odd[block[lead_of[block] != leads]] = True
    if not odd.any():
        return []
    named, distinct = odd.sum(), (lead_of != -2).sum()
    text = (
        f"{named:,} of {distinct:,} block ids follow different blocks in different prompts, so they are no hashes of "
        "prefixes; a block counts as found only when all blocks before it in the prompt are"
    )
    return [Note("caution", text)]
