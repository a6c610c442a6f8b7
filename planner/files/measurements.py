"""Measured serving runs: our table of them, one a row, as `Measurement` records."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping
from pathlib import Path

from planner.errors import Fault, InputError
from planner.files.reading import decode, read_bytes
from planner.records import Deployment, Measurement, Pool, Speculation

MOST_BYTES = 200_000_000
NEEDED = (
    "id", "model", "accelerator", "engine", "weights", "input_tokens_max", "output_tokens_max", "concurrency",
)  # fmt: skip
_DRAFTS = ("draft_tokens", "accepted_tokens", "acceptance_rate", "draft_layers")  # as a scenario names them
_UNIFORM_MEAN = 0.9  # lengths drawn evenly from [0.8 L, L]


def read_table(path: Path) -> tuple[Measurement, ...]:
    """The runs of a table in CSV, one a row (columns: docs/accuracy.md).

    Raises InputError: missing columns, and every cell that is not the number it must be, with its line.
    """
    text = decode(read_bytes(path, MOST_BYTES), str(path))
    lines = csv.DictReader(io.StringIO(text))
    missing = [name for name in NEEDED if name not in (lines.fieldnames or ())]
    if missing:
        raise InputError([Fault(f"has no column {', '.join(missing)}", str(path), 1)])
    faults: list[Fault] = []
    found = []
    for row in lines:
        try:
            found.append(_measurement(row))
        except ValueError as error:
            faults.append(Fault(str(error), str(path), lines.line_num))
    if faults:
        raise InputError(faults)
    if not found:
        raise InputError([Fault("holds no run", str(path))])
    return tuple(found)


def _measurement(row: Mapping[str, str]) -> Measurement:
    uniform = (row.get("length_law") or "").startswith("uniform")
    mean = _UNIFORM_MEAN if uniform else 1.0
    mode = row.get("mode") or "aggregated"
    if mode not in ("aggregated", "disaggregated"):
        raise ValueError(f'mode "{mode}" is neither aggregated nor disaggregated')
    return Measurement(
        id=row["id"],
        model=row["model"],
        engine=row["engine"],
        engine_version=row.get("engine_version") or "",
        weights=row["weights"],
        kv_dtype=row.get("kv_dtype") or "",
        deployment=_disaggregated(row) if mode == "disaggregated" else _colocated(row),
        input_tokens=mean * _number(row, "input_tokens_max"),
        output_tokens=mean * _number(row, "output_tokens_max"),
        equal_lengths=not uniform,
        clients=_number(row, "concurrency"),
        ttft_s=_measured(row, "ttft_ms"),
        tpot_s=_measured(row, "tpot_ms"),
        origin=row.get("origin") or "",
        flags=tuple((row.get("flags") or "").split()),
        speculation=_speculation(row),
    )


def _speculation(row: Mapping[str, str]) -> Speculation | None:
    """Drafted and accepted tokens; None where nothing is drafted."""
    given = {name: _finite(row, name) for name in _DRAFTS if (row.get(name) or "").strip()}
    if not any(given.values()):
        return None
    from pydantic import ValidationError

    from planner.files.schema import SpeculationKeys

    try:
        return SpeculationKeys.model_validate(given).record()
    except ValidationError as error:
        problem = error.errors()[0]
        reason = problem["ctx"]["error"] if "ctx" in problem else "missing; say how many tokens a step drafts"
        raise ValueError(f"{problem['loc'][0]}: {reason}") from None


def _colocated(row: Mapping[str, str]) -> Deployment:
    tp, dp, ep = _count(row, "tp"), _count(row, "attention_dp"), _count(row, "moe_ep")
    return Deployment("colocated-chunked", Pool(row["accelerator"], 1, tp=tp, dp=dp, ep=ep))


def _disaggregated(row: Mapping[str, str]) -> Deployment:
    pools = []
    for side in ("prefill", "decode"):
        tp, dp, ep, workers = (_count(row, f"{side}_{name}") for name in ("tp", "attention_dp", "moe_ep", "workers"))
        pools.append(Pool(row["accelerator"], workers, tp=tp, dp=dp, ep=ep))
    return Deployment("disaggregated", decode=pools[1], prefill=pools[0])


def _finite(row: Mapping[str, str], name: str) -> float:
    text = (row.get(name) or "").strip()
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f'{name} "{text}" is not a number') from None
    if not math.isfinite(value):
        raise ValueError(f"{name} {text} is not a finite number")
    return value


def _number(row: Mapping[str, str], name: str) -> float:
    value = _finite(row, name)
    if value <= 0:
        raise ValueError(f"{name} {row[name].strip()} is not a positive number")
    return value


def _count(row: Mapping[str, str], name: str) -> int:
    """A whole number of ranks; 1 where the cell is empty."""
    if not (row.get(name) or "").strip():
        return 1
    value = _number(row, name)
    if value != int(value):
        raise ValueError(f"{name} {row[name]} is not a whole number")
    return int(value)


def _measured(row: Mapping[str, str], name: str) -> float:
    """Milliseconds as seconds; not a number where nothing was measured."""
    return _number(row, name) * 1e-3 if (row.get(name) or "").strip() else math.nan
