"""What is launched: the part of a result document that launch files are made of."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, floor
from typing import Any, Literal

from planner.export.flags import Flag, flag
from planner.records import DECODE_TOKEN_BUDGET, RoleName

Document = Mapping[str, Any]
Connector = Literal["nixl", "mooncake", "lmcache"]

_LONGEST_NAME = 40  # of what the name of every object begins with; Kubernetes allows 63 for the whole
_DEFAULT_NODE = 8


@dataclass(frozen=True, slots=True)
class Worker:
    """One pool as an engine sees it. `max_batch` is per attention rank, `token_budget` per step of a rank."""

    role: RoleName
    accelerator: str
    vendor: str
    replicas: int
    tp: int
    pp: int
    ep: int
    dp: int
    max_batch: int | None  # None: the plan leaves the engine's default
    token_budget: int
    memory_fraction: float  # as the engine's own option counts it
    kv_bytes: float  # of the pool on one accelerator
    longest_tokens: int  # of one request in this pool, rounded up to blocks; 0: the model's own limit
    node_accelerators: int
    host_bytes: int = 0  # KV below the accelerator's memory, of a worker: in the memory of its host
    disk_bytes: int = 0  # and on its local flash

    @property
    def accelerators(self) -> int:
        return self.tp * self.pp * self.dp

    @property
    def nodes(self) -> int:
        """Nodes that one worker spans."""
        return ceil(self.accelerators / self.node_accelerators)

    @property
    def accelerators_per_node(self) -> int:
        return ceil(self.accelerators / self.nodes)

    def field(self, name: str) -> str:
        """Where in the result a value stands."""
        return f"plan.{self.role}.{name}"

    def degrees(self, **options: str) -> list[Flag]:
        """Options for those of its degrees that are above 1."""
        above = [(name, option) for name, option in options.items() if getattr(self, name) > 1]
        return [flag(option, getattr(self, name), self.field(name)) for name, option in above]


@dataclass(frozen=True, slots=True)
class Launch:
    """One plan, ready to be written for an engine."""

    name: str
    model: str
    engine: str
    engine_version: str
    weights: str
    checkpoint_format: str
    kv_dtype: str
    mode: str
    connector: Connector | None  # None when one pool does both phases
    block_tokens: int
    workers: tuple[Worker, ...]
    result: Document

    @property
    def tiers_elsewhere(self) -> tuple[str, ...]:
        """Tiers of the plan that no option of an engine sets up: they are services of their own."""
        known = ("hbm", "host-dram", "local-ssd")
        return tuple(row["tier"] for row in self.result["kv"]["tiers"] if row["tier"] not in known)

    @property
    def colocated(self) -> bool:
        return self.connector is None

    @property
    def whole_prompts(self) -> bool:
        return self.mode == "colocated-whole-prompt"

    def worker(self, role: RoleName) -> Worker:
        return next(worker for worker in self.workers if worker.role == role)


def launch(result: Document, connector: Connector) -> Launch:
    """The launch of a feasible result document. What goes into scripts is checked: a saved file may hold anything.

    Raises
    ------
    KeyError, TypeError
        The document lacks a field of its own schema, or holds something else there.
    ValueError
        A name or a count that no result of ours has.
    """
    inputs, plan = result["inputs"], result["plan"]
    engine, model = inputs["engine"], inputs["model"]
    roles: tuple[RoleName, ...] = ("colocated",) if "colocated" in plan else ("prefill", "decode")
    return Launch(
        name=safe_name(inputs["scenario"]),
        model=_word(model["id"]),
        engine=_word(engine["id"]),
        engine_version=_word(engine["version"]),
        weights=_word(model["weight_dtype"]),
        checkpoint_format=_word(model["checkpoint_format"]),
        kv_dtype=_word(model["kv_dtype"]),
        mode=_word(plan["mode"]),
        connector=connector if len(roles) > 1 else None,
        block_tokens=_count(engine["memory_rule"]["block_tokens"]),
        workers=tuple(_worker(result, role) for role in roles),
        result=result,
    )


def _word(value: Any) -> str:
    """Text of one line."""
    if not isinstance(value, str) or not value or not value.isprintable():
        raise ValueError("holds a name that is no line of text")
    return value


def _count(value: Any) -> int:
    """A whole number from 1."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError("holds a count that is no whole number")
    return value


def safe_name(text: str) -> str:
    """`text` as an RFC 1123 label that begins with a letter, safe in shells, YAML and Kubernetes."""
    name = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:_LONGEST_NAME].strip("-")
    return name if name[:1].isalpha() else f"plan-{name}".rstrip("-")


def _worker(result: Document, role: RoleName) -> Worker:
    inputs, pool = result["inputs"], result["plan"][role]
    accelerator = next(item for item in inputs["accelerators"] if item["id"] == pool["accelerator"])
    node = accelerator["values"].get("node_accelerators", {}).get("value") or _DEFAULT_NODE
    engine, dp = inputs["engine"], _count(pool["dp"])
    max_batch = _per_rank(pool.get("max_batch"), engine["max_batch"], dp, role)
    budget = pool.get("token_budget") or (
        max(max_batch or 0, DECODE_TOKEN_BUDGET) if role == "decode" else engine["token_budget"]
    )
    memory = result["memory_per_accelerator"][role]
    share = _count(pool["tp"]) * _count(pool["pp"]) * dp / _count(node)
    return Worker(
        role=role,
        accelerator=_word(pool["accelerator"]),
        vendor=accelerator["vendor"],
        replicas=_count(pool["replicas"]),
        tp=_count(pool["tp"]),
        pp=_count(pool["pp"]),
        ep=_count(pool["ep"]),
        dp=dp,
        max_batch=max_batch,
        token_budget=_count(budget),
        memory_fraction=_memory_fraction(engine["memory_rule"], memory, pool["tp"] * pool["pp"] * dp),
        kv_bytes=memory["kv_bytes"],
        longest_tokens=_longest(inputs, role),
        node_accelerators=_count(node),
        host_bytes=_tier_bytes(result, role, "host-dram", share),
        disk_bytes=_tier_bytes(result, role, "local-ssd", share),
    )


def _tier_bytes(result: Document, role: RoleName, tier: str, node_share: float) -> int:
    """A worker's share of what a tier holds on each node; decode pools keep no prefixes."""
    if role == "decode":
        return 0
    rows = (row for row in result["kv"]["tiers"] if row["tier"] == tier)
    return int(sum(row["capacity_bytes"] for row in rows) * node_share)


def _per_rank(max_batch: int | None, engine_max_batch: int, dp: int, role: RoleName) -> int | None:
    """The plan's batch cap per rank. Without one a decoding pool was sized for the engine's largest."""
    if max_batch:
        return ceil(_count(max_batch) / dp)
    return None if role == "prefill" else _count(engine_max_batch)


def _longest(inputs: Document, role: RoleName) -> int:
    """Tokens that one request may reach in this pool: prompts and their first token where prompts are prefilled."""
    workload, block = inputs["workload"], inputs["engine"]["memory_rule"]["block_tokens"]
    tokens = workload["longest_input_tokens"] + 1 if role == "prefill" else workload["longest_request_tokens"]
    most: int = inputs["model"]["max_context_tokens"]
    rounded: int = ceil(tokens / block) * block
    return min(rounded, most) if most else rounded


def _memory_fraction(rule: Document, memory: Document, accelerators: int) -> float:
    """The fraction that gives the planned KV pool, in the meaning of the engine that takes it; three decimals, down.

    Of total memory and of what is left the rule states it; of memory free before loading it follows from the plan.
    """
    if rule["basis"] != "free-before-load" or rule["fraction"]:
        return float(rule["fraction"])
    reserve = rule["context_bytes"] + (rule["collective_bytes"] if accelerators > 1 else 0.0)
    share: float = (memory["weights_bytes"] + memory["kv_bytes"]) / (memory["capacity_bytes"] - reserve)
    return floor(share * 1000.0) / 1000.0
