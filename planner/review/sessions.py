"""Described sessions as plain values: load, working set, hit curve and cliff."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from planner import __version__
from planner.reuse import SessionReuse

SCHEMA_VERSION = 1

Document = dict[str, Any]

_POINTS = 20
_BEYOND = 4.0  # of the live context: how far the curve goes
_GAPS = (0.1, 0.5, 1.0, 2.0, 5.0, 20.0)  # windows of the working set, in mean pauses between turns


def sessions_document(reuse: SessionReuse, capacities: Sequence[int] | None) -> Document:
    """Everything `planner trace sessions` says; `capacities` in blocks, None for 20 log-spaced ones."""
    session, block_tokens = reuse.session, reuse.block_tokens
    live_tokens = reuse.live_tokens()
    blocks = capacities if capacities is not None else _grid(reuse, live_tokens)
    windows = [float(gaps * session.turn_gap_s) for gaps in _GAPS]
    return {
        "schema_version": SCHEMA_VERSION,
        "tool": {"name": "planner", "version": __version__},
        "session": asdict(session),
        "requests_per_s": session.requests_per_s,
        "reuse": {
            "block_tokens": block_tokens,
            "ceiling": reuse.ceiling,
            "live_tokens": live_tokens,
            "burst_tokens": None if session.sub_agents is None else session.sub_agents.burst_tokens,
            "curve": [
                {
                    "capacity_blocks": int(capacity),
                    "capacity_tokens": int(capacity) * block_tokens,
                    "hit_ratio": float(reuse.hit_ratio(capacity)),
                    "kept_s": reuse.characteristic_time_s(capacity),
                    "cliff_users": reuse.cliff_users(capacity),
                }
                for capacity in blocks
            ],
            "working_set": [
                {
                    "window_s": window,
                    "working_set_blocks": float(tokens) / block_tokens,
                    "working_set_tokens": float(tokens),
                }
                for window, tokens in zip(windows, reuse.working_set_tokens(windows), strict=True)
            ],
        },
    }


def _grid(reuse: SessionReuse, live_tokens: float) -> list[int]:
    """From one mean prompt to several times what all users need."""
    prompt = reuse.session.system_tokens + float(np.mean(reuse.session.own_tokens))
    least, most = prompt / reuse.block_tokens, _BEYOND * live_tokens / reuse.block_tokens
    points = np.geomspace(min(least, most), max(least, most), _POINTS)
    return [int(blocks) for blocks in np.unique(np.maximum(np.ceil(points), 1.0))]
