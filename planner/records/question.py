"""One question, complete: deployments, limits, prices, and the scenario that holds them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from planner.records.common import Note
from planner.records.engine import EngineProfile
from planner.records.hardware import Accelerator, KvTier, Quoted
from planner.records.model import ModelShape
from planner.records.traffic import Workload

STATISTICS = ("mean", "p50", "p90", "p95", "p99", "p99_9")
PROBABILITY = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p99_9": 0.999}
METRICS = ("ttft", "itl", "tpot", "e2e")
ROUTERS = ("least-outstanding", "queue-aware")
Router = Literal["least-outstanding", "queue-aware"]
Mode = Literal["disaggregated", "colocated-chunked", "colocated-whole-prompt"]
RoleName = Literal["prefill", "decode", "colocated"]  # what a pool does


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
        return tuple(self.named_pools.values())

    @property
    def named_pools(self) -> dict[RoleName, Pool]:
        """The pools by what they do, the one that prefills first."""
        if self.prefill is None:
            return {"colocated": self.decode}
        return {"prefill": self.prefill, "decode": self.decode}

    @property
    def decode_name(self) -> RoleName:
        """What the pool `decode` does."""
        return "colocated" if self.prefill is None else "decode"

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
