"""Many questions side by side: a scenario with lengths, load, limits, network and prices that differ by cell."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from planner.queueing.occupancy import context_moments
from planner.records import Floats, Scenario
from planner.serving.traffic import joint_reduced, reduced

Integers = NDArray[np.intp]
Marks = NDArray[np.bool_]

PROMPT_ATOMS = 20  # of the length law in a cell; a plan takes more
JOINT_PROMPTS, JOINT_OUTPUTS = 6, 6

TERMS = {
    "transfer": "the time and the network load of moving KV between pools",
    "chunking": "weight re-reads, KV re-reads and starved attention grids of chunks: chunks cost what whole prompts do",
    "mixed-steps": "the lengthening of decode steps by the prompt tokens in them",
    "collectives": "the all-reduce and the exchange of experts",
    "queueing": "waits for a free worker",
    "integers": "whole workers: pools take fractions, so no ratio of pools is wrong",
    "headroom": "the fifth of every pool that is kept free",
    "cache-locality": "answers of earlier turns, which only a pool that decodes has in its cache",
    "kv-room": "the limit that KV memory sets to a batch",
}


@dataclass(frozen=True, slots=True, eq=False)
class Goal:
    """One latency target with its limit in every cell."""

    metric: str
    statistic: str
    limit_s: Floats


@dataclass(frozen=True, eq=False)
class Cells:
    """Everything a cell may change of a scenario; arrays have shape [cells]."""

    scenario: Scenario
    input_factor: Floats  # on every prompt length of the scenario
    output_factor: Floats
    hit_fraction: Floats  # of prompt tokens found in a cache
    requests_per_s: Floats
    goals: tuple[Goal, ...]
    network_bytes_per_s: Floats | None  # None: the NIC of each accelerator's catalog entry
    price_factor: Floats  # on the price of whatever decodes in a pool of its own
    clients: Floats | None  # requests in flight; None: open loop at `requests_per_s`
    without: frozenset[str]  # of TERMS
    laws: Laws

    @property
    def count(self) -> int:
        return self.input_factor.size

    def tightest_s(self, metrics: tuple[str, ...]) -> Floats:
        """The smallest limit on any of the metrics, inf without one."""
        limits = [goal.limit_s for goal in self.goals if goal.metric in metrics]
        return np.min(limits, axis=0) if limits else np.full(self.count, np.inf)

    def at(self, chosen: Integers | Marks) -> Cells:
        """Some of the cells."""
        return replace(
            self,
            input_factor=self.input_factor[chosen],
            output_factor=self.output_factor[chosen],
            hit_fraction=self.hit_fraction[chosen],
            requests_per_s=self.requests_per_s[chosen],
            goals=tuple(replace(goal, limit_s=goal.limit_s[chosen]) for goal in self.goals),
            network_bytes_per_s=None if self.network_bytes_per_s is None else self.network_bytes_per_s[chosen],
            price_factor=self.price_factor[chosen],
            clients=None if self.clients is None else self.clients[chosen],
            laws=replace(self.laws, of_cell=self.laws.of_cell[chosen]),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Laws:
    """The distinct length laws of the cells, [laws]; `of_cell` says which one a cell has."""

    of_cell: Integers
    input_factor: Floats
    hit_fraction: Floats
    relative_tokens: Floats  # [atoms] prompt lengths of the scenario
    weights: Floats  # [atoms]
    input_tokens: Floats  # [laws, atoms]
    mean_input_tokens: Floats
    seen_tokens: Floats  # prompt length that a prompt token sees: E[I^2] / E[I]
    mean_output_tokens: Floats
    mean_steps: Floats
    context: tuple[Floats, Floats, Floats]  # moments of the tokens a resident holds
    reserved: tuple[Floats, Floats, Floats]  # E[R], E[R^2] and output-biased mean of prompt and output together
    longest_input_tokens: Floats
    longest_tokens: Floats

    def at(self, rows: Integers) -> Laws:
        """Some of the laws, one cell each."""
        of_law = ("input_factor", "hit_fraction", "input_tokens", "mean_input_tokens", "seen_tokens",
                  "mean_output_tokens", "mean_steps", "longest_input_tokens", "longest_tokens")  # fmt: skip
        k1, k2, k3 = (one[rows] for one in self.context)
        r1, r2, r3 = (one[rows] for one in self.reserved)
        some = {name: getattr(self, name)[rows] for name in of_law}
        return replace(self, of_cell=np.arange(rows.size), context=(k1, k2, k3), reserved=(r1, r2, r3), **some)


def laws_of(scenario: Scenario, input_factor: Floats, output_factor: Floats, hit_fraction: Floats) -> Laws:
    """Lengths keep the shape of the scenario's law; its mean is what a cell says."""
    triples = np.stack([input_factor, output_factor, hit_fraction])
    distinct, of_cell = np.unique(triples, axis=1, return_inverse=True)
    ins, outs, hits = distinct
    lengths = scenario.workload.lengths
    tokens, weights = reduced(lengths.input_tokens, lengths.weights, PROMPT_ATOMS)
    joint = joint_reduced(lengths, JOINT_PROMPTS, JOINT_OUTPUTS)
    i, o, w = joint[0] * ins[:, None], np.maximum(joint[1] * outs[:, None], 1.0), joint[2]
    prompts = tokens * ins[:, None]
    moments = np.array([context_moments(i[row], o[row], w) for row in range(ins.size)]).T
    held = i + o
    return Laws(
        of_cell=np.asarray(of_cell).ravel(),
        input_factor=ins,
        hit_fraction=hits,
        relative_tokens=tokens,
        weights=weights,
        input_tokens=prompts,
        mean_input_tokens=prompts @ weights,
        seen_tokens=(prompts**2 @ weights) / (prompts @ weights),
        mean_output_tokens=o @ w,
        mean_steps=np.maximum(o - 1.0, 1e-6) @ w,
        context=(moments[0], moments[1], moments[2]),
        reserved=(held @ w, held**2 @ w, (o * held) @ w / (o @ w)),
        longest_input_tokens=float(lengths.input_tokens.max()) * ins,
        longest_tokens=float(lengths.input_tokens.max()) * ins + float(lengths.output_tokens.max()) * outs,
    )


def rows_at(grid: Floats, values: Floats, rows: Integers, at: Floats) -> Floats:
    """`values[row]` as a function of `grid[row]` (ascending), read linearly at `at`; arrays [rows, points]."""
    ascending = grid[rows]
    index = np.clip(np.sum(ascending < at[:, None], axis=1) - 1, 0, grid.shape[1] - 2)
    each = np.arange(rows.size)
    low, high = ascending[each, index], ascending[each, index + 1]
    share = np.clip((at - low) / np.where(high > low, high - low, 1.0), 0.0, 1.0)
    found = values[rows]
    return np.asarray(found[each, index] + share * (found[each, index + 1] - found[each, index]))


Holds = Callable[[Integers, Floats], Marks]  # some cells, and a size for each of them -> whether it holds


def least_size(holds: Holds, chosen: Integers, low: Floats, high: Floats, hopeful: Marks | None = None) -> Floats:
    """Smallest whole number from `low` to `high` that holds for each of the chosen cells; inf where `high` does not.

    Hopeful cells (all of them by default) likely hold at `low` and are asked there first, others likely not at `high`.
    """
    answer = np.full(chosen.size, np.inf)
    hope = np.ones(chosen.size, dtype=bool) if hopeful is None else hopeful
    ok = holds(chosen, np.where(hope, low, high))
    answer[ok] = np.where(hope, low, high)[ok]
    left = np.flatnonzero((high > low) & (ok != hope))
    if left.size:
        ok = holds(chosen[left], np.where(hope, high, low)[left])
        small = ~hope[left] & ok
        answer[left[small]] = low[left[small]]
        left = left[ok == hope[left]]
    fails, fits, step = low[left], high[left], np.ones(left.size)
    while left.size:
        reach = (step > 0.0) & (fails + step < fits)
        trial = np.where(reach, fails + step, np.floor((fails + fits) / 2.0))
        done = fits - fails <= 1.0
        answer[left[done]] = fits[done]
        left = left[~done]
        fails, fits, step, trial = (value[~done] for value in (fails, fits, step, trial))
        if left.size:
            ok = holds(chosen[left], trial)
            fits, fails = np.where(ok, trial, fits), np.where(ok, fails, trial)
            step = np.where(ok, 0.0, 2.0 * step)
    return answer


@dataclass(frozen=True, slots=True, eq=False)
class Bid:
    """One way to serve the cells: no less than `floor`.

    `cost` takes cells, what each must stay below to matter, and which of them likely do; where one does not, it says
    inf.
    """

    floor: Floats
    cost: Callable[[Integers, Floats, Marks], Floats]


def cheapest(bids: Sequence[Bid], count: int) -> tuple[Floats, Integers]:
    """The least cost of every cell and the position of its bid, asking a bid only where its floor could still win."""
    best, winner = np.full(count, np.inf), np.full(count, -1, dtype=np.intp)
    new = np.ones(count, dtype=bool)  # the first bid of a cell most often holds at its floor, later ones seldom matter
    for index in sorted(range(len(bids)), key=lambda one: (float(np.median(bids[one].floor)), one)):
        chosen = np.flatnonzero(bids[index].floor < best * (1.0 - 1e-9))
        if chosen.size:
            cost = bids[index].cost(chosen, best[chosen], new[chosen])
            new[chosen] = False
            better = cost < best[chosen] * (1.0 - 1e-9)
            best[chosen[better]], winner[chosen[better]] = cost[better], index
    return best, winner
