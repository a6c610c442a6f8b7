"""Time of moving tensors between accelerators. Seconds, bytes, one-way bytes per second."""

from __future__ import annotations

import numpy as np

from planner.records import Floats

Numbers = float | Floats

# Expert all-to-all: share of the one-way scale-up rate that dispatch and combine reach (Hopper 240 of 450 GB/s,
# Blackwell 500 of 900; 420 of 900 on a rack-wide fabric), start-up of the pair, and how far tokens that are sent once
# per node instead of once per expert lift a NIC above its line rate (60 of 50 GB/s). FIDELITY §2, `com`.
_NODE_FRACTION = 0.545
_RACK_FRACTION = 0.467
_NIC_FACTOR = 1.2
ALL_TO_ALL_START_UP_S = 28e-6


def collective_s(bus_bytes: Numbers, latency_s: float, bytes_per_s: float, exponent: float) -> Floats:
    """C3: (alpha^q + (bus / B)^q)^(1/q), the start-up overlapping the transfer (FIDELITY §2, C3).

    Id: step.collectives.  all-reduces * (alpha^q + (bus bytes / B)^q)^(1/q), and the exchange of experts  (FIDELITY
        §2, C3)
    """
    transfer = np.asarray(bus_bytes, dtype=float) / bytes_per_s
    result: Floats = (latency_s**exponent + transfer**exponent) ** (1.0 / exponent)
    return result


def all_reduce_s(size_bytes: Numbers, ranks: int, latency_s: float, bytes_per_s: float, exponent: float) -> Floats:
    """All-reduce of `size_bytes` per rank, bus bytes 2 (n - 1) / n; exactly 0 on one rank."""
    if ranks == 1:
        return np.zeros_like(np.asarray(size_bytes, dtype=float))
    return collective_s(np.asarray(size_bytes) * (2.0 * (ranks - 1) / ranks), latency_s, bytes_per_s, exponent)


def gather_s(size_bytes: Numbers, ranks: int, latency_s: float, bytes_per_s: float, exponent: float) -> Floats:
    """All-gather or reduce-scatter of `size_bytes` in total, bus bytes (n - 1) / n; exactly 0 on one rank."""
    if ranks == 1:
        return np.zeros_like(np.asarray(size_bytes, dtype=float))
    return collective_s(np.asarray(size_bytes) * ((ranks - 1) / ranks), latency_s, bytes_per_s, exponent)


def all_to_all_bytes_per_s(
    ranks: int, scaleup_bytes_per_s: float | None, scaleup_domain: int, nic_bytes_per_s: float | None
) -> float:
    """Rate of the expert all-to-all per rank [byte/s]; 0 when nothing connects the ranks."""
    if ranks <= scaleup_domain and scaleup_bytes_per_s:
        return scaleup_bytes_per_s * (_RACK_FRACTION if scaleup_domain > 8 else _NODE_FRACTION)
    return (nic_bytes_per_s or 0.0) * _NIC_FACTOR


def all_to_all_s(rank_tokens: Numbers, top_k: int, hidden: int, ranks: int, bytes_per_s: float) -> Floats:
    """Dispatch (1 byte) and combine (2 bytes) of the experts' activations, tokens sent at most once per rank.

    28 us + T min(k, n) 3 H (n - 1) / n / B, T tokens of one rank (FIDELITY §2, `com`); exactly 0 on one rank.
    """
    tokens = np.asarray(rank_tokens, dtype=float)
    if ranks == 1:
        return np.zeros_like(tokens)
    bytes_per_token = min(top_k, ranks) * 3.0 * hidden * (ranks - 1) / ranks
    return ALL_TO_ALL_START_UP_S + tokens * (bytes_per_token / bytes_per_s)


# Activations from one pipeline stage to the next: share of the one-way scale-up rate (354 of 450 GB/s on Hopper) and of
# the NIC's (47 of 50) that is reached, and the start-up (MODELLING §4, PP).
_HOP_SCALEUP_FRACTION = 0.79
_HOP_NIC_FRACTION = 0.94
HOP_START_UP_S = 6e-6


def hop_bytes_per_s(
    tp: int, pp: int, scaleup_bytes_per_s: float | None, scaleup_domain: int, nic_bytes_per_s: float | None
) -> float:
    """Rate between two pipeline stages [byte/s]; 0 when nothing connects them.

    Over the scale-up fabric when it holds all stages; else each of the tp ranks of a stage sends its slice by its NIC.
    """
    if tp * pp <= scaleup_domain and scaleup_bytes_per_s:
        return _HOP_SCALEUP_FRACTION * scaleup_bytes_per_s
    return _HOP_NIC_FRACTION * tp * (nic_bytes_per_s or 0.0)


def hops_s(tokens: Numbers, hidden: int, stages: int, bytes_per_s: float) -> Floats:
    """One step's way through `stages` pipeline stages: (p - 1) (6 us + 4 H T / B); exactly 0 with one stage.

    Hidden state and residual of T tokens in bf16 (MODELLING §4, PP).
    """
    if stages == 1:
        return np.zeros_like(np.asarray(tokens, dtype=float))
    return np.asarray((stages - 1) * (HOP_START_UP_S + 4.0 * hidden * np.asarray(tokens) / bytes_per_s))


SET_UP_S = 5e-3  # hand-over between the engines, seen in disaggregated runs (FIDELITY §4)
LINE_FRACTION = 0.7  # of line rate reached by engine connectors; 0.37-0.98 seen (MODELLING §5)


def exposed_transfer_s(
    size_bytes: Numbers, bytes_per_s: Numbers, prefill_s: Numbers, layers: int, set_up_s: Numbers = 0.0
) -> Floats:
    """What a layer-wise push leaves visible after the prefill (MODELLING §5).

    max(bytes / (L B), bytes / B - S (L - 1) / L) + set-up: the last layer is always exposed, the rest only when the
    link is slower than the prefill makes cache.
    """
    whole = np.asarray(size_bytes, dtype=float) / bytes_per_s
    hidden_s = np.asarray(prefill_s) * ((layers - 1) / layers)
    return np.asarray(set_up_s + np.maximum(whole / layers, whole - hidden_s))
