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
from planner.queueing.shared_ranks import LEVELS, shared_ranks


def _prompts(mean: float, scv: float) -> Any:
    """The 64 even quantiles of a gamma law, in whole tokens."""
    from scipy.special import gammaincinv

    if not scv:
        return np.array([mean])
    return np.maximum(np.rint(gammaincinv(1.0 / scv, (np.arange(64) + 0.5) / 64) * scv * mean), 1.0)


def _steps_of(row: dict[str, str]) -> Lockstep:
    """Ranks in step of a row."""
    part = {name: float(value) for name, value in row.items() if name != "case_id"}
    tokens = _prompts(part["mean_tokens"], part["scv"])
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


RANKS = """## Prefill on attention ranks that step together

Workers of 2 to 32 ranks, 1 to 8 of them, against the token-step simulator; loads are those of ranks that are all busy.
"""

SHARED = """Shared pools, prompts in chunks beside decoding on 2 to 32 ranks of 1 to 3 workers. The largest errors
are of a row that hardly settles, and of P50 and P99 beside a jump of the gaps; both are marked:
"""


def tables(read: Callable[[str], list[dict[str, str]]], summary: Callable[[Iterable[float]], str]) -> str:
    """The section of the page."""
    apart, together = ranks_table(read("lockstep.csv"), summary), shared_table(read("shared_ranks.csv"), summary)
    return f"{RANKS}\n{apart}\n\n{SHARED}\n{together}"


class _SharedSteps:
    """Steps of a row of shared_ranks.csv."""

    def __init__(self, part: dict[str, float]) -> None:
        self.part = part

    def rank_s(self, batch: float, tokens: Any) -> Any:
        part = self.part
        return part["base_s"] + part["sequence_s"] * batch / part["ranks"] + part["token_s"] * tokens

    def shared_s(self, batch: float, tokens: Any) -> Any:
        return self.part["shared_base_s"] + self.part["shared_token_s"] * (batch + tokens)


def shared(row: dict[str, str]) -> dict[str, float]:
    """Our values of a row of shared_ranks.csv."""
    part = {name: float(value) for name, value in row.items() if name != "case_id"}
    tokens = _prompts(part["mean_tokens"], part["scv"])
    law = ServiceLaw(tokens, np.full(tokens.size, 1.0 / tokens.size))
    rate = part["arrivals_per_s"] / part["workers"]
    steps = _SharedSteps(part)
    point = shared_ranks(rate, law, part["mean_output_tokens"], int(part["ranks"]), part["budget_tokens"], steps)
    waited = float(np.trapezoid(point.first.tails, point.first.times_s)) + point.residual_s
    return {
        "batch": point.batch,
        "itl": point.mean_gap_s,
        "itl50": float(np.interp(0.5, LEVELS, point.gaps_s)),
        "itl99": float(np.interp(0.99, LEVELS, point.gaps_s)),
        "ttft": waited + float(law.weights @ point.first.own_s),
    }


def shared_table(rows: list[dict[str, str]], summary: Callable[[Iterable[float]], str]) -> str:
    """Errors of shared pools on ranks in step."""
    names = {"batch": "batch", "itl": "mean ITL", "itl50": "P50 ITL", "itl99": "P99 ITL", "ttft": "mean TTFT"}
    errors = [{name: value / float(row[name]) - 1.0 for name, value in shared(row).items()} for row in rows]
    lines = [f"| | rows | {' | '.join(names.values())} |", "|---" * (len(names) + 2) + "|"]
    cells = [summary(error[name] for error in errors) for name in names]
    return "\n".join([*lines, f"| chunks beside decoding | {len(rows)} | {' | '.join(cells)} |"])
