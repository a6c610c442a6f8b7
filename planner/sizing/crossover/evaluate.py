"""Every architecture in every cell."""

from __future__ import annotations

from collections.abc import Mapping

from planner.engines.rules import why_not_mode
from planner.records import Mode
from planner.sizing.crossover.cells import Cells
from planner.sizing.crossover.clients import separate_pools, shared_pools
from planner.sizing.crossover.pools import Bought, disaggregated
from planner.sizing.crossover.shared import colocated
from planner.sizing.crossover.workers import Shape, shapes

SHARED: tuple[Mode, ...] = ("colocated-chunked", "colocated-whole-prompt")


Offer = tuple[list[Shape], list[Shape], list[Shape]]  # workers of a shared pool, that prefill, that decode


def offered(cells: Cells, basis: str) -> Offer:
    """The workers that cells choose from: the same for cells of the same lengths and without the same SHAPE_TERMS."""
    return shapes(cells, "colocated", basis), shapes(cells, "prefill", basis), shapes(cells, "decode", basis)


def evaluate_cells(cells: Cells, basis: str, offer: Offer | None = None) -> Mapping[str, Bought]:
    """The cheapest deployment of each architecture in each cell, from what is `offered` unless it is known already.

    Raises FieldError without a network between pools.
    """
    both, prefill, decode = offer or offered(cells, basis)
    if cells.clients is not None:
        mode: Mode = "colocated-chunked" if cells.scenario.engine.scheduling == "mixed" else "colocated-whole-prompt"
        return {mode: shared_pools(cells, both, mode), "disaggregated": separate_pools(cells, prefill, decode)}
    found: dict[str, Bought] = {}
    for one in SHARED:
        if not why_not_mode(cells.scenario.engine, one):
            found[one] = colocated(cells, both, one)
    found["disaggregated"] = disaggregated(cells, prefill, decode)
    return found
