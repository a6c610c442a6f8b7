"""Why one family of architectures leads: computed, by leaving terms out.

The arrays over cells give how costs change; where a comparison was made in full, its own ratio anchors them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from planner.records import Floats, Scenario
from planner.sizing.crossover.cells import Cells
from planner.sizing.crossover.evaluate import Offer, evaluate_cells, offered
from planner.sizing.crossover.map import cells_over
from planner.sizing.crossover.pools import Bought
from planner.sizing.crossover.workers import SHAPE_TERMS

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
class Cause:
    """What the lead (cost of the other family over the winner's, less 1) is without a term; None: it has no rival."""

    term: str
    meaning: str
    lead_fraction: float | None


def leads(cells: Cells, basis: str, offer: Offer | None = None) -> Floats:
    """log2 of one pool's cost over two pools', by cell; +-inf where only one fits, nan where none does."""
    return lead_log2(evaluate_cells(cells, basis, offer))


def lead_log2(found: Mapping[str, Bought]) -> Floats:
    """The same of what was bought."""
    shared = np.min([one.cost for name, one in found.items() if name != "disaggregated"], axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.log2(shared) - np.log2(found["disaggregated"].cost))


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
