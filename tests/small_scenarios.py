"""Small questions on the shipped catalog, quick to size, for tests of serving, of sizing and of their properties."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

from planner.files.catalog import Catalog
from planner.files.models import load_model
from planner.records import (
    Accelerator,
    Budget,
    Deployment,
    EngineProfile,
    Lengths,
    ModelShape,
    Pool,
    Scenario,
    Target,
    Workload,
)

CHAT = Lengths(
    input_tokens=np.array([500.0, 1500.0, 6000.0, 500.0, 1500.0, 6000.0]),
    output_tokens=np.array([100.0, 100.0, 100.0, 500.0, 500.0, 500.0]),
    weights=np.array([0.32, 0.21, 0.1, 0.19, 0.12, 0.06]),
)
TARGETS = (Target("ttft", "p99", 1.0), Target("itl", "p99", 0.04))
SPLIT = Deployment("disaggregated", decode=Pool("h100-sxm", 2, tp=2), prefill=Pool("h100-sxm", 3, tp=1))
TOGETHER = Deployment("colocated-chunked", decode=Pool("h100-sxm", 4, tp=1, token_budget=2048))
WHOLE = Deployment("colocated-whole-prompt", decode=Pool("h100-sxm", 6, tp=1))


def fixed_lengths(input_tokens: float, output_tokens: float) -> Lengths:
    return Lengths(np.array([input_tokens]), np.array([output_tokens]), np.ones(1))


@cache
def accelerator(name: str) -> Accelerator:
    return Catalog().accelerator(name)


@cache
def boxes_of(count: int, name: str = "h100-sxm") -> Accelerator:
    """An accelerator in small boxes, so that few worker shapes are tried."""
    return replace(accelerator(name), scaleup_domain=count, node_accelerators=count)


@cache
def engine(name: str) -> EngineProfile:
    return Catalog().engine(name)


@cache
def model(name: str) -> ModelShape:
    return load_model(name, Path())


def scenario(
    accelerators: Sequence[Accelerator | str] = ("h100-sxm",),
    model_id: str = "meta-llama/Llama-3.1-8B",
    engine_id: str = "vllm",
    weights: str = "bf16",
    kv_dtype: str = "bf16",
    requests_per_s: float = 20.0,
    lengths: Lengths = CHAT,
    targets: tuple[Target, ...] = TARGETS,
    budgets: tuple[Budget, ...] = (),
    deployment: Deployment | None = None,
) -> Scenario:
    candidates = tuple(accelerator(item) if isinstance(item, str) else item for item in accelerators)
    return Scenario(
        name="test",
        model=model(model_id),
        weights=weights,
        kv_dtype=kv_dtype,
        engine=engine(engine_id),
        prefill_accelerators=candidates,
        decode_accelerators=candidates,
        network_bytes_per_s=50e9,
        workload=Workload(requests_per_s=requests_per_s, lengths=lengths),
        targets=targets,
        budgets=budgets,
        deployment=deployment,
    )


def on_other_hardware(question: Scenario, change: Callable[[Accelerator], Accelerator]) -> Scenario:
    """The same question with every candidate changed in the same way."""
    return replace(
        question,
        prefill_accelerators=tuple(change(item) for item in question.prefill_accelerators),
        decode_accelerators=tuple(change(item) for item in question.decode_accelerators),
    )
