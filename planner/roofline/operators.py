"""Time of one operator in closed form. Plain functions on numbers or arrays that broadcast; every time is in seconds.

Rates are achieved rates: the peak of the hardware times the fitted fraction of the kernel. Start-up times are not in
here (a step adds them as launch cost), except in collectives, whose start-up overlaps the transfer.
"""

from __future__ import annotations

import numpy as np

from planner.records import Floats
from planner.shapes.counts import attended_pairs

Numbers = float | Floats


def pn(x: Numbers, y: Numbers, exponent: Numbers) -> Floats:
    """Soft roofline (x^q + y^q)^(1/q), written so that large exponents do not overflow (FIDELITY §1).

    `exponent` 1 means no overlap of compute and memory, a large one a sharp roofline: max(x, y) <= pn <= x + y.
    """
    high = np.maximum(x, y)
    ratio = np.minimum(x, y) / np.where(high > 0, high, 1.0)
    result: Floats = high * (1.0 + ratio**exponent) ** (1.0 / np.asarray(exponent))
    return result


def gemm_s(
    tokens: Numbers,
    columns: Numbers,
    depth: Numbers,
    weight_bytes: Numbers,
    activation_bytes: Numbers,
    flops_per_s: Numbers,
    bytes_per_s: Numbers,
    exponent: Numbers,
) -> Floats:
    """G1: one GEMM of `tokens` x `depth` by `depth` x `columns`.

    pn(2 m n k / P, (w n k + a m k + 2 m n) / W), with `weight_bytes` w per weight and `activation_bytes` a per input
    element (FIDELITY §2, G1).
    """
    flops, moved = gemm_work(tokens, columns, depth, weight_bytes, activation_bytes)
    return pn(flops / flops_per_s, moved / bytes_per_s, exponent)


def gemm_work(
    tokens: Numbers, columns: Numbers, depth: Numbers, weight_bytes: Numbers, activation_bytes: Numbers
) -> tuple[Numbers, Numbers]:
    """FLOPs and bytes of G1: 2 m n k, and the weights, inputs and bf16 outputs."""
    moved = weight_bytes * columns * depth + activation_bytes * tokens * depth + 2.0 * tokens * columns
    return 2.0 * tokens * columns * depth, moved


def prefill_attention_s(
    prompt_tokens: Numbers,
    heads: int,
    head_dim: float,
    softmax_tokens: float,
    compute_units: int,
    flops_per_s: float,
    window_tokens: int = 0,
    cached_tokens: Numbers = 0.0,
) -> Floats:
    """A1: causal attention over one whole prompt, compute side only (FIDELITY §2, A1).

    sqrt((4 h D (pairs + s S) / P)^2 + (512 s D SMs / P)^2). The second term is the serial work of one tile column,
    which starves the SMs when a rank has few heads. `head_dim` is the mean of key and value size.
    Of a prompt whose first `cached_tokens` are in the cache the rest attends to all of it: pairs q p + q (q + 1) / 2
    (MODELLING §1.2), and the serial term is its share of the prompt.

    Id: step.attention_prefill.  layers * sqrt((4 h D (pairs + s S) / P)^2 + (512 s D SMs / P)^2)  (FIDELITY §2, A1)
    """
    length = np.asarray(prompt_tokens, dtype=float)
    new = length - cached_tokens
    pairs = attended_pairs(new, cached_tokens, window_tokens)
    seen = np.minimum(length, window_tokens) if window_tokens else length
    work = 4.0 * heads * head_dim * (pairs + new * softmax_tokens)
    serial = (
        512.0 * seen * head_dim * compute_units * np.where(length > 0, new / np.where(length > 0, length, 1.0), 1.0)
    )
    return np.hypot(work, serial) / flops_per_s


def prefill_mla_s(
    prompt_tokens: Numbers,
    heads: int,
    width: float,
    softmax_tokens: float,
    compute_units: int,
    flops_per_s: float,
    window_tokens: int = 0,
    cached_tokens: Numbers = 0.0,
) -> Floats:
    """A2: expanded latent attention over one whole prompt (FIDELITY §2, A2).

    As A1 with `width` = query-key size + value size (192 + 128 for DeepSeek-V3): F = 2 h width pairs.
    """
    return prefill_attention_s(
        prompt_tokens, heads, width / 2.0, softmax_tokens, compute_units, flops_per_s, window_tokens, cached_tokens
    )


def expanded_latent_s(
    cached_tokens: Numbers, heads: int, kv_rank: int, expanded_dim: int, flops_per_s: float
) -> Floats:
    """Cached latent vectors made into keys and values again for a step: 2 r h (n + v) p / P (MODELLING §1.2)."""
    return np.asarray(cached_tokens, dtype=float) * (2.0 * kv_rank * heads * expanded_dim / flops_per_s)


def decode_attention_s(
    sequences: Numbers,
    context_tokens: Numbers,
    kv_bytes_per_token: float,
    kv_heads: int,
    sequence_s: float,
    bytes_per_s: float,
) -> Floats:
    """D1: one query token per sequence against its cache: sequence_s b v + b s kv_bytes / W (FIDELITY §2, D1).

    `kv_bytes_per_token` is of one layer on one rank, `sequence_s` the cost of one sequence and KV head.

    Id: step.attention_decode.  layers * (sequence_s * b * v + b * s * kv bytes / W); latents by D2, states by L1
        (FIDELITY §2, D1)
    """
    per_sequence = sequence_s * kv_heads + np.asarray(context_tokens) * (kv_bytes_per_token / bytes_per_s)
    result: Floats = np.asarray(sequences) * per_sequence
    return result


def decode_mla_s(
    sequences: Numbers,
    context_tokens: Numbers,
    heads: int,
    absorbed_width: int,
    kv_bytes_per_token: float,
    sequence_s: float,
    flops_per_s: float,
    bytes_per_s: float,
    exponent: float,
) -> Floats:
    """D2: absorbed latent attention, sequence_s b + pn(2 b h s width / P, b s kv_bytes / W) (FIDELITY §2, D2).

    `absorbed_width` = 2 rank + rope (1,088 for DeepSeek-V3); `kv_bytes_per_token` = (rank + rope) x element size.
    """
    flops, moved = decode_mla_work(sequences, context_tokens, heads, absorbed_width, kv_bytes_per_token)
    roofline = pn(flops / flops_per_s, moved / bytes_per_s, exponent)
    result: Floats = np.asarray(sequences) * sequence_s + roofline
    return result


def decode_mla_work(
    sequences: Numbers, context_tokens: Numbers, heads: int, absorbed_width: int, kv_bytes_per_token: float
) -> tuple[Floats, Floats]:
    """FLOPs and bytes of D2: 2 b h s width, and the cached vectors, which all heads share."""
    read = np.asarray(sequences, dtype=float) * np.asarray(context_tokens, dtype=float)
    return read * (2.0 * heads * absorbed_width), read * kv_bytes_per_token


def decode_recurrent_s(sequences: Numbers, state_elements: float, bytes_per_s: float) -> Floats:
    """L1: a recurrent mixer reads and writes its fp32 state once per token: 8 b state / W."""
    return np.asarray(sequences, dtype=float) * (8.0 * state_elements / bytes_per_s)


def prefill_recurrent_s(tokens: Numbers, state_elements: float, flops_per_s: float) -> Floats:
    """L2: chunked scan of a recurrent mixer: 4 p state / P."""
    return np.asarray(tokens, dtype=float) * (4.0 * state_elements / flops_per_s)


def distinct_experts(experts: Numbers, top_k: Numbers, tokens: Numbers) -> Floats:
    """Expected number of different experts that `tokens` tokens touch: E (1 - (1 - k/E)^m), uniform routing.

    Exact when each token draws k different experts at random; skewed routing touches fewer (MODELLING §1.3).
    """
    total = np.asarray(experts, dtype=float)
    result: Floats = total * (1.0 - (1.0 - np.asarray(top_k) / total) ** np.asarray(tokens))
    return result


def experts_s(
    pairs: Numbers,
    touched_experts: Numbers,
    hidden: int,
    intermediate: float,
    matrices: int,
    weight_bytes: float,
    flops_per_s: float,
    bytes_per_s: float,
    exponent: float,
) -> Floats:
    """M1: grouped expert GEMMs of one layer on one rank (FIDELITY §2, M1).

    pn(2 g pairs H F / P, (g X H F w + pairs (4 H + 2 g F)) / W), g = 3 `matrices` per expert when gated, else 2;
    `pairs` token-expert pairs on this rank, X `touched_experts` on it, F the expert's width on this rank.

    Id: step.experts.  layers * pn(2 g pairs H F / P, (g X H F w + activations) / W), and routing  (FIDELITY §2, M1)
    """
    flops, moved = experts_work(pairs, touched_experts, hidden, intermediate, matrices, weight_bytes)
    return pn(flops / flops_per_s, moved / bytes_per_s, exponent)


def experts_work(
    pairs: Numbers, touched_experts: Numbers, hidden: int, intermediate: float, matrices: int, weight_bytes: float
) -> tuple[Floats, Floats]:
    """FLOPs and bytes of M1: 2 g pairs H F, and the experts touched with the activations of the pairs."""
    weights = np.asarray(touched_experts, dtype=float) * (matrices * hidden * intermediate * weight_bytes)
    activations = np.asarray(pairs, dtype=float) * (4.0 * hidden + 2.0 * matrices * intermediate)
    return np.asarray(pairs, dtype=float) * (2.0 * matrices * hidden * intermediate), weights + activations


def routing_s(tokens: Numbers, top_k: int, hidden: int, gather_factor: float, bytes_per_s: float) -> Floats:
    """Gather and scatter of routed activations around the expert kernels: 2 g m k H / W (FIDELITY §2, M1)."""
    return np.asarray(tokens, dtype=float) * (2.0 * gather_factor * top_k * hidden / bytes_per_s)


def elementwise_s(tokens: Numbers, elements_per_token: float, bytes_per_s: float) -> Floats:
    """Norms, residuals, rotary embedding and gates: bf16 elements at 0.7 of the memory bandwidth (FIDELITY §2)."""
    return np.asarray(tokens, dtype=float) * (2.0 * elements_per_token / (0.7 * bytes_per_s))
