"""How far measured runs lie from predictions made without them, and the intervals that follow (FIDELITY §9)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from planner.calibration.fit import Booleans, Data, EngineFit, fit_colocated, fit_engines, log_answer, log_constants
from planner.engines.constants import Family
from planner.records import ClosedLoop, EngineProfile, Floats, IntervalFactors
from planner.serving.closed_loop import solve
from planner.serving.intervals import SEVERITY, evidence, load_class, model_kind

FOLDS = 5
_SEED = 7
# Share of held-out residuals left out at each end. Jackknifed coverage of .1 runs 3 to 6 points short, and more for
# latent attention, whose runs hide switches that come and go by whole curves.
_TAIL = 0.07
_TAIL_LATENT = 0.05
_SHRINK_UNSEEN = 60.0  # the same where whole models or cells were left out
_SHRINK_WIDTH = 60.0  # and of what an accelerator stretches intervals by
_LEAST_WIDTH = 0.02  # of an interval in log
_LEAST_STRETCH = 0.85
COVERAGE = 0.8
_COVERAGES = (0.5, 0.9, 0.95, 0.99)
_SHRINK = 25.0  # runs at which a group's own quantiles weigh as much as those of the group above it
_NEW_WIDTH = 2.0  # log width where neither model nor engine on this accelerator was measured: a judgement


@dataclass(frozen=True, slots=True, eq=False)
class HeldOut:
    """Predictions of runs that the constants never saw."""

    family: Family
    runs: tuple[ClosedLoop, ...]
    predicted: Floats  # [rows, 2] ln TPOT, ln TTFT
    measured: Floats
    evidence: tuple[str, ...]

    @property
    def residual(self) -> Floats:
        """ln(measured / predicted), [rows, 2]."""
        return self.measured - self.predicted


def curve(run: ClosedLoop) -> tuple[object, ...]:
    """What runs of one curve share: a deployment and its lengths, whatever the concurrency, version and date."""
    names = (run.model.id, run.engine.id, run.weights, run.origin, run.deployment)
    return (*names, run.input_tokens, run.output_tokens)


def folds(runs: Sequence[ClosedLoop]) -> tuple[int, ...]:
    """A fold of each run, whole curves together."""
    keys = sorted({str(curve(run)) for run in runs})
    order = np.random.default_rng(_SEED).permutation(len(keys))
    fold = {key: int(order[number]) % FOLDS for number, key in enumerate(keys)}
    return tuple(fold[str(curve(run))] for run in runs)


def predict(data: Data, family: Family, fitted: EngineFit) -> tuple[Floats, tuple[str, ...]]:
    """Log predictions of every run with fitted constants as the product uses them, and the evidence for each."""
    profiles = {run.engine.id: run.engine for run in data.runs}
    known = {name: fitted.profile(profile) for name, profile in profiles.items() if ("colocated", name) in fitted.base}
    spare = {name: _generic(fitted, profile) for name, profile in profiles.items() if name not in known}
    theta = log_constants(data.runs, {**known, **spare}, family)
    seen = tuple(evidence({**known, **spare}[run.engine.id], run.model.id, run.accelerator) for run in data.runs)
    return log_answer(solve(data.loop, np.exp(theta))), seen


def _generic(fitted: EngineFit, profile: EngineProfile) -> EngineProfile:
    """An engine that no run is of: its own rules with the constants that all engines share."""
    generic = fitted.profile(replace(profile, id="generic"))
    return replace(generic, id=profile.id)


def held_out(
    family: Family,
    data: Data,
    use: Floats,
    groups: Sequence[object],
    other: Data | None = None,
    use_other: Floats | None = None,
) -> HeldOut:
    """Predict each group of runs from constants fitted to all others.

    For the disaggregated family `other` is the colocated data, from which nothing is held out.
    """
    predicted = np.full(data.measured.shape, np.nan)
    done = fit_colocated(other, use_other) if other is not None and use_other is not None else None
    seen = [""] * len(data.runs)
    of_row = np.array([str(name) for name in groups])
    for name in np.unique(of_row[use > 0]):
        test = of_row == name
        if family == "colocated":
            fitted = fit_engines(data, use * ~test)
        elif other is not None and use_other is not None:
            fitted = fit_engines(other, use_other, data, use * ~test, done)
        answer, found = predict(data, family, fitted)
        predicted[test] = answer[test]
        for row in np.flatnonzero(test):
            seen[row] = found[row]
    kept = np.flatnonzero((use > 0) & np.isfinite(data.measured).all(axis=1))
    return HeldOut(
        family,
        tuple(data.runs[row] for row in kept),
        predicted[kept],
        data.measured[kept],
        tuple(seen[row] for row in kept),
    )


# ------------------------------------------------------------------------------------------------------------ intervals


def _quantiles(residual: Floats, tail: float = _TAIL) -> Floats:
    """[4]: low and high of TPOT, low and high of TTFT, in log."""
    return np.quantile(residual, (tail, 1.0 - tail), axis=0).T.ravel()


def class_intervals(held: HeldOut, key: str) -> dict[str, dict[str, Floats]]:
    """Intervals of one evidence class: engine -> key -> quantiles in log, shrunk from fine to coarse.

    Keys are ``family/class``, and of measured cells ``…/kind`` of model and ``…/kind/load``.
    """
    pooled = _quantiles(held.residual)
    engines = np.array([run.engine.id for run in held.runs])
    kinds = np.array([model_kind(run.model) for run in held.runs])
    loads = np.array([load_class(run.clients) for run in held.runs])
    found: dict[str, dict[str, Floats]] = {"generic": {key: pooled}}
    for engine in np.unique(engines):
        own = engines == engine
        rows = found.setdefault(str(engine), {})
        if not key.endswith(f"/{SEVERITY[0]}"):
            # a handful of left-out models or cells: too few draws to tell kinds apart, and engines only in part
            rows[key] = _shrunk(held.residual, own, pooled, shrink=_SHRINK_UNSEEN)
            continue
        rows[key] = _shrunk(held.residual, own, pooled)
        for kind in np.unique(kinds):
            tail = _TAIL_LATENT if kind == "latent" else _TAIL
            of_kind = own & (kinds == kind)
            everywhere = _shrunk(held.residual, kinds == kind, rows[key], tail)
            rows[f"{key}/{kind}"] = _shrunk(held.residual, of_kind, everywhere, tail)
            for load in np.unique(loads):
                among = of_kind & (loads == load)
                rows[f"{key}/{kind}/{load}"] = _shrunk(held.residual, among, rows[f"{key}/{kind}"], tail)
    return found


def _shrunk(residual: Floats, among: Booleans, above: Floats, tail: float = _TAIL, shrink: float = _SHRINK) -> Floats:
    count = int(np.sum(among))
    return above + (_quantiles(residual[among], tail) - above) * (count / (count + shrink)) if count else above


def log_bounds(held: HeldOut, key: str, found: Mapping[str, Mapping[str, Floats]]) -> Floats:
    """The interval of every run by its finest group [rows, 4]."""
    rows = []
    for run in held.runs:
        of_engine = found.get(run.engine.id, found["generic"])
        kind = f"{key}/{model_kind(run.model)}"
        names = (f"{kind}/{load_class(run.clients)}", kind, key)
        rows.append(next(of_engine[name] for name in names if name in of_engine))
    return np.array(rows)


def accelerator_widths(held: HeldOut, bounds: Floats, least: float = 0.0) -> dict[str, dict[str, tuple[float, float]]]:
    """Engine -> accelerator -> what stretches log intervals so that each accelerator's runs lie inside as often.

    Errors differ by accelerator as well: the width that holds the wanted share of its runs, shrunk by how many it has.
    `least` 1 where an accelerator's runs are of too few models to say that it is safer than others.
    """
    strains = strain(held.residual, bounds)
    found: dict[str, dict[str, tuple[float, float]]] = {}
    engines = np.array([run.engine.id for run in held.runs])
    accelerators = np.array([run.accelerator.id for run in held.runs])
    for accelerator in np.unique(accelerators):
        everywhere = _stretch(strains[accelerators == accelerator], np.ones(2), least)
        found.setdefault("generic", {})[str(accelerator)] = everywhere
        for engine in np.unique(engines):
            own = (accelerators == accelerator) & (engines == engine)
            if np.any(own):
                found.setdefault(str(engine), {})[str(accelerator)] = _stretch(
                    strains[own], np.array(everywhere), least
                )
    return found


def strain(residual: Floats, bounds: Floats) -> Floats:
    """How far out in its interval a residual lies [rows, 2]: 1 at either end, 0 in the middle."""
    low, high = np.minimum(bounds[:, ::2], -_LEAST_WIDTH), np.maximum(bounds[:, 1::2], _LEAST_WIDTH)
    return np.where(residual < 0, residual / low, residual / high)


def _stretch(strains: Floats, above: Floats, least: float) -> tuple[float, float]:
    """The factor on log widths that holds the wanted share of each quantity, shrunk towards that of the group above."""
    own = np.quantile(strains, 1.0 - 2.0 * _TAIL, axis=0)
    weight = len(strains) / (len(strains) + _SHRINK_WIDTH)
    step, ttft = np.exp(np.log(above) + weight * (np.log(np.maximum(own, _LEAST_WIDTH)) - np.log(above)))
    return max(float(step), least), max(float(ttft), least)


def as_factors(log_quantiles: Floats, width: float = 1.0) -> IntervalFactors:
    """Factors on step times and TTFT; `width` stretches them in log."""
    low, high, ttft_low, ttft_high = np.exp(width * log_quantiles)
    return IntervalFactors(
        float(min(low, 1.0)), float(max(high, 1.0)), float(min(ttft_low, 1.0)), float(max(ttft_high, 1.0))
    )


@dataclass(frozen=True, slots=True)
class EngineIntervals:
    """What an engine profile ships: factors by class, widths by class and accelerator, growth by coverage."""

    factors: Mapping[str, IntervalFactors]
    widths: Mapping[str, tuple[float, float]]
    growth: Mapping[float, tuple[float, float]]


def engine_intervals(classes: Mapping[str, HeldOut]) -> dict[str, EngineIntervals]:
    """Intervals of every engine from the runs held out for each ``family/class``; pooled ones where it has none."""
    found: dict[str, dict[str, IntervalFactors]] = {}
    widths: dict[str, dict[str, tuple[float, float]]] = {}
    strains = []
    for key, held in classes.items():
        quantiles = class_intervals(held, key)
        bounds = log_bounds(held, key, quantiles)
        strains.append(strain(held.residual, bounds))
        for engine, rows in quantiles.items():
            found.setdefault(engine, {}).update(_with_unmeasured(rows))
        for engine, own in accelerator_widths(held, bounds, least_width(key)).items():
            widths.setdefault(engine, {}).update({f"{key}/{name}": value for name, value in own.items()})
    growth = interval_growth(np.concatenate(strains))
    return {
        engine: EngineIntervals(
            nested({**found["generic"], **rows}), {**widths["generic"], **widths.get(engine, {})}, growth
        )
        for engine, rows in found.items()
    }


def least_width(key: str) -> float:
    """How much safer than the rest of its class an accelerator may be called: runs left out are of few models."""
    return 0.0 if key == f"colocated/{SEVERITY[0]}" else _LEAST_STRETCH


def jackknifed_inside(held: HeldOut, key: str, groups: Sequence[object]) -> Booleans:
    """Whether each run lies in the interval that the runs of all other groups give its class, [rows, 2]."""
    inside = np.zeros(held.residual.shape, dtype=bool)
    of_row = np.array([str(name) for name in groups])
    for name in np.unique(of_row):
        test = of_row == name
        others, own = _part(held, ~test), _part(held, test)
        quantiles = class_intervals(others, key)
        widths = accelerator_widths(others, log_bounds(others, key, quantiles), least_width(key))
        stretch = [
            {**widths["generic"], **widths.get(run.engine.id, {})}.get(run.accelerator.id, (1.0, 1.0))
            for run in own.runs
        ]
        bounds = log_bounds(own, key, quantiles) * np.repeat(np.array(stretch), 2, axis=1)
        inside[test] = (bounds[:, ::2] <= own.residual) & (own.residual <= bounds[:, 1::2])
    return inside


def _part(held: HeldOut, chosen: Booleans) -> HeldOut:
    rows = np.flatnonzero(chosen)
    runs, seen = tuple(held.runs[row] for row in rows), tuple(held.evidence[row] for row in rows)
    return HeldOut(held.family, runs, held.predicted[rows], held.measured[rows], seen)


def interval_growth(strains: Floats) -> dict[float, tuple[float, float]]:
    """Coverage -> what log intervals must be stretched by to hold it, of how held-out errors spread [rows, 2]."""
    found = {}
    for coverage in _COVERAGES:
        share = 1.0 - 2.0 * _TAIL + (coverage - COVERAGE) * 2.0 * _TAIL / (1.0 - COVERAGE)
        step, ttft = np.quantile(strains, share, axis=0) / np.quantile(strains, 1.0 - 2.0 * _TAIL, axis=0)
        found[coverage] = (float(step), float(ttft))
    return found


def nested(rows: Mapping[str, IntervalFactors]) -> dict[str, IntervalFactors]:
    """The same, with no class narrower at any end than the one that knows more."""
    result = dict(rows)
    for family in ("colocated", "disaggregated"):
        names = [f"{family}/{name}" for name in SEVERITY if f"{family}/{name}" in result]
        for knows_more, knows_less in pairwise(names):
            more, less = result[knows_more], result[knows_less]
            result[knows_less] = IntervalFactors(
                min(more.step_low, less.step_low),
                max(more.step_high, less.step_high),
                min(more.ttft_low, less.ttft_low),
                max(more.ttft_high, less.ttft_high),
            )
    return result


def _with_unmeasured(rows: Mapping[str, Floats]) -> dict[str, IntervalFactors]:
    """Factors of one class; of a new model also those for an accelerator that was never measured."""
    factors = {name: as_factors(value) for name, value in rows.items()}
    for name, value in rows.items():
        if "/new-model" in name:
            for wider in ("new-accelerator", "guess"):
                factors[name.replace("new-model", wider)] = as_factors(value, _NEW_WIDTH)
    return factors
