"""How many requests the engine of a benchmark admits: its KV pool, its cache format and its own limit (FIDELITY §3)."""

from __future__ import annotations

from planner.records import Accelerator, ClosedLoop, EngineProfile, LatentAttention, Pool
from planner.roofline.worker import Worker
from planner.shapes.ranks import kv_bytes_per_rank, weight_bytes_per_rank

_LARGE_MEMORY_BYTES = 160 * 2**30  # from here on SGLang doubles its chunks


def token_budget(engine: EngineProfile, pool: Pool, accelerator: Accelerator) -> float:
    """Prefill tokens of one step: as given, else the engine's default for this accelerator's memory."""
    if pool.token_budget:
        return float(pool.token_budget)
    doubled = engine.id == "sglang" and accelerator.memory_bytes > _LARGE_MEMORY_BYTES
    return engine.token_budget * (2.0 if doubled else 1.0)


def kv_pool_bytes(engine: EngineProfile, accelerator: Accelerator, weights_bytes: float, budget_tokens: float) -> float:
    """KV pool of one accelerator as measured engines had it (FIDELITY §3).

    Where the rule leaves nothing, half of what 0.97 of the memory leaves: operators raise the engine's fraction
    instead of failing. 0 when the weights alone do not fit.
    """
    memory = accelerator.memory_bytes
    pool = {
        "total": 0.9 * memory - weights_bytes - 3e9,
        "free-before-load": 0.9 * memory - 1.25e6 * budget_tokens - weights_bytes,
        "free-after-load": 0.9 * (memory - weights_bytes - 4e9),
    }[engine.memory.basis]
    return pool if pool > 0 else max((0.97 * memory - weights_bytes) / 2.0, 0.0)


def assumed_kv_dtype(run: ClosedLoop) -> str:
    """The KV format of a run that does not record it: the one its engine most likely chose (FIDELITY §10, trap 9)."""
    latent = any(isinstance(kind.mixer, LatentAttention) for kind in run.model.layers)
    if run.engine.id == "tensorrt-llm":
        return "bf16" if run.weights == "bf16" else "fp8"
    if run.engine.id == "vllm":
        return "fp8" if run.weights in ("fp8", "nvfp4") and run.accelerator.id != "h100-sxm" else "bf16"
    blackwell = run.accelerator.fp4_dense_flops_per_s is not None
    return "fp8" if run.engine.id == "sglang" and latent and blackwell else "bf16"


def slots(run: ClosedLoop, worker: Worker) -> float:
    """Requests that all decode workers hold at once, by memory and by the engine's limit; 0 when weights do not fit."""
    pool = run.deployment.decode
    weights = float(weight_bytes_per_rank(run.model, run.weights, pool.tp, pool.pp, pool.ep, pool.dp))
    room = kv_pool_bytes(run.engine, run.accelerator, weights, token_budget(run.engine, pool, run.accelerator))
    held = run.input_tokens + run.engine.reserved_output_fraction * run.output_tokens
    fits = room / float(kv_bytes_per_rank(run.model, worker.kv_dtype, pool.tp, pool.pp, held))
    per_worker = pool.dp * min(fits, run.engine.max_batch)
    return pool.replicas * (min(per_worker, pool.max_batch) if pool.max_batch else per_worker)
