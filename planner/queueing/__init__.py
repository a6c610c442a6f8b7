"""Waits and occupancies. Numbers only."""

from planner.queueing import arrivals, closed_loop, occupancy, routing, waiting
from planner.queueing.arrivals import ArrivalProfile, arrival_profile
from planner.queueing.batching import BatchedPrefill, batched_prefill
from planner.queueing.closed_loop import ClosedLoop
from planner.queueing.colocated import chunked
from planner.queueing.lockstep import Lockstep
from planner.queueing.lockstep_wait import LockstepWait, lockstep_wait
from planner.queueing.mean_gap import mean_gap_quantile_s
from planner.queueing.moving import MovingWait, backlog_composite, index_of_dispersion, window_rates
from planner.queueing.occupancy import (
    BatchLaw,
    batch_for_memory,
    batch_for_reservation,
    batch_law,
    context_moments,
    kv_tokens_quantile,
)
from planner.queueing.routing import (
    fewest_in_flight,
    join_shortest_queue,
    least_work,
    random_split,
    round_robin,
    two_choices,
)
from planner.queueing.service import ServiceLaw
from planner.queueing.shared_engine import Colocated
from planner.queueing.total import total_mean_s, total_quantile_s
from planner.queueing.waiting import Wait, WaitLike, central_queue, kimura_mean_s
from planner.queueing.whole_prompt import whole_prompt

__all__ = [
    "ArrivalProfile",
    "BatchLaw",
    "BatchedPrefill",
    "ClosedLoop",
    "Colocated",
    "Lockstep",
    "LockstepWait",
    "MovingWait",
    "ServiceLaw",
    "Wait",
    "WaitLike",
    "arrival_profile",
    "arrivals",
    "backlog_composite",
    "batch_for_memory",
    "batch_for_reservation",
    "batch_law",
    "batched_prefill",
    "central_queue",
    "chunked",
    "closed_loop",
    "context_moments",
    "fewest_in_flight",
    "index_of_dispersion",
    "join_shortest_queue",
    "kimura_mean_s",
    "kv_tokens_quantile",
    "least_work",
    "lockstep_wait",
    "mean_gap_quantile_s",
    "occupancy",
    "random_split",
    "round_robin",
    "routing",
    "total_mean_s",
    "total_quantile_s",
    "two_choices",
    "waiting",
    "whole_prompt",
    "window_rates",
]
