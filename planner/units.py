"""Quantities as people write them ("141 GB", "400 Gb/s", "800 ms") to base units, and back.

Inside the program every number is in base units: seconds, bytes, FLOP, requests, USD, watts. Prefixes are decimal
(``GB`` = 1e9 bytes) unless binary is spelled (``GiB`` = 2^30 bytes); ``b`` is a bit and ``B`` a byte. A number without
a unit is never guessed at.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import floor, inf, isfinite, log10

_DECIMAL = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50}
_BYTE_PREFIXES = {**_DECIMAL, **_BINARY}
_TIMES = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


def _prefixed(prefixes: dict[str, float], suffixes: dict[str, float]) -> dict[str, float]:
    return {p + suffix: scale * factor for p, scale in prefixes.items() for suffix, factor in suffixes.items()}


@dataclass(frozen=True, slots=True)
class _Kind:
    """A dimension: what to call it, a unit to propose, and every unit it may be written in."""

    name: str
    example: str
    units: dict[str, float]


_KINDS: dict[str, _Kind] = {
    "bytes": _Kind("a size in bytes", "GB", _prefixed(_BYTE_PREFIXES, {"B": 1.0})),
    "bytes_per_s": _Kind(
        "a rate of bytes or bits",
        "GB/s",
        _prefixed(_BYTE_PREFIXES, {"B/s": 1.0}) | _prefixed(_DECIMAL, {"b/s": 1 / 8, "bit/s": 1 / 8, "bps": 1 / 8}),
    ),
    "flops_per_s": _Kind(
        "a compute rate", "TFLOP/s", _prefixed(_DECIMAL, dict.fromkeys(("FLOP/s", "FLOPS", "OP/s", "OPS"), 1.0))
    ),
    "seconds": _Kind("a time", "ms", _TIMES),
    "requests_per_s": _Kind(
        "a request rate",
        "/s",
        {
            f"{noun}/{time}": 1 / seconds
            for noun in ("", "req", "request", "requests")
            for time, seconds in (("s", 1.0), ("min", 60.0), ("h", 3600.0), ("d", 86400.0))
        },
    ),
    "usd": _Kind("an amount of money", "USD", {"USD": 1.0, "$": 1.0}),
    "usd_per_gb": _Kind("a price per gigabyte", "USD/GB", {"USD/GB": 1.0, "$/GB": 1.0, "USD/TB": 1e-3, "$/TB": 1e-3}),
    "usd_per_kwh": _Kind(
        "a price of energy", "USD/kWh", {"USD/kWh": 1.0, "$/kWh": 1.0, "USD/MWh": 1e-3, "$/MWh": 1e-3}
    ),
    "usd_per_hour": _Kind("a price per hour", "USD/h", {"USD/h": 1.0, "USD/hour": 1.0, "$/h": 1.0, "$/hour": 1.0}),
    "usd_per_mtok": _Kind(
        "a price per million tokens",
        "USD/Mtok",
        {f"{coin}/{tokens}": 1e6 / n for coin in ("USD", "$") for tokens, n in (("Mtok", 1e6), ("ktok", 1e3))},
    ),
    "watts": _Kind("a power", "W", {"W": 1.0, "kW": 1e3, "MW": 1e6}),
    "tokens_per_s": _Kind(
        "a token rate",
        "tokens/s",
        {
            f"{noun}/{time}": 1 / s
            for noun in ("tokens", "tok")
            for time, s in (("s", 1.0), ("min", 60.0), ("h", 3600.0))
        },
    ),
    "joules_per_token": _Kind("an energy per token", "J/token", {"J/token": 1.0, "J/tok": 1.0}),
    "fraction": _Kind("a share", "%", {"%": 0.01}),
    "count": _Kind("a whole number", "", {}),
    "ratio": _Kind("a plain number", "", {}),
}
KINDS = tuple(_KINDS)

# Units that name no kind of ours but tell what a value is meant to be.
_OTHER = _prefixed(_BYTE_PREFIXES, {"b": 1.0, "bit": 1.0})
_OWNERS: dict[str, str] = {unit: kind.name for kind in _KINDS.values() for unit in kind.units} | dict.fromkeys(
    _OTHER, "a size in bits"
)
_FOLDED: dict[str, dict[str, str]] = {
    name: {unit.casefold(): unit for unit in reversed(kind.units)} for name, kind in _KINDS.items()
}

_QUANTITY = re.compile(r"\s*([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)\s*([^\s].*?)?\s*", re.ASCII)
_NOT_FINITE = re.compile(r"\s*[+-]?\.?(?:inf|infinity|nan)\b.*", re.IGNORECASE)
_SHOWN = 60  # characters of a bad value that a message repeats


def shown(value: object) -> str:
    """A bad value as a message repeats it: text quoted, all else as YAML would write it, long ones cut."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    text = f"{value:.12g}".replace("e+", "e") if isinstance(value, float) else str(value)
    text = text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
    return f'"{text}"' if isinstance(value, str) else text


def parse(text: object, kind: str) -> float:
    """The value of a quantity in base units.

    Parameters
    ----------
    text : str, or a bare number for the kinds `count` and `ratio`
        What the user wrote, such as ``"141 GB"``.
    kind : str
        One of `KINDS`: bytes, bytes_per_s, flops_per_s, seconds, requests_per_s, usd, usd_per_hour, usd_per_mtok,
        watts, tokens_per_s, joules_per_token, count, ratio. Base units are B, B/s, FLOP/s, s, 1/s, USD, USD/h, USD per
        million tokens, W, tokens/s, J/token, and none.

    Raises
    ------
    ValueError
        With a sentence for the user: no unit, a unit of another dimension, a negative or non-finite number.

    Examples
    --------
    >>> parse("141 GB", "bytes"), parse("400 Gb/s", "bytes_per_s"), parse("700 /min", "requests_per_s")
    (141000000000.0, 50000000000.0, 11.666666666666666)
    """
    wanted = _KINDS[kind]
    number, unit = _split(text, wanted)
    if number < 0:
        raise ValueError(f"{shown(text)} is negative; want e.g. {_example(wanted)}")
    if not wanted.units:
        return _bare(text, number, unit, kind)
    if not unit:
        raise ValueError(f'{shown(text)} has no unit; want e.g. "{_plain(text)} {wanted.example}"')
    scale = wanted.units.get(unit)
    if scale is None:
        raise ValueError(_wrong_unit(text, unit, kind))
    value = number * scale
    if not isfinite(value):
        raise ValueError(f"{shown(text)} is too large to be a number")
    return value


def _split(text: object, wanted: _Kind) -> tuple[float, str]:
    if isinstance(text, bool) or not isinstance(text, str | int | float):
        raise ValueError(f"{shown(text)} is not {wanted.name}; want e.g. {_example(wanted)}")
    match = _QUANTITY.fullmatch(str(text))
    if match is None:
        if _NOT_FINITE.fullmatch(str(text)):
            raise ValueError(f"{shown(text)} is not a finite number; want e.g. {_example(wanted)}")
        raise ValueError(f"{shown(text)} is not {wanted.name}; want e.g. {_example(wanted)}")
    number = float(match[1])
    if not isfinite(number):
        raise ValueError(f"{shown(text)} is too large to be a number")
    return number, match[2] or ""


def _bare(text: object, number: float, unit: str, kind: str) -> float:
    if unit:
        raise ValueError(f"{shown(text)} has a unit; want {_KINDS[kind].name}, e.g. {number:.12g}")
    if kind == "count" and number != int(number):
        raise ValueError(f"{shown(text)} is not a whole number")
    return number


def _example(wanted: _Kind) -> str:
    return f'"12 {wanted.example}"' if wanted.example else "12"


def _plain(text: object) -> str:
    return shown(text).strip('" ')


def _wrong_unit(text: object, unit: str, kind: str) -> str:
    wanted = _KINDS[kind]
    number = _plain(text).removesuffix(unit).strip()
    if unit in _OWNERS:
        also = f' or "{number} Gb/s"' if kind == "bytes_per_s" and unit.endswith("B") else ""
        per_second = f"{unit}/s" if f"{unit}/s" in wanted.units else wanted.example
        return f'{shown(text)} is {_OWNERS[unit]}, not {wanted.name}; want e.g. "{number} {per_second}"{also}'
    near = _FOLDED[kind].get(unit.replace(" ", "").casefold(), wanted.example)
    return f'{shown(text)} has an unknown unit {shown(unit)}; want {wanted.name}, e.g. "{number} {near}"'


# -------------------------------------------------------------------------------------------------------- for humans


def format_seconds(seconds: float) -> str:
    """Three significant digits: "45.0 us", "12.3 ms", "1.20 s", "5.00 min", "36.0 h"."""
    return _scaled(
        seconds, ((1e-6, "us", 1e-3), (1e-3, "ms", 1.0), (1.0, "s", 120.0), (60.0, "min", 7200.0)), 3600.0, "h"
    )


def format_bytes(size_bytes: float) -> str:
    """Decimal units, one digit after the point: "141.0 GB", "98.3 kB", "512 B"."""
    scale, prefix = _prefix(size_bytes, 999.95)
    return f"{size_bytes:.0f} B" if not prefix else f"{size_bytes / scale:.1f} {prefix}B"


def format_bytes_per_s(rate_bytes_per_s: float) -> str:
    """Decimal units, three significant digits: "4.80 TB/s", "50.0 GB/s"."""
    return _metric(rate_bytes_per_s, "B/s")


def format_flops_per_s(rate_flops_per_s: float) -> str:
    """Three significant digits: "989 TFLOP/s"."""
    return _metric(rate_flops_per_s, "FLOP/s")


def format_rate(requests_per_s: float) -> str:
    """Requests per second, three significant digits: "12.0 /s", "0.250 /s", "1,250 /s"."""
    return f"{_three(requests_per_s)} /s"


def format_usd(usd: float) -> str:
    """Cents below a thousand, whole dollars above: "35.92 USD", "12,400 USD"."""
    return f"{usd:z,.2f} USD" if abs(usd) < 999.995 else f"{usd:,.0f} USD"


def format_usd_per_hour(usd_per_hour: float) -> str:
    return f"{format_usd(usd_per_hour)}/h"


def format_usd_per_mtok(usd_per_mtok: float) -> str:
    """Where cents would hide the price, more digits: "0.0042 USD/Mtok", "0.042 USD/Mtok", "1.20 USD/Mtok"."""
    if 0 < abs(usd_per_mtok) < 0.00995:
        return f"{usd_per_mtok:.2g} USD/Mtok"
    return f"{usd_per_mtok:.3f} USD/Mtok" if 0 < abs(usd_per_mtok) < 0.0995 else f"{format_usd(usd_per_mtok)}/Mtok"


def format_watts(watts: float) -> str:
    """Three significant digits: "700 W", "92.4 kW"."""
    return _metric(watts, "W")


def format_count(count: float) -> str:
    """Thousands separated; a fraction only below 100: "12,345", "61.4"."""
    return f"{count:,.0f}" if abs(count) >= 100 or count == round(count) else f"{count:.1f}"


def format_fraction(fraction: float) -> str:
    """A share of one as percent: "87.3%"."""
    return f"{100 * fraction:.1f}%"


def format_availability(fraction: float) -> str:
    """A share of the time with two digits of what is missed: "99.95%", "99.99958%", "62%"."""
    missed = 1.0 - fraction
    if missed <= 0.0:
        return "100%"
    digits = max(1, 1 - floor(log10(100.0 * missed) + 1e-9))
    return f"{100.0 * fraction:.{digits}f}".rstrip("0").rstrip(".") + "%"


def _three(value: float) -> str:
    magnitude = abs(value)
    if magnitude >= 99.95 or magnitude == 0:
        return f"{value:,.0f}"
    decimals = 1 if magnitude >= 9.995 else 2 if magnitude >= 0.9995 else 3
    return f"{value:.{decimals}f}" if magnitude >= 0.0995 else f"{value:.3g}"


def _scaled(value: float, steps: tuple[tuple[float, str, float], ...], last: float, last_unit: str) -> str:
    """`value` in the first unit whose bound it stays under once rounded to three digits."""
    if value == 0:
        return "0 s"
    for scale, unit, bound in steps:
        if abs(value) < bound * 0.9995:
            return f"{_three(value / scale)} {unit}"
    return f"{_three(value / last)} {last_unit}"


def _prefix(value: float, most: float) -> tuple[float, str]:
    for prefix, scale in _DECIMAL.items():
        if abs(value) < most * scale or abs(value) == inf:
            return scale, prefix
    return _DECIMAL["E"], "E"


def _metric(value: float, unit: str) -> str:
    scale, prefix = _prefix(value, 999.5)
    return f"{_three(value / scale)} {prefix}{unit}"
