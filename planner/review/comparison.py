"""The document of a comparison: every architecture at equal targets and headroom, and which is the cheapest."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from planner import __version__
from planner.review.document import SCHEMA_VERSION, document, plain
from planner.review.inputs import catalog_hash
from planner.sizing.candidates import MAX_UTILIZATION
from planner.sizing.compare import Comparison, Contender

Document = dict[str, Any]

SHOWN_STATISTICS = ("p50", "p99")


def comparison_document(comparison: Comparison) -> Document:
    """Plain values, finite numbers and None; the same comparison gives the same document."""
    scenario = comparison.scenario
    result: Document = {
        "schema_version": SCHEMA_VERSION,
        "tool": {"name": "planner", "version": __version__},
        "scenario": scenario.name,
        "catalog_hash": catalog_hash(scenario),
        "files": [asdict(file) for file in scenario.inputs],
        "price_basis": comparison.basis or None,
        "headroom_fraction": 1.0 - MAX_UTILIZATION,
        "targets": [asdict(target) for target in scenario.targets],
        "winner": comparison.winner or None,
        "runner_up": comparison.runner_up or None,
        "advantage_fraction": comparison.advantage_fraction,
        "why": comparison.reason,
        "causes": [{"term": one.term, "lead_fraction": one.lead_fraction} for one in comparison.causes],
        "ends": [asdict(end) for end in comparison.ends],
        "contenders": [_contender(comparison, one) for one in comparison.contenders],
    }
    return {name: plain(value) for name, value in result.items()}


def _contender(comparison: Comparison, contender: Contender) -> Document:
    plan = contender.plan
    described = document(plan) if plan is not None else None
    if plan is None or plan.deployment is None or described is None or described["prediction"] is None:
        return {"contender": contender.name, "verdict": None, "why_not": contender.why_not}
    predicted, workload = described["prediction"], comparison.scenario.workload
    served = workload.requests_per_s * workload.peak_factor / plan.deployment.accelerators
    return {
        "contender": contender.name,
        "verdict": plan.verdict,
        "why_not": None,
        "accelerators": plan.deployment.accelerators,
        "usd_per_hour": plan.money.usd_per_hour if plan.money else None,
        "requests_per_s_per_accelerator": served,
        "requests_per_s_max": predicted["requests_per_s_max"],
        **{name: {key: predicted[name][key] for key in SHOWN_STATISTICS} for name in ("ttft_s", "itl_s")},
        "intervals": {
            name: {key: values[key] for key in SHOWN_STATISTICS if key in values}
            for name, values in predicted["intervals"].items()
            if name in ("ttft_s", "itl_s")
        },
        "tightest_limit": asdict(contender.binding) if contender.binding else None,
        "plan": described["plan"],
    }
