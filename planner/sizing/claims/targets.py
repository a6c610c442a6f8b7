"""Targets together, and ratios of pools."""

from __future__ import annotations

import numpy as np

from planner.queueing.routing import join_shortest_queue
from planner.queueing.service import ServiceLaw
from planner.records import Target
from planner.roofline.steps import decode_s, prefill_s
from planner.sizing.claims.bench import ALL, Bench, Finding, lost_fraction, seconds
from planner.sizing.cost import price_basis
from planner.sizing.crossover.evaluate import evaluate_cells
from planner.sizing.crossover.map import cells_over


def both_targets(bench: Bench) -> Finding:
    """Highest prefill load with a TTFT P99 of 200 ms for 2K prompts, by pool size."""
    worker, constants = bench.worker(4), bench.worker(4).constants
    own = seconds(prefill_s(worker, 2048.0, ALL).total_s)
    fixed = constants.own_prefill_factor * own + constants.ttft_fixed_s
    loads = np.linspace(0.01, 0.95, 95)

    def most(servers: int) -> float:
        wait = join_shortest_queue(np.full(loads.size, servers), loads * servers / own, ServiceLaw.deterministic(own))
        fits = wait.quantile_s(0.99) + fixed <= 0.2
        return 100.0 * float(loads[fits].max()) if fits.any() else 0.0

    found = {servers: most(servers) for servers in (1, 4, 16)}
    lengths = np.arange(128.0, 16384.0, 64.0)
    alone = constants.own_prefill_factor * np.asarray(prefill_s(worker, lengths, ALL).total_s) + constants.ttft_fixed_s
    long = lengths[np.argmax(alone >= 0.2)]
    step = 1e3 * seconds(decode_s(worker, 16.0, 2048.0).total_s)
    return Finding(
        "P99 ITL under 20 ms and TTFT under 200 ms hold under heavy load (over half busy)",
        "%",
        (50.0, 100.0),
        (found[1], found[16]),
        f"prefill load for 2,048-token prompts at tp 4, 1 to 16 workers (4: {found[4]:.0f} %); "
        f"decode of 16 sequences takes {step:.0f} ms",
        f"for short prompts in large pools; one of {long:,.0f} tokens takes 200 ms by itself",
    )


def wrong_ratio(bench: Bench) -> Finding:
    """Waste of pools off by two: x / (1 + x) or (1 - x) / (2 - x) of the capacity (MODELLING §11)."""
    shares = []
    for prompt, output in ((512.0, 512.0), (4096.0, 512.0), (8192.0, 128.0)):
        targets = (Target("ttft", "p99", 4.0), Target("itl", "p99", 0.05))
        cells = cells_over(bench.scenario(prompt, output, targets, 100.0), {"rate": np.array([100.0])})
        plan = evaluate_cells(cells, price_basis((bench.accelerator,)))["disaggregated"].deployments[0]
        if plan is not None and plan.prefill is not None:
            shares.append(plan.prefill.accelerators / plan.accelerators)
    waste = [100.0 * value for x in shares for value in (x / (1.0 + x), (1.0 - x) / (2.0 - x))]
    loss = 100.0 * lost_fraction(bench.worker(4), 8192.0, 1024.0)
    chunks = np.arange(256.0, 8192.0, 64.0)
    costs = np.array([100.0 * lost_fraction(bench.worker(4), 8192.0, float(chunk)) for chunk in chunks])
    enough = chunks[np.argmax(costs <= min(waste))]
    return Finding(
        "a ratio of pools that is wrong by 2 wastes more than head-of-line blocking",
        "%",
        (loss, 100.0),
        (min(waste), max(waste)),
        f"waste of capacity at prefill shares of {min(shares):.2f} to {max(shares):.2f}; "
        f"chunks of 1,024 cost {loss:.0f} % of an 8K prefill",
        f"for dense models at chunks of {enough:,.0f} and more, which cost less than the least of these; never above "
        "50 %, and smaller chunks or experts can cost more",
    )
