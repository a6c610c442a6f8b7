"""Intervals from held-out errors: quantiles of a class of evidence, stretched for groups of runs (FIDELITY §9).

ln(measured / predicted) of a run lies between -exp(a + sum of s) and exp(b + sum of s): two ends of its class and the
stretches of its groups, which minimize the pinball loss of both quantiles and half of `RIDGE` times their squares.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from planner.calibration.fit import Booleans
from planner.calibration.residuals import HeldOut, curve
from planner.records import ClosedLoop, Floats, IntervalFactors
from planner.serving.intervals import SEVERITY, load_class, model_kind

COVERAGE = 0.8
_COVERAGES = (0.5, 0.9, 0.95, 0.99)
_TAIL = {"known-cell": 0.0875, "new-cell": 0.085, "new-model": 0.08}  # below .1: errors of groups not fitted run wider
RIDGE = 15.0  # runs against which a group's width doubles
_GROUP_WEIGHT = -0.5  # runs of a cell or model left out err together: those of a large one count by their root
_NEW_WIDTH = 2.0  # log width where neither model nor engine on this accelerator was measured: a judgement
_MANY = 500  # runs of a class that tell what stretches fast ends from what stretches slow ones
_LEAST_END = 0.02  # of an interval in log
_SMOOTH = 0.05  # of the spread of errors: rounds the kink of the pinball loss
_SIGN = np.array([-1.0, 1.0, -1.0, 1.0])


def group_names(run: ClosedLoop, known: str) -> tuple[str, ...]:
    """What stretches a run's interval: engine, accelerator, both together, and in measured cells kind and load."""
    engine, accelerator = run.engine.id, run.accelerator.id
    names = (engine, accelerator, f"{engine} {accelerator}")
    return (*names, model_kind(run.model), load_class(run.clients)) if known == SEVERITY[0] else names


@dataclass(frozen=True, slots=True, eq=False)
class Spread:
    """Where the intervals of a class end, and what stretches them."""

    ends: Floats  # [4]: ln of how far, in log, low and high of TPOT and of TTFT lie from 0
    stretches: Mapping[str, Floats]  # group -> [4], in log

    def bounds(self, names: Sequence[str]) -> Floats:
        """Log quantiles of runs of these groups [4]; a group that was never seen stretches nothing."""
        found = sum((self.stretches[name] for name in names if name in self.stretches), start=self.ends)
        return np.asarray(_SIGN * np.exp(found))


def fit_spread(held: HeldOut, known: str) -> Spread:
    """The spread of a class of held-out runs."""
    rows = [group_names(run, known) for run in held.runs]
    names = sorted({name for row in rows for name in row})
    design = np.array([[float(name in row) for name in names] for row in rows])
    _, of_row, counts = np.unique(held.left_out, return_inverse=True, return_counts=True)
    weight = counts[of_row] ** (0.0 if known == SEVERITY[0] else _GROUP_WEIGHT)
    weight = weight / weight.mean()
    single = np.array([" " not in name for name in names])  # the models left out are too few to tell pairs apart
    designs = (design * single if known == "new-model" else design, design)
    apart = (len(held.runs) > _MANY, False)
    found = [_quantiles(held.residual[:, at], designs[at], weight, _TAIL[known], apart[at]) for at in range(2)]
    ends = np.concatenate([ends for ends, _ in found])
    stretches = np.concatenate([both for _, both in found])
    return Spread(ends, {name: stretches[:, column] for column, name in enumerate(names)})


def _quantiles(residual: Floats, design: Floats, weight: Floats, tail: float, apart: bool) -> tuple[Floats, Floats]:
    """Ends of one quantity [2] and stretches of both ends [2, groups]; one stretch for both where not `apart`."""
    from scipy.optimize import minimize

    groups, scale = design.shape[1], float(np.quantile(np.abs(residual), COVERAGE))
    width = _SMOOTH * scale
    level = np.array([tail, 1.0 - tail])

    def loss(theta: Floats) -> tuple[float, Floats]:
        ends, stretches = theta[:2], theta[2:].reshape(-1, groups)
        reach = np.exp(ends + design @ np.broadcast_to(stretches, (2, groups)).T)  # [rows, 2]
        off = residual[:, None] - _SIGN[:2] * reach
        far = np.abs(off)
        pinball = np.where(far < width, (off**2 / width + width) / 4.0, far / 2.0) + (level - 0.5) * off
        slope = np.clip(off / width, -1.0, 1.0) / 2.0 + level - 0.5
        by_log = -weight[:, None] * slope * _SIGN[:2] * reach / scale
        by_group = (by_log.T @ design).reshape(2, groups)
        inner = by_group if apart else by_group.sum(axis=0, keepdims=True)
        value = float(np.sum(weight[:, None] * pinball) / scale + RIDGE / 2.0 * np.sum(stretches**2))
        return value, np.concatenate([by_log.sum(axis=0), (inner + RIDGE * stretches).ravel()])

    start = np.log(np.maximum(_SIGN[:2] * np.quantile(residual, level), _LEAST_END))
    theta = np.concatenate([start, np.zeros(groups * (2 if apart else 1))])
    best = minimize(loss, theta, jac=True, method="L-BFGS-B", options={"gtol": 1e-8, "ftol": 1e-14, "maxiter": 500}).x
    return best[:2], np.broadcast_to(best[2:].reshape(-1, groups), (2, groups))


def fit_spreads(classes: Mapping[str, HeldOut]) -> dict[str, Spread]:
    """The spread of every class: for no engine, nor for all, an end nearer than that of a class that knows more."""
    found: dict[str, Spread] = {}
    least: dict[str, Floats] = {}
    for known in (name for name in SEVERITY if name in classes):
        spread = fit_spread(classes[known], known)
        engines = {run.engine.id for run in classes[known].runs}
        own = {"": spread.ends, **{name: spread.ends + spread.stretches[name] for name in engines}}
        least |= {name: np.maximum(ends, least.get(name, ends)) for name, ends in own.items()}
        moved = {name: least[name] - least[""] for name in engines}
        found[known] = Spread(least[""], {**spread.stretches, **moved})
    return found


def log_bounds(spread: Spread, known: str, runs: Sequence[ClosedLoop]) -> Floats:
    """Log intervals of runs [rows, 4] by the spread of their class."""
    return np.array([spread.bounds(group_names(run, known)) for run in runs])


def strain(residual: Floats, bounds: Floats) -> Floats:
    """How far out in its interval a residual lies [rows, 2]: 1 at either end, 0 in the middle."""
    return np.where(residual < 0, residual / bounds[:, ::2], residual / bounds[:, 1::2])


def jackknifed_inside(classes: Mapping[str, HeldOut], known: str) -> Booleans:
    """Whether each run of a class lies in the interval that the runs of all other groups give it, [rows, 2].

    Groups are curves in measured cells, and elsewhere the cells or models left out.
    """
    held, inside = classes[known], np.zeros(classes[known].residual.shape, dtype=bool)
    of_row = np.array([str(curve(run)) for run in held.runs] if known == SEVERITY[0] else held.left_out)
    needed = [name for name in SEVERITY[: SEVERITY.index(known) + 1] if name in classes]
    for group in np.unique(of_row):
        own = held.part(of_row == group)
        gone = set(own.runs)
        others = {
            name: classes[name].part(np.array([run not in gone for run in classes[name].runs])) for name in needed
        }
        bounds = log_bounds(fit_spreads(others)[known], known, own.runs)
        inside[of_row == group] = strain(own.residual, bounds) <= 1.0
    return inside


# ------------------------------------------------------------------------------------------------- what profiles ship


@dataclass(frozen=True, slots=True)
class EngineIntervals:
    """What an engine profile ships: factors by class, widths by class and group, growth by coverage."""

    factors: Mapping[str, IntervalFactors]
    widths: Mapping[str, IntervalFactors]
    growth: Mapping[float, tuple[float, float]]


def engine_intervals(held: Mapping[str, Mapping[str, HeldOut]]) -> dict[str, EngineIntervals]:
    """Intervals of every engine, and of those that no run is of, from the runs held out by family and class."""
    of_every = [one for classes in held.values() for one in classes.values()]
    engines = ("generic", *sorted({run.engine.id for one in of_every for run in one.runs}))
    factors: dict[str, dict[str, IntervalFactors]] = {engine: {} for engine in engines}
    widths: dict[str, dict[str, IntervalFactors]] = {engine: {} for engine in engines}
    strains = []
    for family, classes in held.items():
        for known, spread in fit_spreads(classes).items():
            key = f"{family}/{known}"
            strains.append(strain(classes[known].residual, log_bounds(spread, known, classes[known].runs)))
            for engine in engines:
                factors[engine][key] = IntervalFactors(*np.exp(spread.bounds((engine,))))
                widths[engine] |= {f"{key}/{name}": by for name, by in _widths(spread, engine, engines).items()}
                if known == "new-model":
                    wide = IntervalFactors(*np.exp(_NEW_WIDTH * spread.bounds((engine,))))
                    factors[engine] |= {f"{family}/{name}": wide for name in ("new-accelerator", "guess")}
    growth = _growth(np.concatenate(strains))
    return {engine: EngineIntervals(factors[engine], widths[engine], growth) for engine in engines}


def _widths(spread: Spread, engine: str, engines: Sequence[str]) -> dict[str, IntervalFactors]:
    """What every group but engines stretches log intervals by, with what it does for this engine alone."""
    nothing = np.zeros(4)
    return {
        name: IntervalFactors(*np.exp(by + spread.stretches.get(f"{engine} {name}", nothing)))
        for name, by in spread.stretches.items()
        if " " not in name and name not in engines
    }


def _growth(strains: Floats) -> dict[float, tuple[float, float]]:
    """Coverage -> what log intervals must be stretched by to hold it, of how held-out errors spread [rows, 2]."""
    inside = np.mean(strains <= 1.0, axis=0)
    found = {}
    for coverage in _COVERAGES:
        share = inside + (coverage - COVERAGE) * (1.0 - inside) / (1.0 - COVERAGE)
        step, ttft = (float(np.quantile(strains[:, at], share[at])) for at in range(2))
        found[coverage] = (step, ttft)
    return found
