"""How safe a plan is: one thing changed at a time, and what the same plan does then."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from planner.errors import FieldError
from planner.records import Deployment, Plan
from planner.serving.outcome import Outcome
from planner.serving.predict import evaluate_at
from planner.serving.traffic import scenario_traffic
from planner.sizing import changes
from planner.sizing.cost import budgets_used, ranked_usd_per_hour
from planner.sizing.failures import Failure, failures
from planner.sizing.resilience import with_spares
from planner.sizing.resize import resized
from planner.sizing.variables import VARIABLES, Setting, Variable

PRECISION = 0.008  # of the value at which a plan breaks
BURSTY_SCV = 4.0
STEP_FACTORS = (0.85, 1.15)  # how well step times are known (MODELLING §12)

Kind = Literal["workload", "hardware", "plan", "price", "failure"]


@dataclass(frozen=True, slots=True)
class Case:
    """The plan, or a changed one, where one thing is otherwise.

    `slack_fraction` is that of the tightest target or budget, -inf where something is unbounded; `outcome` is None
    where the deployment cannot run at all, and `why` says so. `extra_usd_per_hour` is what the change costs: of a
    changed plan its price over the plan's; else that of the same kind of workers in the number that holds again, which
    `repaired` names; 0 where the plan holds, None where no number of them does or there is no price.
    """

    name: str
    change: str
    kind: Kind
    deployment: Deployment | None
    outcome: Outcome | None
    holds: bool
    slack_fraction: float
    tightest: str
    extra_usd_per_hour: float | None
    extra_accelerators: int | None
    variable: str = ""
    value: float = 1.0
    repaired: Deployment | None = None
    why: str = ""

    @property
    def utilization(self) -> float:
        """Of the busiest pool; inf where the deployment cannot run."""
        if self.outcome is None:
            return math.inf
        states = (self.outcome.prefill, self.outcome.decode)
        return max(state.utilization for state in states if state is not None)


@dataclass(frozen=True, slots=True)
class Flip:
    """The variable whose smallest change breaks the plan: at `value`, on the side of the case `name`."""

    name: str
    variable: str
    value: float
    tightest: str


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """A plan and what single changes do to it; `flip` None where none of them breaks it."""

    plan: Plan
    basis: str
    base: Case
    cases: tuple[Case, ...]
    flip: Flip | None
    best_buy: Case | None
    failures: tuple[Failure, ...]


@dataclass(frozen=True, slots=True)
class Sweep:
    """One variable over a range; `knee` is the value at which the plan breaks, None where it does nowhere inside."""

    plan: Plan
    basis: str
    base: Case
    variable: Variable
    points: tuple[Case, ...]
    knee: float | None
    knee_tightest: str


class _Study:
    """One plan under changed questions. Holds what every evaluation shares."""

    def __init__(self, plan: Plan) -> None:
        if plan.deployment is None:
            raise ValueError("plan has no deployment to change")
        self.plan, self.deployment, self.scenario = plan, plan.deployment, plan.scenario
        self.basis = plan.money.basis if plan.money is not None else ""
        self.usd = self._usd(self.deployment)
        self.base = self.changed_plan("plan", "as it is", self.deployment)

    def _usd(self, deployment: Deployment) -> float:
        return ranked_usd_per_hour(self.scenario, deployment, self.basis)

    def changed_question(self, name: str, variable: Variable, value: float, repair: bool = True) -> Case:
        """The plan where `variable` has another value; with `repair` also how many workers would hold again."""
        setting = variable.change(self.scenario, value)
        kind: Kind = "hardware" if variable.name in ("step time", "network") else "workload"
        case = self._judged(name, f"{variable.meaning}: {value:g}", kind, setting, self.deployment)
        case = replace(case, variable=variable.name, value=value)
        return self._with_repair(case, setting) if repair and not case.holds else case

    def changed_plan(self, name: str, change: str, deployment: Deployment | None, kind: Kind = "plan") -> Case:
        """Another number of workers for the same question; `extra_usd_per_hour` is the difference in price."""
        case = self._judged(name, change, kind, Setting(self.scenario), deployment)
        if deployment is None:
            return case
        usd = self._usd(deployment) - self.usd if self.basis else None
        return replace(
            case, extra_usd_per_hour=usd, extra_accelerators=deployment.accelerators - self.deployment.accelerators
        )

    def failure(self, name: str, change: str, deployment: Deployment | None, spare: Deployment) -> Case:
        """The plan with a worker lost for good; what costs extra is that worker as a spare, where it is missed."""
        case = self._judged(name, change, "failure", Setting(self.scenario), deployment)
        if case.holds:
            return case
        usd = self._usd(spare) - self.usd if self.basis else None
        more = spare.accelerators - self.deployment.accelerators
        return replace(case, extra_usd_per_hour=usd, extra_accelerators=more, repaired=spare)

    def _with_repair(self, case: Case, setting: Setting) -> Case:
        scenario, load = setting.scenario, scenario_traffic(setting.scenario)
        needed = resized(scenario, load, self.deployment, self.basis, setting.step_factor)
        if needed is None:
            return replace(case, extra_usd_per_hour=None, extra_accelerators=None)
        repaired = with_spares(scenario, needed, load)
        usd = self._usd(repaired) - self.usd if self.basis else None
        more = repaired.accelerators - self.deployment.accelerators
        return replace(case, repaired=repaired, extra_usd_per_hour=usd, extra_accelerators=more)

    def _judged(self, name: str, change: str, kind: Kind, setting: Setting, deployment: Deployment | None) -> Case:
        """One evaluation, with nothing said yet about what it costs."""
        outcome, why = None, "no worker is left"
        slack, tightest = -math.inf, ""
        if deployment is not None:
            outcome, why = self.outcome(setting, deployment)
        if outcome is not None and deployment is not None:
            slack, tightest = self._slack(setting, deployment, outcome)
        return Case(
            name=name,
            change=change,
            kind=kind,
            deployment=deployment,
            outcome=outcome,
            holds=slack >= 0.0,
            slack_fraction=slack,
            tightest=tightest,
            extra_usd_per_hour=0.0 if self.basis else None,
            extra_accelerators=0,
            why=why,
        )

    def outcome(self, setting: Setting, deployment: Deployment) -> tuple[Outcome | None, str]:
        """What the deployment does; None and the reason where it cannot run."""
        scenario = setting.scenario
        load = scenario_traffic(scenario)
        try:
            return evaluate_at(scenario, deployment, load, setting.step_factor), ""
        except FieldError as error:
            return None, error.message

    def _slack(self, setting: Setting, deployment: Deployment, outcome: Outcome) -> tuple[float, str]:
        """Slack of the tightest target or budget, and its name."""
        scenario = setting.scenario
        used = [
            (outcome.statistic(target.metric, target.statistic) / target.limit_s, f"{target.metric}.{target.statistic}")
            for target in scenario.targets
        ]
        used += budgets_used(scenario, deployment, self.basis, outcome.prefill_time_fraction, outcome.decode.mean_batch)
        most, name = max(used, default=(0.0, ""))
        return 1.0 - most, name

    def breaks_at(self, variable: Variable, bad: float) -> tuple[float, str]:
        """Between the value of a plan that holds and `bad`, where it stops: the last that holds, and what breaks."""
        good, tightest = variable.neutral, ""
        while abs(math.log(bad / good)) > PRECISION:
            middle = math.sqrt(good * bad)
            slack, name = self._slack_at(variable, middle)
            if slack >= 0.0:
                good = middle
            else:
                bad, tightest = middle, name
        return good, tightest

    def holds_at(self, variable: Variable, bad: float, distance: float) -> bool:
        """Whether the plan holds at that log of a ratio from the neutral value, towards `bad`."""
        towards = math.copysign(distance, math.log(bad / variable.neutral))
        return self._slack_at(variable, variable.neutral * math.exp(towards))[0] >= 0.0

    def _slack_at(self, variable: Variable, value: float) -> tuple[float, str]:
        setting = variable.change(self.scenario, value)
        outcome, _ = self.outcome(setting, self.deployment)
        return self._slack(setting, self.deployment, outcome) if outcome is not None else (-math.inf, "")


def sensitivity(plan: Plan) -> Sensitivity:
    """The default set of changes to a plan, the one that breaks it first, and the best thing to buy.

    Raises ValueError when the plan has no deployment.
    """
    study = _Study(plan)
    cases = (*_questions(study), *_prices(study), *_plans(study), *_failures(study))
    events = failures(study.scenario, study.deployment, study.basis) if study.scenario.reliability else ()
    return Sensitivity(plan, study.basis, study.base, cases, _flip(study, cases), _best_buy(study, cases), events)


def sweep(plan: Plan, variable: Variable, values: Sequence[float]) -> Sweep:
    """The plan at every value of one variable, and the value at which it breaks.

    Raises ValueError when the plan has no deployment.
    """
    study = _Study(plan)
    points = tuple(
        study.changed_question(f"{variable.name} {value:g}", variable, value, repair=False) for value in values
    )
    knee, tightest = None, ""
    bad = [point.value for point in points if not point.holds and point.value > variable.neutral]
    if study.base.holds and bad:
        knee, tightest = study.breaks_at(variable, min(bad))
    return Sweep(plan, study.basis, study.base, variable, points, knee, tightest)


ASKED = (
    ("load", "load -20%", 0.8),
    ("load", "load +20%", 1.2),
    ("input", "input x0.5", 0.5),
    ("input", "input x2", 2.0),
    ("output", "output x0.5", 0.5),
    ("output", "output x2", 2.0),
    ("long prompts", "long prompts x2", 2.0),
    ("long outputs", "long outputs x2", 2.0),
    ("hit ratio", "hit ratio x0.5", 0.5),
    ("hit ratio", "hit ratio x1.2", 1.2),
    ("acceptance", "acceptance x0.7", 0.7),
    ("acceptance", "acceptance x1.3", 1.3),
    ("step time", "step time -15%", STEP_FACTORS[0]),
    ("step time", "step time +15%", STEP_FACTORS[1]),
    ("network", "network x0.5", 0.5),
)


def _questions(study: _Study) -> Iterator[Case]:
    """Every variable that the question has, at the values that users worry about."""
    workload = study.scenario.workload
    present = {
        "long prompts": float(np.ptp(workload.lengths.input_tokens)) > 0.0,
        "long outputs": float(np.ptp(workload.lengths.output_tokens)) > 0.0,
        "hit ratio": workload.prefix_hit_fraction > 0.0 or workload.lengths.cached_tokens is not None,
        "acceptance": study.scenario.speculation is not None,
        "network": study.deployment.prefill is not None,
    }
    for name, label, value in ASKED:
        if present.get(name, True):
            yield study.changed_question(label, VARIABLES[name], value)
    label, scv = ("arrivals SCV 4", BURSTY_SCV) if workload.arrivals is None else ("arrivals Poisson", 1.0)
    yield study.changed_question(label, VARIABLES["arrival SCV"], scv)


def _prices(study: _Study) -> Iterator[Case]:
    """The same plan at the other prices that every one of its accelerators has."""
    if not study.basis:
        return
    used = [study.scenario.accelerator(pool.accelerator) for pool in study.deployment.pools]
    common = set.intersection(*(set(accelerator.usd_per_hour) for accelerator in used))
    for basis in sorted(common - {study.basis}):
        usd = ranked_usd_per_hour(study.scenario, study.deployment, basis)
        outcome = study.base.outcome
        if outcome is None:
            return
        used_budgets = budgets_used(
            study.scenario, study.deployment, basis, outcome.prefill_time_fraction, outcome.decode.mean_batch
        )
        most, name = max(used_budgets, default=(0.0, ""))
        slack, tightest = min((1.0 - most, name), (study.base.slack_fraction, study.base.tightest))
        yield replace(
            study.base,
            name=f"price {basis}",
            change=f"every accelerator at its price on the basis {basis}",
            kind="price",
            variable="price",
            value=usd / study.usd,
            holds=slack >= 0.0,
            slack_fraction=slack,
            tightest=tightest,
            extra_usd_per_hour=usd - study.usd,
        )


def _plans(study: _Study) -> Iterator[Case]:
    for role, shown in _roles(study):
        for more, text in ((-1, "fewer"), (1, "more")):
            changed = changes.with_workers(study.deployment, role, more)
            case = study.changed_plan(f"{shown} {more:+d} worker", f"one {shown} worker {text}", changed)
            yield replace(case, variable=f"{shown} workers", value=float(more))
    for factor, text in ((2.0, "twice"), (0.5, "half")):
        changed = changes.with_ratio(study.deployment, factor)
        if changed is not None:
            change = f"{text} the prefill per decode, in whole workers"
            yield replace(study.changed_plan(f"ratio x{factor:g}", change, changed), variable="ratio", value=factor)


def _failures(study: _Study) -> Iterator[Case]:
    for role, shown in _roles(study):
        spare = changes.with_workers(study.deployment, role, 1)
        if spare is not None:
            lost = changes.with_workers(study.deployment, role, -1)
            case = study.failure(f"failure {shown} worker", f"one {shown} worker lost and not back yet", lost, spare)
            yield replace(case, variable=f"failure of {shown}")


def _roles(study: _Study) -> tuple[tuple[str, str], ...]:
    decode = ("decode", study.deployment.decode_name)
    return (("prefill", "prefill"), decode) if study.deployment.prefill is not None else (decode,)


def _flip(study: _Study, cases: Sequence[Case]) -> Flip | None:
    """The variable that breaks the plan by the smallest change: the closest in ratio to its value as sized."""
    if not study.base.holds:
        return None
    nearest: Flip | None = None
    least = math.inf
    for case in cases:
        variable = VARIABLES.get(case.variable)
        if variable is None or case.holds or case.value == variable.neutral:
            continue
        farther = abs(math.log(case.value / variable.neutral)) > least + PRECISION
        if farther and study.holds_at(variable, case.value, least + PRECISION):
            continue
        value, tightest = study.breaks_at(variable, case.value)
        distance = abs(math.log(value / variable.neutral))
        if distance < least:
            nearest, least = Flip(case.name, variable.name, value, tightest or case.tightest), distance
    return nearest


def _best_buy(study: _Study, cases: Sequence[Case]) -> Case | None:
    """The added worker that buys the most slack per accelerator-hour paid; None where none buys any."""
    base = max(study.base.slack_fraction, -1e9)

    def worth(case: Case) -> float:
        price = case.extra_usd_per_hour if study.basis else case.extra_accelerators
        return (case.slack_fraction - base) / price if price else 0.0

    bought = [case for case in cases if case.kind == "plan" and (case.extra_accelerators or 0) > 0]
    best = max(bought, key=worth, default=None)
    return best if best is not None and worth(best) > 0.0 else None
