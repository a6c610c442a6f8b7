"""The JSON Schema of a result document, for programs that read one.

What stands here is the contract: names, types and what may be null. New names may come in a later release, so a reader
ignores those it does not know.
"""

from __future__ import annotations

from typing import Any

from planner.records import METRICS, STATISTICS

Schema = dict[str, Any]

_DRAFT_7 = "http://json-schema.org/draft-07/schema#"
_MODES = ("disaggregated", "colocated-chunked", "colocated-whole-prompt")
_POOL_NAMES = ("prefill", "decode", "colocated")
_VERDICTS = ("feasible", "infeasible")

_TEXT: Schema = {"type": "string"}
_TEXT_OR_NULL: Schema = {"type": ["string", "null"]}
_FLAG: Schema = {"type": "boolean"}
_NUMBER: Schema = {"type": "number"}
_NUMBER_OR_NULL: Schema = {"type": ["number", "null"]}
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
            "sourced": _sourced(),
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


def _object(properties: Schema, required: tuple[str, ...] | None = None) -> Schema:
    """Every property is required unless said; names that are not listed may stand beside them."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties if required is None else required),
    }


def _tool() -> Schema:
    return _object({"name": {"const": "planner"}, "version": _TEXT})


def _result() -> Schema:
    always: Schema = {
        "schema_version": {"const": 1},
        "tool": _tool(),
        "inputs": _named("inputs"),
        "verdict": {"enum": list(_VERDICTS)},
        "plan": _or_null(_plan()),
        "prediction": _or_null(_named("prediction")),
        "limits": _list(_named("limit")),
        "kv": _kv(),
        "usd_per_mtok": _object({"input": _NUMBER_OR_NULL, "output": _NUMBER_OR_NULL}),
        "energy": _object({"watts": _NUMBER_OR_NULL, "joules_per_output_token": _NUMBER_OR_NULL}),
        "memory_per_accelerator": _map(_map(_NUMBER)),
        "search": _object({"candidates": _COUNT, "picked": _COUNT}, ("candidates",)),
        "alternatives": _list(_alternative()),
        "notes": _list(_named("note")),
    }
    sometimes: Schema = {"nearest_miss": _nearest_miss(), "checks": _list(_named("check")), "figures": _figures()}
    return _object({**always, **sometimes}, tuple(always))


def _figures() -> Schema:
    """What pictures need beyond the rest; only what was asked for."""
    point = _object({"fraction_over": _NUMBER, "value_s": _NUMBER_OR_NULL})
    names = dict.fromkeys(("pool", "accelerator", "phase", "name"), _TEXT)
    work = ("flops", "moved_bytes", "time_s", "flops_per_byte", "flops_per_s")
    operator = _object({**names, **dict.fromkeys(work, _NUMBER)})
    under_load = {"requests_per_s": _NUMBER, "ttft_s": _map(_NUMBER_OR_NULL), "itl_s": _map(_NUMBER_OR_NULL)}
    load = {
        "requests_per_s": _NUMBER,
        "knee_requests_per_s": _NUMBER_OR_NULL,
        "tightest": _TEXT_OR_NULL,
        "points": _list(_object({**under_load, "holds": _FLAG})),
    }
    on_front = {
        "number": _COUNT,
        "is_plan": _FLAG,
        "usd_per_hour": _NUMBER_OR_NULL,
        "accelerators": _COUNT,
        "ttft_s": _named("statistics"),
        "itl_s": _named("statistics"),
        "holds": _FLAG,
        "mode": {"enum": list(_MODES)},
        "token_budget": _COUNT_OR_NULL,
    }
    parts = {"distributions": _map(_list(point)), "operators": _list(operator), "load": _object(load)}
    return _object({**parts, "front": _list(_object(on_front))}, ())


def _gate() -> Schema:
    fault = _object({"path": _TEXT, "line": _COUNT, "column": _COUNT, "text": _TEXT})
    always: Schema = {
        "schema_version": {"const": 1},
        "tool": _tool(),
        "verdict": _TEXT,
        "results": _list(_named("result")),
        "broken": _list(_object({"scenario": _TEXT, "faults": _list(fault)})),
        "summary": {"type": "object"},
    }
    return _object(always)


def _plan() -> Schema:
    always: Schema = {
        "mode": {"enum": list(_MODES)},
        "accelerators": {"type": "integer", "minimum": 1},
        "usd_per_hour": _NUMBER_OR_NULL,
        "price_basis": _TEXT_OR_NULL,
    }
    pools = {name: _named("pool") for name in _POOL_NAMES}
    schema = _object({**always, **pools}, tuple(always))
    return {**schema, "anyOf": [{"required": ["prefill", "decode"]}, {"required": ["colocated"]}]}


def _pool() -> Schema:
    degree: Schema = {"type": "integer", "minimum": 1}
    shape: Schema = {"accelerator": _TEXT} | dict.fromkeys(("replicas", "tp", "pp", "ep", "dp", "accelerators"), degree)
    load: Schema = {"utilization": _NUMBER_OR_NULL, "trust": _TEXT_OR_NULL, "trust_reason": _TEXT_OR_NULL}
    batch: Schema = {"max_batch": _COUNT_OR_NULL, "mean_batch": _NUMBER_OR_NULL, "token_budget": _COUNT_OR_NULL}
    return _object({**shape, **load, **batch}, tuple(shape))


def _prediction() -> Schema:
    latencies = {f"{metric}_s": _named("statistics") for metric in METRICS}
    span: Schema = {"type": "array", "items": _NUMBER_OR_NULL, "minItems": 2, "maxItems": 2}
    return _object(
        {
            **latencies,
            "requests_per_s_max": _NUMBER_OR_NULL,
            "surplus_fraction": _NUMBER_OR_NULL,
            "output_tokens_per_s": _NUMBER_OR_NULL,
            "prefill_time_fraction": _NUMBER_OR_NULL,
            "ttft_parts_s": _map(_NUMBER_OR_NULL),
            "decode_step_parts_s": _map(_NUMBER_OR_NULL),
            "intervals": _map(_map(span)),
            "coverage": {"type": "number", "minimum": 0, "maximum": 1},
        }
    )


def _limit() -> Schema:
    return _object(
        {
            "name": _TEXT,
            "value": _NUMBER_OR_NULL,
            "limit": _NUMBER_OR_NULL,
            "unit": _TEXT,
            "slack_fraction": _NUMBER_OR_NULL,
            "binding": _FLAG,
            "what_would_relax_it": _TEXT,
        }
    )


def _check() -> Schema:
    return _object(
        {
            "name": _TEXT,
            "kind": _TEXT,
            "metric": _TEXT,
            "statistic": _TEXT_OR_NULL,
            "comparison": _TEXT,
            "limit": _NUMBER_OR_NULL,
            "value": _NUMBER_OR_NULL,
            "unit": _TEXT,
            "interval": _or_null(_list(_NUMBER_OR_NULL)),
            "slack_fraction": _NUMBER_OR_NULL,
            "verdict": {"enum": ["pass", "at risk", "fail"]},
            "text": _TEXT,
        }
    )


def _kv() -> Schema:
    always: Schema = {
        "bytes_per_token": _NUMBER,
        "bytes_per_token_beyond_window": _NUMBER,
        "state_bytes_per_sequence": _NUMBER,
        "capacity_tokens": _NUMBER_OR_NULL,
        "demand_tokens": _object({"mean": _NUMBER_OR_NULL, "p99": _NUMBER_OR_NULL}),
        "transfer": _or_null(_map(_NUMBER_OR_NULL)),
    }
    return _object({**always, "tiers": {"type": "array", "items": {"type": "object"}}}, tuple(always))


def _alternative() -> Schema:
    latencies = {f"{metric}_s": _named("statistics") for metric in METRICS}
    return _object(
        {
            "mode": {"enum": list(_MODES)},
            "accelerators": {"type": "integer", "minimum": 1},
            "usd_per_hour": _NUMBER_OR_NULL,
            "feasible": _FLAG,
            "why_it_lost": _TEXT,
            "requests_per_s_max": _NUMBER_OR_NULL,
            **latencies,
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


def _sourced() -> Schema:
    return _object({"value": _NUMBER, "source": _TEXT_OR_NULL, "retrieved": _TEXT_OR_NULL, "kind": _TEXT_OR_NULL})


def _inputs() -> Schema:
    lengths = _map(_NUMBER)
    workload = _object(
        {
            "description": _TEXT,
            "requests_per_s": _NUMBER,
            "peak_factor": _NUMBER,
            "peak_duration_s": _NUMBER,
            "input_tokens": lengths,
            "output_tokens": lengths,
        }
    )
    model = _object(
        {
            "id": _TEXT, "architecture": _TEXT, "checkpoint_format": _TEXT, "weight_dtype": _TEXT, "kv_dtype": _TEXT,
            "max_context_tokens": _COUNT, "source": _TEXT, "sha256": _SHA256,
        }
    )  # fmt: skip
    engine = _object(
        {
            "id": _TEXT, "version": _TEXT, "scheduling": _TEXT, "constants": _map(_NUMBER), "source": _TEXT,
            "retrieved": _TEXT, "kind": _TEXT, "sha256": _SHA256,
        }
    )  # fmt: skip
    accelerator = _object(
        {"id": _TEXT, "vendor": _TEXT, "status": _TEXT, "efficiency_like": _TEXT_OR_NULL,
         "values": _map(_named("sourced")), "sha256": _SHA256}
    )  # fmt: skip
    return _object(
        {
            "scenario": _TEXT,
            "files": _list(_object({"path": _TEXT, "sha256": _SHA256})),
            "model": model,
            "engine": engine,
            "accelerators": _list(accelerator),
            "network_bytes_per_s": _NUMBER_OR_NULL,
            "workload": workload,
            "targets": _list(_object({"metric": _TEXT, "statistic": _TEXT, "limit_s": _NUMBER})),
            "budgets": _list(_object({"name": _TEXT, "limit": _NUMBER, "unit": _TEXT})),
            "deployment_given": _FLAG,
        }
    )
