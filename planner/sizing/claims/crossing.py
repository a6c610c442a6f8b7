"""Where one pool becomes the cheaper architecture."""

from __future__ import annotations

import numpy as np

from planner.records import Floats, Target
from planner.sizing.claims.bench import PROMPTS, Bench, Finding
from planner.sizing.cost import price_basis
from planner.sizing.crossover.causes import leads
from planner.sizing.crossover.map import cells_over


def crossover(bench: Bench) -> Finding:
    """ITL bound at which one pool becomes the cheaper one, without a TTFT bound (MODELLING §8)."""
    bounds = np.geomspace(0.02, 0.4, 25)
    found = []
    for prompt in PROMPTS:
        targets = (Target("itl", "p99", 0.05),)
        scenario = bench.scenario(float(prompt), 256.0, targets, float(400.0 * 512.0 / prompt))
        cells = cells_over(scenario, {"itl": bounds}, frozenset({"integers"}))
        lead = leads(cells, price_basis((bench.accelerator,)))
        found.append(1e3 * _crossing(bounds, lead))
    return Finding(
        "one pool becomes the cheaper architecture at a P99 ITL bound of 35 ms (512 tokens) to 100 ms (32K tokens)",
        "ms",
        (35.0, 100.0),
        (min(found), max(found)),
        "P99 ITL bound at 512, 2,048, 8,192 and 32,768 prompt tokens: " + ", ".join(f"{bound:.0f}" for bound in found),
        "looser bounds favor one pool, tighter ones two; the map shows it for any model and hardware",
    )


def _crossing(bounds: Floats, lead: Floats) -> float:
    """The last bound at which two pools lead, log-linear to the next."""
    ahead = np.flatnonzero(lead > 0.0)
    if ahead.size == 0:
        return float(bounds[0])
    index = int(ahead[-1])
    if index + 1 >= bounds.size or not np.isfinite(lead[index]):
        return float(bounds[index])
    share = lead[index] / (lead[index] - lead[index + 1])
    return float(bounds[index] * (bounds[index + 1] / bounds[index]) ** share)
