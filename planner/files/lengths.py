"""Joint laws of prompt and output lengths, from a few statistics or from the rows of a trace.

A law given by statistics is a lognormal, cut into cells whose edges are even in the normal score, so the tail gets as
many cells as the middle. Each cell becomes one atom at its own mean: the mean of the law is kept exactly, and the
99th percentile falls in the middle of a cell.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import erfc, exp, log, sqrt

import numpy as np

from planner.records import Floats, Lengths

Z99 = 2.3263478740408408  # standard normal score of the 99th percentile
INPUT_ATOMS = 64
OUTPUT_ATOMS = 32
MOST_ATOMS = INPUT_ATOMS * OUTPUT_ATOMS
MOST_SCV = 200
_LOW_SCORE, _HIGH_SCORE = -3.2, 4.2  # outer cells hold what is beyond
_PEAK_RATIO = exp(Z99**2 / 2)  # the largest p99 / mean of any lognormal, 14.97


@dataclass(frozen=True, slots=True)
class Marginal:
    """A lognormal of log-mean `mu` and log-deviation `sigma`, or one fixed length when `sigma` is 0. Tokens."""

    mu: float
    sigma: float

    @property
    def mean(self) -> float:
        return exp(self.mu + self.sigma**2 / 2)

    @property
    def p99(self) -> float:
        return exp(self.mu + Z99 * self.sigma)


def fixed(tokens: float) -> Marginal:
    return Marginal(log(tokens), 0.0)


def from_mean_scv(mean: float, scv: float) -> Marginal:
    """The lognormal with this mean and squared coefficient of variation: sigma^2 = ln(1 + scv).

    Raises ValueError when `scv` is above 200.
    """
    if scv > MOST_SCV:
        raise ValueError(f"scv {scv:g} is wider than any length law that can be sized; want at most {MOST_SCV:g}")
    variance = log(1 + scv)
    return Marginal(log(mean) - variance / 2, sqrt(variance))


def from_mean_p99(mean: float, p99: float) -> Marginal:
    """The lognormal with this mean and 99th percentile: sigma = z - sqrt(z^2 - 2 ln(p99 / mean)), z = 2.326.

    Raises ValueError when p99 is below the mean, or above 14.97 times the mean, where no lognormal has both.
    """
    if p99 < mean:
        raise ValueError(f"p99 {p99:g} is below the mean {mean:g}")
    if p99 > _PEAK_RATIO * mean:
        raise ValueError(
            f"no lognormal has a p99 of {p99:g} with a mean of {mean:g} (at most {_PEAK_RATIO:.1f} times the mean); "
            "give {p50, p99}, {mean, scv} or a trace"
        )
    sigma = Z99 - sqrt(max(0.0, Z99**2 - 2 * log(p99 / mean)))
    return Marginal(log(mean) - sigma**2 / 2, sigma)


def from_p50_p99(p50: float, p99: float) -> Marginal:
    """The lognormal with this median and 99th percentile: sigma = ln(p99 / p50) / 2.326.

    Raises ValueError when p99 is below p50, or the law they give has an scv above 200.
    """
    if p99 < p50:
        raise ValueError(f"p99 {p99:g} is below p50 {p50:g}")
    sigma = log(p99 / p50) / Z99
    if sigma**2 > log(1 + MOST_SCV):
        raise ValueError(f"p99 {p99:g} over p50 {p50:g} is wider than any length law that can be sized")
    return Marginal(log(p50), sigma)


def atoms(law: Marginal, most: int) -> tuple[Floats, Floats]:
    """Lengths and probabilities of `law` in at most `most` atoms, all at least one token.

    The mean is exact; the 99th percentile of 64 atoms is within 1% of the law's, of 32 atoms within 2%.
    """
    if law.sigma == 0:
        return np.array([exp(law.mu)]), np.ones(1)
    edges = _score_edges(most)
    weights = np.diff(_normal_cdf(edges))
    # The mean over a cell of exp(mu + sigma z) is the mass of the cell shifted by sigma, for the normal tilted so.
    shares = np.diff(_normal_cdf(edges - law.sigma))
    kept = (weights > 0) & (shares > 0)
    weights, shares = weights[kept] / weights[kept].sum(), shares[kept] / shares[kept].sum()
    return _at_least_one(law.mean * shares / weights, weights, law.mean), weights


def _score_edges(cells: int) -> Floats:
    """`cells` + 1 normal scores: open ends, even between, shifted so that the p99 is the middle of its cell."""
    inner = np.linspace(_LOW_SCORE, _HIGH_SCORE, cells - 1)
    width = inner[1] - inner[0]
    above = np.searchsorted(inner, Z99)
    inner = inner + (Z99 - width / 2 - inner[above - 1])
    return np.concatenate(([-np.inf], inner, [np.inf]))


def _normal_cdf(score: Floats) -> Floats:
    return np.array([0.5 * erfc(-value / sqrt(2.0)) for value in score])


def _at_least_one(lengths: Floats, weights: Floats, mean: float) -> Floats:
    """No length below one token; what that adds is taken from the others, so that the mean stays."""
    if lengths.min() >= 1:
        return lengths
    raised = np.maximum(lengths, 1.0)
    excess = float(weights @ (raised - 1))
    return 1 + (raised - 1) * ((mean - 1) / excess) if excess > 0 else raised


def independent(input_law: Marginal, output_law: Marginal) -> Lengths:
    """The joint law of independent prompt and output lengths: the product of their atoms, at most 64 x 32."""
    inputs, input_weights = atoms(input_law, INPUT_ATOMS)
    outputs, output_weights = atoms(output_law, OUTPUT_ATOMS)
    return Lengths(
        input_tokens=np.repeat(inputs, outputs.size),
        output_tokens=np.tile(outputs, inputs.size),
        weights=np.outer(input_weights, output_weights).ravel(),
    )


def from_rows(input_tokens: Floats, output_tokens: Floats) -> Lengths:
    """The joint law of observed requests: one atom per distinct pair, merged to at most 2,048 when there are more.

    Merging cuts the rows by prompt length, then each cut by output length, both finer in the tails, and replaces each
    cell by its mean: both means stay exact, and the percentiles stay where they were to within a cell.
    """
    rows = np.stack((input_tokens, output_tokens), axis=1)
    pairs, counts = _distinct(rows)
    if len(pairs) > MOST_ATOMS:
        pairs, counts = _merged(rows)
    return Lengths(pairs[:, 0].copy(), pairs[:, 1].copy(), counts / counts.sum())


def _distinct(rows: Floats) -> tuple[Floats, Floats]:
    """Different rows of (n, 2) numbers of tokens in ascending order, and how often each stands."""
    wide = rows[:, 1].max() + 1.0
    if rows[:, 0].max() * wide >= 2.0**53:
        pairs, repeats = np.unique(rows, axis=0, return_counts=True)
        return pairs, repeats.astype(float)
    keys, repeats = np.unique(rows[:, 0] * wide + rows[:, 1], return_counts=True)
    return np.stack((np.floor(keys / wide), keys % wide), axis=1), repeats.astype(float)


def _merged(rows: Floats) -> tuple[Floats, Floats]:
    """Means and sizes of the cells of `rows` (n x 2)."""
    rows = rows[np.argsort(rows[:, 0], kind="stable")]
    starts: list[int] = []
    for low, high in _cells(len(rows), INPUT_ATOMS):
        rows[low:high] = rows[low:high][np.argsort(rows[low:high, 1], kind="stable")]
        starts += [low + cut for cut, _ in _cells(high - low, OUTPUT_ATOMS)]
    counts = np.diff(np.array([*starts, len(rows)])).astype(float)
    return np.add.reduceat(rows, starts, axis=0) / counts[:, None], counts


def _cells(rows: int, cells: int) -> list[tuple[int, int]]:
    """Row ranges that cut `rows` ordered rows at even normal scores; empty ranges are left out."""
    cuts = np.unique(np.rint(_normal_cdf(_score_edges(cells)) * rows).astype(int))
    return [(int(low), int(high)) for low, high in pairwise(cuts)]
