"""The scenario file as pydantic models, and its JSON Schema for editors.

Models hold values in base units. Every field is a leaf with its own sentence for the user, a mapping, or a list, never
a union of mappings, so the location of a pydantic error is a place in the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
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

from planner import units
from planner.errors import printable
from planner.files import lengths
from planner.files.nearest import did_you_mean
from planner.files.schema_speculation import Imbalance, SpeculationKeys
from planner.records import ROUTERS, FailureDomain, Mode, Router
from planner.units import shown

WEIGHTS = ("bf16", "fp8", "fp8_block", "nvfp4", "mxfp4", "int8", "int4")
KV_DTYPES = ("bf16", "fp8")
MODES = get_args(Mode)
DOMAINS = get_args(FailureDomain)
MOST_SPARE = 64  # failures at once that are sized for
_ALIASES = {"bfloat16": "bf16", "colocated": "colocated-chunked"}
AUTO_TIERS = ("host-dram", "local-ssd")  # what `kv_tiers: auto` chooses among
_MOST_COUNT = 1_000_000
# Per kind of quantity, the least and the most that is sized, in base units and as a message says it.
_DOMAINS: Mapping[str, tuple[float, str, float, str]] = {
    "requests_per_s": (1 / 86400, "1 /d", 1e6, "1,000,000 /s"),
    "seconds": (1e-6, "1 us", 8.64e9, "100,000 d"),
    "bytes_per_s": (1e6, "1 MB/s", 1e14, "100 TB/s"),
    "usd_per_hour": (1e-4, "0.0001 USD/h", 1e9, "1,000,000,000 USD/h"),
    "bytes": (1.0, "1 B", 1e18, "1 EB"),
    "watts": (1.0, "1 W", 1e12, "1,000,000 MW"),
    "usd_per_mtok": (1e-6, "0.000001 USD/Mtok", 1e6, "1,000,000 USD/Mtok"),
}

# ------------------------------------------------------------------------------------------------------------ leaves


def _quantity(value: object, kind: str) -> float:
    number = units.parse(value, kind)
    least, least_text, most, most_text = _DOMAINS[kind]
    if number == 0:
        raise ValueError(f"{shown(value)} is not above zero")
    if number < least:
        raise ValueError(f"{shown(value)} is less than is ever sized; want at least {least_text}")
    if number > most:
        raise ValueError(f"{shown(value)} is more than is ever sized; want at most {most_text}")
    return number


def _number(value: object, least: float, most: float, what: str) -> float:
    if isinstance(value, str):
        raise ValueError(f"{shown(value)} is text; want {what} as a bare number")
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{shown(value)} is not {what}")
    if not least <= value <= most:
        raise ValueError(f"{shown(value)} is out of range; want {what} from {least:,.0f} to {most:,.0f}")
    return float(value)


def _count(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{shown(value)} is not a whole number; counts carry no unit")
    if not 1 <= value <= _MOST_COUNT or value != int(value):
        raise ValueError(f"{shown(value)} is not a whole number from 1 to {_MOST_COUNT:,}")
    return int(value)


def _spare(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{shown(value)} is not a whole number; counts carry no unit")
    if not 0 <= value <= MOST_SPARE or value != int(value):
        raise ValueError(f"{shown(value)} is not a whole number from 0 to {MOST_SPARE}")
    return int(value)


def _duty(value: object) -> float:
    share = units.parse(value, "fraction")
    if not 0.0 < share <= 1.0:
        raise ValueError(f"{shown(value)} is not a share above 0 and up to 100 %; want e.g. 40 %")
    return share


def _share(value: object) -> float:
    share = units.parse(value, "fraction")
    if not 0.0 < share < 1.0:
        raise ValueError(f"{shown(value)} is not a share of the time between 0 and 100 %; want e.g. 99.9 %")
    return share


def _text(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{shown(value)} is not a name; want text")
    if printable(value) != value:
        raise ValueError(f"{shown(value)} holds a control character; want printable text")
    return value.strip()


def _text_or_number(value: object) -> str:
    """A version, which YAML may read as a number: 0.33."""
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else _text(value)


def _choice(value: object, names: tuple[str, ...]) -> str:
    name = _ALIASES.get(value, value) if isinstance(value, str) else value
    if name not in names:
        raise ValueError(f"{shown(value)} is not known; {did_you_mean(str(value), names)}")
    return str(name)


def _ratio(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{shown(value)} is not a ratio; want a bare number from 0 to 1, e.g. 0.6")
    if not 0 <= value <= 1:
        raise ValueError(f"{shown(value)} is out of range; want a ratio from 0 to 1, e.g. 0.6 for 60 %")
    return float(value)


def _size(value: object) -> object:
    return value if value == "auto" else _quantity(value, "bytes")


def _tiers(value: object) -> object:
    if value == "auto":
        return {tier: {"size": "auto"} for tier in AUTO_TIERS}
    if not isinstance(value, dict):
        raise ValueError(f"{shown(value)}: want auto, or a size per tier, e.g. {{host-dram: 1 TB, local-ssd: auto}}")
    if not value:
        raise ValueError("is empty; want auto, or a size per tier, e.g. {host-dram: 1 TB}")
    return value


def _poisson(value: object) -> float:
    if isinstance(value, bool) or value != 1:
        raise ValueError(f"{shown(value)}: only Poisson arrivals (scv 1) are sized; give a trace for burstier traffic")
    return 1.0


def _version(value: object) -> int:
    if value != 1 or isinstance(value, bool):
        raise ValueError(f"{shown(value)} is not a version of this format; want 1")
    return 1


def _written(example: str) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "examples": [example]})


def _one_of(names: tuple[str, ...]) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "enum": list(names)})


_TOKENS = partial(_number, least=1, most=1e8, what="a number of tokens")

Count = Annotated[int, BeforeValidator(_count), WithJsonSchema({"type": "integer", "minimum": 1})]
Text = Annotated[str, BeforeValidator(_text), WithJsonSchema({"type": "string", "minLength": 1})]
Expressions = Annotated[
    list[Any], WithJsonSchema({"type": "array", "items": {"type": "string", "examples": ["ttft.p99 <= 800 ms"]}})
]
Names = Annotated[list[Any], WithJsonSchema({"type": "array", "items": {"type": "string"}, "minItems": 1})]
Tokens = Annotated[float, BeforeValidator(_TOKENS), WithJsonSchema({"type": "number", "minimum": 1})]
Latency = Annotated[float, BeforeValidator(partial(_quantity, kind="seconds")), _written("800 ms")]
RequestRate = Annotated[float, BeforeValidator(partial(_quantity, kind="requests_per_s")), _written("12 /s")]
ByteRate = Annotated[float, BeforeValidator(partial(_quantity, kind="bytes_per_s")), _written("400 Gb/s")]
TokensOrNone = Annotated[
    float,
    BeforeValidator(partial(_number, least=0, most=1e8, what="a number of tokens")),
    WithJsonSchema({"type": "number", "minimum": 0}),
]
TierSize = Annotated[Any, BeforeValidator(_size), _written("1 TB")]
UsdPerHour = Annotated[float, BeforeValidator(partial(_quantity, kind="usd_per_hour")), _written("200 USD/h")]
Power = Annotated[float, BeforeValidator(partial(_quantity, kind="watts")), _written("40 kW")]
UsdPerMtok = Annotated[float, BeforeValidator(partial(_quantity, kind="usd_per_mtok")), _written("1.20 USD/Mtok")]
Ratio = Annotated[float, BeforeValidator(_ratio), WithJsonSchema({"type": "number", "minimum": 0, "maximum": 1})]
_SCV = partial(_number, least=0, most=lengths.MOST_SCV, what="a squared coefficient of variation")
_SIZE_SCV = partial(_number, least=0, most=3, what="a squared coefficient of variation")
_FACTOR = partial(_number, least=1, most=1000, what="a factor on the mean rate")


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
    scv: Annotated[float, BeforeValidator(_SCV), WithJsonSchema({"type": "number", "minimum": 0})] | None = None

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

    factor: Annotated[float, BeforeValidator(_FACTOR), WithJsonSchema({"type": "number", "minimum": 1})]
    duration: Latency


class ArrivalKeys(_Keys):
    """How requests come: `scv` of the gaps between them (1 = Poisson), or with a peak."""

    scv: Annotated[float, BeforeValidator(_poisson), WithJsonSchema({"const": 1})] | None = None
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
    scv: Annotated[float, BeforeValidator(_SCV), WithJsonSchema({"type": "number", "minimum": 0})] = 0.0


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
    size_scv: (
        Annotated[float, BeforeValidator(_SIZE_SCV), WithJsonSchema({"type": "number", "minimum": 0, "maximum": 3})]
        | None
    ) = None
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

    spare: Annotated[int, BeforeValidator(_spare), WithJsonSchema({"type": "integer", "minimum": 0})] | None = None
    target: Annotated[float, BeforeValidator(_share), _written("99.9 %")] | None = None
    domain: Annotated[str, BeforeValidator(partial(_choice, names=DOMAINS)), _one_of(DOMAINS)] = "worker"
    mtbf: Latency | None = None
    repair: Latency | None = None


class CostKeys(_Keys):
    """How to price: a `basis` (`on-demand`, `3-year`, `own`, `sheet`, or one of the catalog), a `sheet` of your own
    prices, and `duty`, the mean load over that of the scenario, round the clock."""

    basis: Text | None = None
    sheet: Text | None = None
    duty: Annotated[float, BeforeValidator(_duty), _written("40 %")] = 1.0


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

    mode: Annotated[Mode, BeforeValidator(partial(_choice, names=MODES)), _one_of((*MODES, "colocated"))]
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


class ScenarioKeys(_Keys):
    """The whole file. Required keys are checked by the reader, so that one broken section hides no other."""

    model_config = ConfigDict(
        json_schema_extra={
            "required": ["model", "workload"],
            "anyOf": [{"required": ["targets"]}, {"required": ["checks"]}],
        }
    )

    version: Annotated[int, BeforeValidator(_version), WithJsonSchema({"const": 1})] = 1
    model: Text | None = None
    weights: Annotated[str, BeforeValidator(partial(_choice, names=WEIGHTS)), _one_of(WEIGHTS)] | None = None
    kv_cache: Annotated[str, BeforeValidator(partial(_choice, names=KV_DTYPES)), _one_of(KV_DTYPES)] = "bf16"
    engine: Text = "generic"
    engine_version: Annotated[str, BeforeValidator(_text_or_number), WithJsonSchema({"type": "string"})] | None = None
    router: Annotated[Router, BeforeValidator(partial(_choice, names=ROUTERS)), _one_of(ROUTERS)] = "least-outstanding"
    speculation: SpeculationKeys | None = None
    expert_imbalance: Imbalance = 1.0
    hardware: HardwareKeys | None = None
    workload: WorkloadKeys | None = None
    targets: TargetKeys | None = None
    budgets: BudgetKeys | None = None
    checks: Expressions | None = None
    cost: CostKeys | None = None
    availability: AvailabilityKeys | None = None
    kv_tiers: Annotated[dict[str, TierKeys], BeforeValidator(_tiers), _TIERS_SCHEMA] | None = None
    deployment: DeploymentKeys | None = None


def scenario_schema() -> dict[str, Any]:
    """The JSON Schema (draft 7) of the scenario file, for editors and other checkers."""
    schema = ScenarioKeys.model_json_schema(by_alias=True)
    return {"$schema": "http://json-schema.org/draft-07/schema#", "title": "planner scenario"} | {
        key: value for key, value in schema.items() if key != "title"
    }
