"""Described sessions against an exact curve of the same sessions played out, by hand, and against physics."""

from __future__ import annotations

import heapq
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.reuse import BlockRequests, Session, SubAgents, TraceReuse, reuse_curve, session_reuse

BLOCK = 10
AGENT = Session(
    users=40, turns=8, system_tokens=200, first_tokens=100, growth_tokens=50, output_tokens=50, think_s=20, service_s=5
)
BURSTS = SubAgents(
    children=3,
    every_turns=4,
    shared_tokens=100,
    first_tokens=50,
    turns=4,
    growth_tokens=20,
    output_tokens=30,
    gap_s=3,
)


def played(session: Session, turns: int, seed: int = 5) -> TraceReuse:
    """The sessions as a trace of blocks, started at random places, and its exact curve."""
    draw = np.random.default_rng(seed)
    rows: list[tuple[float, list[int], float]] = []
    fresh = iter(range(10_000, 10**9))
    own: dict[int, list[int]] = {}
    queue = [
        (float(draw.uniform(0, session.turn_gap_s)), user, int(draw.integers(session.turns)))
        for user in range(int(session.users))
    ]
    heapq.heapify(queue)
    deviation = np.sqrt(np.log1p(session.think_scv))

    def extended(chain: list[int], tokens: float) -> list[int]:
        return chain + [next(fresh) for _ in range(round(tokens / BLOCK) - len(chain))]

    while len(rows) < turns:
        now, user, turn = heapq.heappop(queue)
        own[user] = extended(own.get(user, []) if turn else [], session.own_tokens[turn])
        rows.append((now, list(range(int(session.system_tokens / BLOCK))) + own[user], session.output_tokens))
        gap = session.service_s + session.think_s * float(np.exp(draw.normal(-(deviation**2) / 2, deviation)))
        sub = session.sub_agents
        if sub is not None and draw.random() < 1 / sub.every_turns:
            for _ in range(sub.children):
                child: list[int] = []
                begin = now + draw.uniform(0, 1e-3)
                for step in range(sub.turns):
                    child = extended(child, sub.own_tokens[step])
                    shared = [5_000 + block for block in range(int(sub.shared_tokens / BLOCK))]
                    rows.append((begin + step * sub.gap_s, shared + child, sub.output_tokens))
            gap += sub.duration_s
        heapq.heappush(queue, (now + gap, user, (turn + 1) % session.turns))
    rows.sort(key=lambda row: row[0])
    sizes = [len(row[1]) for row in rows]
    return reuse_curve(
        BlockRequests(
            np.array([block for row in rows for block in row[1]], dtype=np.int64),
            np.cumsum([0, *sizes], dtype=np.int64),
            np.array(sizes, dtype=float) * BLOCK,
            np.array([row[2] for row in rows]),
            BLOCK,
        )
    )


@pytest.mark.parametrize(
    "session",
    [
        AGENT,
        replace(AGENT, think_scv=1.0),
        replace(AGENT, users=200, think_scv=4.0, turns=3),
        replace(AGENT, sub_agents=BURSTS, think_scv=0.5),
    ],
    ids=["equal gaps", "spread gaps", "short sessions", "sub-agents"],
)
def test_curve_is_that_of_the_sessions_played_out(session: Session) -> None:
    exact, estimate = played(session, 6000), session_reuse(session, BLOCK)
    live = estimate.live_tokens() / BLOCK
    capacities = live * np.array([0.3, 0.6, 1.5, 3.0])
    assert estimate.ceiling == pytest.approx(exact.ceiling, abs=0.02)
    assert estimate.hit_ratio(capacities) == pytest.approx(exact.hit_ratio(capacities), abs=0.03)


@pytest.mark.parametrize("scv", [0.0, 1.0])
def test_the_cliff_is_where_the_played_sessions_fall(scv: float) -> None:
    """Half of what returning turns can find is lost at N_c users."""
    session = replace(AGENT, think_scv=scv)
    capacity = 1.0 * session_reuse(session, BLOCK).live_tokens() / BLOCK
    assert session_reuse(session, BLOCK).cliff_users(capacity) == pytest.approx(session.users, rel=0.01)
    shared = session.system_tokens / np.mean(session.system_tokens + session.own_tokens)
    exact = played(session, 6000)
    half = shared + 0.5 * (exact.ceiling - shared)
    capacities = capacity * np.linspace(0.5, 1.6, 200)
    crossed = capacities[np.searchsorted(exact.hit_ratio(capacities), half)]
    assert crossed == pytest.approx(capacity, rel=0.1)


def test_cliff_by_hand() -> None:
    # own contexts 100, 200, …, 800 tokens: mean 450; 4,700 tokens less 200 shared hold 10 users
    assert session_reuse(AGENT, BLOCK).cliff_users(470) == pytest.approx(10)
    assert session_reuse(AGENT, BLOCK).live_tokens() == pytest.approx(200 + 40 * 450)
    assert session_reuse(AGENT, BLOCK).cliff_users(15) == 0  # 150 tokens do not hold the shared prompt


def test_ceiling_by_hand() -> None:
    # prompts 300, 400, …, 1,000 (5,200 in all); found: 200 of the first, then the whole prompt before (4,200)
    assert session_reuse(AGENT, BLOCK).ceiling == pytest.approx((200 + 4200) / 5200)
    # answers kept where the next prompt looks add 50 to each of seven turns
    kept = replace(AGENT, outputs_cached=True)
    assert session_reuse(kept, BLOCK).ceiling == pytest.approx((200 + 4200 + 7 * 50) / 5200)


def test_whole_blocks_only() -> None:
    # with blocks of 300 a prompt of 400 can give one block
    law = session_reuse(replace(AGENT, turns=3), 300).joint_law(1e6)
    assert sorted(zip(law.input_tokens, law.cached_tokens, strict=True)) == [(300, 0), (400, 300), (500, 300)]


def test_rates() -> None:
    assert AGENT.requests_per_s == pytest.approx(40 / 25)
    assert AGENT.session_s == pytest.approx(8 * 25)
    bursty = replace(AGENT, sub_agents=BURSTS)
    # each fourth turn waits 12 s for its children: 28 s a turn; it adds 3 x 4 requests
    assert bursty.turn_gap_s == pytest.approx(28)
    assert bursty.requests_per_s == pytest.approx(40 / 28 * (1 + 12 / 4))
    assert BURSTS.burst_tokens == 100 + 3 * (50 + 3 * 50 + 30)


sessions = st.builds(
    Session,
    users=st.floats(1, 1000),
    turns=st.integers(1, 20),
    system_tokens=st.floats(1, 5000),
    first_tokens=st.floats(0, 5000),
    growth_tokens=st.floats(0, 2000),
    output_tokens=st.floats(0, 2000),
    think_s=st.floats(0.1, 600),
    think_scv=st.sampled_from([0.0, 0.3, 2.0]),
    service_s=st.floats(0, 60),
    outputs_cached=st.booleans(),
    sub_agents=st.sampled_from([None, BURSTS]),
)


@given(sessions, st.integers(1, 64))
def test_more_capacity_never_fewer_hits_and_none_beyond_the_ceiling(session: Session, block_tokens: int) -> None:
    reuse = session_reuse(session, block_tokens)
    capacities = np.geomspace(1, 1e7, 12)
    ratios = reuse.hit_ratio(capacities)
    assert (np.diff(ratios) >= -1e-12).all()
    assert (ratios <= reuse.ceiling + 1e-12).all()
    law = reuse.joint_law(1000)
    assert law.weights.sum() == pytest.approx(1)
    assert (law.cached_tokens >= 0).all()
    assert (law.uncached_tokens >= 0).all()


@given(sessions)
def test_more_users_never_more_hits_of_contexts(session: Session) -> None:
    lonely = replace(session, system_tokens=0.0, first_tokens=session.first_tokens + 1, sub_agents=None)
    few, many = (session_reuse(replace(lonely, users=users), 16) for users in (10.0, 30.0))
    assert many.hit_ratio(2000) <= few.hit_ratio(2000) + 1e-12
    assert many.cliff_users(2000) == pytest.approx(few.cliff_users(2000))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"users": 0}, "users must be finite and above 0"),
        ({"turns": 0}, "turns must be finite and at least 1"),
        ({"think_s": 0, "service_s": 0}, "think_s \\+ service_s must be finite and above 0"),
        ({"think_s": float("inf")}, "think_s must be finite"),
        ({"system_tokens": 0, "first_tokens": 0}, "system_tokens \\+ first_tokens must be finite and above 0"),
        ({"growth_tokens": -1}, "growth_tokens must be finite and at least 0"),
    ],
)
def test_impossible_sessions_are_refused(change: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(AGENT, **change)
    with pytest.raises(ValueError, match="block_tokens must be at least 1"):
        session_reuse(AGENT, 0)
    with pytest.raises(ValueError, match="every_turns must be finite and at least 1"):
        replace(BURSTS, every_turns=0.5)


def test_the_longest_pause_that_a_scenario_can_say_is_one() -> None:
    pause_s = 100_000 * 86_400.0
    session = replace(AGENT, think_s=pause_s, service_s=pause_s)
    assert session.turn_gap_s == 2 * pause_s


def test_sizes_change_the_law_and_not_what_is_found() -> None:
    """Sessions of half and of one and a half times the tokens: the same working set, prompts and hits on average."""
    unequal = replace(AGENT, size_factors=(0.5, 1.5))
    for capacity in (100.0, 800.0, 1e6):
        alike, apart = (session_reuse(one, 1).joint_law(capacity) for one in (AGENT, unequal))
        assert apart.token_hit_ratio == pytest.approx(alike.token_hit_ratio, abs=1e-3)
        for name in ("input_tokens", "output_tokens", "cached_tokens"):
            means = [float(law.weights @ getattr(law, name)) for law in (alike, apart)]
            assert means[1] == pytest.approx(means[0], rel=1e-3)
    assert set(apart.output_tokens) == {25.0, 75.0}
