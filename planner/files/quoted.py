"""Sheets of values that differ between sources: each with a range, a date and a source."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from planner import units
from planner.errors import Fault
from planner.files.catalog import shipped_folder
from planner.files.catalog_fields import Fields, finish
from planner.files.nearest import did_you_mean
from planner.files.yamlfile import load
from planner.records import Costs, OwnCosts, Provenance, Quoted, Reliability

_PARTS = ("value", "low", "high", "source", "retrieved", "kind")
# Keys of the sheets: kind of quantity, and field of the record.
_RELIABILITY = {
    "accelerator_mtbf": ("seconds", "accelerator_mtbf_s"),
    "hard_share": ("ratio", "hard_fraction"),
    "hard_repair": ("seconds", "hard_repair_s"),
    "detect": ("seconds", "detect_s"),
    "load_rate": ("bytes_per_s", "load_bytes_per_s"),
    "start": ("seconds", "start_s"),
    "ssd_rate": ("bytes_per_s", "ssd_bytes_per_s"),
}
_OWN = {
    "host": ("usd", "host_usd"),
    "dram": ("usd_per_gb", "dram_usd_per_gb"),
    "dram_per_node": ("bytes", "dram_bytes"),
    "ssd": ("usd_per_gb", "ssd_usd_per_gb"),
    "ssd_per_node": ("bytes", "ssd_bytes"),
    "nic": ("usd", "nic_usd"),
    "switch": ("usd", "switch_usd"),
    "operations": ("fraction", "operations_fraction"),
    "interest": ("fraction", "interest_fraction"),
    "years": ("ratio", "years"),
    "electricity": ("usd_per_kwh", "electricity_usd_per_kwh"),
    "pue": ("ratio", "pue_factor"),
    "host_power": ("watts", "host_watts"),
    "power_use": ("fraction", "power_use_fraction"),
}
_BOUNDS = {"pue": (1.0, 10.0), "years": (1.0, 50.0), "interest": (0.0, 1.0), "operations": (0.0, 1.0),
           "power_use": (0.0, 1.0)}  # fmt: skip
_AMOUNT = re.compile(r"(?P<number>[^A-Za-z]*)(?P<code>[A-Z]{3})(?P<rest>(?:/.*)?)", re.DOTALL)


def read_own_costs() -> OwnCosts:
    """The shipped sheet of what owning costs. Raises InputError when the file is damaged."""
    return OwnCosts(**_shipped("costs", _OWN))


def read_cost_sheet(path: Path, accelerator_id: Callable[[str], str | None]) -> Costs:
    """A user's own sheet: any keys of the shipped one, `purchase:` and `rent:` by accelerator, and `currency:`.

    `accelerator_id` gives the id of a name, None for an unknown one. With `currency: {EUR: 1.09 USD}` prices may be
    written in that currency.

    Raises InputError with every fault of the file: unknown keys or accelerators, prices without a unit or in another
    currency.
    """
    document = load(path)
    faults: list[Fault] = []
    fields = Fields(document, faults)
    rates = _rates(fields)
    fields.text("id")
    named = {
        field: found for key, (kind, field) in _OWN.items() if (found := quoted(fields, key, kind, rates)) is not None
    }
    purchase = _by_accelerator(fields, "purchase", "usd", rates, accelerator_id)
    rent = _by_accelerator(fields, "rent", "usd_per_hour", rates, accelerator_id)
    for key, (least, most) in _BOUNDS.items():
        found = named.get(_OWN[key][1])
        if found is not None and not least <= found.low <= found.high <= most:
            fields.fault((key,), f"{found.value:g} is out of range; want {least:g} to {most:g}")
    fields.refuse_unknown()
    finish(faults)
    return Costs(own=replace(read_own_costs(), **named), purchase_usd=purchase, rent_usd_per_hour=rent)


def _rates(fields: Fields) -> dict[str, float]:
    """USD for one of each currency that the sheet names."""
    inner = fields.inner("currency")
    rates: dict[str, float] = {}
    for code in inner.values if inner is not None else ():
        rate = inner.quantity(code, "usd") if inner is not None else None
        if not re.fullmatch("[A-Z]{3}", code) or code == "USD":
            fields.fault(("currency", code), "is not the code of a currency; want e.g. EUR: 1.09 USD")
        elif rate is not None:
            rates[code] = rate
    return rates


def _by_accelerator(
    fields: Fields, key: str, kind: str, rates: Mapping[str, float], accelerator_id: Callable[[str], str | None]
) -> dict[str, Quoted]:
    inner = fields.inner(key)
    found: dict[str, Quoted] = {}
    for name in inner.values if inner is not None else ():
        price = quoted(inner, name, kind, rates) if inner is not None else None
        known = accelerator_id(name)
        if known is None:
            fields.fault((key, name), "is not a known accelerator; see planner hardware list")
        elif price is not None and price.low <= 0.0:
            fields.fault((key, name), "is not above zero")
        elif price is not None:
            found[known] = price
    return found


def read_reliability() -> Reliability:
    """The shipped failure rates and repair times. Raises InputError when the file is damaged."""
    return Reliability(**_shipped("reliability", _RELIABILITY))


def _shipped(name: str, keys: Mapping[str, tuple[str, str]]) -> dict[str, Quoted]:
    """Every value of a shipped sheet, by the field of its record."""
    kinds = {key: kind for key, (kind, _) in keys.items()}
    read = read_sheet(shipped_folder() / "sheets" / f"{name}.yaml", kinds)
    return {field: read[key] for key, (_, field) in keys.items()}


def given(value: float, path: Path) -> Quoted:
    """A value of the user's own, without a range."""
    return Quoted(value, value, value, Provenance(str(path), "", "user"))


def read_sheet(path: Path, kinds: Mapping[str, str]) -> dict[str, Quoted]:
    """Every key of `kinds` (a kind of `planner.units` each) as a value with its range.

    Raises InputError with every fault of the file: keys missing or unknown, wrong units, ranges that do not hold the
    value.
    """
    document = load(path)
    faults: list[Fault] = []
    fields = Fields(document, faults)
    fields.require_id(path.stem)
    read = {key: quoted(fields, key, kind) for key, kind in kinds.items()}
    for key, found in read.items():
        if found is None and key not in fields.values:
            fields.fault((), f"needs the key {key}")
    fields.refuse_unknown()
    finish(faults)
    return {key: found for key, found in read.items() if found is not None}


def quoted(fields: Fields, key: str, kind: str, rates: Mapping[str, float] | None = None) -> Quoted | None:
    """One value, bare or as a mapping with its range and source; None when it is absent or at fault.

    `rates` are USD for one of each other currency that an amount may be written in.
    """
    fields.known[key] = None
    written = fields.values.get(key)
    if written is None:
        return None
    parts = written if isinstance(written, dict) else {"value": written}
    for part in parts:
        if part not in _PARTS:
            fields.fault((key, part), f"unknown key; {did_you_mean(str(part), _PARTS, 'keys are')}")
    numbers: dict[str, float] = {}
    for part in ("value", "low", "high"):
        if part in parts:
            try:
                numbers[part] = _parsed(parts[part], kind, rates or {})
            except ValueError as error:
                fields.fault((key, part) if isinstance(written, dict) else (key,), str(error))
                return None
    if "value" not in numbers:
        fields.fault((key,), "is missing a value")
        return None
    value = numbers["value"]
    low, high = numbers.get("low", value), numbers.get("high", value)
    if not low <= value <= high:
        fields.fault((key,), f"its value does not lie between low and high: {low:g}, {value:g}, {high:g}")
        return None
    return Quoted(value, low, high, fields.origin(key))


def _parsed(written: object, kind: str, rates: Mapping[str, float]) -> float:
    """A quantity in base units; amounts of another currency by the rate that the sheet gives."""
    match = _AMOUNT.fullmatch(written.strip()) if isinstance(written, str) and kind.startswith("usd") else None
    if match is None or match["code"] == "USD":
        return units.parse(written, kind)
    code = match["code"]
    if code not in rates:
        raise ValueError(f"{units.shown(written)} is in {code}, without a rate; write currency: {{{code}: 1.09 USD}}")
    return units.parse(f"{match['number']}USD{match['rest']}", kind) * rates[code]
