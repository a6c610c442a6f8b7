"""What a serving engine does: fitted constants, memory and admission rules, errors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from planner.records.hardware import Provenance


@dataclass(frozen=True, slots=True)
class EngineConstants:
    """The fitted engine constants of FIDELITY §6; the letter in each comment is its symbol there."""

    gemm_memory_factor: float  # em
    compute_factor: float  # ec
    kernel_gap_s: float  # tau
    start_up_factor: float  # k0
    host_step_s: float  # h0
    host_sequence_s: float  # h1
    collective_factor: float  # ca
    experts_factor: float  # mo
    decode_attention_factor: float  # at
    prefill_kernel_s: float  # hm
    prefill_factor: float  # gp
    ttft_fixed_s: float  # f0
    ttft_steps: float  # fr
    own_prefill_factor: float  # kT
    ttft_sequence_s: float  # fN
    # of closed loops only, where clients start together and their prompts come in bursts (FIDELITY §3)
    uniform_window_fraction: float = 0.10  # wu: share of the decode time that a burst spreads over, lengths that vary
    fixed_window_fraction: float = 0.056  # wf: the same for lengths that are all equal
    burst_wait_factor: float = 1.17  # kW
    burst_ahead_fraction: float = 0.05  # share of the prefills of all that run that a prompt finds ahead of it
    held_back_requests: float = 0.001  # of those in flight, how many the engine keeps waiting though all would fit


@dataclass(frozen=True, slots=True)
class MemoryRule:
    """How an engine sizes its KV pool (`hardware/engines/`)."""

    basis: Literal["total", "free-before-load", "free-after-load"]
    fraction: float  # of the basis; 0 with `free-before-load`: derived by SGLang's own rule
    context_bytes: float  # driver context, graphs and libraries per accelerator
    collective_bytes: float  # buffers per accelerator once more than one takes part
    block_tokens: int


@dataclass(frozen=True, slots=True)
class ConnectorRule:
    """Which prefill and decode workers a connector can move KV caches between (`hardware/engines/`)."""

    tp: Literal["any", "multiple", "equal"]  # of the prefill and the decode worker
    prefill_tp_above_decode: Literal["always", "kv-heads", "latent", "never"]
    # kv-heads: while prefill copies no key-value head; latent: for latent and recurrent attention only
    decode_pp: Literal["any", "prefill", "one"] = "one"  # prefill: as many stages as the prefill worker, or one
    source: str = ""


@dataclass(frozen=True, slots=True)
class DeviceDefault:
    """What an engine chooses on accelerators of at least this memory where its command line says nothing."""

    least_bytes: float
    token_budget: int
    max_batch: int
    but_not: tuple[str, ...] = ()  # beginnings of accelerator ids


@dataclass(frozen=True, slots=True)
class OlderRule:
    """The memory rule of versions from `since` to `until`, which begins with the same numbers (0.20 holds 0.20.1)."""

    since: str  # empty: as far back as there are any
    until: str
    memory: MemoryRule
    source: str = ""


@dataclass(frozen=True, slots=True)
class IntervalFactors:
    """Low and high factor on step times and on TTFT that hold `coverage` of measured runs (FIDELITY §9)."""

    step_low: float
    step_high: float
    ttft_low: float
    ttft_high: float


@dataclass(frozen=True, slots=True)
class EngineProfile:
    """What one serving engine does, by version. Formulas read it; nothing else knows an engine's name."""

    id: str
    version: str
    scheduling: Literal["mixed", "prefill-first", "whole-prompt"]
    colocated: EngineConstants
    disaggregated: EngineConstants
    memory: MemoryRule
    reserved_output_fraction: float  # of the output a request reserves in the KV pool when admitted (r of FIDELITY §3)
    token_budget: int  # default tokens of one step
    max_batch: int  # largest running batch the engine takes per rank
    interval_coverage: float
    intervals: Mapping[str, IntervalFactors]  # "<mode>/<class>": known-cell, new-cell, new-model, new-accelerator
    measured_cells: frozenset[tuple[str, str]]  # (model id, accelerator id) that the constants were fitted on
    provenance: Provenance
    sha256: str = ""
    deviations: Mapping[str, Mapping[str, float]] = field(default_factory=dict)  # "mode/level/key" -> constant -> log
    interval_widths: Mapping[str, IntervalFactors] = field(default_factory=dict)
    """"<mode>/<class>/<accelerator, kind of model or load>" -> what stretches the ends of log intervals."""
    interval_growth: Mapping[float, tuple[float, float]] = field(default_factory=dict)
    """Coverage -> what log intervals of step times and of TTFT are stretched by to hold it."""
    connectors: Mapping[str, ConnectorRule] = field(default_factory=dict)
    connector: str = ""  # the one that moves caches; empty: nothing is known to refuse
    refused_mixers: frozenset[str] = frozenset()  # kinds of recurrent mixers that the engine lacks
    kv8_needs_fp8_units: Literal["never", "latent", "always"] = "never"  # for which attention an 8-bit cache does
    device_defaults: tuple[DeviceDefault, ...] = ()  # largest memory first
    older: tuple[OlderRule, ...] = ()  # oldest first
    tiers_hold: Literal["everything", "prompts"] = "everything"  # KV below the accelerators; prompts: no answers
    decode_reserved_tokens: int = 0  # of KV that a decode pool keeps free for each request, running or on its way
