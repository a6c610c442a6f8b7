"""Single values of the scenario file: how each is read, what it may be, and how the JSON Schema says so."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any

from pydantic import BeforeValidator, WithJsonSchema

from planner import units
from planner.errors import printable
from planner.files import lengths
from planner.files.nearest import did_you_mean
from planner.units import shown

_ALIASES = {"bfloat16": "bf16", "colocated": "colocated-chunked"}
AUTO_TIERS = ("host-dram", "local-ssd")  # what `kv_tiers: auto` chooses among
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


def read_quantity(value: object, kind: str) -> float:
    number = units.parse(value, kind)
    least, least_text, most, most_text = _DOMAINS[kind]
    if number == 0:
        raise ValueError(f"{shown(value)} is not above zero")
    if number < least:
        raise ValueError(f"{shown(value)} is less than is ever sized; want at least {least_text}")
    if number > most:
        raise ValueError(f"{shown(value)} is more than is ever sized; want at most {most_text}")
    return number


def read_number(value: object, least: float, most: float, what: str) -> float:
    if isinstance(value, str):
        raise ValueError(f"{shown(value)} is text; want {what} as a bare number")
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{shown(value)} is not {what}")
    if not least <= value <= most:
        raise ValueError(f"{shown(value)} is out of range; want {what} from {least:,.0f} to {most:,.0f}")
    return float(value)


def read_count(value: object, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{shown(value)} is not a whole number; counts carry no unit")
    if not least <= value <= most or value != int(value):
        raise ValueError(f"{shown(value)} is not a whole number from {least} to {most:,}")
    return int(value)


def read_share(value: object, whole: bool, what: str, example: str) -> float:
    """A share above 0 and below 100 %; with `whole` 100 % too."""
    share = units.parse(value, "fraction")
    if not 0.0 < share < 1.0 and not (whole and share == 1.0):
        raise ValueError(f"{shown(value)} is not a share {what}; want e.g. {example}")
    return share


def read_text(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{shown(value)} is not a name; want text")
    if printable(value) != value:
        raise ValueError(f"{shown(value)} holds a control character; want printable text")
    return value.strip()


def read_text_or_number(value: object) -> str:
    """A version, which YAML may read as a number: 0.33."""
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else read_text(value)


def read_choice(value: object, names: tuple[str, ...]) -> str:
    name = _ALIASES.get(value, value) if isinstance(value, str) else value
    if name not in names:
        raise ValueError(f"{shown(value)} is not known; {did_you_mean(str(value), names)}")
    return str(name)


def read_ratio(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{shown(value)} is not a ratio; want a bare number from 0 to 1, e.g. 0.6")
    if not 0 <= value <= 1:
        raise ValueError(f"{shown(value)} is out of range; want a ratio from 0 to 1, e.g. 0.6 for 60 %")
    return float(value)


def read_size(value: object) -> object:
    return value if value == "auto" else read_quantity(value, "bytes")


def read_tiers(value: object) -> object:
    if value == "auto":
        return {tier: {"size": "auto"} for tier in AUTO_TIERS}
    if not isinstance(value, dict):
        raise ValueError(f"{shown(value)}: want auto, or a size per tier, e.g. {{host-dram: 1 TB, local-ssd: auto}}")
    if not value:
        raise ValueError("is empty; want auto, or a size per tier, e.g. {host-dram: 1 TB}")
    return value


def read_poisson(value: object) -> float:
    if isinstance(value, bool) or value != 1:
        raise ValueError(f"{shown(value)}: only Poisson arrivals (scv 1) are sized; give a trace for burstier traffic")
    return 1.0


def read_version(value: object) -> int:
    if value != 1 or isinstance(value, bool):
        raise ValueError(f"{shown(value)} is not a version of this format; want 1")
    return 1


# What stands in `Annotated`: how a value is read, and what the JSON Schema says of it.


def written(example: str) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "examples": [example]})


def _quantity(kind: str, example: str) -> tuple[Any, ...]:
    return BeforeValidator(partial(read_quantity, kind=kind)), written(example)


def number(least: int, most: int, what: str) -> tuple[Any, ...]:
    """A bare number."""
    schema = {"type": "number", "minimum": least, "maximum": most}
    return BeforeValidator(partial(read_number, least=least, most=most, what=what)), WithJsonSchema(schema)


def count(least: int, most: int) -> tuple[Any, ...]:
    """A whole number."""
    schema = {"type": "integer", "minimum": least, "maximum": most}
    return BeforeValidator(partial(read_count, least=least, most=most)), WithJsonSchema(schema)


def share(what: str, example: str, whole: bool = False) -> tuple[Any, ...]:
    """A share in percent."""
    return BeforeValidator(partial(read_share, whole=whole, what=what, example=example)), written(example)


def choice(names: tuple[str, ...], *more: str) -> tuple[Any, ...]:
    """One of several names; `more` are other spellings."""
    schema = {"type": "string", "enum": [*names, *more]}
    return BeforeValidator(partial(read_choice, names=names)), WithJsonSchema(schema)


_COUNT_OF_TOKENS = "a number of tokens"
Count = Annotated[int, *count(1, 1_000_000)]
Text = Annotated[str, BeforeValidator(read_text), WithJsonSchema({"type": "string", "minLength": 1})]
VersionText = Annotated[str, BeforeValidator(read_text_or_number), WithJsonSchema({"type": "string"})]
Expressions = Annotated[
    list[Any], WithJsonSchema({"type": "array", "items": {"type": "string", "examples": ["ttft.p99 <= 800 ms"]}})
]
Names = Annotated[list[Any], WithJsonSchema({"type": "array", "items": {"type": "string"}, "minItems": 1})]
Tokens = Annotated[float, *number(1, 100_000_000, _COUNT_OF_TOKENS)]
TokensOrNone = Annotated[float, *number(0, 100_000_000, _COUNT_OF_TOKENS)]
Scv = Annotated[float, *number(0, lengths.MOST_SCV, "a squared coefficient of variation")]
Latency = Annotated[float, *_quantity("seconds", "800 ms")]
RequestRate = Annotated[float, *_quantity("requests_per_s", "12 /s")]
ByteRate = Annotated[float, *_quantity("bytes_per_s", "400 Gb/s")]
UsdPerHour = Annotated[float, *_quantity("usd_per_hour", "200 USD/h")]
UsdPerMtok = Annotated[float, *_quantity("usd_per_mtok", "1.20 USD/Mtok")]
Power = Annotated[float, *_quantity("watts", "40 kW")]
TierSize = Annotated[Any, BeforeValidator(read_size), written("1 TB")]
Ratio = Annotated[float, BeforeValidator(read_ratio), WithJsonSchema({"type": "number", "minimum": 0, "maximum": 1})]
