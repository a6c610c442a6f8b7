"""How far a waiting-time quantile may be off, and where no closed form should be believed (QUEUEING §2.2-2.3)."""

from __future__ import annotations

from dataclasses import dataclass
from math import floor

import numpy as np
from numpy.typing import NDArray

from planner.queueing.service import Floats

CENTRAL, SHORTEST, TWO_CHOICES, ROUND_ROBIN = "central", "shortest", "two choices", "round robin"
IN_FLIGHT = "fewest in flight"
OK, CAUTION, NONE = "ok", "caution", "no closed form"
Strings = NDArray[np.str_]

# Signed error of a P99 wait that 19 of 20 checked cases stay within; docs/queueing.md has the cases.
# Rows by SCV of service (up to 0.3, 1.1, 2.5, 6, beyond), columns by servers (1, 2-5, 6-32, beyond).
_SCV_EDGES = np.array([0.3, 1.1, 2.5, 6.0])
_SERVER_EDGES = np.array([1.5, 5.5, 32.5])
_FITTED = (
    np.array(
        [
            [-0.03, -0.06, -0.10, -0.12],
            [-0.02, -0.05, -0.06, -0.06],
            [-0.03, -0.08, -0.09, -0.12],
            [-0.20, -0.20, -0.19, -0.22],
            [-0.35, -0.32, -0.28, -0.30],
        ]
    ),
    np.array(
        [
            [0.02, 0.04, 0.06, 0.08],
            [0.02, 0.05, 0.07, 0.08],
            [0.05, 0.09, 0.10, 0.12],
            [0.10, 0.18, 0.19, 0.22],
            [0.12, 0.28, 0.28, 0.28],
        ]
    ),
)
_TABULATED = (
    np.array(
        [
            [-0.003, -0.04, -0.05, -0.07],
            [-0.003, -0.04, -0.05, -0.06],
            [-0.003, -0.05, -0.09, -0.11],
            [-0.003, -0.10, -0.16, -0.22],
            [-0.003, -0.14, -0.20, -0.30],
        ]
    ),
    np.array(
        [
            [0.003, 0.04, 0.05, 0.07],
            [0.003, 0.05, 0.07, 0.08],
            [0.003, 0.05, 0.09, 0.11],
            [0.003, 0.12, 0.17, 0.22],
            [0.003, 0.16, 0.20, 0.25],
        ]
    ),
)
# routed: fitted, then tabulated; round robin is solved rather than tabulated
_ROUTED = {
    SHORTEST: ((-0.28, 0.35), (-0.20, 0.28)),
    TWO_CHOICES: ((-0.25, 0.25), (-0.20, 0.22)),
    ROUND_ROBIN: ((-0.35, 0.35), (-0.015, 0.015)),
    IN_FLIGHT: ((-0.55, 0.6), (-0.55, 0.6)),
}
_MOST = 0.8  # a quantile is never said to be more than 5 times too short
_TABULATED_SLACK, _FITTED_SLACK, _BODY_SLACK = 0.02, 0.03, 0.08  # of a mean delay


@dataclass(frozen=True, slots=True, eq=False)
class Accuracy:
    """What the verdict on a wait reads; arrays of the points' shape, as in `Wait`."""

    servers: Floats
    load: Floats
    probability: Floats
    service_mean_s: Floats
    service_scv: Floats
    heavy_share: float
    long_job_work: float
    policy: str
    arrival_scv: float
    arrival_dispersion: float
    refined: int

    def quantile_errors(self, q: float) -> tuple[Floats, Floats, float]:
        """Lowest and highest relative error of the q-quantile, and an error in mean delays that is added."""
        if self.refined == 2:
            solved = 0.005 if self.policy == CENTRAL and self.arrival_scv == 1.0 else 0.015
            still = np.full(self.load.shape, solved)
            return -still, still, solved
        low, high = _TABULATED if self.refined else _FITTED
        row, column = np.searchsorted(_SCV_EDGES, self.service_scv), np.searchsorted(_SERVER_EDGES, self.servers)
        error_low, error_high = low[row, column], high[row, column]
        if self.policy in _ROUTED:
            several = self.servers > 1
            routed_low, routed_high = _ROUTED[self.policy][1 if self.refined else 0]
            error_low = np.where(several, np.minimum(error_low, routed_low), error_low)
            error_high = np.where(several, np.maximum(error_high, routed_high), error_high)
        if self.arrival_scv != 1.0:
            error_low, error_high = error_low - self._arrival_error(), error_high + self._arrival_error()
        slack = _TABULATED_SLACK if self.refined else _FITTED_SLACK
        return np.maximum(error_low, -_MOST), error_high, slack if q >= 0.95 else _BODY_SLACK

    def _arrival_error(self) -> Floats:
        """Uncertainty that arrivals other than Poisson add: little near saturation, more where waits are rare."""
        several = np.where(self.servers > 1, 1.0, 0.5)
        octaves = abs(np.log2(max(self.arrival_scv, 0.1)))
        slope, most = (0.5, 0.4) if self.arrival_scv > 1.0 else (0.9, 0.8)
        return np.asarray(several * np.minimum(most, 0.06 + slope * (1.0 - self.load) * octaves))

    def verdict(self, q: float) -> tuple[Strings, Strings]:
        """Mark and reason at every point, the worst first."""
        cases = [*self._refusals(q), *self._cautions(q)]
        masks = [mask for mask, _, _ in cases]
        trust = np.select(masks, [np.array(level) for _, level, _ in cases], default=OK)
        reason = np.select(masks, [np.array(text) for _, _, text in cases], default="")
        full = self.load >= 1.0
        if np.any(full):
            reason = np.where(full, self._saturations(), reason)
        return trust, reason

    def _refusals(self, q: float) -> list[tuple[NDArray[np.bool_], str, str]]:
        exact = self.refined == 2
        all_long = (1.0 - q) / np.maximum(self.probability * self.long_job_work**self.servers, 1e-300)
        stuck = (self.long_job_work > 0.0) & (all_long > 0.5) & (all_long < 2.0) & (self.servers > 1)
        crowd = (self.servers >= 16) & (self.service_scv >= 6.0) & (self.load <= 0.8)
        rare = self.probability < 0.1
        bursty = np.full(self.load.shape, self.arrival_scv != 1.0) & (self.servers > 1)
        correlated = self.arrival_dispersion > 2.0 * max(self.arrival_scv, 1.0)
        return [
            (self.load >= 1.0, NONE, "saturated"),
            (np.full(self.load.shape, correlated), NONE, "arrivals come in bursts that no renewal stream has"),
            (stuck & (not exact), NONE, f"{named(q)} falls in the gap between short and long jobs"),
            (crowd & (not exact), NONE, "many servers, very uneven jobs and a low load"),
            (bursty & rare, NONE, "arrivals other than Poisson where few requests wait"),
        ]

    def _cautions(self, q: float) -> list[tuple[NDArray[np.bool_], str, str]]:
        fitted = self.refined == 0
        inexact = self.refined < 2
        heavy = np.full(self.load.shape, self.heavy_share > 0.6 and inexact)
        edge = np.abs(self.probability / (1.0 - q) - 1.0) <= 0.2
        blind = np.full(self.load.shape, self.policy == IN_FLIGHT) & (self.servers > 1)
        regular = np.full(self.load.shape, self.arrival_scv < 1.0) & (self.servers > 1)
        return [
            (heavy, CAUTION, "the largest 1 % of jobs carry most of the second moment"),
            ((self.service_scv > 6.0) & inexact, CAUTION, "very uneven jobs"),
            (blind, CAUTION, "the router hardly sees which server has a queue: long waits are right to a factor of 2"),
            ((self.load > 0.97) & fitted, CAUTION, "load beyond the range the recipe was checked on"),
            (edge & inexact, CAUTION, f"{named(q)} lies at the edge of not waiting at all"),
            (regular, CAUTION, "arrivals more regular than Poisson: waits of many servers are rough"),
            (np.full(self.load.shape, self.arrival_scv > 1.0), CAUTION, "bursts taken as a renewal stream"),
        ]

    def _saturations(self) -> Strings:
        rates = self.load * self.servers / self.service_mean_s
        texts = [
            saturation(k, rate, mean) if load >= 1.0 else ""
            for k, rate, mean, load in zip(
                *(np.ravel(field) for field in (self.servers, rates, self.service_mean_s, self.load)), strict=True
            )
        ]
        return np.array(texts).reshape(self.load.shape)


def saturation(servers: float, arrivals_per_s: float, service_mean_s: float) -> str:
    """By how much a pool is saturated, and what would restore stability."""
    load = arrivals_per_s * service_mean_s / servers
    return (
        f"saturated: arrivals_per_s must be below {servers / service_mean_s:.6g} for {servers:.0f} servers at a mean "
        f"service time of {service_mean_s:.4g} s, got {arrivals_per_s:.6g} (load {load:.4g}); stable with "
        f"{floor(load * servers) + 1} servers, or with a mean service time below {servers / arrivals_per_s:.4g} s"
    )


def named(q: float) -> str:
    """P99 for 0.99, P99.9 for 0.999."""
    return f"P{100.0 * q:.6g}"
