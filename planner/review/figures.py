"""The part of a result document that only pictures need: distributions, operators, and the load that a plan carries."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from planner.records import Deployment, Plan, Prediction
from planner.review.document import document, plain, pools_document

if TYPE_CHECKING:
    from planner.sizing.front import FrontPoint

Document = dict[str, Any]

BELOW = (0.2, 0.4, 0.6, 0.8, 0.9, 1.0)  # of the load as it is
ABOVE = (0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.97)  # of the way from there to saturation


def drawable(
    plan: Plan, kinds: Sequence[str], points: Sequence[FrontPoint] = (), baseline: Mapping[str, Any] | None = None
) -> Document:
    """As `document`, with `figures` where `kinds` of them are asked for; `points` are the front of the plan."""
    result = document(plan, baseline)
    figures = figures_document(plan, kinds) if kinds else {}
    if points:
        figures["front"] = plain(front_document(plan, points))
    return result | {"figures": figures} if kinds or points else result


def front_document(plan: Plan, points: Sequence[FrontPoint]) -> list[Document]:
    """Every point of a front under its number, with its deployment."""
    priced = plan.money is not None and plan.money.usd_per_hour is not None
    return [
        {
            "number": number,
            "is_plan": point.deployment == plan.deployment,
            "usd_per_hour": point.usd_per_hour if priced else None,
            "accelerators": point.deployment.accelerators,
            "ttft_s": dict(point.outcome.ttft_s),
            "itl_s": dict(point.outcome.itl_s),
            "holds": point.holds,
            "mode": point.deployment.mode,
            "token_budget": (point.deployment.prefill or point.deployment.decode).token_budget or None,
            **pools_document(point.deployment),
        }
        for number, point in enumerate(points, 1)
    ]


def figures_document(plan: Plan, kinds: Sequence[str]) -> Document:
    """What the figures `kinds` are drawn from; nothing for those that the result itself holds, or without a plan."""
    makers: Mapping[str, tuple[str, Callable[[Plan, Deployment, Prediction], Any]]] = {
        "latency": ("distributions", _distributions),
        "roofline": ("operators", _operators),
        "load": ("load", _load),
    }
    deployment, prediction = plan.deployment, plan.prediction
    if deployment is None or prediction is None:
        return {}
    made = (makers[kind] for kind in kinds if kind in makers)
    return {name: plain(make(plan, deployment, prediction)) for name, make in made}


def _distributions(plan: Plan, deployment: Deployment, _: Prediction) -> Document:
    from planner.serving.curves import distributions

    return {
        name: [{"fraction_over": over, "value_s": s} for over, s in zip(one.share_over, one.value_s, strict=True)]
        for name, one in distributions(plan.scenario, deployment).items()
    }


def _operators(plan: Plan, deployment: Deployment, prediction: Prediction) -> list[Document]:
    from planner.serving.curves import role_work

    return [
        {
            "pool": work.pool,
            "accelerator": work.accelerator,
            "phase": work.phase,
            "name": one.name,
            "flops": one.flops,
            "moved_bytes": one.moved_bytes,
            "time_s": one.time_s,
            "flops_per_byte": one.flops_per_byte,
            "flops_per_s": one.flops_per_s,
        }
        for work in role_work(plan.scenario, deployment, prediction.decode.mean_batch)
        for one in work.operators
    ]


def _load(plan: Plan, _: Deployment, prediction: Prediction) -> Document:
    """The plan as it is under other loads, and the one at which it breaks: `whatif --vary load`."""
    from planner.sizing.sensitivity import sweep
    from planner.sizing.variables import VARIABLES

    rate = plan.scenario.workload.requests_per_s
    found = sweep(plan, VARIABLES["load"], load_factors(prediction.requests_per_s_max / rate))
    return {
        "requests_per_s": rate,
        "knee_requests_per_s": None if found.knee is None else found.knee * rate,
        "tightest": found.knee_tightest or None,
        "points": [
            {
                "requests_per_s": point.value * rate,
                "ttft_s": dict(point.outcome.ttft_s) if point.outcome else {},
                "itl_s": dict(point.outcome.itl_s) if point.outcome else {},
                "holds": point.holds,
            }
            for point in found.points
        ],
    }


def load_factors(most: float) -> list[float]:
    """Loads up to `most` times the one as it is, that one among them where it is below."""
    if most <= 1.0:
        return [float(share * most) for share in np.linspace(0.1, 1.0, 12)]
    return [*BELOW, *(1.0 + share * (most - 1.0) for share in ABOVE)]
