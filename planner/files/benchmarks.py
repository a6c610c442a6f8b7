"""Result files of benchmark tools: runs to calibrate with, and their statistics to hold a plan against."""

from __future__ import annotations

import csv
import io
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

from planner.errors import Fault, InputError
from planner.files.benchmark_requests import runs_of_requests
from planner.files.benchmark_summaries import Benchmark, aiperf_table, first, runs_of_summary, typical_s
from planner.files.measurements import MOST_BYTES, NEEDED, read_table
from planner.files.reading import decode, read_bytes
from planner.records import Measurement

UNKNOWN = (
    "is no result of vLLM bench, SGLang bench, AIPerf, genai-perf, GuideLLM, inference-perf, trtllm-bench, "
    "genai-bench, llmperf, LMBenchmark, the llm-d report or our table"
)
_BEYOND_READING = "is nested too deeply, or holds a date or a number that cannot be read"


def read_statistics(path: Path) -> tuple[Benchmark, ...]:
    """The runs of a benchmark's result file, or of `planner simulate --format json`, each under a name.

    Raises InputError when the file is none of those that are known, or holds no latency.
    """
    runs = _runs(decode(read_bytes(path, MOST_BYTES), str(path)), path)
    usable = [run for run in runs if any(run.seconds.values())]
    if not usable:
        raise InputError([Fault("holds no latency" if runs else UNKNOWN, str(path))])
    if len(usable) == 1:
        return (replace(usable[0], name=path.name),)
    return tuple(replace(run, name=f"{path.name} run {number}") for number, run in enumerate(usable, 1))


def read_benchmark(path: Path, clients: float = math.nan) -> tuple[Measurement, ...]:
    """The runs of a benchmark tool's result file, or of our table.

    Known are summaries and per-request records of the tools that `benchmark_summaries` and `benchmark_requests` name.
    Times are medians where the file has them, else means. What a file does not hold (engine, accelerator, split) is
    empty, and `deployment` is None; `clients` in flight stand in where a file holds no number of them.

    Raises InputError when the file is none of these, or holds no run with a TPOT, lengths and requests in flight.
    """
    text = decode(read_bytes(path, MOST_BYTES), str(path))
    if path.suffix == ".csv" and set(NEEDED) <= set(text.partition("\n")[0].rstrip("\r").split(",")):
        return read_table(path)
    found = [_measurement(run, clients) for run in _runs(text, path)]
    usable = [run for run in found if not _lacks(run)]
    if not usable:
        raise InputError([Fault(_lacks(found[0]) if found else UNKNOWN, str(path))])
    return tuple(replace(run, id=f"{path.stem}-{number}", source=str(path)) for number, run in enumerate(usable, 1))


def _runs(text: str, path: Path) -> list[Benchmark]:
    """Every run of a file: of the requests that it lists, else of summaries."""
    if path.suffix != ".csv":
        found = _documents(text, path)
    elif text.startswith("Metric,"):
        found = [aiperf_table(csv.reader(io.StringIO(text)))]
    else:
        found = list(csv.DictReader(io.StringIO(text)))
    return runs_of_requests(found) or [run for one in found for run in runs_of_summary(one)]


def _measurement(run: Benchmark, clients: float) -> Measurement:
    return Measurement(
        id="",
        model=run.model,
        engine=run.engine,
        engine_version="",
        weights="",
        kv_dtype="",
        deployment=None,
        input_tokens=run.input_tokens,
        output_tokens=run.output_tokens,
        equal_lengths=run.equal_lengths,
        clients=run.clients if run.clients > 0 else clients,
        ttft_s=first(run.ttft_s, typical_s(run.seconds, "ttft")),
        tpot_s=first(run.tpot_s, typical_s(run.seconds, "tpot")),
    )


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


def _documents(text: str, path: Path) -> list[dict[str, Any]]:
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
