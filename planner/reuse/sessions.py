"""Reuse where there is no trace: chats and agents described by users, turns, growth and think time.

A user holds one session at a time and starts the next when it ends. Turn k of a session sends everything so far: the
system prompt that all users share, the first message, and what each turn added. What it sent the turn before is found
in the cache if that was used within the cache's characteristic time, the window whose working set is the capacity
(Denning; MODELLING §9):

    working set(T) = shared (1 - exp(-uses of it in T)) + users * sum over turns of rate * tokens * E[min(gap, T)]

A last turn is never used again and stays for T. With gaps that are all equal the hit ratio is a step, and the step
stands at capacity = shared + users * mean context: the cliff.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from math import expm1, isfinite

import numpy as np
from numpy.typing import ArrayLike

from planner.reuse.counting import Ints
from planner.reuse.gaps import Gap, Gaps, within
from planner.reuse.records import CachedLengths, Floats, LevelLengths

_ROUNDS = 200  # around a root: more than a bisection to the digits of a double takes
_CLOSE = 1e-14  # ends of a bracket, relative: a step is then told from what lies beside it
_LONGEST_S = 1e15
_MOST = {"turns": 100_000, "think_scv": 1_000}  # of other counts a thousand million
_MOST_S = 20_000_000_000  # of a pause and an answer of 100,000 days each, the longest a scenario can say
_LEAST_CHANCE = 1e-12  # of an outcome that is told apart
_ROUNDING = 1e-9  # of a block, when tokens are cut into whole ones


@dataclass(frozen=True, slots=True)
class SubAgents:
    """Bursts of sub-agents: now and then a turn starts several children, and waits for all of them.

    Attributes
    ----------
    children : started together.   every_turns : parent turns from one burst to the next.
    shared_tokens : prompt that all sub-agents of all users share.   first_tokens : own task of a child.
    turns, growth_tokens, output_tokens, gap_s : of a child, as for a session; `gap_s` from one turn to the next.
    """

    children: int
    every_turns: float
    shared_tokens: float
    first_tokens: float
    turns: int
    growth_tokens: float
    output_tokens: float
    gap_s: float

    def __post_init__(self) -> None:
        _check_at_least(self, 0.0, "shared_tokens", "first_tokens", "growth_tokens", "output_tokens")
        _check_at_least(self, 1.0, "children", "every_turns", "turns")
        _check_above_zero("gap_s", self.gap_s)
        _check_above_zero("shared_tokens + first_tokens", self.shared_tokens + self.first_tokens)

    @property
    def own_tokens(self) -> Floats:
        """Context beside the shared prompt at each turn of a child, shape (turns,)."""
        return _growing(self.first_tokens, self.growth_tokens + self.output_tokens, self.turns)

    @property
    def duration_s(self) -> float:
        return self.turns * self.gap_s

    @property
    def burst_tokens(self) -> float:
        """KV of one burst when its children end: the shared prompt once, each child's context and last output."""
        return self.shared_tokens + self.children * (float(self.own_tokens[-1]) + self.output_tokens)


@dataclass(frozen=True, slots=True)
class Session:
    """Users in a closed loop of turns.

    Attributes
    ----------
    users : sessions alive at a time.   turns : requests of one session.
    system_tokens : prompt that all sessions share.   first_tokens : own part of the first prompt.
    growth_tokens : what the user or a tool adds per turn.   output_tokens : answer, which the next prompt repeats.
    think_s, think_scv : mean and squared coefficient of variation of the pause between answer and next turn.
    service_s : time to answer.   outputs_cached : whether the answer's own KV is kept where the next prompt looks;
        traces count it as new.   sub_agents : bursts of children, if any.
    size_factors : own tokens of a session over the mean ones, equally likely; their mean is 1.
    """

    users: float
    turns: int
    system_tokens: float
    first_tokens: float
    growth_tokens: float
    output_tokens: float
    think_s: float
    think_scv: float = 0.0
    service_s: float = 0.0
    outputs_cached: bool = False
    sub_agents: SubAgents | None = None
    size_factors: tuple[float, ...] = (1.0,)

    def __post_init__(self) -> None:
        _check_at_least(self, 0.0, "system_tokens", "first_tokens", "growth_tokens", "output_tokens")
        _check_at_least(self, 0.0, "think_s", "think_scv", "service_s")
        _check_at_least(self, 1.0, "turns")
        _check_above_zero("users", self.users)
        _check_above_zero("think_s + service_s", self.think_s + self.service_s)
        _check_above_zero("system_tokens + first_tokens", self.system_tokens + self.first_tokens)

    @property
    def own_tokens(self) -> Floats:
        """Context beside the system prompt at each turn, shape (turns,)."""
        return _growing(self.first_tokens, self.growth_tokens + self.output_tokens, self.turns)

    @property
    def turn_gap_s(self) -> float:
        """Mean time from one turn of a user to the next, bursts included."""
        waits = self.sub_agents.duration_s / self.sub_agents.every_turns if self.sub_agents else 0.0
        return self.think_s + self.service_s + waits

    @property
    def session_s(self) -> float:
        """Mean life of a session; users = session_s * new sessions per second."""
        return self.turns * self.turn_gap_s

    @property
    def requests_per_s(self) -> float:
        """Turns of all users and their sub-agents."""
        return sum(stream.turns_per_s for stream in _streams(self)) * self.users


def _growing(first_tokens: float, step_tokens: float, turns: int) -> Floats:
    return np.asarray(first_tokens + np.arange(turns) * step_tokens, dtype=float)


def _check_at_least(record: object, least: float, *names: str) -> None:
    for name in names:
        value = getattr(record, name)
        if not (isfinite(value) and value >= least):
            raise ValueError(f"{name} must be finite and at least {least:g}, got {value}")
        _check_at_most(name, value)


def _check_above_zero(name: str, value: float) -> None:
    if not (isfinite(value) and value > 0.0):
        raise ValueError(f"{name} must be finite and above 0, got {value}")
    _check_at_most(name, value)


def _check_at_most(name: str, value: float) -> None:
    most = _MOST.get(name, _MOST_S if name.endswith("_s") else 1_000_000_000)
    if value > most:
        raise ValueError(f"{name} must be at most {most:,}, got {value:g}")


@dataclass(frozen=True, eq=False)
class _Stream:
    """Chains of turns that one user starts, `chains_per_s` on average; kept_tokens: of an answer, for the next turn."""

    chains_per_s: float
    shared_tokens: float
    own_tokens: Floats
    output_tokens: float
    kept_tokens: float
    gaps: Gaps

    @property
    def turns_per_s(self) -> float:
        return self.chains_per_s * self.own_tokens.size

    @cached_property
    def returning_tokens(self) -> float:
        """Own tokens of all turns but the last."""
        return float(self.own_tokens[:-1].sum())

    @cached_property
    def last_tokens(self) -> float:
        return float(self.own_tokens[-1])

    def working_set(self, window_s: float) -> float:
        """Own tokens of one user's chains used within the window."""
        kept_s = sum(weight * gap.kept_s(window_s) for weight, gap in self.gaps)
        return self.chains_per_s * (self.returning_tokens * kept_s + self.last_tokens * window_s)

    def shared_within(self, window_s: float, users: float) -> float:
        """Chance that somebody used the shared prompt within the window."""
        return -expm1(-self.turns_per_s * users * window_s)

    def found(
        self, windows_s: Sequence[float | None], answers: Sequence[bool], sizes: Floats, users: float, block_tokens: int
    ) -> Floats:
        """Rows of prompt, output, chance and the cached tokens within each window; atoms are sizes x turns x outcomes.

        A turn finds all of the turn before, or the shared prompt, or nothing; the first turn never finds all. The
        order of windows is kept: who finds something within one finds it within every wider one. `answers` : which
        levels hold them.
        """
        kept = np.array([[self.kept_tokens if each else 0.0] for each in answers])
        before = np.concatenate((np.zeros((kept.size, 1)), self.own_tokens[:-1] + kept), axis=1)
        whole = self.shared_tokens + np.minimum(before, self.own_tokens)[:, None, :] * sizes[:, None]
        options = np.stack((whole, np.full_like(whole, self.shared_tokens), np.zeros_like(whole)))
        options = np.floor(options / block_tokens + _ROUNDING) * block_tokens
        levels = np.arange(kept.size)
        prompts = self.shared_tokens + np.outer(sizes, self.own_tokens)
        outputs = np.broadcast_to(
            np.maximum(self.output_tokens * sizes, min(self.output_tokens, 1.0))[:, None], prompts.shape
        )
        shared = np.array([1.0 if each is None else self.shared_within(each, users) for each in windows_s])
        again = np.array([1.0 if each is None else within(self.gaps, each) for each in windows_s])
        rows = []
        for turns, chance in ((slice(0, 1), np.zeros(shared.size)), (slice(1, None), again)):
            widths, outcomes = _outcomes(chance, chance + (1.0 - chance) * shared)
            one = np.stack((prompts[:, turns].ravel(), outputs[:, turns].ravel(), np.ones(prompts[:, turns].size)))
            kinds = options[..., turns].reshape(3, levels.size, -1)
            rows += [
                np.vstack((one[:2], one[2:] * (width * self.chains_per_s / sizes.size), kinds[outcome, levels]))
                for width, outcome in zip(widths, outcomes, strict=True)
            ]
        return np.concatenate(rows, axis=1)


def _outcomes(whole: Floats, some: Floats) -> tuple[Floats, Ints]:
    """Chances of what several levels find together, and which outcome that is at each: 0 all, 1 shared, 2 nothing.

    `whole`, `some` : per level the chance of everything, and of at least the shared prompt. Shapes (cells,) and
    (cells, levels).
    """
    edges = np.unique(np.concatenate((whole, some, [1.0])))
    widths = np.diff(np.concatenate(([0.0], edges)))
    kept = widths > _LEAST_CHANCE
    middle = (edges - widths / 2.0)[kept, None]
    return widths[kept], (middle > whole).astype(np.int64) + (middle > some)


@lru_cache(maxsize=64)
def _streams(session: Session) -> tuple[_Stream, ...]:
    """The turns of a user, and those of the sub-agents they start."""
    sub, plain = session.sub_agents, Gap(session.service_s, session.think_s, session.think_scv)
    gaps: Gaps = ((1.0, plain),)
    if sub is not None:
        share = 1.0 / sub.every_turns
        gaps = ((1.0 - share, plain), (share, replace(plain, fixed_s=plain.fixed_s + sub.duration_s)))
    kept = session.output_tokens if session.outputs_cached else 0.0
    rate = 1.0 / session.session_s
    own = _Stream(rate, session.system_tokens, session.own_tokens, session.output_tokens, kept, gaps)
    if sub is None:
        return (own,)
    bursts = sub.children * session.turns / sub.every_turns
    kept = sub.output_tokens if session.outputs_cached else 0.0
    steps = ((1.0, Gap(sub.gap_s, 0.0, 0.0)),)
    return own, _Stream(rate * bursts, sub.shared_tokens, sub.own_tokens, sub.output_tokens, kept, steps)


def _working_set(session: Session) -> Callable[[float], float]:
    """Tokens used within a window, each counted once, as a function of the window."""
    users, streams = session.users, _streams(session)

    def tokens(window_s: float) -> float:
        return sum(
            stream.shared_tokens * stream.shared_within(window_s, users) + users * stream.working_set(window_s)
            for stream in streams
        )

    return tokens


@dataclass(frozen=True, slots=True)
class SessionReuse:
    """Reuse of described sessions in one cache of `block_tokens` blocks; answers as `TraceReuse` does, by estimate."""

    session: Session
    block_tokens: int

    @property
    def ceiling(self) -> float:
        """Share of prompt tokens that some earlier prompt had, with room for everything."""
        return self._law(None).token_hit_ratio

    @property
    def token_ceiling(self) -> float:
        return self.ceiling

    def hit_ratio(self, capacity_blocks: ArrayLike) -> Floats:
        """Share of prompt tokens found by capacity; the shape of `capacity_blocks`."""
        return _each(lambda blocks: self.joint_law(blocks).token_hit_ratio, capacity_blocks)

    def token_hit_ratio(self, capacity_blocks: ArrayLike) -> Floats:
        """The same: blocks of a description weigh what their tokens do."""
        return self.hit_ratio(capacity_blocks)

    def joint_law(self, capacity_blocks: float) -> CachedLengths:
        """Cached, input and output tokens of a request at one capacity: up to three atoms per turn."""
        return self._law(self.characteristic_time_s(capacity_blocks))

    def working_set_tokens(self, window_s: ArrayLike) -> Floats:
        """Mean tokens used within the last `window_s`, each counted once; its shape."""
        return _each(self._working_set, window_s)

    def characteristic_time_s(self, capacity_blocks: float) -> float:
        """How long the cache keeps what is not used: the window whose working set is the capacity."""
        tokens = capacity_blocks * self.block_tokens
        return _crossing(_working_set(self.session), tokens, self.session.turn_gap_s)

    def live_tokens(self) -> float:
        """What must be kept for half of the returning turns to find their context: shared + users x live context."""
        return self._working_set(self._median_gap_s())

    def cliff_users(self, capacity_blocks: float) -> float:
        """Users at which half of the returning turns no longer find their context: N_c.

        With equal gaps N_c = (capacity - shared) / mean own context; 0 where the shared prompts alone do not fit.
        """
        window_s, streams = self._median_gap_s(), _streams(self.session)
        shared = sum(stream.shared_tokens for stream in streams)
        live = sum(stream.working_set(window_s) for stream in streams)
        return max(capacity_blocks * self.block_tokens - shared, 0.0) / live

    def _median_gap_s(self) -> float:
        gaps = _streams(self.session)[0].gaps
        return _crossing(lambda window_s: within(gaps, window_s), 0.5, self.session.turn_gap_s, above=True)

    def _working_set(self, window_s: float) -> float:
        return _working_set(self.session)(window_s)

    def levels_law(self, capacities_blocks: Sequence[float], answers: Sequence[bool] | None = None) -> LevelLengths:
        """Prompts, outputs and what they find at each of several capacities, in the order of the capacities.

        Requests that find something at one capacity find it at every larger one; their answers, where
        `outputs_cached`, at those of `answers`, by default all.
        """
        return self._levels([self.characteristic_time_s(each) for each in capacities_blocks], answers)

    def _law(self, window_s: float | None) -> CachedLengths:
        """Of a cache that keeps what is not used for `window_s`; None: forever."""
        law = self._levels([window_s])
        return CachedLengths(law.found_tokens[0], law.input_tokens, law.output_tokens, law.weights)

    def _levels(self, windows_s: Sequence[float | None], answers: Sequence[bool] | None = None) -> LevelLengths:
        own, *others = _streams(self.session)
        held = [True] * len(windows_s) if answers is None else answers
        users, block = self.session.users, self.block_tokens
        parts = [own.found(windows_s, held, np.asarray(self.session.size_factors), users, block)]
        parts += [stream.found(windows_s, held, np.ones(1), users, block) for stream in others]
        table = np.concatenate(parts, axis=1)
        return LevelLengths(table[0], table[1], table[2] / table[2].sum(), table[3:])


def _each(function: Callable[[float], float], values: ArrayLike) -> Floats:
    asked = np.asarray(values, dtype=float)
    return np.array([function(float(value)) for value in asked.flat]).reshape(asked.shape)


def _crossing(rising: Callable[[float], float], level: float, guess: float, *, above: bool = False) -> float:
    """Where `rising` reaches `level`: the last place found below it, or with `above` the first not below.

    Chandrupatla's choice between a bisection and an inverse quadratic step, until the bracket closes on the digits of
    a double (Advances in Engineering Software 28(3), 1997).
    """
    low, high = 0.0, guess
    at_low, at_high = rising(low) - level, rising(high) - level
    while at_high < 0.0 and high < _LONGEST_S:
        low, high, at_low = high, 2.0 * high, at_high
        at_high = rising(high) - level
    last, at_last, other, at_other, share = high, at_high, low, at_low, 0.5
    for _ in range(_ROUNDS):
        place = last + share * (other - last)
        value = rising(place) - level
        if (value < 0.0) == (at_last < 0.0):
            before, at_before = last, at_last
        else:
            before, at_before, other, at_other = other, at_other, last, at_last
        last, at_last = place, value
        close, width = _CLOSE * max(last, other), abs(other - last)
        if width <= 2.0 * close:
            break
        least = close / width
        share = min(max(_step(last, other, before, at_last, at_other, at_before), least), 1.0 - least)
    return max(last, other) if above else min(last, other)


def _step(last: float, other: float, before: float, at_last: float, at_other: float, at_before: float) -> float:
    """Share of the way from `last` to `other`: by the parabola through three places, or a half where it misleads."""
    if at_before in (at_other, at_last) or at_last == at_other:
        return 0.5
    place, value = (last - other) / (before - other), (at_last - at_other) / (at_before - at_other)
    if not (value**2 < place and (1.0 - value) ** 2 < 1.0 - place):
        return 0.5
    near = at_last / (at_other - at_last) * at_before / (at_other - at_before)
    far = (before - last) / (other - last) * at_last / (at_before - at_last) * at_other / (at_before - at_other)
    return near + far


def session_reuse(session: Session, block_tokens: int) -> SessionReuse:
    """Reuse of a session description in blocks of `block_tokens`. Raises ValueError when it is below 1."""
    if block_tokens < 1:
        raise ValueError(f"block_tokens must be at least 1, got {block_tokens}")
    return SessionReuse(session, block_tokens)
