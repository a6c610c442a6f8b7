"""Sheets of values that differ between sources: each with a range, a date and a source."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from planner import units
from planner.errors import Fault
from planner.files.catalog import shipped_folder
from planner.files.catalog_fields import Fields, finish
from planner.files.nearest import did_you_mean
from planner.files.yamlfile import load
from planner.records import Provenance, Quoted, Reliability

_PARTS = ("value", "low", "high", "source", "retrieved", "kind")
_RELIABILITY = {
    "accelerator_mtbf": "seconds",
    "hard_share": "ratio",
    "hard_repair": "seconds",
    "detect": "seconds",
    "load_rate": "bytes_per_s",
    "start": "seconds",
    "ssd_rate": "bytes_per_s",
}


def read_reliability() -> Reliability:
    """The shipped failure rates and repair times. Raises InputError when the file is damaged."""
    read = read_sheet(shipped_folder() / "reliability.yaml", _RELIABILITY)
    return Reliability(
        accelerator_mtbf_s=read["accelerator_mtbf"],
        hard_fraction=read["hard_share"],
        hard_repair_s=read["hard_repair"],
        detect_s=read["detect"],
        load_bytes_per_s=read["load_rate"],
        start_s=read["start"],
        ssd_bytes_per_s=read["ssd_rate"],
    )


def given(value: float, path: Path) -> Quoted:
    """A value of the user's own, without a range."""
    return Quoted(value, value, value, Provenance(str(path), "", "user"))


def read_sheet(path: Path, kinds: Mapping[str, str]) -> dict[str, Quoted]:
    """Every key of `kinds` (a kind of `planner.units` each) as a value with its range.

    Raises
    ------
    InputError
        With every fault of the file: keys missing or unknown, wrong units, ranges that do not hold the value.
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


def quoted(fields: Fields, key: str, kind: str) -> Quoted | None:
    """One value, bare or as a mapping with its range and source; None when it is absent or at fault."""
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
                numbers[part] = units.parse(parts[part], kind)
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
