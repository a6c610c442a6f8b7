"""Prefix reuse and cache curves: what share of prompt tokens a cache of so many blocks holds,
from a trace.

    stack_distance   exact LRU and leaf-first distances of every block reference (Mattson), and curves from them

How to use it:

    requests = BlockRequests(blocks, offsets, input_tokens, output_tokens, block_tokens=512, time_s=time_s)
    reuse = reuse_curve(requests)                   # or reuse_curve(requests, "leaf-first"): the order engines evict in
    reuse.hit_ratio([1_000, 5_000])                 # share of blocks found, by capacity in blocks
    reuse.token_hit_ratio([1_000, 5_000])           # share of prompt tokens
    reuse.ceiling, reuse.token_ceiling              # what no capacity can pass
    reuse.cached_tokens(5_000)                      # one number per request, in the order of `requests`
    reuse.joint_law(5_000)                          # atoms of (cached, input, output) tokens with weights
    reuse.hit_curve()                               # 20 log-spaced capacities and their ratios

A caller that does not care where a curve came from takes a `planner.reuse.records.Reuse`: `hit_ratio`,
`token_hit_ratio`, `joint_law`, `ceiling` and `token_ceiling`.

Numbers only: blocks are integers, lengths are tokens, and what a block weighs in bytes is the caller's business.
"""

from planner.reuse.records import BlockRequests, CachedLengths, HitCurve, Reuse
from planner.reuse.stack_distance import TraceReuse, reuse_curve

__all__ = [
    "BlockRequests",
    "CachedLengths",
    "HitCurve",
    "Reuse",
    "TraceReuse",
    "reuse_curve",
]
