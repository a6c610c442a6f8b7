"""N clients in a closed loop on one engine (FIDELITY §3), only as much as a comparison with measured TPOT needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, exp, sqrt

from roofline_examples import MODELS

from planner.files.catalog import Catalog
from planner.records import EngineProfile
from planner.roofline import steps
from planner.roofline.worker import Worker, build_worker
from planner.shapes import ranks

CATALOG = Catalog()
# Cohort windows (uniform, fixed lengths) and wait factor: constants of the closed loop alone (FIDELITY §6).
WINDOWS = {"sglang": (0.15, 0.048, 0.77), "tensorrt-llm": (0.07, 0.075, 1.25), "vllm": (0.09, 0.023, 1.46)}


@dataclass(frozen=True)
class Run:
    """One measured run, its lengths as means."""

    engine: EngineProfile
    worker: Worker
    clients: float
    input_tokens: float
    output_tokens: float
    uniform: bool
    token_budget: float
    slots: float


def read(row: Mapping[str, str]) -> Run:
    engine, accelerator = CATALOG.engine(row["engine"]), CATALOG.accelerator(row["accelerator"])
    shape = MODELS[row["model"].replace("zhipuai", "zai-org")]
    tp, dp, ep = int(row["tp"]), int(row["attention_dp"]), int(row["moe_ep"])
    uniform = row["length_law"] == "uniform"
    mean = 0.9 if uniform else 1.0
    prompt, output = float(row["input_tokens_max"]) * mean, float(row["output_tokens_max"]) * mean
    kv_dtype = _kv_dtype(row)
    worker = build_worker(
        shape, row["weights"], kv_dtype, accelerator, engine.id, engine.colocated, tp=tp, ep=ep, dp=dp
    )
    large = engine.id == "sglang" and accelerator.memory_bytes > 160 * 2**30
    budget = 16384.0 if large else 8192.0
    weights = float(ranks.weight_bytes_per_rank(shape, row["weights"], tp, 1, ep, dp))
    memory = accelerator.memory_bytes
    pool = {
        "vllm": 0.9 * memory - weights - 3e9,
        "sglang": 0.9 * memory - 1.25e6 * budget - weights,
        "tensorrt-llm": 0.9 * (memory - weights - 4e9),
    }[engine.id]
    pool = pool if pool > 0 else (0.97 * memory - weights) / 2
    held = prompt + engine.reserved_output_fraction * output
    slots = dp * pool / float(ranks.kv_bytes_per_rank(shape, kv_dtype, tp, 1, held))
    return Run(engine, worker, float(row["concurrency"]), prompt, output, uniform, budget, slots)


def _kv_dtype(row: Mapping[str, str]) -> str:
    """Not recorded; what engine and memory suggest (FIDELITY §10, trap 9)."""
    engine, weights, accelerator = row["engine"], row["weights"], row["accelerator"]
    if engine == "tensorrt-llm":
        return "bf16" if weights == "bf16" else "fp8"
    if engine == "vllm":
        return "fp8" if weights in ("fp8", "nvfp4") and accelerator != "h100-sxm" else "bf16"
    return "fp8" if "DeepSeek" in row["model"] and accelerator[0] != "h" else "bf16"


def tpot_s(run: Run) -> float:
    """Mean time per output token of the closed loop, by damped iteration on the running batch."""
    constants = run.engine.colocated
    uniform, fixed, wait_factor = WINDOWS[run.engine.id]
    window = uniform if run.uniform else fixed
    mixed = run.engine.scheduling == "mixed"
    dp, decoded = run.worker.dp, max(run.output_tokens - 1.0, 1.0)
    running = min(run.clients, run.slots)
    batch, tpot = 0.8 * running, 0.0
    for _ in range(12):
        tpot, own, served = _busy_steps(run, batch, mixed)
        burst = served * running / dp
        spread = window * decoded * tpot + (burst if mixed else 0.0)
        wait = ((burst - spread) + sqrt((burst - spread) ** 2 + 4.0 * burst * served)) / 4.0
        decode = decoded * tpot
        before = constants.own_prefill_factor * own + wait_factor * wait + constants.ttft_sequence_s * batch
        fresh = running * decode / (decode + before)
        if mixed:
            fresh = min(fresh, dp * run.token_budget * decoded / (run.input_tokens + decoded))
        batch = 0.5 * (batch + fresh)
    return tpot


def _busy_steps(run: Run, batch: float, mixed: bool) -> tuple[float, float, float]:
    """TPOT, time of one's own prefill, and engine time per prompt at `batch` decoding sequences."""
    worker, prompt, dp = run.worker, run.input_tokens, run.worker.dp
    decoded = max(run.output_tokens - 1.0, 1.0)
    context = prompt + run.output_tokens / 2.0
    decode = float(steps.step(worker, batch / dp, context, expert_tokens=batch).total_s)
    completions = batch / decoded
    per_rank = completions / dp
    room = max(run.token_budget - batch / dp, 1.0) if mixed else run.token_budget
    chunks = ceil(prompt / room)
    arrived = 1.0 - exp(-per_rank)
    tokens = min(room, max(prompt / chunks, per_rank * prompt / arrived))
    busy = per_rank * prompt / tokens
    if dp > 1:
        busy *= (1.0 - exp(-completions)) / arrived
    routed = tokens * max(1.0, dp * arrived)
    if mixed:
        step = float(steps.mixed_s(worker, batch, context, tokens, prompt, batch + routed).total_s)
        tpot = decode + min(busy, 1.0) * (step - decode)
    else:
        step = float(steps.prefill_step_s(worker, tokens, prompt, routed).total_s)
        tpot = decode + busy * step
    return tpot, chunks * step, step * prompt / tokens
