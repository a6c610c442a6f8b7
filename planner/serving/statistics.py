"""Statistics of a law by their names in a result, and the law of a request's mean gap."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from planner.records import PROBABILITY, Floats
from planner.serving.traffic import Traffic

LEVELS = np.array(list(PROBABILITY.values()))  # of the quantiles among records.STATISTICS
STAY_LEVELS = 8
NEVER = 1e-6  # a chance too small to move any statistic we print
STAY_AVERAGING_FACTOR = float(np.sqrt(2.0 / np.e))


def statistics(mean: float, quantiles: Iterable[float]) -> dict[str, float]:
    """Every statistic of records.STATISTICS, from the quantiles at `LEVELS`.

    Id: itl.quantile.  the quantile over tokens of the step time t(n) at the batch law of n  (QUEUEING §4.2)
    """
    return {"mean": mean} | dict(zip(PROBABILITY, map(float, quantiles), strict=True))


def averaged_over_stay_s(mean_itl_s: Floats | float, itl_quantile_s: Floats | float) -> Floats:
    """Quantile of TPOT, the gap averaged over one request's stay, from the same quantile of a single gap [s].

    The batch forgets itself in about one stay R. The average of a process with correlation time R over a window R
    keeps 2 (R/R)^2 (R/R - 1 + e^-1) = 2/e of its variance, so deviations from the mean shrink by sqrt(2/e).
    Source: Ornstein-Uhlenbeck averaging; tests hold it against the step simulations of `data/queueing/serve_steps.csv`.

    Id: tpot.quantile.  mean + sqrt(2/e) * (quantile of a gap - mean)  (Ornstein-Uhlenbeck averaging over one stay)
    """
    mean, quantile = np.asarray(mean_itl_s, dtype=float), np.asarray(itl_quantile_s, dtype=float)
    return (1.0 - STAY_AVERAGING_FACTOR) * mean + STAY_AVERAGING_FACTOR * quantile


def stay_atoms(mean_s: float, quantile: Callable[[float], float]) -> Floats:
    """Equally likely values of TPOT, scaled to its mean, for the law of a whole stay [s]."""
    levels = (np.arange(STAY_LEVELS) + 0.5) / STAY_LEVELS
    values = np.array([quantile(float(level)) for level in levels])
    total = float(values.mean())
    return values * (mean_s / total) if np.isfinite(total) and total > 0.0 else np.full(STAY_LEVELS, mean_s)


def with_stay(first_s: Floats, traffic: Traffic, paces_s: Floats) -> tuple[Floats, Floats]:
    """Atoms and weights of first tokens and all that follow, of every kind of request at equally likely paces [s]."""
    stay_s = np.maximum(traffic.joint_output_tokens - 1.0, 0.0)[:, None] * paces_s
    return (first_s[:, None] + stay_s).ravel(), np.repeat(traffic.joint_weights / paces_s.size, paces_s.size)


def over_windows(means: Floats, variances: Floats, weights: Floats) -> tuple[float, float]:
    """Mean and variance over time of what has a mean and a variance in each window: within plus between."""
    mean = float(weights @ means)
    return mean, float(weights @ variances + weights @ (means - mean) ** 2)


def waiting_atoms(probability: float, mean_s: float, atoms: int = 8) -> tuple[Floats, Floats]:
    """Zero with 1 - probability, else exponential: as atoms, so that it can be convolved with a length law.

    `mean_s` is over all requests. Tail atoms sit at the means of equal shares of an exponential.
    """
    if probability <= NEVER or mean_s <= 0.0:
        return np.array([0.0]), np.array([1.0])
    probability = min(probability, 1.0)  # sums over windows may pass it by rounding
    edges = np.linspace(0.0, 1.0, atoms + 1)[:-1]
    upper = 1.0 - edges
    lower = np.append(upper[1:], 0.0)
    area = upper * (1.0 - np.log(upper)) - np.where(lower > 0, lower * (1.0 - np.log(np.maximum(lower, 1e-300))), 0.0)
    values = mean_s / probability * area * atoms
    return np.append(0.0, values), np.append(1.0 - probability, np.full(atoms, probability / atoms))


def combined(values: Floats, weights: Floats, more: Floats, more_weights: Floats) -> tuple[Floats, Floats]:
    """Atoms of the sum of two independent atom laws."""
    return (values[:, None] + more).ravel(), (weights[:, None] * more_weights).ravel()
