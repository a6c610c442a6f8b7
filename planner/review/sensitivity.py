"""What changes do to a plan, as plain values: the document of `planner whatif`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from planner import __version__
from planner.records import STATISTICS, Deployment, Plan
from planner.review.document import plain, pools_document
from planner.review.inputs import catalog_hash
from planner.sizing.candidates import MAX_UTILIZATION
from planner.sizing.failures import Failure
from planner.sizing.sensitivity import Case, Flip, Sensitivity, Sweep

SCHEMA_VERSION = 1

Document = dict[str, Any]


def sensitivity_document(found: Sensitivity) -> Document:
    """The default set: `cases` in the order they were asked, `flips_first` and `best_buy` null where there is none."""
    return _head(found.plan, found.basis, found.base) | {
        "cases": [_case(case, found.base) for case in found.cases],
        "flips_first": _flip(found.flip),
        "best_buy": _case(found.best_buy, found.base) if found.best_buy else None,
        "failures": [_failure(failure) for failure in found.failures],
    }


def sweep_document(found: Sweep) -> Document:
    """One variable over a range: `cases` are its points; `knee` is null where the plan breaks nowhere inside."""
    knee = None
    if found.knee is not None:
        knee = {
            "value": found.knee,
            "tightest": found.knee_tightest,
            "requests_per_s": found.plan.scenario.workload.requests_per_s * found.knee
            if found.variable.name == "load"
            else None,
        }
    return _head(found.plan, found.basis, found.base) | {
        "variable": found.variable.name,
        "meaning": found.variable.meaning,
        "cases": [_case(point, found.base) for point in found.points],
        "knee": knee,
    }


def _head(plan: Plan, basis: str, base: Case) -> Document:
    scenario = plan.scenario
    return {
        "schema_version": SCHEMA_VERSION,
        "tool": {"name": "planner", "version": __version__},
        "scenario": scenario.name,
        "catalog_hash": catalog_hash(scenario),
        "requests_per_s": scenario.workload.requests_per_s,
        "price_basis": basis or None,
        "usd_per_hour": plan.money.usd_per_hour if plan.money else None,
        "headroom_fraction": 1.0 - MAX_UTILIZATION,
        "targets": [asdict(target) for target in scenario.targets],
        "base": _case(base, base),
    }


def _case(case: Case, base: Case) -> Document:
    outcome = case.outcome
    result: Document = plain(
        {
            "name": case.name,
            "change": case.change,
            "kind": case.kind,
            "variable": case.variable or None,
            "value": case.value,
            "plan": _deployment(case.deployment),
            "ttft_s": dict.fromkeys(STATISTICS) if outcome is None else dict(outcome.ttft_s),
            "itl_s": dict.fromkeys(STATISTICS) if outcome is None else dict(outcome.itl_s),
            "tpot_s": dict.fromkeys(STATISTICS) if outcome is None else dict(outcome.tpot_s),
            "holds": case.holds,
            "slack_fraction": case.slack_fraction,
            "tightest": case.tightest or None,
            "utilization": case.utilization,
            "capacity_factor": base.utilization / case.utilization if case.utilization > 0.0 else None,
            "extra_usd_per_hour": case.extra_usd_per_hour,
            "extra_accelerators": case.extra_accelerators,
            "repaired": _deployment(case.repaired),
            "why": case.why or None,
        }
    )
    return result


def _failure(failure: Failure) -> Document:
    outcome = failure.outcome
    result: Document = plain(
        {
            "name": failure.name,
            "route": failure.route,
            "during": {
                "lost_workers": failure.lost_workers,
                "lost_requests": failure.lost_requests,
                "work_s": failure.work_s,
                "ttft_added_s": failure.ttft_added_s,
                "stall_s": failure.stall_s,
                "drain_s": failure.drain_s,
                "write_fraction": failure.write_fraction,
            },
            "after": {
                "ttft_s": dict.fromkeys(STATISTICS) if outcome is None else dict(outcome.ttft_s),
                "itl_s": dict.fromkeys(STATISTICS) if outcome is None else dict(outcome.itl_s),
                "holds": failure.holds,
                "why": failure.why or None,
            },
            "back": {"restart_s": failure.restart_s, "repair_s": failure.repair_s},
            "spare_usd_per_hour": failure.spare_usd_per_hour,
            "simulate": _simulated(failure),
        }
    )
    return result


def _simulated(failure: Failure) -> str | None:
    """Options of `planner simulate` that lose the same."""
    if not failure.fail:
        return None
    return f"--fail {failure.fail}" + (f" --restore {failure.restore}" if failure.restore else "")


def _deployment(deployment: Deployment | None) -> Document | None:
    if deployment is None:
        return None
    return {
        "mode": deployment.mode,
        "accelerators": deployment.accelerators,
        "max_batch": deployment.decode.max_batch or None,
        **pools_document(deployment),
    }


def _flip(flip: Flip | None) -> Document | None:
    if flip is None:
        return None
    return {**asdict(flip), "tightest": flip.tightest or None}
