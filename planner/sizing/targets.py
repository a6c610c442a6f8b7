"""The targets of a scenario against one evaluation."""

from __future__ import annotations

from planner.records import Scenario
from planner.serving.outcome import Outcome


def violation(scenario: Scenario, outcome: Outcome) -> float:
    """Largest value / limit over the targets; at most 1 holds."""
    return max((outcome.statistic(t.metric, t.statistic) / t.limit_s for t in scenario.targets), default=0.0)
