"""The document of `planner kv`: the result document of its plan, with everything about its KV under `kv`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from planner.records import Sessions
from planner.review.document import document, plain
from planner.serving.residency import Cliff, Settled, Sweep
from planner.sizing.kv import KvReport, SizePoint

Document = dict[str, Any]

HOLDS = 0.5  # of what a level finds at the least load, below which its hits count as lost


def kv_document(report: KvReport) -> Document:
    """The result document of the plan; its `kv` holds the curve, the cliff and the rest, null where not known."""
    result = document(report.plan)
    names = [row["tier"] for row in result["kv"]["tiers"]]
    sessions = report.plan.scenario.workload.sessions
    rate = report.plan.scenario.workload.requests_per_s
    result["kv"] |= plain(
        {
            "ceiling_fraction": report.ceiling_fraction,
            "hit_fraction": sum(row.get("hit_fraction") or 0.0 for row in result["kv"]["tiers"]),
            "accelerators_without": report.accelerators_without,
            "usd_per_hour_without": report.usd_per_hour_without,
            "accelerators_saved": _saved(report),
            "live_context_tokens": report.live_tokens,
            "settled": {start: _state(state) for start, state in report.states.items()},
            "size_curve": [_point(point) for point in report.points],
            "load_curve": _loads(report.swept, sessions, rate) if report.swept else [],
            "cliffs": [_cliff(cliff, names, sessions, rate) for cliff in report.cliffs],
            "routing": asdict(report.routing) if report.routing else None,
            "burst": asdict(report.burst) if report.burst else None,
            "decode_side": asdict(report.decode_side) if report.decode_side else None,
        }
    )
    return result


def _saved(report: KvReport) -> int | None:
    if report.accelerators_without is None or report.plan.deployment is None:
        return None
    return report.accelerators_without - report.plan.deployment.accelerators


def _state(state: Settled) -> Document:
    flow = state.flow
    return {
        "hit_fractions": list(state.hits),
        "requests_per_s": flow.requests_per_s,
        "ttft_mean_s": flow.ttft_s,
        "wait_s": flow.wait_s,
        "run_s": flow.run_s,
        "itl_mean_s": flow.itl_s,
        "mean_batch": flow.batch,
        "slots_batch": flow.slots_batch,
        "saturated": flow.saturated,
    }


def _point(point: SizePoint) -> Document:
    found = point.option
    return {
        "tier": point.tier,
        "capacity_bytes": point.capacity_bytes,
        "capacity_tokens": point.capacity_tokens,
        "hit_fraction": found.hit_fraction,
        "ttft_mean_s": found.ttft_mean_s,
        "prefill_accelerators": found.prefill_accelerators,
        "usd_per_hour": found.usd_per_hour,
        "meets_targets": found.meets_targets,
        "on_edge": found.on_edge,
    }


def _loads(swept: Sweep, sessions: Sessions | None, rate: float) -> list[Document]:
    return [
        {
            "load_factor": float(factor),
            "users": sessions.users * float(factor) if sessions else None,
            "requests_per_s": warm.flow.requests_per_s if sessions else rate * float(factor),
            "warm": _state(warm),
            "cold": _state(cold),
        }
        for factor, warm, cold in zip(swept.factors, swept.warm, swept.cold, strict=True)
    ]


def _cliff(cliff: Cliff, names: list[str], sessions: Sessions | None, rate: float) -> Document:
    def load(factor: float | None) -> float | None:
        if factor is None:
            return None
        return factor * (sessions.users if sessions else rate)

    lost = cliff.lost_at_factor
    return {
        "tier": names[cliff.level] if cliff.level < len(names) else None,
        "unit": "users" if sessions else "requests/s",
        "lost_at": load(lost),
        "recovers_below": load(cliff.recovers_at_factor),
        "margin_fraction": None if lost is None else 1.0 - 1.0 / lost,
    }
