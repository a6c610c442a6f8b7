"""How far measured runs lie from predictions made without them, and the intervals that follow (FIDELITY §9)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from planner.calibration.fit import Booleans, Data, EngineFit, fit_engines, log_answer, log_constants
from planner.engines.constants import Family
from planner.records import ClosedLoop, EngineProfile, Floats, IntervalFactors
from planner.serving.closed_loop import solve
from planner.serving.intervals import SEVERITY, evidence, load_class, model_kind

FOLDS = 5
_SEED = 7
# Share of held-out residuals left out at each end. Jackknifed coverage of .1 runs 3 points short, and more for latent
# attention, whose runs hide switches that come and go by whole curves.
_TAIL = 0.08
_TAIL_LATENT = 0.06
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
    seen = [""] * len(data.runs)
    of_row = np.array([str(name) for name in groups])
    for name in np.unique(of_row[use > 0]):
        test = of_row == name
        if family == "colocated":
            fitted = fit_engines(data, use * ~test)
        elif other is not None and use_other is not None:
            fitted = fit_engines(other, use_other, data, use * ~test)
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


def _towards(own: Floats, above: Floats, runs: int) -> Floats:
    return above + (own - above) * (runs / (runs + _SHRINK))


def class_intervals(held: HeldOut, key: str, by_engine: bool) -> dict[str, dict[str, Floats]]:
    """Intervals of one evidence class: engine -> key -> quantiles in log, shrunk from fine to coarse.

    Keys are ``family/class``, ``…/kind`` of model and ``…/kind/load``. `by_engine`: engines differ.
    """
    pooled = _quantiles(held.residual)
    engines = np.array([run.engine.id for run in held.runs])
    kinds = np.array([model_kind(run.model) for run in held.runs])
    loads = np.array([load_class(run.clients) for run in held.runs])
    found: dict[str, dict[str, Floats]] = {"generic": {key: pooled}}
    for engine in np.unique(engines):
        own = engines == engine if by_engine else np.ones(len(engines), dtype=bool)
        rows = found.setdefault(str(engine), {})
        rows[key] = _shrunk(held.residual, own, pooled)
        if not by_engine:
            continue  # a handful of left-out models or cells: too few draws to tell kinds apart
        for kind in np.unique(kinds):
            tail = _TAIL_LATENT if kind == "latent" else _TAIL
            of_kind = own & (kinds == kind)
            everywhere = _shrunk(held.residual, kinds == kind, rows[key], tail)
            rows[f"{key}/{kind}"] = _shrunk(held.residual, of_kind, everywhere, tail)
            for load in np.unique(loads):
                among = of_kind & (loads == load)
                rows[f"{key}/{kind}/{load}"] = _shrunk(held.residual, among, rows[f"{key}/{kind}"], tail)
    return found


def _shrunk(residual: Floats, among: Booleans, above: Floats, tail: float = _TAIL) -> Floats:
    count = int(np.sum(among))
    return _towards(_quantiles(residual[among], tail), above, count) if count else above


def as_factors(log_quantiles: Floats, width: float = 1.0) -> IntervalFactors:
    """Factors on step times and TTFT; `width` stretches them in log."""
    low, high, ttft_low, ttft_high = np.exp(width * log_quantiles)
    return IntervalFactors(
        float(min(low, 1.0)), float(max(high, 1.0)), float(min(ttft_low, 1.0)), float(max(ttft_high, 1.0))
    )


def engine_intervals(classes: Mapping[str, HeldOut]) -> dict[str, dict[str, IntervalFactors]]:
    """Intervals of every engine from the runs held out for each ``family/class``; pooled ones where it has none."""
    found: dict[str, dict[str, IntervalFactors]] = {}
    pooled: dict[str, IntervalFactors] = {}
    for key, held in classes.items():
        for engine, rows in class_intervals(held, key, by_engine=key.endswith("/known-cell")).items():
            for name, value in _with_unmeasured(rows).items():
                found.setdefault(engine, {})[name] = value
                if engine == "generic":
                    pooled[name] = value
    return {engine: nested({**pooled, **rows}) for engine, rows in found.items()}


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
