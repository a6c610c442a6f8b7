"""Waiting time in front of several servers with one queue (QUEUEING §2)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from planner.queueing import exact
from planner.queueing.compound import TabulatedDelay
from planner.queueing.delay import DelayLaw, fit_delay
from planner.queueing.exact import ExactWait, erlang_c
from planner.queueing.jobs import Jobs, jobs_of
from planner.queueing.light_heavy import CompoundWait, balanced_share, central_wait, cosmetatos_factor, renewal_wait
from planner.queueing.service import Floats, ServiceLaw
from planner.queueing.trust import CENTRAL, ROUND_ROBIN, SHORTEST, TWO_CHOICES, Accuracy, saturation

__all__ = ["CENTRAL", "ROUND_ROBIN", "SHORTEST", "TWO_CHOICES", "Jobs", "Wait", "WaitLike", "jobs_of"]


class WaitLike(Protocol):
    """What a total needs to know about a wait: stationary (`Wait`) and moving (`MovingWait`) waits both do."""

    @property
    def mean_s(self) -> Floats: ...

    def survival(self, t_s: ArrayLike) -> Floats: ...

    def quantile_s(self, q: ArrayLike) -> Floats: ...


@dataclass(frozen=True, slots=True, eq=False)
class Wait:
    """Stationary waiting time at every point; all arrays have the points' shape.

    Attributes
    ----------
    servers : servers per point.   load : work offered per server and second; the wait is inf from 1 on.
    probability : P(W > 0).   mean_s : E[W].   second_moment : E[W^2], s^2.   delay : law of W given W > 0.
    service_mean_s, service_scv : of the jobs.   policy : how jobs reach servers, such as "central" or "shortest".
    arrival_scv, arrival_dispersion : of the gaps between arrivals, and of their counts over long windows.
    refined : 2 where the law is exact, 1 where it was tabulated, 0 where it was fitted to three moments.
    """

    servers: Floats
    load: Floats
    probability: Floats
    mean_s: Floats
    second_moment: Floats
    delay: DelayLaw | TabulatedDelay
    service_mean_s: Floats
    service_scv: Floats
    heavy_share: float
    long_job_work: float
    policy: str = CENTRAL
    arrival_scv: float = 1.0
    arrival_dispersion: float = 1.0
    refined: int = 0

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
        """Lowest and highest true q-quantile in s, wide enough for 19 of 20 checked cases (docs/queueing.md)."""
        estimate = self.quantile_s(q)
        error_low, error_high, slack = self._accuracy().quantile_errors(q)
        delay = np.where(self.load < 1.0, self.mean_s / np.maximum(self.probability, 1e-300), 0.0)
        reach = slack * np.where(np.isfinite(delay), np.minimum(delay, 2.0 * self.service_mean_s), 0.0)
        # the edge of the atom at 0: what the quantile would be if a few more or fewer had to wait
        possible = estimate + np.where(self.probability * (1.0 + 2.0 * slack) > 1.0 - q, reach, 0.0)
        return np.maximum(0.0, estimate / (1.0 + error_high) - reach), possible / (1.0 + error_low)

    def at(self, index: Any) -> Wait:
        """The waits at some of the points: `index` goes to every array as in ``array[index]``."""
        arrays = {
            name: np.asarray(getattr(self, name))[index]
            for name in ("servers", "load", "probability", "mean_s", "second_moment", "service_mean_s", "service_scv")
        }
        return replace(self, delay=self.delay.at(index), **arrays)

    @property
    def trust(self) -> NDArray[np.str_]:
        """ "ok", "caution" or "no closed form" at every point (QUEUEING §2.3), for a P99."""
        return self._accuracy().verdict(0.99)[0]

    @property
    def trust_reason(self) -> NDArray[np.str_]:
        """Why `trust` is not "ok"; empty where it is."""
        return self._accuracy().verdict(0.99)[1]

    def trust_at(self, q: float) -> tuple[NDArray[np.str_], NDArray[np.str_]]:
        """The mark and its reason for another quantile than P99."""
        return self._accuracy().verdict(float(checked_level(q)))

    def _accuracy(self) -> Accuracy:
        return Accuracy(
            servers=self.servers,
            load=self.load,
            probability=self.probability,
            service_mean_s=self.service_mean_s,
            service_scv=self.service_scv,
            heavy_share=self.heavy_share,
            long_job_work=self.long_job_work,
            policy=self.policy,
            arrival_scv=self.arrival_scv,
            arrival_dispersion=self.arrival_dispersion,
            refined=self.refined,
        )


def central_queue(
    servers: ArrayLike,
    arrivals_per_s: ArrayLike,
    service: ServiceLaw,
    arrival_scv: float = 1.0,
    scale: ArrayLike = 1.0,
    arrival_dispersion: float | None = None,
) -> Wait:
    """Renewal arrivals, one queue, first come first served (GI/G/k).

    Parameters
    ----------
    servers : whole numbers >= 1.   arrivals_per_s : >= 0, to all servers together.   scale : > 0, stretches the
        service times point by point. The three broadcast.
    service : law of the service time.
    arrival_scv : squared coefficient of variation of the gaps, >= 0: 1 is Poisson, 0 a clock, above 1 bursts.
    arrival_dispersion : variance over mean of the arrivals per long window, if known. A renewal stream has its SCV
        there; where it is much more, no closed form is trusted (see `backlog_composite` for such load).

    Returns
    -------
    Wait. Exact: M/M/k; the mean for one server and Poisson arrivals. A single point (all arguments scalar) is refined:
    M/D/k, M/H2/k up to 16 servers and GI/G/1 are solved, other delays are tabulated by FFT instead of fitted to three
    moments. Points of an array with a load of 1 or more wait forever.

    Raises
    ------
    ValueError
        Not a whole number of servers, a rate, scale or `arrival_scv` that is negative or not finite, or a single point
        whose load is 1 or more; the message says by how much and what would restore stability.
    """
    counts, rates, factor = checked_points(servers, arrivals_per_s, scale)
    scv = checked_scv(arrival_scv)
    refuse_saturated(counts, rates, service.mean_s * factor)
    jobs = jobs_of(service, counts, factor)
    if counts.ndim == 0 and float(rates) > 0.0:
        wait = _refined_point(int(counts), float(rates), service.scaled(float(factor)), jobs, scv)
    else:
        wait = wait_of(counts, rates, jobs, arrival_scv=scv)
    dispersion = scv if arrival_dispersion is None else float(arrival_dispersion)
    return replace(wait, arrival_dispersion=dispersion)


def wait_of(servers: Floats, arrivals_per_s: Floats, jobs: Jobs, arrival_scv: float = 1.0) -> Wait:
    """The recipe on moments alone, where the service law differs from point to point."""

    def compound(counts: Floats, load: Floats, work: Jobs) -> CompoundWait:
        poisson = central_wait(counts, load, work)
        if arrival_scv == 1.0:
            return poisson
        return renewal_wait(poisson, counts, np.maximum(load, 1e-9), work, np.full(load.shape, arrival_scv))

    return replace(fitted_wait(servers, arrivals_per_s, jobs, compound, CENTRAL), arrival_scv=arrival_scv)


class HasMoments(Protocol):
    """P(W > 0), and the first three moments of the delay given that there is one."""

    @property
    def probability(self) -> Floats: ...

    def moments(self) -> tuple[Floats, Floats, Floats]: ...


class MomentsOf(Protocol):
    """A routing policy: the moments of the delay at servers, load below 1, and jobs."""

    def __call__(self, servers: Floats, load: Floats, jobs: Jobs, /) -> HasMoments: ...


class CompoundOf(Protocol):
    """A routing policy whose delay is a compound."""

    def __call__(self, servers: Floats, load: Floats, jobs: Jobs, /) -> CompoundWait: ...


def fitted_wait(servers: Floats, arrivals_per_s: Floats, jobs: Jobs, moments: MomentsOf, policy: str) -> Wait:
    """A wait whose delay is fitted to the three moments of its policy (tier 1); any shape."""
    load = arrivals_per_s * jobs.moments[0] / servers
    saturated = load >= 1.0
    usable = np.where(saturated, 0.5, load)
    law = moments(servers, usable, jobs)
    d1, d2, d3 = law.moments()
    waits = np.where(saturated, 1.0, law.probability)
    d1 = np.where(saturated, np.inf, d1)
    with np.errstate(invalid="ignore"):
        mean, second = waits * d1, waits * np.where(saturated, np.inf, d2)
    return _wait(servers, load, waits, mean, second, fit_delay(d1, d2, d3), jobs, policy)


def tabulated_wait(servers: int, load: float, service: ServiceLaw, jobs: Jobs, law: CompoundWait, policy: str) -> Wait:
    """A single point whose delay is tabulated from its compound (tier 2)."""
    d1, d2, _ = law.moments()
    probability = np.asarray(law.probability, dtype=float)
    delay = law.tabulated(service, servers)
    wait = _wait(
        np.array(float(servers)), np.array(load), probability, probability * d1, probability * d2, delay, jobs, policy
    )
    return replace(wait, refined=1)


def exact_wait(servers: int, load: float, law: ExactWait, mean_s: float, jobs: Jobs, policy: str = CENTRAL) -> Wait:
    """A single point solved exactly, in units of `mean_s`."""
    probability = np.array(law.probability)
    delay = TabulatedDelay(law.delay.times_s * mean_s, law.delay.log_tails)
    second = _second_moment(delay) * law.probability
    wait = _wait(
        np.array(float(servers)),
        np.array(load),
        probability,
        np.array(law.mean_s * mean_s),
        np.array(second),
        delay,
        jobs,
        policy,
    )
    return replace(wait, refined=2)


def _second_moment(delay: TabulatedDelay) -> float:
    t, tail = delay.times_s, np.exp(delay.log_tails)
    return float(2.0 * np.trapezoid(t * tail, t))


def _wait(
    servers: Floats,
    load: Floats,
    probability: Floats,
    mean_s: Floats,
    second: Floats,
    delay: DelayLaw | TabulatedDelay,
    jobs: Jobs,
    policy: str,
) -> Wait:
    return Wait(
        servers=servers,
        load=load,
        probability=probability,
        mean_s=mean_s,
        second_moment=second,
        delay=delay,
        service_mean_s=np.broadcast_to(jobs.moments[0], load.shape),
        service_scv=np.broadcast_to(jobs.scv, load.shape),
        heavy_share=jobs.heavy_share,
        long_job_work=jobs.long_job_work,
        policy=policy,
    )


def _refined_point(servers: int, rate: float, service: ServiceLaw, jobs: Jobs, arrival_scv: float) -> Wait:
    mean = service.mean_s
    load = rate * mean / servers
    if arrival_scv != 1.0:
        return _renewal_point(servers, rate, service, jobs, arrival_scv)
    single = service.values_s.size == 1
    if single and service.phases:
        return replace(wait_of(np.array(float(servers)), np.array(rate), jobs), refined=2)
    if single:
        return exact_wait(servers, load, exact.fixed_service(servers, load), mean, jobs)
    if service.phases and service.values_s.size == 2 and 1 < servers <= exact.MOST_TWO_PHASE_SERVERS:
        law = exact.two_phase_service(servers, load, service.weights, service.values_s / mean)
        return exact_wait(servers, load, law, mean, jobs)
    fixed = None
    if servers > 1 and service.scv < 1.0:
        solved = exact.fixed_service(servers, load)
        fixed = (solved.probability, solved.mean_s)
    compound = central_wait(np.array(float(servers)), np.array(load), jobs, fixed)
    wait = tabulated_wait(servers, load, service, jobs, compound, CENTRAL)
    return replace(wait, refined=2) if servers == 1 else wait


def _renewal_point(servers: int, rate: float, service: ServiceLaw, jobs: Jobs, arrival_scv: float) -> Wait:
    mean = service.mean_s
    load = rate * mean / servers
    if servers == 1:
        law = exact.single_server(service.work_above, gaps_above(rate, arrival_scv))
        return replace(exact_wait(1, load, law, 1.0, jobs), arrival_scv=arrival_scv)
    counts, loads = np.array(float(servers)), np.array(load)
    poisson = central_wait(counts, loads, jobs)
    compound = renewal_wait(poisson, counts, loads, jobs, np.array(arrival_scv))
    return replace(tabulated_wait(servers, load, service, jobs, compound, CENTRAL), arrival_scv=arrival_scv)


def gaps_above(rate: float, scv: float) -> Callable[[Floats], Floats]:
    """t -> E[(A - t)+] of gaps with this rate and SCV: fixed, gamma, exponential or balanced hyperexponential."""
    mean = 1.0 / rate
    if scv == 0.0:
        return lambda t: np.maximum(0.0, mean - t)
    if scv > 1.0:
        share = float(balanced_share(np.asarray(scv)))
        fast, slow = 2.0 * share / mean, 2.0 * (1.0 - share) / mean
        return lambda t: np.asarray((np.exp(-fast * t) + np.exp(-slow * t)) * mean / 2.0)

    def gamma(t: Floats) -> Floats:
        from scipy.special import gammaincc

        shape, x = 1.0 / scv, t / (scv * mean)
        return np.asarray(mean * gammaincc(shape + 1.0, x) - t * gammaincc(shape, x))

    return gamma


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


def refuse_saturated(servers: Floats, arrivals_per_s: Floats, service_mean_s: Floats) -> None:
    """ValueError for a single point with a load of 1 or more; points of an array pass."""
    if servers.ndim == 0 and float(arrivals_per_s * service_mean_s / servers) >= 1.0:
        raise ValueError(saturation(float(servers), float(arrivals_per_s), float(service_mean_s)))


def checked_scv(arrival_scv: float) -> float:
    """A finite SCV >= 0."""
    scv = float(arrival_scv)
    if not (np.isfinite(scv) and scv >= 0.0):
        raise ValueError(f"arrival_scv must be finite and >= 0, got {arrival_scv}")
    return scv


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
    """Levels of a quantile, in (0, 1)."""
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
