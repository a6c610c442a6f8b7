"""What an engine file says beyond constants: connectors, defaults by device, what it lacks, rules of older versions."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any, get_args, get_type_hints

from planner import units
from planner.errors import Fault, InputError
from planner.files.catalog_fields import Fields
from planner.records import ConnectorRule, DeviceDefault, EngineProfile, MemoryRule, OlderRule

_HINTS = get_type_hints(ConnectorRule)
_TPS, _ABOVE = get_args(_HINTS["tp"]), get_args(_HINTS["prefill_tp_above_decode"])
_DECODE_PPS = get_args(_HINTS["decode_pp"])
_KV8 = get_args(get_type_hints(EngineProfile)["kv8_needs_fp8_units"])
_TIERS_HOLD = get_args(get_type_hints(EngineProfile)["tiers_hold"])


def read_launch_rules(fields: Fields, memory_rule: Callable[[Fields], MemoryRule]) -> dict[str, Any]:
    """The fields of an `EngineProfile` that say what can be launched, and with which defaults."""
    connectors = _connectors(fields)
    return {
        "connectors": connectors,
        "connector": next(iter(connectors), ""),
        "refused_mixers": frozenset(fields.text("refused_mixers").split()),
        "kv8_needs_fp8_units": fields.text("kv8_needs_fp8_units", "never", _KV8),
        "tiers_hold": fields.text("tiers_hold", "everything", _TIERS_HOLD),
        "device_defaults": _device_defaults(fields),
        "older": _older(fields, memory_rule),
        "decode_reserved_tokens": fields.count("decode_reserved_tokens") or 0,
    }


def _connectors(fields: Fields) -> dict[str, ConnectorRule]:
    found = {}
    for name, inner in _each(fields, "connectors"):
        found[name] = ConnectorRule(
            tp=inner.text("tp", "any", _TPS, "multiple"),  # type: ignore[arg-type]  # one of the choices
            prefill_tp_above_decode=inner.text("prefill_tp_above_decode", "always", _ABOVE),  # type: ignore[arg-type]
            decode_pp=inner.text("decode_pp", "one", _DECODE_PPS),  # type: ignore[arg-type]
            source=inner.text("source"),
        )
        inner.refuse_unknown()
    return found


def _device_defaults(fields: Fields) -> tuple[DeviceDefault, ...]:
    found = []
    for name, inner in _each(fields, "device_defaults"):
        try:
            least = units.parse(name, "bytes")
        except ValueError as error:
            fields.fault(("device_defaults", name), str(error))
            continue
        budget = inner.count("token_budget", example="8192")
        batch = inner.count("max_batch", example="256")
        found.append(DeviceDefault(least, budget or 0, batch or 0, tuple(inner.text("but_not").split())))
        inner.refuse_unknown()
    return tuple(sorted(found, key=lambda default: -default.least_bytes))


def _older(fields: Fields, memory_rule: Callable[[Fields], MemoryRule]) -> tuple[OlderRule, ...]:
    found = []
    for until, inner in _each(fields, "older"):
        source, since = inner.text("source"), inner.text("since")
        found.append(OlderRule(since, until, memory_rule(inner), source))
    return tuple(sorted(found, key=lambda rule: release(rule.until)))


def _each(fields: Fields, key: str) -> list[tuple[str, Fields]]:
    outer = fields.inner(key)
    return [(name, inner) for name in outer.values if (inner := outer.inner(name)) is not None] if outer else []


# ------------------------------------------------------------------------------------------------------------- versions


def release(version: str) -> tuple[int, ...]:
    """The numbers of a version before any letter: 0.33.1rc2 is (0, 33, 1)."""
    match = re.match(r"v?(\d+(?:\.\d+)*)", version.strip())
    return tuple(int(part) for part in match[1].split(".")) if match else ()


def at_version(engine: EngineProfile, version: str) -> EngineProfile:
    """The profile of one version of an engine: the memory rule of older ones, the current rules within a minor release.

    Raises InputError when nothing is known of that version.
    """
    wanted = release(version)
    known = [release(part) for part in engine.version.split(" to ")]
    if wanted and known[0] and known[0][:2] <= wanted[:2] <= known[-1][:2]:
        return replace(engine, version=version)
    for rule in engine.older:
        until = release(rule.until)
        if wanted and release(rule.since) <= wanted and wanted[: len(until)] <= until:
            return replace(engine, version=version, memory=rule.memory)
    named = ", ".join([engine.version, *map(_span, reversed(engine.older))])
    raise InputError([Fault(f'"{version}" is no version of {engine.id} with known rules; known: {named}')])


def _span(rule: OlderRule) -> str:
    return f"{rule.since} to {rule.until}" if rule.since else f"{rule.until} and older"
