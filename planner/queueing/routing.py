"""How requests are spread over servers with queues of their own, and what that costs (QUEUEING §3)."""

from __future__ import annotations

from numpy.typing import ArrayLike

from planner.queueing.service import ServiceLaw
from planner.queueing.waiting import Wait, central_queue, checked_points, jobs_of, wait_of


def join_shortest_queue(
    servers: ArrayLike, arrivals_per_s: ArrayLike, service: ServiceLaw, scale: ArrayLike = 1.0
) -> Wait:
    """Each request joins the server with the fewest requests. Arguments and errors as `central_queue`.

    E[W] is that of the central queue plus C E[R]/3: in a third of the cases a request that waits has picked a server
    with one more residual R in front. One server is the central queue.
    """
    counts, rates, factor = checked_points(servers, arrivals_per_s, scale)
    return wait_of(counts, rates, jobs_of(service, counts, factor), shortest=True)


def least_work(servers: ArrayLike, arrivals_per_s: ArrayLike, service: ServiceLaw, scale: ArrayLike = 1.0) -> Wait:
    """Each request joins the server that will be free first: the central queue in disguise."""
    return central_queue(servers, arrivals_per_s, service, scale=scale)


def random_split(servers: ArrayLike, arrivals_per_s: ArrayLike, service: ServiceLaw, scale: ArrayLike = 1.0) -> Wait:
    """Each request picks a server blindly: as many separate M/G/1 queues."""
    counts, rates, factor = checked_points(servers, arrivals_per_s, scale)
    return central_queue(1, rates / counts, service, scale=factor)
