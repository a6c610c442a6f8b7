"""What a serving engine cannot run, as one sentence a user can act on; empty when it runs.

Search and evaluation ask the same functions, so that nothing is proposed that cannot be started
(`facts/engines/memory_rules.csv`, `flags.csv`).
"""

from __future__ import annotations

from planner.engines.memory import RoleName
from planner.records import EngineProfile, Mode, ModelShape, Pool, SoftmaxAttention
from planner.shapes import ranks
from planner.shapes.formats import has_experts


def why_not(
    engine: EngineProfile,
    mode: Mode,
    prefill: Pool | None,
    decode: Pool,
    shape: ModelShape,
    weights: str = "",
) -> str:
    """Why `engine` cannot run this deployment. `prefill` is None when one pool does both phases (`decode`)."""
    reason = why_not_mode(engine, mode)
    if reason:
        return reason
    if prefill is None:
        return why_not_worker(engine, shape, decode, "colocated", weights)
    return (
        why_not_worker(engine, shape, prefill, "prefill", weights)
        or why_not_worker(engine, shape, decode, "decode", weights)
        or why_not_pair(engine, shape, prefill, decode)
    )


def why_not_mode(engine: EngineProfile, mode: Mode) -> str:
    """Why the engine cannot schedule so: an engine that only takes whole prompts cannot cut them into chunks."""
    if mode == "colocated-chunked" and engine.scheduling == "whole-prompt":
        return f"{engine.id} {engine.version} prefills whole prompts only; use mode colocated-whole-prompt"
    return ""


def why_not_worker(
    engine: EngineProfile, shape: ModelShape, pool: Pool, role: RoleName = "colocated", weights: str = ""
) -> str:
    """Why the engine cannot start one worker of this pool."""
    reason = ranks.why_not(shape, pool.tp, pool.pp, pool.ep, pool.dp, weights)
    if reason:
        return reason
    per_rank = -(-pool.max_batch // pool.dp)
    if per_rank > engine.max_batch:
        return (
            f"max_batch {pool.max_batch} is {per_rank} per attention rank, and {engine.id} takes {engine.max_batch}; "
            f"use at most {engine.max_batch * pool.dp}"
        )
    if role != "decode" and engine.scheduling == "mixed" and 0 < pool.token_budget <= per_rank:
        return (
            f"token_budget {pool.token_budget} leaves no room for prompts beside {per_rank} decoding sequences of a "
            f"rank; raise it above {per_rank} or lower max_batch"
        )
    return _why_not_parallelism(engine, shape, pool)


def _why_not_parallelism(engine: EngineProfile, shape: ModelShape, pool: Pool) -> str:
    count = pool.tp * pool.dp
    if engine.id == "vllm" and has_experts(shape) and pool.ep not in (1, count):
        return f"ep {pool.ep}: vllm spreads experts over all tp x dp = {count} ranks or none; use ep 1 or {count}"
    if engine.id == "tensorrt-llm" and pool.dp > 1 and pool.tp > 1:
        return f"dp {pool.dp} with tp {pool.tp}: attention data parallelism of tensorrt-llm takes every rank; use tp 1"
    return ""


def why_not_pair(engine: EngineProfile, shape: ModelShape, prefill: Pool, decode: Pool) -> str:
    """Why caches cannot move from the prefill to the decode workers of one engine."""
    small, large = sorted((prefill.tp, decode.tp))
    if engine.id in ("vllm", "sglang") and large % small:
        return (
            f"prefill tp {prefill.tp} and decode tp {decode.tp}: the cache transfer of {engine.id} needs one to be a "
            "multiple of the other"
        )
    kv_heads = _fewest_kv_heads(shape)
    if engine.id == "vllm" and kv_heads and prefill.tp > max(decode.tp, kv_heads):
        return (
            f"prefill tp {prefill.tp} copies the {kv_heads} key-value heads, and vllm cannot pull copies into a "
            f"smaller decode tp; use prefill tp {max(decode.tp, kv_heads)} or less, or decode tp {prefill.tp}"
        )
    return ""


def _fewest_kv_heads(shape: ModelShape) -> int:
    """Fewest key-value heads of any layer; 0 for latents and recurrent hybrids, whose caches any tp can pull."""
    mixers = [kind.mixer for kind in shape.layers if kind.mixer is not None]
    if not all(isinstance(mixer, SoftmaxAttention) for mixer in mixers):
        return 0
    return min((mixer.kv_heads for mixer in mixers if isinstance(mixer, SoftmaxAttention)), default=0)
