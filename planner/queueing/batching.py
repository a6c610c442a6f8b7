"""Prefill that packs several prompts into one step: short prompts batch almost free (MODELLING §7.4)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from planner.queueing.service import Floats, ServiceLaw
from planner.queueing.waiting import checked_points

_BISECTIONS = 50


@dataclass(frozen=True, slots=True, eq=False)
class BatchedPrefill:
    """One prefill worker that packs up to a token budget into every step; arrays have the points' shape.

    Attributes
    ----------
    load : work over what full steps can do; 1 or more never settles.   stable : load < 1.
    busy : share of time a step runs.   runs_per_s, prompts_per_run : a run reads prompts together, in one step or,
        where they are longer than the budget, in a few.
    ttft_mean_s : mean time from arrival to the end of the prompt's last step; inf where not stable.
    alone_load : load if every prompt had steps of its own: what batching saves is `alone_load` - `busy`.
    """

    load: Floats
    stable: NDArray[np.bool_]
    busy: Floats
    runs_per_s: Floats
    prompts_per_run: Floats
    ttft_mean_s: Floats
    alone_load: Floats


def batched_prefill(
    arrivals_per_s: ArrayLike,
    prompts: ServiceLaw,
    step_base_s: ArrayLike,
    token_s: ArrayLike,
    token_budget: ArrayLike,
) -> BatchedPrefill:
    """Poisson arrivals to one worker whose step with q prompt tokens takes `step_base_s` + `token_s` q, q <= budget.

    Parameters
    ----------
    arrivals_per_s, step_base_s, token_s, token_budget : broadcast; rates and times >= 0, budget > 0.
    prompts : law of prompt lengths in tokens.

    Notes
    -----
    A run starts when a prompt finds the worker idle, or right after a run during which any came: the runs per second
    r solve r e^(-lambda t) = lambda (1 - r t) with t the mean run. An arrival waits for the run in progress, which is
    longer than most, and shares the next with what came meanwhile; where the budget binds it queues in chunks (M/G/1
    in token work). Stable iff lambda E[I] (base + token x budget) < budget (MODELLING §7.4).

    Raises
    ------
    ValueError
        For arguments outside their domain.
    """
    rates, base, token, budget = np.broadcast_arrays(
        *(np.asarray(value, dtype=float) for value in (arrivals_per_s, step_base_s, token_s, token_budget))
    )
    checked_points(1, rates, 1.0)
    if not np.all((base >= 0.0) & (token >= 0.0) & (budget > 0.0) & np.isfinite(base + token + budget)):
        raise ValueError("step_base_s and token_s must be finite and >= 0, token_budget finite and > 0")
    tokens = rates * prompts.mean_s
    load = tokens * (base + token * budget) / budget
    stable = load < 1.0
    rate = np.where(stable, rates, 0.0)
    work = token * rate * prompts.mean_s  # of the time, whatever the packing
    chunks = np.ceil(prompts.values_s / budget[..., None]) @ prompts.weights
    set_up = base * chunks  # of the steps that a prompt alone would need
    runs = _runs_per_s(rate, set_up, work, np.minimum(rate, rate * prompts.mean_s / budget))
    busy = np.minimum(1.0, runs * set_up + work)
    per_run = rate / np.maximum(runs, 1e-300)
    run_s = busy / np.maximum(runs, 1e-300)
    # a run reads what came during the one before: E[t'|t] = base + work t, Var[t'|t] = lambda t token^2 E[I^2]
    spread = rate * run_s * token**2 * prompts.moment(2) / np.maximum(1.0 - work**2, 1e-9)
    met_s = run_s + spread / np.maximum(run_s, 1e-300)  # mean run that an arrival falls into
    own = set_up + token * prompts.mean_s
    gated = own + busy * (0.5 + work) * met_s
    chunk_s = (base + token * budget) / budget
    pooled = np.where(stable, load, 0.0)
    queued = own + pooled * prompts.moment(2) / prompts.mean_s * chunk_s / (2.0 * (1.0 - pooled))
    total = np.maximum(gated, queued)
    return BatchedPrefill(
        load=load,
        stable=stable,
        busy=np.where(stable, busy, 1.0),
        runs_per_s=np.where(stable, runs, 1.0 / np.maximum(base + token * budget, 1e-300)),
        prompts_per_run=np.where(stable & (rate > 0.0), per_run, 1.0),
        ttft_mean_s=np.where(stable, total, np.inf),
        alone_load=rates * (base * chunks + token * prompts.mean_s),
    )


def _runs_per_s(rate: Floats, base: Floats, work: Floats, least: Floats) -> Floats:
    """r with r e^(-lambda t) = lambda (1 - r t), r t = r base + work; between full steps and one step per prompt."""
    low, high = np.minimum(least, rate), rate.copy()
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2.0
        busy = np.minimum(1.0, middle * base + work)
        step_s = busy / np.maximum(middle, 1e-300)
        too_few = middle * np.exp(-rate * step_s) < rate * (1.0 - busy)
        low, high = np.where(too_few, middle, low), np.where(too_few, high, middle)
    return (low + high) / 2.0
