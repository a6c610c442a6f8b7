"""The chain of steps of ranks that step together: prompt tokens in cells on each rank, and the length of a step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from planner.queueing.service import Floats, ServiceLaw

STEPS = 16  # lengths of a step that are told apart
FULLEST = 0.97  # of the token budget taken by decoding: beyond, nothing settles
_CELLS = 12  # of a full chunk, at least; so many more that a mean prompt has _PROMPT_CELLS, up to _MOST_CELLS
_PROMPT_CELLS, _MOST_CELLS = 4, 64
_SIGMAS, _WIDER = 5.0, 1.25
_LONGEST = 1024  # cells of tokens that wait on a rank
_LINDLEY_ROUNDS, _AT_REST, _NEARLY = 100, 1e-3, 0.1  # of what is left on a rank; nearly: of its first change
_NEVER = 1e-12  # chance of a step that rounding alone leads to


class SharedSteps(Protocol):
    """Times of one step of a worker that decodes `batch` sequences; `tokens` are of prompts."""

    def rank_s(self, batch: float, tokens: Floats) -> Floats:
        """What the slowest rank does alone, with so many tokens on it; rising."""

    def shared_s(self, batch: float, tokens: Floats) -> Floats:
        """What all ranks take part in, with so many tokens on all of them; rising."""


@dataclass(frozen=True, eq=False)
class Cells:
    """Tokens in cells on one rank, at one batch. Steps are twice `STEPS`: with no rank full, then with some."""

    load: float  # share of the time that prompts need in full steps
    room: float  # tokens of a full chunk, or of the most that ever comes in a step where that is less
    read: int  # cells of a full chunk
    size: int  # cells in all
    prompt: NDArray[np.complex128]  # transform of the law of a prompt
    rate: float  # prompts/s and rank
    tokens: Floats  # (read + 1,) of a chunk
    rank_s: Floats  # of such a chunk
    lengths_s: Floats  # (STEPS,) of a step, evenly spaced

    @property
    def steps_s(self) -> Floats:
        return np.tile(self.lengths_s, 2)

    def law(self, transform: NDArray[np.complex128]) -> Floats:
        return np.maximum(np.fft.irfft(transform, self.size), 0.0)

    def held(self, state: State, age: float = 1.0) -> NDArray[np.complex128]:
        """Transform of the tokens on a rank by the step before, when `age` of it has gone by.

        What came since is compound Poisson, so it is a power of what comes between one length and the next.
        """
        spans_s = age * np.array([self.lengths_s[0], self.lengths_s[1] - self.lengths_s[0]])
        shortest, more = np.exp(self.rate * spans_s[:, None] * (self.prompt - 1.0))
        came = [shortest]
        for _ in range(STEPS - 1):
            came.append(came[-1] * more)
        kept = 1.0 - state.full[:, None] * (1.0 - np.fft.rfft(state.left))
        return np.concatenate([came, came * kept])


@dataclass(frozen=True, eq=False)
class State:
    """Law of the tokens left on a rank after a full chunk (in cells), and P(a rank was full) by the length of a step
    that had some full rank."""

    left: Floats
    full: Floats  # (STEPS,)

    def widened(self, size: int) -> State:
        return replace(self, left=np.append(self.left, np.zeros(max(size - self.left.size, 0))))


EMPTY = State(np.append(1.0, np.zeros(63)), np.zeros(STEPS))


@dataclass(frozen=True, eq=False)
class Round:
    """What one batch and state lead to: rows are the steps before, columns the fullest rank of the next."""

    by_steps: Floats  # share of steps
    by_tokens: Floats  # share of tokens
    fullest: Floats  # (rows, read + 1) chances
    chunk: Floats  # (rows, read + 1) of any rank
    next_s: Floats  # (rows, read + 1)
    total: Floats  # tokens of the step
    moves: Floats  # (rows, rows) of the chain
    steps_s: Floats  # (rows,)
    state: State

    @property
    def gap_s(self) -> float:
        return float((self.by_tokens[:, None] * self.fullest * self.next_s).sum())

    @property
    def step_s(self) -> float:
        return float((self.by_steps[:, None] * self.fullest * self.next_s).sum())


def cells_of(
    arrivals_per_s: float,
    prompts: ServiceLaw,
    ranks: int,
    budget_tokens: float,
    steps: SharedSteps,
    batch: float,
    least: int,
) -> Cells:
    rate = arrivals_per_s / ranks

    def longest_s(tokens: Floats) -> Floats:
        return steps.rank_s(batch, tokens) + steps.shared_s(batch, ranks * tokens)

    full = max(budget_tokens - batch / ranks, (1.0 - FULLEST) * budget_tokens)
    room = _room_used(full, prompts, rate, longest_s)
    read = int(np.clip(round(_PROMPT_CELLS * room / prompts.mean_s), _CELLS, _MOST_CELLS))
    tokens = np.linspace(0.0, room, read + 1)
    rank_s = steps.rank_s(batch, tokens)
    shortest, longest = (float(time) for time in longest_s(np.array([0.0, room])))
    cell = room / read
    wanted = 2 * read + float(prompts.values_s.max()) / cell + 4.0 * rate * prompts.mean_s * longest / cell
    size = max(least, 1 << int(np.ceil(np.log2(min(wanted, _LONGEST)))))
    return Cells(
        load=rate * prompts.mean_s * float(longest_s(np.array([full]))[0]) / full,
        room=room,
        read=read,
        size=size,
        prompt=np.fft.rfft(_spread_over(prompts, cell, size)),
        rate=rate,
        tokens=tokens,
        rank_s=rank_s,
        lengths_s=np.linspace(shortest, longest, STEPS),
    )


def _room_used(full: float, prompts: ServiceLaw, rate: float, longest_s: Callable[[Floats], Floats]) -> float:
    """Tokens that a chunk seldom exceeds: cells no wider than prompts tell steps that read one from those that do not.

    Where no more than `_SIGMAS` standard deviations above the mean come in the longest step, chunks are not longer.
    """
    least = float(prompts.values_s.max())
    if least >= full:
        return full
    rooms = least * _WIDER ** np.arange(np.ceil(np.log(full / least) / np.log(_WIDER)))
    come = rate * longest_s(rooms)
    enough = come * prompts.mean_s + _SIGMAS * np.sqrt(come * prompts.moment(2)) <= rooms
    return float(rooms[enough.argmax()]) if enough.any() else full


def _spread_over(prompts: ServiceLaw, cell: float, size: int) -> Floats:
    """Lengths on the cells on either side, so that the mean stays."""
    place = np.minimum(prompts.values_s / cell, size - 1.001)
    low = place.astype(np.intp)
    law = _landed(low, place - low, prompts.weights, size)
    return np.asarray(law / law.sum())


def round_of(
    cells: Cells, state: State, ranks: int, mean_output_tokens: float, steps: SharedSteps, batch: float
) -> Round:
    read = cells.read
    came = cells.held(state)
    held = cells.law(came)
    chunk = np.concatenate([held[:, :read], held[:, read:].sum(axis=1, keepdims=True)], axis=1)
    chunk /= chunk.sum(axis=1, keepdims=True)
    below = np.minimum(np.cumsum(chunk, axis=1), 1.0)
    fullest = np.diff(below**ranks, axis=1, prepend=0.0)
    total = _tokens_with(chunk, below, cells, ranks)
    next_s = cells.rank_s + steps.shared_s(batch, total)
    low, part = _places(cells, next_s)
    rows = np.arange(2 * STEPS)[:, None]
    moves = _landed(low + 2 * STEPS * rows, part, fullest, 4 * STEPS**2).reshape(2 * STEPS, 2 * STEPS)
    by_steps = _stationary(moves)
    # requests begin to decode after steps that read prompts, in proportion to the tokens
    begun = _landed(low, part, by_steps[:, None] * fullest * total, 2 * STEPS) / max(float(total.max()), 1e-300)
    stays = 1.0 - 1.0 / max(mean_output_tokens - 1.0, 1.0 + 1e-9)
    by_tokens = np.maximum(np.linalg.solve((np.eye(2 * STEPS) - stays * moves).T, begun), 0.0)
    ends = low[:, -1], part[:, -1], fullest[:, -1]
    full = _ranks_full(by_steps, chunk, ranks, ends)
    return Round(
        by_steps=by_steps,
        by_tokens=by_tokens / by_tokens.sum(),
        fullest=fullest,
        chunk=chunk,
        next_s=next_s,
        total=total,
        moves=moves,
        steps_s=cells.steps_s,
        state=State(_left(cells, came[:STEPS], by_steps, full, state.left), full),
    )


def _tokens_with(chunk: Floats, below: Floats, cells: Cells, ranks: int) -> Floats:
    """Mean of all tokens of a step by those of its fullest rank; of full ranks there may be several."""
    upto = np.cumsum(chunk * cells.tokens, axis=1) / np.maximum(below, 1e-300)
    total = cells.tokens + (ranks - 1.0) * upto
    part = below[:, -2] ** ranks
    with_full = ranks * (upto[:, -1] - upto[:, -2] * part) / np.maximum(1.0 - part, 1e-300)
    total[:, -1] = np.clip(with_full, cells.room, ranks * cells.room)
    return total


def _places(cells: Cells, next_s: Floats) -> tuple[NDArray[np.intp], Floats]:
    """Where the next step falls: the length below its own, and how far on towards the one above."""
    shortest, longest = float(cells.lengths_s[0]), float(cells.lengths_s[-1])
    place = np.clip((next_s - shortest) / max(longest - shortest, 1e-300) * (STEPS - 1), 0.0, STEPS - 1.000001)
    low = place.astype(np.intp)
    part = place - low
    low[:, -1] += STEPS
    return low, part


def _landed(low: NDArray[np.intp], part: Floats, weights: Floats, size: int) -> Floats:
    """Weights put on the places on either side, (size,), so that the mean stays."""
    here = np.bincount(low.ravel(), (weights * (1.0 - part)).ravel(), size)
    return np.asarray(here + np.bincount(low.ravel() + 1, (weights * part).ravel(), size))


def _stationary(moves: Floats) -> Floats:
    equations = moves.T - np.eye(moves.shape[0])
    equations[-1] = 1.0
    law = np.maximum(np.linalg.solve(equations, np.append(np.zeros(moves.shape[0] - 1), 1.0)), 0.0)
    return np.asarray(law / law.sum())


def _ranks_full(by_steps: Floats, chunk: Floats, ranks: int, ends: tuple[NDArray[np.intp], Floats, Floats]) -> Floats:
    """P(a rank had a full chunk) in each step that some rank had; `ends` says where those land, and by what chance."""
    low, part, chance = ends
    each = chunk[:, -1] / np.maximum(1.0 - (1.0 - chunk[:, -1]) ** ranks, 1e-300)
    some, one = (_landed(low, part, seen * chance, 2 * STEPS)[STEPS:] for seen in (by_steps, by_steps * each))
    return np.minimum(np.where(some > _NEVER, one / np.maximum(some, _NEVER), 0.0), 1.0)


def _left(cells: Cells, came: NDArray[np.complex128], by_steps: Floats, full: Floats, left: Floats) -> Floats:
    """What full chunks leave on a rank, by Lindley's recursion, with steps as they are, until it has nearly come to
    rest: the steps will change in turn."""
    fresh = (by_steps[:STEPS] + by_steps[STEPS:] * (1.0 - full)) @ came
    behind = (by_steps[STEPS:] * full) @ came
    close = _AT_REST
    for _ in range(_LINDLEY_ROUNDS):
        rest = cells.law(fresh + behind * np.fft.rfft(left))[cells.read :]
        some = float(rest.sum())
        if some < _NEVER:
            break
        before, left = left, np.append(rest / some, np.zeros(cells.read))
        moved = some * float(np.abs(left - before).sum())  # it counts as often as chunks are full
        if moved <= close:
            break
        close = max(close, _NEARLY * moved)
    return left
