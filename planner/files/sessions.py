"""The `sessions:` of a workload to a record, with the prompts and outputs that its turns have."""

from __future__ import annotations

import numpy as np

from planner.files.schema import SessionKeys, SubAgentKeys
from planner.records import Lengths, Sessions, SubAgents, Workload
from planner.units import format_seconds

_TOKEN_S = 0.03  # per output token, in the first guess of the rate that sizing replaces by what the plan does


def session_workload(keys: SessionKeys) -> Workload:
    """Requests of the sessions with nothing found in a cache, and a first guess of their rate."""
    sessions = _record(keys)
    prompts, outputs, weights = [], [], []
    own = sessions.first_tokens + np.arange(sessions.turns) * (sessions.growth_tokens + sessions.output_tokens)
    prompts.append(sessions.system_tokens + own)
    outputs.append(np.full(sessions.turns, sessions.output_tokens))
    weights.append(np.ones(sessions.turns))
    cycle_s = sessions.think_s + _TOKEN_S * sessions.output_tokens
    sub = sessions.sub_agents
    if sub is not None:
        bursts = sub.children * sessions.turns / sub.every_turns
        prompts.append(
            sub.shared_tokens + sub.first_tokens + np.arange(sub.turns) * (sub.growth_tokens + sub.output_tokens)
        )
        outputs.append(np.full(sub.turns, sub.output_tokens))
        weights.append(np.full(sub.turns, bursts))
        cycle_s += sub.turns * sub.gap_s / sub.every_turns
    mass = np.concatenate(weights)
    lengths = Lengths(np.concatenate(prompts), np.concatenate(outputs), mass / mass.sum())
    rate = sessions.users * float(mass.sum()) / sessions.turns / cycle_s
    text = (
        f"{sessions.users:,} users in sessions of {sessions.turns:,} turns, {sessions.growth_tokens:,.0f} tokens in "
        f"and {sessions.output_tokens:,.0f} out per turn, {format_seconds(sessions.think_s)} of thought between"
    )
    return Workload(rate, lengths, description=text, sessions=sessions)


def _record(keys: SessionKeys) -> Sessions:
    return Sessions(
        users=keys.users,
        turns=keys.turns,
        system_tokens=keys.system_prompt_tokens,
        first_tokens=keys.first_tokens if keys.first_tokens is not None else max(keys.growth_tokens, 1.0),
        growth_tokens=keys.growth_tokens,
        output_tokens=keys.output_tokens,
        think_s=keys.think_time.mean,
        think_scv=keys.think_time.scv,
        sub_agents=_sub_agents(keys.subagents) if keys.subagents else None,
    )


def _sub_agents(keys: SubAgentKeys) -> SubAgents:
    return SubAgents(
        children=keys.children,
        every_turns=keys.every_turns,
        shared_tokens=keys.shared_tokens,
        first_tokens=keys.first_tokens,
        turns=keys.turns,
        growth_tokens=keys.growth_tokens,
        output_tokens=keys.output_tokens,
        gap_s=keys.turn_time,
    )
