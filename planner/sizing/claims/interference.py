"""What prefill does to decode beside it, and what chunks cost."""

from __future__ import annotations

import numpy as np

from planner.roofline.steps import decode_s, mixed_s, prefill_s
from planner.sizing.claims.bench import ALL, LONG, Bench, Finding, lost_fraction, seconds


def unchunked_spike(bench: Bench) -> Finding:
    worker = bench.worker(4)
    quiet = seconds(decode_s(worker, 32.0, 2048.0).total_s)
    hit = [1e3 * (quiet + seconds(prefill_s(worker, tokens, ALL).total_s)) for tokens in (2048.0, 32768.0)]
    chunk = 1e3 * seconds(mixed_s(worker, 32.0, 2048.0, 480.0, 8192.0).total_s)
    lengths = np.geomspace(512.0, 32768.0, 200)
    gaps = 1e3 * (quiet + np.asarray(prefill_s(worker, lengths, ALL).total_s))
    inside = lengths[(gaps >= 400.0) & (gaps <= 600.0)]
    return Finding(
        "a prefill beside it takes ITL from 15-20 ms to 400-600 ms",
        "ms",
        (400.0, 600.0),
        (hit[0], hit[1]),
        f"whole prompts of 2,048 to 32,768 tokens; undisturbed {1e3 * quiet:.0f} ms",
        f"without chunking, for prompts of {inside[0]:,.0f} to {inside[-1]:,.0f} tokens; "
        f"with chunks of 512 it is {chunk:.0f} ms",
    )


def number_of_chunks(bench: Bench) -> Finding:
    count = float(prefill_s(bench.worker(4), LONG, 512.0).chunks)
    return Finding("a 32K prompt is 64 chunks of 512", "chunks", (64.0, 64.0), (count, count), "arithmetic", "always")


def chunk_loss(bench: Bench) -> Finding:
    dense = {tp: 100.0 * lost_fraction(bench.worker(tp), LONG, 512.0) for tp in (2, 4, 8)}
    experts = 100.0 * lost_fraction(bench.experts_worker(), LONG, 512.0)
    inside = [tp for tp, lost in dense.items() if 35.0 <= lost <= 50.0]
    where = f"at tp {', '.join(map(str, inside))}" if inside else "at no tp up to 8"
    return Finding(
        "chunks of 512 lose 35 to 50 % of a 32K prefill",
        "%",
        (35.0, 50.0),
        (dense[2], dense[8]),
        f"dense at tp 2, 4 and 8: {dense[2]:.0f}, {dense[4]:.0f} and {dense[8]:.0f} %; it is known to a factor of two",
        f"{where} for a dense model, where launches and all-reduces of each chunk are exposed; "
        f"for experts, which every chunk reads again, it is {experts:.0f} %",
    )


def jitter(bench: Bench) -> Finding:
    worker = bench.worker(4)
    quiet = seconds(decode_s(worker, 32.0, 2048.0).total_s)
    ratios = [seconds(mixed_s(worker, 32.0, 2048.0, c - 32.0, 8192.0).total_s) / quiet for c in (64.0, 2048.0)]
    return Finding(
        "decode is never free of jitter when interleaved with prefill: a mixed step is longer",
        "times",
        (1.01, 100.0),
        (ratios[0], ratios[1]),
        "a step with a chunk of 64 to 2,048 tokens over one without, 32 sequences",
        "always in kind; how much is a choice of the chunk, and P99 ITL is a mixed step once 1 % of steps are mixed",
    )
