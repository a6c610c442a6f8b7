"""Engine constants moved by a user's own runs: few constants, physical priors kept, one run shrinks most of the way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from planner.calibration.fit import fit_data, log_answer, log_constants, minimize
from planner.calibration.levels import PRIORS, WAITING
from planner.engines.constants import Family, constants_for
from planner.errors import FieldError
from planner.records import ClosedLoop, Floats, Measurement
from planner.serving.closed_loop import solve
from planner.serving.stacked import CONSTANTS, as_row

LEAST_GAIN = 0.1  # share of its prior doubt that runs must take from a constant before it is moved
_DOUBT = 2.0  # a user's own setting may lie further out than one group of the measured runs from another


@dataclass(frozen=True, slots=True)
class Moved:
    """One constant: its value before and after, and the share of its doubt that the runs took away."""

    name: str
    before: float
    after: float
    gain: float


@dataclass(frozen=True, slots=True, eq=False)
class Calibration:
    """What a user's runs say about one engine on one deployment."""

    family: Family
    moved: tuple[Moved, ...]
    deviation: dict[str, float]  # log, of the group that stands for this deployment, added to what is known of it
    before: Floats  # [runs, 2] predicted / measured TPOT, TTFT
    after: Floats


def calibrate(runs: Sequence[ClosedLoop], measured: Sequence[Measurement]) -> Calibration:
    """Fit the constants that the runs can tell apart; the others keep their values.

    The runs share model, weights, engine and accelerator. Priors are those of the finest level of the fit, of waits
    those of engines, so one run moves constants by a part of its error and many runs by all of it.

    Raises
    ------
    FieldError
        The runs hold no information about any constant.
    """
    first = runs[0]
    family: Family = "disaggregated" if first.deployment.prefill is not None else "colocated"
    offset = log_constants(runs, {first.engine.id: first.engine}, family)
    data = fit_data(runs, [(one.tpot_s, one.ttft_s) for one in measured], offset)
    group = np.zeros((len(runs), 1), dtype=np.intp)
    use = np.ones(len(runs))
    sd = np.array([[_DOUBT * _doubt(name) for name in CONSTANTS]])
    every = minimize(data, use, group, sd)
    gain = 1.0 - every.posterior_sd(sd)[0] / np.where(sd[0] > 0, sd[0], 1.0)
    gain = np.where(sd[0] > 0, gain, 0.0)
    chosen = gain >= LEAST_GAIN
    if not np.any(chosen):
        names = ", ".join(CONSTANTS[number] for number in np.argsort(-gain)[:3])
        raise FieldError(
            "", f"the runs identify no constant (nearest: {names}); give runs at other loads or other lengths"
        )
    beta = minimize(data, use, group, np.where(chosen, sd, 0.0)).beta[0]
    before = np.exp(log_answer(solve(data.loop, np.exp(offset))) - data.measured)
    after = np.exp(log_answer(solve(data.loop, np.exp(offset + beta))) - data.measured)
    moved = tuple(
        Moved(CONSTANTS[i], float(np.exp(offset[0, i])), float(np.exp(offset[0, i] + beta[i])), float(gain[i]))
        for i in np.flatnonzero(chosen)
    )
    return Calibration(family, moved, _deviation(first, family, offset[0] + beta), before, after)


def _doubt(name: str) -> float:
    """A step is the same physics everywhere; waits hold the user's own front end, as far off as another engine's."""
    return PRIORS[name].of_engine if name in WAITING else PRIORS[name].finer


def group_of(run: ClosedLoop, family: Family) -> str:
    """Name of the group of deviations that stands for this deployment."""
    return f"{family}/cell/{run.model.id}/{run.weights}/{run.accelerator.id}"


def _deviation(run: ClosedLoop, family: Family, wanted: Floats) -> dict[str, float]:
    """What the group must add so that the engine, once it counts this cell as measured, has the constants `wanted`."""
    cells = run.engine.measured_cells | {(run.model.id, run.accelerator.id)}
    key = group_of(run, family)
    others = {name: value for name, value in run.engine.deviations.items() if name != key}
    known = replace(run.engine, measured_cells=cells, deviations={**others, "": {}})  # never empty
    reached = np.log(
        as_row(
            constants_for(
                known,
                family,
                model=run.model.id,
                accelerator=run.accelerator.id,
                weights=run.weights,
                dp=run.deployment.decode.dp,
            )
        )
    )
    return {name: float(value) for name, value in zip(CONSTANTS, wanted - reached, strict=True) if abs(value) > 5e-5}
