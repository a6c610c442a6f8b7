"""Delays tabulated on a lattice: geometric compounds by FFT (QUEUEING §2.1, tier 2), and walks of one server."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Survival = Callable[[Floats], Floats]

_LATTICE = 2048
_DAMPING = 14.0  # e-folds over the lattice: what wraps around is smaller by this
_COARSER = 16.0  # the second lattice reaches so much further
_NODES, _NODE_WEIGHTS = np.polynomial.legendre.leggauss(12)  # of the first cell, where laws bend most
_CELL_NODES = (0.5 - 0.75**0.5 / 3.0, 0.5 + 0.75**0.5 / 3.0)  # Gauss-Legendre
_LEAST_TAIL = 1e-9  # beyond, the table goes on along its last slope


@dataclass(frozen=True, slots=True, eq=False)
class TabulatedDelay:
    """Delay laws read from tables; the fields have the points' shape and one more axis.

    `times_s` ascends from 0, `log_tails` is log P(D > t) there. Between the times the log is linear, beyond them it
    keeps its last slope.
    """

    times_s: Floats
    log_tails: Floats

    def survival(self, t_s: Floats) -> Floats:
        """P(D > t); `t_s` has the points' shape, or that shape and one more axis."""
        return np.exp(self._read(t_s, self.times_s, self.log_tails))

    def quantile_s(self, tail: Floats) -> Floats:
        """The t with P(D > t) = `tail`, in (0, 1]; shapes as in `survival`."""
        return np.maximum(0.0, self._read(-np.log(tail), -self.log_tails, self.times_s))

    def at(self, index: Any) -> TabulatedDelay:
        """The laws at some of the points."""
        return TabulatedDelay(self.times_s[index], self.log_tails[index])

    def _read(self, at: Floats, x: Floats, y: Floats) -> Floats:
        """Row by row, y at `at`, read linearly and along the last slope."""
        points, size = np.shape(x)[:-1], np.shape(x)[-1]
        at = np.broadcast_to(at, points + np.shape(at)[len(points) :])
        flat = at.reshape((int(np.prod(points)), -1))
        rows = zip(flat, x.reshape(-1, size), y.reshape(-1, size), strict=True)
        return np.array([_read_on(row, known, values) for row, known, values in rows]).reshape(at.shape)


def _read_on(at: Floats, x: Floats, y: Floats) -> Floats:
    anchor = max(0, x.size - 1 - max(1, x.size // 16))
    slope = (y[-1] - y[anchor]) / max(x[-1] - x[anchor], 1e-300)
    return np.asarray(np.interp(at, x, y) + np.maximum(0.0, at - x[-1]) * slope)


def compound_delay(
    first: Survival, step: Survival, mean_steps: float, span_s: float, more: tuple[float, ...] = ()
) -> TabulatedDelay:
    """Law of X + Y_1 + … + Y_M on a lattice, M geometric with mean `mean_steps` and X, Y independent.

    Parameters
    ----------
    first, step : P(X > t) and P(Y > t).
    span_s : time within which most of the delay lies, such as 8 means; a second lattice reaches 16 times as far.
    more : P(K >= 1), P(K >= 2), … of further steps that are added to M.
    """
    near_t, near = _lattice_tail(first, step, mean_steps, span_s, more, _LATTICE)
    far_t, far = _lattice_tail(first, step, mean_steps, span_s * _COARSER, more, _LATTICE // 2)
    beyond = far_t > near_t[-1]
    times, tails = np.concatenate([near_t, far_t[beyond]]), np.concatenate([near, far[beyond]])
    return tabulated(times, tails)


def tabulated(times_s: Floats, tails: Floats) -> TabulatedDelay:
    """One point's table from tails that may carry rounding noise where they are tiny."""
    falling = np.minimum.accumulate(np.clip(tails, 0.0, 1.0))
    last = int(np.argmin(falling > _LEAST_TAIL)) if falling[-1] <= _LEAST_TAIL else falling.size
    kept = max(2, last)
    logs = np.log(np.maximum(falling[:kept], 1e-300))
    moving = np.append(True, np.diff(logs) < -1e-13)
    moving[-1] = True
    return TabulatedDelay(times_s[:kept][moving], logs[moving])


def _lattice_tail(
    first: Survival, step: Survival, mean_steps: float, span_s: float, more: tuple[float, ...], size: int
) -> tuple[Floats, Floats]:
    """Times halfway between the lattice points, and the tail there."""
    width = span_s / size
    damp = np.exp(-_DAMPING / size * np.arange(size))
    x, y = (np.fft.rfft(_masses(law, width, size) * damp, 2 * size) for law in (first, step))
    ratio = mean_steps / (1.0 + mean_steps)
    transform = x * (1.0 - ratio) / (1.0 - ratio * y)
    if more:
        chances = -np.diff(np.array([1.0, *more, 0.0]))
        transform = transform * np.polynomial.polynomial.polyval(y, chances)
    mass = np.fft.irfft(transform, 2 * size)[:size] / damp
    times = np.maximum(0.0, (np.arange(size) - 0.5) * width)
    return times, np.append(1.0, 1.0 - np.cumsum(mass[:-1]))


def _masses(law: Survival, width: float, size: int) -> Floats:
    """Lattice masses by hat functions, which keep the mean: differences of the tail averaged over each cell."""
    cells = np.arange(size) * width
    tails = law(np.concatenate([cells + width * _CELL_NODES[0], cells + width * _CELL_NODES[1]]))
    means = (tails[:size] + tails[size:]) / 2.0
    means[0] = float(law((_NODES + 1.0) / 2.0 * width) @ _NODE_WEIGHTS) / 2.0
    return -np.diff(means, prepend=1.0)
