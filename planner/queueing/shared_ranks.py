"""Chunked prefill beside decoding on ranks that step together (attention data parallelism), open arrivals.

Every step decodes all sequences and reads as many prompt tokens as each rank has room for; it lasts as long as its
slowest rank. So a prompt on one rank lengthens the gaps of all, and a long step lets prompts come in on every rank.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from planner.queueing.service import Floats, ServiceLaw
from planner.queueing.shared_chain import EMPTY, FULLEST, STEPS, Cells, Round, SharedSteps, cells_of, round_of

_ROUNDS = 80
_CLOSE = 1e-3
_ROUGHLY, _ROUGH_LOAD = 2e-2, 0.85
_TIMES = 128
_AGES, _AGE_WEIGHTS = (np.polynomial.legendre.leggauss(3)[0] + 1.0) / 2.0, np.polynomial.legendre.leggauss(3)[1] / 2.0
_SPREAD, _SPREAD_WEIGHTS = np.array([-1.0, 0.0, 1.0]) * np.sqrt(3.0), np.array([1.0, 4.0, 1.0]) / 6.0
LEVELS = np.concatenate([np.linspace(0.0, 0.98, 99), 1.0 - np.geomspace(0.0199, 1e-5, 61)])


@dataclass(frozen=True, slots=True, eq=False)
class FirstTokens:
    """P(wait > time) for the first chunk, the step in progress counted where it reads prompts, and (atoms,) from there
    to the end of each prompt's prefill."""

    times_s: Floats
    tails: Floats
    own_s: Floats


@dataclass(frozen=True, eq=False)
class SharedPoint:
    """One worker under load.

    Attributes
    ----------
    stable : it settles.   load : share of its time that prompts would need in full steps.   batch : decoding, mean.
    mean_gap_s : over tokens.   decode_s : a step without prompts.   mixed_share : of tokens, in steps with prompts.
    gaps_s : quantiles of the gaps at `LEVELS`.   token_s : what a prompt token adds to the worker's steps.
    gap_variance : of a gap, and of the mean of n gaps in a row times n for many n [s^2].
    growth : of the batch that a batch leads to, with that batch.
    residual_s : of the wait for the first chunk, mean of what `first` leaves out: steps in progress without prompts.
    read_first : computes `first`, which most points of a search are never asked for.
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
    residual_s: float
    read_first: Callable[[], FirstTokens]

    @cached_property
    def first(self) -> FirstTokens:
        return self.read_first()


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
    rough : for searches; ends twenty times farther from rest, and takes a load above 0.85 as unsettled.

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
    most = FULLEST * budget_tokens * ranks
    batch, before, growth, late = 1.0, None, 0.0, 0
    state = EMPTY
    for _ in range(_ROUNDS):
        cells = cells_of(arrivals_per_s, prompts, ranks, budget_tokens, steps, batch, state.left.size)
        state = state.widened(cells.size)
        load = cells.load
        late = late + 1 if load >= most_load else 0
        if late > 2:
            return _unsettled(load, batch, prompts)
        made = round_of(cells, state, ranks, mean_output_tokens, steps, batch)
        moved = float(np.abs(made.state.left - state.left).sum()) * float(made.state.full.max())
        leads_to = min(asked * made.gap_s, most)
        if abs(leads_to - batch) < close * (1.0 + batch) and moved < close:
            break
        state = made.state
        if before is not None and abs(batch - before[0]) > 1e-9:
            growth = float(np.clip((leads_to - before[1]) / (batch - before[0]), 0.0, 0.9))
        before = (batch, leads_to)
        highest = min(max(3.0 * batch + 1.0, leads_to), most)
        batch = float(np.clip(batch + (leads_to - batch) / (1.0 - growth), 0.3 * batch, highest))
    if leads_to >= most or abs(leads_to - batch) > 0.05 * (1.0 + batch):
        return _unsettled(max(load, 1.0), batch, prompts)
    return _settled(cells, made, load, (batch, growth), prompts, ranks, steps)


def _settled(
    cells: Cells,
    made: Round,
    load: float,
    at: tuple[float, float],
    prompts: ServiceLaw,
    ranks: int,
    steps: SharedSteps,
) -> SharedPoint:
    batch, growth = at
    step_s, decode_s = made.step_s, float(cells.lengths_s[0])
    weights = (made.by_tokens[:, None] * made.fullest)[..., None] * _SPREAD_WEIGHTS
    values = np.maximum(
        made.next_s[..., None] + _spread_s(cells, made, ranks, steps, batch)[..., None] * _SPREAD, decode_s
    )
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
        residual_s=plain * decode_s**2 / (2.0 * step_s),
        read_first=lambda: _first_tokens(cells, made, prompts, ranks, steps, batch),
    )


def _spread_s(cells: Cells, made: Round, ranks: int, steps: SharedSteps, batch: float) -> Floats:
    """Standard deviation of the next step, (rows, read + 1), for what the other ranks happen to read."""
    below = np.maximum(np.minimum(np.cumsum(made.chunk, axis=1), 1.0), 1e-300)
    mean, square = (np.cumsum(made.chunk * cells.tokens**order, axis=1) / below for order in (1, 2))
    cell = cells.room / cells.read
    slope = (steps.shared_s(batch, made.total + cell) - steps.shared_s(batch, made.total)) / cell
    return np.asarray(np.sqrt((ranks - 1.0) * np.maximum(square - mean**2, 0.0)) * slope)


def _gap_variance(made: Round) -> tuple[float, float]:
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
    cells: Cells, made: Round, prompts: ServiceLaw, ranks: int, steps: SharedSteps, batch: float
) -> FirstTokens:
    """Own prefill of every kind of prompt, and the law of the wait in front of it.

    A prompt comes in a step by its length, finds on its rank what was left and what came before, and is read with it:
    so many full chunks, each beside what the other ranks read, and the chunk that ends it.
    """
    seen = made.by_steps * cells.steps_s
    seen /= seen.sum()
    came = sum(
        weight * np.einsum("r,rk->k", seen, cells.held(made.state, age))
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
    return FirstTokens(times, tails, np.maximum(own_s, float(step_s[0])))


def _wait(made: Round, ahead: Floats, work_s: Floats) -> tuple[Floats, Floats]:
    """P(step in progress, where it reads prompts, and work ahead > time)."""
    weights = made.by_steps[:, None] * made.fullest * made.next_s
    weights = (weights / weights.sum())[:, 1:]
    edges = np.linspace(0.0, float(made.next_s.max()) * (1.0 + 1e-9), 2 * STEPS + 1)
    place = np.minimum((made.next_s[:, 1:] / edges[-1] * 2 * STEPS).astype(np.intp), 2 * STEPS - 1)
    share = np.bincount(place.ravel(), weights.ravel(), 2 * STEPS)
    lengths = np.bincount(place.ravel(), (weights * made.next_s[:, 1:]).ravel(), 2 * STEPS)
    lengths = np.where(share > 0.0, lengths / np.maximum(share, 1e-300), 1.0)
    last = int(np.searchsorted(np.cumsum(ahead), 1.0 - 1e-7))
    top = float(edges[-1]) + float(work_s[min(last, work_s.size - 1)])
    times = np.linspace(0.0, 1.0, _TIMES) ** 2 * top
    grid = np.linspace(0.0, float(edges[-1]), 4 * STEPS + 1)
    left = np.clip(1.0 - grid[:, None] / lengths, 0.0, 1.0) @ share
    later = times[:, None] - work_s
    tails = np.where(later < 0.0, 1.0, np.interp(later, grid, left, right=0.0)) @ ahead
    return times, np.minimum(np.maximum.accumulate(tails[::-1])[::-1], 1.0)


def _unsettled(load: float, batch: float, prompts: ServiceLaw) -> SharedPoint:
    endless = np.full(LEVELS.size, np.inf)
    atoms = prompts.values_s.size
    return SharedPoint(
        stable=False,
        load=max(load, 1.0),
        batch=batch,
        mean_gap_s=np.inf,
        decode_s=1.0,
        mixed_share=1.0,
        gaps_s=endless,
        token_s=1.0,
        gap_variance=(0.0, 0.0),
        growth=0.0,
        residual_s=0.0,
        read_first=lambda: FirstTokens(np.linspace(0.0, 1.0, _TIMES), np.ones(_TIMES), np.full(atoms, np.inf)),
    )
