"""Where a number of a result comes from, as a tree: its formula, the parts that went in, and their sources.

A part is a number of the same result. Where a formula is arithmetic on its parts, it is recomputed here, and shown as
such only when it gives the number; a law (a quantile, a fixed point, a sum over operators) is named with what it
depends on instead. Inputs and catalog values end a branch, with where they stand or come from.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from planner.records import METRICS, STATISTICS
from planner.review.diff import flat, unit_of
from planner.review.explain_rules import Rule, pools, rule_of
from planner.review.formulas import Formula, formulas
from planner.review.result import is_number

Document = dict[str, Any]
Reading = Mapping[str, Any]

SCHEMA_VERSION = 1
SAME = 1e-9  # relative: how exactly the parts of a formula must give its number


class UnknownField(LookupError):
    """No number of the result goes by this name; `known` are those that one may ask for."""

    def __init__(self, name: str, known: Sequence[str]) -> None:
        super().__init__(name)
        self.known = tuple(known)


def explain_document(result: Reading, name: str) -> Document:
    """Return the tree behind one number of a result document. Raises UnknownField: the result has no such number."""
    values = flat(result)
    field = resolve(result, values, name)
    return {
        "schema_version": SCHEMA_VERSION,
        "kind": "explanation",
        "scenario": result["inputs"]["scenario"],
        "field": field,
        "tree": _node(result, values, field, ()),
    }


def listed(result: Reading | None = None) -> list[Document]:
    """Return every formula, or every number of a result with the formula behind it."""
    if result is None:
        return [asdict(formula) for formula in formulas().values()]
    values = flat(result)
    return [
        {"field": field, "value": value, "unit": unit_of(field), "formula": rule.formula if rule else None}
        for field, value in values.items()
        if is_number(value)
        for rule in [rule_of(result, values, field)]
        if rule is not None or field.startswith("inputs.")
    ]


# --------------------------------------------------------------------------------------------------------------- names


def resolve(result: Reading, values: Mapping[str, Any], name: str) -> str:
    """The path of a field by its full name, by the name that budgets use, or by an ending that only one has."""
    wanted = name.strip().replace("p99.9", "p99_9")
    numbers = [field for field, value in values.items() if is_number(value) or (value is None and _latency(field))]
    for candidate in (wanted, *_aliases(wanted)):
        if candidate in numbers:
            return candidate
    endings = [field for field in numbers if field.endswith((f".{wanted}", f".{wanted}.value"))]
    if len(endings) == 1:
        return endings[0]
    raise UnknownField(name, endings or [*_short_names(result), *numbers])


def _aliases(name: str) -> Iterator[str]:
    first, _, last = name.partition(".")
    metric = first.removesuffix("_s")
    if metric in METRICS and last:
        yield f"prediction.{metric}_s.{last}"
    if name.startswith("usd_per_mtok_"):
        yield f"usd_per_mtok.{name.removeprefix('usd_per_mtok_')}"
    if first == "utilization" and last:
        yield f"plan.{last}.utilization"
    accelerator, _, value = name.partition(".")
    yield f"inputs.accelerators[{accelerator}].values.{value}.value"
    for part in ("plan", "prediction", "energy", "kv", "inputs.workload", "inputs"):
        yield f"{part}.{name}"


def _short_names(result: Reading) -> Iterator[str]:
    for metric in METRICS:
        yield from (f"{metric}.{statistic}" for statistic in STATISTICS)
    yield from ("accelerators", "usd_per_hour", "usd_per_mtok_input", "usd_per_mtok_output", "watts")
    yield from (f"utilization.{pool}" for pool in pools(result))


def _latency(field: str) -> bool:
    return field.startswith(tuple(f"prediction.{metric}_s." for metric in METRICS))


# ---------------------------------------------------------------------------------------------------------------- tree


def _node(result: Reading, values: Mapping[str, Any], field: str, above: tuple[str, ...]) -> Document:
    value = values.get(field)
    rule = None if field in above else rule_of(result, values, field)
    parts = [part for part in dict.fromkeys(rule.parts) if values.get(part) is not None] if rule else []
    node: Document = {
        "field": field,
        "value": value,
        "unit": unit_of(field),
        "kind": _kind(values, field, rule, value),
        "formula": _formula(rule),
        "source": _source(result, values, field) if rule is None else None,
        "parts": [_node(result, values, part, (*above, field)) for part in parts],
    }
    return node


def _formula(rule: Rule | None) -> Document | None:
    found: Formula | None = formulas().get(rule.formula) if rule else None
    return asdict(found) if found else None


def _kind(values: Mapping[str, Any], field: str, rule: Rule | None, value: Any) -> str:
    """formula: its parts give the number; law: it depends on them; catalog, input: where a branch ends.

    A number that no formula is named for is unnamed.
    """
    if rule is None:
        catalog = field.startswith(("inputs.accelerators", "inputs.engine", "inputs.model"))
        return "catalog" if catalog else "input" if field.startswith("inputs.") else "unnamed"
    numbers = [values.get(part) for part in rule.parts]
    if rule.compute is None or not is_number(value) or not all(map(is_number, numbers)):
        return "law"
    try:
        made = rule.compute([float(number) for number in numbers if number is not None])
    except ZeroDivisionError:
        return "law"
    return "formula" if math.isclose(made, value, rel_tol=SAME, abs_tol=1e-12) else "law"


def _source(result: Reading, values: Mapping[str, Any], field: str) -> Document | None:
    """Where a value that nothing computes stands or comes from."""
    owner = field.removesuffix(".value")
    if f"{owner}.source" in values:
        return {name: values.get(f"{owner}.{name}") for name in ("source", "retrieved", "kind")}
    if field.startswith("inputs.engine."):
        engine = result["inputs"]["engine"]
        return {name: engine[name] for name in ("source", "retrieved", "kind")}
    if field.startswith("inputs.model."):
        return {"source": result["inputs"]["model"]["source"], "retrieved": None, "kind": "model"}
    files = result["inputs"]["files"]
    if not field.startswith("inputs.") or not files:
        return None
    return {"source": files[0]["path"], "retrieved": None, "kind": "scenario"}
