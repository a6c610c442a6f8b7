"""Laws of the gap between two tokens when prefill shares the engine (QUEUEING §4.2 and §4.3)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planner.queueing.service import Floats
from planner.queueing.waiting import checked_level

_TOP = 0.9999  # highest level asked of the batch


@dataclass(frozen=True, slots=True, eq=False)
class BatchSpread:
    """The decoding batch about its mean: a gamma law; arrays of the points' shape."""

    mean: Floats
    variance: Floats

    def excess(self, level: Floats) -> Floats:
        """The `level` quantile of the batch less its mean."""
        from scipy.special import gammaincinv

        mean = np.maximum(self.mean, 1e-9)
        spread = np.maximum(self.variance, 1e-12)
        quantile = gammaincinv(mean**2 / spread, np.clip(level, 0.0, _TOP)) * spread / mean
        return np.asarray(quantile - mean)


@dataclass(frozen=True, slots=True, eq=False)
class PackedSteps:
    """Time that prompts add to a step that takes all who came in the step before: a gamma law.

    `fits` is where nearly all prompts fit into one step, so that this law holds.
    """

    mean_s: Floats
    variance: Floats
    fits: NDArray[np.bool_]

    def quantile_s(self, level: Floats) -> Floats:
        from scipy.special import gammaincinv

        mean = np.maximum(self.mean_s, 1e-12)
        variance = np.maximum(self.variance, 1e-9 * mean**2)
        return np.asarray(gammaincinv(mean**2 / variance, level) * variance / mean)


def packed_steps(
    decode_s: Floats, rate: Floats, moments: tuple[Floats, Floats], mixed_share: Floats, fits: NDArray[np.bool_]
) -> PackedSteps:
    """Steps of which each prefills the prompts that came during the one before (gated service).

    X' = td + work of Poisson(rate X) prompts, so E[X] = td / (1 - r) with r = rate m_1, and
    V[X] = rate m_2 E[X] / (1 - r^2); the share of steps that prefill is given.

    Parameters
    ----------
    decode_s : step without prompts [s].   rate : prompts per second.
    moments : first two moments of the time that one prompt adds [s, s^2].

    Notes
    -----
    Derivation: mean and variance of a branching process with immigration. Valid while steps are seldom filled.
    """
    work = np.minimum(rate * moments[0], 0.999)
    step = decode_s / (1.0 - work)
    added = step - decode_s
    variance = rate * moments[1] * step / (1.0 - work**2)
    met = np.maximum(mixed_share, 1e-12)
    mean = added / met
    return PackedSteps(mean, (variance + added**2) / met - mean**2, fits)


@dataclass(frozen=True, slots=True, eq=False)
class ChunkedGaps:
    """Decode steps, steps that carry the last chunk of a prompt, and steps filled up to the budget.

    `mixed_s` is a step that prefills, on average. `partial_s` is (points, atoms), ascending, with weights of the same
    shape; `full_s` likewise, by the prompt that fills the step; slopes are seconds per request in the batch.
    """

    decode_share: Floats
    full_share: Floats
    decode_s: Floats
    full_s: Floats
    full_weights: Floats
    mixed_s: Floats
    decode_slope_s: Floats
    full_slope_s: Floats
    partial_s: Floats
    partial_weights: Floats
    batch: BatchSpread
    packed: PackedSteps

    def quantile_s(self, q: float) -> Floats:
        """q-quantile over tokens."""
        chunks = self._chunk_quantile_s(q)
        return np.where(self.packed.fits, np.minimum(self._packed_quantile_s(q), chunks), chunks)

    def _packed_quantile_s(self, q: float) -> Floats:
        """The same where a step takes several prompts whole, and is seldom filled."""
        level, bottom = float(checked_level(q)), self.decode_share
        decode = self.decode_s + self.decode_slope_s * self.batch.excess(level / np.maximum(bottom, 1e-12))
        inside = np.clip((level - bottom) / np.maximum(1.0 - bottom, 1e-12), 0.0, _TOP)
        mixed = np.maximum(self.decode_s + self.packed.quantile_s(inside), self.partial_s[..., 0])
        return np.where(level <= bottom, np.minimum(decode, self.partial_s[..., 0]), mixed)

    def _chunk_quantile_s(self, q: float) -> Floats:
        level = float(checked_level(q))
        bottom, top = self.decode_share, 1.0 - self.full_share
        least = np.where(top > bottom, self.partial_s[..., 0], self.full_s[..., 0])
        decode = self.decode_s + self.decode_slope_s * self.batch.excess(level / np.maximum(bottom, 1e-12))
        # where a request takes more from the prefill of a full step than it adds, small batches make long steps
        full_level = np.where(self.full_slope_s >= 0.0, level, 1.0 - level)
        inside = np.clip((level - top) / np.maximum(1.0 - top, 1e-12), 0.0, 1.0)
        full = _atom(self.full_s, self.full_weights, inside) + self.full_slope_s * self.batch.excess(full_level)
        part = np.clip((level - bottom) / np.maximum(top - bottom, 1e-12), 0.0, 1.0)
        partial = _atom(self.partial_s, self.partial_weights, part)
        return np.where(
            level <= bottom, np.minimum(decode, least), np.where(level > top, np.maximum(full, partial), partial)
        )


def _atom(values: Floats, weights: Floats, level: Floats) -> Floats:
    """The quantile at `level` of ascending atoms along the last axis."""
    index = np.sum(np.cumsum(weights, axis=-1) < level[..., None] - 1e-9, axis=-1)
    index = np.minimum(index, values.shape[-1] - 1)
    return np.take_along_axis(values, index[..., None], axis=-1)[..., 0]


@dataclass(frozen=True, slots=True, eq=False)
class TabledGaps:
    """Gaps by their quantiles at `levels`: `gaps_s` has the points' shape and one more axis.

    `variance`, (points, 2), is that of a gap and that of the mean of n gaps times n for many n.
    """

    levels: Floats
    gaps_s: Floats
    decode_s: Floats
    batch: BatchSpread
    variance: Floats

    share: Floats | float = 1.0  # of gaps that follow the table; the others are decode steps

    def quantile_s(self, q: float) -> Floats:
        """q-quantile over tokens."""
        share = np.broadcast_to(np.maximum(self.share, 1e-300), self.decode_s.shape)
        within = 1.0 - (1.0 - float(checked_level(q))) / share
        rows = self.gaps_s.reshape(-1, self.levels.size)
        found = [np.interp(at, self.levels, row) for at, row in zip(within.ravel(), rows, strict=True)]
        return np.where(within > 0.0, np.reshape(found, self.decode_s.shape), self.decode_s)


@dataclass(frozen=True, slots=True, eq=False)
class StalledGaps:
    """A decode step, and with probability `stall_share` the prefills that came in meanwhile and all that follow.

    The stall is a delay busy period, here a gamma law with the mean and second moment it has given that there is one.
    """

    stall_share: Floats
    decode_s: Floats
    decode_slope_s: Floats
    stall_mean_s: Floats
    stall_second_moment: Floats
    batch: BatchSpread

    def quantile_s(self, q: float) -> Floats:
        """q-quantile over tokens."""
        from scipy.special import gammaincinv

        level = float(checked_level(q))
        variance = np.maximum(self.stall_second_moment - self.stall_mean_s**2, 1e-12 * self.stall_mean_s**2)
        within = 1.0 - (1.0 - level) / np.maximum(self.stall_share, 1e-300)
        stalled = within > 0.0
        stall = (
            gammaincinv(self.stall_mean_s**2 / variance, np.where(stalled, within, 0.5)) * variance / self.stall_mean_s
        )
        calm = level / np.maximum(1.0 - self.stall_share, 1e-12)
        excess = self.decode_slope_s * self.batch.excess(calm)
        return self.decode_s + np.where(stalled, np.maximum(stall, excess), excess)
