"""Prefix reuse and cache curves: what share of prompt tokens a cache of so many blocks holds,
from a trace or a description of sessions.

    stack_distance   exact LRU and leaf-first distances of every block reference (Mattson), and curves from them
    working_set      Denning's working set, characteristic time, Che's approximation, times between uses
    sessions         the same answers from a description of agents or chats: users, turns, growth, think time

How to use it:

    requests = BlockRequests(blocks, offsets, input_tokens, output_tokens, block_tokens=512, time_s=time_s)
    reuse = reuse_curve(requests)                   # or reuse_curve(requests, "leaf-first"): the order engines evict in
    reuse.hit_ratio([1_000, 5_000])                 # share of blocks found, by capacity in blocks
    reuse.token_hit_ratio([1_000, 5_000])           # share of prompt tokens
    reuse.ceiling, reuse.token_ceiling              # what no capacity can pass
    reuse.cached_tokens(5_000)                      # one number per request, in the order of `requests`
    reuse.joint_law(5_000)                          # atoms of (cached, input, output) tokens with weights
    reuse.hit_curve()                               # 20 log-spaced capacities and their ratios

    session = Session(users=200, turns=20, system_tokens=8_000, first_tokens=2_000, growth_tokens=1_500,
                      output_tokens=400, think_s=30.0, think_scv=1.0, service_s=8.0)
    described = session_reuse(session, block_tokens=16)
    described.hit_ratio(400_000), described.joint_law(400_000)
    described.cliff_users(400_000)                  # N_c; `replace(session, service_s=…)` when the service time moves
    described.working_set_tokens([10, 60, 600])

A caller that does not care where a curve came from takes a `planner.reuse.records.Reuse`: `hit_ratio`,
`token_hit_ratio`, `joint_law`, `ceiling` and `token_ceiling`.

Numbers only: blocks are integers, lengths are tokens, and what a block weighs in bytes is the caller's business.
"""

from planner.reuse.records import BlockRequests, CachedLengths, HitCurve, Reuse
from planner.reuse.sessions import Session, SessionReuse, SubAgents, session_reuse
from planner.reuse.stack_distance import TraceReuse, reuse_curve
from planner.reuse.working_set import WorkingSet, independent_hit_ratio, working_set

__all__ = [
    "BlockRequests",
    "CachedLengths",
    "HitCurve",
    "Reuse",
    "Session",
    "SessionReuse",
    "SubAgents",
    "TraceReuse",
    "WorkingSet",
    "independent_hit_ratio",
    "reuse_curve",
    "session_reuse",
    "working_set",
]
