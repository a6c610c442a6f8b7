"""From a scenario to a plan: search each mode, re-evaluate the best in full, say what won and why the rest lost."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from planner.engines.rules import why_not_cache, why_not_mode
from planner.errors import FieldError, raise_every
from planner.records import (
    Alternative,
    Deployment,
    Limit,
    Mode,
    Money,
    Note,
    Plan,
    Pool,
    Prediction,
    Resilience,
    Scenario,
)
from planner.serving.outcome import Outcome
from planner.serving.predict import evaluate_at, predict
from planner.serving.traffic import Traffic, scenario_traffic
from planner.serving.users import with_waiting_users
from planner.shapes.formats import has_experts
from planner.sizing import colocated, search
from planner.sizing.candidates import LARGEST_STRIDE, MAX_UTILIZATION, candidates_of, has_network
from planner.sizing.cost import money, price_basis, priced_tiers, ranked_usd_per_hour, tiers_usd_per_hour
from planner.sizing.explain import does_not_fit, why_it_lost
from planner.sizing.limits import LOST, limits
from planner.sizing.resilience import resilience, with_spares
from planner.sizing.reuse import resolved, sized, with_states
from planner.sizing.search import Candidate, Found
from planner.sizing.targets import violation
from planner.sizing.tco import price_flips, priced
from planner.sizing.tier_choice import chosen

TRIED = 24  # best candidates of a group that are re-evaluated before the nearest miss is taken
MOST_ALTERNATIVES = 4
NO_LOCKSTEP = "under a trace, shared pools are sized without attention data parallelism; `planner evaluate` prices it"
MODES: tuple[Mode, ...] = ("disaggregated", "colocated-chunked", "colocated-whole-prompt")


@dataclass(frozen=True, slots=True)
class Judged:
    """A candidate after full evaluation; `violation` is exact."""

    candidate: Candidate
    outcome: Outcome
    violation: float

    @property
    def feasible(self) -> bool:
        return self.violation <= 1.0

    @property
    def rank(self) -> tuple[float, ...]:
        """As Candidate.rank, on the exact violation."""
        price = (self.candidate.usd_per_hour, float(self.candidate.accelerators))
        return (
            (0.0, *price, self.violation) if self.feasible else (1.0, float(search.missed_by(self.violation)), *price)
        )


def size(scenario: Scenario) -> Plan:
    """What to buy: the cheapest deployment over every mode that meets all targets and budgets.

    Infeasible is a verdict, with the nearest miss as its plan. Raises FieldError when the engine runs no mode.

    Id: plan.search.  the cheapest deployment, over every mode and split, whose full evaluation keeps all limits and
        20 % headroom  (HOUSE §1; planner.sizing)
    """
    return sized(priced(scenario), size_as_is, evaluate_as_is)


def size_as_is(scenario: Scenario) -> Plan:
    """For the prompts, and what they find in caches, as the scenario has them."""
    found = survey(scenario)
    if not found.judged:
        return does_not_fit(found.scenario, found.load)
    if scenario.deployment is not None:
        ignored = Note("info", "the file's own `deployment:` was left aside; `planner evaluate` says what it does")
        found = replace(found, scenario=replace(found.scenario, notes=(*scenario.notes, ignored)))
    return found.plan(found.judged)


@dataclass(frozen=True, slots=True, eq=False)
class Survey:
    """The best deployment of every mode and accelerators, evaluated in full, best first."""

    scenario: Scenario
    load: Traffic
    basis: str
    judged: tuple[Judged, ...]
    candidates: int

    def plan(self, ranked: Sequence[Judged]) -> Plan:
        """The first of `ranked` at its exact size, with the others as its alternatives."""
        scenario, load, basis = self.scenario, self.load, self.basis
        best = _trimmed(scenario, load, ranked[0], basis) if ranked[0].feasible else ranked[0]
        deployment = with_spares(scenario, best.candidate.deployment, load)
        prediction = predict(scenario, deployment, load, best.outcome if scenario.availability is None else None)
        scenario = replace(scenario, notes=(*scenario.notes, *_lone_notes(scenario)))
        if has_experts(scenario.model) and scenario.workload.arrivals is not None:
            scenario = replace(scenario, notes=(*scenario.notes, Note("info", NO_LOCKSTEP)))
        spared: dict[str, int] = {
            name: pool.replicas - best.candidate.deployment.named_pools[name].replicas
            for name, pool in deployment.named_pools.items()
        }
        return _plan(
            scenario,
            deployment,
            prediction,
            basis,
            best.feasible,
            self.candidates,
            _alternatives(scenario, load, best, ranked[1:], basis),
            resilience(scenario, deployment, load, basis, spared),
        )


def survey(
    scenario: Scenario,
    budgets_per_octave: int = colocated.BUDGETS_PER_OCTAVE,
    of: Collection[Mode] = MODES,
) -> Survey:
    """Search every mode, or those `of`; token budgets of chunks are tried at `budgets_per_octave` per factor of two."""
    load = scenario_traffic(scenario)
    basis = price_basis((*scenario.prefill_accelerators, *scenario.decode_accelerators), scenario.costs.basis)
    _refuse_unpriced(scenario, basis)
    _refuse_unrunnable(scenario)
    modes = [mode for mode in MODES if mode in of and not why_not_mode(scenario.engine, mode)]
    results = [search.disaggregated(scenario, load, scenario.targets, basis)] if "disaggregated" in modes else []
    shared = [mode for mode in modes if mode != "disaggregated"]
    shapes = colocated.shapes_worth_sizing(scenario, load, scenario.targets, basis) if shared else []
    results += [
        colocated.search(scenario, load, mode, scenario.targets, basis, shapes, budgets_per_octave) for mode in shared
    ]
    tried = (
        _first_that_holds(scenario, load, _with_tiers(scenario, group, basis)) for group in _groups(results).values()
    )
    judged = sorted((item for item in tried if item is not None), key=lambda item: item.rank)
    return Survey(scenario, load, basis, tuple(judged), sum(result.judged for result in results))


def evaluate(scenario: Scenario) -> Plan:
    """What the scenario's own `deployment` does. Raises FieldError when it cannot run."""
    deployment = scenario.deployment
    if deployment is None:
        raise FieldError("deployment", "nothing to evaluate: give a deployment, or let `planner size` find one")
    scenario = priced(scenario)
    scenario = chosen(scenario, deployment)
    return with_states(evaluate_as_is(resolved(scenario, deployment), deployment), scenario)


def evaluate_as_is(scenario: Scenario, deployment: Deployment) -> Plan:
    """What a deployment does with the prompts, and what they find in caches, as the scenario has them."""
    used = [scenario.accelerator(pool.accelerator) for pool in deployment.pools]
    basis = price_basis(used, scenario.costs.basis)
    _refuse_unpriced(scenario, basis)
    load = scenario_traffic(scenario)
    prediction = with_waiting_users(predict(scenario, deployment, load), scenario, deployment)
    return _plan(scenario, deployment, prediction, basis, None, 1, (), resilience(scenario, deployment, load, basis))


def planned(plan: Plan, deployment: Deployment) -> Plan:
    """Another deployment for the question of a plan, in full; what prompts find in caches is what they find there."""
    scenario, load = plan.scenario, scenario_traffic(plan.scenario)
    basis = plan.money.basis if plan.money is not None else ""
    prediction = predict(scenario, deployment, load)
    lost = resilience(scenario, deployment, load, basis)
    return _plan(scenario, deployment, prediction, basis, None, plan.candidates, (), lost)


def _groups(results: Iterable[Found]) -> dict[tuple[str, ...], list[Candidate]]:
    """Candidates by mode and accelerators, so that each of those has its best."""
    groups: dict[tuple[str, ...], list[Candidate]] = {}
    for result in results:
        for candidate in result.candidates:
            deployment = candidate.deployment
            key = (deployment.mode, *(pool.accelerator for pool in deployment.pools))
            groups.setdefault(key, []).append(candidate)
    return groups


def _refuse_unpriced(scenario: Scenario, basis: str) -> None:
    """A budget in USD cannot be judged where accelerators rank for want of a common price."""
    reason = "no price basis covers every candidate, so USD cannot be judged; budget accelerators instead"
    in_usd = [budget.name for budget in scenario.budgets if not basis and budget.name.startswith("usd")]
    raise_every(FieldError(f"budgets.{name}", reason) for name in in_usd)


def _refuse_unrunnable(scenario: Scenario) -> None:
    """A model whose layers or cache the engine lacks on every candidate: no split of it would help."""
    every = (*scenario.prefill_accelerators, *scenario.decode_accelerators)
    reasons = [why_not_cache(scenario.engine, scenario.model, scenario.kv_dtype, one) for one in every]
    if reasons and all(reasons):
        raise FieldError("engine", reasons[0])


def _first_that_holds(scenario: Scenario, load: Traffic, candidates: Sequence[Candidate]) -> Judged | None:
    """The first candidate, in rank order, whose full evaluation meets everything; the nearest miss otherwise."""
    nearest: Judged | None = None
    for candidate in candidates[:TRIED]:
        if nearest is not None and (nearest.feasible or candidate.violation > 1.0):
            break
        judged = _judged(scenario, load, candidate)
        if judged is not None:
            nearest = judged if nearest is None else min(nearest, judged, key=lambda item: item.rank)
    return nearest


def _with_tiers(scenario: Scenario, candidates: Sequence[Candidate], basis: str) -> Sequence[Candidate]:
    """The candidates with what their tiers cost, in order of rank."""
    if not scenario.tiers or not basis:
        return candidates
    limits = [budget.limit for budget in scenario.budgets if budget.name == "usd_per_hour"]
    priced = []
    for candidate in candidates:
        usd = candidate.usd_per_hour + tiers_usd_per_hour(scenario, candidate.deployment)
        over = max((candidate.over_budget, *(usd / limit for limit in limits)))
        violation = max(candidate.violation, over)
        priced.append(replace(candidate, usd_per_hour=usd, over_budget=over, violation=violation))
    return sorted(priced, key=lambda candidate: candidate.rank)


def _judged(scenario: Scenario, load: Traffic, candidate: Candidate) -> Judged | None:
    """Full evaluation; None where it shows that the engine cannot start this one (its own budget needs more memory)."""
    try:
        outcome = evaluate_at(scenario, candidate.deployment, load)
    except FieldError:
        return None
    return Judged(candidate, outcome, max(candidate.over_budget, violation(scenario, outcome), _overload(outcome)))


def _trimmed(scenario: Scenario, load: Traffic, best: Judged, basis: str) -> Judged:
    """The same plan at the exact size of each pool: what a stride of pool sizes skipped, found by bisection."""
    for name in ("prefill", "decode"):
        pool: Pool | None = getattr(best.candidate.deployment, name)
        if pool is None:
            continue
        fails, holds = int(pool.replicas / LARGEST_STRIDE) - 1, pool.replicas
        trial = holds - 1  # most plans are exact already, and one evaluation shows it
        while holds - fails > 1 and trial >= 1:
            judged = _resized(scenario, load, best, name, trial, basis)
            if judged is not None and judged.feasible:
                best, holds = judged, trial
            else:
                fails = trial
            trial = (fails + holds) // 2
    return best


def _resized(scenario: Scenario, load: Traffic, best: Judged, name: str, replicas: int, basis: str) -> Judged | None:
    """The plan with another number of workers in one pool, its batch cap scaled to the same total."""
    deployment = best.candidate.deployment
    pool: Pool = getattr(deployment, name)
    per_rank = -(-pool.max_batch * pool.replicas // (replicas * pool.dp))
    sized = replace(pool, replicas=replicas, max_batch=per_rank * pool.dp)
    changed = replace(deployment, prefill=sized) if name == "prefill" else replace(deployment, decode=sized)
    bought = with_spares(scenario, changed, load)
    usd = ranked_usd_per_hour(scenario, bought, basis)
    candidate = replace(best.candidate, deployment=changed, usd_per_hour=usd, accelerators=bought.accelerators)
    return _judged(scenario, load, candidate)


def _overload(outcome: Outcome) -> float:
    """Above 1 where a pool has less headroom than the search leaves."""
    states = (outcome.prefill, outcome.decode)
    return max(state.utilization for state in states if state is not None) / (MAX_UTILIZATION * (1.0 + 1e-6))


def _plan(
    scenario: Scenario,
    deployment: Deployment,
    prediction: Prediction,
    basis: str,
    feasible: bool | None,
    candidates: int,
    alternatives: tuple[Alternative, ...],
    lost: Resilience | None,
) -> Plan:
    prediction = priced_tiers(scenario, deployment, prediction, basis)
    spent = money(scenario, deployment, prediction, basis)
    spent = replace(spent, flips=price_flips(scenario, deployment, alternatives, basis))
    ranked = limits(scenario, deployment, prediction, spent, lost)
    missed = tuple(limit for limit in ranked if limit.value > limit.limit and _is_promise(scenario, limit))
    holds = not missed if feasible is None else feasible
    return Plan(
        scenario=scenario,
        verdict="feasible" if holds else "infeasible",
        deployment=deployment,
        prediction=prediction,
        money=spent,
        limits=ranked,
        alternatives=alternatives,
        missed=missed,
        candidates=candidates,
        resilience=lost,
        notes=(*scenario.notes, *prediction.notes, *_price_notes(scenario, basis, spent)),
    )


def _lone_notes(scenario: Scenario) -> Iterator[Note]:
    """Accelerators that separate pools were not tried on, because no cache can leave them."""
    lone = [item.id for item in candidates_of(scenario, "colocated") if not has_network(scenario, item)]
    if lone:
        names = f"{', '.join(lone)} {'names' if len(lone) == 1 else 'name'} no NIC"
        text = f"{names}: separate pools were not tried there; give hardware.network, e.g. 100 Gb/s"
        yield Note("info", text)


def _is_promise(scenario: Scenario, limit: Limit) -> bool:
    """Targets and budgets are promises; loads and memory are physics that the numbers already contain."""
    promised = {f"{target.metric}.{target.statistic}" for target in scenario.targets}
    return limit.name in promised | {budget.name for budget in scenario.budgets} or limit.name.startswith(LOST)


def _price_notes(scenario: Scenario, basis: str, spent: Money) -> Iterator[Note]:
    if basis and not spent.usd_per_mtok:
        yield Note("caution", "tokens have no price: the deployment does not carry the load")
    if not basis:
        every = (*scenario.prefill_accelerators, *scenario.decode_accelerators)
        unpriced = ", ".join(dict.fromkeys(a.id for a in every if not a.usd_per_hour)) or "their bases differ"
        yield Note(
            "info",
            f"ranked by accelerators: no price basis covers every candidate ({unpriced})",
        )


def _alternatives(
    scenario: Scenario, load: Traffic, best: Judged, others: Sequence[Judged], basis: str
) -> tuple[Alternative, ...]:
    """The best of each other mode first, then of other accelerators."""
    seen = {best.candidate.deployment.mode}
    first: list[Judged] = []
    rest: list[Judged] = []
    for item in others:
        mode = item.candidate.deployment.mode
        (rest if mode in seen else first).append(item)
        seen.add(mode)
    made = []
    for item in (first + rest)[:MOST_ALTERNATIVES]:
        deployment = with_spares(scenario, item.candidate.deployment, load)
        outcome = item.outcome if scenario.availability is None else None
        theirs = predict(scenario, deployment, load, outcome, with_intervals=False)
        made.append(
            Alternative(
                deployment=deployment,
                usd_per_hour=item.candidate.usd_per_hour if basis else None,
                prediction=theirs,
                feasible=item.feasible,
                why_it_lost=why_it_lost(scenario, best.candidate, item.candidate, theirs, item.feasible, basis),
            )
        )
    return tuple(made)
