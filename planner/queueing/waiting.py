"""Waiting time in front of several servers with one queue: the light-heavy recipe LHk (QUEUEING §2.1)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from planner.queueing.delay import DelayLaw, fit_delay
from planner.queueing.service import Floats, ServiceLaw

CENTRAL, SHORTEST = "central", "shortest"

# Signed error of the P99 wait: the 5-95 % envelope of QUEUEING §2.2, widened where the exact references leave it.
# Rows by SCV of service, columns by number of servers.
_SCV_EDGES = np.array([0.3, 1.1, 2.5, 6.0])
_SERVER_EDGES = np.array([1.5, 5.5, 32.5])
_ERROR_LOW = np.array(
    [
        [-0.02, -0.07, -0.11, -0.16],
        [-0.015, -0.05, -0.06, -0.05],
        [-0.01, -0.03, -0.04, -0.04],
        [-0.20, -0.14, -0.15, -0.17],
        [-0.35, -0.19, -0.16, -0.34],
    ]
)
_ERROR_HIGH = np.array(
    [
        [0.01, 0.03, 0.04, 0.07],
        [0.015, 0.03, 0.04, 0.07],
        [0.01, 0.01, 0.04, 0.04],
        [0.08, 0.13, 0.10, 0.10],
        [0.08, 0.07, 0.18, 0.16],
    ]
)
_SHORTEST_ERROR = 0.33  # p90 of the P99 error under join-shortest-queue (QUEUEING §3), either sign
_BODY_TOLERANCE = 0.05  # of a mean service time, on quantiles below P90 (QUEUEING §2.2)


class WaitLike(Protocol):
    """What a total needs to know about a wait: stationary (`Wait`) and moving (`MovingWait`) waits both do."""

    @property
    def mean_s(self) -> Floats: ...

    def survival(self, t_s: ArrayLike) -> Floats: ...

    def quantile_s(self, q: ArrayLike) -> Floats: ...


@dataclass(frozen=True, slots=True, eq=False)
class Jobs:
    """Moments of the service time at every point: m_1..m_4, and g_1..g_3 of the least of k residuals; s^j."""

    moments: tuple[Floats, Floats, Floats, Floats]
    minima: tuple[Floats, Floats, Floats]
    heavy_share: float = 0.0
    long_job_work: float = 0.0

    @property
    def scv(self) -> Floats:
        return np.maximum(0.0, self.moments[1] / self.moments[0] ** 2 - 1.0)

    def residual_moment(self, order: int) -> Floats:
        """E[R^order] of the residual of one job, order 1 to 3."""
        return self.moments[order] / ((order + 1) * self.moments[0])


def jobs_of(service: ServiceLaw, servers: ArrayLike, scale: ArrayLike = 1.0) -> Jobs:
    """The moments of `scale` x service at every point of `servers` and `scale`."""
    counts, factor = np.broadcast_arrays(np.asarray(servers, dtype=float), np.asarray(scale, dtype=float))
    distinct, place = np.unique(counts, return_inverse=True)
    minima = service.residual_minimum_moments(distinct)[:, place.reshape(counts.shape)]
    m = [service.moment(order) * factor**order for order in (1, 2, 3, 4)]
    g = [minima[order] * factor ** (order + 1) for order in (0, 1, 2)]
    return Jobs((m[0], m[1], m[2], m[3]), (g[0], g[1], g[2]), service.heavy_share, service.long_job_work)


@dataclass(frozen=True, slots=True, eq=False)
class Wait:
    """Stationary waiting time at every point; all arrays have the points' shape.

    Attributes
    ----------
    servers : servers per point.   load : work offered per server and second; the wait is inf from 1 on.
    probability : P(W > 0).   mean_s : E[W].   second_moment : E[W^2], s^2.   delay : law of W given W > 0.
    service_mean_s, service_scv : of the jobs.   policy : "central" or "shortest".
    """

    servers: Floats
    load: Floats
    probability: Floats
    mean_s: Floats
    second_moment: Floats
    delay: DelayLaw
    service_mean_s: Floats
    service_scv: Floats
    heavy_share: float
    long_job_work: float
    policy: str = CENTRAL

    def survival(self, t_s: ArrayLike) -> Floats:
        """P(W > t). A scalar `t_s` gives the points' shape, otherwise its last axis is appended to it."""
        t = np.asarray(t_s, dtype=float)
        tail = _trailing(self.probability, t) * self.delay.survival(_against(self.probability, t))
        return np.where(t < 0.0, 1.0, tail)

    def quantile_s(self, q: ArrayLike) -> Floats:
        """The smallest t with P(W <= t) >= q; shapes as in `survival`. Raises ValueError for q outside (0, 1)."""
        level = checked_level(q)
        probability = _trailing(self.probability, level)
        with np.errstate(divide="ignore", over="ignore"):
            tail = np.clip(_against(self.probability, 1.0 - level) / probability, 1e-300, 1.0)
        waits = self.delay.quantile_s(tail)
        waits = np.where(probability <= 1.0 - level, 0.0, waits)
        return np.where(_trailing(self.load, level) >= 1.0, np.inf, waits)

    def band(self, q: float) -> tuple[Floats, Floats]:
        """Lowest and highest true q-quantile, in s, by the printed 5-95 % error of the recipe (QUEUEING §2.2)."""
        estimate = self.quantile_s(q)
        row, column = np.searchsorted(_SCV_EDGES, self.service_scv), np.searchsorted(_SERVER_EDGES, self.servers)
        error_low, error_high = _ERROR_LOW[row, column], _ERROR_HIGH[row, column]
        if self.policy == SHORTEST:
            several = self.servers > 1
            error_low = np.where(several, np.minimum(error_low, -_SHORTEST_ERROR), error_low)
            error_high = np.where(several, np.maximum(error_high, _SHORTEST_ERROR), error_high)
        slack = _BODY_TOLERANCE * self.service_mean_s if q < 0.9 else 0.0
        low, high = estimate / (1.0 + error_high) - slack, estimate / (1.0 + error_low) + slack
        return np.maximum(0.0, low), high

    def at(self, index: Any) -> Wait:
        """The waits at some of the points: `index` goes to every array as in ``array[index]``."""
        arrays = {
            name: np.asarray(getattr(self, name))[index]
            for name in ("servers", "load", "probability", "mean_s", "second_moment", "service_mean_s", "service_scv")
        }
        return replace(self, delay=self.delay.at(index), **arrays)

    @property
    def trust(self) -> NDArray[np.str_]:
        """ "ok", "caution" or "no closed form" at every point (QUEUEING §2.3)."""
        return self._verdict()[0]

    @property
    def trust_reason(self) -> NDArray[np.str_]:
        """Why `trust` is not "ok"; empty where it is."""
        return self._verdict()[1]

    def _verdict(self) -> tuple[NDArray[np.str_], NDArray[np.str_]]:
        all_long = 0.01 / np.maximum(self.probability * self.long_job_work**self.servers, 1e-300)
        stuck = (self.long_job_work > 0.0) & (all_long > 0.5) & (all_long < 2.0)
        crowd = (self.servers >= 16) & (self.service_scv >= 6.0) & (self.load <= 0.8)
        heavy = np.full(self.load.shape, self.heavy_share > 0.6)
        cases = (
            (self.load >= 1.0, "no closed form", "saturated: more work arrives than the servers can do"),
            (stuck, "no closed form", "P99 falls in the gap between short and long jobs"),
            (crowd, "no closed form", "many servers, very uneven jobs and a low load"),
            (heavy, "caution", "the largest 1 % of jobs carry most of the second moment"),
            (self.service_scv > 6.0, "caution", "very uneven jobs"),
            (self.load > 0.97, "caution", "load beyond the range the recipe was checked on"),
            (np.abs(self.probability / 0.01 - 1.0) <= 0.2, "caution", "P99 lies at the edge of not waiting at all"),
        )
        masks = [mask for mask, _, _ in cases]
        trust = np.select(masks, [np.array(level) for _, level, _ in cases], default="ok")
        return trust, np.select(masks, [np.array(text) for _, _, text in cases], default="")


def central_queue(
    servers: ArrayLike, arrivals_per_s: ArrayLike, service: ServiceLaw, arrival_scv: float = 1.0, scale: ArrayLike = 1.0
) -> Wait:
    """Poisson arrivals, one queue, first come first served (M/G/k).

    Parameters
    ----------
    servers : whole numbers >= 1.   arrivals_per_s : >= 0, to all servers together.   scale : > 0, stretches the
        service times point by point. The three broadcast.
    service : law of the service time.   arrival_scv : must be 1; for load that moves see `backlog_composite`.

    Returns
    -------
    Wait. Exact for exponential service, exact mean for one server. A load of 1 or more waits forever.

    Raises
    ------
    ValueError
        Not a whole number of servers, a negative or NaN rate, a scale that is not positive, another `arrival_scv`.
    """
    if arrival_scv != 1.0:
        raise ValueError(f"arrival_scv must be 1: only Poisson arrivals are handled here, got {arrival_scv}")
    counts, rates, factor = checked_points(servers, arrivals_per_s, scale)
    return wait_of(counts, rates, jobs_of(service, counts, factor))


def wait_of(servers: Floats, arrivals_per_s: Floats, jobs: Jobs, shortest: bool = False) -> Wait:
    """The recipe on moments alone, for rooms whose service law differs from point to point.

    With `shortest`, the cost of joining the shortest of `servers` separate queues is added (QUEUEING §3): an arrival
    waits behind one more residual in a third of the cases.
    """
    load = arrivals_per_s * jobs.moments[0] / servers
    saturated = load >= 1.0
    usable = np.where(saturated, 0.5, load)
    d1, d2, d3 = _delay_moments(servers, usable, jobs)
    if shortest:
        d1, d2, d3 = _add_shortest(servers, jobs, d1, d2, d3)
    waits = np.where(saturated, 1.0, erlang_c(servers, usable))
    d1 = np.where(saturated, np.inf, d1)
    with np.errstate(invalid="ignore"):
        mean, second = waits * d1, waits * np.where(saturated, np.inf, d2)
    return Wait(
        servers=servers,
        load=load,
        probability=waits,
        mean_s=mean,
        second_moment=second,
        delay=fit_delay(d1, d2, d3),
        service_mean_s=np.broadcast_to(jobs.moments[0], load.shape),
        service_scv=np.broadcast_to(jobs.scv, load.shape),
        heavy_share=jobs.heavy_share,
        long_job_work=jobs.long_job_work,
        policy=SHORTEST if shortest else CENTRAL,
    )


def erlang_c(servers: ArrayLike, load: ArrayLike) -> Floats:
    """Probability that a Poisson arrival finds all servers busy (M/M/k); `load` per server in [0, 1)."""
    from scipy.special import gammaincc, gammaln, xlogy

    k, rho = np.asarray(servers, dtype=float), np.asarray(load, dtype=float)
    offered = k * rho
    # Erlang B: P(N = k) over P(N <= k) of a Poisson count
    blocked = np.exp(xlogy(k, offered) - offered - gammaln(k + 1.0)) / gammaincc(k + 1.0, offered)
    return np.asarray(blocked / (1.0 - rho * (1.0 - blocked)))


def cosmetatos_factor(servers: Floats, load: Floats) -> Floats:
    """How much longer M/D/k waits than half of M/M/k, minus 1 (Cosmetatos 1975); at most 1."""
    rise = (1.0 - load) * (servers - 1.0) * (np.sqrt(4.0 + 5.0 * servers) - 2.0) / (16.0 * servers)
    return np.asarray(np.minimum(1.0, rise / np.maximum(load, 1e-12)))


def kimura_mean_s(servers: ArrayLike, arrivals_per_s: ArrayLike, service: ServiceLaw) -> Floats:
    """Mean wait of M/G/k by Kimura 1986, the check that can be done by hand: it needs only the mean and the SCV.

    (1+c2) / (2 c2/W_M + (1-c2)/W_D), with W_M of M/M/k and W_D of M/D/k by Cosmetatos (MODELLING §7.1).
    """
    k, rates, _ = checked_points(servers, arrivals_per_s, 1.0)
    load = rates * service.mean_s / k
    usable = np.where(load < 1.0, load, 0.5)
    exponential = erlang_c(k, usable) * service.mean_s / (k * (1.0 - usable))
    fixed = exponential * (1.0 + cosmetatos_factor(k, usable)) / 2.0
    scv = service.scv
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = (1.0 + scv) / (2.0 * scv / exponential + (1.0 - scv) / fixed)
    return np.where(load >= 1.0, np.inf, np.where(exponential > 0.0, mean, 0.0))


def _delay_moments(servers: Floats, load: Floats, jobs: Jobs) -> tuple[Floats, Floats, Floats]:
    """E[D^j] of the delay of those that wait: the least residual, then a geometric number of residuals over k."""
    m1, scv = jobs.moments[0], jobs.scv
    light, heavy = servers * jobs.minima[0] / m1, (1.0 + scv) / 2.0
    uneven = light + (heavy - light) * load ** np.maximum(1.0, 0.6 * np.sqrt(servers))
    even = np.minimum(
        scv + (1.0 - scv) * (1.0 + np.where(servers > 1, cosmetatos_factor(servers, load), 0.0)) / 2.0,
        np.maximum((1.0 - load) * light + load * heavy, heavy / 2.0),
    )
    d1 = m1 * np.where(scv >= 1.0, uneven, even) / (servers * (1.0 - load))
    y1, y2, y3 = (jobs.residual_moment(j) / servers**j for j in (1, 2, 3))
    number = np.maximum(0.0, (d1 - jobs.minima[0]) / y1)
    shrink = np.minimum(1.0, d1 / jobs.minima[0])
    g1, g2, g3 = (shrink ** (j + 1) * jobs.minima[j] for j in (0, 1, 2))
    s1 = number * y1
    s2 = number * y2 + 2.0 * s1**2
    s3 = number * y3 + 6.0 * number * s1 * y2 + 6.0 * s1**3
    return d1, g2 + 2.0 * g1 * s1 + s2, g3 + 3.0 * g2 * s1 + 3.0 * g1 * s2 + s3


def _add_shortest(servers: Floats, jobs: Jobs, d1: Floats, d2: Floats, d3: Floats) -> tuple[Floats, Floats, Floats]:
    share = np.where(servers > 1, 1.0 / 3.0, 0.0)
    e1, e2, e3 = (share * jobs.residual_moment(j) for j in (1, 2, 3))
    return d1 + e1, d2 + 2.0 * d1 * e1 + e2, d3 + 3.0 * d2 * e1 + 3.0 * d1 * e2 + e3


def checked_points(servers: ArrayLike, arrivals_per_s: ArrayLike, scale: ArrayLike) -> tuple[Floats, Floats, Floats]:
    """The three as float arrays of one shape. Raises ValueError as `central_queue` says."""
    counts, rates, factor = np.broadcast_arrays(
        *(np.asarray(value, dtype=float) for value in (servers, arrivals_per_s, scale))
    )
    if not np.all((counts >= 1.0) & (counts == np.round(counts)) & np.isfinite(counts)):
        raise ValueError(f"servers must be whole numbers >= 1, got {servers!r}")
    if not np.all((rates >= 0.0) & np.isfinite(rates)):
        raise ValueError(f"arrivals_per_s must be finite and >= 0, got {arrivals_per_s!r}")
    if not np.all((factor > 0.0) & np.isfinite(factor)):
        raise ValueError(f"scale must be finite and > 0, got {scale!r}")
    return counts, rates, factor


def checked_level(q: ArrayLike) -> Floats:
    """`q` as an array. Raises ValueError outside (0, 1)."""
    level = np.asarray(q, dtype=float)
    if not np.all((level > 0.0) & (level < 1.0)):
        raise ValueError(f"q must lie in (0, 1), got {q!r}")
    return level


def _trailing(field: Floats, argument: Floats) -> Floats:
    """`field` of the points' shape, ready to meet an argument with an axis of its own."""
    return field if argument.ndim == 0 else field[..., None]


def _against(points: Floats, argument: Floats) -> Floats:
    """`argument` spread over the points: their shape, and its own last axis if it has one."""
    tail = () if argument.ndim == 0 else argument.shape[-1:]
    return np.broadcast_to(argument, points.shape + tail)
