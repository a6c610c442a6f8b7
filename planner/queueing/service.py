"""Laws of service time, and the moments of them that a queue needs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import factorial, log, sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_EXACT_ATOMS = 512  # beyond this many, the residual integrals run on a compressed copy
_MOST_KNOWN = 4096  # server counts remembered per law
_LEVELS = np.arange(33) * 1.25  # where -log of the integrand is cut into panels; e^-40 is left out
_NODES, _NODE_WEIGHTS = np.polynomial.legendre.leggauss(6)


@dataclass(frozen=True, slots=True, eq=False)
class ServiceLaw:
    """A law of service time: a mixture of fixed times, or of exponential phases.

    Parameters
    ----------
    values_s : shape (n,), finite and >= 0. The times, or the means of the phases.
    weights : shape (n,), >= 0; normalized to sum to 1.
    phases : whether the values are the means of exponential phases.

    Raises
    ------
    ValueError
        Empty, not finite, negative, shapes that differ, weights that sum to 0, or a mean of 0.
    """

    values_s: Floats
    weights: Floats
    phases: bool = False

    def __post_init__(self) -> None:
        values = np.atleast_1d(np.asarray(self.values_s, dtype=float))
        weights = np.atleast_1d(np.asarray(self.weights, dtype=float))
        if values.ndim != 1 or values.size == 0 or values.shape != weights.shape:
            raise ValueError(
                f"values_s and weights must be equally long 1-D arrays, got {values.shape} and {weights.shape}"
            )
        if not np.all(np.isfinite(values)) or np.any(values < 0.0):
            raise ValueError(f"values_s must be finite and >= 0, got a minimum of {np.min(values)}")
        total = float(np.sum(weights))
        if not np.all(np.isfinite(weights)) or np.any(weights < 0.0) or total <= 0.0:
            raise ValueError(f"weights must be finite, >= 0 and not all 0, got a sum of {total}")
        if float(np.dot(values, weights)) <= 0.0:
            raise ValueError("values_s must have a mean > 0")
        order = np.argsort(values, kind="stable")
        object.__setattr__(self, "values_s", values[order])
        object.__setattr__(self, "weights", weights[order] / total)

    # ------------------------------------------------------------------------------------------------- named laws

    @classmethod
    def deterministic(cls, mean_s: float) -> ServiceLaw:
        """Every job takes `mean_s`."""
        return cls(np.array([mean_s]), np.ones(1))

    @classmethod
    def exponential(cls, mean_s: float) -> ServiceLaw:
        """Exponential with mean `mean_s`, exact."""
        return cls(np.array([mean_s]), np.ones(1), phases=True)

    @classmethod
    def hyperexponential(cls, probabilities: ArrayLike, means_s: ArrayLike) -> ServiceLaw:
        """Phase i with probability `probabilities[i]`, exponential with mean `means_s[i]`, exact."""
        return cls(np.asarray(means_s, dtype=float), np.asarray(probabilities, dtype=float), phases=True)

    @classmethod
    def gamma(cls, mean_s: float, scv: float) -> ServiceLaw:
        """Gamma law as atoms evenly spaced in log time; moments 1-4 to about 1e-8.

        The trapezoidal rule in log time is spectrally accurate for this density, so the sums over atoms are the
        moments of the law itself.
        """
        _check_mean_scv(mean_s, scv)
        if scv == 0.0:
            return cls.deterministic(mean_s)
        from scipy.special import gammaln

        shape = 1.0 / scv
        step = min(0.2, 0.6 / sqrt(shape))
        low = log(shape) - min(16.0, max(10.0 / sqrt(shape), 40.0 / shape))
        logs = np.arange(low, log(shape + 10.0 * sqrt(shape) + 60.0), step)
        return cls._from_log_density(mean_s * scv * np.exp(logs), shape * logs - np.exp(logs) - gammaln(shape), step)

    @classmethod
    def lognormal(cls, mean_s: float, scv: float) -> ServiceLaw:
        """Lognormal law as atoms evenly spaced in log time; moments 1-4 to about 1e-12."""
        _check_mean_scv(mean_s, scv)
        if scv == 0.0:
            return cls.deterministic(mean_s)
        sigma = sqrt(np.log1p(scv))
        step = 0.25
        scores = np.arange(-9.0, 9.0 + 4.0 * sigma, step)
        log_density = -0.5 * scores**2 - 0.5 * log(2.0 * np.pi)
        return cls._from_log_density(mean_s * np.exp(sigma * scores - 0.5 * sigma**2), log_density, step)

    @classmethod
    def _from_log_density(cls, values_s: Floats, log_density: Floats, step: float) -> ServiceLaw:
        weights = np.exp(log_density) * step
        weights[0] += max(0.0, 1.0 - float(np.sum(weights)))  # all that is shorter than the first atom
        return cls(values_s, weights)

    @classmethod
    def from_samples(cls, samples_s: ArrayLike) -> ServiceLaw:
        """The empirical law: each sample weighs the same."""
        samples = np.atleast_1d(np.asarray(samples_s, dtype=float))
        return cls(samples, np.ones(samples.shape))

    # --------------------------------------------------------------------------------------------------- moments

    def moment(self, order: int) -> float:
        """E[S^order], s^order."""
        raw = float(np.dot(self.weights, self.values_s**order))
        return raw * factorial(order) if self.phases else raw

    @property
    def mean_s(self) -> float:
        return self.moment(1)

    @property
    def scv(self) -> float:
        """Squared coefficient of variation."""
        return float(scv_of(self.mean_s, self.moment(2)))

    def survival(self, t_s: ArrayLike) -> Floats:
        """P(S > t)."""
        t = np.asarray(t_s, dtype=float)
        if self.phases:
            tails = np.exp(-t[..., None] / np.maximum(self.values_s, 1e-300))
            return np.asarray(tails @ self.weights)
        above = np.append(np.cumsum(self.weights[::-1])[::-1], 0.0)
        return np.asarray(above[np.searchsorted(self.values_s, t, side="right")])

    def residual_survival(self, t_s: ArrayLike) -> Floats:
        """P(R > t) = E[(S - t)+] / E[S], R the time a job in progress still needs at a random moment."""
        t = np.asarray(t_s, dtype=float)
        share = self.weights * self.values_s / float(np.dot(self.weights, self.values_s))
        if self.phases:
            return np.asarray(np.exp(-t[..., None] / np.maximum(self.values_s, 1e-300)) @ share)
        work_above = np.append(np.cumsum(share[::-1])[::-1], 0.0)
        rate_above = np.append(np.cumsum(self.weights[::-1])[::-1], 0.0) / self.mean_s
        index = np.searchsorted(self.values_s, t, side="right")
        return np.asarray(np.maximum(0.0, work_above[index] - t * rate_above[index]))

    def work_above(self, t_s: ArrayLike) -> Floats:
        """E[(S - t)+], s."""
        return self.mean_s * self.residual_survival(t_s)

    def residual_moment(self, order: int) -> float:
        """E[R^order] = E[S^(order+1)] / ((order+1) E[S])."""
        return self.moment(order + 1) / ((order + 1) * self.mean_s)

    def residual_minimum_moments(self, servers: ArrayLike) -> Floats:
        """E[X^j], j = 1, 2, 3, where X is the least of `servers` independent residuals (QUEUEING §2.1, g_j).

        Parameters
        ----------
        servers : shape (n,), counts >= 1.

        Returns
        -------
        Shape (3, n), s^j: the integral of j t^(j-1) P(R > t)^servers, by Gauss-Legendre on panels cut at the
        atoms and where the integrand has fallen by e^1.25, which is exact to rounding for atoms.
        """
        counts = np.atleast_1d(np.asarray(servers, dtype=float))
        if self.phases and self.values_s.size == 1:
            base = self.mean_s / counts
            return np.stack([base, 2.0 * base**2, 6.0 * base**3])
        known = _known_minima(self.values_s.tobytes(), self.weights.tobytes(), self.phases)
        missing = [count for count in dict.fromkeys(counts.tolist()) if count not in known]
        if missing:
            if len(known) > _MOST_KNOWN:
                known.clear()
                missing = list(dict.fromkeys(counts.tolist()))
            known.update(zip(missing, self._minimum_moments(np.array(missing)).T, strict=True))
        return np.stack([known[count] for count in counts.tolist()], axis=1)

    def _minimum_moments(self, counts: Floats) -> Floats:
        law = self if self.values_s.size <= _EXACT_ATOMS else self.compressed(_EXACT_ATOMS // 2)
        kinks, tails = law._residual_table()
        targets = np.exp(-_LEVELS / counts[:, None])
        cuts = np.interp(targets, tails[::-1], kinks[::-1])
        fixed = np.empty((counts.size, 0)) if law.phases else np.broadcast_to(kinks, (counts.size, kinks.size))
        edges = np.sort(np.concatenate([cuts, fixed], axis=1), axis=1)
        middle, half = (edges[:, 1:] + edges[:, :-1]) / 2.0, (edges[:, 1:] - edges[:, :-1]) / 2.0
        times = middle[..., None] + half[..., None] * _NODES
        density = law.residual_survival(times) ** counts[:, None, None] * half[..., None] * _NODE_WEIGHTS
        return np.stack([np.sum(j * times ** (j - 1) * density, axis=(1, 2)) for j in (1, 2, 3)])

    def _residual_table(self) -> tuple[Floats, Floats]:
        """Times (ascending, from 0) and the residual tail there (descending)."""
        if self.phases:
            times = np.append(0.0, np.geomspace(1e-9 * self.mean_s, 60.0 * self.values_s[-1], 400))
        else:
            times = np.unique(np.append(0.0, self.values_s))
        return times, self.residual_survival(times)

    # --------------------------------------------------------------------------------------------------- reshaping

    def scaled(self, factor: float) -> ServiceLaw:
        """The law of `factor` x S."""
        return ServiceLaw(self.values_s * factor, self.weights, self.phases)

    def compressed(self, atoms: int = 64) -> ServiceLaw:
        """At most `atoms` atoms with the same first three moments (atoms >= 4; phases are left as they are).

        Half of the bins are equally likely, the others halve the tail each time; a bin becomes the two atoms that
        carry its mass and first three moments (two-point Gauss rule).
        """
        if atoms < 4:
            raise ValueError(f"atoms must be >= 4, got {atoms}")
        if self.phases or self.values_s.size <= atoms:
            return self
        bins = atoms // 2
        body = bins - bins // 2
        edges = np.concatenate([np.arange(1, body) / body, 1.0 - 0.5 ** np.arange(1, bins - body + 1) / body])
        bin_of = np.searchsorted(edges, np.cumsum(self.weights) - self.weights / 2.0)
        return _gauss_pairs(self.values_s, self.weights, bin_of)

    # ------------------------------------------------------------------------------------------- what to distrust

    @property
    def heavy_share(self) -> float:
        """Share of E[S^2] that the largest 1 % of jobs carry (QUEUEING §2.3: beware above 0.6)."""
        if self.phases:
            return _phase_heavy_share(self)
        above = np.cumsum(self.weights[::-1])
        kept = np.clip(0.01 - (above - self.weights[::-1]), 0.0, self.weights[::-1])
        return float(np.dot(kept, self.values_s[::-1] ** 2)) / self.moment(2)

    @property
    def long_job_work(self) -> float:
        """Share of the work in jobs above a gap of more than 4 x between neighboring atoms; 0 without a gap.

        The gap counts when both sides carry at least 5 % of the work: the bimodal laws of QUEUEING §2.3.
        """
        if self.phases or self.values_s.size < 2:
            return 0.0
        work = np.cumsum(self.weights * self.values_s) / self.mean_s
        ratio = self.values_s[1:] / np.maximum(self.values_s[:-1], 1e-300)
        wide = (ratio > 4.0) & (work[:-1] > 0.05) & (work[:-1] < 0.95)
        return float(1.0 - work[:-1][np.argmax(np.where(wide, ratio, 0.0))]) if np.any(wide) else 0.0


@lru_cache(maxsize=128)
def _known_minima(values: bytes, weights: bytes, phases: bool) -> dict[float, Floats]:
    """E[X^j] of one law by number of servers, filled as they are asked for: a search asks again and again."""
    return {}


def _check_mean_scv(mean_s: float, scv: float) -> None:
    if not (np.isfinite(mean_s) and mean_s > 0.0):
        raise ValueError(f"mean_s must be finite and > 0, got {mean_s}")
    if not (np.isfinite(scv) and scv >= 0.0):
        raise ValueError(f"scv must be finite and >= 0, got {scv}")


def _gauss_pairs(values: Floats, weights: Floats, bin_of: Integers) -> ServiceLaw:
    count = int(bin_of.max()) + 1
    mass = np.bincount(bin_of, weights, count)
    used = mass > 0.0
    safe = np.where(used, mass, 1.0)
    mean = np.bincount(bin_of, weights * values, count) / safe
    apart = values - mean[bin_of]
    spread = np.sqrt(np.bincount(bin_of, weights * apart**2, count) / safe)
    third = np.bincount(bin_of, weights * apart**3, count) / safe
    cube = spread**3
    skew = np.divide(third, cube, out=np.zeros(count), where=cube > 1e-300)
    root = np.sqrt(1.0 + skew**2 / 4.0)
    pairs = np.concatenate([mean + spread * (skew / 2.0 - root), mean + spread * (skew / 2.0 + root)])
    shares = np.concatenate([mass * (1.0 + skew / (2.0 * root)) / 2.0, mass * (1.0 - skew / (2.0 * root)) / 2.0])
    kept = np.concatenate([used, used])
    return ServiceLaw(np.maximum(pairs[kept], 0.0), shares[kept])


def _phase_heavy_share(law: ServiceLaw) -> float:
    """For exponential phases: find the 1 % point by bisection, then sum the partial second moments."""
    low, high = 0.0, 60.0 * float(law.values_s[-1])
    for _ in range(60):
        middle = (low + high) / 2.0
        low, high = (middle, high) if float(law.survival(middle)) > 0.01 else (low, middle)
    means = np.maximum(law.values_s, 1e-300)
    partial = np.exp(-high / means) * (high**2 + 2.0 * high * means + 2.0 * means**2)
    return float(np.dot(law.weights, partial)) / law.moment(2)


def scv_of(mean: ArrayLike, square: ArrayLike) -> Floats:
    """Squared coefficient of variation of a law with these first two moments; arguments broadcast, means are > 0."""
    return np.asarray(np.maximum(0.0, np.asarray(square) / np.asarray(mean) ** 2 - 1.0))


def weighted_scv(values: Floats, weights: Floats) -> Floats:
    """The same of values that end in the axis of `weights`, which sum to 1."""
    return scv_of(values @ weights, values**2 @ weights)


def single_server_wait_s(load: ArrayLike, mean_s: ArrayLike, scv: ArrayLike) -> Floats:
    """Mean wait [s] for one server, M/G/1: load (1 + scv) / (2 (1 - load)) mean; inf at or above full load.

    `mean_s` [s] and `scv` are of the service; arguments broadcast. Source: Pollaczek and Khinchine (QUEUEING §2).
    """
    busy = np.asarray(load, dtype=float)
    calm = np.where(busy < 1.0, busy, 0.0)
    wait = calm * (1.0 + np.asarray(scv)) / (2.0 * (1.0 - calm)) * np.asarray(mean_s)
    return np.asarray(np.where(busy < 1.0, wait, np.inf))
