"""Physical limits that no result may pass. Nothing here uses a fitted constant."""

from __future__ import annotations

import numpy as np

from planner.errors import PhysicsError
from planner.records import Floats
from planner.roofline.kinds import Gemms, LatentKind, RecurrentKind, SoftmaxKind
from planner.roofline.operators import distinct_experts
from planner.roofline.worker import Worker
from planner.shapes.counts import attended_pairs, latent_entries, latent_pairs

Numbers = float | Floats
_ROUNDING = 1e-9


def step_floor_s(
    worker: Worker,
    decode_batch: Numbers,
    context_tokens: Numbers,
    prefill_tokens: Numbers = 0.0,
    prompt_tokens: Numbers = 0.0,
    expert_tokens: Numbers | None = None,
    cached_tokens: Numbers = 0.0,
) -> Floats:
    """The least time of a step on one rank: bytes over peak bandwidth or FLOPs over dense peak, whichever is longer.

    Bytes are every weight once (of experts those touched), the caches and states read; FLOPs those of the matrices
    and of attention, each over the peak of its own format. Arguments as in `steps.step`.
    """
    batch, chunk = np.asarray(decode_batch, dtype=float), np.asarray(prefill_tokens, dtype=float)
    prompt = np.maximum(np.asarray(prompt_tokens, dtype=float), chunk)
    if expert_tokens is None:
        expert_tokens = worker.dp * (batch + chunk)
    new = prompt - cached_tokens
    share = np.where(chunk > 0, chunk / np.where(new > 0, new, 1.0), 0.0)
    routed = np.asarray(expert_tokens, dtype=float)
    moved = _weight_bytes(worker, routed) + _cache_bytes(worker, batch, np.asarray(context_tokens, dtype=float))
    compute = _matrix_s(worker, batch + chunk, batch + share, routed) + share * _attention_s(worker, new, cached_tokens)
    return np.maximum(moved / worker.accelerator.memory_bytes_per_s, compute)


def _weight_bytes(worker: Worker, routed: Floats) -> Floats:
    total = np.asarray(_gemm_bytes(worker.gemms) + _gemm_bytes(worker.head))
    for kind in worker.experts:
        touched = distinct_experts(kind.experts, kind.top_k, routed) / worker.ep
        one = kind.matrices * kind.hidden * kind.intermediate * kind.weight_bytes
        total = total + kind.count * one * touched
    return total


def _gemm_bytes(gemms: Gemms) -> float:
    return float(np.sum(gemms.count * gemms.columns * gemms.depth * gemms.weight_bytes))


def _cache_bytes(worker: Worker, batch: Floats, context: Floats) -> Floats:
    per_sequence = np.zeros(np.broadcast(batch, context).shape)
    for softmax in worker.softmax:
        per_sequence = per_sequence + softmax.count * softmax_bytes(softmax, context)
    for latent in worker.latent:
        per_sequence = per_sequence + latent.count * latent_bytes(latent, context)
    for recurrent in worker.recurrent:
        per_sequence = per_sequence + recurrent.count * recurrent_bytes(recurrent)
    return per_sequence * batch


def softmax_bytes(kind: SoftmaxKind, context_tokens: Floats) -> Floats:
    """Keys and values that one sequence has one layer read [bytes]."""
    seen = np.minimum(context_tokens, kind.window_tokens) if kind.window_tokens else context_tokens
    return np.asarray(kind.kv_bytes_per_token * seen)


def latent_bytes(kind: LatentKind, context_tokens: Floats) -> Floats:
    """Latent vectors that one sequence has one layer read [bytes]."""
    return np.asarray(kind.kv_bytes_per_token * latent_entries(kind.mixer, context_tokens))


def recurrent_bytes(kind: RecurrentKind) -> float:
    """State of one sequence in one layer, in fp32 [bytes]."""
    return 4.0 * kind.state_elements


def _matrix_s(worker: Worker, tokens: Floats, sampled: Floats, routed: Floats) -> Floats:
    total = tokens * _gemm_s_per_token(worker.gemms) + sampled * _gemm_s_per_token(worker.head)
    for kind in worker.experts:
        per_pair = 2.0 * kind.matrices * kind.hidden * kind.intermediate / kind.peak_flops_per_s
        total = total + kind.count * per_pair * routed * kind.top_k / worker.ep
    return total


def _gemm_s_per_token(gemms: Gemms) -> float:
    return float(np.sum(gemms.count * 2.0 * gemms.columns * gemms.depth / gemms.peak_flops_per_s))


def _attention_s(worker: Worker, new: Floats, cached: Numbers) -> Floats:
    """Attention FLOPs of prompts after what is cached, over the bf16 peak, in which every prefill kernel is priced."""
    work = np.zeros(new.shape)
    for softmax in worker.softmax:
        work = work + softmax.count * softmax_flops(softmax, new, cached)
    for latent in worker.latent:
        work = work + latent.count * latent_flops(latent, new, cached)
    return work / worker.accelerator.bf16_dense_flops_per_s


def softmax_flops(kind: SoftmaxKind, new: Numbers, cached: Numbers) -> Floats:
    """Scores and weighted values of `new` tokens after `cached` ones in one layer: 4 h D per pair [FLOP]."""
    return 4.0 * kind.heads * kind.head_dim * attended_pairs(new, cached, kind.window_tokens)


def latent_flops(kind: LatentKind, new: Numbers, cached: Numbers) -> Floats:
    """The same over expanded latent vectors: 2 h (key + value size) per pair [FLOP]."""
    return 2.0 * kind.heads * kind.expanded_width * latent_pairs(kind.mixer, new, cached)


# ------------------------------------------------------------------------------------------------------------ checks


def check_step(time_s: Numbers, floor_s: Numbers) -> None:
    """PhysicsError when any step is faster than its floor."""
    _at_least("step time", "its roofline floor", time_s, floor_s, "s")


def check_ttft(ttft_s: Numbers, prefill_floor_s: Numbers) -> None:
    """PhysicsError when a first token arrives before its prompt can have been read."""
    _at_least("time to first token", "the floor of its own prefill", ttft_s, prefill_floor_s, "s")


def check_memory(used_bytes: Numbers, capacity_bytes: Numbers) -> None:
    """PhysicsError when an accelerator holds more than it has."""
    _at_least("memory", "what is used of it", capacity_bytes, used_bytes, "bytes")


def check_link(used_bytes_per_s: Numbers, capacity_bytes_per_s: Numbers) -> None:
    """PhysicsError when a link carries more than its rate."""
    _at_least("link rate", "the traffic on it", capacity_bytes_per_s, used_bytes_per_s, "bytes/s")


def _at_least(name: str, other_name: str, value: Numbers, least: Numbers, unit: str) -> None:
    high, low = np.broadcast_arrays(np.asarray(value, dtype=float), np.asarray(least, dtype=float))
    broken = ~(high >= low * (1.0 - _ROUNDING))
    if np.any(broken):
        first = tuple(np.argwhere(broken)[0])
        raise PhysicsError(f"{name} {high[first]:.6g} {unit} lies below {other_name}, {low[first]:.6g} {unit}")
