"""Frozen records that pass between rooms. They hold values in base units and know no formula.

Times are seconds, sizes bytes, work FLOPs, rates per second, money USD, power watts; the unit is the last part of
a name. `files` fills these records, the computing rooms read them, `render` and `export` show them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# ---------------------------------------------------------------------------------------------------------- hardware


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
    """Fitted constants of one operator on one accelerator (`design/FIDELITY.md` §2, `facts/README.md`).

    Fractions are of the accelerator's own dense peak, memory bandwidth or one-way scale-up rate. Which constants an
    operator uses is said by the formula that reads it in `planner.roofline`; the others stay 0.
    """

    operator: str  # gemm, prefill_attention, prefill_mla, decode_attention, decode_mla, experts, all_reduce, …
    dtype: str  # of weights and compute: bf16, fp8, fp8_block, nvfp4, int8, int4, mxfp4, mxfp4_fp8
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


# ------------------------------------------------------------------------------------------------------------- model


@dataclass(frozen=True, slots=True)
class SoftmaxAttention:
    """Multi-head, grouped-query or multi-query attention; `window_tokens` 0 means the whole context."""

    query_heads: int
    kv_heads: int
    key_dim: int
    value_dim: int
    window_tokens: int = 0
    output_gate: bool = False
    bias: bool = False


@dataclass(frozen=True, slots=True)
class LatentAttention:
    """Multi-head latent attention (MLA), with the sparse indexer of DSA where `index_top_k` > 0."""

    query_heads: int
    query_rank: int  # 0: no low-rank query
    kv_rank: int
    nope_dim: int
    rope_dim: int
    value_dim: int
    index_heads: int = 0
    index_dim: int = 0
    index_top_k: int = 0
    kv_heads: int = 1  # heads the cached vector is made of; tensor parallelism splits those, and copies a single one
    direct: bool = False  # queries meet the cached vector as it is: nothing is expanded into keys and values
    output_gate: bool = False
    compression_tokens: int = 0  # tokens that share one cached vector; 0: each token has its own
    window_tokens: int = 0  # newest tokens whose own vectors are kept beside, in a buffer of fixed size
    output_groups: int = 0  # grouped low-rank output projection: so many groups of rank `output_rank`
    output_rank: int = 0


@dataclass(frozen=True, slots=True)
class RecurrentMixer:
    """Linear attention or a state-space mixer: a state per sequence instead of keys and values per token."""

    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int
    conv_tokens: int = 0
    kind: str = "gated-delta"  # gated-delta | kda | mamba1 | mamba2 | lightning | short-conv (which has no state)
    full_rank_gate: bool = False  # kda: the output gate is one matrix, not two of low rank


@dataclass(frozen=True, slots=True)
class DenseFeedForward:
    intermediate: int
    gated: bool = True


@dataclass(frozen=True, slots=True)
class Experts:
    experts: int
    top_k: int
    intermediate: int
    shared_intermediate: int = 0  # sum over shared experts
    gated: bool = True
    hidden: int = 0  # width the routed experts work in; 0: that of the model


Mixer = SoftmaxAttention | LatentAttention | RecurrentMixer
FeedForward = DenseFeedForward | Experts | None


@dataclass(frozen=True, slots=True)
class LayerKind:
    """`count` identical layers. The order of kinds carries no meaning."""

    count: int
    mixer: Mixer | None
    feed_forward: FeedForward


@dataclass(frozen=True, slots=True)
class ModelShape:
    """What a model is: a list of layer kinds between an embedding and a head."""

    id: str
    architecture: str
    hidden: int
    vocabulary: int
    layers: tuple[LayerKind, ...]
    tied_embeddings: bool
    max_context_tokens: int
    checkpoint_format: str  # bf16 | fp8 | fp8_block | nvfp4 | mxfp4 | int8 | int4: as stored
    draft_layers: int = 0  # multi-token-prediction layers in the checkpoint, not served unless asked
    notes: tuple[str, ...] = ()
    source: str = ""
    sha256: str = ""
    declared_layers: int = 0  # layers by the model's own count where its blocks are listed apart; 0: sum of `layers`
    borrowed_kv: tuple[bool, ...] = ()  # per kind: attends to the keys and values of earlier layers, has none itself
    side_parameters: int = 0  # per-layer embedding tables and the like, outside the layers; looked up, not multiplied
    reused_parameters: int = 0  # of weights that several layers share: what the layers count more than once
    encoder_parameters: int = 0  # of image and sound encoders, in bf16; counted apart
    checkpoint_other_format: str = ""  # of what is no routed expert, where the checkpoint says so


# ------------------------------------------------------------------------------------------------------------ engine


@dataclass(frozen=True, slots=True)
class EngineConstants:
    """The fitted engine constants of `design/FIDELITY.md` §6; the letter in each comment is its symbol there."""

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


@dataclass(frozen=True, slots=True)
class MemoryRule:
    """How an engine sizes its KV pool (`facts/engines/memory_rules.csv`)."""

    basis: Literal["total", "free-before-load", "free-after-load"]
    fraction: float  # of the basis; 0 with `free-before-load`: derived by SGLang's own rule
    context_bytes: float  # driver context, graphs and libraries per accelerator
    collective_bytes: float  # buffers per accelerator once more than one takes part
    block_tokens: int


@dataclass(frozen=True, slots=True)
class ConnectorRule:
    """Which prefill and decode workers a connector can move KV caches between (`facts/engines/memory_rules.csv`)."""

    tp: Literal["any", "multiple", "equal"]  # of the prefill and the decode worker
    prefill_tp_above_decode: Literal["always", "kv-heads", "latent", "never"]
    # kv-heads: while prefill copies no key-value head; latent: for latent and recurrent attention only
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
    """The memory rule of versions up to `until`, which begins with the same numbers (0.20 holds 0.20.1)."""

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
    interval_widths: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """"<mode>/<class>/<accelerator>" -> what log intervals of step times and of TTFT are stretched by there."""
    interval_growth: Mapping[float, tuple[float, float]] = field(default_factory=dict)
    """Coverage -> what log intervals of step times and of TTFT are stretched by to hold it."""
    connectors: Mapping[str, ConnectorRule] = field(default_factory=dict)
    connector: str = ""  # the one that moves caches; empty: nothing is known to refuse
    refused_mixers: frozenset[str] = frozenset()  # kinds of recurrent mixers that the engine lacks
    kv8_needs_fp8_units: Literal["never", "latent", "always"] = "never"  # for which attention an 8-bit cache does
    device_defaults: tuple[DeviceDefault, ...] = ()  # largest memory first
    older: tuple[OlderRule, ...] = ()  # oldest first
    decode_reserved_tokens: int = 0  # of KV that a decode pool keeps free for each request, running or on its way


# ---------------------------------------------------------------------------------------------------------- workload


@dataclass(frozen=True, slots=True)
class SubAgents:
    """Children that a turn of a session starts now and then, all at once; the turn waits for them."""

    children: int
    every_turns: int  # of the parent, from one burst to the next
    shared_tokens: float  # prompt that every child of every user shares
    first_tokens: float  # a child's own task
    turns: int
    growth_tokens: float
    output_tokens: float
    gap_s: float  # from one turn of a child to its next


@dataclass(frozen=True, slots=True)
class Sessions:
    """Users who each hold one session at a time: a closed loop of turns that send everything said so far."""

    users: int
    turns: int
    system_tokens: float  # shared by all
    first_tokens: float  # own part of the first prompt
    growth_tokens: float  # that a user or a tool adds per turn, the answer apart
    output_tokens: float
    think_s: float  # between an answer and the next turn
    think_scv: float = 0.0
    sub_agents: SubAgents | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Lengths:
    """Joint law of prompt and output lengths: atoms with weights that sum to 1."""

    input_tokens: Floats
    output_tokens: Floats
    weights: Floats
    cached_tokens: Floats | None = None  # of each prompt found in a cache; None: the workload's ratio of all of it
    fetched_tokens: Floats | None = None  # (tiers, atoms) of the cached ones, those that a tier must hand over


@dataclass(frozen=True, slots=True, eq=False)
class Arrivals:
    """Requests of a trace in time order, for load that moves."""

    time_s: Floats
    input_tokens: Floats
    output_tokens: Floats
    duration_s: float
    cached_tokens: Floats | None = None  # as in Lengths


@dataclass(frozen=True, slots=True, eq=False)
class PromptBlocks:
    """Prompts of a trace as cache blocks, in the order of its requests; equal ids are one block.

    Request r holds ids[offsets[r]:offsets[r + 1]]; `block_tokens` is None where blocks have no fixed size.
    """

    ids: NDArray[np.int64]
    offsets: NDArray[np.int64]
    block_tokens: int | None


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """A read trace. `arrivals` is None for a list of lengths without times; lengths stand in the order of requests."""

    arrivals: Arrivals | None
    lengths: Lengths
    notes: tuple[Note, ...]
    sha256: str
    format: str
    input_tokens: Floats
    output_tokens: Floats
    blocks: PromptBlocks | None = None
    cached_tokens: Floats | None = None  # that the provider's own cache gave, where the trace says so


@dataclass(frozen=True, slots=True, eq=False)
class Workload:
    """Open-loop traffic. `requests_per_s` is the long-run mean, `peak_factor` what the targets must also survive."""

    requests_per_s: float
    lengths: Lengths
    arrivals: Arrivals | None = None
    peak_factor: float = 1.0
    peak_duration_s: float = 0.0
    description: str = ""
    prefix_hit_fraction: float = 0.0  # of prompt tokens found in a cache, the same share of every prompt
    blocks: PromptBlocks | None = None  # of a trace that has them, in the order of `arrivals`
    sessions: Sessions | None = None  # who sends the requests, where the file says; rate and lengths follow from it


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


# ------------------------------------------------------------------------------------------------ question and answer

STATISTICS = ("mean", "p50", "p90", "p95", "p99", "p99_9")
PROBABILITY = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p99_9": 0.999}
METRICS = ("ttft", "itl", "tpot", "e2e")
ROUTERS = ("least-outstanding", "queue-aware")
Router = Literal["least-outstanding", "queue-aware"]
Mode = Literal["disaggregated", "colocated-chunked", "colocated-whole-prompt"]


@dataclass(frozen=True, slots=True)
class Target:
    """A latency limit: `metric` of METRICS, `statistic` of STATISTICS."""

    metric: str
    statistic: str
    limit_s: float


@dataclass(frozen=True, slots=True)
class Budget:
    """A limit on something bought: accelerators, usd_per_hour, usd_per_mtok_output, usd_per_mtok_input."""

    name: str
    limit: float
    unit: str


@dataclass(frozen=True, slots=True)
class Check:
    """A limit that a result is held to, and where it is written. Names and units are those of `planner.metrics`."""

    metric: str
    statistic: str  # empty where the metric is one number
    comparison: Literal["<=", ">="]
    limit: float
    unit: str  # of the limit; "1" for a relative change
    change: bool = False  # of the difference to a baseline, not of the value
    relative: bool = False  # the difference as a fraction of the baseline
    text: str = ""  # as written
    path: str = ""
    line: int = 0
    column: int = 0


DECODE_TOKEN_BUDGET = 256  # tokens of a step that a pool without prompts is launched with, or its batch where larger


@dataclass(frozen=True, slots=True)
class Pool:
    """Identical workers. A worker has tp * pp * dp accelerators; `max_batch` is per worker (all its ranks)."""

    accelerator: str
    replicas: int
    tp: int = 1
    pp: int = 1
    ep: int = 1
    dp: int = 1
    max_batch: int = 0  # 0: not given
    token_budget: int = 0  # 0: the engine's default

    @property
    def worker_accelerators(self) -> int:
        return self.tp * self.pp * self.dp

    @property
    def accelerators(self) -> int:
        """Accelerators of the pool.

        Id: pool.accelerators.  replicas * tp * pp * dp  (one function counts, HOUSE §7)
        """
        return self.replicas * self.worker_accelerators


@dataclass(frozen=True, slots=True)
class Deployment:
    """Two pools when disaggregated, one (in `decode`) when colocated."""

    mode: Mode
    decode: Pool
    prefill: Pool | None = None

    @property
    def pools(self) -> tuple[Pool, ...]:
        return (self.decode,) if self.prefill is None else (self.prefill, self.decode)

    @property
    def accelerators(self) -> int:
        """Accelerators of all pools.

        Id: plan.accelerators.  sum over the pools of their accelerators  (HOUSE §7)
        """
        return sum(pool.accelerators for pool in self.pools)


@dataclass(frozen=True, slots=True)
class Reliability:
    """How often accelerators stop, and what it takes until a worker serves again."""

    accelerator_mtbf_s: Quoted  # mean time between stops of any cause, of one accelerator
    hard_fraction: Quoted  # of the stops that need a part; the rest end with a restart
    hard_repair_s: Quoted
    detect_s: Quoted
    load_bytes_per_s: Quoted  # weights into one worker
    start_s: Quoted  # of an engine besides loading
    ssd_bytes_per_s: Quoted  # reading rate of the local flash of one accelerator


@dataclass(frozen=True, slots=True)
class OwnCosts:
    """What owning costs besides the accelerators. Per node or per accelerator; `years` of useful life."""

    host_usd: Quoted  # per node
    dram_usd_per_gb: Quoted
    dram_bytes: Quoted  # per node
    ssd_usd_per_gb: Quoted
    ssd_bytes: Quoted  # per node
    nic_usd: Quoted  # per accelerator
    switch_usd: Quoted  # per accelerator
    operations_fraction: Quoted  # of what was bought, a year
    interest_fraction: Quoted
    years: Quoted
    electricity_usd_per_kwh: Quoted
    pue_factor: Quoted
    host_watts: Quoted  # per accelerator
    power_use_fraction: Quoted  # mean over nameplate power


@dataclass(frozen=True, slots=True)
class Costs:
    """How a scenario wants to be priced. `basis` empty: the first that every candidate has; own: from parts."""

    basis: str = ""
    duty_fraction: float = 1.0  # mean load over the load of the scenario, round the clock
    own: OwnCosts | None = None
    purchase_usd: Mapping[str, Quoted] = field(default_factory=dict)  # by accelerator, over the catalog's
    rent_usd_per_hour: Mapping[str, Quoted] = field(default_factory=dict)  # by accelerator: the basis `sheet`


FailureDomain = Literal["worker", "node", "rack"]


@dataclass(frozen=True, slots=True)
class Availability:
    """What must survive failures: so many lost per pool, or so large a share of the time. One of the two is given."""

    spare: int | None
    target_fraction: float | None
    domain: FailureDomain  # what fails as one


@dataclass(frozen=True, slots=True)
class InputFile:
    path: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Speculation:
    """Drafted tokens that a step verifies: of `draft_tokens` a mean of `accepted_tokens` are kept, and one is made.

    `draft_layers` layers of the model's own make make each draft (multi-token-prediction heads).
    """

    draft_tokens: int
    accepted_tokens: float
    draft_layers: int = 1

    @property
    def step_tokens(self) -> float:
        """Mean tokens that a sequence gains in a step."""
        return 1.0 + self.accepted_tokens


@dataclass(frozen=True, slots=True, eq=False)
class Scenario:
    """One question, complete: everything a computing room needs and nothing it must look up."""

    name: str
    model: ModelShape
    weights: str
    kv_dtype: str
    engine: EngineProfile
    prefill_accelerators: tuple[Accelerator, ...]
    decode_accelerators: tuple[Accelerator, ...]
    network_bytes_per_s: float | None
    workload: Workload
    targets: tuple[Target, ...]
    budgets: tuple[Budget, ...]
    deployment: Deployment | None
    inputs: tuple[InputFile, ...] = ()
    notes: tuple[Note, ...] = ()
    checks: tuple[Check, ...] = ()  # all that the file asks for, targets and budgets among them
    router: Router = "least-outstanding"  # goes by all requests in flight, or by the prompts that wait
    reliability: Reliability | None = None
    availability: Availability | None = None
    costs: Costs = Costs()
    tiers: tuple[KvTier, ...] = ()  # below the accelerator's memory, nearest first
    speculation: Speculation | None = None
    expert_imbalance_factor: float = 1.0  # tokens of the fullest expert rank over the mean

    def accelerator(self, accelerator_id: str) -> Accelerator:
        for accelerator in (*self.prefill_accelerators, *self.decode_accelerators):
            if accelerator.id == accelerator_id:
                return accelerator
        raise KeyError(accelerator_id)


@dataclass(frozen=True, slots=True)
class MapAxis:
    """One quantity that a map varies: its name, unit and ascending values in base units."""

    name: str  # of planner.files.axes.QUANTITIES
    label: str
    unit: str
    values: tuple[float, ...]
    log: bool = True


@dataclass(frozen=True, slots=True)
class Note:
    level: Literal["info", "caution", "warning"]
    text: str


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
