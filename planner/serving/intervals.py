"""How sure a prediction is: measured error of step times, carried through the queues (FIDELITY §9, HOUSE §7)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

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
    return factors_for(scenario.engine, family, evidence_class(scenario, deployment), model_kind(scenario.model))


def factors_for(engine: EngineProfile, family: str, evidence_name: str, kind: str, load: str = "") -> IntervalFactors:
    """The factors of the finest measured group: by kind of model and load where the engine has them."""
    key = f"{family}/{evidence_name}"
    for name in (f"{key}/{kind}/{load}", f"{key}/{kind}"):
        if name in engine.intervals:
            return engine.intervals[name]
    return engine.intervals[key]


def intervals(
    middle: Outcome, low: Outcome, high: Outcome, by: IntervalFactors
) -> Mapping[str, Mapping[str, Interval]]:
    """Low and high of every statistic. High is None where the slow end saturates.

    ITL and TPOT are the plan re-evaluated at fast and slow step times. TTFT and end-to-end take the wider of that
    and the measured error of TTFT itself, which holds what no step time explains (front ends, routing).
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
