"""How far measured runs lie from predictions made without them (FIDELITY §5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from planner.calibration.fit import Booleans, Data, EngineFit, fit_colocated, fit_engines, log_answer, log_constants
from planner.engines.constants import Family
from planner.records import ClosedLoop, EngineProfile, Floats
from planner.serving.closed_loop import solve
from planner.serving.intervals import evidence

FOLDS = 5
_SEED = 7


@dataclass(frozen=True, slots=True, eq=False)
class HeldOut:
    """Predictions of runs that the constants never saw."""

    family: Family
    runs: tuple[ClosedLoop, ...]
    predicted: Floats  # [rows, 2] ln TPOT, ln TTFT
    measured: Floats
    evidence: tuple[str, ...]
    left_out: tuple[str, ...]  # the group that each run was left out with

    @property
    def residual(self) -> Floats:
        """ln(measured / predicted), [rows, 2]."""
        return self.measured - self.predicted

    def part(self, chosen: Booleans) -> HeldOut:
        """The runs where `chosen` is true."""
        rows = np.flatnonzero(chosen)
        runs = tuple(self.runs[row] for row in rows)
        seen, groups = (tuple(names[row] for row in rows) for names in (self.evidence, self.left_out))
        return HeldOut(self.family, runs, self.predicted[rows], self.measured[rows], seen, groups)


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
    held = HeldOut(family, data.runs, predicted, data.measured, tuple(seen), tuple(of_row))
    return held.part((use > 0) & np.isfinite(data.measured).all(axis=1))
