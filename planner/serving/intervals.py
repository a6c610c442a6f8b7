"""How sure a prediction is: measured error of step times, carried through the queues (FIDELITY §9, HOUSE §7)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from planner.records import Deployment, IntervalFactors, Scenario
from planner.serving.outcome import Outcome

Interval = tuple[float, float | None]
SEVERITY = ("known-cell", "new-cell", "new-model", "new-accelerator", "guess")


def evidence_class(scenario: Scenario, deployment: Deployment) -> str:
    """What the engine's constants were fitted on, for the least known pool: one of SEVERITY.

    `guess` is an accelerator whose operator efficiencies are borrowed from a sibling.
    """
    return max((_pool_class(scenario, pool.accelerator) for pool in deployment.pools), key=SEVERITY.index)


def _pool_class(scenario: Scenario, accelerator_id: str) -> str:
    cells = scenario.engine.measured_cells
    if scenario.accelerator(accelerator_id).efficiency_like:
        return "guess"
    if (scenario.model.id, accelerator_id) in cells:
        return "known-cell"
    if accelerator_id not in {accelerator for _, accelerator in cells}:
        return "new-accelerator"
    return "new-cell" if scenario.model.id in {model for model, _ in cells} else "new-model"


def factors(scenario: Scenario, deployment: Deployment) -> IntervalFactors:
    """The factors on step times and on TTFT for this deployment's mode and evidence."""
    family = "disaggregated" if deployment.mode == "disaggregated" else "colocated"
    return scenario.engine.intervals[f"{family}/{evidence_class(scenario, deployment)}"]


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
