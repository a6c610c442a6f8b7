"""What KV takes, and what moving it takes."""

from __future__ import annotations

from planner.roofline.collectives import LINE_FRACTION
from planner.roofline.steps import prefill_s
from planner.shapes.counts import kv_bytes, kv_bytes_per_token
from planner.sizing.claims.bench import ALL, LONG, Bench, Finding, seconds


def cache_cliff(bench: Bench) -> Finding:
    """The cliff is where the sessions' contexts fill the cache, so it moves in proportion to it (MODELLING §9)."""
    whole = [70.0 / (1.0 - cut) for cut in (0.36, 0.44)]
    return Finding(
        "a KV budget cut by 36 to 44 % puts the cliff near 70 sessions",
        "sessions",
        (65.0, 75.0),
        (whole[0] * 0.64, whole[1] * 0.56),
        f"consistent with a cliff at {whole[0]:.0f} to {whole[1]:.0f} sessions at the full budget",
        "when all sessions hold about the same context, as agents in turn do; the source is not public",
    )


def burst_by_moving(bench: Bench) -> Finding:
    nic = LINE_FRACTION * bench.network_bytes_per_s
    times = [float(kv_bytes(bench.dense, "bf16", tokens)) / nic for tokens in (4096.0, 100_000.0)]
    many, short = 100.0 * times[1] / 8.0, 0.1 * nic / kv_bytes_per_token(bench.dense, "bf16")
    return Finding(
        "moving KV absorbs a burst of sub-agents more cheaply than headroom (under 100 ms each)",
        "ms",
        (0.0, 100.0),
        (1e3 * times[0], 1e3 * times[1]),
        "one context of 4,096 to 100,000 tokens over one NIC of 400 Gb/s",
        f"for contexts of no more than {short:,.0f} tokens; "
        f"100 agents of 100,000 tokens over 8 NICs take {many:.0f} s, and need room where they go",
    )


def rdma(bench: Bench) -> Finding:
    """KV that a busy prefill worker makes, against a NIC: kappa times prompt tokens per second."""
    tokens_per_s = 2048.0 / seconds(prefill_s(bench.worker(4), 2048.0, ALL).total_s)
    made = tokens_per_s * kv_bytes_per_token(bench.dense, "bf16") / 1e9
    long = LONG / seconds(prefill_s(bench.worker(4), LONG, ALL).total_s) * kv_bytes_per_token(bench.dense, "bf16") / 1e9
    slow = 12.5 * LINE_FRACTION
    return Finding(
        "disaggregation needs RDMA (more than a 100 Gb/s NIC without it carries)",
        "GB/s",
        (slow, 1000.0),
        (long, made),
        f"KV that one busy prefill worker of tp 4 makes; a 100 Gb/s NIC carries about {slow:.1f} GB/s",
        f"once a NIC serves {slow / made:.1f} such workers or more, and for TTFT, which feels the latency of each hop",
    )
