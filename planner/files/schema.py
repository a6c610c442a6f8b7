"""The scenario file as pydantic models, and its JSON Schema for editors.

Models hold values in base units. Every field is a leaf with its own sentence for the user, a mapping, or a list, never
a union of mappings, so the location of a pydantic error is a place in the file.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, get_args

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    WithJsonSchema,
    model_validator,
)

from planner.files import lengths
from planner.files.schema_values import (
    ByteRate,
    Count,
    Expressions,
    Latency,
    Names,
    Power,
    Ratio,
    RequestRate,
    Scv,
    Text,
    TierSize,
    Tokens,
    TokensOrNone,
    UsdPerHour,
    UsdPerMtok,
    VersionText,
    choice,
    count,
    number,
    read_poisson,
    read_tiers,
    read_version,
    share,
)
from planner.records import ROUTERS, FailureDomain, Mode, Router, Speculation

WEIGHTS = ("bf16", "fp8", "fp8_block", "nvfp4", "mxfp4", "int8", "int4")
MOST_SPARE = 64  # failures at once that are sized for
MOST_DRAFTS = 16

# ---------------------------------------------------------------------------------------------------------- mappings


class _Keys(BaseModel):
    """A mapping of the file with known keys only."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class _KeysOrShort(_Keys):
    """A mapping that may be written as one bare value, that of its first field."""

    bare: ClassVar[dict[str, Any]]  # JSON Schema of the bare value

    @model_validator(mode="before")
    @classmethod
    def _widen(cls, value: Any) -> Any:
        return value if isinstance(value, dict | list) or value is None else {next(iter(cls.model_fields)): value}

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        schema = handler.resolve_ref_schema(handler(core_schema))
        return {"anyOf": [cls.bare, schema]}


class HardwareKeys(_Keys):
    """Candidate accelerators. `prefill` and `decode` replace `accelerators` for one pool; `network` is B/s each."""

    accelerators: Names | None = None
    prefill: Names | None = None
    decode: Names | None = None
    network: ByteRate | None = None


class LengthKeys(_KeysOrShort):
    """Lengths of prompts or of outputs, in tokens: fixed, or a lognormal."""

    bare = {"type": "number", "minimum": 1}

    fixed: Tokens | None = None
    mean: Tokens | None = None
    p50: Tokens | None = None
    p99: Tokens | None = None
    scv: Scv | None = None

    @model_validator(mode="after")
    def _possible(self) -> LengthKeys:
        self.law()
        return self

    def law(self) -> lengths.Marginal:
        """The marginal law; ValueError where the keys contradict each other."""
        match (self.fixed, self.mean, self.p50, self.p99, self.scv):
            case (float(tokens), None, None, None, None) | (None, float(tokens), None, None, None):
                return lengths.fixed(tokens)
            case (None, float(mean), None, float(p99), None):
                return lengths.from_mean_p99(mean, p99)
            case (None, float(mean), None, None, float(scv)):
                return lengths.from_mean_scv(mean, scv)
            case (None, None, float(p50), float(p99), None):
                return lengths.from_p50_p99(p50, p99)
        raise ValueError("want a number of tokens, {mean, p99}, {mean, scv}, {p50, p99} or {mean}")


class PeakKeys(_Keys):
    """The busiest stretch the targets must survive: `factor` times the mean rate for `duration` seconds."""

    factor: Annotated[float, *number(1, 1000, "a factor on the mean rate")]
    duration: Latency


class ArrivalKeys(_Keys):
    """How requests come: `scv` of the gaps between them (1 = Poisson), or with a peak."""

    scv: Annotated[float, BeforeValidator(read_poisson), WithJsonSchema({"const": 1})] | None = None
    peak: PeakKeys | None = None


class TraceKeys(_KeysOrShort):
    """A trace file, its path relative to the scenario; `requests` stretches its time to that mean rate."""

    bare = {"type": "string", "minLength": 1}

    path: Text
    requests: RequestRate | None = None


class ThinkKeys(_KeysOrShort):
    """Pause between an answer and the next turn: a mean, with the `scv` of a lognormal around it."""

    bare = {"type": "string", "examples": ["30 s"]}

    mean: Latency
    scv: Scv = 0.0


class SubAgentKeys(_Keys):
    """Children that a turn starts together every so many turns, and waits for."""

    children: Count
    every_turns: Count = 1
    shared_tokens: TokensOrNone = 0.0
    first_tokens: Tokens
    turns: Count = 1
    growth_tokens: TokensOrNone = 0.0
    output_tokens: Tokens
    turn_time: Latency


class SessionKeys(_Keys):
    """Users who each hold one session of `turns` turns; a turn sends everything said so far.

    Tokens are means; `size_scv` says how much sessions differ.
    """

    users: Count
    turns: Count
    system_prompt_tokens: TokensOrNone = 0.0
    first_tokens: Tokens | None = None
    growth_tokens: TokensOrNone
    output_tokens: Tokens
    think_time: ThinkKeys
    size_scv: Annotated[float, *number(0, 3, "a squared coefficient of variation")] | None = None
    subagents: SubAgentKeys | None = None


class WorkloadKeys(_Keys):
    """Open-loop traffic: a rate with lengths, or a trace; `prefix_hit_ratio` of the prompt tokens are in a cache."""

    requests: RequestRate | None = None
    arrivals: ArrivalKeys | None = None
    peak: PeakKeys | None = None
    input_tokens: LengthKeys | None = None
    output_tokens: LengthKeys | None = None
    trace: TraceKeys | None = None
    prefix_hit_ratio: Ratio | None = None
    sessions: SessionKeys | None = None


class StatisticKeys(_Keys):
    """Limits on statistics of one latency."""

    mean: Latency | None = None
    p50: Latency | None = None
    p90: Latency | None = None
    p95: Latency | None = None
    p99: Latency | None = None
    p99_9: Latency | None = Field(None, alias="p99.9")


class TargetKeys(_Keys):
    """Latency limits: time to first token, between tokens, per output token, end to end."""

    ttft: StatisticKeys | None = None
    itl: StatisticKeys | None = None
    tpot: StatisticKeys | None = None
    e2e: StatisticKeys | None = None


class BudgetKeys(_Keys):
    """Hard limits on what is bought."""

    accelerators: Count | None = None
    usd_per_hour: UsdPerHour | None = None
    usd_per_mtok_output: UsdPerMtok | None = None
    usd_per_mtok_input: UsdPerMtok | None = None
    watts: Power | None = None


class AvailabilityKeys(_Keys):
    """What must survive failures: `spare` failures in each pool at once, or a `target` share of the time.

    `domain` is what fails as one; `mtbf` (of one accelerator) and `repair` (of a fault that needs a part) replace
    what the catalog says.
    """

    spare: Annotated[int, *count(0, MOST_SPARE)] | None = None
    target: Annotated[float, *share("of the time between 0 and 100 %", "99.9 %")] | None = None
    domain: Annotated[FailureDomain, *choice(get_args(FailureDomain))] = "worker"
    mtbf: Latency | None = None
    repair: Latency | None = None


class CostKeys(_Keys):
    """How to price: a `basis` (`on-demand`, `3-year`, `own`, `sheet`, or one of the catalog), a `sheet` of your own
    prices, and `duty`, the mean load over that of the scenario, round the clock."""

    basis: Text | None = None
    sheet: Text | None = None
    duty: Annotated[float, *share("above 0 and up to 100 %", "40 %", whole=True)] = 1.0


class PoolKeys(_Keys):
    """Identical workers of tp * pp * dp accelerators each; `max_batch` is per worker."""

    accelerator: Text | None = None
    replicas: Count
    tp: Count = 1
    pp: Count = 1
    ep: Count = 1
    dp: Count = 1
    max_batch: Count | None = None
    token_budget: Count | None = None


class DeploymentKeys(_Keys):
    """A given deployment: pools `prefill` and `decode` when disaggregated, `colocated` otherwise."""

    mode: Annotated[Mode, *choice(get_args(Mode), "colocated")]
    prefill: PoolKeys | None = None
    decode: PoolKeys | None = None
    colocated: PoolKeys | None = None


class TierKeys(_KeysOrShort):
    """One tier: its size per node, and what it is made of where that is not the usual."""

    bare = {"type": "string", "examples": ["1 TB", "auto"]}

    size: TierSize
    medium: Text | None = None
    read_rate: ByteRate | None = None
    write_rate: ByteRate | None = None


_TIERS_SCHEMA = WithJsonSchema(
    {
        "anyOf": [
            {"const": "auto"},
            {"type": "object", "minProperties": 1, "additionalProperties": TierKeys.model_json_schema()},
        ]
    }
)


class SpeculationKeys(_Keys):
    """Speculative decoding: `draft_tokens` a step, of which `accepted_tokens` are kept, or each with the same rate."""

    draft_tokens: Annotated[int, *count(1, MOST_DRAFTS)]
    accepted_tokens: Annotated[float, *number(0, MOST_DRAFTS, "accepted drafts of a step")] | None = None
    acceptance_rate: Annotated[float, *number(0, 1, "an acceptance rate")] | None = None
    draft_layers: Annotated[int, *count(1, 1000)] = 1

    def record(self) -> Speculation:
        """As a record. ValueError when acceptance is given twice or not at all, or is more than is drafted."""
        if (self.accepted_tokens is None) == (self.acceptance_rate is None):
            raise ValueError("needs accepted_tokens or acceptance_rate, one of them")
        if self.acceptance_rate is not None:
            accepted = sum(self.acceptance_rate**i for i in range(1, self.draft_tokens + 1))
        else:
            accepted = self.accepted_tokens or 0.0
        if accepted > self.draft_tokens:
            raise ValueError(f"accepts {accepted:g} tokens of {self.draft_tokens} drafted; it can keep no more")
        return Speculation(self.draft_tokens, float(accepted), self.draft_layers)


class ScenarioKeys(_Keys):
    """The whole file. Required keys are checked by the reader, so that one broken section hides no other."""

    model_config = ConfigDict(
        json_schema_extra={
            "required": ["model", "workload"],
            "anyOf": [{"required": ["targets"]}, {"required": ["checks"]}],
        }
    )

    version: Annotated[int, BeforeValidator(read_version), WithJsonSchema({"const": 1})] = 1
    model: Text | None = None
    weights: Annotated[str, *choice(WEIGHTS)] | None = None
    kv_cache: Annotated[str, *choice(("bf16", "fp8"))] = "bf16"
    engine: Text = "generic"
    engine_version: VersionText | None = None
    router: Annotated[Router, *choice(ROUTERS)] = "least-outstanding"
    speculation: SpeculationKeys | None = None
    expert_imbalance: Annotated[float, *number(1, 100, "tokens of the fullest expert rank over the mean")] = 1.0
    hardware: HardwareKeys | None = None
    workload: WorkloadKeys | None = None
    targets: TargetKeys | None = None
    budgets: BudgetKeys | None = None
    checks: Expressions | None = None
    cost: CostKeys | None = None
    availability: AvailabilityKeys | None = None
    kv_tiers: Annotated[dict[str, TierKeys], BeforeValidator(read_tiers), _TIERS_SCHEMA] | None = None
    deployment: DeploymentKeys | None = None


def scenario_schema() -> dict[str, Any]:
    """The JSON Schema (draft 7) of the scenario file, for editors and other checkers."""
    schema = ScenarioKeys.model_json_schema(by_alias=True)
    return {"$schema": "http://json-schema.org/draft-07/schema#", "title": "planner scenario"} | {
        key: value for key, value in schema.items() if key != "title"
    }
