"""What may turn out otherwise than a plan took it to be: one name, one change of the question each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from planner.records import Scenario
from planner.sizing import changes


@dataclass(frozen=True, slots=True)
class Setting:
    """A question with one thing changed, and the factor on its step times."""

    scenario: Scenario
    step_factor: float = 1.0


@dataclass(frozen=True, slots=True)
class Variable:
    """Something about the question that may turn out otherwise. `neutral` is its value in the plan as sized."""

    name: str
    meaning: str
    change: Callable[[Scenario, float], Setting]
    neutral: float = 1.0
    low: float = 1e-3
    high: float = 1e3


VARIABLES = {
    variable.name: variable
    for variable in (
        Variable("load", "request rate, as a factor", lambda s, x: Setting(changes.with_load(s, x))),
        Variable("input", "prompt lengths, as a factor", lambda s, x: Setting(changes.with_lengths(s, x))),
        Variable("output", "output lengths, as a factor", lambda s, x: Setting(changes.with_lengths(s, 1.0, x))),
        Variable(
            "long prompts",
            "how often the longest tenth of the prompts comes, as a factor",
            lambda s, x: Setting(changes.with_long(s, "input", x)),
        ),
        Variable(
            "long outputs",
            "how often the longest tenth of the outputs comes, as a factor",
            lambda s, x: Setting(changes.with_long(s, "output", x)),
        ),
        Variable("step time", "time of every engine step, as a factor", Setting, low=0.1, high=10.0),
        Variable(
            "hit ratio",
            "prompt tokens found in a cache, as a factor",
            lambda s, x: Setting(changes.with_hit_ratio(s, x)),
        ),
        Variable(
            "acceptance",
            "drafted tokens that are kept, as a factor",
            lambda s, x: Setting(changes.with_acceptance(s, x)),
        ),
        Variable(
            "network", "rate of every network card, as a factor", lambda s, x: Setting(changes.with_network(s, x))
        ),
        Variable(
            "arrival SCV",
            "squared coefficient of variation of the gaps between requests; 1 is Poisson",
            lambda s, x: Setting(changes.with_arrival_scv(s, x)),
            low=0.05,
            high=100.0,
        ),
    )
}
