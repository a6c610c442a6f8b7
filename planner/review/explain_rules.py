"""How each number of a result comes about: its formula, the numbers that go in, and the arithmetic if it is that."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from planner.metrics import POOLS
from planner.sizing.cost import prompt_share

Reading = Mapping[str, Any]

SECONDS_PER_HOUR, TOKENS_PER_MTOK = 3600.0, 1e6
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


def pools(result: Reading) -> list[str]:
    """Names of the pools of its plan."""
    plan = result["plan"] or {}
    return [name for name in POOLS if name in plan]


def _price(result: Reading, pool: str) -> str:
    basis = result["plan"]["price_basis"]
    return f"inputs.accelerators[{result['plan'][pool]['accelerator']}].values.usd_per_hour.{basis}.value"


def _power(result: Reading, values: Mapping[str, Any], pool: str) -> str:
    entry = f"inputs.accelerators[{result['plan'][pool]['accelerator']}].values"
    whole = f"{entry}.all_in_watts.value"
    return whole if whole in values else f"{entry}.tdp_watts.value"


def rule_of(result: Reading, values: Mapping[str, Any], field: str) -> Rule | None:
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
    found = pools(result)
    if field == "plan.accelerators":
        return Rule("plan.accelerators", tuple(f"plan.{pool}.accelerators" for pool in found), sum)
    match = re.fullmatch(r"plan\.(\w+)\.accelerators", field)
    if match:
        degrees = tuple(f"plan.{match[1]}.{name}" for name in ("replicas", "tp", "pp", "dp"))
        return Rule("pool.accelerators", degrees, math.prod)
    if re.fullmatch(r"plan\.\w+\.(replicas|tp|pp|ep|dp|max_batch|token_budget)", field):
        promises = tuple(name for name in values if re.fullmatch(r"inputs\.(targets|budgets)\[.*\]\.limit(_s)?", name))
        return None if result["inputs"]["deployment_given"] else Rule("plan.search", promises)
    return None


def _money_rule(result: Reading, values: Mapping[str, Any], field: str) -> Rule | None:
    found = pools(result)
    if field == "plan.usd_per_hour":
        return Rule("cost.usd_per_hour", _pairs([(f"plan.{p}.accelerators", _price(result, p)) for p in found]), _dot)
    if field == "energy.watts":
        pairs = [(f"plan.{pool}.accelerators", _power(result, values, pool)) for pool in found]
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
    if "colocated" in found:
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
    busy = tuple(f"plan.{pool}.utilization" for pool in pools(result))
    means = ("prediction.ttft_s.mean", "inputs.workload.output_tokens.mean", "prediction.tpot_s.mean")
    if metric == "ttft":
        return Rule("ttft.mean", parts, sum) if statistic == "mean" else Rule("ttft.quantile", (*parts, *busy))
    if metric == "e2e" and statistic == "mean":
        return Rule("e2e.mean", means, lambda v: v[0] + (v[1] - 1.0) * v[2])
    if metric == "e2e":
        return Rule("e2e.quantile", ("prediction.e2e_s.mean", *means))
    steps = tuple(name for name in values if name.startswith("prediction.decode_step_parts_s."))
    if statistic == "mean":
        return Rule("itl.mean", (*steps, f"plan.{pools(result)[-1]}.mean_batch"))
    gap = "prediction.itl_s.mean"
    return Rule(f"{metric}.quantile", (gap, *busy[-1:]))


def _interval_rule(result: Reading, values: Mapping[str, Any], field: str) -> Rule | None:
    match = re.fullmatch(r"prediction\.intervals\.(\w+)\.(\w+)\[\d\]", field)
    return Rule("interval", (f"prediction.{match[1]}.{match[2]}",)) if match else None


def _part_rule(result: Reading, values: Mapping[str, Any], field: str) -> Rule | None:
    last = pools(result)[-1]
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
        "wait": Rule("ttft.wait", (f"plan.{pools(result)[0]}.utilization", f"plan.{pools(result)[0]}.replicas")),
        "prefill": Rule("ttft.prefill", (f"inputs.engine.applied.{pools(result)[0]}.own_prefill_factor",
                        "inputs.workload.input_tokens.mean", *_rates(result, pools(result)[0], "weights_and_gemm"))),
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
    first, last = pools(result)[0], pools(result)[-1]
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
        pool = f"plan.{pools(result)[0]}"
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
                f"memory_per_accelerator.{pools(result)[-1]}.kv_bytes",
                "kv.bytes_per_token",
                f"plan.{pools(result)[-1]}.tp",
            ),
        ),
        "kv.demand_tokens.mean": Rule("kv.demand_tokens", (f"plan.{pools(result)[-1]}.mean_batch",)),
        "kv.demand_tokens.p99": Rule("kv.demand_tokens", (f"plan.{pools(result)[-1]}.mean_batch",)),
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
