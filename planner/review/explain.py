"""Where a number of a result comes from, as a tree: its formula, the parts that went in, and their sources.

A part is a number of the same result. Where a formula is arithmetic on its parts, it is recomputed here, and shown as
such only when it gives the number; a law (a quantile, a fixed point, a sum over operators) is named with what it
depends on instead. Inputs and catalog values end a branch, with where they stand or come from.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from planner.review.diff import flat, unit_of
from planner.review.formulas import Formula, formulas
from planner.sizing.cost import prompt_share

Document = dict[str, Any]
Reading = Mapping[str, Any]

SCHEMA_VERSION = 1
SAME = 1e-9  # relative: how exactly the parts of a formula must give its number
SECONDS_PER_HOUR, TOKENS_PER_MTOK = 3600.0, 1e6
_METRICS = ("ttft", "itl", "tpot", "e2e")
_STATISTICS = ("mean", "p50", "p90", "p95", "p99", "p99_9")
_SIDES = {"input": "prefill", "output": "decode"}
_STEP_LAWS = {
    "weights_and_gemm": "step.gemm",
    "attention_decode": "step.attention_decode",
    "attention_prefill": "step.attention_prefill",
    "experts": "step.experts",
    "collectives": "step.collectives",
    "launch": "step.launch",
    "host": "step.host",
    "floor": "step.floor",
    "prefill_interference": "step.prefill_in_gap",
}


@dataclass(frozen=True, slots=True)
class Rule:
    """How a field comes about: the formula, the paths of its parts, and the arithmetic on them if it is that."""

    formula: str
    parts: tuple[str, ...]
    compute: Callable[[Sequence[float]], float] | None = None


class UnknownField(LookupError):
    """No number of the result goes by this name; `known` are those that one may ask for."""

    def __init__(self, name: str, known: Sequence[str]) -> None:
        super().__init__(name)
        self.known = tuple(known)


def explain_document(result: Reading, name: str) -> Document:
    """Return the tree behind one number of a result document.

    Raises
    ------
    UnknownField
        The result has no such number.
    """
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
        if _is_number(value)
        for rule in [_rule(result, values, field)]
        if rule is not None or field.startswith("inputs.")
    ]


# --------------------------------------------------------------------------------------------------------------- names


def resolve(result: Reading, values: Mapping[str, Any], name: str) -> str:
    """The path of a field by its full name, by the name that budgets use, or by an ending that only one has."""
    wanted = name.strip().replace("p99.9", "p99_9")
    numbers = [field for field, value in values.items() if _is_number(value) or (value is None and _latency(field))]
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
    if metric in _METRICS and last:
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
    for metric in _METRICS:
        yield from (f"{metric}.{statistic}" for statistic in _STATISTICS)
    yield from ("accelerators", "usd_per_hour", "usd_per_mtok_input", "usd_per_mtok_output", "watts")
    yield from (f"utilization.{pool}" for pool in _pools(result))


def _latency(field: str) -> bool:
    return field.startswith(tuple(f"prediction.{metric}_s." for metric in _METRICS))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


# ---------------------------------------------------------------------------------------------------------------- tree


def _node(result: Reading, values: Mapping[str, Any], field: str, above: tuple[str, ...]) -> Document:
    value = values.get(field)
    rule = None if field in above else _rule(result, values, field)
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
    if rule.compute is None or not _is_number(value) or not all(map(_is_number, numbers)):
        return "law"
    try:
        made = rule.compute([float(number) for number in numbers if number is not None])
    except ZeroDivisionError:
        return "law"
    return "formula" if math.isclose(made, value, rel_tol=SAME, abs_tol=1e-12) else "law"


def recomputed(result: Reading, field: str) -> float | None:
    """A number from the parts that its explanation shows; None where that is a law, or ends a branch."""
    values = flat(result)
    rule = _rule(result, values, field)
    if rule is None or rule.compute is None or _kind(values, field, rule, values.get(field)) != "formula":
        return None
    return rule.compute([float(values[part]) for part in rule.parts])


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


# --------------------------------------------------------------------------------------------------------------- rules


def _pools(result: Reading) -> list[str]:
    plan = result["plan"] or {}
    return [name for name in ("prefill", "decode", "colocated") if name in plan]


def _price(result: Reading, pool: str) -> str:
    basis = result["plan"]["price_basis"]
    return f"inputs.accelerators[{result['plan'][pool]['accelerator']}].values.usd_per_hour.{basis}.value"


def _power(result: Reading, values: Mapping[str, Any], pool: str) -> str:
    entry = f"inputs.accelerators[{result['plan'][pool]['accelerator']}].values"
    whole = f"{entry}.all_in_watts.value"
    return whole if whole in values else f"{entry}.tdp_watts.value"


def _rule(result: Reading, values: Mapping[str, Any], field: str) -> Rule | None:
    """The rule of a field; None for what the user or the catalog gives."""
    if result["plan"] is None or field.startswith("inputs."):
        return None
    for find in (
        _plan_rule,
        _money_rule,
        _latency_rule,
        _interval_rule,
        _part_rule,
        _load_rule,
        _memory_rule,
        _limit_rule,
    ):
        rule = find(result, values, field)
        if rule is not None:
            return rule
    return None


def _plan_rule(result: Reading, values: Mapping[str, Any], field: str) -> Rule | None:
    pools = _pools(result)
    if field == "plan.accelerators":
        return Rule("plan.accelerators", tuple(f"plan.{pool}.accelerators" for pool in pools), sum)
    match = re.fullmatch(r"plan\.(\w+)\.accelerators", field)
    if match:
        degrees = tuple(f"plan.{match[1]}.{name}" for name in ("replicas", "tp", "pp", "dp"))
        return Rule("pool.accelerators", degrees, math.prod)
    if re.fullmatch(r"plan\.\w+\.(replicas|tp|pp|ep|dp|max_batch|token_budget)", field):
        promises = tuple(name for name in values if re.fullmatch(r"inputs\.(targets|budgets)\[.*\]\.limit(_s)?", name))
        return None if result["inputs"]["deployment_given"] else Rule("plan.search", promises)
    return None


def _money_rule(result: Reading, values: Mapping[str, Any], field: str) -> Rule | None:
    pools = _pools(result)
    if field == "plan.usd_per_hour":
        return Rule("cost.usd_per_hour", _pairs([(f"plan.{p}.accelerators", _price(result, p)) for p in pools]), _dot)
    if field == "energy.watts":
        pairs = [(f"plan.{pool}.accelerators", _power(result, values, pool)) for pool in pools]
        return Rule("cost.watts", _pairs(pairs), _dot)
    if field == "energy.joules_per_output_token":
        parts = ("energy.watts", "prediction.output_tokens_per_s")
        return Rule("cost.joules_per_output_token", parts, lambda v: v[0] / v[1])
    side = field.removeprefix("usd_per_mtok.")
    if side == field or side not in _SIDES:
        return None
    rate: tuple[str, ...] = ("prediction.output_tokens_per_s",)
    if side == "input":
        rate = ("inputs.workload.requests_per_s", "inputs.workload.input_tokens.mean")
    if "colocated" in pools:
        shared = ("plan.usd_per_hour", "prediction.prefill_time_fraction", "plan.colocated.mean_batch", *rate)
        return Rule("cost.usd_per_mtok", shared, _shared_cost(side == "input"))
    pool = _SIDES[side]
    return Rule("cost.usd_per_mtok", (f"plan.{pool}.accelerators", _price(result, pool), *rate), _own_cost)


def _pairs(pairs: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    return tuple(name for pair in pairs for name in pair)


def _dot(numbers: Sequence[float]) -> float:
    return sum(count * each for count, each in zip(numbers[::2], numbers[1::2], strict=True))


def _own_cost(numbers: Sequence[float]) -> float:
    accelerators, price, *rate = numbers
    return accelerators * price / (math.prod(rate) * SECONDS_PER_HOUR) * TOKENS_PER_MTOK


def _shared_cost(prompts: bool) -> Callable[[Sequence[float]], float]:
    def cost(numbers: Sequence[float]) -> float:
        usd, fraction, batch, *rate = numbers
        share = float(prompt_share(fraction, batch))
        return usd * (share if prompts else 1.0 - share) / (math.prod(rate) * SECONDS_PER_HOUR) * TOKENS_PER_MTOK

    return cost


def _latency_rule(result: Reading, values: Mapping[str, Any], field: str) -> Rule | None:
    match = re.fullmatch(r"prediction\.(ttft|itl|tpot|e2e)_s\.(\w+)", field)
    if match is None:
        return None
    metric, statistic = match[1], match[2]
    parts = tuple(name for name in values if name.startswith("prediction.ttft_parts_s."))
    busy = tuple(f"plan.{pool}.utilization" for pool in _pools(result))
    means = ("prediction.ttft_s.mean", "inputs.workload.output_tokens.mean", "prediction.tpot_s.mean")
    if metric == "ttft":
        return Rule("ttft.mean", parts, sum) if statistic == "mean" else Rule("ttft.quantile", (*parts, *busy))
    if metric == "e2e" and statistic == "mean":
        return Rule("e2e.mean", means, lambda v: v[0] + (v[1] - 1.0) * v[2])
    if metric == "e2e":
        return Rule("e2e.quantile", ("prediction.e2e_s.mean", *means))
    steps = tuple(name for name in values if name.startswith("prediction.decode_step_parts_s."))
    if statistic == "mean":
        return Rule("itl.mean", (*steps, f"plan.{_pools(result)[-1]}.mean_batch"))
    gap = "prediction.itl_s.mean"
    return Rule(f"{metric}.quantile", (gap, *busy[-1:]))


def _interval_rule(result: Reading, values: Mapping[str, Any], field: str) -> Rule | None:
    match = re.fullmatch(r"prediction\.intervals\.(\w+)\.(\w+)\[\d\]", field)
    return Rule("interval", (f"prediction.{match[1]}.{match[2]}",)) if match else None


def _part_rule(result: Reading, values: Mapping[str, Any], field: str) -> Rule | None:
    last = _pools(result)[-1]
    applied = f"inputs.engine.applied.{last}"
    if field.startswith("prediction.decode_step_parts_s."):
        law = _STEP_LAWS.get(field.rpartition(".")[2])
        parts = (f"plan.{last}.mean_batch", f"plan.{last}.tp", *_rates(result, last, field))
        return Rule(law, parts) if law else None
    rules = {
        "first_steps": Rule(
            "ttft.first_steps", (f"{applied}.ttft_steps", "prediction.itl_s.mean"), lambda v: v[0] * v[1]
        ),
        "front_end": Rule(
            "ttft.front_end",
            (f"{applied}.ttft_fixed_s", f"{applied}.ttft_sequence_s", f"plan.{last}.mean_batch"),
            lambda v: v[0] + v[1] * v[2],
        ),
        "wait": Rule("ttft.wait", (f"plan.{_pools(result)[0]}.utilization", f"plan.{_pools(result)[0]}.replicas")),
        "prefill": Rule("ttft.prefill", (f"inputs.engine.applied.{_pools(result)[0]}.own_prefill_factor",
                        "inputs.workload.input_tokens.mean", *_rates(result, _pools(result)[0], "weights_and_gemm"))),
        "transfer": Rule("ttft.transfer", ("kv.transfer.mean_s",), sum),
        "admission": Rule("ttft.admission", (f"plan.{last}.max_batch", f"plan.{last}.utilization")),
    }  # fmt: skip
    if field.startswith("prediction.ttft_parts_s."):
        return rules.get(field.rpartition(".")[2])
    return None


def _rates(result: Reading, pool: str, part: str) -> tuple[str, ...]:
    """Catalog rates that a part of a step waits for."""
    entry = f"inputs.accelerators[{result['plan'][pool]['accelerator']}].values"
    if part.endswith("collectives"):
        return (f"{entry}.scaleup_bytes_per_s.value",)
    if part.endswith(("launch", "host", "floor", "prefill")):
        return ()
    memory = f"{entry}.memory_bytes_per_s.value"
    return (memory,) if part.endswith("attention_decode") else (memory, f"{entry}.bf16_dense_flops_per_s.value")


def _load_rule(result: Reading, values: Mapping[str, Any], field: str) -> Rule | None:
    load = ("inputs.workload.requests_per_s", "inputs.workload.peak_factor")
    first, last = _pools(result)[0], _pools(result)[-1]
    rules = {
        "prediction.output_tokens_per_s": Rule(
            "load.output_tokens_per_s",
            (load[0], "prediction.requests_per_s_max", "inputs.workload.output_tokens.mean"),
            lambda v: min(v[0], v[1]) * v[2],
        ),
        "prediction.surplus_fraction": Rule(
            "load.surplus", ("prediction.requests_per_s_max", *load), lambda v: v[0] / (v[1] * v[2]) - 1.0
        ),
        "prediction.requests_per_s_max": Rule(
            "load.requests_per_s_max", (f"plan.{first}.replicas", f"plan.{last}.replicas")
        ),
        "prediction.prefill_time_fraction": Rule("load.prefill_time_fraction", (f"plan.{last}.utilization",)),
    }
    if re.fullmatch(r"plan\.\w+\.utilization", field):
        return Rule("load.utilization", (*load, f"{field.rpartition('.')[0]}.replicas"))
    if re.fullmatch(r"plan\.\w+\.mean_batch", field):
        return Rule("load.mean_batch", (*load, "inputs.workload.output_tokens.mean", f"plan.{last}.replicas"))
    return rules.get(field)


def _memory_rule(result: Reading, values: Mapping[str, Any], field: str) -> Rule | None:
    match = re.fullmatch(r"memory_per_accelerator\.(\w+)\.(\w+)_bytes", field)
    if match:
        return _held_rule(result, match[1], match[2])
    if field.startswith("kv.transfer."):
        pool = f"plan.{_pools(result)[0]}"
        parts = ("kv.bytes_per_token", "inputs.workload.input_tokens.mean")
        rules = {
            "bytes_per_request": Rule("transfer.bytes_per_request", parts, math.prod),
            "mean_s": Rule("transfer.exposed", ("kv.transfer.bytes_per_request", "kv.transfer.bytes_per_s")),
            "bytes_per_s": Rule("transfer.rate", (f"{pool}.tp", f"{pool}.dp")),
            "utilization": Rule("transfer.utilization", (*parts, "inputs.workload.requests_per_s")),
        }
        return rules.get(field.rpartition(".")[2])
    rules = {
        "kv.bytes_per_token": Rule("kv.bytes_per_token", ()),
        "kv.bytes_per_token_beyond_window": Rule("kv.bytes_per_token", ()),
        "kv.state_bytes_per_sequence": Rule("kv.state_bytes", ()),
        "kv.capacity_tokens": Rule(
            "kv.capacity_tokens",
            (
                f"memory_per_accelerator.{_pools(result)[-1]}.kv_bytes",
                "kv.bytes_per_token",
                f"plan.{_pools(result)[-1]}.tp",
            ),
        ),
        "kv.demand_tokens.mean": Rule("kv.demand_tokens", (f"plan.{_pools(result)[-1]}.mean_batch",)),
        "kv.demand_tokens.p99": Rule("kv.demand_tokens", (f"plan.{_pools(result)[-1]}.mean_batch",)),
    }
    return rules.get(field)


def _held_rule(result: Reading, pool: str, part: str) -> Rule | None:
    entry = f"inputs.accelerators[{result['plan'][pool]['accelerator']}].values"
    held = f"memory_per_accelerator.{pool}"
    rules = {
        "capacity": Rule("memory.capacity", (f"{entry}.memory_bytes.value",), sum),
        "weights": Rule("memory.weights", (f"plan.{pool}.tp", f"plan.{pool}.dp", f"plan.{pool}.ep")),
        "activations": Rule("memory.activations", (f"plan.{pool}.tp",)),
        "reserve": Rule("memory.reserve", ("inputs.engine.memory_rule.fraction",)),
        "kv": Rule(
            "memory.kv",
            tuple(f"{held}.{name}_bytes" for name in ("capacity", "weights", "activations", "reserve", "free")),
            lambda v: v[0] - sum(v[1:]),
        ),
    }
    return rules.get(part)


def _limit_rule(result: Reading, values: Mapping[str, Any], field: str) -> Rule | None:
    if not field.startswith("limits[") or not field.endswith(".slack_fraction"):
        return None
    owner = field.rpartition(".")[0]
    return Rule("limit.slack", (f"{owner}.limit", f"{owner}.value"), lambda v: (v[0] - v[1]) / v[0])
