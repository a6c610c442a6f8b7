"""The highest rate that a shared pool carries."""

from __future__ import annotations

import numpy as np

from planner.records import Floats, Mode
from planner.serving.colocated import linear_law
from planner.serving.colocated_ranks import settles
from planner.serving.role import Role

BISECTIONS = 5


def requests_per_s_max(role: Role, mode: Mode, replicas: int, chained: bool, carried_per_s: float) -> float:
    """Highest stationary rate at which the pool still settles [requests/s]: a wide scan, then a fine one.

    `chained` : its steps bend under its own load.   `carried_per_s` : a rate at which it is known to settle, or 0.
    """
    rate = float(role.traffic.window_requests_per_s @ role.traffic.window_weights)
    if role.dp > 1:
        return _most_of_chain(role, replicas, rate, carried_per_s)
    coarse = _highest_settled(role, mode, replicas, rate * np.geomspace(2.0**-10, 2.0**20, 61))
    most = _highest_settled(role, mode, replicas, coarse * np.linspace(1.0, 2.0**0.5, 61)) if coarse else 0.0
    return _most_of_chain(role, replicas, most, carried_per_s) if chained else most


def _most_of_chain(role: Role, replicas: int, rate: float, carried_per_s: float) -> float:
    """The same by bisection, of points that are solved one by one."""
    holds = settles(role, replicas)
    low, high = 0.0, rate
    while high <= carried_per_s or holds(high):
        low, high = high, 2.0 * high
    for _ in range(BISECTIONS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if middle <= carried_per_s or holds(middle) else (low, middle)
    return low


def _highest_settled(role: Role, mode: Mode, replicas: int, rates: Floats) -> float:
    law, _ = linear_law(role, mode, rates, np.array([float(role.token_budget)]), np.array([float(replicas)]))
    settled = law.stable[0, 0] & (law.mean_batch[0, 0] <= role.memory_batch)
    return float(rates[settled].max()) if settled.any() else 0.0
