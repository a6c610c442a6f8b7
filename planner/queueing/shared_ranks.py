"""Chunked prefill beside decoding on ranks that step together (attention data parallelism), open arrivals.

Every step decodes all sequences and reads as many prompt tokens as each rank has room for; it lasts as long as its
slowest rank. So a prompt on one rank lengthens the gaps of all, and a long step lets prompts come in on every rank.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from planner.queueing.service import Floats, ServiceLaw

_STEPS = 16  # lengths of a step that are told apart
_CELLS = 12  # of a full chunk, at least; so many more that a mean prompt has _PROMPT_CELLS, up to _MOST_CELLS
_PROMPT_CELLS, _MOST_CELLS = 4, 64
_LONGEST = 1024  # cells of tokens that wait on a rank
_ROUNDS = 80
_CLOSE = 2e-3
_ROUGHLY, _ROUGH_LOAD = 2e-2, 0.85
_FULLEST = 0.97  # of the token budget taken by decoding: beyond, nothing settles
_TIMES = 128
_AGES, _AGE_WEIGHTS = (np.polynomial.legendre.leggauss(3)[0] + 1.0) / 2.0, np.polynomial.legendre.leggauss(3)[1] / 2.0
_SPREAD, _SPREAD_WEIGHTS = np.array([-1.0, 0.0, 1.0]) * np.sqrt(3.0), np.array([1.0, 4.0, 1.0]) / 6.0
LEVELS = np.concatenate([np.linspace(0.0, 0.98, 99), 1.0 - np.geomspace(0.0199, 1e-5, 61)])


class SharedSteps(Protocol):
    """Times of one step of a worker that decodes `batch` sequences; `tokens` are of prompts."""

    def rank_s(self, batch: float, tokens: Floats) -> Floats:
        """What the slowest rank does alone, with so many tokens on it; rising."""

    def shared_s(self, batch: float, tokens: Floats) -> Floats:
        """What all ranks take part in, with so many tokens on all of them; rising."""


@dataclass(frozen=True, slots=True, eq=False)
class SharedPoint:
    """One worker under load.

    Attributes
    ----------
    stable : it settles.   load : share of its time that prompts would need in full steps.   batch : decoding, mean.
    mean_gap_s : over tokens.   decode_s : a step without prompts.   mixed_share : of tokens, in steps with prompts.
    gaps_s : quantiles of the gaps at `LEVELS`.   token_s : what a prompt token adds to the worker's steps.
    gap_variance : of a gap, and of the mean of n gaps in a row times n for many n [s^2].
    growth : of the batch that a batch leads to, with that batch.
    times_s, tails : P(wait > time), for the first chunk, the step in progress counted where it reads prompts.
    own_s : (atoms,) from there to the end of each prompt's prefill.   residual_s : mean of what else is left of a step.
    """

    stable: bool
    load: float
    batch: float
    mean_gap_s: float
    decode_s: float
    mixed_share: float
    gaps_s: Floats
    token_s: float
    gap_variance: tuple[float, float]
    growth: float
    times_s: Floats
    tails: Floats
    own_s: Floats
    residual_s: float


@dataclass(frozen=True, eq=False)
class _Cells:
    """Tokens in cells on one rank, at one batch. Steps with no rank full come first, then those with some."""

    room: float  # tokens of a full chunk
    read: int  # cells of a full chunk
    size: int  # cells in all
    prompt: NDArray[np.complex128]  # transform of the law of a prompt
    rate: float  # prompts/s and rank
    tokens: Floats  # (read + 1,) of a chunk
    rank_s: Floats  # of such a chunk
    steps_s: Floats  # (2 _STEPS,)

    def arrived(self, times_s: Floats) -> NDArray[np.complex128]:
        """Transform of the tokens that come to a rank in each time: compound Poisson."""
        return np.asarray(np.exp(self.rate * times_s[:, None] * (self.prompt - 1.0)))

    def law(self, transform: NDArray[np.complex128]) -> Floats:
        return np.maximum(np.fft.irfft(transform, self.size), 0.0)


@dataclass(frozen=True, eq=False)
class _State:
    """Law of the tokens left on a rank after a full chunk (in cells), and P(a rank was full) after each step."""

    left: Floats
    full: Floats

    def widened(self, size: int) -> _State:
        return replace(self, left=np.append(self.left, np.zeros(max(size - self.left.size, 0))))


@dataclass(frozen=True, eq=False)
class _Round:
    """What one batch and state lead to: rows are the steps before, columns the fullest rank of the next."""

    by_steps: Floats  # share of steps
    by_tokens: Floats  # share of tokens
    fullest: Floats  # (rows, read + 1) chances
    chunk: Floats  # (rows, read + 1) of any rank
    next_s: Floats  # (rows, read + 1)
    spread_s: Floats  # standard deviation of the same
    total: Floats  # tokens of the step
    moves: Floats  # (rows, rows) of the chain
    steps_s: Floats  # (rows,)
    state: _State

    @property
    def gap_s(self) -> float:
        return float((self.by_tokens[:, None] * self.fullest * self.next_s).sum())

    @property
    def step_s(self) -> float:
        return float((self.by_steps[:, None] * self.fullest * self.next_s).sum())


def shared_ranks(
    arrivals_per_s: float,
    prompts: ServiceLaw,
    mean_output_tokens: float,
    ranks: int,
    budget_tokens: float,
    steps: SharedSteps,
    rough: bool = False,
) -> SharedPoint:
    """Where one worker settles.

    Parameters
    ----------
    arrivals_per_s : to the worker, > 0.   prompts : law of prompt lengths in tokens.   mean_output_tokens : >= 1.
    ranks, budget_tokens : of the worker, and tokens of a step on each rank.
    rough : for searches; ends ten times farther from rest, and takes a load above 0.85 as unsettled.

    Notes
    -----
    A Markov chain on the length of a step. Given it, each rank gets a compound Poisson number of prompt tokens,
    independent of the others, on top of what a full chunk left there; the fullest of `ranks` and the mean tokens on the
    others given it make the next step. What full chunks leave follows Lindley's recursion. The batch is Little's law
    with gaps weighed by tokens: a request begins to decode after a step that read prompts, and forgets that at the
    rate at which it ends. Derivation; approximate in that what is left on a rank is taken anew from its law in each
    step, and that the batch is taken at its mean.

    Raises
    ------
    ValueError
        For arguments outside their domain.
    """
    if not (0.0 < arrivals_per_s < np.inf and budget_tokens >= 1.0 and ranks >= 1 and mean_output_tokens >= 1.0):
        raise ValueError(
            "want arrivals_per_s > 0, ranks and budget_tokens >= 1, mean_output_tokens >= 1, got "
            f"{arrivals_per_s!r}, {ranks!r}, {budget_tokens!r}, {mean_output_tokens!r}"
        )
    asked = arrivals_per_s * (mean_output_tokens - 1.0)
    most_load, close = (_ROUGH_LOAD, _ROUGHLY) if rough else (1.0, _CLOSE)
    most = _FULLEST * budget_tokens * ranks
    batch, before, growth, late = 1.0, None, 0.0, 0
    state = _State(np.append(1.0, np.zeros(63)), np.zeros(2 * _STEPS))
    for _ in range(_ROUNDS):
        cells = _cells(arrivals_per_s, prompts, ranks, budget_tokens, steps, batch, state.left.size)
        state = state.widened(cells.size)
        load = cells.rate * prompts.mean_s * float(cells.steps_s[-1]) / cells.room
        late = late + 1 if load >= most_load else 0
        if late > 2:
            return _unsettled(load, batch, prompts)
        made = _round(cells, state, ranks, mean_output_tokens, steps, batch)
        moved = float(np.abs(made.state.left - state.left).sum()) * float(made.state.full.max())
        leads_to = min(asked * made.gap_s, most)
        if abs(leads_to - batch) < close * (1.0 + batch) and moved < close:
            break
        state = made.state
        if before is not None and abs(batch - before[0]) > 1e-9:
            growth = float(np.clip((leads_to - before[1]) / (batch - before[0]), 0.0, 0.9))
        before = (batch, leads_to)
        batch = float(np.clip(batch + (leads_to - batch) / (1.0 - growth), 0.3 * batch, 3.0 * batch + 1.0))
        batch = min(batch, most)
    if leads_to >= most or abs(leads_to - batch) > 0.05 * (1.0 + batch):
        return _unsettled(max(load, 1.0), batch, prompts)
    return _settled(cells, made, load, (batch, growth), prompts, ranks, steps)


def _cells(
    arrivals_per_s: float,
    prompts: ServiceLaw,
    ranks: int,
    budget_tokens: float,
    steps: SharedSteps,
    batch: float,
    least: int,
) -> _Cells:
    room = max(budget_tokens - batch / ranks, (1.0 - _FULLEST) * budget_tokens)
    read = int(np.clip(round(_PROMPT_CELLS * room / prompts.mean_s), _CELLS, _MOST_CELLS))
    tokens = np.linspace(0.0, room, read + 1)
    rank_s = steps.rank_s(batch, tokens)
    shortest = float(rank_s[0] + steps.shared_s(batch, np.zeros(1))[0])
    longest = float(rank_s[-1] + steps.shared_s(batch, np.array([ranks * room]))[0])
    rate = arrivals_per_s / ranks
    cell = room / read
    wanted = 2 * read + float(prompts.values_s.max()) / cell + 4.0 * rate * prompts.mean_s * longest / cell
    size = max(least, 1 << int(np.ceil(np.log2(min(wanted, _LONGEST)))))
    return _Cells(
        room=room,
        read=read,
        size=size,
        prompt=np.fft.rfft(_spread_over(prompts, cell, size)),
        rate=rate,
        tokens=tokens,
        rank_s=rank_s,
        steps_s=np.tile(np.linspace(shortest, longest, _STEPS), 2),
    )


def _spread_over(prompts: ServiceLaw, cell: float, size: int) -> Floats:
    """Lengths on the cells on either side, so that the mean stays."""
    place = np.minimum(prompts.values_s / cell, size - 1.001)
    low = place.astype(np.intp)
    part = place - low
    law = np.bincount(low, prompts.weights * (1.0 - part), size) + np.bincount(low + 1, prompts.weights * part, size)
    return np.asarray(law / law.sum())


def _round(
    cells: _Cells, state: _State, ranks: int, mean_output_tokens: float, steps: SharedSteps, batch: float
) -> _Round:
    read = cells.read
    kept = 1.0 - state.full[:, None] * (1.0 - np.fft.rfft(state.left))
    held = cells.law(cells.arrived(cells.steps_s) * kept)
    chunk = np.concatenate([held[:, :read], held[:, read:].sum(axis=1, keepdims=True)], axis=1)
    chunk /= chunk.sum(axis=1, keepdims=True)
    below = np.minimum(np.cumsum(chunk, axis=1), 1.0)
    fullest = np.diff(below**ranks, axis=1, prepend=0.0)
    total, variance = _tokens_with(chunk, below, cells, ranks)
    reach = cells.room / read
    shared = steps.shared_s(batch, total)
    slope = (steps.shared_s(batch, total + reach) - shared) / reach
    next_s = cells.rank_s + shared
    moves = _moves(cells, next_s, fullest)
    by_steps = _stationary(moves.sum(axis=1))
    # requests begin to decode after steps that read prompts, in proportion to the tokens
    begun = np.einsum("r,ryc->c", by_steps, moves * (total / max(float(total.max()), 1e-300))[:, :, None])
    stays = 1.0 - 1.0 / max(mean_output_tokens - 1.0, 1.0 + 1e-9)
    every = np.eye(2 * _STEPS) - stays * moves.sum(axis=1)
    by_tokens = np.maximum(np.linalg.solve(every.T, begun), 0.0)
    left = np.append((by_steps @ held)[read:], np.zeros(read))
    some = float(left.sum())
    return _Round(
        by_steps=by_steps,
        by_tokens=by_tokens / by_tokens.sum(),
        fullest=fullest,
        chunk=chunk,
        next_s=next_s,
        spread_s=np.sqrt(variance) * slope,
        total=total,
        moves=moves.sum(axis=1),
        steps_s=cells.steps_s,
        state=_State(left / some if some > 1e-12 else state.left, _ranks_full(by_steps, moves[:, read], chunk, ranks)),
    )


def _tokens_with(chunk: Floats, below: Floats, cells: _Cells, ranks: int) -> tuple[Floats, Floats]:
    """Mean and variance of all tokens of a step by those of its fullest rank; of full ranks there may be several."""
    upto = np.cumsum(chunk * cells.tokens, axis=1) / np.maximum(below, 1e-300)
    square = np.cumsum(chunk * cells.tokens**2, axis=1) / np.maximum(below, 1e-300)
    total = cells.tokens + (ranks - 1.0) * upto
    part = below[:, -2]
    some = np.maximum(1.0 - part**ranks, 1e-300)
    with_full = ranks * (upto[:, -1] - upto[:, -2] * part**ranks) / some
    total[:, -1] = np.clip(with_full, cells.room, ranks * cells.room)
    return total, (ranks - 1.0) * np.maximum(square - upto**2, 0.0)


def _moves(cells: _Cells, next_s: Floats, fullest: Floats) -> Floats:
    """Chances of the next step, (rows, read + 1, 2 _STEPS): between the two lengths on either side of its own."""
    shortest, longest = float(cells.steps_s[0]), float(cells.steps_s[-1])
    place = np.clip((next_s - shortest) / max(longest - shortest, 1e-300) * (_STEPS - 1), 0.0, _STEPS - 1.000001)
    low = place.astype(np.intp)
    part = place - low
    low[:, -1] += _STEPS
    moves = np.zeros((*next_s.shape, 2 * _STEPS))
    rows, columns = np.ogrid[: next_s.shape[0], : next_s.shape[1]]
    moves[rows, columns, low] = fullest * (1.0 - part)
    moves[rows, columns, low + 1] += fullest * part
    return moves


def _stationary(moves: Floats) -> Floats:
    equations = moves.T - np.eye(moves.shape[0])
    equations[-1] = 1.0
    law = np.maximum(np.linalg.solve(equations, np.append(np.zeros(moves.shape[0] - 1), 1.0)), 0.0)
    return np.asarray(law / law.sum())


def _ranks_full(by_steps: Floats, moves: Floats, chunk: Floats, ranks: int) -> Floats:
    """P(a rank had a full chunk) in each step that some rank had; 0 in the others."""
    each = chunk[:, -1] / np.maximum(1.0 - (1.0 - chunk[:, -1]) ** ranks, 1e-300)
    came = by_steps @ moves
    full = np.where(came > 1e-300, (by_steps * each) @ moves / np.maximum(came, 1e-300), 0.0)
    full[:_STEPS] = 0.0
    return np.minimum(full, 1.0)


def _settled(
    cells: _Cells,
    made: _Round,
    load: float,
    at: tuple[float, float],
    prompts: ServiceLaw,
    ranks: int,
    steps: SharedSteps,
) -> SharedPoint:
    batch, growth = at
    step_s, decode_s = made.step_s, float(cells.steps_s[0])
    weights = (made.by_tokens[:, None] * made.fullest)[..., None] * _SPREAD_WEIGHTS
    values = np.maximum(made.next_s[..., None] + made.spread_s[..., None] * _SPREAD, decode_s)
    own_s, times, tails = _first_tokens(cells, made, prompts, ranks, steps, batch)
    plain = float(made.by_steps @ made.fullest[:, 0])
    tokens_per_step = float((made.by_steps[:, None] * made.fullest * made.total).sum())
    return SharedPoint(
        stable=True,
        load=load,
        batch=batch,
        mean_gap_s=made.gap_s,
        decode_s=decode_s,
        mixed_share=1.0 - float(made.by_tokens @ made.fullest[:, 0]),
        gaps_s=_quantiles(values.ravel(), weights.ravel()),
        token_s=(step_s - decode_s) / max(tokens_per_step, 1e-300),
        gap_variance=_gap_variance(made),
        growth=growth,
        times_s=times,
        tails=tails,
        own_s=own_s,
        residual_s=plain * decode_s**2 / (2.0 * step_s),
    )


def _gap_variance(made: _Round) -> tuple[float, float]:
    """Variance of a gap, and with twice the covariances with all later ones: those of the chain, from its resolvent."""
    mean = made.step_s
    after = (made.fullest * made.next_s).sum(axis=1) - mean
    single = float((made.by_steps[:, None] * made.fullest * (made.next_s - mean) ** 2).sum())
    ahead = np.linalg.solve(np.eye(after.size) - made.moves + made.by_steps, after)  # E of all later gaps, centered
    reached = made.by_steps * (made.steps_s - mean)
    return single, max(single + 2.0 * float(reached @ ahead), 0.1 * single)


def _quantiles(values: Floats, weights: Floats) -> Floats:
    order = np.argsort(values)
    upto = np.cumsum(weights[order])
    return np.asarray(values[order][np.minimum(np.searchsorted(upto / upto[-1], LEVELS), values.size - 1)])


def _first_tokens(
    cells: _Cells, made: _Round, prompts: ServiceLaw, ranks: int, steps: SharedSteps, batch: float
) -> tuple[Floats, Floats, Floats]:
    """Own prefill of every kind of prompt, and the law of the wait in front of it: times and tails.

    A prompt comes in a step by its length, finds on its rank what was left and what came before, and is read with it:
    so many full chunks, each beside what the other ranks read, and the chunk that ends it.
    """
    seen = made.by_steps * cells.steps_s
    seen /= seen.sum()
    kept = 1.0 - made.state.full[:, None] * (1.0 - np.fft.rfft(made.state.left))
    came = sum(
        weight * np.einsum("r,rk->k", seen, cells.arrived(age * cells.steps_s) * kept)
        for age, weight in zip(_AGES, _AGE_WEIGHTS, strict=True)
    )
    ahead = cells.law(np.asarray(came))
    ahead /= ahead.sum()
    below = np.minimum(np.cumsum(seen @ made.chunk), 1.0)
    others = np.diff(below ** (ranks - 1.0), prepend=0.0) if ranks > 1 else np.append(1.0, np.zeros(cells.read))
    beside = (ranks - 1.0) * float(np.diff(below, prepend=0.0) @ cells.tokens)
    slowest = np.maximum(cells.rank_s[:, None], cells.rank_s) @ others
    step_s = slowest + steps.shared_s(batch, cells.tokens + beside)
    tokens_ahead = np.arange(cells.size) * (cells.room / cells.read)
    work_s = np.asarray(tokens_ahead * (float(step_s[-1]) / cells.room))
    together = tokens_ahead[:, None] + prompts.values_s
    chunks = np.ceil(together / cells.room - 1e-9)
    ends = np.interp(together - (chunks - 1.0) * cells.room, cells.tokens, step_s)
    own_s = ahead @ ((chunks - 1.0) * step_s[-1] + ends - work_s[:, None])
    times, tails = _wait(made, ahead, work_s)
    return np.maximum(own_s, float(step_s[0])), times, tails


def _wait(made: _Round, ahead: Floats, work_s: Floats) -> tuple[Floats, Floats]:
    """P(step in progress, where it reads prompts, and work ahead > time)."""
    weights = made.by_steps[:, None] * made.fullest * made.next_s
    weights = (weights / weights.sum())[:, 1:]
    edges = np.linspace(0.0, float(made.next_s.max()) * (1.0 + 1e-9), 2 * _STEPS + 1)
    place = np.minimum((made.next_s[:, 1:] / edges[-1] * 2 * _STEPS).astype(np.intp), 2 * _STEPS - 1)
    share = np.bincount(place.ravel(), weights.ravel(), 2 * _STEPS)
    lengths = np.bincount(place.ravel(), (weights * made.next_s[:, 1:]).ravel(), 2 * _STEPS)
    lengths = np.where(share > 0.0, lengths / np.maximum(share, 1e-300), 1.0)
    last = int(np.searchsorted(np.cumsum(ahead), 1.0 - 1e-7))
    top = float(edges[-1]) + float(work_s[min(last, work_s.size - 1)])
    times = np.linspace(0.0, 1.0, _TIMES) ** 2 * top
    grid = np.linspace(0.0, float(edges[-1]), 4 * _STEPS + 1)
    left = np.clip(1.0 - grid[:, None] / lengths, 0.0, 1.0) @ share
    later = times[:, None] - work_s
    tails = np.where(later < 0.0, 1.0, np.interp(later, grid, left, right=0.0)) @ ahead
    return times, np.minimum(np.maximum.accumulate(tails[::-1])[::-1], 1.0)


def _unsettled(load: float, batch: float, prompts: ServiceLaw) -> SharedPoint:
    endless = np.full(LEVELS.size, np.inf)
    times = np.linspace(0.0, 1.0, _TIMES)
    own = np.full(prompts.values_s.size, np.inf)
    return SharedPoint(
        False, max(load, 1.0), batch, np.inf, 1.0, 1.0, endless, 1.0, (0.0, 0.0), 0.0, times, np.ones(_TIMES), own, 0.0
    )
