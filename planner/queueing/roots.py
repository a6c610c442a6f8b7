"""Where a falling function passes zero: a bracket that a secant narrows."""

from __future__ import annotations

from collections.abc import Callable

_ROUNDS = 100
_EQUAL = 1e-9


def falling_root(excess: Callable[[float], float], low: float, high: float) -> float:
    """x with excess(x) = 0, for a continuous falling function that is positive at `low` and not above 0 at `high`.

    Regula falsi that shrinks the value of an end that stays (Anderson and Bjorck 1973), with a bisection in every
    eighth round. It ends where |excess|, or the bracket relative to `high`, is below 1e-9.
    """
    at_low, at_high = excess(low), excess(high)
    last = 0.0
    for count in range(_ROUNDS):
        middle = (low + high) / 2.0 if count % 8 == 7 else low + (high - low) * at_low / (at_low - at_high)
        value = excess(middle)
        if abs(value) < _EQUAL or high - low < _EQUAL * high:
            return middle
        if value > 0.0:
            at_high *= _kept(value / at_low) if last > 0.0 else 1.0
            low, at_low = middle, value
        else:
            at_low *= _kept(value / at_high) if last < 0.0 else 1.0
            high, at_high = middle, value
        last = value
    return high


def _kept(fall: float) -> float:
    """What an end that stays keeps of its value, when the other end's fell to the share `fall` of what it was."""
    return 1.0 - fall if fall < 1.0 else 0.5
