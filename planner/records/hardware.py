"""Accelerators, where their values come from, and tiers below their memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where one catalog value comes from."""

    source: str
    retrieved: str
    kind: str  # datasheet | measured | third-party | announced | estimate


@dataclass(frozen=True, slots=True)
class Quoted:
    """A value that differs between sources: what is used, and the range it lies in."""

    value: float
    low: float
    high: float
    provenance: Provenance


@dataclass(frozen=True, slots=True)
class OperatorFit:
    """Fitted constants of one operator on one accelerator (FIDELITY §2).

    Fractions are of the accelerator's own dense peak, memory bandwidth or one-way scale-up rate. Which constants an
    operator uses is said by the formula that reads it in `planner.roofline`; the others stay 0.
    """

    operator: str  # gemm, prefill_attention, prefill_mla, decode_attention, decode_mla, experts, all_reduce, …
    dtype: str  # of weights and compute: bf16, fp8, fp8_block, nvfp4, int8, int8_int8, int4, mxfp4, mxfp4_fp8
    engine: str  # vllm | sglang | tensorrt-llm | any (the median over engines)
    kv_dtype: str = ""
    head_dim: int = 0  # 0: any
    ranks: int = 0  # accelerators that take part in a collective
    window: bool = False
    start_up_s: float = 0.0
    compute_fraction: float = 0.0
    memory_fraction: float = 0.0
    exponent: float = 0.0  # of the soft roofline (x^q + y^q)^(1/q)
    sequence_s: float = 0.0  # decode attention: per sequence (and KV head)
    softmax_tokens: float = 0.0  # prefill attention: extra tokens' worth of work per token
    gather_factor: float = 0.0  # experts: passes over the routed activations
    latency_s: float = 0.0  # collectives: alpha
    link_fraction: float = 0.0  # collectives: bus bytes/s over the one-way scale-up rate
    trust: str = "medium"  # high | medium | low
    source: str = ""


@dataclass(frozen=True, slots=True)
class Accelerator:
    """One SKU. Peaks are dense; a missing peak is None, never zero. Rates are one way."""

    id: str
    vendor: str
    status: str  # shipping | announced
    memory_bytes: float
    memory_bytes_per_s: float
    bf16_dense_flops_per_s: float
    fp8_dense_flops_per_s: float | None
    fp4_dense_flops_per_s: float | None
    int8_dense_flops_per_s: float | None
    scaleup_name: str
    scaleup_bytes_per_s: float | None
    scaleup_domain: int  # accelerators that share the scale-up fabric; 1 = none
    node_accelerators: int  # accelerators of one host
    host_bytes_per_s: float | None
    nic_bytes_per_s: float | None
    tdp_watts: float | None
    all_in_watts: float | None
    compute_units: int  # SMs or their like, for the parallelism of attention tiles
    usd_per_hour: Mapping[str, float]  # price basis -> USD per accelerator-hour
    purchase_usd: float | None
    fits: tuple[OperatorFit, ...]
    efficiency_like: str  # id whose fits are borrowed (a guess); empty when the fits are its own
    provenance: Mapping[str, Provenance] = field(default_factory=dict)
    notes: str = ""
    sha256: str = ""
    bf16_sparse_flops_per_s: float | None = None
    fp8_sparse_flops_per_s: float | None = None
    fp4_sparse_flops_per_s: float | None = None
    fabric_usd_per_hour: Mapping[str, float] = field(default_factory=dict)  # basis -> price of the fabric, where apart


TierKind = Literal["host-dram", "cxl", "local-ssd", "pool", "object-store"]
TIER_KINDS: tuple[TierKind, ...] = ("host-dram", "cxl", "local-ssd", "pool", "object-store")  # nearest first


@dataclass(frozen=True, slots=True)
class KvTier:
    """KV kept below the accelerator's memory. Sizes and rates are of one node; of all of it for pool and object store.

    Rates are achieved ones of the medium; the link that an accelerator reaches it by is that of the accelerator.
    """

    id: str  # as the scenario names it
    kind: TierKind
    medium: str
    capacity_bytes: float | None  # None: to be sized
    capacity_bytes_max: float  # slots of the node times the largest part
    unit_bytes: float  # what it is bought in; 0: any size
    read_bytes_per_s: float  # of one unit where it is bought in units
    write_bytes_per_s: float
    latency_s: float  # of one fetch before its first byte
    gb_usd_per_hour: float | None  # None: comes with the node, or not known
    drive_writes_per_day_max: float | None = None  # rated endurance of a drive
    link_factor: float = 1.0  # of the accelerator's link rate that copies reach
    accelerators_per_link: int = 1  # that share one host link
    provenance: Mapping[str, Provenance] = field(default_factory=dict)
