"""Where the family that leads stops leading: a map says about where, and there the change is applied."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf

import numpy as np

from planner.records import Accelerator, Deployment, Floats, Scenario
from planner.serving.reuse import knows_reuse
from planner.serving.traffic import scenario_traffic
from planner.sizing import changes, search
from planner.sizing.cost import ranked_usd_per_hour
from planner.sizing.crossover.causes import lead_log2
from planner.sizing.crossover.evaluate import evaluate_cells
from planner.sizing.crossover.map import RATIO_ERROR_FACTOR, cells_over
from planner.sizing.crossover.pools import Bought
from planner.sizing.resilience import with_spares
from planner.sizing.resize import resized

REACH = 16.0  # a quantity is followed so many times up and down
POINTS = 8  # on each side
BESIDE = 1.1  # an end that was applied: the winner leads so many times before it, and no longer so many times beyond
MOST_SHOWN = 3  # ends, the nearest ones
MOST_SIZED, MOST_OF_ONE = 8, 4  # changed scenarios that are sized, for all ends together and for one
MOST_CONFIRMED = 1  # ends that are searched in full

FamilyUsd = Callable[[Scenario, bool], float]  # of one pool, or of two (True), at its best


@dataclass(frozen=True, slots=True)
class End:
    """Where the winner stops: `then` is the family that leads beyond, or nothing."""

    quantity: str
    unit: str
    now: float
    at: float
    then: str
    confirmed: bool  # whether everything was searched on both sides of it; else some plans were sized, or a map says so

    @property
    def distance(self) -> float:
        """Factor between now and there."""
        return max(self.at / self.now, self.now / self.at)


def ends(
    scenario: Scenario, basis: str, lead: float, plans: Sequence[Deployment], in_full: FamilyUsd
) -> tuple[End, ...]:
    """Where the family that leads now stops leading, nearest first; at most one end up and one down per quantity.

    `lead` is log2 of one pool's cost over two pools', now; `plans` are the best of either family. A map guesses; there
    these plans and the map's own are sized anew, and the nearest ends are confirmed by `in_full`. Ends that this does
    not find are left out. Raises FieldError as `evaluate_cells`.
    """
    guesses = _guesses(scenario, basis, lead)
    if not _can_apply(scenario):
        return tuple(guess for guess, _ in guesses[:MOST_SHOWN])
    found: list[End] = []
    left, to_confirm = MOST_SIZED, MOST_CONFIRMED
    for guess, near in guesses:
        if len(found) == MOST_SHOWN or left < 2:
            break
        applied = _Applied(scenario, basis, lead > 0.0, (*plans, *near), guess, min(left, MOST_OF_ONE))
        end = applied.end()
        left -= applied.sized
        if end is not None and to_confirm:
            to_confirm -= 1
            end = applied.confirmed(end, in_full)
        if end is not None:
            found.append(end)
    return tuple(sorted(found, key=lambda end: (end.distance, end.quantity)))


def _present(scenario: Scenario) -> dict[str, tuple[float, str]]:
    """Every quantity that may move, its value now and its unit."""
    workload, lengths = scenario.workload, scenario.workload.lengths
    found = {
        "rate": (workload.requests_per_s * workload.peak_factor, "requests/s"),
        "input_tokens": (float(lengths.weights @ lengths.input_tokens), "tokens"),
        "output_tokens": (float(lengths.weights @ lengths.output_tokens), "tokens"),
    }
    for metric in ("itl", "ttft"):
        limits = [target.limit_s for target in scenario.targets if target.metric == metric]
        if limits:
            found[metric] = (max(limits), "s")
    if scenario.network_bytes_per_s is not None:
        found["network"] = (scenario.network_bytes_per_s, "bytes/s")
    prefill = {one.id for one in scenario.prefill_accelerators}
    decode = {one.id for one in scenario.decode_accelerators}
    if prefill != decode and not prefill & decode:
        found["price_ratio"] = (1.0, "")
    return found


# ------------------------------------------------------------------------------------------------------------- guesses


def _guesses(scenario: Scenario, basis: str, lead: float) -> list[tuple[End, list[Deployment]]]:
    """Ends by the arrays over cells, nearest first, with the plans bought on both sides."""
    present = _present(scenario)
    steps = np.geomspace(1.0 / REACH, REACH, 2 * POINTS + 1)
    count = steps.size
    values = {name: np.full(count * len(present), now) for name, (now, _) in present.items()}
    for index, (name, (now, _)) in enumerate(present.items()):
        values[name][index * count : (index + 1) * count] = now * steps
    values["output_tokens"] = np.maximum(values["output_tokens"], 2.0)
    bought = evaluate_cells(cells_over(scenario, values), basis)
    found = []
    for index, (row, (name, (now, unit))) in enumerate(
        zip(lead_log2(bought).reshape(-1, count), present.items(), strict=True)
    ):
        off = lead - float(row[POINTS])
        if not (abs(off) <= np.log2(RATIO_ERROR_FACTOR) or _can_apply(scenario)):
            continue  # a map that is so far off now says nothing about elsewhere
        anchored = row + (off if np.isfinite(off) else 0.0)
        for side in (1, -1):
            change = _first_change(anchored[POINTS::side] * np.sign(lead), now * steps[POINTS::side])
            if change is not None:
                at, place, rival = change
                then = "nothing" if not rival else "colocated" if lead > 0.0 else "disaggregated"
                cell = index * count + POINTS + side * place
                end = End(name, unit, now, at, then, confirmed=False)
                found.append((end, [*_plans(bought, cell - side), *_plans(bought, cell)]))
    return sorted(found, key=lambda one: (one[0].distance, one[0].quantity))


def _plans(bought: Mapping[str, Bought], cell: int) -> Iterator[Deployment]:
    """What every architecture bought in a cell."""
    return (plan for one in bought.values() if (plan := one.deployments[cell]) is not None)


def _first_change(lead: Floats, at: Floats) -> tuple[float, int, bool] | None:
    """Where a lead that starts above 0 is lost, the point beyond, and whether a rival is left there."""
    for index in range(1, lead.size):
        if not lead[index] > 0.0:
            before, after = float(lead[index - 1]), float(lead[index])
            if np.isfinite(before) and np.isfinite(after) and before > after:
                share = before / (before - after)
                return float(at[index - 1] * (at[index] / at[index - 1]) ** share), index, True
            return float((at[index - 1] * at[index]) ** 0.5), index, not np.isnan(after)
    return None


# ------------------------------------------------------------------------------------------------------------- applied


def _can_apply(scenario: Scenario) -> bool:
    """Where hits in caches follow from the plan, there is no plan without them."""
    return not knows_reuse(scenario.workload) and scenario.workload.lengths.cached_tokens is None


@dataclass(slots=True)
class _Applied:
    """One quantity changed, and both families sized for that; `sized` counts how often, `most` at most."""

    scenario: Scenario
    basis: str
    apart_leads: bool
    plans: tuple[Deployment, ...]
    guess: End
    most: int
    sized: int = 0
    known: dict[float, tuple[float, float]] = field(default_factory=dict)

    @property
    def _by(self) -> float:
        return BESIDE if self.guess.at > self.guess.now else 1.0 / BESIDE

    def end(self) -> End | None:
        """Values `BESIDE` before and beyond the guess are tried, then others, until the lead is lost between two."""
        guess, by = self.guess, self._by
        at = guess.at
        before, beyond = self._usd(at / by), self._usd(at * by)
        while self.sized < self.most and self._leads(beyond):
            at *= by**2
            before, beyond = beyond, self._usd(at * by)
        while self.sized < self.most and not self._leads(before) and (at / by - guess.now) * (by - 1.0) > 0.0:
            at /= by**2
            before, beyond = self._usd(at / by), before
        if not self._leads(before) or self._leads(beyond):
            return None
        rival = "colocated" if self.apart_leads else "disaggregated"
        return replace(guess, at=at, then="nothing" if min(beyond) == inf else rival)

    def confirmed(self, end: End, in_full: FamilyUsd) -> End | None:
        """The end as a search of everything finds it too; None where it does not."""
        near, far = end.at / self._by, end.at * self._by
        usd = list(self._usd(near))
        usd[not self.apart_leads] = in_full(self._changed(near), not self.apart_leads)
        if not self._leads(usd):
            return None
        usd = list(self._usd(far))
        for apart in (False, True) if end.then == "nothing" else (self.apart_leads,):
            usd[apart] = in_full(self._changed(far), apart)
        if self._leads(usd) or (min(usd) == inf) != (end.then == "nothing"):
            return None
        return replace(end, confirmed=True)

    def _leads(self, usd: Sequence[float]) -> bool:
        """Whether the family that leads now is the cheaper one; where both cost the same it does not."""
        ours, theirs = usd[self.apart_leads], usd[not self.apart_leads]
        return ours < theirs * (1.0 - 1e-9)

    def _usd(self, value: float) -> tuple[float, float]:
        """What one pool of the shapes at hand costs at a value, and two pools; sized once."""
        if value in self.known:
            return self.known[value]
        self.sized += 1
        scenario = self._changed(value)
        load = scenario_traffic(scenario)
        least = [inf, inf]  # of one pool, of two
        for plan in dict.fromkeys(map(_shape, self.plans)):
            sized = resized(scenario, load, plan, self.basis)
            if sized is not None:
                usd = ranked_usd_per_hour(scenario, with_spares(scenario, sized, load), self.basis)
                least[plan.prefill is not None] = min(least[plan.prefill is not None], usd)
        if not (self.apart_leads and least[1] < least[0] * (1.0 - 1e-9)):
            pairs = search.disaggregated(scenario, load, scenario.targets, self.basis).candidates
            least[1] = min((one.usd_per_hour for one in pairs if one.violation <= 1.0), default=inf)
        self.known[value] = least[0], least[1]
        return self.known[value]

    def _changed(self, value: float) -> Scenario:
        return _changed(self.scenario, self.guess.quantity, value / self.guess.now)


def _shape(plan: Deployment) -> Deployment:
    """The plan without its numbers, which are found anew."""
    prefill = replace(plan.prefill, replicas=1, max_batch=0) if plan.prefill is not None else None
    return replace(plan, prefill=prefill, decode=replace(plan.decode, replicas=1, max_batch=0))


def _changed(scenario: Scenario, quantity: str, factor: float) -> Scenario:
    """The scenario with one quantity of `_present` times a factor."""
    if quantity == "rate":
        return changes.with_load(scenario, factor)
    if quantity in ("input_tokens", "output_tokens"):
        return changes.with_lengths(scenario, **{quantity.replace("tokens", "factor"): factor})
    if quantity == "network":
        return changes.with_network(scenario, factor)
    if quantity == "price_ratio":
        return replace(
            scenario, decode_accelerators=tuple(_dearer(one, factor) for one in scenario.decode_accelerators)
        )
    targets = [
        replace(one, limit_s=one.limit_s * (factor if one.metric == quantity else 1.0)) for one in scenario.targets
    ]
    return replace(scenario, targets=tuple(targets))


def _dearer(accelerator: Accelerator, factor: float) -> Accelerator:
    prices = {basis: usd * factor for basis, usd in accelerator.usd_per_hour.items()}
    return replace(accelerator, usd_per_hour=prices)
