"""Waits and occupancies. Numbers only."""

from planner.queueing.colocated import Colocated, chunked, whole_prompt
from planner.queueing.moving import MovingWait, backlog_composite, index_of_dispersion, window_rates
from planner.queueing.occupancy import (
    BatchLaw,
    batch_for_memory,
    batch_law,
    context_moments,
    kv_tokens_quantile,
)
from planner.queueing.routing import join_shortest_queue, least_work, random_split
from planner.queueing.service import ServiceLaw
from planner.queueing.total import total_mean_s, total_quantile_s
from planner.queueing.waiting import Wait, WaitLike, central_queue, kimura_mean_s

__all__ = [
    "BatchLaw",
    "Colocated",
    "MovingWait",
    "ServiceLaw",
    "Wait",
    "WaitLike",
    "backlog_composite",
    "batch_for_memory",
    "batch_law",
    "central_queue",
    "chunked",
    "context_moments",
    "index_of_dispersion",
    "join_shortest_queue",
    "kimura_mean_s",
    "kv_tokens_quantile",
    "least_work",
    "random_split",
    "total_mean_s",
    "total_quantile_s",
    "whole_prompt",
    "window_rates",
]
