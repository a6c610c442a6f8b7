"""Benchmarks: one deployment in a closed loop, and runs as their files have them."""

from __future__ import annotations

from dataclasses import dataclass

from planner.records.engine import EngineProfile
from planner.records.hardware import Accelerator
from planner.records.model import ModelShape
from planner.records.question import Deployment, Speculation


@dataclass(frozen=True, slots=True, eq=False)
class ClosedLoop:
    """A benchmark that keeps `clients` requests in flight on one deployment. Token counts are means."""

    model: ModelShape
    weights: str
    kv_dtype: str
    engine: EngineProfile
    accelerator: Accelerator  # that decodes, or does both
    prefill_accelerator: Accelerator | None
    deployment: Deployment
    input_tokens: float
    output_tokens: float
    equal_lengths: bool
    clients: float
    origin: str = ""  # whose benchmark
    speculation: Speculation | None = None

    @property
    def step_tokens(self) -> float:
        """Mean tokens that a request gains in a decode step."""
        return self.speculation.step_tokens if self.speculation else 1.0


@dataclass(frozen=True, slots=True)
class Measurement:
    """One measured run as its file has it: names that a catalog must still resolve, means over requests."""

    id: str
    model: str
    engine: str
    engine_version: str
    weights: str
    kv_dtype: str  # empty when not recorded
    deployment: Deployment | None  # None when the file does not say
    input_tokens: float
    output_tokens: float
    equal_lengths: bool
    clients: float  # mean requests in flight; 0 when not recorded
    ttft_s: float
    tpot_s: float
    origin: str = ""
    flags: tuple[str, ...] = ()
    source: str = ""
    speculation: Speculation | None = None
