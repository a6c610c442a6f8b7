"""The cliff against a run of it: users, turns and contexts one by one, with a memory that evicts the oldest first.

The run takes step times from the planner and nothing else: what is held, found, evicted, waited for and preempted comes
from keeping count.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pytest
import small_scenarios as small

from planner.files.sessions import size_factors
from planner.records import Deployment, KvTier, Lengths, Pool, Sessions
from planner.serving.flow import Plant, plant_of
from planner.serving.residency import cliffs, level_tokens, settled, sweep

AGENTS = Sessions(1, 12, 0.0, 8000.0, 2000.0, 500.0, 20.0, 0.5)
CHATS = Sessions(1, 6, 0.0, 1000.0, 500.0, 400.0, 0.05, size_factors=size_factors(0.4))
ONE = Deployment("colocated-chunked", decode=Pool("h100-sxm", 1, tp=1))
WARM = 0.5  # of the turns, before anything is counted


# two and a half times what the memory of the accelerator takes
DRAM = KvTier("host-dram", "host-dram", "DDR5", 160e9, 8e12, 0.0, 500e9, 500e9, 0.5e-3, None, link_factor=0.79)


@cache
def plant(sessions: Sessions, tiered: bool = False) -> Plant:
    sizes, steps = (
        np.asarray(sessions.size_factors),
        np.arange(sessions.turns) * (sessions.growth_tokens + sessions.output_tokens),
    )
    prompts = np.outer(sizes, sessions.first_tokens + steps).ravel()
    outputs = np.repeat(sizes * sessions.output_tokens, sessions.turns)
    base = small.scenario()
    lengths = Lengths(prompts, outputs, np.full(prompts.size, 1.0 / prompts.size))
    return plant_of(
        replace(
            base, workload=replace(base.workload, lengths=lengths, sessions=sessions), tiers=(DRAM,) if tiered else ()
        ),
        ONE,
    )


@cache
def _step_s(sessions: Sessions, batch: int, chunk: int) -> float:
    role = plant(sessions).decode
    time = role.mixed(np.array([float(batch)]), np.array([float(chunk)])) if chunk else role.decode(np.array([batch]))
    return float(np.ravel(time.total_s)[0])


def step_s(sessions: Sessions, batch: int, chunk: float) -> float:
    """A step that decodes and reads so many tokens of prompts, to 32 of them."""
    return _step_s(sessions, batch, 32 * -int(-chunk // 32))


@dataclass(eq=False)
class Turn:
    """One request: what is still to be computed and to be generated."""

    user: int
    came_s: float
    prompt: float
    new: float
    left: float
    held: float = 0.0
    again: bool = False  # preempted before


class Run:
    """A worker of one pool; time goes from event to event."""

    def __init__(self, sessions: Sessions, users: int, turns: int, seed: int = 3, below_tokens: float = 0.0) -> None:
        self.sessions, self.built = sessions, plant(sessions)
        self.random, self.room = np.random.default_rng(seed), level_tokens(self.built)[0]
        self.now, self.total, self.prompts, self.found, self.waits = 0.0, 0, 0.0, 0.0, list[float]()
        self.idle = [(float(self.random.uniform(0, sessions.think_s)), user) for user in range(users)]
        self.turn = [int(self.random.integers(sessions.turns)) for _ in range(users)]
        self.size = [float(self.random.choice(sessions.size_factors)) for _ in range(users)]
        self.kept: dict[int, float] = {}  # idle contexts, oldest use first
        self.below, self.below_room, self.fetched = dict[int, float](), below_tokens, 0.0  # prompts in a tier
        self.queue, self.reading, self.running = list[Turn](), list[Turn](), list[Turn]()
        heapq.heapify(self.idle)
        self.counted_from = int(WARM * turns)
        while self.total < turns:
            self.step()

    @property
    def held(self) -> float:
        return sum(turn.held for turn in (*self.reading, *self.running))

    def step(self) -> None:
        """To the next event: a turn comes, a prompt is read, an answer ends, or memory is full."""
        batch = max(len(self.running), 1)
        waiting = sum(turn.new for turn in self.reading)
        chunk = min(max(self.built.decode.token_budget - batch, 1.0), waiting)
        each_s = step_s(self.sessions, batch, chunk) if self.running or self.reading else 0.0
        times = [self.idle[0][0] - self.now] if self.idle else []
        if self.reading:
            times.append(self.reading[0].new / chunk * each_s)
        if self.running:
            times.append(min(turn.left for turn in self.running) * each_s)
            times.append(max(self.room - self.held, 1.0) / len(self.running) * each_s)
        spent = max(min(times), 1e-9)
        self.now += spent
        if each_s:
            for turn in self.running:
                turn.left -= spent / each_s
                turn.held += spent / each_s
            if self.reading:
                self.reading[0].new -= spent / each_s * chunk
        self.settle()

    def settle(self) -> None:
        while self.idle and self.idle[0][0] <= self.now + 1e-12:
            self.come(heapq.heappop(self.idle)[1])
        if self.reading and self.reading[0].new <= 1e-6:
            turn = self.reading.pop(0)
            self.running.append(turn)
            self.write_through(turn)
            if self.total > self.counted_from and not turn.again:
                self.waits.append(self.now - turn.came_s)
        for turn in [turn for turn in self.running if turn.left <= 1e-6]:
            self.running.remove(turn)
            self.kept[turn.user] = turn.held
            heapq.heappush(self.idle, (self.now + self.thought_s(), turn.user))
        while self.held > self.room + 1.0 and len(self.running) > 1:  # preempted; finds again what others leave of it
            turn = self.running.pop()
            self.kept[turn.user] = turn.held
            turn.prompt, turn.held, turn.again = turn.held, 0.0, True
            self.queue.insert(0, turn)
        self.evict()
        while self.queue and self.queue[0].prompt <= self.room - self.held:
            self.admit(self.queue.pop(0))

    def thought_s(self) -> float:
        spread = np.sqrt(np.log1p(self.sessions.think_scv))
        return self.sessions.think_s * float(np.exp(self.random.normal(-(spread**2) / 2.0, spread)))

    def come(self, user: int) -> None:
        of = self.sessions
        if self.turn[user] == of.turns:
            self.turn[user], self.size[user] = 0, float(self.random.choice(of.size_factors))
            self.kept.pop(user, None)
            self.below.pop(user, None)
        own = (of.first_tokens + self.turn[user] * (of.growth_tokens + of.output_tokens)) * self.size[user]
        self.turn[user] += 1
        self.queue.append(Turn(user, self.now, own, own, of.output_tokens * self.size[user]))

    def admit(self, turn: Turn) -> None:
        near = min(self.kept.pop(turn.user, 0.0), turn.prompt)
        found = max(near, min(self.below.pop(turn.user, 0.0), turn.prompt))
        turn.new, turn.held = max(turn.prompt - found, 1.0), turn.prompt
        self.reading.append(turn)
        self.total += not turn.again
        if self.total > self.counted_from and not turn.again:
            self.prompts, self.found = self.prompts + turn.prompt, self.found + found
            self.fetched += found - near
        self.evict()

    def write_through(self, turn: Turn) -> None:
        """The tier takes prompts as they are computed, without answers, and drops those that were not asked for."""
        self.below[turn.user] = turn.prompt
        while self.below and sum(self.below.values()) > self.below_room:
            self.below.pop(next(iter(self.below)))

    def evict(self) -> None:
        """The oldest contexts first, each from its end."""
        excess = sum(self.kept.values()) + self.held - self.room
        while self.kept and excess > 0.0:
            oldest = next(iter(self.kept))
            left = self.kept[oldest] - excess
            excess -= self.kept[oldest]
            if left > 0.0:
                self.kept[oldest] = left
            else:
                self.kept.pop(oldest)

    @property
    def hit_fraction(self) -> float:
        return self.found / self.prompts


@cache
def lost_at(sessions: Sessions) -> float:
    guess = level_tokens(plant(sessions))[0] / plant(sessions).decode.traffic.context_moments[0]
    cliff = cliffs(plant(sessions), sweep(plant(sessions), (guess * np.geomspace(0.3, 3.0, 10)).tolist()))[0]
    assert cliff.lost_at_factor is not None
    return cliff.lost_at_factor


@pytest.mark.parametrize("sessions", [AGENTS, CHATS], ids=["agents", "chats"])
def test_hits_are_lost_where_a_run_loses_them(sessions: Sessions) -> None:
    """Within a quarter of the users: whole three quarters of the way to the cliff, mostly gone a quarter beyond."""
    whole = settled(plant(sessions), "cold", 0.3 * lost_at(sessions)).hit_fraction
    before, after = (Run(sessions, round(share * lost_at(sessions)), 2500).hit_fraction for share in (0.75, 1.25))
    assert before > 0.75 * whole and after < 0.5 * whole


@pytest.mark.parametrize("sessions", [AGENTS, CHATS], ids=["agents", "chats"])
@pytest.mark.parametrize("share", [1.25, 2.0])
def test_waits_just_beyond_the_cliff_and_far_from_it(sessions: Sessions, share: float) -> None:
    users = round(share * lost_at(sessions))
    measured = float(np.mean(Run(sessions, users, 3000).waits))
    flow = settled(plant(sessions), "cold", float(users)).flow
    assert measured / 1.5 <= flow.wait_s + flow.own_s <= measured * 1.5


@pytest.mark.parametrize("share", [0.75, 0.9, 1.0, 1.1, 1.25])
def test_hits_over_the_whole_slope(share: float) -> None:
    """Pauses that vary make a slope of the cliff: within 0.1 of the run at every load."""
    users = round(share * lost_at(AGENTS))
    found = settled(plant(AGENTS), "cold", float(users)).hit_fraction
    assert found == pytest.approx(Run(AGENTS, users, 3000).hit_fraction, abs=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.4, 0.75, 0.9, 1.25])
def test_hits_in_host_memory_before_and_beyond_its_cliff(share: float) -> None:
    """Prompts written through to a tier, without their answers: what memory and the tier find, and where it ends."""
    built = plant(AGENTS, True)
    lost = cliffs(built, sweep(built, np.geomspace(5.0, 150.0, 12).tolist()))[1].lost_at_factor
    assert lost is not None
    users = round(share * lost)
    run = Run(AGENTS, users, 4000, below_tokens=level_tokens(built)[1])
    state = settled(built, "cold", float(users))
    assert state.hit_fraction == pytest.approx(run.hit_fraction, abs=0.12)
    assert state.hits[1] == pytest.approx(run.fetched / run.prompts, abs=0.12)
    if share > 0.5:  # there is no wait to speak of before
        measured = float(np.mean(run.waits))
        assert measured / 1.5 <= state.flow.wait_s + state.flow.own_s <= measured * 1.5
