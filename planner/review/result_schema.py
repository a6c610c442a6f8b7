"""The JSON Schema of a result document, for programs that read one.

What stands here is the contract: names, types and what may be null. New names may come in a later release, so a reader
ignores those it does not know.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, get_args

from planner.metrics import POOLS
from planner.records import METRICS, STATISTICS, Mode

Schema = dict[str, Any]

_DRAFT_7 = "http://json-schema.org/draft-07/schema#"

_TEXT: Schema = {"type": "string"}
_TEXT_OR_NULL: Schema = {"type": ["string", "null"]}
_FLAG: Schema = {"type": "boolean"}
_NUMBER: Schema = {"type": "number"}
_NUMBER_OR_NULL: Schema = {"type": ["number", "null"]}
_DEGREE: Schema = {"type": "integer", "minimum": 1}
_COUNT: Schema = {"type": "integer", "minimum": 0}
_COUNT_OR_NULL: Schema = {"type": ["integer", "null"], "minimum": 0}
_SHA256: Schema = {"type": "string", "pattern": "^([0-9a-f]{64})?$"}


def result_schema() -> Schema:
    """Of one result, or of the results that `planner check` gathers (draft 7)."""
    return {
        "$schema": _DRAFT_7,
        "title": "planner result",
        "description": "What `planner size`, `evaluate` and `check` print with --format json; base units throughout",
        "anyOf": [_named("result"), _named("gate")],
        "definitions": {
            "result": _result(),
            "gate": _gate(),
            "statistics": _object(dict.fromkeys(STATISTICS, _NUMBER_OR_NULL), ("mean",)),
            "pool": _pool(),
            "limit": _limit(),
            "check": _check(),
            "note": _object({"level": {"enum": ["info", "caution", "warning"]}, "text": _TEXT}, ("level", "text")),
            "sourced": _object({"value": _NUMBER, **_all(_TEXT_OR_NULL, "source retrieved kind")}),
            "inputs": _inputs(),
            "prediction": _prediction(),
        },
    }


def _named(name: str) -> Schema:
    return {"$ref": f"#/definitions/{name}"}


def _or_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def _list(item: Schema) -> Schema:
    return {"type": "array", "items": item}


def _map(value: Schema) -> Schema:
    return {"type": "object", "additionalProperties": value}


def _all(schema: Schema, names: str) -> Schema:
    """Properties of one kind, their names with blanks between them."""
    return dict.fromkeys(names.split(), schema)


def _object(properties: Schema, required: Iterable[str] | None = None) -> Schema:
    """Every property is required unless said; names that are not listed may stand beside them."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties if required is None else required),
    }


_HEAD: Schema = {"schema_version": {"const": 1}, "tool": _object({"name": {"const": "planner"}, "version": _TEXT})}
_MODE: Schema = {"enum": list(get_args(Mode))}
_LATENCIES = {f"{metric}_s": _named("statistics") for metric in METRICS}


def _result() -> Schema:
    always: Schema = {
        **_HEAD,
        "inputs": _named("inputs"),
        "verdict": {"enum": ["feasible", "infeasible"]},
        "plan": _or_null(_plan()),
        "prediction": _or_null(_named("prediction")),
        "limits": _list(_named("limit")),
        "kv": _kv(),
        "usd_per_mtok": _object(_all(_NUMBER_OR_NULL, "input output")),
        "energy": _object(_all(_NUMBER_OR_NULL, "watts joules_per_output_token")),
        "memory_per_accelerator": _map(_map(_NUMBER)),
        "search": _object(_all(_COUNT, "candidates picked"), ("candidates",)),
        "alternatives": _list(_alternative()),
        "notes": _list(_named("note")),
    }
    sometimes: Schema = {"nearest_miss": _nearest_miss(), "checks": _list(_named("check")), "figures": _figures()}
    return _object({**always, **sometimes}, always)


def _figures() -> Schema:
    """What pictures need beyond the rest; only what was asked for."""
    point = _object({"fraction_over": _NUMBER, "value_s": _NUMBER_OR_NULL})
    work = _all(_NUMBER, "flops moved_bytes time_s flops_per_byte flops_per_s")
    operator = _object(_all(_TEXT, "pool accelerator phase name") | work)
    under_load = {"requests_per_s": _NUMBER, **_all(_map(_NUMBER_OR_NULL), "ttft_s itl_s"), "holds": _FLAG}
    load = {
        "requests_per_s": _NUMBER,
        "knee_requests_per_s": _NUMBER_OR_NULL,
        "tightest": _TEXT_OR_NULL,
        "points": _list(_object(under_load)),
    }
    on_front = {
        **_all(_COUNT, "number accelerators"),
        **_all(_FLAG, "is_plan holds"),
        **_all(_named("statistics"), "ttft_s itl_s"),
        "usd_per_hour": _NUMBER_OR_NULL,
        "mode": _MODE,
        "token_budget": _COUNT_OR_NULL,
    }
    parts = {"distributions": _map(_list(point)), "operators": _list(operator), "load": _object(load)}
    return _object({**parts, "front": _list(_object(on_front))}, ())


def _gate() -> Schema:
    fault = _object(_all(_TEXT, "path text") | _all(_COUNT, "line column"))
    always: Schema = {
        **_HEAD,
        "verdict": _TEXT,
        "results": _list(_named("result")),
        "broken": _list(_object({"scenario": _TEXT, "faults": _list(fault)})),
        "summary": {"type": "object"},
    }
    return _object(always)


def _plan() -> Schema:
    always: Schema = {
        "mode": _MODE,
        "accelerators": _DEGREE,
        "usd_per_hour": _NUMBER_OR_NULL,
        "price_basis": _TEXT_OR_NULL,
    }
    schema = _object(always | dict.fromkeys(POOLS, _named("pool")), always)
    return {**schema, "anyOf": [{"required": ["prefill", "decode"]}, {"required": ["colocated"]}]}


def _pool() -> Schema:
    shape: Schema = {"accelerator": _TEXT} | _all(_DEGREE, "replicas tp pp ep dp accelerators")
    load = _all(_NUMBER_OR_NULL, "utilization mean_batch") | _all(_TEXT_OR_NULL, "trust trust_reason")
    return _object(shape | load | _all(_COUNT_OR_NULL, "max_batch token_budget"), shape)


def _prediction() -> Schema:
    span: Schema = {"type": "array", "items": _NUMBER_OR_NULL, "minItems": 2, "maxItems": 2}
    rates = "requests_per_s_max surplus_fraction output_tokens_per_s prefill_time_fraction"
    return _object(
        {
            **_LATENCIES,
            **_all(_NUMBER_OR_NULL, rates),
            **_all(_map(_NUMBER_OR_NULL), "ttft_parts_s decode_step_parts_s"),
            "intervals": _map(_map(span)),
            "coverage": {"type": "number", "minimum": 0, "maximum": 1},
        }
    )


def _limit() -> Schema:
    texts, numbers = "name unit what_would_relax_it", "value limit slack_fraction"
    return _object({**_all(_TEXT, texts), **_all(_NUMBER_OR_NULL, numbers), "binding": _FLAG})


def _check() -> Schema:
    return _object(
        {
            **_all(_TEXT, "name kind metric comparison unit text"),
            **_all(_NUMBER_OR_NULL, "limit value slack_fraction"),
            "statistic": _TEXT_OR_NULL,
            "interval": _or_null(_list(_NUMBER_OR_NULL)),
            "verdict": {"enum": ["pass", "at risk", "fail"]},
        }
    )


def _kv() -> Schema:
    always: Schema = {
        **_all(_NUMBER, "bytes_per_token bytes_per_token_beyond_window state_bytes_per_sequence"),
        "capacity_tokens": _NUMBER_OR_NULL,
        "demand_tokens": _object(_all(_NUMBER_OR_NULL, "mean p99")),
        "transfer": _or_null(_map(_NUMBER_OR_NULL)),
    }
    return _object({**always, "tiers": _list({"type": "object"})}, always)


def _alternative() -> Schema:
    return _object(
        {
            "mode": _MODE,
            "accelerators": _DEGREE,
            "feasible": _FLAG,
            "why_it_lost": _TEXT,
            **_all(_NUMBER_OR_NULL, "usd_per_hour requests_per_s_max"),
            **_LATENCIES,
        }
    )


def _nearest_miss() -> Schema:
    return _object(
        {
            "policy": _TEXT,
            "mode": _TEXT_OR_NULL,
            "accelerators": _COUNT_OR_NULL,
            "usd_per_hour": _NUMBER_OR_NULL,
            "missed": _list(_named("limit")),
        }
    )


def _inputs() -> Schema:
    numbers = _all(_NUMBER, "requests_per_s peak_factor peak_duration_s")
    workload = {"description": _TEXT, **numbers, **_all(_map(_NUMBER), "input_tokens output_tokens")}
    model = _all(_TEXT, "id architecture checkpoint_format weight_dtype kv_dtype source")
    engine = _all(_TEXT, "id version scheduling source retrieved kind")
    accelerator = {**_all(_TEXT, "id vendor status"), "efficiency_like": _TEXT_OR_NULL}
    return _object(
        {
            "scenario": _TEXT,
            "files": _list(_object({"path": _TEXT, "sha256": _SHA256})),
            "model": _object({**model, "max_context_tokens": _COUNT, "sha256": _SHA256}),
            "engine": _object({**engine, "constants": _map(_NUMBER), "sha256": _SHA256}),
            "accelerators": _list(_object({**accelerator, "values": _map(_named("sourced")), "sha256": _SHA256})),
            "network_bytes_per_s": _NUMBER_OR_NULL,
            "workload": _object(workload),
            "targets": _list(_object({**_all(_TEXT, "metric statistic"), "limit_s": _NUMBER})),
            "budgets": _list(_object({**_all(_TEXT, "name unit"), "limit": _NUMBER})),
            "deployment_given": _FLAG,
        }
    )
