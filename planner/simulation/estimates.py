"""Statistics of a run with confidence intervals by batch means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from planner.records import PROBABILITY, Floats

BATCHES = 20
LEAST_IN_BATCH = 10
STUDENT_975 = 2.093  # t quantile at 0.975 with BATCHES - 1 degrees of freedom


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value of at least 0 and the interval that holds it with 95 % confidence; NaN where the run is too short."""

    value: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        return (self.high - self.low) / 2.0

    def times(self, factor: float) -> Estimate:
        return Estimate(self.value * factor, self.low * factor, self.high * factor)


Statistics = Mapping[str, Estimate]


def weighted_quantile(values: Floats, weights: Floats, q: float) -> float:
    """Smallest value that at least a share q of the weight does not exceed."""
    order = np.argsort(values, kind="stable")
    cumulative = np.cumsum(weights[order])
    at = int(np.searchsorted(cumulative, q * cumulative[-1] * (1.0 - 1e-12)))
    return float(values[order[min(at, values.size - 1)]])


def statistics(values: Floats, weights: Floats | None = None) -> Statistics:
    """Mean and quantiles of values in time order, over tokens or time where `weights` counts them.

    Source: batch means (Law, Simulation Modeling and Analysis, ch. 9): the run is cut into BATCHES pieces whose
    statistics are taken as independent.
    """
    mass = np.ones_like(values) if weights is None else weights
    if not values.size or mass.sum() <= 0.0:
        none = Estimate(np.nan, np.nan, np.nan)
        return dict.fromkeys(("mean", *PROBABILITY), none)
    pieces = np.array_split(np.arange(values.size), BATCHES) if values.size >= LEAST_IN_BATCH * BATCHES else []
    named = {"mean": estimate(_mean(values, mass), [_mean(values[i], mass[i]) for i in pieces])}
    for name, q in PROBABILITY.items():
        parts = [weighted_quantile(values[i], mass[i], q) for i in pieces]
        named[name] = estimate(weighted_quantile(values, mass, q), parts)
    return named


def estimate(value: float, parts: list[float]) -> Estimate:
    """`value` with the interval that the spread of its batches gives."""
    known = np.asarray([part for part in parts if np.isfinite(part)])
    if known.size < BATCHES:
        return Estimate(value, np.nan, np.nan)
    half = STUDENT_975 * float(np.std(known, ddof=1)) / np.sqrt(known.size)
    return Estimate(value, max(value - half, 0.0), value + half)


def _mean(values: Floats, weights: Floats) -> float:
    total = float(weights.sum())
    return float(values @ weights) / total if total > 0.0 else np.nan
