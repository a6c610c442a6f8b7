"""The law of a positive delay from its first three moments: two exponentials, or a gamma law."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

_NEWTON_STEPS = 12
_LEAST_SKEW = 0.125  # a quarter of what a gamma law of the same first two moments has


@dataclass(frozen=True, slots=True, eq=False)
class DelayLaw:
    """One delay law per point; every field has the points' shape.

    Where `shape` is 0: exponential with mean `first_s` (probability `weight`) or `second_s`. Elsewhere: gamma with
    `shape` and scale `first_s`.
    """

    weight: Floats
    first_s: Floats
    second_s: Floats
    shape: Floats

    def survival(self, t_s: Floats) -> Floats:
        """P(D > t); `t_s` has the points' shape, or that shape and one more axis."""
        return self._by_kind(t_s, _two_phase_survival, _gamma_survival)

    def quantile_s(self, tail: Floats) -> Floats:
        """The t with P(D > t) = `tail`, in (0, 1]; shapes as in `survival`."""
        return self._by_kind(tail, _two_phase_quantile, _gamma_quantile)

    def at(self, index: Any) -> DelayLaw:
        """The laws at some of the points."""
        return DelayLaw(self.weight[index], self.first_s[index], self.second_s[index], self.shape[index])

    def _by_kind(
        self,
        argument: Floats,
        two_phase: Callable[[Floats, Floats, Floats, Floats], Floats],
        gamma: Callable[[Floats, Floats, Floats], Floats],
    ) -> Floats:
        points = np.shape(self.shape)
        argument = np.broadcast_to(argument, points + np.shape(argument)[len(points) :])
        flat = argument.reshape((-1, *argument.shape[len(points) :]))
        weight, first, second, shape = (
            np.reshape(field, (-1,) + (1,) * (flat.ndim - 1))
            for field in (self.weight, self.first_s, self.second_s, self.shape)
        )
        is_gamma = np.ravel(shape) > 0.0
        if np.all(is_gamma):
            return gamma(flat, shape, first).reshape(argument.shape)
        if not np.any(is_gamma):
            return two_phase(flat, weight, first, second).reshape(argument.shape)
        out = np.empty(flat.shape)
        out[is_gamma] = gamma(flat[is_gamma], shape[is_gamma], first[is_gamma])
        rest = ~is_gamma
        out[rest] = two_phase(flat[rest], weight[rest], first[rest], second[rest])
        return out.reshape(argument.shape)


def fit_delay(d1_s: ArrayLike, d2: ArrayLike, d3: ArrayLike) -> DelayLaw:
    """Fit a delay law to its moments (QUEUEING §2.1): two exponentials where the SCV is above 1, otherwise a gamma
    law with the first two moments. Quantiles move continuously with the moments.

    Parameters
    ----------
    d1_s, d2, d3 : E[D], E[D^2], E[D^3] in s, s^2, s^3, of one shape; a point with E[D] = inf is inf throughout.
    """
    d1, d2, d3 = np.broadcast_arrays(*(np.asarray(value, dtype=float) for value in (d1_s, d2, d3)))
    finite = np.isfinite(d1)
    # in units of the mean: no overflow, and one tolerance for all points
    scale = np.where(finite & (d1 > 0.0), d1, 1.0)
    second_moment = np.where(finite, d2, 1.0) / scale**2
    third_moment = np.where(finite, d3, 1.0) / scale**3
    x = third_moment - 1.5 * second_moment**2
    y = second_moment - 2.0
    # a third moment too small for two exponentials is raised: a switch to another law would let quantiles jump
    x = np.maximum(x, _LEAST_SKEW * y * (y + 2.0))
    two_phase = finite & (y > 1e-9)
    x, y = np.where(two_phase, x, 1.0), np.where(two_phase, y, 1.0)
    base = x + 1.5 * y**2
    root = np.sqrt((base - 3.0 * y) ** 2 + 18.0 * y**3)
    slow = (base + 3.0 * y + root) / (6.0 * y)
    fast = (base + 3.0 * y - root) / (6.0 * y)
    weight = (1.0 - fast) / np.maximum(slow - fast, 1e-300)
    shape = 1.0 / np.maximum(second_moment - 1.0, 1e-9)
    mean = np.where(finite, scale, np.inf)
    return DelayLaw(
        weight=np.where(two_phase, np.clip(weight, 0.0, 1.0), 1.0),
        first_s=mean * np.where(two_phase, slow, 1.0 / shape),
        second_s=mean * np.where(two_phase, fast, 1.0),
        shape=np.where(two_phase, 0.0, shape),
    )


def _two_phase_survival(t: Floats, weight: Floats, first: Floats, second: Floats) -> Floats:
    late = np.maximum(t, 0.0)
    return weight * np.exp(-late / first) + (1.0 - weight) * np.exp(-late / second)


def _gamma_survival(t: Floats, shape: Floats, scale: Floats) -> Floats:
    from scipy.special import gammaincc

    return np.asarray(gammaincc(shape, np.maximum(t, 0.0) / scale))


def _gamma_quantile(tail: Floats, shape: Floats, scale: Floats) -> Floats:
    from scipy.special import gammainccinv

    return np.asarray(gammainccinv(shape, tail) * scale)


def _two_phase_quantile(tail: Floats, weight: Floats, first: Floats, second: Floats) -> Floats:
    """Newton on the log of the tail. It is convex, so steps from a lower bound climb to the root and never pass it;
    each phase alone is such a bound."""
    log_tail = np.log(tail)
    with np.errstate(divide="ignore"):
        bounds = first * (np.log(weight) - log_tail), second * (np.log1p(-weight) - log_tail)
    t = np.maximum(0.0, np.maximum(*bounds))
    for _ in range(_NEWTON_STEPS):
        slow = weight * np.exp(-t / first)
        fast = (1.0 - weight) * np.exp(-t / second)
        total = slow + fast
        step = (np.log(total) - log_tail) * total / (slow / first + fast / second)
        t = t + np.maximum(step, 0.0)
        if np.all(step <= 1e-12 * t):
            break
    return np.asarray(t)
