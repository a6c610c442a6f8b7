"""Measured serving runs: our table of runs, and the result files of benchmark tools, as `Measurement` records."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from planner.errors import Fault, InputError
from planner.files.benchmark_requests import runs_of_requests
from planner.files.benchmark_summaries import aiperf_table, runs_of_summary
from planner.files.reading import decode, read_bytes
from planner.records import Deployment, Measurement, Pool

MOST_BYTES = 200_000_000
_NEEDED = (
    "id", "model", "accelerator", "engine", "weights", "input_tokens_max", "output_tokens_max", "concurrency",
)  # fmt: skip
_UNIFORM_MEAN = 0.9  # lengths drawn evenly from [0.8 L, L]


def read_table(path: Path) -> tuple[Measurement, ...]:
    """The runs of a table in CSV, one a row (columns: docs/accuracy.md).

    Raises
    ------
    InputError
        Missing columns, and every cell that is not the number it must be, with its line.
    """
    text = decode(read_bytes(path, MOST_BYTES), str(path))
    lines = csv.DictReader(io.StringIO(text))
    missing = [name for name in _NEEDED if name not in (lines.fieldnames or ())]
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
    )


def _colocated(row: Mapping[str, str]) -> Deployment:
    tp, dp, ep = _count(row, "tp"), _count(row, "attention_dp"), _count(row, "moe_ep")
    return Deployment("colocated-chunked", Pool(row["accelerator"], 1, tp=tp, dp=dp, ep=ep))


def _disaggregated(row: Mapping[str, str]) -> Deployment:
    pools = []
    for side in ("prefill", "decode"):
        tp, dp, ep, workers = (_count(row, f"{side}_{name}") for name in ("tp", "attention_dp", "moe_ep", "workers"))
        pools.append(Pool(row["accelerator"], workers, tp=tp, dp=dp, ep=ep))
    return Deployment("disaggregated", decode=pools[1], prefill=pools[0])


def _number(row: Mapping[str, str], name: str) -> float:
    text = (row.get(name) or "").strip()
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f'{name} "{text}" is not a number') from None
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"{name} {text} is not a positive number")
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


# -------------------------------------------------------------------------------------- result files of benchmark tools


def read_benchmark(path: Path, clients: float = math.nan) -> tuple[Measurement, ...]:
    """The runs of a benchmark tool's result file, or of our table.

    Known are summaries and per-request records of the tools that `benchmark_summaries` and `benchmark_requests` name.
    Times are medians where the file has them, else means. What a file does not hold (engine, accelerator, split) is
    empty, and `deployment` is None; `clients` in flight stand in where a file holds no number of them.

    Raises
    ------
    InputError
        The file is none of these, or holds no run with a TPOT, lengths and requests in flight.
    """
    text = decode(read_bytes(path, MOST_BYTES), str(path))
    if path.suffix == ".csv":
        if set(_NEEDED) <= set(text.partition("\n")[0].rstrip("\r").split(",")):
            return read_table(path)
        if text.startswith("Metric,"):
            found = runs_of_summary(aiperf_table(csv.reader(io.StringIO(text))))
        else:
            found = runs_of_requests(list(csv.DictReader(io.StringIO(text))))
    else:
        found_in = documents(text, path)
        found = runs_of_requests(found_in) or [run for one in found_in for run in runs_of_summary(one)]
    found = [run if run.clients > 0 else replace(run, clients=clients) for run in found]
    usable = [run for run in found if not _lacks(run)]
    if not usable:
        raise InputError([Fault(_lacks(found[0]) if found else UNKNOWN, str(path))])
    return tuple(replace(run, id=f"{path.stem}-{number + 1}", source=str(path)) for number, run in enumerate(usable))


UNKNOWN = (
    "is no result of vLLM bench, SGLang bench, AIPerf, genai-perf, GuideLLM, inference-perf, trtllm-bench, "
    "genai-bench, llmperf, LMBenchmark, the llm-d report or our table"
)


_BEYOND_READING = "is nested too deeply, or holds a date or a number that cannot be read"


def _lacks(run: Measurement) -> str:
    """What a run must have to be predicted and compared, and has not; empty when it has everything."""
    needed = {
        "a TPOT": run.tpot_s > 0,
        "prompt lengths": run.input_tokens > 0,
        "output lengths above one token": run.output_tokens > 1,
        "requests in flight (concurrency, or times that give it)": run.clients > 0,
    }
    missing = [name for name, there in needed.items() if not there]
    return f"does not hold {', '.join(missing)}" if missing else ""


def documents(text: str, path: Path) -> list[dict[str, Any]]:
    """The objects of a file: one, a list of them, or one a line; YAML by its suffix."""
    if path.suffix in (".yaml", ".yml"):
        return _yaml_documents(text, str(path))
    try:
        values = json.loads(text)
    except json.JSONDecodeError as whole:
        try:
            values = [json.loads(line) for line in text.splitlines() if line.strip()]
        except json.JSONDecodeError:
            message = f"is not JSON: {whole.msg}"
            raise InputError([Fault(message, str(path), whole.lineno, whole.colno)]) from None
        except (ValueError, RecursionError):
            raise InputError([Fault(_BEYOND_READING, str(path))]) from None
    except (ValueError, RecursionError):
        raise InputError([Fault(_BEYOND_READING, str(path))]) from None
    return [value for value in (values if isinstance(values, list) else [values]) if isinstance(value, dict)]


def _yaml_documents(text: str, path: str) -> list[dict[str, Any]]:
    import yaml

    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        raise InputError([Fault("is not YAML", path, mark.line + 1 if mark else 0)]) from None
    except (ValueError, RecursionError):
        raise InputError([Fault(_BEYOND_READING, path)]) from None
    return [value] if isinstance(value, dict) else []
