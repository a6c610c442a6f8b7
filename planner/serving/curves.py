"""What pictures of a deployment show beyond its prediction: distributions, and its operators in a roofline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from planner.records import PROBABILITY, Deployment, Floats, Scenario
from planner.roofline.work import OperatorWork, decode_work, prefill_work
from planner.serving.predict import bound_roles, evaluate_at
from planner.serving.role import Role
from planner.serving.traffic import scenario_traffic

POINTS = 12  # levels per factor of ten in the share that takes longer


@dataclass(frozen=True, slots=True, eq=False)
class Distribution:
    """`share_over[i]` of the requests, or of the tokens, take longer than `value_s[i]`; shares fall."""

    share_over: Floats
    value_s: Floats


@dataclass(frozen=True, slots=True)
class RoleWork:
    """The operators of one step of one phase on one accelerator of a pool."""

    pool: str
    accelerator: str
    phase: str  # prefill | decode
    operators: tuple[OperatorWork, ...]


def distributions(scenario: Scenario, deployment: Deployment) -> Mapping[str, Distribution]:
    """TTFT over requests and ITL over tokens, by the same quantiles as their statistics; empty where nothing settles.

    The levels hold those of `records.PROBABILITY`. Raises FieldError as `predict`.
    """
    outcome = evaluate_at(scenario, deployment, scenario_traffic(scenario))
    levels = _levels()
    return {
        name: Distribution(1.0 - levels, np.array([quantile_s(float(q)) for q in levels]))
        for name, quantile_s in outcome.quantile_s.items()
    }


def _levels() -> Floats:
    """Even steps of the logarithm of the share that takes longer, and every level that has a statistic."""
    over = np.append(np.geomspace(0.99, 0.1, POINTS), np.geomspace(0.1, 1e-3, 2 * POINTS + 1))
    known = np.array(list(PROBABILITY.values()))
    near = np.min(np.abs(over[:, None] - (1.0 - known)), axis=1) < 1e-6  # given once
    return np.sort(np.concatenate([1.0 - over[~near], known]))


def role_work(scenario: Scenario, deployment: Deployment, mean_batch: float) -> tuple[RoleWork, ...]:
    """Operators of a chunk of the mean prompt, and of a decode step of `mean_batch` sequences at their mean context.

    Raises FieldError as `predict`.
    """
    prefill, decode = bound_roles(scenario, deployment, scenario_traffic(scenario))
    return (_prefill(prefill), _decode(decode, mean_batch))


def _prefill(role: Role) -> RoleWork:
    traffic = role.traffic
    cached = float(traffic.input_weights @ traffic.cached_tokens)
    work = prefill_work(role.worker, traffic.mean_input_tokens, role.token_budget, role.dp, cached)
    return RoleWork(role.name, role.accelerator.id, "prefill", work)


def _decode(role: Role, mean_batch: float) -> RoleWork:
    context, scv = role.traffic.context_moments[0], role.traffic.context_scv
    work = decode_work(role.worker, max(mean_batch, 1.0), context, scv)
    return RoleWork(role.name, role.accelerator.id, "decode", work)
