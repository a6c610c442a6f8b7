"""Every architecture in every cell."""

from __future__ import annotations

from collections.abc import Mapping

from planner.engines.rules import why_not_mode
from planner.records import Mode
from planner.sizing.crossover.cells import Cells
from planner.sizing.crossover.clients import separate_pools, shared_pools
from planner.sizing.crossover.pools import Bought, disaggregated
from planner.sizing.crossover.shared import colocated
from planner.sizing.crossover.workers import shapes

SHARED: tuple[Mode, ...] = ("colocated-chunked", "colocated-whole-prompt")


def evaluate_cells(cells: Cells, basis: str) -> Mapping[str, Bought]:
    """The cheapest deployment of each architecture in each cell. Raises FieldError without a network between pools."""
    both = shapes(cells, "colocated", basis)
    prefill, decode = shapes(cells, "prefill", basis), shapes(cells, "decode", basis)
    if cells.clients is not None:
        mode: Mode = "colocated-chunked" if cells.scenario.engine.scheduling == "mixed" else "colocated-whole-prompt"
        return {mode: shared_pools(cells, both, mode), "disaggregated": separate_pools(cells, prefill, decode)}
    found: dict[str, Bought] = {}
    for one in SHARED:
        if not why_not_mode(cells.scenario.engine, one):
            found[one] = colocated(cells, both, one)
    found["disaggregated"] = disaggregated(cells, prefill, decode)
    return found
