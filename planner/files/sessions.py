"""The `sessions:` of a workload to a record, with the prompts and outputs that its turns have."""

from __future__ import annotations

from collections.abc import Callable
from statistics import NormalDist

import numpy as np

from planner.files.schema import SessionKeys, SubAgentKeys
from planner.records import Floats, Lengths, Note, Sessions, SubAgents, Workload
from planner.units import format_seconds

USUAL_SIZE_SCV = 0.4  # of recorded chats: mean of (answer x context) over (mean answer x mean context) is 1.38
SIZES = 8
_TOKEN_S = 0.03  # per output token, in the first guess of the rate that sizing replaces by what the plan does
_NARROWEST = 1e-3  # log-deviation below which sessions are as good as alike
_WIDEST = 6.0  # log-deviation at which all tokens lie in the last of the sizes


def session_workload(keys: SessionKeys, most_tokens: int = 0) -> tuple[Workload, tuple[Note, ...]]:
    """Requests of the sessions with nothing found in a cache, a first guess of their rate, and what was assumed.

    `most_tokens` : context of the model, which sizes that are not given do not exceed; 0: not known.
    """
    sessions = _record(keys, most_tokens)
    steps = np.arange(sessions.turns) * (sessions.growth_tokens + sessions.output_tokens)
    own = np.outer(sessions.size_factors, sessions.first_tokens + steps).ravel()
    prompts: list[Floats] = [sessions.system_tokens + own]
    sizes = np.asarray(sessions.size_factors, dtype=float)
    outputs: list[Floats] = [np.repeat(sizes * sessions.output_tokens, sessions.turns)]
    weights: list[Floats] = [np.full(own.size, 1.0 / len(sessions.size_factors))]
    cycle_s = sessions.think_s + _TOKEN_S * sessions.output_tokens
    sub = sessions.sub_agents
    if sub is not None:
        bursts = sub.children * sessions.turns / sub.every_turns
        grown: Floats = np.arange(sub.turns, dtype=float) * (sub.growth_tokens + sub.output_tokens)
        prompts.append(sub.shared_tokens + sub.first_tokens + grown)
        outputs.append(np.full(sub.turns, sub.output_tokens))
        weights.append(np.full(sub.turns, bursts))
        cycle_s += sub.turns * sub.gap_s / sub.every_turns
    mass = np.concatenate(weights)
    lengths = Lengths(np.concatenate(prompts), np.maximum(np.concatenate(outputs), 1.0), mass / mass.sum())
    rate = sessions.users * float(mass.sum()) / sessions.turns / cycle_s
    text = (
        f"{sessions.users:,} users in sessions of {sessions.turns:,} turns, {sessions.growth_tokens:,.0f} tokens in "
        f"and {sessions.output_tokens:,.0f} out per turn, {format_seconds(sessions.think_s)} of thought between"
    )
    return Workload(rate, lengths, description=text, sessions=sessions), _assumed(keys, sessions.size_factors)


def size_factors(scv: float, most: float = float("inf")) -> tuple[float, ...]:
    """Sizes of sessions over their mean: equally likely, of mean 1 and this scv, none above `most`.

    Each is the mean of a lognormal between two of its octiles; its log-deviation is the one that gives the scv. What
    would be larger than `most` ends there, and the others are larger for it: the mean stays, the scv falls.
    """
    sigma = _rising_to(scv, 0.0, _WIDEST, lambda trial: float(np.mean(_octiles(trial) ** 2)) - 1.0)
    if sigma < _NARROWEST or most <= 1.0:
        return (1.0,)
    free = _octiles(sigma)
    factor = _rising_to(1.0, 1.0, 1.0 / free[0], lambda trial: float(np.mean(np.minimum(trial * free, most))))
    return tuple(float(size) for size in np.minimum(factor * free, most))


def _octiles(sigma: float) -> Floats:
    """Means of a lognormal of mean 1 between its octiles."""
    normal = NormalDist()
    inner = [normal.inv_cdf(cell / SIZES) - sigma for cell in range(1, SIZES)]
    return np.diff([0.0, *map(normal.cdf, inner), 1.0]) * SIZES


def _rising_to(level: float, low: float, high: float, value: Callable[[float], float]) -> float:
    """Where a rising `value` reaches `level`."""
    for _ in range(60):
        middle = (low + high) / 2.0
        low, high = (middle, high) if value(middle) < level else (low, middle)
    return high


def _assumed(keys: SessionKeys, factors: tuple[float, ...]) -> tuple[Note, ...]:
    if keys.size_scv is not None:
        return ()
    scv = float(np.mean(np.square(factors))) - 1.0
    text = f"sessions differ in size with an scv of {scv:.2g} (assumed, as recorded chats do); `size_scv: 0`: all alike"
    return (Note("info", text),) if len(factors) > 1 else ()


def _record(keys: SessionKeys, most_tokens: int) -> Sessions:
    first = keys.first_tokens if keys.first_tokens is not None else max(keys.growth_tokens, 1.0)
    longest = first + keys.turns * (keys.growth_tokens + keys.output_tokens)
    most = max((most_tokens - keys.system_prompt_tokens) / longest, 1.0) if most_tokens else float("inf")
    return Sessions(
        users=keys.users,
        turns=keys.turns,
        system_tokens=keys.system_prompt_tokens,
        first_tokens=first,
        growth_tokens=keys.growth_tokens,
        output_tokens=keys.output_tokens,
        think_s=keys.think_time.mean,
        think_scv=keys.think_time.scv,
        size_factors=size_factors(USUAL_SIZE_SCV, most) if keys.size_scv is None else size_factors(keys.size_scv),
        sub_agents=_sub_agents(keys.subagents) if keys.subagents else None,
    )


def _sub_agents(keys: SubAgentKeys) -> SubAgents:
    return SubAgents(gap_s=keys.turn_time, **keys.model_dump(exclude={"turn_time"}))
