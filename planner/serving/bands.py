"""How far the formulas may be off for given step times: queueing bands on every statistic, with a mark of trust.

Errors of step times are no part of this; the intervals hold those (`intervals.py`).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from planner.queueing.moving import MovingWait
from planner.queueing.waiting import Wait
from planner.records import PROBABILITY, Floats, FormulaBand, Mode

# Largest errors against token-step simulation, rounded up: of means, then of quantiles (docs/queueing.md).
GAP_ERRORS: Mapping[Mode, tuple[float, float]] = {
    "disaggregated": (0.01, 0.06),
    "colocated-chunked": (0.10, 0.25),
    "colocated-whole-prompt": (0.02, 0.11),
}
STAY_ERRORS: Mapping[Mode, tuple[float, float]] = {
    "disaggregated": (0.01, 0.06),
    "colocated-chunked": (0.10, 0.45),
    "colocated-whole-prompt": (0.02, 0.43),
}
MEAN_WAIT_ERROR, MEAN_MOVING_ERROR = 0.07, 0.15

Bands = Mapping[str, FormulaBand]


def formula_bands(
    mode: Mode, statistics: Mapping[str, Mapping[str, float]], wait: Wait | MovingWait, gaps: tuple[str, str]
) -> Mapping[str, Bands]:
    """Bands of every statistic of one deployment.

    Parameters
    ----------
    statistics : values of ttft_s, itl_s, tpot_s and e2e_s by statistic [s].
    wait : for prefill, of one point.
    gaps : trust in the gaps between tokens, and why it is not ok.
    """
    ttft = _ttft(statistics["ttft_s"], wait)
    return {
        "ttft_s": ttft,
        "itl_s": _relative(statistics["itl_s"], GAP_ERRORS[mode], gaps),
        "tpot_s": _relative(statistics["tpot_s"], STAY_ERRORS[mode], gaps),
        "e2e_s": _end_to_end(statistics["e2e_s"], STAY_ERRORS[mode], ttft),
    }


def _ttft(values: Mapping[str, float], wait: Wait | MovingWait) -> Bands:
    """What the wait may be off by: a quantile of wait + own prefill moves no more than that of the wait does."""
    error = MEAN_MOVING_ERROR if isinstance(wait, MovingWait) else MEAN_WAIT_ERROR
    reach = error * _one(wait.mean_s)
    found = {"mean": _band(values["mean"], reach, reach, _word(wait.trust), _word(wait.trust_reason))}
    for name, q in PROBABILITY.items():
        at = _one(wait.quantile_s(q))
        low, high = (_one(bound) for bound in wait.band(q))
        found[name] = _band(values[name], at - low, high - at, *(_word(text) for text in wait.trust_at(q)))
    return found


def _relative(values: Mapping[str, float], errors: tuple[float, float], trust: tuple[str, str]) -> Bands:
    return {name: _band(value, *_reach(name, value, errors), *trust) for name, value in values.items()}


def _end_to_end(values: Mapping[str, float], errors: tuple[float, float], ttft: Bands) -> Bands:
    """The stay may be off by its share, and what is in front of it is marked as the first token is."""
    return {
        name: _band(value, *_reach(name, value, errors), ttft[name].trust, ttft[name].reason)
        for name, value in values.items()
    }


def _reach(name: str, value: float, errors: tuple[float, float]) -> tuple[float, float]:
    mean, other = errors
    reach = value * (mean if name == "mean" else other)
    return reach, reach


def _band(value: float, below: float, above: float, trust: str, reason: str) -> FormulaBand:
    low, high = float(value) - float(below), float(value) + float(above)  # both may be without bound
    return FormulaBand(max(low, 0.0) if np.isfinite(low) else 0.0, high if np.isfinite(high) else None, trust, reason)


def _one(values: Floats) -> float:
    return float(np.ravel(values)[0])


def _word(texts: NDArray[np.str_]) -> str:
    return str(np.ravel(texts)[0])
