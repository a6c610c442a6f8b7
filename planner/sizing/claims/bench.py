"""What a claim is made of: what it is about, what is said, what is found, and how the two lie."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planner.engines.constants import serving_constants
from planner.records import Accelerator, EngineProfile, Lengths, ModelShape, Scenario, Target, Workload
from planner.roofline.steps import prefill_s
from planner.roofline.worker import Worker, build_worker
from planner.serving.closed_loop import spanning

PROMPTS = np.array([512.0, 2048.0, 8192.0, 32768.0])
LONG = 32768.0
ALL = 1e9  # a token budget that takes any prompt whole


@dataclass(frozen=True, slots=True, eq=False)
class Bench:
    """What the claims are about."""

    dense: ModelShape  # 70B, grouped-query attention
    latent: ModelShape  # DeepSeek-V3: latent attention and experts
    accelerator: Accelerator  # H100
    large: Accelerator  # H200, eight of which hold the latent model
    engine: EngineProfile
    network_bytes_per_s: float

    def worker(self, tp: int, weights: str = "bf16") -> Worker:
        return self._built(self.dense, self.accelerator, tp, 1, weights)

    def experts_worker(self) -> Worker:
        return self._built(self.latent, self.large, 8, 8, self.latent.checkpoint_format)

    def _built(self, model: ModelShape, on: Accelerator, tp: int, ep: int, weights: str) -> Worker:
        constants = serving_constants(self.engine, True, model=model.id, accelerator=on.id, weights=weights, dp=1)
        reached = spanning(on, tp)  # beyond a node over its NICs
        return build_worker(model, weights, "bf16", reached, self.engine.id, constants, tp=tp, pp=1, ep=ep, dp=1)

    def scenario(self, input_tokens: float, output_tokens: float, targets: tuple[Target, ...], rate: float) -> Scenario:
        lengths = Lengths(np.array([input_tokens]), np.array([output_tokens]), np.ones(1))
        return Scenario(
            name="claims",
            model=self.dense,
            weights="bf16",
            kv_dtype="bf16",
            engine=self.engine,
            prefill_accelerators=(self.accelerator,),
            decode_accelerators=(self.accelerator,),
            network_bytes_per_s=self.network_bytes_per_s,
            workload=Workload(rate, lengths),
            targets=targets,
            budgets=(),
            deployment=None,
        )


@dataclass(frozen=True, slots=True)
class Claim:
    """One claim: what is said, what the model finds, and when the claim would be right."""

    name: str
    text: str
    unit: str
    said: tuple[float, float]
    found: tuple[float, float]
    verdict: str
    cases: str  # what the found range spans
    right_when: str


@dataclass(frozen=True, slots=True)
class Finding:
    text: str
    unit: str
    said: tuple[float, float]
    found: tuple[float, float]
    cases: str
    right_when: str


def verdict(said: tuple[float, float], found: tuple[float, float]) -> str:
    """right: the model finds no more than was said; partly: the ranges meet; else how far off the nearest ends are."""
    if said[0] <= found[0] and found[1] <= said[1]:
        return "right"
    if found[0] <= said[1] and said[0] <= found[1]:
        return "partly right"
    if found[0] > said[1]:
        return f"too low by {found[0] / max(said[1], 1e-12):.1f} times or more"
    return f"too high by {said[0] / max(found[1], 1e-12):.1f} times or more"


def seconds(value: object) -> float:
    return float(np.ravel(np.asarray(value, dtype=float))[0])


def lost_fraction(worker: Worker, tokens: float, chunk: float) -> float:
    """Share of the throughput of a lone prefill that chunks cost."""
    return 1.0 - seconds(prefill_s(worker, tokens, ALL).total_s) / seconds(prefill_s(worker, tokens, chunk).total_s)
