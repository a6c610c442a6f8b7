"""How far the formulas may be off for given step times: queueing bands on every statistic, with a mark of trust.

Errors of step times are no part of this; the intervals hold those (`intervals.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from planner.queueing.lockstep_wait import LockstepWait
from planner.queueing.moving import MovingWait
from planner.queueing.trust import IN_FLIGHT
from planner.queueing.waiting import Wait
from planner.records import PROBABILITY, Floats, FormulaBand, Mode
from planner.serving.doubts import OK, Mark, worst

# Largest errors against token-step simulation, rounded up: of means, then of quantiles (docs/queueing.md).
GAP_ERRORS: Mapping[Mode, tuple[float, float]] = {
    "disaggregated": (0.03, 0.12),
    "colocated-chunked": (0.10, 0.25),
    "colocated-whole-prompt": (0.05, 0.30),
}
STAY_ERRORS: Mapping[Mode, tuple[float, float]] = {
    "disaggregated": (0.03, 0.12),
    "colocated-chunked": (0.10, 0.45),
    "colocated-whole-prompt": (0.05, 0.43),
}
MEAN_WAIT_ERROR, MEAN_MOVING_ERROR = 0.07, 0.15
MEAN_ROUTED_ERROR = 0.45  # of several replicas that decode too, behind a router that counts both
# Of what follows the wait, means then quantiles: chunks and the step in progress have laws of their own.
OWN_ERRORS: Mapping[Mode, tuple[float, float]] = {
    "disaggregated": (0.02, 0.05),
    "colocated-chunked": (0.10, 0.15),
    "colocated-whole-prompt": (0.03, 0.06),
}

OWN_IN_STEP = (0.10, 0.15)  # of prompts on ranks that step together

Bands = Mapping[str, FormulaBand]
AnyWait = Wait | MovingWait | LockstepWait


def formula_bands(
    mode: Mode,
    statistics: Mapping[str, Mapping[str, float]],
    wait: AnyWait,
    gaps: Mark,
    first: Mark = OK,
    pace: Mark = OK,
    edges: Mapping[str, Mark] = MappingProxyType({}),
) -> Mapping[str, Bands]:
    """Bands of every statistic of one deployment.

    Parameters
    ----------
    statistics : values of ttft_s, itl_s, tpot_s and e2e_s by statistic [s].
    wait : for prefill, of one point.
    gaps : trust in the gaps between tokens, and why it is not ok.
    first, pace : the same for first tokens besides their wait, and for TPOT besides its gaps.
    edges : the same for single statistics of the gaps over tokens.
    """
    own = OWN_IN_STEP if isinstance(wait, LockstepWait) else OWN_ERRORS[mode]
    ttft = _ttft(statistics["ttft_s"], wait, own, first)
    return {
        "ttft_s": ttft,
        "itl_s": _relative(statistics["itl_s"], GAP_ERRORS[mode], gaps, edges),
        "tpot_s": _relative(statistics["tpot_s"], STAY_ERRORS[mode], worst((gaps, pace)), {}),
        "e2e_s": _end_to_end(statistics["e2e_s"], STAY_ERRORS[mode], ttft),
    }


def _ttft(values: Mapping[str, float], wait: AnyWait, own: tuple[float, float], first: Mark) -> Bands:
    """What the wait may be off by, and a share of the rest: a quantile of wait + own prefill moves with both."""
    error = _mean_error(wait)
    mean_s = _one(wait.mean_s)
    reach = error * mean_s + own[0] * _rest(values["mean"], mean_s)
    known = worst(((_word(wait.trust), _word(wait.trust_reason)), first))
    found = {"mean": _band(values["mean"], reach, reach, *known)}
    for name, q in PROBABILITY.items():
        at = _one(wait.quantile_s(q))
        low, high = (_one(bound) for bound in wait.band(q))
        trust, reason = (_word(text) for text in wait.trust_at(q))
        rest = own[1] * _rest(values[name], min(at, mean_s))
        found[name] = _band(values[name], at - low + rest, high - at + rest, *worst(((trust, reason), first)))
    return found


def _mean_error(wait: AnyWait) -> float:
    if isinstance(wait, MovingWait):
        return MEAN_MOVING_ERROR
    if isinstance(wait, LockstepWait):
        return wait.mean_error
    return MEAN_ROUTED_ERROR if wait.policy == IN_FLIGHT and _one(wait.servers) > 1 else MEAN_WAIT_ERROR


def _rest(value: float, wait_s: float) -> float:
    """What is left of a first token beside the wait; 0 where neither is bounded."""
    return max(value - wait_s, 0.0) if np.isfinite(value) else 0.0


def _relative(
    values: Mapping[str, float], errors: tuple[float, float], trust: Mark, single: Mapping[str, Mark]
) -> Bands:
    return {
        name: _band(value, *_reach(name, value, errors), *worst((trust, single.get(name, OK))))
        for name, value in values.items()
    }


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
