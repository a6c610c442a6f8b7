"""How requests are spread over servers with queues of their own, and what that costs (QUEUEING §3)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from planner.queueing import exact
from planner.queueing.exact import erlang_c
from planner.queueing.jobs import Jobs, jobs_of
from planner.queueing.light_heavy import (
    CompoundWait,
    cosmetatos_factor,
    mixed,
    residual_moments,
    single_wait,
    stretched,
    waiting_probability,
)
from planner.queueing.service import Floats, ServiceLaw
from planner.queueing.trust import IN_FLIGHT, ROUND_ROBIN, SHORTEST, TWO_CHOICES
from planner.queueing.waiting import (
    CompoundOf,
    Wait,
    central_queue,
    checked_points,
    exact_wait,
    fitted_wait,
    gaps_above,
    refuse_saturated,
    tabulated_wait,
)

_LEVELS = 8  # queue lengths of two choices beyond which rho^(2^n) is nil


def join_shortest_queue(
    servers: ArrayLike, arrivals_per_s: ArrayLike, service: ServiceLaw, scale: ArrayLike = 1.0
) -> Wait:
    """Each request joins the server with the fewest requests. Arguments, refinement and errors as `central_queue`.

    Whoever waits sees the residual of one job, of a server that holds it alone, and as many more jobs as the shortest
    queue has: geometric with ratio load^servers. All servers are busy less often than behind one queue. One server is
    the central queue.
    """
    return _routed(servers, arrivals_per_s, service, scale, shortest_wait, SHORTEST)


def two_choices(servers: ArrayLike, arrivals_per_s: ArrayLike, service: ServiceLaw, scale: ArrayLike = 1.0) -> Wait:
    """Each request looks at two servers at random and joins the one with fewer requests.

    Queue lengths follow load^(2^(n+1) - 2) for many servers, with a geometric part for few. Arguments as above.
    """
    return _routed(servers, arrivals_per_s, service, scale, two_choices_wait, TWO_CHOICES)


def fewest_in_flight(
    servers: ArrayLike, arrivals_per_s: ArrayLike, service: ServiceLaw, others: ArrayLike, scale: ArrayLike = 1.0
) -> Wait:
    """Each request joins the server with the fewest requests in flight, of which the queue is only a part.

    `others` are on a server besides its queue, on average: requests that decode, for a queue of prompts. The more
    they are, the less of the queue the router sees (`in_flight_wait`). Other arguments and errors as `central_queue`.
    """
    counts, rates, factor = checked_points(servers, arrivals_per_s, scale)
    refuse_saturated(counts, rates, service.mean_s * factor)
    jobs = jobs_of(service, counts, factor)
    return fitted_wait(counts, rates, jobs, in_flight_wait(np.asarray(others, dtype=float)), IN_FLIGHT)


def round_robin(servers: ArrayLike, arrivals_per_s: ArrayLike, service: ServiceLaw, scale: ArrayLike = 1.0) -> Wait:
    """Requests go to the servers in turn: every server is an E_k/G/1 queue. Arguments as above.

    A single point is solved exactly; fixed service gives M/D/k. Arrays use Kraemer and Langenbach-Belz.
    """
    counts, rates, factor = checked_points(servers, arrivals_per_s, scale)
    refuse_saturated(counts, rates, service.mean_s * factor)
    if counts.ndim == 0 and float(rates) > 0.0:
        count, law = int(counts), service.scaled(float(factor))
        if count == 1 or (law.values_s.size == 1 and not law.phases):
            return replace(central_queue(count, float(rates), law), policy=ROUND_ROBIN)
        rate = float(rates) / count
        solved = exact.single_server(law.work_above, gaps_above(rate, 1.0 / count))
        wait = exact_wait(1, rate * law.mean_s, solved, 1.0, jobs_of(law, 1), ROUND_ROBIN)
        return replace(wait, servers=np.array(float(count)))
    return fitted_wait(counts, rates, jobs_of(service, counts, factor), round_robin_wait, ROUND_ROBIN)


def least_work(servers: ArrayLike, arrivals_per_s: ArrayLike, service: ServiceLaw, scale: ArrayLike = 1.0) -> Wait:
    """Each request joins the server that will be free first: the central queue in disguise."""
    return central_queue(servers, arrivals_per_s, service, scale=scale)


def random_split(servers: ArrayLike, arrivals_per_s: ArrayLike, service: ServiceLaw, scale: ArrayLike = 1.0) -> Wait:
    """Each request picks a server blindly: as many separate M/G/1 queues."""
    counts, rates, factor = checked_points(servers, arrivals_per_s, scale)
    return central_queue(1, rates / counts, service, scale=factor)


def _routed(
    servers: ArrayLike,
    arrivals_per_s: ArrayLike,
    service: ServiceLaw,
    scale: ArrayLike,
    compound: CompoundOf,
    policy: str,
) -> Wait:
    counts, rates, factor = checked_points(servers, arrivals_per_s, scale)
    refuse_saturated(counts, rates, service.mean_s * factor)
    jobs = jobs_of(service, counts, factor)
    if counts.ndim == 0 and float(rates) > 0.0:
        count, law = int(counts), service.scaled(float(factor))
        if count == 1:
            return replace(central_queue(1, float(rates), law), policy=policy)
        load = float(rates) * law.mean_s / count
        made = compound(np.array(float(count)), np.array(load), jobs)
        return tabulated_wait(count, load, law, jobs, made, policy)
    return fitted_wait(counts, rates, jobs, compound, policy)


# ------------------------------------------------------------------------------- the laws, as moments or as compounds


def shortest_wait(servers: Floats, load: Floats, jobs: Jobs) -> CompoundWait:
    """Join the shortest queue. Constants fitted to 290 simulations (k 2-64, load 0.3-0.96)."""
    probability, d1, bias = _shortest(servers, load, jobs)
    return _queued(probability, d1, bias, servers, jobs)


def _shortest(servers: Floats, load: Floats, jobs: Jobs) -> tuple[Floats, Floats, Floats]:
    """P(W > 0), the mean delay, and how much shorter than usual the residual met is."""
    scv = jobs.scv
    rare = 0.125 * (servers - 1.0) ** 1.15 * load**0.6 * (2.0 / (1.0 + scv)) ** 0.25
    probability = erlang_c(servers, load) / (1.0 + (1.0 - load) * rare)
    # the shortest queue is short because its jobs are
    bias = np.where(scv > 1.0, 0.15, 0.015) * np.log(servers) * (scv - 1.0) / (scv + 1.0)
    level = load**servers
    d1 = jobs.residual_moment(1) * np.maximum(0.2, 1.0 - bias + level / (1.0 - level))
    return probability, d1, np.maximum(0.0, bias)


@dataclass(frozen=True, slots=True, eq=False)
class WaitMoments:
    """P(W > 0), and E[D^j] of the delay given that there is one, j = 1, 2, 3."""

    probability: Floats
    delay: tuple[Floats, Floats, Floats]

    def moments(self) -> tuple[Floats, Floats, Floats]:
        return self.delay


def in_flight_wait(others: Floats) -> Callable[[Floats, Floats, Jobs], WaitMoments]:
    """The law behind a router that balances queue and `others` together; `others` broadcasts to the points.

    Balanced totals say of a server's queue what its share of their variance is, s = V[L] / (V[L] + others) with L the
    queue of M/G/1 and as many decoding requests as a Poisson count varies by. The wait lies between that of the
    shortest queue (s = 1) and that of M/G/1 (s = 0): probability, mean delay and the shape of the delay are
    interpolated in s. While a server holds no request at all it is found (`_none_free`). Checked against step
    simulations (docs/queueing.md).
    """

    def moments(servers: Floats, load: Floats, jobs: Jobs) -> WaitMoments:
        seen = shortest_wait(servers, load, jobs)
        blind = single_wait(load, jobs)
        sight = np.where(servers > 1.0, _sight(load, jobs, others), 0.0)
        (s1, s2, s3), (b1, b2, b3) = seen.moments(), blind.moments()
        d1 = sight * s1 + (1.0 - sight) * b1
        second = sight * s2 / s1**2 + (1.0 - sight) * b2 / b1**2
        third = sight * s3 / s1**3 + (1.0 - sight) * b3 / b1**3
        # the one request of a lightly used server is prefilled with chance load / (load + others)
        crowded = np.where(servers > 1.0, _none_free(servers, load + others) / np.minimum(1.0, load + others), 1.0)
        probability = sight * seen.probability + (1.0 - sight) * crowded * blind.probability
        return WaitMoments(probability, (d1, second * d1**2, third * d1**3))

    return moments


def _none_free(servers: Floats, each: Floats) -> Floats:
    """Chance that every server holds a request, of `each` on average, when a new one goes where there are fewest.

    Requests do not hold each other up, so up to one a server it is Erlang's loss, P(N = k) / P(N <= k) of a Poisson
    count; beyond, P(N >= 2 k) fills in what that misses. Simulated at 12 and 16 servers: within a fifth.
    """
    from scipy.special import gammainc, gammaincc, gammaln, xlogy

    offered = servers * np.minimum(each, 2.0)
    most = gammaincc(servers + 1.0, offered)
    exact = np.exp(xlogy(servers, offered) - offered - gammaln(servers + 1.0))
    lost = np.where(most > 0.0, exact / np.where(most > 0.0, most, 1.0), 1.0)
    return np.asarray(lost + (1.0 - lost) * gammainc(2.0 * servers, servers * each))


def _sight(load: Floats, jobs: Jobs, others: Floats) -> Floats:
    """Share of the variance of all requests in flight that the queue makes; V[L] as of a geometric count."""
    queue = load + load**2 * (1.0 + jobs.scv) / (2.0 * (1.0 - load))
    variance = queue * (1.0 + queue)
    return np.asarray(variance / np.maximum(variance + others, 1e-300))


def two_choices_wait(servers: Floats, load: Floats, jobs: Jobs) -> CompoundWait:
    """Join the shorter of two queues; all there are, for one or two servers. Constants fitted to 335 simulations (k
    2-64, load 0.3-0.96)."""
    scv, many = jobs.scv, servers > 2
    few = (1.0 - load) * (0.38 + 0.37 * (1.0 - load)) * (2.0 / servers) ** 1.2
    # of a queue n deep, given that there is one
    chances = tuple(np.where(many, load ** (2.0 ** (n + 1) - 4.0), 0.0) for n in range(2, _LEVELS))
    extra = load**2 / (servers * (1.0 - load)) * (0.45 + 0.9 / servers)
    uneven = (scv - 1.0) / (scv + 1.0) * (1.0 - 1.0 / servers)
    bias = np.where(scv > 1.0, 0.32, 0.03) * uneven * np.sqrt(load)
    delay = jobs.residual_moment(1) * (1.0 + sum(chances, np.zeros_like(load)) + extra) * (1.0 - bias)
    probability, d1, shorter = _shortest(servers, load, jobs)
    return _queued(
        np.where(many, load**2 * (1.0 + few), probability),
        np.where(many, delay, d1),
        np.where(many, np.maximum(0.0, 0.2 * uneven), shorter),
        np.minimum(2.0, servers),
        jobs,
        chances,
    )


def _queued(
    probability: Floats, d1: Floats, bias: Floats, among: Floats, jobs: Jobs, chances: tuple[Floats, ...] = ()
) -> CompoundWait:
    """A residual, a share `bias` shorter than usual, and then whole jobs until the mean is `d1`."""
    whole = residual_moments(jobs)
    apart = np.maximum(whole[0] - jobs.minima[0], 1e-12 * whole[0])
    mix = np.clip(1.0 - bias * whole[0] / apart, 0.0, 1.0)
    first = mixed(mix, whole, jobs.minima)
    stretch = np.minimum(1.0, d1 / first[0])
    first = stretched(stretch, first)
    # even jobs are met at even places: each further one adds its residual mean, not its whole
    m1, m2, m3, _ = jobs.moments
    shrink = np.minimum(1.0, whole[0] / m1)
    step = stretched(shrink, (m1, m2, m3))
    room = np.maximum(0.0, d1 - first[0]) / step[0]
    known = sum(chances, np.zeros_like(d1))
    kept = np.minimum(1.0, room / np.maximum(known, 1e-300)) if chances else np.ones_like(d1)
    more = tuple(kept * chance for chance in chances)
    steps = np.maximum(0.0, room - kept * known)
    return CompoundWait(probability, steps, first, step, stretch, mix, among, shrink, more)


def round_robin_wait(servers: Floats, load: Floats, jobs: Jobs) -> CompoundWait:
    """E_k/G/1 by Kraemer and Langenbach-Belz; even service from M/D/k (QUEUEING §3)."""
    scv, regular = jobs.scv, 1.0 / servers
    uneven = kraemer_mean(load, regular, np.maximum(scv, 1.0))
    fixed = waiting_probability(servers, load, jobs) / (servers * (1.0 - load)) / 2.0
    fixed = fixed * (1.0 + np.where(servers > 1, cosmetatos_factor(servers, load), 0.0))
    even = scv * kraemer_mean(load, regular, np.ones_like(scv)) + (1.0 - scv) * fixed
    mean = jobs.moments[0] * np.where(scv >= 1.0, uneven, even)
    spread = (1.0 + regular + load * scv) / (1.0 + load * (scv - 1.0) + load**2 * (4.0 * regular + scv))
    probability = np.clip(load + (regular - 1.0) * load * (1.0 - load) * spread, 1e-12, 1.0)
    whole = residual_moments(jobs)
    d1 = np.maximum(mean / probability, 1e-6 * whole[0])
    stretch = np.minimum(1.0, d1 / whole[0])
    first = stretched(stretch, whole)
    steps = np.maximum(0.0, d1 - whole[0]) / whole[0]
    one = np.ones_like(load)
    return CompoundWait(probability, steps, first, whole, stretch, one, one)


def kraemer_mean(load: Floats, arrival_scv: Floats, scv: Floats) -> Floats:
    """E[W] of GI/G/1 in mean service times, arrival SCV up to 1 (Kraemer and Langenbach-Belz 1976)."""
    gap = np.exp(-2.0 * (1.0 - load) * (1.0 - arrival_scv) ** 2 / (3.0 * np.maximum(load, 1e-12) * (arrival_scv + scv)))
    return np.asarray(load * (arrival_scv + scv) / (2.0 * (1.0 - load)) * gap)
