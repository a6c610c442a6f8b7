"""Axes of a map as people write them, ``input_tokens=256..131072:40``, to values in base units."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from planner import units
from planner.errors import Fault, InputError
from planner.files.nearest import did_you_mean
from planner.records import MapAxis

POINTS = 40
MOST_CELLS = 1_000_000
_RANGE = re.compile(r"(?P<low>.*?)\.\.(?P<high>.*?)(?::(?P<points>[^:]*))?")
_UNIT = re.compile(r"[0-9.eE+\-\s]*(?P<unit>.*)")


@dataclass(frozen=True, slots=True)
class Quantity:
    """Something a map can vary. `kind` is of planner.units; `least` and `most` bound it in base units."""

    label: str
    unit: str
    kind: str
    example: str
    least: float
    most: float
    log: bool = True


QUANTITIES: Mapping[str, Quantity] = {
    "input_tokens": Quantity("mean prompt", "tokens", "ratio", "256..131072", 1.0, 1e8),
    "output_tokens": Quantity("mean output", "tokens", "ratio", "16..4096", 1.0, 1e8),
    "rate": Quantity("load", "requests/s", "requests_per_s", "1/s..200/s", 1e-6, 1e9),
    "concurrency": Quantity("requests in flight", "requests", "ratio", "1..1024", 1.0, 1e6),
    "itl": Quantity("ITL target", "s", "seconds", "10ms..200ms", 1e-6, 1e6),
    "ttft": Quantity("TTFT target", "s", "seconds", "100ms..10s", 1e-6, 1e6),
    "network": Quantity("NIC of an accelerator", "bytes/s", "bytes_per_s", "25Gb/s..800Gb/s", 1e3, 1e15),
    "prefix_hit_ratio": Quantity("share of prompts found in a cache", "", "ratio", "0..0.95", 0.0, 0.99, log=False),
    "price_ratio": Quantity("price of decode over prefill accelerators", "", "ratio", "0.25..4", 1e-3, 1e3),
}
_ALIASES = {
    "isl": "input_tokens", "osl": "output_tokens", "requests": "rate", "clients": "concurrency", "nic": "network",
    "itl_target": "itl", "ttft_target": "ttft", "nic_rate": "network", "prefix_hit_fraction": "prefix_hit_ratio",
}  # fmt: skip


def read_axes(x: str, y: str) -> tuple[MapAxis, MapAxis]:
    """Both axes of a map. Raises InputError with every fault of both."""
    faults: list[Fault] = []
    found = [_axis(option, text, faults) for option, text in (("--x", x), ("--y", y))]
    names = [axis.name for axis in found if axis is not None]
    if len(names) == 2 and names[0] == names[1]:
        faults.append(Fault(f"--x and --y are both {names[0]}; vary two different quantities"))
    if set(names) == {"rate", "concurrency"}:
        faults.append(Fault("rate is an open loop and concurrency a closed one; vary one of them"))
    if faults or found[0] is None or found[1] is None:
        raise InputError(faults)
    return found[0], found[1]


def check_size(axes: Sequence[MapAxis], facets: int, allowed: bool) -> None:
    """Raise InputError for a grid above a million cells, unless it is `allowed`."""
    cells = facets
    for axis in axes:
        cells *= len(axis.values)
    if cells > MOST_CELLS and not allowed:
        text = f"{cells:,} cells are more than {MOST_CELLS:,}; give fewer points, e.g. :100, or --yes to compute them"
        raise InputError([Fault(text)])


def _axis(option: str, text: str, faults: list[Fault]) -> MapAxis | None:
    name, equals, written = text.partition("=")
    name = _ALIASES.get(name.strip().replace("-", "_"), name.strip().replace("-", "_"))
    if not equals:
        faults.append(Fault(f'{option} "{text}": want NAME=low..high[:points], e.g. input_tokens=256..131072:40'))
        return None
    if name not in QUANTITIES:
        faults.append(Fault(f'{option}: "{name}" is not a quantity a map can vary; {did_you_mean(name, QUANTITIES)}'))
        return None
    try:
        return _values(name, QUANTITIES[name], written.strip())
    except ValueError as error:
        faults.append(Fault(f"{option} {name}: {error}"))
        return None


def _values(name: str, quantity: Quantity, written: str) -> MapAxis:
    match = _RANGE.fullmatch(written)
    if match is None or not match["low"].strip() or not match["high"].strip():
        raise ValueError(f'"{written}" is not a range; want low..high[:points], e.g. {quantity.example}')
    low, high = (_end(quantity, match[side].strip()) for side in ("low", "high"))
    ends = [_UNIT.fullmatch(match[side].strip()) for side in ("low", "high")]
    used = [end["unit"] if end else "" for end in ends]
    if used[0] != used[1]:
        raise ValueError(f'"{written}" mixes {used[0]} and {used[1]}; write both ends in one unit')
    if not low < high:
        what = "is empty" if low == high else "is reversed"
        raise ValueError(f'"{written}" {what}; want low..high with low below high, e.g. {quantity.example}')
    points = _points(match["points"], quantity)
    parts = [index / (points - 1) for index in range(points - 1)]
    values = (*(low * (high / low) ** part if quantity.log else low + (high - low) * part for part in parts), high)
    return MapAxis(name, quantity.label, quantity.unit, values, quantity.log)


def _end(quantity: Quantity, text: str) -> float:
    value = units.parse(text, quantity.kind)
    if not quantity.least <= value <= quantity.most:
        raise ValueError(f'"{text}" is out of range; want e.g. {quantity.example}')
    return value


def _points(text: str | None, quantity: Quantity) -> int:
    if text is None:
        return POINTS
    try:
        points = int(text)
    except ValueError:
        raise ValueError(f'"{text}" is not a number of points; want e.g. {quantity.example}:{POINTS}') from None
    if not 2 <= points <= MOST_CELLS:
        raise ValueError(f"{points:,} points; want at least 2, at most {MOST_CELLS:,}, e.g. :{POINTS}")
    return points
