"""What a serving engine cannot run, as one sentence a user can act on; empty when it runs.

Search and evaluation ask the same functions, so that nothing is proposed that cannot be started
(`hardware/engines/`).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from math import log2

from planner.records import (
    Accelerator,
    Deployment,
    EngineProfile,
    LatentAttention,
    Mixer,
    Mode,
    ModelShape,
    Pool,
    RecurrentMixer,
    RoleName,
    SoftmaxAttention,
)
from planner.shapes import ranks
from planner.shapes.formats import has_experts

_DEGREES = (1, 2, 4, 8, 16, 32, 64)
_MOST_RANKS = 64


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
    return next((reason for _, reason in worker_obstacles(engine, shape, pool, role, weights)), "")


def worker_obstacles(
    engine: EngineProfile, shape: ModelShape, pool: Pool, role: RoleName = "colocated", weights: str = ""
) -> Iterator[tuple[str, str]]:
    """Every key of a pool that keeps the engine from starting one of its workers, and why."""
    degrees = dict(ranks.obstacles(shape, pool.tp, pool.pp, pool.ep, pool.dp, weights))
    yield from degrees.items()
    if min(pool.tp, pool.ep, pool.dp) < 1:
        return
    per_rank = -(-pool.max_batch // pool.dp)
    if per_rank > engine.max_batch:
        yield (
            "max_batch",
            f"max_batch {pool.max_batch} is {per_rank} per attention rank, and {engine.id} takes {engine.max_batch}; "
            f"use at most {engine.max_batch * pool.dp}",
        )
    elif role == "decode" and 0 < pool.token_budget < per_rank:
        yield (
            "token_budget",
            f"token_budget {pool.token_budget} is less than the {per_rank} sequences of a rank, so no step could hold "
            f"them nor a graph be captured for them; use at least {per_rank}",
        )
    elif role != "decode" and engine.scheduling == "mixed" and 0 < pool.token_budget <= per_rank:
        yield (
            "token_budget",
            f"token_budget {pool.token_budget} leaves no room for prompts beside {per_rank} decoding sequences of a "
            f"rank; raise it above {per_rank} or lower max_batch",
        )
    if not degrees:
        yield from _parallelism_obstacles(engine, shape, pool)


def _parallelism_obstacles(engine: EngineProfile, shape: ModelShape, pool: Pool) -> Iterator[tuple[str, str]]:
    count = pool.tp * pool.dp
    if engine.id == "vllm" and has_experts(shape) and pool.ep not in (1, count):
        yield "ep", f"ep {pool.ep}: vllm spreads experts over all tp x dp = {count} ranks or none; use ep 1 or {count}"
    if engine.id == "tensorrt-llm" and pool.dp > 1 and pool.tp > 1:
        reason = (
            f"dp {pool.dp} with tp {pool.tp}: attention data parallelism of tensorrt-llm takes every rank; use tp 1"
        )
        yield "dp", reason


def why_not_pair(engine: EngineProfile, shape: ModelShape, prefill: Pool, decode: Pool) -> str:
    """Why the engine's connector cannot move caches from these prefill to these decode workers."""
    rule, name = engine.connectors.get(engine.connector), engine.connector
    if rule is None:
        return ""
    if decode.pp > 1 and (rule.decode_pp == "one" or (rule.decode_pp == "prefill" and decode.pp != prefill.pp)):
        like = f" or {prefill.pp}" if rule.decode_pp == "prefill" and prefill.pp > 1 else ""
        return f"decode pp {decode.pp}: {name} on {engine.id} cannot move caches into such workers; use pp 1{like}"
    small, large = sorted((prefill.tp, decode.tp))
    both = f"prefill tp {prefill.tp} and decode tp {decode.tp}"
    if rule.tp == "equal" and small != large:
        return f"{both}: {name} on {engine.id} moves caches between workers of equal tp only"
    if rule.tp == "multiple" and large % small:
        return f"{both}: {name} on {engine.id} needs one to be a multiple of the other"
    kv_heads = _fewest_kv_heads(shape)
    if prefill.tp <= decode.tp or rule.prefill_tp_above_decode == "always" or not kv_heads:
        return ""
    if rule.prefill_tp_above_decode == "latent":
        return f"{both}: {name} cannot pull key-value heads into a smaller tp; use decode tp {prefill.tp} or more"
    if prefill.tp > kv_heads:
        return (
            f"prefill tp {prefill.tp} copies the {kv_heads} key-value heads, and {engine.id} cannot pull copies into a "
            f"smaller decode tp; use prefill tp {max(decode.tp, kv_heads)} or less, or decode tp {prefill.tp}"
        )
    return ""


def why_not_cache(engine: EngineProfile, shape: ModelShape, kv_dtype: str, accelerator: Accelerator) -> str:
    """Why the engine cannot keep this model's cache in `kv_dtype` on an accelerator."""
    lacking = sorted(engine.refused_mixers & {m.kind for m in _mixers(shape) if isinstance(m, RecurrentMixer)})
    if lacking:
        return f"{engine.id} has no {' or '.join(lacking)} layers, and {shape.id} is made of them; use another engine"
    if kv_dtype != "fp8" or accelerator.fp8_dense_flops_per_s or engine.kv8_needs_fp8_units == "never":
        return ""
    latent = any(isinstance(mixer, LatentAttention) for mixer in _mixers(shape))
    if engine.kv8_needs_fp8_units == "always" or latent:
        kind = "latents" if latent else "keys and values"
        return (
            f"{engine.id} keeps {kind} in fp8 only where there are fp8 units, and {accelerator.id} has none; use bf16"
        )
    return ""


def nearest(
    engine: EngineProfile, shape: ModelShape, deployment: Deployment, weights: str = ""
) -> Iterator[Deployment]:
    """Deployments near one that cannot run and that the rules allow, nearest first.

    Degrees of parallelism change by factors of two, in as few pools and by as little as possible; each pool keeps at
    least its accelerators. Whether memory holds them is for the caller to see.
    """
    choices = [sorted(_varied(pool), key=lambda choice: choice[0]) for pool in deployment.pools]
    joint = sorted(itertools.product(*choices), key=lambda picked: sum(cost for cost, _ in picked))
    for picked in joint:
        pools = [pool for _, pool in picked]
        changed = replace(deployment, decode=pools[-1], prefill=pools[0] if len(pools) > 1 else None)
        if not why_not(engine, changed.mode, changed.prefill, changed.decode, shape, weights):
            yield changed


def _varied(pool: Pool) -> Iterator[tuple[float, Pool]]:
    """Pools of nearly the same accelerators with other degrees, and how far they are from the pool."""
    for tp, dp in itertools.product(_DEGREES, _DEGREES):
        ranks = tp * dp
        if ranks > _MOST_RANKS:
            continue
        for ep in sorted({1, pool.ep, ranks}):
            if ranks % ep:
                continue
            replicas = -(-pool.accelerators // ranks)
            batch = -(-pool.max_batch * pool.replicas // replicas // dp) * dp
            changed = replace(pool, tp=tp, dp=dp, pp=1, ep=ep, replicas=replicas, max_batch=batch)
            if changed.accelerators <= 2 * max(pool.accelerators, ranks):
                yield _distance(pool, changed), changed


def _distance(pool: Pool, changed: Pool) -> float:
    doublings = [abs(log2(getattr(changed, name) / getattr(pool, name))) for name in ("tp", "dp", "ep")]
    added = changed.accelerators / pool.accelerators - 1.0
    return 4.0 * doublings[0] + 5.0 * doublings[1] + doublings[2] + added + (0.0 if pool == changed else 1.0)


def _mixers(shape: ModelShape) -> list[Mixer]:
    return [kind.mixer for kind in shape.layers if kind.mixer is not None]


def _fewest_kv_heads(shape: ModelShape) -> int:
    """Fewest key-value heads of any layer; 0 for latents and recurrent hybrids, whose caches any tp can pull."""
    mixers = _mixers(shape)
    if not all(isinstance(mixer, SoftmaxAttention) for mixer in mixers):
        return 0
    return min((mixer.kv_heads for mixer in mixers if isinstance(mixer, SoftmaxAttention)), default=0)
