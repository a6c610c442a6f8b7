"""What the program answers: states of pools, predictions, money, plans."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from planner.records.common import Note
from planner.records.hardware import Provenance
from planner.records.question import Deployment, FailureDomain, Scenario


@dataclass(frozen=True, slots=True)
class Limit:
    """One thing that could stop the plan: its value, its limit, and what would move it."""

    name: str
    value: float
    limit: float
    unit: str
    slack_fraction: float  # (limit - value) / limit
    binding: bool
    what_would_relax_it: str


@dataclass(frozen=True, slots=True)
class PoolState:
    """One pool under load."""

    utilization: float
    mean_batch: float
    kv_capacity_tokens: float  # per worker
    kv_mean_tokens: float
    kv_p99_tokens: float
    memory_bytes: Mapping[str, float]  # per accelerator: weights, kv, activations, reserve
    trust: str  # ok | caution | no closed form
    trust_reason: str = ""


@dataclass(frozen=True, slots=True)
class TransferState:
    """KV moving from prefill to decode."""

    bytes_per_request: float
    bytes_per_s: float  # achieved rate of one transfer
    mean_s: float  # exposed, after the layer-wise overlap
    utilization: float  # of the busier side's NICs
    staging_tokens: float  # decode-side KV held for requests still on their way, per decode worker


@dataclass(frozen=True, slots=True)
class FormulaBand:
    """Where the exact value of a statistic lies for these step times, as far as the formulas go, and their trust."""

    low_s: float
    high_s: float | None  # None: not bounded
    trust: str  # ok | caution | no closed form
    reason: str = ""


@dataclass(frozen=True, slots=True)
class TierState:
    """One place that holds KV, under load. Rates are per node (of all of it for pool and object store)."""

    id: str
    medium: str
    capacity_bytes: float
    capacity_tokens: float  # of the whole deployment, tokens that are also in a nearer place counted
    bytes_per_token: float  # stored, copies of the ranks counted
    hit_fraction: float  # of all prompt tokens, found here and in no nearer place
    read_bytes_per_s: float
    read_bytes_per_s_max: float
    write_bytes_per_s: float
    write_bytes_per_s_max: float
    utilization: float  # the larger of both shares
    messages_per_s: float  # per network card; 0 where no network is used
    messages_per_s_max: float
    drive_writes_per_day: float | None
    drive_writes_per_day_max: float | None
    fetch_s: float  # of the mean prefix found here, alone
    recompute_s: float  # what computing the same prefix would add
    break_even_tokens: float | None  # shortest prefix that is fetched faster than it is computed; None: no prefix is
    added_ttft_s: Mapping[str, float]  # over requests that fetch from here: mean, p50, p90, p99
    saved_accelerators: float  # prefill work that these hits save, at the headroom of a pool
    usd_per_hour: float | None  # of the tier itself
    saved_usd_per_hour: float | None  # accelerators saved, less that


@dataclass(frozen=True, slots=True)
class Prediction:
    """One deployment under one workload. Statistics are maps keyed by STATISTICS; None means not bounded."""

    ttft_s: Mapping[str, float]
    itl_s: Mapping[str, float]
    tpot_s: Mapping[str, float]
    e2e_s: Mapping[str, float]
    intervals: Mapping[str, Mapping[str, tuple[float, float | None]]]  # "ttft_s" -> statistic -> (low, high)
    coverage: float
    requests_per_s_max: float
    output_tokens_per_s: float
    ttft_parts_s: Mapping[str, float]  # wait, prefill, transfer, admission, first step, fixed; sum to the mean
    step_parts_s: Mapping[str, float]  # one decode step at the mean batch, by named part
    prefill: PoolState | None
    decode: PoolState
    transfer: TransferState | None
    prefill_time_fraction: float = 0.0  # colocated: share of busy time that prefill adds to the steps
    tiers: tuple[TierState, ...] = ()  # accelerator memory first; empty where nothing is known of reuse
    notes: tuple[Note, ...] = ()
    formula_bands: Mapping[str, Mapping[str, FormulaBand]] = field(default_factory=dict)  # as `intervals`


@dataclass(frozen=True, slots=True)
class CostLine:
    """One part of a price, with the range that its quotes leave and where they come from."""

    name: str
    usd_per_hour: float
    low_usd_per_hour: float
    high_usd_per_hour: float
    provenance: Provenance


@dataclass(frozen=True, slots=True)
class PriceFlip:
    """A price at which another plan would be as cheap: `factor` times what it is now."""

    name: str
    factor: float
    alternative: int  # its place among the alternatives
    within_range: bool  # whether quotes of that price reach so far


@dataclass(frozen=True, slots=True)
class Money:
    basis: str  # price basis, empty when a price is missing
    usd_per_hour: float | None
    usd_per_mtok: Mapping[str, float]  # input, cached_input, output
    watts: float | None
    joules_per_output_token: float | None
    usd_per_request: float | None = None
    lines: tuple[CostLine, ...] = ()  # sum to usd_per_hour
    flips: tuple[PriceFlip, ...] = ()  # nearest first


@dataclass(frozen=True, slots=True)
class Alternative:
    """The best of another mode or accelerator, and why it lost."""

    deployment: Deployment
    usd_per_hour: float | None
    prediction: Prediction
    feasible: bool
    why_it_lost: str


@dataclass(frozen=True, slots=True)
class PoolSpare:
    """The spare workers of one pool and what they are worth."""

    spare: int  # that may be lost at once
    unit_workers: int  # that fail as one
    unit_mtbf_s: float
    repair_s: float
    held_fraction: float  # of the time in which no more than the spare ones are out


@dataclass(frozen=True, slots=True)
class Resilience:
    """What a plan does with its spare workers lost in every pool at once."""

    domain: FailureDomain
    pools: Mapping[str, PoolSpare]
    held_fraction: float  # of the time in which no pool has lost more than its spare
    target_fraction: float | None
    ttft_s: Mapping[str, float]
    itl_s: Mapping[str, float]
    tpot_s: Mapping[str, float]
    e2e_s: Mapping[str, float]
    spare_usd_per_hour: float | None
    spare_accelerators: int


@dataclass(frozen=True, slots=True)
class Plan:
    """The answer to a scenario."""

    scenario: Scenario
    verdict: Literal["feasible", "infeasible"]
    deployment: Deployment | None  # None when no candidate can even hold the model; limits say why
    prediction: Prediction | None
    money: Money | None
    limits: tuple[Limit, ...]
    alternatives: tuple[Alternative, ...]
    missed: tuple[Limit, ...] = ()  # limits the nearest plan breaks, when infeasible
    candidates: int = 0
    notes: tuple[Note, ...] = ()
    resilience: Resilience | None = None  # where the scenario asks for availability
    picked: int = 0  # point of the front that was asked for; 0: what the search found
