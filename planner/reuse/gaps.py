"""The time between two uses of the same tokens: a turn's answer, and what its user thinks after it."""

from __future__ import annotations

from dataclasses import dataclass
from math import erfc, log, sqrt

_SIGMA_LEAST = 1e-9  # a lognormal narrower than this is a fixed time


@dataclass(frozen=True, slots=True)
class Gap:
    """A fixed time and a lognormal one after it, of mean `mean_s`."""

    fixed_s: float
    mean_s: float
    scv: float

    def within(self, window_s: float) -> float:
        """P(gap <= window)."""
        rest, sigma = window_s - self.fixed_s, sqrt(log(1.0 + self.scv))
        if self.mean_s == 0.0 or sigma < _SIGMA_LEAST:
            return 1.0 if rest >= self.mean_s else 0.0
        return _normal((log(rest / self.mean_s) + sigma**2 / 2.0) / sigma) if rest > 0.0 else 0.0

    def kept_s(self, window_s: float) -> float:
        """E[min(gap, window)]."""
        rest, sigma = window_s - self.fixed_s, sqrt(log(1.0 + self.scv))
        if rest <= 0.0:
            return window_s
        if self.mean_s == 0.0 or sigma < _SIGMA_LEAST:
            return self.fixed_s + min(self.mean_s, rest)
        score = (log(rest / self.mean_s) + sigma**2 / 2.0) / sigma
        return self.fixed_s + self.mean_s * _normal(score - sigma) + rest * (1.0 - _normal(score))


def _normal(score: float) -> float:
    return 0.5 * erfc(-score / sqrt(2.0))


Gaps = tuple[tuple[float, Gap], ...]  # weights that sum to 1, and laws


def within(gaps: Gaps, window_s: float) -> float:
    """P(gap <= window) of any of them."""
    return sum(weight * gap.within(window_s) for weight, gap in gaps)
