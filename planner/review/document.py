"""The result document: one plan as plain values, which every format renders.

Field names are stable across releases, in base units with the unit as the last part of the name, and listed in
`docs/nomenclature.md`. A number that is not finite, or that nothing bounds, is null.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from planner import __version__
from planner.records import (
    METRICS,
    STATISTICS,
    Alternative,
    Deployment,
    FormulaBand,
    Limit,
    Money,
    Note,
    Plan,
    Pool,
    PoolState,
    Prediction,
    Resilience,
    RoleName,
    Scenario,
    TierState,
)
from planner.review.checks import PASS, checks_of, gate, judged, summary
from planner.review.inputs import inputs_document
from planner.shapes.counts import kv_bytes_per_token, state_bytes_per_sequence

SCHEMA_VERSION = 1

Document = dict[str, Any]

NOTE_ORDER = {"warning": 0, "caution": 1, "info": 2}
GIVEN_POLICY = "plan and prediction describe the deployment as given; `planner size` finds one that holds, if any does"
NEAREST_POLICY = "plan and prediction describe the candidate that comes nearest to every limit; no limit was relaxed"
PICKED_POLICY = "plan and prediction describe the point of the front that was asked for"
NO_CANDIDATE_POLICY = "no candidate can hold the model, so there is no plan to describe"

TOKEN_SIDES = ("input", "cached_input", "output")
HOURS_PER_YEAR = 8760.0


@dataclass(frozen=True, slots=True)
class _Answer:
    """The parts of a plan that exist together: absent when no candidate can even hold the model."""

    scenario: Scenario
    deployment: Deployment
    prediction: Prediction
    money: Money


def document(plan: Plan, baseline: Mapping[str, Any] | None = None) -> Document:
    """Return the result document of a plan: plain dicts, lists, strings, finite numbers and None.

    `checks` holds the plan to every target, budget and expression of the scenario, and to `baseline`, an earlier result
    of it, where there is one. The same plan always gives the same document: no clock, no environment, and every order
    is defined. Without a deployment (no candidate holds the model) `plan` and `prediction` are null, and `limits` says
    why.
    """
    scenario, answer = plan.scenario, _answer(plan)
    result: Document = {
        "schema_version": SCHEMA_VERSION,
        "tool": {"name": "planner", "version": __version__},
        "inputs": inputs_document(
            scenario,
            deployment=answer.deployment if answer else None,
            price_basis=answer.money.basis if answer else "",
        ),
        "verdict": plan.verdict,
        "plan": _plan(answer) if answer else None,
        "prediction": _prediction(answer) if answer else None,
        "limits": [asdict(limit) for limit in _ranked(plan.limits)],
        "kv": _kv(scenario, plan.prediction),
        "usd_per_mtok": {side: plan.money.usd_per_mtok.get(side) if plan.money else None for side in TOKEN_SIDES},
        "cost": _cost(plan) if plan.money else None,
        "energy": {
            "watts": plan.money.watts if plan.money else None,
            "joules_per_output_token": plan.money.joules_per_output_token if plan.money else None,
        },
        "memory_per_accelerator": _memory(answer) if answer else {},
        "search": {"candidates": plan.candidates} | ({"picked": plan.picked} if plan.picked else {}),
        "resilience": _resilience(plan.resilience) if plan.resilience else None,
        "alternatives": [_alternative(alternative) for alternative in plan.alternatives],
    }
    if plan.verdict == "infeasible":
        result["nearest_miss"] = _nearest_miss(plan, answer)
    result["notes"] = _notes((*plan.notes, *scenario.notes, *(plan.prediction.notes if plan.prediction else ())))
    result = {name: plain(value) for name, value in result.items()}
    result["checks"] = plain(judged(result, checks_of(scenario), baseline))
    return result


def gate_document(results: Sequence[Document], faults: Sequence[Document], strict: bool) -> Document:
    """Return many results under one verdict, what could not be read beside them.

    Parameters
    ----------
    results : sequence of result documents
        In the order asked.
    faults : sequence of mappings
        Per broken scenario, `scenario` and its `faults`: path, line, column, text.
    strict : bool
        Whether a value whose interval passes its limit is a failure.
    """
    gated = [{**result, "gate": gate(result["checks"], strict)} for result in results]
    verdict = gate([line for result in gated for line in result["checks"]], strict)
    return {
        "schema_version": SCHEMA_VERSION,
        "tool": {"name": "planner", "version": __version__},
        "verdict": "broken" if faults else verdict if results else PASS,
        "strict": strict,
        "summary": summary(gated, len(faults)),
        "results": gated,
        "broken": list(faults),
    }


def gated(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """A document of many results: itself, or a single result as the only one."""
    return document if "results" in document else gate_document([dict(document)], [], strict=False)


def _answer(plan: Plan) -> _Answer | None:
    if plan.deployment is None or plan.prediction is None or plan.money is None:
        return None
    return _Answer(plan.scenario, plan.deployment, plan.prediction, plan.money)


# -------------------------------------------------------------------------------------------------- plan, prediction


def _plan(answer: _Answer) -> Document:
    deployment, prediction = answer.deployment, answer.prediction
    result: Document = {
        "mode": deployment.mode,
        "accelerators": deployment.accelerators,
        "usd_per_hour": answer.money.usd_per_hour,
        "price_basis": answer.money.basis or None,
    }
    for name, pool in deployment.named_pools.items():
        held = _pool(pool) | _load(_state(prediction, name))
        if name != "prefill":
            held |= {"max_batch": pool.max_batch or None, "mean_batch": prediction.decode.mean_batch}
        if name != "decode" or pool.token_budget:
            held["token_budget"] = pool.token_budget or answer.scenario.engine.token_budget
        result[name] = held
    return result


def _pool(pool: Pool) -> Document:
    return {
        "accelerator": pool.accelerator,
        "replicas": pool.replicas,
        "tp": pool.tp,
        "pp": pool.pp,
        "ep": pool.ep,
        "dp": pool.dp,
        "accelerators": pool.accelerators,
    }


def pools_document(deployment: Deployment) -> Document:
    """The pools of a deployment by name, without what load does to them."""
    return {name: _pool(pool) for name, pool in deployment.named_pools.items()}


def _state(prediction: Prediction, name: RoleName) -> PoolState | None:
    return prediction.prefill if name == "prefill" else prediction.decode


def _load(state: PoolState | None) -> Document:
    if state is None:
        return {"utilization": None, "trust": None, "trust_reason": None}
    return {"utilization": state.utilization, "trust": state.trust, "trust_reason": state.trust_reason or None}


def _prediction(answer: _Answer) -> Document:
    prediction, workload = answer.prediction, answer.scenario.workload
    return {
        **_latency(prediction),
        "requests_per_s_max": prediction.requests_per_s_max,
        "surplus_fraction": prediction.requests_per_s_max / (workload.requests_per_s * workload.peak_factor) - 1.0,
        "output_tokens_per_s": prediction.output_tokens_per_s,
        "prefill_time_fraction": prediction.prefill_time_fraction,
        "ttft_parts_s": _bare(prediction.ttft_parts_s, "_s"),
        "decode_step_parts_s": _bare(prediction.step_parts_s, "_s"),
        "intervals": {
            name: {key: list(values[key]) for key in STATISTICS if key in values}
            for name, values in ((f"{metric}_s", prediction.intervals.get(f"{metric}_s", {})) for metric in METRICS)
            if values
        },
        "coverage": prediction.coverage,
        "formula_bands": {
            name: {key: _formula_band(values[key]) for key in STATISTICS if key in values}
            for name, values in prediction.formula_bands.items()
        },
    }


def _formula_band(band: FormulaBand) -> Document:
    return {"band": [band.low_s, band.high_s], "trust": band.trust, "trust_reason": band.reason or None}


def _latency(prediction: Prediction) -> Document:
    """Every statistic of every latency; a statistic the prediction does not hold is null."""
    return {
        f"{metric}_s": {key: getattr(prediction, f"{metric}_s").get(key) for key in STATISTICS} for metric in METRICS
    }


def _bare(parts: Mapping[str, float], suffix: str) -> dict[str, float]:
    """Parts by name, without the unit that the field around them already states."""
    return {name.removesuffix(suffix): value for name, value in parts.items()}


def _memory(answer: _Answer) -> Document:
    return {
        name: _memory_parts(answer.scenario, pool, state)
        for name, pool in answer.deployment.named_pools.items()
        if (state := _state(answer.prediction, name))
    }


def _memory_parts(scenario: Scenario, pool: Pool, state: PoolState) -> Document:
    capacity_bytes = scenario.accelerator(pool.accelerator).memory_bytes
    parts = {name: size for name, size in _bare(state.memory_bytes, "_bytes").items() if name != "free"}
    parts["free"] = max(capacity_bytes - sum(parts.values()), 0.0)  # the sum may pass by rounding
    return {"capacity_bytes": capacity_bytes, **{f"{name}_bytes": size for name, size in parts.items()}}


def _kv(scenario: Scenario, prediction: Prediction | None) -> Document:
    """KV of one sequence, and of one worker of the pool that decodes."""
    model, kv_dtype = scenario.model, scenario.kv_dtype
    state = prediction.decode if prediction else None
    transfer = prediction.transfer if prediction else None
    capacity_tokens = state.kv_capacity_tokens if state else None
    return {
        "bytes_per_token": kv_bytes_per_token(model, kv_dtype),
        "bytes_per_token_beyond_window": kv_bytes_per_token(model, kv_dtype, beyond_window=True),
        "state_bytes_per_sequence": state_bytes_per_sequence(model),
        "capacity_tokens": capacity_tokens,
        "demand_tokens": {
            "mean": state.kv_mean_tokens if state else None,
            "p99": state.kv_p99_tokens if state else None,
        },
        "tiers": _tiers(prediction, capacity_tokens),
        "transfer": asdict(transfer) if transfer else None,
    }


def _cost(plan: Plan) -> Document:
    """The price by part, with the range of its quotes, and the prices that would make another plan as cheap."""
    spent, money = plan.money, plan.money.usd_per_hour if plan.money else None
    if spent is None:
        return {}
    return {
        "usd_per_hour": money,
        "usd_per_year": None if money is None else money * HOURS_PER_YEAR,
        "usd_per_request": spent.usd_per_request,
        "duty_fraction": plan.scenario.costs.duty_fraction,
        "low_usd_per_hour": sum(line.low_usd_per_hour for line in spent.lines) if spent.lines else None,
        "high_usd_per_hour": sum(line.high_usd_per_hour for line in spent.lines) if spent.lines else None,
        "lines": [{**asdict(line), **asdict(line.provenance)} for line in spent.lines],
        "flips": [asdict(flip) for flip in spent.flips],
    }


def _resilience(found: Resilience) -> Document:
    """The plan with its spare workers gone."""
    return {
        "domain": found.domain,
        "held_fraction": found.held_fraction,
        "target_fraction": found.target_fraction,
        "spare_accelerators": found.spare_accelerators,
        "spare_usd_per_hour": found.spare_usd_per_hour,
        "spare_workers": {name: asdict(pool) for name, pool in found.pools.items()},
        "ttft_s": dict(found.ttft_s),
        "itl_s": dict(found.itl_s),
        "tpot_s": dict(found.tpot_s),
        "e2e_s": dict(found.e2e_s),
    }


def _tiers(prediction: Prediction | None, capacity_tokens: float | None) -> list[Document]:
    """Places that hold KV, the accelerator's memory first; it alone, of one worker, where nothing is cached."""
    if prediction is None or not prediction.tiers:
        return [{"tier": "hbm", "capacity_tokens": capacity_tokens}]
    return [tier_row(state) for state in prediction.tiers]


def tier_row(state: TierState) -> Document:
    """One place that holds KV, under its name in documents."""
    row = asdict(state)
    return {"tier": row.pop("id"), **row}


# -------------------------------------------------------------------------------------------- limits and alternatives


def _ranked(limits: Iterable[Limit]) -> list[Limit]:
    """Tightest first; equal slack by name. A limit passed without bound comes first, an undefined one last."""
    return sorted(limits, key=lambda limit: (math.isnan(limit.slack_fraction), limit.slack_fraction, limit.name))


def _nearest_miss(plan: Plan, answer: _Answer | None) -> Document:
    return {
        "policy": _policy(plan, answer),
        "mode": answer.deployment.mode if answer else None,
        "accelerators": answer.deployment.accelerators if answer else None,
        "usd_per_hour": answer.money.usd_per_hour if answer else None,
        "missed": [asdict(limit) for limit in _ranked(plan.missed or (() if answer else plan.limits))],
    }


def _policy(plan: Plan, answer: _Answer | None) -> str:
    if answer is None:
        return NO_CANDIDATE_POLICY
    if plan.picked:
        return PICKED_POLICY
    return NEAREST_POLICY if plan.candidates > 1 else GIVEN_POLICY


def _alternative(alternative: Alternative) -> Document:
    deployment, prediction = alternative.deployment, alternative.prediction
    return {
        "mode": deployment.mode,
        "accelerators": deployment.accelerators,
        "usd_per_hour": alternative.usd_per_hour,
        **pools_document(deployment),
        "feasible": alternative.feasible,
        "why_it_lost": alternative.why_it_lost,
        **_latency(prediction),
        "requests_per_s_max": prediction.requests_per_s_max,
    }


def _notes(notes: Sequence[Note]) -> list[Document]:
    """Each note once, most serious first, otherwise in the order they were raised."""
    unique = dict.fromkeys(notes)
    return [asdict(note) for note in sorted(unique, key=lambda note: NOTE_ORDER[note.level])]


# -------------------------------------------------------------------------------------------------------------- plain


def plain(value: Any) -> Any:
    """Plain containers and numbers: NumPy scalars unwrapped, anything not finite turned into None."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
