"""Engine profiles: fitted constants, interval factors, memory and admission rules, and where they were measured."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from catalog_build.writing import RETRIEVED, read_csv, rounded, scalar, sourced, write

FIT = Path(__file__).with_name("engine_fit.json")  # written by tools/fit_engines.py

# Field of the record, key of the file, its symbol in FIDELITY §6, unit and how many of it are a second.
_CONSTANTS: tuple[tuple[str, str, str, str, float], ...] = (
    ("gemm_memory_factor", "gemm_memory_factor", "em", "", 1.0),
    ("compute_factor", "compute_factor", "ec", "", 1.0),
    ("kernel_gap_s", "kernel_gap", "tau", "us", 1e6),
    ("start_up_factor", "start_up_factor", "k0", "", 1.0),
    ("host_step_s", "host_step", "h0", "ms", 1e3),
    ("host_sequence_s", "host_sequence", "h1", "us", 1e6),
    ("collective_factor", "collective_factor", "ca", "", 1.0),
    ("experts_factor", "experts_factor", "mo", "", 1.0),
    ("decode_attention_factor", "decode_attention_factor", "at", "", 1.0),
    ("prefill_kernel_s", "prefill_kernel", "hm", "us", 1e6),
    ("prefill_factor", "prefill_factor", "gp", "", 1.0),
    ("ttft_fixed_s", "ttft_fixed", "f0", "ms", 1e3),
    ("ttft_steps", "ttft_steps", "fr", "", 1.0),
    ("own_prefill_factor", "own_prefill_factor", "kT", "", 1.0),
    ("ttft_sequence_s", "ttft_sequence", "fN", "ms", 1e3),
    ("uniform_window_fraction", "uniform_window", "wu", "", 1.0),
    ("fixed_window_fraction", "fixed_window", "wf", "", 1.0),
    ("burst_wait_factor", "burst_wait_factor", "kW", "", 1.0),
    ("burst_ahead_fraction", "burst_ahead", "share of all prefills ahead", "", 1.0),
    ("held_back_requests", "held_back", "requests kept waiting though all would fit", "", 1.0),
)

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
# What engines run beyond that: facts/engines/memory_rules.csv and flags.csv. Rows of a section as they are written.
_BEFORE_33 = {"basis": "total", "fraction": "0.9", "context": "1 GB", "collective": "2.1 GiB", "block_tokens": "16"}
_LAUNCH: Mapping[str, Mapping[str, Mapping[str, str]]] = {
    "vllm": {
        "connectors": {
            "nixl": {
                "tp": "multiple", "prefill_tp_above_decode": "kv-heads",
                "source": "vllm 0.33.0 wheel: nixl/base_worker.py, tp_mapping.py; latents and hybrids may always",
            },
            "mooncake": {
                "tp": "multiple", "prefill_tp_above_decode": "always",
                "source": "vllm 0.33.0 wheel: mooncake_connector.py handles both directions",
            },
            "lmcache": {
                "tp": "equal", "prefill_tp_above_decode": "never",
                "source": "lmcache 0.5.6 wheel: pd_backend.py lists ports by rank; inferred",
            },
            "nixl/llm-d": {
                "tp": "multiple", "prefill_tp_above_decode": "latent",
                "source": "llm-d docs/operations/disaggregation, checked there against vLLM 0.25 and 0.26",
            },
            "mooncake/llm-d": {
                "tp": "equal", "prefill_tp_above_decode": "never",
                "source": "llm-d guide 027a053: equal tensor parallelism",
            },
        },
        "device_defaults": {
            "160 GiB": {"token_budget": "16384", "max_batch": "1024"},
            "70 GiB": {"token_budget": "8192", "max_batch": "1024", "but_not": "a100"},
            "1 GiB": {"token_budget": "2048", "max_batch": "256"},
        },
        "older": {
            '"0.20"': {
                "since": '"0.11"', **_BEFORE_33,
                "source": "0.9 was the default; graphs lie outside the budget up to 0.20; measured runs begin at 0.11",
            },
            '"0.32"': {
                "since": '"0.21"', **_BEFORE_33,
                "source": "0.9 was the default; graphs are estimated and inside the budget from 0.21 on",
            },
        },
    },
    "sglang": {
        "connectors": {
            name: {
                "tp": "multiple", "prefill_tp_above_decode": "always", "decode_pp": "prefill",
                "source": "sglang 0.5.23 wheel: disaggregation/common/conn.py divides without a check",
            }
            for name in ("mooncake", "nixl")
        },
        "device_defaults": {
            "160 GiB": {"token_budget": "16384", "max_batch": "2048"},
            "60 GiB": {"token_budget": "8192", "max_batch": "2048"},
            "20 GiB": {"token_budget": "4096", "max_batch": "2048"},
            "1 GiB": {"token_budget": "2048", "max_batch": "2048"},
        },
    },
    "tensorrt-llm": {
        "connectors": {
            name: {
                "tp": "any", "prefill_tp_above_decode": "always", "decode_pp": "any",
                "source": "TensorRT-LLM cacheFormatter.cpp 00c77b3: both directions",
            }
            for name in ("nixl", "mooncake")
        },
    },
}  # fmt: skip
_LACKS = {"tensorrt-llm": ("kda lightning mamba1 short-conv", "no layer of that kind; from memory, not checked again")}
_KV8_NEEDS_FP8 = {
    "vllm": (
        "latent",
        "8-bit latents need FlashMLA or its successors, Hopper and newer; vllm issue 35577",
    ),
    "sglang": ("latent", "as vLLM, whose kernels it shares"),
    "tensorrt-llm": ("always", "8-bit float kernels from Ada on"),
}
_TIERS_HOLD = {
    "vllm": (
        "prompts",
        "vllm 0.33.0 wheel: offload_prompt_only is true; before, answers were lost (vllm 36052)",
    ),
    "sglang": (
        "everything",
        "sglang 0.5.23 wheel: write_through backs up all that the radix tree holds",
    ),
}
_DECODE_RESERVES = {
    "sglang": (
        "512",
        "sglang 0.5.23 wheel: num_reserved_decode_tokens, for each running, moving or waiting request",
    ),
}
_COMMENTS = {
    "connectors": "Workers that a connector moves KV caches between; the first is the default",
    "device_defaults": "What the command line defaults to, by device memory",
    "older": "Memory rules of versions from `since` up to and with these",
}
_ORDER = ("generic", "sglang", "tensorrt-llm", "vllm")


def build(measured: Path, out: Path) -> None:
    fit = json.loads(FIT.read_text(encoding="utf-8"))
    cells: dict[str, set[tuple[str, str]]] = {engine: set() for engine in _ORDER}
    for row in read_csv(measured):
        cell = (canonical_model(row["model"]), row["accelerator"])
        cells["generic"].add(cell)
        if row["engine"] in cells:
            cells[row["engine"]].add(cell)
    for engine in _ORDER:
        write(out / "engines" / f"{engine}.yaml", _lines(engine, _RULES[engine], sorted(cells[engine]), fit))


def canonical_model(model: str) -> str:
    """The model's id without "Meta-" and "-Instruct", under its present organisation."""
    organisation, _, name = model.partition("/")
    name = name.removeprefix("Meta-").removesuffix("-Instruct")
    return f"{_MODEL_ORGANISATIONS.get(organisation, organisation)}/{name}"


def _lines(engine: str, rules: Rules, cells: list[tuple[str, str]], fit: Mapping[str, Any]) -> list[str]:
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
        *_launch(engine),
        "# Fitted on closed-loop runs (tools/fit_engines.py); what groups of runs deviate from them stands below",
        "colocated:",
        *_constants(fit["constants"][engine]["colocated"]),
        "disaggregated:",
        *_constants(fit["constants"][engine]["disaggregated"]),
        "# Measured over predicted lies between low and high for this share of runs",
        "interval_coverage: 0.8",
        "# mode/class: [step low, step high, TTFT low, TTFT high]; guess: the accelerator borrows its operator fits",
        "intervals:",
        *_intervals(fit["intervals"][engine]["factors"]),
        "# What the ends of log intervals are stretched by on an accelerator, for a kind of model, under a load",
        "interval_widths:",
        *_intervals(fit["intervals"][engine]["widths"]),
        "# What log intervals of step times and of TTFT are stretched by to hold another share of runs",
        "interval_growth:",
        *_intervals(fit["intervals"][engine]["growth"]),
        *_deviations(fit["deviations"].get(engine, {})),
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


def _launch(engine: str) -> list[str]:
    """What can be launched, and what the command line defaults to."""
    lines = []
    if engine in _LACKS:
        lacks, source = _LACKS[engine]
        lines.append(f"refused_mixers: {sourced(scalar(lacks), source, 'estimate')}")
    if engine in _KV8_NEEDS_FP8:
        needs, source = _KV8_NEEDS_FP8[engine]
        lines.append(f"kv8_needs_fp8_units: {sourced(needs, source, 'third-party')}")
    if engine in _TIERS_HOLD:
        held, source = _TIERS_HOLD[engine]
        lines.append(f"tiers_hold: {sourced(held, source, 'vendor')}")
    if engine in _DECODE_RESERVES:
        tokens, source = _DECODE_RESERVES[engine]
        lines.append(f"decode_reserved_tokens: {sourced(tokens, source, 'vendor')}")
    for section, rows in _LAUNCH.get(engine, {}).items():
        lines += [f"# {_COMMENTS[section]}", f"{section}:"]
        for name, row in rows.items():
            cells = ", ".join(f"{key}: {scalar(value) if key == 'source' else value}" for key, value in row.items())
            lines.append(f"  {name}: {{{cells}}}")
    return lines


def _constants(values: Mapping[str, float]) -> list[str]:
    lines = []
    for field, key, symbol, unit, per_second in _CONSTANTS:
        lines.append(f"  {key}: {rounded(values[field] * per_second)}{' ' + unit if unit else ''}  # {symbol}")
    return lines


def _intervals(intervals: Mapping[str, list[float]]) -> list[str]:
    """One row a key."""
    return [f"  {name}: [{', '.join(rounded(value) for value in values)}]" for name, values in intervals.items()]


def _deviations(deviations: Mapping[str, list[float]]) -> list[str]:
    """One row a group; columns are the constants in the order of `colocated`."""
    if not deviations:
        return []
    lines = ["# Log deviations of measured groups, a column for each constant in the order above", "deviations:"]
    for name, values in deviations.items():
        cells = ", ".join(f"{value:.3f}".rstrip("0").rstrip(".").replace("-0", "-0") for value in values)
        lines.append(f"  {name}: [{cells}]")
    return lines


def _cells(cells: list[tuple[str, str]]) -> list[str]:
    by_model: dict[str, list[str]] = {}
    for model, accelerator in cells:
        by_model.setdefault(model, []).append(accelerator)
    return [f"  {model}: [{', '.join(accelerators)}]" for model, accelerators in by_model.items()] or ["  {}"]
