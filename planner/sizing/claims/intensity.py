"""How much arithmetic prefill and decode do per byte, and how much of the peak they reach."""

from __future__ import annotations

import numpy as np

from planner.roofline.steps import prefill_s
from planner.roofline.worker import Worker
from planner.shapes.counts import decode_flops, kv_bytes, prefill_flops
from planner.shapes.ranks import weight_bytes_per_rank
from planner.sizing.claims.bench import ALL, PROMPTS, Bench, Finding, seconds


def _linear_intensity(worker: Worker, tokens: float) -> float:
    """FLOP per byte of all GEMMs of a step: 2 m n k over weights, inputs and outputs."""
    gemms = worker.gemms
    flops = float(np.sum(gemms.count * 2.0 * tokens * gemms.columns * gemms.depth))
    moved = gemms.weight_bytes * gemms.columns * gemms.depth + tokens * (
        gemms.activation_bytes * gemms.depth + 2.0 * gemms.columns
    )
    return flops / float(np.sum(gemms.count * moved))


def prefill_intensity(bench: Bench) -> Finding:
    worker = bench.worker(4)
    found = [_linear_intensity(worker, tokens) for tokens in PROMPTS]
    small = next(tokens for tokens in range(64, 4096) if _linear_intensity(worker, tokens) >= 250.0)
    return Finding(
        "prefill has an arithmetic intensity of 100 to 250",
        "FLOP/byte",
        (100.0, 250.0),
        (found[0], found[-1]),
        "GEMMs of prompts of 512 to 32,768 tokens",
        f"for batches of no more than {small} tokens, which is what a small chunk is",
    )


def decode_intensity(bench: Bench) -> Finding:
    def of(batch: float, context: float) -> float:
        weights = float(weight_bytes_per_rank(bench.dense, "bf16", 1, 1, 1, 1))
        moved = weights + batch * float(kv_bytes(bench.dense, "bf16", context))
        return batch * float(decode_flops(bench.dense, context)) / moved

    most = max((batch for batch in range(1, 257) if of(float(batch), 2048.0) <= 4.0), default=0)
    return Finding(
        "decode has an arithmetic intensity of 0.5 to 4",
        "FLOP/byte",
        (0.5, 4.0),
        (of(1.0, 2048.0), of(128.0, 4096.0)),
        "whole step, a batch of 1 at 2,048 tokens to one of 128 at 4,096",
        f"up to a batch of {most}; a batch is what a server is for",
    )


def prefill_mfu(bench: Bench) -> Finding:
    def of(tp: int, tokens: float) -> float:
        time = seconds(prefill_s(bench.worker(tp), tokens, ALL).total_s)
        return float(prefill_flops(bench.dense, tokens)) / (time * tp * bench.accelerator.bf16_dense_flops_per_s)

    found = [of(4, tokens) for tokens in PROMPTS]
    alone = bench.worker(4).gemms
    gemms = float(np.max(alone.flops_per_s / alone.peak_flops_per_s))
    return Finding(
        "prefill reaches 65 to 80 % of peak FLOP/s",
        "%",
        (65.0, 80.0),
        (100.0 * min(found), 100.0 * max(found)),
        "whole prefill of 512 to 32,768 tokens, tp 4",
        f"for single GEMMs (up to {100 * gemms:.0f} %), and at tp 1, "
        f"where no all-reduce is exposed ({100 * of(1, 8192.0):.0f} % at 8,192 tokens)",
    )
