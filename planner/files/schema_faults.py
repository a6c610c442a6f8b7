"""What is wrong with the form of a scenario file: every fault once, at its own place, with what to write instead."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from planner.errors import Fault
from planner.files.nearest import did_you_mean, nearest
from planner.files.schema import ScenarioKeys
from planner.files.yamlfile import Document, FieldPath
from planner.units import shown

# What to write after a key that was given without a value.
_EXAMPLES: Mapping[str, str] = {
    "version": "1", "model": "meta-llama/Llama-3.1-70B", "weights": "fp8", "kv_cache": "fp8", "engine": "vllm",
    "hardware": "{accelerators: [h100-sxm]}", "accelerators": "[h100-sxm, h200-sxm]", "network": "400 Gb/s",
    "workload": "{requests: 12 /s, input_tokens: 4000, output_tokens: 500}", "requests": "12 /s",
    "arrivals": "{scv: 1}", "scv": "1", "peak": "{factor: 1.9, duration: 5 min}", "factor": "1.9", "duration": "5 min",
    "input_tokens": "{mean: 4000, p99: 16000}", "output_tokens": "{mean: 500, p99: 2000}", "fixed": "500",
    "trace": "traffic.csv", "path": "traffic.csv", "targets": "{ttft: {p99: 800 ms}, itl: {p99: 30 ms}}",
    "ttft": "{p99: 800 ms}", "itl": "{p99: 30 ms}", "tpot": "{p99: 30 ms}", "e2e": "{p99: 20 s}",
    "budgets": "{accelerators: 64}", "usd_per_hour": "200 USD/h", "usd_per_mtok_output": "1.20 USD/Mtok",
    "usd_per_mtok_input": "0.20 USD/Mtok", "mode": "disaggregated", "accelerator": "h100-sxm",
    "deployment": "{mode: colocated, colocated: {accelerator: h100-sxm, replicas: 2, tp: 4}}",
    "colocated": "{accelerator: h100-sxm, replicas: 2, tp: 4}", "replicas": "2", "tp": "4", "pp": "1", "ep": "4",
    "watts": "40 kW", "checks": "[ttft.p99 <= 800 ms]", "engine_version": '"0.11.0"', "router": "round-robin",
    "availability": "{spare: 1}", "spare": "1", "target": "99.9 %", "domain": "node", "mtbf": "50000 h",
    "repair": "1 h", "kv_tiers": "{host-dram: 1 TB}",
    "cost": "{basis: 3-year}", "basis": "3-year", "sheet": "prices.yaml", "duty": "40 %",
    "prefix_hit_ratio": "0.6", "dp": "4", "max_batch": "128", "token_budget": "8192",
}  # fmt: skip
_BY_PLACE: Mapping[tuple[str, str], str] = {
    ("hardware", "prefill"): "[h100-sxm]", ("hardware", "decode"): "[h200-sxm]", ("budgets", "accelerators"): "64",
    ("deployment", "prefill"): "{accelerator: h100-sxm, replicas: 2, tp: 4}",
    ("deployment", "decode"): "{accelerator: h200-sxm, replicas: 4, tp: 2}",
    **{(name, key): "500" for name in ("input_tokens", "output_tokens") for key in ("mean", "p50", "p99")},
}  # fmt: skip
_REQUIRED = ("model", "workload", "targets")

# Keys of the format that this version does not act on. They are refused, because ignoring them would answer another
# question than the one asked.
REFUSED: Mapping[FieldPath, str] = {
    ("workload", "concurrency"): "closed-loop load is not sized yet; give requests: with a rate, e.g. 12 /s",
}

_STANDS_FOR: Mapping[FieldPath, str] = {("workload", "concurrency"): "requests"}


def validate(document: Document) -> tuple[ScenarioKeys, frozenset[FieldPath], list[Fault]]:
    """What the file says without its broken parts, the paths of those, and a fault for each.

    What remains is sound, so a reader can go on and report the faults of meaning together with those of form.
    """
    value = document.value
    if not isinstance(value, dict):
        fault = f"want a mapping with the keys model, hardware, workload, targets; got {shown(value)}"
        return ScenarioKeys(), frozenset([()]), [document.fault((), fault)]
    faults = list(document.faults)
    broken: set[FieldPath] = set()
    for path in _given_nothing(value):
        if not document.is_bad(path):
            faults.append(document.fault(path, _empty(path)))
        broken.add(path)
        value = _without(value, path)
    first = True
    while True:
        try:
            return ScenarioKeys.model_validate(value), frozenset(broken), faults
        except ValidationError as error:
            problems = error.errors(include_url=False)
        if first:  # later rounds only say what the missing parts leave incomplete
            broken |= {meant for problem in problems if (meant := _meant(problem))}
            faults += [_fault(document, problem) for problem in problems if not _follows(problem["loc"], broken)]
        first = False
        for problem in problems:
            path = _standing(value, problem["loc"])
            broken.add(path)
            value = _without(value, path)


def _follows(path: FieldPath, broken: Collection[FieldPath]) -> bool:
    """Whether a fault at `path` only says what a part that was taken out leaves incomplete."""
    return any(other[: len(path)] == path for other in broken)


def _given_nothing(value: Any, path: FieldPath = ()) -> list[FieldPath]:
    """Every known key, and every item of a list, that is given without a value, or empty."""
    found: list[FieldPath] = []
    known = _keys_at(path) if isinstance(value, dict) else ()
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in items:
        here = (*path, key)
        if part is None or part in ({}, []):
            found += [here] if isinstance(key, int) or key in known else []
        elif (isinstance(key, int) or key in known) and here not in REFUSED:
            found += _given_nothing(part, here)
    return found


def _empty(path: FieldPath) -> str:
    """What to say of a key without a value."""
    key = str(path[-1])
    if isinstance(path[-1], int):
        return "is empty; write a value, or remove the item"
    example = _BY_PLACE.get((str(path[-2]), key)) if len(path) > 1 else None
    if example is None and path[0] == "targets" and len(path) > 2:
        example = "800 ms"
    example = example or _EXAMPLES.get(key)
    remove = "" if path in {(name,) for name in _REQUIRED} else ", or remove the key"
    return f"is empty; write {f'e.g. {key}: {example}' if example else 'a value'}{remove}"


def _meant(problem: Mapping[str, Any]) -> FieldPath | None:
    """The key that an unknown one stands for, so that it is not reported as missing too."""
    path: FieldPath = problem["loc"]
    if problem["type"] != "extra_forbidden":
        return None
    key = _STANDS_FOR.get(path) or nearest(str(path[-1]), _keys_at(path[:-1]))
    return (*path[:-1], key) if key else None


def _without(value: Any, path: FieldPath) -> Any:
    """`value` without what stands at `path`; an item of a list becomes None, so that the others keep their place."""
    if path and isinstance(value, list) and isinstance(path[0], int):
        inner = None if len(path) == 1 else _without(value[path[0]], path[1:])
        return [*value[: path[0]], inner, *value[path[0] + 1 :]]
    if not path or not isinstance(value, dict) or path[0] not in value:
        return value
    rest = {key: part for key, part in value.items() if key != path[0]}
    return rest if len(path) == 1 else {**rest, path[0]: _without(value[path[0]], path[1:])}


def _fault(document: Document, problem: Mapping[str, Any]) -> Fault:
    path: FieldPath = problem["loc"]
    kind = problem["type"]
    if kind == "extra_forbidden":
        return _unknown_key(document, path)
    path = _standing(document.value, path)
    if kind == "missing":
        return document.fault(path, f"needs the key {problem['loc'][-1]}")
    got = shown(problem["input"])
    if kind == "list_type":
        example = (
            "" if problem["input"] is None or isinstance(problem["input"], dict) else f", e.g. [{problem['input']}]"
        )
        return document.fault(path, f"want a list{example}; got {got}")
    if kind in ("model_type", "dict_type"):
        return document.fault(path, f"want a mapping with the keys {', '.join(_keys_at(path))}; got {got}")
    return document.fault(path, str(problem["ctx"]["error"]) if "ctx" in problem else str(problem["msg"]))


def _unknown_key(document: Document, path: FieldPath) -> Fault:
    refused = REFUSED.get(path)
    if refused:
        return document.fault(path, refused)
    key = str(path[-1])
    return document.fault((*path[:-1], key), f"unknown key; {did_you_mean(key, _keys_at(path[:-1]))}")


def _standing(value: Any, path: FieldPath) -> FieldPath:
    """`path` without the last parts that are no keys of the file: a missing key, or a bare value for a mapping."""
    for depth, part in enumerate(path):
        if not isinstance(value, dict) or part not in value:
            return path[:depth]
        value = value[part]
    return path


def _keys_at(path: FieldPath) -> list[str]:
    """The keys that the mapping at `path` may have."""
    model: type[BaseModel] = ScenarioKeys
    named = False  # the next part is a name of the user's, not a key
    for part in path:
        if named:
            named = False
            continue
        for name, field in model.model_fields.items():
            if part in (name, field.alias):
                model = _model_of(field.annotation) or model
                named = _holds_names(field.annotation)
                break
    return [field.alias or name for name, field in model.model_fields.items()]


def _holds_names(annotation: Any) -> bool:
    parts = get_args(annotation)
    return get_origin(annotation) is dict or any(_holds_names(part) for part in parts)


def _model_of(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if get_origin(annotation) in (UnionType, Union, list, dict, Annotated):
        return next(filter(None, map(_model_of, get_args(annotation))), None)
    return None
