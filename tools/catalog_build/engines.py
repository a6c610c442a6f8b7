"""Engine profiles: fitted constants, interval factors, memory and admission rules, and where they were measured."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from catalog_build.writing import RETRIEVED, read_csv, rounded, scalar, sourced, write

# Constant, its symbol and unit in FIDELITY §6, its global value, then the value of each engine.
_CONSTANTS: tuple[tuple[str, str, str, float, float, float, float], ...] = (
    ("gemm_memory_factor", "em", "", 1.12, 1.15, 1.11, 1.11),
    ("compute_factor", "ec", "", 1.17, 1.18, 1.29, 1.08),
    ("kernel_gap", "tau", "us", 1.76, 1.99, 1.34, 2.20),
    ("start_up_factor", "k0", "", 0.79, 0.70, 0.94, 0.78),
    ("host_step", "h0", "ms", 0.09, 0.08, 0.08, 0.09),
    ("host_sequence", "h1", "us", 17.6, 18.0, 18.7, 20.4),
    ("collective_factor", "ca", "", 0.94, 1.24, 0.73, 0.85),
    ("experts_factor", "mo", "", 0.80, 0.74, 0.77, 0.89),
    ("decode_attention_factor", "at", "", 0.98, 1.03, 0.94, 0.98),
    ("prefill_kernel", "hm", "us", 1.75, 0.91, 2.82, 1.33),
    ("prefill_factor", "gp", "", 1.10, 1.01, 1.17, 1.16),
    ("ttft_fixed", "f0", "ms", 16.8, 26.6, 11.3, 14.2),
    ("ttft_steps", "fr", "", 3.5, 7.3, 4.8, 2.3),
    ("own_prefill_factor", "kT", "", 0.82, 1.03, 0.65, 0.76),
    ("ttft_sequence", "fN", "ms", 1.03, 1.36, 1.02, 0.77),
)
_COLUMN = {"generic": 3, "sglang": 4, "tensorrt-llm": 5, "vllm": 6}
# Factors of disaggregated pools on TTFT (FIDELITY §6). Its factors on step times are left out: on the 164 measured
# disaggregated rows that run, TPOT misses by 14.1 % mean / 10.2 % median without them and by 16.4 / 13.7 with them.
_DISAGGREGATED = {"fr": 2.0, "fN": 0.40}

# 80 % factors on step times and on TTFT, pooled (FIDELITY §9), by what was measured of the plan's least known pool.
_KNOWN_CELL = (0.89, 1.14, 0.72, 1.56)
_NEW_CELL = (0.81, 1.18, 0.58, 1.86)
_NEW_MODEL = (0.79, 1.22, 0.62, 2.19)
_DISAGGREGATED_KNOWN = (0.84, 1.16, 0.49, 3.30)
_DISAGGREGATED_NEW = (0.76, 1.26, 0.29, 4.75)


def _twice(factors: tuple[float, ...]) -> tuple[float, ...]:
    """Twice the log width: neither the engine on this accelerator nor, for a guess, its kernels were ever measured."""
    return tuple(factor**2 for factor in factors)


_INTERVALS = {
    "colocated/known-cell": _KNOWN_CELL,
    "colocated/new-cell": _NEW_CELL,
    "colocated/new-model": _NEW_MODEL,
    "colocated/new-accelerator": _twice(_NEW_MODEL),
    "colocated/guess": _twice(_NEW_MODEL),
    "disaggregated/known-cell": _DISAGGREGATED_KNOWN,
    "disaggregated/new-cell": _DISAGGREGATED_NEW,
    "disaggregated/new-model": _DISAGGREGATED_NEW,
    "disaggregated/new-accelerator": _DISAGGREGATED_NEW,
    "disaggregated/guess": _twice(_DISAGGREGATED_NEW),
}

_MODEL_ORGANISATIONS = {"zhipuai": "zai-org"}


class Rules(NamedTuple):
    """Rules of one engine version."""

    version: str
    scheduling: str
    basis: str
    fraction: float
    memory_source: str
    block_tokens: int
    reserved_output_fraction: float
    max_batch: int
    max_batch_comment: str
    token_budget_comment: str


_RULES = {
    "vllm": Rules(
        "0.33.0", "mixed", "total", 0.92,
        "vllm 0.33.0 wheel: gpu_memory_utilization of total memory, minus everything measured", 16, 0.5, 1024,
        "default of --max-num-seqs at 70 GiB and more (256 below, and on A100); per attention-DP rank",
        "default at 70 GiB and more; 16384 from 160 GiB, 2048 below 70 GiB and on A100",
    ),
    "sglang": Rules(
        "0.5.23", "prefill-first", "free-before-load", 0.0,
        "sglang 0.5.23 wheel: mem_fraction_static derived from memory, chunk, graphs and ranks", 1, 0.5, 2048,
        "least default of --max-running-requests (2048 to 4096, at most half the KV tokens); per attention-DP worker",
        "chunked_prefill_size from 60 to 160 GiB; 16384 above, 2048 to 4096 below; prefill tokens only",
    ),
    "tensorrt-llm": Rules(
        "1.3.0rc27 to 1.4.0rc4", "mixed", "free-after-load", 0.9,
        "TensorRT-LLM commit 0004396: free_gpu_memory_fraction of what weights and the profiled peak leave", 32, 1.0,
        2048, "default of max_batch_size; per rank under attention DP",
        "default of max_num_tokens; chunked prefill is off by default and must be switched on",
    ),
    "generic": Rules(
        "any", "mixed", "total", 0.9, "common practice: 0.9 of memory", 16, 0.5, 1024,
        "as vLLM on large accelerators", "usual default on 80 GB accelerators",
    ),
}  # fmt: skip
_ORDER = ("generic", "sglang", "tensorrt-llm", "vllm")


def build(measured: Path, out: Path) -> None:
    cells: dict[str, set[tuple[str, str]]] = {engine: set() for engine in _ORDER}
    for row in read_csv(measured):
        cell = (canonical_model(row["model"]), row["accelerator"])
        cells["generic"].add(cell)
        if row["engine"] in cells:
            cells[row["engine"]].add(cell)
    for engine in _ORDER:
        write(out / "engines" / f"{engine}.yaml", _lines(engine, _RULES[engine], sorted(cells[engine])))


def canonical_model(model: str) -> str:
    """The model's id without "Meta-" and "-Instruct", under its present organisation."""
    organisation, _, name = model.partition("/")
    name = name.removeprefix("Meta-").removesuffix("-Instruct")
    return f"{_MODEL_ORGANISATIONS.get(organisation, organisation)}/{name}"


def _lines(engine: str, rules: Rules, cells: list[tuple[str, str]]) -> list[str]:
    fitted = f"{len(_CONSTANTS)} constants of step time and TTFT fitted to public serving benchmarks (FIDELITY §6)"
    return [
        "# What one serving engine does, by version. Keys: hardware/README.md",
        f"id: {engine}",
        f"version: {scalar(rules.version)}",
        f"scheduling: {rules.scheduling}",
        f"provenance: {{kind: measured, retrieved: {RETRIEVED}, source: {scalar(fitted)}}}",
        "memory:",
        f"  basis: {rules.basis}",
        *_memory(rules),
        f"  block_tokens: {rules.block_tokens}",
        "# Share of the output that a request holds in the KV pool when admitted",
        f"reserved_output_fraction: {rounded(rules.reserved_output_fraction)}",
        f"# {rules.token_budget_comment}",
        "token_budget: 8192",
        f"# {rules.max_batch_comment}",
        f"max_batch: {rules.max_batch}",
        "# Fitted on closed-loop runs of colocated engines; the disaggregated ones are these times pooled factors",
        "colocated:",
        *_constants(engine, {}),
        "disaggregated:",
        *_constants(engine, _DISAGGREGATED),
        "# Measured over predicted lies between low and high for this share of runs",
        "interval_coverage: 0.8",
        "# mode/class: [step low, step high, TTFT low, TTFT high]; guess: the accelerator borrows its operator fits",
        "intervals:",
        *_intervals(),
        "# Model and accelerator pairs that the constants were fitted on",
        "measured_cells:",
        *_cells(cells),
    ]


def _memory(rules: Rules) -> list[str]:
    context = "driver context, graphs and libraries; measured reserves are 3 to 6 GB with activations and buffers"
    collective = "NCCL buffers at TP 2 and more, 49-run accuracy report of llm-d-planner (vLLM 0.19, H100)"
    comment = "  # 0: derived by the engine's own rule" if rules.fraction == 0 else ""
    return [
        f"  fraction: {sourced(rounded(rules.fraction), rules.memory_source, 'vendor')}{comment}",
        f"  context: {sourced('1 GB', context, 'estimate')}",
        f"  collective: {sourced('2.1 GiB', collective, 'measured')}",
    ]


def _constants(engine: str, factors: dict[str, float]) -> list[str]:
    lines = []
    for constant in _CONSTANTS:
        name, symbol, unit = constant[:3]
        value = rounded(float(constant[_COLUMN[engine]]) * factors.get(symbol, 1.0))
        lines.append(f"  {name}: {value}{' ' + unit if unit else ''}  # {symbol}")
    return lines


def _intervals() -> list[str]:
    return [f"  {name}: [{', '.join(rounded(value) for value in values)}]" for name, values in _INTERVALS.items()]


def _cells(cells: list[tuple[str, str]]) -> list[str]:
    by_model: dict[str, list[str]] = {}
    for model, accelerator in cells:
        by_model.setdefault(model, []).append(accelerator)
    return [f"  {model}: [{', '.join(accelerators)}]" for model, accelerators in by_model.items()] or ["  {}"]
