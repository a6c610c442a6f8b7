"""Why one family of architectures leads, and where it stops: computed, by leaving terms out and by moving quantities.

The arrays over cells give how costs change; where a comparison was made in full, its own ratio anchors them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planner.records import Floats, Scenario
from planner.sizing.crossover.cells import Cells
from planner.sizing.crossover.evaluate import Offer, evaluate_cells, offered
from planner.sizing.crossover.map import cells_over
from planner.sizing.crossover.workers import SHAPE_TERMS

REACH = 32.0  # a quantity is followed so many times up and down
POINTS = 20  # on each side
EXPLAINED = {  # terms of TERMS, as the reasons they are
    "transfer": "the KV that two pools must move",
    "chunking": "what small chunks cost",
    "mixed-steps": "the prompt tokens that lengthen decode steps",
    "collectives": "all-reduces",
    "queueing": "waits for a free worker",
    "integers": "rounding to whole workers",
    "headroom": "the headroom that every pool keeps",
    "kv-room": "room for KV",
}


@dataclass(frozen=True, slots=True)
class End:
    """Where the winner stops: `then` is the family that leads beyond, or nothing."""

    quantity: str
    unit: str
    now: float
    at: float
    then: str

    @property
    def distance(self) -> float:
        """Factor between now and there."""
        return max(self.at / self.now, self.now / self.at)


@dataclass(frozen=True, slots=True)
class Cause:
    """What the lead (cost of the other family over the winner's, less 1) is without a term; None: it has no rival."""

    term: str
    meaning: str
    lead_fraction: float | None


def leads(cells: Cells, basis: str, offer: Offer | None = None) -> Floats:
    """log2 of one pool's cost over two pools', by cell; +-inf where only one fits, nan where none does."""
    found = evaluate_cells(cells, basis, offer)
    shared = np.min([one.cost for name, one in found.items() if name != "disaggregated"], axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.log2(shared) - np.log2(found["disaggregated"].cost))


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


def ends(scenario: Scenario, basis: str, lead_log2: float) -> tuple[End, ...]:
    """Where the family that leads now stops leading, nearest first; at most one end up and one down per quantity.

    `lead_log2` is the lead in full, log2 of one pool's cost over two pools'. Raises FieldError as `evaluate_cells`.
    """
    present = _present(scenario)
    steps = np.geomspace(1.0 / REACH, REACH, 2 * POINTS + 1)
    count = steps.size
    values = {name: np.full(count * len(present), now) for name, (now, _) in present.items()}
    for index, (name, (now, _)) in enumerate(present.items()):
        values[name][index * count : (index + 1) * count] = now * steps
    values["output_tokens"] = np.maximum(values["output_tokens"], 2.0)
    table = leads(cells_over(scenario, values), basis).reshape(len(present), count)
    found: list[End] = []
    for row, (name, (now, unit)) in zip(table, present.items(), strict=True):
        anchored = row + (lead_log2 - row[POINTS] if np.isfinite(row[POINTS]) else 0.0)
        for side in (1, -1):
            end = _first_change(anchored[POINTS::side] * np.sign(lead_log2), now * steps[POINTS::side])
            if end is not None:
                rival = "colocated" if lead_log2 > 0.0 else "disaggregated"
                found.append(End(name, unit, now, end[0], rival if end[1] else "nothing"))
    return tuple(sorted(found, key=lambda end: (end.distance, end.quantity)))


def _first_change(lead: Floats, at: Floats) -> tuple[float, bool] | None:
    """Where a lead that starts above 0 is lost for good two points long, and whether a rival is left there."""
    for index in range(1, lead.size):
        gone = not lead[index] > 0.0
        stays = index + 1 >= lead.size or not lead[index + 1] > 0.0
        if gone and stays:
            before, after = float(lead[index - 1]), float(lead[index])
            if np.isfinite(before) and np.isfinite(after) and before > after:
                share = before / (before - after)
                return float(at[index - 1] * (at[index] / at[index - 1]) ** share), True
            return float(at[index]), not np.isnan(after)
    return None


def causes(scenario: Scenario, basis: str, lead_log2: float) -> tuple[Cause, ...]:
    """The lead without each term, the terms that carry most of it first."""
    now = {"rate": np.array([scenario.workload.requests_per_s * scenario.workload.peak_factor])}
    cells = cells_over(scenario, now)
    offer = offered(cells, basis)
    anchor = lead_log2 - float(leads(cells, basis, offer)[0])
    anchor = anchor if np.isfinite(anchor) else 0.0
    found = []
    for term, meaning in EXPLAINED.items():
        changed = cells_over(scenario, now, frozenset({term}))
        moved = leads(changed, basis, None if term in SHAPE_TERMS else offer)
        lead = (float(moved[0]) + anchor) * np.sign(lead_log2)
        found.append((lead, Cause(term, meaning, float(2.0**lead - 1.0) if np.isfinite(lead) else None)))
    known = [(lead, cause) for lead, cause in found if not np.isnan(lead)]
    return tuple(cause for _, cause in sorted(known, key=lambda item: item[0]))
