"""How sure a prediction is: measured error of step times, carried through the queues (FIDELITY §9, HOUSE §7)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from statistics import NormalDist

import numpy as np

from planner.errors import FieldError
from planner.records import (
    Accelerator,
    Deployment,
    EngineProfile,
    IntervalFactors,
    LatentAttention,
    ModelShape,
    Scenario,
)
from planner.serving.outcome import Outcome
from planner.shapes.formats import has_experts

Interval = tuple[float, float | None]
SEVERITY = ("known-cell", "new-cell", "new-model", "new-accelerator", "guess")


def evidence_class(scenario: Scenario, deployment: Deployment) -> str:
    """What the engine's constants were fitted on, for the least known pool: one of SEVERITY.

    `guess` is an accelerator whose operator efficiencies are borrowed from a sibling.
    """
    accelerators = (scenario.accelerator(pool.accelerator) for pool in deployment.pools)
    return max((evidence(scenario.engine, scenario.model.id, one) for one in accelerators), key=SEVERITY.index)


def evidence(engine: EngineProfile, model_id: str, accelerator: Accelerator) -> str:
    """What the engine's constants were fitted on, for one model on one accelerator: one of SEVERITY."""
    cells = engine.measured_cells
    if accelerator.efficiency_like:
        return "guess"
    if (model_id, accelerator.id) in cells:
        return "known-cell"
    known = model_id in {model for model, _ in cells}
    if accelerator.id not in {measured for _, measured in cells}:
        return "new-accelerator"
    return "new-cell" if known else "new-model"


def model_kind(shape: ModelShape) -> str:
    """Kind of model by which errors differ most: latent attention, else experts, else dense."""
    if any(isinstance(kind.mixer, LatentAttention) for kind in shape.layers):
        return "latent"
    return "experts" if has_experts(shape) else "dense"


def load_class(clients: float) -> str:
    """Requests in flight on one deployment, in the classes by which errors differ."""
    return "low" if clients <= 8 else "middle" if clients <= 64 else "high"


def factors(scenario: Scenario, deployment: Deployment) -> IntervalFactors:
    """The factors on step times and on TTFT for this deployment's mode, evidence and kind of model."""
    family = "disaggregated" if deployment.mode == "disaggregated" else "colocated"
    known, kind = evidence_class(scenario, deployment), model_kind(scenario.model)
    return factors_for(scenario.engine, family, known, kind, deployment.decode.accelerator)


def factors_for(
    engine: EngineProfile, family: str, evidence_name: str, kind: str, accelerator_id: str, load: str = ""
) -> IntervalFactors:
    """The factors of a class, stretched by what the accelerator, the kind of model and the load need in it."""
    key = f"{family}/{evidence_name}"
    found = engine.intervals[key]
    for group in (accelerator_id, kind, load):
        widths = engine.interval_widths.get(f"{key}/{group}")
        found = stretched(found, widths) if widths else found
    return found


def stretched(by: IntervalFactors, widths: IntervalFactors) -> IntervalFactors:
    """Intervals made wider or narrower in log, each end by its own factor."""
    return IntervalFactors(
        by.step_low**widths.step_low,
        by.step_high**widths.step_high,
        by.ttft_low**widths.ttft_low,
        by.ttft_high**widths.ttft_high,
    )


LEAST_COVERAGE, MOST_COVERAGE = 0.5, 0.99


def at_coverage(engine: EngineProfile, coverage: float) -> EngineProfile:
    """The engine with intervals that hold another share of measured runs, by how held-out errors spread.

    Between the shares that the profile lists, log widths go linearly with the normal quantile of the share. A profile
    that lists none is taken to err normally.

    Raises
    ------
    FieldError
        `coverage` lies outside [0.5, 0.99]: measured runs do not tell.
    """
    if not LEAST_COVERAGE <= coverage <= MOST_COVERAGE:
        raise FieldError("coverage", f"coverage {coverage:g} is not between {LEAST_COVERAGE} and {MOST_COVERAGE}")
    listed = {**engine.interval_growth, engine.interval_coverage: (1.0, 1.0)}
    shares = sorted(listed)
    here = _normal_width(coverage)
    if len(shares) == 1:
        growth = [here / _normal_width(engine.interval_coverage)] * 2
    else:
        at = [_normal_width(share) for share in shares]
        growth = [float(np.interp(here, at, [listed[share][side] for share in shares])) for side in range(2)]
    widths = IntervalFactors(growth[0], growth[0], growth[1], growth[1])
    return replace(
        engine,
        interval_coverage=coverage,
        intervals={name: stretched(by, widths) for name, by in engine.intervals.items()},
        interval_growth={},
    )


def _normal_width(coverage: float) -> float:
    """Half the width of the interval that holds `coverage` of a standard normal law."""
    return NormalDist().inv_cdf(0.5 + coverage / 2.0)


def intervals(
    middle: Outcome, low: Outcome, high: Outcome, by: IntervalFactors
) -> Mapping[str, Mapping[str, Interval]]:
    """Low and high of every statistic. High is None where the slow end saturates.

    ITL and TPOT are the plan re-evaluated at fast and slow step times. TTFT and end-to-end take the wider of that
    and the measured error of TTFT itself, which holds what no step time explains (front ends, routing).

    Id: interval.  the same plan at the fast and the slow end of its step times, by the error of measured runs
        (FIDELITY §9)
    """
    return {
        "ttft_s": {
            k: _span(low.ttft_s[k], v, high.ttft_s[k], by.ttft_low, by.ttft_high) for k, v in middle.ttft_s.items()
        },
        "itl_s": {k: _span(low.itl_s[k], v, high.itl_s[k]) for k, v in middle.itl_s.items()},
        "tpot_s": {k: _span(low.tpot_s[k], v, high.tpot_s[k]) for k, v in middle.tpot_s.items()},
        "e2e_s": {k: _span(low.e2e_s[k], v, high.e2e_s[k]) for k, v in middle.e2e_s.items()},
    }


def _span(low: float, middle: float, high: float, factor_low: float = 1.0, factor_high: float = 1.0) -> Interval:
    bottom = min(low, middle * factor_low)
    top = max(high, middle * factor_high)
    return (float(bottom), float(top) if np.isfinite(top) else None)
