"""Queues with an exact law: M/M/k, M/D/k, M/H2/k, and one server with renewal arrivals (QUEUEING §1)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, log

import numpy as np
from numpy.typing import ArrayLike, NDArray

from planner.queueing.compound import TabulatedDelay, tabulated

Floats = NDArray[np.float64]

MOST_TWO_PHASE_SERVERS = 16  # beyond, the boundary states of M/H2/k cost more than a reader waits for
_PARTS = 40  # of a service time between the tabulated waits of M/D/k
_WALK_STEPS = 1 << 14
_MIXTURE_TIMES = 500
_BISECTIONS, _NEWTON_STEPS = 12, 6


@dataclass(frozen=True, slots=True, eq=False)
class ExactWait:
    """P(W > 0), E[W] and the law of W given W > 0, of one queue."""

    probability: float
    mean_s: float
    delay: TabulatedDelay


def erlang_c(servers: ArrayLike, load: ArrayLike) -> Floats:
    """Probability that a Poisson arrival finds all servers busy (M/M/k); `load` per server in [0, 1)."""
    from scipy.special import gammaincc, gammaln, xlogy

    k, rho = np.asarray(servers, dtype=float), np.asarray(load, dtype=float)
    offered = k * rho
    # Erlang B: P(N = k) over P(N <= k) of a Poisson count
    blocked = np.exp(xlogy(k, offered) - offered - gammaln(k + 1.0)) / gammaincc(k + 1.0, offered)
    return np.asarray(blocked / (1.0 - rho * (1.0 - blocked)))


# ----------------------------------------------------------------------------------------------------- fixed service


def fixed_service(servers: int, load: float) -> ExactWait:
    """M/D/k in units of the service time, `load` in (0, 1).

    The number left waiting, Q' = max(Q + A - k, 0) with A Poisson, is a reflected walk; its law is the exponential of
    the positive part of -log(1 - E[z^(A-k)]) (Spitzer), read off by FFT on a circle inside the roots of
    E[z^(A-k)] = 1. The wait follows from P(W <= x) = sum_j Poisson(j; lambda (n-x)) P(Q <= nk-1-j), n-1 <= x < n.
    """
    from scipy.special import gammaln, xlogy

    rate = servers * load
    root = _upper_root(lambda z: rate * (z - 1.0) - servers * log(z), 1.0 / load)
    waiting = _reflected_walk(servers, rate, root)
    mean = float(np.dot(waiting, np.arange(waiting.size))) / rate
    cumulative = np.cumsum(waiting)
    periods = 8 if servers < 8 else 4
    tails = []
    for n in range(1, periods + 1):
        left = n - (n - 1 + np.arange(_PARTS) / _PARTS)
        counts = np.arange(n * servers)
        poisson = np.exp(xlogy(counts, rate * left[:, None]) - rate * left[:, None] - gammaln(counts + 1.0))
        tails.append(1.0 - poisson @ cumulative[np.minimum(n * servers - 1 - counts, cumulative.size - 1)])
    tail = np.concatenate(tails)
    probability = max(float(tail[0]), 1e-300)
    times = np.arange(tail.size) / _PARTS
    delay = tabulated(times, tail / probability)
    decay = servers * log(root)  # of the far tail
    last_time, last_log = delay.times_s[-1], delay.log_tails[-1]
    more = last_time + np.linspace(0.0, 60.0 / decay, 40)[1:]
    logs = np.append(delay.log_tails, last_log - decay * (more - last_time))
    return ExactWait(probability, mean, TabulatedDelay(np.append(delay.times_s, more), logs))


def _upper_root(f: Callable[[float], float], low: float) -> float:
    """The root above `low`, where f is negative; f is convex."""
    high = 1.0 + 2.0 * (low - 1.0)
    while f(high) < 0.0:
        high = 1.0 + 2.0 * (high - 1.0)
    for _ in range(70):
        middle = (low + high) / 2.0
        low, high = (middle, high) if f(middle) < 0.0 else (low, middle)
    return low


def _reflected_walk(servers: int, rate: float, root: float) -> Floats:
    reach = 1.0 / (rate / servers)  # radius at which E[z^(A-k)] is least
    size = 1 << ceil(np.log2(2.0 * (40.0 / log(root) + 8.0 * servers + 64.0)))
    circle = np.exp(2j * np.pi * np.arange(size // 2 + 1) / size)
    step = np.exp(rate * (reach * circle - 1.0) - servers * log(reach)) * circle**-servers
    half = size // 2
    counts = np.arange(half, dtype=float)
    up = np.fft.irfft(np.conj(-np.log(1.0 - step)), size)[:half] * reach**-counts
    up[0] = 0.0
    # damped towards the decay of the result, so that neither end loses its digits
    damp = np.sqrt(root) ** np.minimum(counts, 600.0 / log(root))
    spectrum = np.exp(np.fft.rfft(np.append(up * damp, np.zeros(half))) - np.sum(up))
    return np.asarray(np.maximum(0.0, np.fft.irfft(spectrum, size)[:half] / damp))


# -------------------------------------------------------------------------------------------------- two-phase service


def two_phase_service(servers: int, load: float, probabilities: Floats, means_s: Floats) -> ExactWait:
    """M/H2/k, `load` in (0, 1): exact, for up to `MOST_TWO_PHASE_SERVERS` servers.

    While all servers are busy they are independent, so the left eigenvectors of R are products of the eigenvectors of
    one server, and each eigenvalue solves i a_1(r) + (k-i) a_2(r) = lambda (1/r - 1), with a_1, a_2 the eigenvalues of
    diag(mu) - r mu p'. The wait is a mixture of exponentials with rates lambda (1-r)/r (distributional Little's law).
    """
    k, p, mu = servers, probabilities, 1.0 / means_s
    rate = k * load / float(p @ means_s)
    ratios, slopes = _ratios(k, rate, p, mu)
    vectors = _products(k, slopes)
    below = _boundary(k, rate, p, mu)
    jobs = np.arange(k + 1.0)
    busy = (k - jobs) * mu[0] + jobs * mu[1]
    finish = _finish(k, p, mu)
    # level k: pi_k (A_1 - down X) + pi_(k+1) A_2 = 0 with pi_(k+m) = sum a_i r_i^m y_i
    local = -np.diag(rate + busy) - _down(k, mu) @ below[-1] @ _up(k - 1, rate, p)
    system = (vectors @ local + ratios[:, None] * (vectors @ finish)).T
    system[0] = vectors.sum(axis=1)  # one balance equation follows from the others: ask for level k to sum to 1
    shares = np.linalg.solve(system, np.append(1.0, np.zeros(k)))
    weights = shares * vectors.sum(axis=1) / (1.0 - ratios)
    level, total = shares @ vectors, float(weights.sum())
    for n in range(k - 1, -1, -1):
        level = -(level @ _down(n + 1, mu)) @ below[n]
        total += float(level.sum())
    weights, rates = weights / total, rate * (1.0 - ratios) / ratios
    probability = float(weights.sum())
    times = np.linspace(0.0, 1.0, _MIXTURE_TIMES) ** 2 * (25.0 / float(rates.min()))
    tails = np.exp(-times[:, None] * rates) @ weights / probability
    return ExactWait(probability, float(np.sum(weights / rates)), tabulated(times, tails))


def _eigenvalues(r: Floats, p: Floats, mu: Floats) -> tuple[Floats, Floats, tuple[float, Floats]]:
    """Of diag(mu) - r mu p', and the slopes over r of their mean and of half their difference."""
    a, d = mu[0] * (1.0 - r * p[0]), mu[1] * (1.0 - r * p[1])
    product = mu[0] * mu[1] * p[0] * p[1]
    half, off = (a - d) / 2.0, r**2 * product
    middle, apart = (a + d) / 2.0, np.sqrt(half**2 + off)
    falls = mu[0] * p[0], mu[1] * p[1]
    rise = -(falls[0] + falls[1]) / 2.0, (half * (falls[1] - falls[0]) / 2.0 + r * product) / apart
    return middle + apart, (a * d - off) / (middle + apart), rise


def _ratios(k: int, rate: float, p: Floats, mu: Floats) -> tuple[Floats, tuple[Floats, Floats]]:
    """The k+1 eigenvalues r of R in (0, 1), and for each the second entry of the eigenvectors (1, z) of one server."""
    i = np.arange(k + 1.0)
    low, high = np.full(k + 1, 1e-12), np.full(k + 1, 1.0 - 1e-13)
    r = (low + high) / 2.0
    for step in range(_BISECTIONS + _NEWTON_STEPS):
        first, second, rise = _eigenvalues(r, p, mu)
        gap = i * first + (k - i) * second - rate * (1.0 / r - 1.0)
        slope = i * (rise[0] + rise[1]) + (k - i) * (rise[0] - rise[1]) + rate / r**2
        low, high = np.where(gap < 0.0, r, low), np.where(gap < 0.0, high, r)
        r = (low + high) / 2.0 if step < _BISECTIONS else np.clip(r - gap / slope, low, high)
    first, second, _ = _eigenvalues(r, p, mu)
    own, other = mu[0] * (1.0 - r * p[0]), r * mu[1] * p[0]
    return r, ((own - first) / other, (own - second) / other)


def _products(k: int, slopes: tuple[Floats, Floats]) -> Floats:
    """Coefficients of (1 + z_1 x)^i (1 + z_2 x)^(k-i): row i is the eigenvector over the number of long jobs."""
    rows = np.empty((k + 1, k + 1))
    for i in range(k + 1):
        row = np.ones(1)
        for z, count in ((slopes[0][i], i), (slopes[1][i], k - i)):
            factors = np.cumprod((count - np.arange(count)) / (np.arange(count) + 1.0) * z)
            row = np.convolve(row, np.append(1.0, factors))
        rows[i] = row / np.max(np.abs(row))
    return rows


def _up(n: int, rate: float, p: Floats) -> Floats:
    """Arrivals from n to n+1 jobs, over the number of long ones."""
    return np.asarray(rate * (p[0] * np.eye(n + 1, n + 2) + p[1] * np.eye(n + 1, n + 2, 1)))


def _down(n: int, mu: Floats) -> Floats:
    """Departures from n <= k to n-1 jobs."""
    jobs = np.arange(n + 1.0)[:, None]
    return np.asarray((n - jobs) * mu[0] * np.eye(n + 1, n) + jobs * mu[1] * np.eye(n + 1, n, -1))


def _finish(k: int, p: Floats, mu: Floats) -> Floats:
    """Departures while jobs wait: the next one starts at once."""
    jobs = np.arange(k + 1.0)[:, None]
    short, long = (k - jobs) * mu[0], jobs * mu[1]
    stay = (short * p[0] + long * p[1]) * np.eye(k + 1)
    return np.asarray(stay + short * p[1] * np.eye(k + 1, k + 1, 1) + long * p[0] * np.eye(k + 1, k + 1, -1))


def _boundary(k: int, rate: float, p: Floats, mu: Floats) -> list[Floats]:
    """For n = 0 … k-1 the inverse of the S_n with pi_n S_n + pi_(n+1) down_(n+1) = 0, eliminated from below."""
    out: list[Floats] = []
    for n in range(k):
        jobs = np.arange(n + 1.0)
        here = -np.diag(rate + (n - jobs) * mu[0] + jobs * mu[1])
        if n:
            here = here - _down(n, mu) @ out[-1] @ _up(n - 1, rate, p)
        out.append(np.linalg.inv(here))
    return out


# --------------------------------------------------------------------------------------- one server, renewal arrivals


def single_server(work_above: Callable[[Floats], Floats], gap_above: Callable[[Floats], Floats]) -> ExactWait:
    """GI/G/1: the maximum of a walk with steps service minus gap, on a lattice (Spitzer, by FFT).

    Parameters
    ----------
    work_above, gap_above : E[(S - t)+] and E[(A - t)+] for arrays t >= 0, s. Laws are put on the lattice by hat
        functions, which keeps their means, hence the load, exact.
    """
    work, gap = (float(f(np.zeros(1))[0]) for f in (work_above, gap_above))
    decay = _decay_rate(work_above, gap_above, work, gap)
    span = max(30.0 / decay, 8.0 * (work + gap))
    size, half = 2 * _WALK_STEPS, _WALK_STEPS
    width = span / half
    service, spacing = (_on_lattice(f, half, width) for f in (work_above, gap_above))
    tilt = decay * width / 2.0  # inside (0, decay) the walk's transform is below 1
    places = np.arange(half)
    up = np.fft.rfft(service * np.exp(tilt * places), size)
    down = np.fft.rfft(spacing * np.exp(-tilt * places), size)
    climbs = np.fft.irfft(-np.log(1.0 - up * np.conj(down)), size)[:half] * np.exp(-tilt * places)
    climbs[0] = 0.0
    damp = np.exp(tilt * places)
    spectrum = np.exp(np.fft.rfft(np.append(climbs * damp, np.zeros(half))) - np.sum(climbs))
    mass = np.fft.irfft(spectrum, size)[:half] / damp
    probability = max(1.0 - float(mass[0]), 1e-300)
    tails = np.append(1.0, (probability - np.cumsum(mass[1:-1])) / probability)
    mean = float(np.dot(climbs, places)) * width
    return ExactWait(probability, mean, tabulated(np.append(0.0, (places[1:-1] + 0.5) * width), tails))


def _on_lattice(above: Callable[[Floats], Floats], half: int, width: float) -> Floats:
    rest = above(np.arange(half + 1.0) * width) / width
    mass = np.empty(half)
    mass[0] = 1.0 - (rest[0] - rest[1])
    mass[1:] = rest[:-2] - 2.0 * rest[1:-1] + rest[2:]
    return np.asarray(np.maximum(0.0, mass))


def _decay_rate(
    work_above: Callable[[Floats], Floats], gap_above: Callable[[Floats], Floats], work: float, gap: float
) -> float:
    """eta > 0 with E[e^(eta (S - A))] = 1, on a coarse lattice; the far tail falls as e^(-eta t)."""
    points = 2000
    reach = 60.0 * work
    while float(work_above(np.array([reach]))[0]) > 1e-7 * work and reach < 1e5 * work:
        reach *= 2.0
    t = reach * np.linspace(0.0, 1.0, points) ** 2
    mass = _between(work_above(t), t)
    u = 60.0 * gap * np.linspace(0.0, 1.0, points) ** 2
    spaces = _between(gap_above(u), u)

    def drift(eta: float) -> float:
        top = float(np.max(eta * t[mass > 0.0]))
        grown = top + log(float(np.dot(mass, np.exp(eta * t - top))))
        return grown + log(float(np.dot(spaces, np.exp(-eta * u))))

    low, high = 0.0, 1e-6 / work
    while drift(high) < 0.0:
        low, high = high, 2.0 * high
    for _ in range(40):
        middle = (low + high) / 2.0
        low, high = (middle, high) if drift(middle) < 0.0 else (low, middle)
    return high


def _between(rest: Floats, t: Floats) -> Floats:
    """Mass on uneven lattice points by hat functions, from E[(S - t)+]."""
    slopes = np.append(np.diff(rest) / np.diff(t), 0.0)
    return np.maximum(0.0, np.diff(slopes, prepend=-1.0))
