"""The crossover map: which architecture is cheapest over two quantities, by how much, and where that is a tie."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from planner.errors import FieldError
from planner.records import Deployment, Floats, MapAxis, Note, Scenario
from planner.serving.reuse import knows_reuse
from planner.shapes.formats import has_experts
from planner.sizing.cost import price_basis
from planner.sizing.crossover.cells import Cells, Goal, laws_of
from planner.sizing.crossover.evaluate import evaluate_cells
from planner.sizing.crossover.pools import Bought
from planner.sizing.tco import priced

RATIO_ERROR_FACTOR = 1.25  # 80 % of the measured ratios between the two modes are within this of the predicted ones
TIE, NOTHING = "tie", "nothing"
BLOCK = 4096  # cells that are computed together
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class MapCell:
    """One point of a map. `cheapest` is an architecture, or empty where none meets the targets."""

    x: float
    y: float
    cheapest: str
    advantage_fraction: float | None  # what the best of the other family costs more; None where it does not fit
    interval: tuple[float, float] | None  # of that advantage
    limits: tuple[str, ...]  # what holds the cheapest; where nothing fits, what prevents each family
    deployment: Deployment | None
    lead_log2: float | None  # log2 of colocated over disaggregated cost; None unless both fit

    @property
    def tie(self) -> bool:
        return self.interval is not None and self.interval[0] < 0.0

    @property
    def winner(self) -> str | None:
        if not self.cheapest:
            return None
        return TIE if self.tie else self.cheapest


@dataclass(frozen=True, slots=True, eq=False)
class CrossoverMap:
    """Cells row by row from the lowest y."""

    scenario: Scenario
    x: MapAxis
    y: MapAxis
    basis: str
    without: tuple[str, ...]
    cells: tuple[MapCell, ...]
    notes: tuple[Note, ...]

    def row(self, index: int) -> tuple[MapCell, ...]:
        width = len(self.x.values)
        return self.cells[index * width : (index + 1) * width]


def crossover_map(
    scenario: Scenario, x: MapAxis, y: MapAxis, without: Sequence[str] = (), progress: Progress | None = None
) -> CrossoverMap:
    """Evaluate every cell. Raises FieldError for an axis that cannot vary in this scenario."""
    check_axes(scenario, x, y)
    scenario = priced(scenario)
    basis = _basis(scenario)
    across, up = np.meshgrid(np.array(x.values), np.array(y.values))
    xs, ys = across.ravel(), up.ravel()
    found: list[MapCell] = []
    for start in range(0, xs.size, BLOCK):
        part = slice(start, start + BLOCK)
        cells = cells_over(scenario, {x.name: xs[part], y.name: ys[part]}, frozenset(without))
        bought = evaluate_cells(cells, basis)
        found += map_cells(xs[part], ys[part], bought)
        if progress is not None:
            progress(len(found), xs.size)
    return CrossoverMap(scenario, x, y, basis, tuple(without), tuple(found), _notes(scenario, (x.name, y.name)))


def check_axes(scenario: Scenario, x: MapAxis, y: MapAxis) -> None:
    """Raise FieldError where an axis changes nothing of this scenario, or a map does not know what it holds."""
    if scenario.speculation is not None and "concurrency" not in (x.name, y.name):
        text = "maps of open loops know no drafts; remove this key, vary concurrency, or compare single scenarios"
        raise FieldError("speculation", text)
    for axis in (x, y):
        if axis.name == "price_ratio":
            prefill = {one.id for one in scenario.prefill_accelerators}
            if prefill == {one.id for one in scenario.decode_accelerators}:
                text = "a price ratio needs different accelerators for prefill and decode; list them under hardware"
                raise FieldError("hardware.accelerators", text)
        if axis.name == "prefix_hit_ratio" and "concurrency" in (x.name, y.name):
            text = "a closed loop does not know caches; vary prefix_hit_ratio against rate or lengths instead"
            raise FieldError("workload.prefix_hit_ratio", text)
        if axis.name in ("output_tokens", "itl") and scenario.workload.lengths.output_tokens.max() <= 1.0:
            raise FieldError(
                "workload.output_tokens", f"every request has one output token, so {axis.name} cannot vary"
            )


def cells_over(scenario: Scenario, values: dict[str, Floats], without: frozenset[str] = frozenset()) -> Cells:
    """The scenario with some quantities replaced; arrays in base units, of one length."""
    count = next(iter(values.values())).size
    one = np.ones(count)
    workload = scenario.workload
    lengths = workload.lengths
    mean_in, mean_out = (float(lengths.weights @ side) for side in (lengths.input_tokens, lengths.output_tokens))
    ins, outs = (
        values.get("input_tokens", mean_in * one) / mean_in,
        values.get("output_tokens", mean_out * one) / mean_out,
    )
    hits = values.get("prefix_hit_ratio", _hit_fraction(scenario) * one)
    network = values.get("network")
    if network is None and scenario.network_bytes_per_s is not None:
        network = scenario.network_bytes_per_s * one
    return Cells(
        scenario=scenario,
        input_factor=ins,
        output_factor=outs,
        hit_fraction=hits,
        requests_per_s=values.get("rate", workload.requests_per_s * workload.peak_factor * one),
        goals=_goals(scenario, values, one),
        network_bytes_per_s=network,
        price_factor=values.get("price_ratio", one) / _price_ratio(scenario) if "price_ratio" in values else one,
        clients=values.get("concurrency"),
        without=without,
        laws=laws_of(scenario, ins, outs, hits),
    )


def _hit_fraction(scenario: Scenario) -> float:
    """Mean share of the prompt tokens that the scenario finds in a cache."""
    lengths = scenario.workload.lengths
    if lengths.cached_tokens is None:
        return scenario.workload.prefix_hit_fraction
    return float(lengths.weights @ lengths.cached_tokens / (lengths.weights @ lengths.input_tokens))


def _basis(scenario: Scenario) -> str:
    return price_basis((*scenario.prefill_accelerators, *scenario.decode_accelerators), scenario.costs.basis)


def _price_ratio(scenario: Scenario) -> float:
    """What the first decode accelerator costs over the first prefill accelerator."""
    basis = _basis(scenario)
    if not basis:
        return 1.0
    return scenario.decode_accelerators[0].usd_per_hour[basis] / scenario.prefill_accelerators[0].usd_per_hour[basis]


def _goals(scenario: Scenario, values: dict[str, Floats], one: Floats) -> tuple[Goal, ...]:
    """An axis over a target sets the limit of the highest statistic given; lower ones keep their proportion."""
    given = {target.metric for target in scenario.targets}
    goals = [
        Goal(metric, "p99", values[metric]) for metric in ("ttft", "itl") if metric in values and metric not in given
    ]
    for target in scenario.targets:
        limit = target.limit_s * one
        if target.metric in values:
            leading = max(other.limit_s for other in scenario.targets if other.metric == target.metric)
            limit = values[target.metric] * (target.limit_s / leading)
        goals.append(Goal(target.metric, target.statistic, limit))
    return tuple(goals)


def map_cells(xs: Floats, ys: Floats, bought: Mapping[str, Bought]) -> list[MapCell]:
    """The outcome of every cell."""
    names = list(bought)
    table = np.array([bought[name].cost for name in names])
    pooled = np.array([name == "disaggregated" for name in names])
    shared, apart = np.min(table[~pooled], axis=0, initial=np.inf), np.min(table[pooled], axis=0, initial=np.inf)
    best = np.argmin(table, axis=0)
    found = []
    for cell in range(xs.size):
        low, high = sorted((float(shared[cell]), float(apart[cell])))
        one = bought[names[best[cell]]]
        both = np.isfinite(high)
        advantage = high / low - 1.0 if both else None
        plan = one.deployments[cell]
        found.append(
            MapCell(
                x=float(xs[cell]),
                y=float(ys[cell]),
                cheapest=_named(names[best[cell]], plan) if np.isfinite(low) else "",
                advantage_fraction=advantage,
                interval=_interval(advantage),
                limits=one.limits[cell] if np.isfinite(low) else _prevented(bought, cell),
                deployment=plan,
                lead_log2=float(np.log2(shared[cell] / apart[cell])) if both else None,
            )
        )
    return found


def _named(name: str, plan: Deployment | None) -> str:
    if plan is not None and plan.prefill is not None and plan.prefill.accelerator != plan.decode.accelerator:
        return "heterogeneous"
    return name


def _interval(advantage: float | None) -> tuple[float, float] | None:
    if advantage is None:
        return None
    ratio = 1.0 + advantage
    return ratio / RATIO_ERROR_FACTOR - 1.0, ratio * RATIO_ERROR_FACTOR - 1.0


def _prevented(bought: Mapping[str, Bought], cell: int) -> tuple[str, ...]:
    return tuple(dict.fromkeys(f"{name}:{limit}" for name, one in bought.items() for limit in one.limits[cell]))


def _notes(scenario: Scenario, names: Sequence[str]) -> tuple[Note, ...]:
    notes = []
    if any(target.metric == "tpot" and target.statistic != "mean" for target in scenario.targets):
        notes.append(Note("caution", "one pool is held to its mean TPOT; `planner compare` holds it to the percentile"))
    if has_experts(scenario.model):
        notes.append(Note("info", "a map sizes one pool without attention data parallelism; compare has it"))
    if knows_reuse(scenario.workload) or scenario.tiers:
        text = "of caches a map takes the hit ratio as it stands; `planner kv` says what they find and fetch"
        notes.append(Note("info", text))
    if scenario.workload.arrivals is not None:
        notes.append(Note("info", "the trace gives the shape of the lengths; requests arrive as a Poisson process"))
    if _hit_fraction(scenario) > 0.0 and "concurrency" in names:
        notes.append(Note("caution", "a closed loop does not know caches: every prompt is prefilled in whole"))
    both = {one.id: one for one in (*scenario.prefill_accelerators, *scenario.decode_accelerators)}
    announced = [name for name, one in both.items() if one.status == "announced"]
    notes += [Note("caution", f"{name}: announced figures, nothing measured") for name in announced]
    if scenario.budgets:
        notes.append(Note("info", "budgets are left aside: a map says what is cheapest, not what is allowed"))
    return tuple(notes)
