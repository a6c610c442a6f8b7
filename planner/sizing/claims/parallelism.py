"""What tensor parallelism costs and which phase wants how much of it."""

from __future__ import annotations

import numpy as np

from planner.records import Target
from planner.roofline.steps import decode_s
from planner.sizing.claims.bench import Bench, Finding, seconds
from planner.sizing.cost import price_basis
from planner.sizing.crossover.evaluate import evaluate_cells
from planner.sizing.crossover.map import cells_over


def all_reduce_share(bench: Bench) -> Finding:
    def share(tp: int) -> float:
        step = decode_s(bench.worker(tp), 32.0, 2048.0)
        return 100.0 * seconds(step.collectives_s) / seconds(step.total_s)

    across = share(16)
    where = "where" if across >= 50.0 else "not even where"
    times = [1e3 * seconds(decode_s(bench.worker(tp), 1.0, 1024.0).total_s) for tp in (2, 4, 8)]
    return Finding(
        "decode at high TP is dominated by all-reduce (over half of a step)",
        "%",
        (50.0, 100.0),
        (share(4), share(8)),
        "share of a decode step of 32 sequences, tp 4 and 8 over NVLink",
        f"{where} a worker of 16 spans two nodes ({across:.0f} %); inside one, steps still get shorter: "
        + ", ".join(f"{time:.0f}" for time in times)
        + " ms at tp 2, 4, 8",
    )


def tensor_parallel_by_role(bench: Bench) -> Finding:
    ttft_s, itl_s = (grid.ravel() for grid in np.meshgrid([0.45, 0.6, 1.0, 2.0], [0.025, 0.05, 0.1, 0.3]))
    targets = (Target("ttft", "p99", 2.0), Target("itl", "p99", 0.025))
    asked = {"rate": np.full(ttft_s.size, 40.0), "ttft": ttft_s, "itl": itl_s}
    cells = cells_over(bench.scenario(4096.0, 512.0, targets, 40.0), asked)
    plans = evaluate_cells(cells, price_basis((bench.accelerator,)))["disaggregated"].deployments
    split = [(plan.prefill.tp, plan.decode.tp) if plan and plan.prefill else (0, 1) for plan in plans]
    usual = split[int(np.flatnonzero((ttft_s == 2.0) & (itl_s == 0.025))[0])]
    right = [at for at, (first, second) in enumerate(split) if first >= 2 * second]
    told = [f"{1e3 * ttft_s[at]:.0f} and {1e3 * itl_s[at]:.0f} ms (tp {split[at][0]}, {split[at][1]})" for at in right]
    where = f"at TTFT and ITL of {'; '.join(told)}" if told else "nowhere"
    return Finding(
        "prefill wants high TP and decode low TP (prefill TP over decode TP above 1)",
        "times",
        (2.0, 8.0),
        (usual[0] / usual[1],) * 2,
        "cheapest pools for 4,096 + 512 tokens, ITL P99 25 ms, TTFT P99 2 s: "
        f"prefill tp {usual[0]}, decode tp {usual[1]}",
        f"{where} in 16 pairs of TTFT P99 from 450 ms to 2 s and ITL P99 from 25 to 300 ms; "
        "tight gaps and room for KV ask for high TP in the decode pool",
    )
