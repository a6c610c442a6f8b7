"""Frozen records that pass between rooms. They hold values in base units and know no formula.

Times are seconds, sizes bytes, work FLOPs, rates per second, money USD, power watts; the unit is the last part of
a name. `files` fills these records, the computing rooms read them, `render` and `export` show them.
"""

from __future__ import annotations

from planner.records.answer import (
    Alternative,
    CostLine,
    FormulaBand,
    Limit,
    Money,
    Plan,
    PoolSpare,
    PoolState,
    Prediction,
    PriceFlip,
    Resilience,
    TierState,
    TransferState,
)
from planner.records.common import Floats, Note
from planner.records.engine import (
    ConnectorRule,
    DeviceDefault,
    EngineConstants,
    EngineProfile,
    IntervalFactors,
    MemoryRule,
    OlderRule,
)
from planner.records.hardware import TIER_KINDS, Accelerator, KvTier, OperatorFit, Provenance, Quoted, TierKind
from planner.records.measured import ClosedLoop, Measurement
from planner.records.model import (
    DenseFeedForward,
    Experts,
    FeedForward,
    LatentAttention,
    LayerKind,
    Mixer,
    ModelShape,
    RecurrentMixer,
    SoftmaxAttention,
)
from planner.records.question import (
    DECODE_TOKEN_BUDGET,
    METRICS,
    PROBABILITY,
    ROUTERS,
    STATISTICS,
    Availability,
    Budget,
    Check,
    Costs,
    Deployment,
    FailureDomain,
    InputFile,
    MapAxis,
    Mode,
    OwnCosts,
    Pool,
    Reliability,
    RoleName,
    Router,
    Scenario,
    Speculation,
    Target,
)
from planner.records.traffic import Arrivals, Lengths, PromptBlocks, Sessions, SubAgents, Trace, Workload
