"""Prefill on attention ranks that step together, against the rows of tests/data/queueing/lockstep.csv."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from planner.queueing import (
    Lockstep,
    LockstepWait,
    ServiceLaw,
    join_shortest_queue,
    lockstep_wait,
    total_mean_s,
    total_quantile_s,
)


def _steps_of(row: dict[str, str]) -> Lockstep:
    """Ranks in step of a row: prompts are the 64 even quantiles of a gamma law, in whole tokens."""
    from scipy.special import gammaincinv

    part = {name: float(value) for name, value in row.items() if name != "case_id"}
    mean, scv = part["mean_tokens"], part["scv"]
    tokens = np.array([mean])
    if scv:
        tokens = np.maximum(np.rint(gammaincinv(1.0 / scv, (np.arange(64) + 0.5) / 64) * scv * mean), 1.0)
    chunks = np.ceil(tokens / part["budget_tokens"])
    rank_s = part["base_s"] + (part["token_s"] * tokens + part["square_s"] * tokens**2) / chunks
    weights = np.full(tokens.size, 1.0 / tokens.size)

    def shared_s(total: Any) -> Any:
        return part["shared_base_s"] + part["shared_token_s"] * total

    return Lockstep(rank_s, tokens / chunks, chunks, weights, int(part["ranks"]), shared_s)


def ranks_in_step(row: dict[str, str]) -> tuple[dict[str, float], LockstepWait]:
    """Our values of a row of lockstep.csv, and the wait."""
    steps = _steps_of(row)
    wait = lockstep_wait([float(row["workers"])], float(row["arrivals_per_s"]), steps)
    return {
        "wait": float(wait.mean_s[0]),
        "wait99": float(wait.quantile_s(0.99)[0]),
        "ttft": float(total_mean_s(wait, wait.own_s, steps.weights)[0]),
        "ttft99": float(total_quantile_s(wait, wait.own_s, steps.weights, 0.99)[0]),
    }, wait


def ranks_apart(row: dict[str, str]) -> float:
    """Mean TTFT of a row if every rank were a server of its own, beside ranks that read prompts as long as its own."""
    steps = _steps_of(row)
    service = steps.chunks * (steps.rank_s + steps.shared_s(steps.tokens * steps.ranks))
    servers, rate = float(row["workers"]) * steps.ranks, float(row["arrivals_per_s"])
    wait = join_shortest_queue(np.array([servers]), rate, ServiceLaw(service, steps.weights))
    return float(total_mean_s(wait, service, steps.weights)[0])


def ranks_table(rows: list[dict[str, str]], summary: Callable[[Iterable[float]], str]) -> str:
    """Errors of prefill on ranks in step, where the wait is marked ok and where not."""
    lines = [
        "| | rows | mean wait | P99 wait | mean TTFT | P99 TTFT | P99 wait in band |",
        "|---|---|---|---|---|---|---|",
    ]
    cases = [(row, *ranks_in_step(row)) for row in rows]
    for mark in ("ok", "caution"):
        chosen = [case for case in cases if str(case[2].trust[0]) == mark]
        cells = [
            summary(ours[column] / float(row[column]) - 1.0 for row, ours, _ in chosen)
            for column in ("wait", "wait99", "ttft", "ttft99")
        ]
        bands = [(float(row["wait99"]), *(float(end[0]) for end in wait.band(0.99))) for row, _, wait in chosen]
        held = sum(low <= value <= high for value, low, high in bands)
        lines.append(f"| marked {mark} | {len(chosen)} | {' | '.join(cells)} | {held} of {len(chosen)} |")
    return "\n".join(lines)
