"""The delay in front of busy servers, between its light- and heavy-traffic limits (QUEUEING §2.1, refined).

Whoever waits sees a first residual and then a geometric number of steps. In light traffic the first residual is the
least of k, in heavy traffic a step is one residual over k; between the two, the mean and the steps are mixed. The
coefficients below were fitted to some 700 cases: M/H2/k solved exactly, and simulations of lognormal, gamma, bimodal
and trace laws (k 2-64, load 0.3-0.95).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from planner.queueing.compound import TabulatedDelay, compound_delay
from planner.queueing.exact import erlang_c
from planner.queueing.jobs import Jobs
from planner.queueing.service import Floats, ServiceLaw

Moments = tuple[Floats, Floats, Floats]

# log of the exponent of the load in the weight of the heavy-traffic limit (refines max(1, 0.6 sqrt k) of QUEUEING §2.1)
_EXPONENT = (-1.082, 0.685, -0.030, 1.586, 0.567, -0.208, -1.691)
_BISECTIONS = 60
_SPAN = 8.0  # means of the delay on the near lattice


@dataclass(frozen=True, slots=True, eq=False)
class CompoundWait:
    """P(W > 0), and W given that as a first residual and a geometric number of steps; arrays of one shape.

    Attributes
    ----------
    steps : mean number of steps.   first, step : their first three moments.   stretch : of the first residual, <= 1.
    mix : share of whole residuals, over k for a central queue, in the steps (central) or the first (separate queues).
    among : the first residual is else the least of so many.   shrink : of the job that is a step (separate queues).
    more : chances of at least 1, 2, … further steps.
    """

    probability: Floats
    steps: Floats
    first: Moments
    step: Moments
    stretch: Floats
    mix: Floats
    among: Floats
    shrink: Floats | None = None
    more: tuple[Floats, ...] = ()

    def moments(self) -> Moments:
        """E[D^j], j = 1, 2, 3."""
        (x1, x2, x3), (y1, y2, y3) = self.first, self.step
        n = self.steps
        s1 = n * y1
        s2 = n * y2 + 2.0 * s1**2
        s3 = n * y3 + 6.0 * n * s1 * y2 + 6.0 * s1**3
        d1, d2, d3 = added((x1, x2, x3), (s1, s2, s3))
        if not self.more:
            return d1, d2, d3
        # E[K^j] of a count from its tails; a sum of K steps has raw moments by the factorial ones
        k1 = sum(self.more, np.zeros_like(n))
        k2 = sum(((2 * i + 1) * t for i, t in enumerate(self.more)), np.zeros_like(n))
        k3 = sum(((3 * i * i + 3 * i + 1) * t for i, t in enumerate(self.more)), np.zeros_like(n))
        f2, f3 = k2 - k1, k3 - 3.0 * k2 + 2.0 * k1
        t1, t2, t3 = k1 * y1, k1 * y2 + f2 * y1**2, k1 * y3 + 3.0 * f2 * y1 * y2 + f3 * y1**3
        return added((d1, d2, d3), (t1, t2, t3))

    def tabulated(self, service: ServiceLaw, servers: float) -> TabulatedDelay:
        """The law of the delay of a single point, on a lattice (tier 2)."""
        stretch, mix, among = float(self.stretch), float(self.mix), float(self.among)
        whole = service.residual_survival
        span = _SPAN * float(self.moments()[0])
        if self.shrink is None:
            return compound_delay(
                lambda t: whole(t / stretch) ** among,
                lambda t: mix * whole(servers * t) + (1.0 - mix) * whole(t) ** among,
                float(self.steps),
                span,
            )
        shrink = float(self.shrink)

        def first(t: Floats) -> Floats:
            tail = whole(t / stretch)
            return np.asarray(mix * tail + (1.0 - mix) * tail**among)

        more = tuple(float(chance) for chance in self.more)
        return compound_delay(first, lambda t: service.survival(t / shrink), float(self.steps), span, more)


def added(a: Moments, b: Moments) -> Moments:
    """First three moments of a sum of independent times."""
    return (
        a[0] + b[0],
        a[1] + 2.0 * a[0] * b[0] + b[1],
        a[2] + 3.0 * a[1] * b[0] + 3.0 * a[0] * b[1] + b[2],
    )


def mixed(share: Floats, a: Moments, b: Moments) -> Moments:
    """Moments of a time that is `a` with chance `share`, else `b`."""
    x1, x2, x3 = (share * x + (1.0 - share) * y for x, y in zip(a, b, strict=True))
    return x1, x2, x3


def stretched(factor: Floats, a: Moments) -> Moments:
    """Moments of `factor` x a time."""
    return factor * a[0], factor**2 * a[1], factor**3 * a[2]


def residual_moments(jobs: Jobs) -> Moments:
    """Of what is left of one job at a random moment."""
    return jobs.residual_moment(1), jobs.residual_moment(2), jobs.residual_moment(3)


def central_wait(servers: Floats, load: Floats, jobs: Jobs, fixed: tuple[float, float] | None = None) -> CompoundWait:
    """Poisson arrivals, one queue; `load` in [0, 1).

    `fixed`, for one point with an SCV below 1, is P(W > 0) and E[W] of M/D/k in units of the mean service time; without
    it they are approximated.
    """
    if fixed is not None:
        probability = (1.0 - jobs.scv) * fixed[0] + jobs.scv * erlang_c(servers, load)
        return assembled(servers, load, jobs, probability, _between(servers, load, jobs, fixed) / probability)
    change = _probability_change(servers, load, jobs)
    even = jobs.scv < 1.0
    if np.all(even):
        factor = _even_factor(servers, load, jobs)
    elif not np.any(even):
        factor = _uneven_factor(servers, load, jobs)
    else:
        factor = np.where(even, _even_factor(servers, load, jobs), _uneven_factor(servers, load, jobs))
    d1 = jobs.moments[0] * factor / (servers * (1.0 - load)) / change
    return assembled(servers, load, jobs, erlang_c(servers, load) * change, d1)


def single_wait(load: Floats, jobs: Jobs) -> CompoundWait:
    """Poisson arrivals at one server: residuals of jobs, a geometric number of them (Pollaczek and Khinchine)."""
    one, residual = np.ones_like(load), residual_moments(jobs)
    return CompoundWait(load, load / (1.0 - load), residual, residual, one, one, one)


def assembled(servers: Floats, load: Floats, jobs: Jobs, probability: Floats, d1: Floats) -> CompoundWait:
    """The central compound with mean delay `d1`."""
    least = jobs.minima
    whole = stretched(1.0 / servers, residual_moments(jobs))
    rise = np.maximum(0.0, d1 - least[0])
    apart = whole[0] - least[0]
    usual = load / (1.0 - load)
    needed = rise / np.maximum(usual, 1e-12)
    distinct = np.abs(apart) > 1e-9 * whole[0]
    mix = np.where(distinct, (needed - least[0]) / np.where(distinct, apart, 1.0), 1.0)
    mix = np.clip(mix, 0.0, 1.0)
    step = mixed(mix, whole, least)
    stretch = np.minimum(1.0, d1 / least[0])
    first = stretched(stretch, least)
    return CompoundWait(probability, rise / step[0], first, step, stretch, mix, servers)


def waiting_probability(servers: Floats, load: Floats, jobs: Jobs) -> Floats:
    """P(W > 0): Erlang C, higher for uneven and lower for even jobs behind several servers."""
    return erlang_c(servers, load) * _probability_change(servers, load, jobs)


def _probability_change(servers: Floats, load: Floats, jobs: Jobs) -> Floats:
    scv = jobs.scv
    uneven = np.maximum(0.0, (scv - 1.0) / (scv + 1.0))
    rise = np.exp(-1.497 + 0.412 * np.log(servers) - 1.144 * _lightness(servers, jobs)) * uneven**1.28
    fall = 0.165 * (servers - 1.0) ** 0.386 * np.maximum(0.0, 1.0 - scv)
    near = load * (1.0 - load)  # both vanish in light and in heavy traffic
    return np.where(servers > 1, 1.0 + near * rise, 1.0) / (1.0 + near * fall)


def _lightness(servers: Floats, jobs: Jobs) -> Floats:
    """How much of the unevenness is still felt in light traffic: 1 for one server, to 0 for many."""
    light, heavy = servers * jobs.minima[0] / jobs.moments[0], (1.0 + jobs.scv) / 2.0
    return np.clip((light - 1.0) / np.maximum(heavy - 1.0, 1e-9), 0.0, 1.0)


def _uneven_factor(servers: Floats, load: Floats, jobs: Jobs) -> Floats:
    """E[W] over that of M/M/k for an SCV of 1 or more, between its light- and heavy-traffic limits."""
    light, heavy = servers * jobs.minima[0] / jobs.moments[0], (1.0 + jobs.scv) / 2.0
    count, skew, share = np.log(servers), np.log(np.maximum(jobs.skew_factor, 1e-9)), _lightness(servers, jobs)
    c0, c1, c2, c3, c4, c5, c6 = _EXPONENT
    logs = c0 + c1 * count + c2 * count**2 + c3 * share + (c4 + c5 * load) * skew + c6 * share * count
    return np.asarray(light + (heavy - light) * load ** np.exp(np.clip(logs, -3.0, 3.0)))


def cosmetatos_factor(servers: Floats, load: Floats) -> Floats:
    """How much longer M/D/k waits than half of M/M/k, minus 1 (Cosmetatos 1975); at most 1."""
    rise = (1.0 - load) * (servers - 1.0) * (np.sqrt(4.0 + 5.0 * servers) - 2.0) / (16.0 * servers)
    return np.asarray(np.minimum(1.0, rise / np.maximum(load, 1e-12)))


def _even_factor(servers: Floats, load: Floats, jobs: Jobs) -> Floats:
    """E[W] over that of M/M/k for an SCV below 1 (QUEUEING §2.1)."""
    scv, m1 = jobs.scv, jobs.moments[0]
    light, heavy = servers * jobs.minima[0] / m1, (1.0 + scv) / 2.0
    return np.minimum(
        scv + (1.0 - scv) * (1.0 + np.where(servers > 1, cosmetatos_factor(servers, load), 0.0)) / 2.0,
        np.maximum((1.0 - load) * light + load * heavy, heavy / 2.0),
    )


def _between(servers: Floats, load: Floats, jobs: Jobs, fixed: tuple[float, float]) -> Floats:
    """E[W] for an SCV below 1, from the exact M/M/k and M/D/k and the own light-traffic limit."""
    scv, m1 = jobs.scv, jobs.moments[0]
    exponential = erlang_c(servers, load) / (servers * (1.0 - load))
    light = servers * jobs.minima[0] / m1
    lit = scv + (1.0 - scv) * servers / (servers + 1.0)
    mean = scv * exponential + (1.0 - scv) * fixed[1] + exponential * (light - lit) * (1.0 - load) ** 2
    return np.asarray(m1 * np.maximum(mean, fixed[1] * scv))


# ------------------------------------------------------------------------------------------------- renewal arrivals


def renewal_wait(poisson: CompoundWait, servers: Floats, load: Floats, jobs: Jobs, arrival_scv: Floats) -> CompoundWait:
    """The same servers behind renewal arrivals: Whitt's P(W > 0), the delay stretched by the ratio of decay rates.

    The decay rates are those of one server with the same two SCVs, gamma service and balanced hyperexponential, gamma
    or fixed gaps (QUEUEING §2.1, with the ratio in place of the effective load).
    """
    scv = jobs.scv
    probability = whitt_probability(servers, load, scv, arrival_scv)
    ratio = decay_rate(load, scv, np.ones_like(scv)) / decay_rate(load, scv, arrival_scv)
    d1 = poisson.moments()[0] * ratio
    made = assembled(servers, load, jobs, probability, d1)
    # the steps keep their law, only their number grows
    if poisson.shrink is None:
        steps = np.maximum(0.0, d1 - made.first[0]) / np.maximum(poisson.step[0], 1e-300)
        return replace(made, steps=steps, step=poisson.step, mix=poisson.mix)
    return made


def whitt_probability(servers: Floats, load: Floats, scv: Floats, arrival_scv: Floats) -> Floats:
    """P(W > 0) of GI/G/k (Whitt 1993, QUEUEING §2.1)."""
    from scipy.special import ndtr

    busy, slack = erlang_c(servers, load), (1.0 - load) * np.sqrt(servers)
    base = ndtr(-slack)
    heavy = np.minimum(1.0, busy * ndtr(-(1.0 + scv) * slack / np.maximum(arrival_scv + scv, 1e-9)) / base)
    light = np.minimum(1.0, busy * ndtr(-2.0 * slack / (1.0 + arrival_scv)) / base)
    return np.asarray(np.maximum(load**2 * heavy + (1.0 - load**2) * light, 1e-300))


def decay_rate(load: Floats, scv: Floats, arrival_scv: Floats) -> Floats:
    """eta with E[e^(eta (S - A))] = 1, per mean service time: gamma service of that SCV, and the gaps above."""
    spread = np.maximum(scv, 1e-6)
    low, high = np.zeros(np.shape(load)), np.full(np.shape(load), 1.0) / spread
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2.0
        grown = -np.log1p(-middle * spread) / spread + _log_gap_transform(middle / load, arrival_scv)
        low, high = np.where(grown < 0.0, middle, low), np.where(grown < 0.0, high, middle)
    return (low + high) / 2.0


def _log_gap_transform(x: Floats, arrival_scv: Floats) -> Floats:
    """log E[e^(-x A)] for gaps of mean 1."""
    low = np.maximum(np.minimum(arrival_scv, 1.0), 1e-9)
    regular = -np.log1p(x * low) / low
    first = balanced_share(np.maximum(arrival_scv, 1.0))
    phases = first / (1.0 + x / (2.0 * first)) + (1.0 - first) / (1.0 + x / (2.0 * (1.0 - first)))
    return np.where(arrival_scv > 1.0, np.log(phases), regular)


def balanced_share(scv: Floats) -> Floats:
    """Chance p of the short phase of a balanced hyperexponential law: means 1/(2p) and 1/(2(1-p))."""
    return np.asarray((1.0 + np.sqrt((scv - 1.0) / (scv + 1.0))) / 2.0)
