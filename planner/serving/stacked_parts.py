"""What one worker runs, as numbers by name: the parts that `stacked` lays side by side.

Rates of a worker built with constants of 1 are kept as fractions of the peak, so that constants can scale them.
"""

from __future__ import annotations

from planner.roofline.kinds import Gemms, LatentKind, RecurrentKind, SoftmaxKind
from planner.roofline.worker import Worker

Part = dict[str, float]
LINK = ("latency_s", "bytes_per_s", "exponent")


def mixers(worker: Worker) -> tuple[SoftmaxKind | LatentKind | RecurrentKind, ...]:
    """Every mixer of a worker."""
    return (*worker.softmax, *worker.latent, *worker.recurrent)


def gemm_parts(worker: Worker, gemms: Gemms) -> list[Part]:
    """Matrices of one step."""
    parts = []
    for i in range(len(gemms.columns)):
        part = {
            name: float(getattr(gemms, name)[i])
            for name in ("columns", "depth", "count", "weight_bytes", "activation_bytes", "exponent")
        }
        part |= {
            "peak": float(gemms.peak_flops_per_s[i]),
            "compute_fraction": float(gemms.flops_per_s[i] / gemms.peak_flops_per_s[i]),
            "memory_fraction": float(gemms.bytes_per_s[i] / worker.accelerator.memory_bytes_per_s),
        }
        parts.append(part)
    return parts


def softmax_parts(worker: Worker) -> list[Part]:
    """Kinds of softmax attention."""
    accelerator = worker.accelerator
    return [
        {
            "count": kind.count,
            "window": kind.window_tokens,
            "heads": kind.heads,
            "kv_heads": kind.kv_heads,
            "head_dim": kind.head_dim,
            "kv_bytes": kind.kv_bytes_per_token,
            "sequence_s": kind.sequence_s,
            "memory_fraction": kind.decode_bytes_per_s / accelerator.memory_bytes_per_s,
            "prefill_fraction": kind.prefill_flops_per_s / accelerator.bf16_dense_flops_per_s,
            "softmax_tokens": kind.softmax_tokens,
        }
        for kind in worker.softmax
    ]


def latent_part(worker: Worker, kind: LatentKind, mixer: int) -> Part:
    """One kind of latent attention; `mixer` is its position among all mixers."""
    accelerator = worker.accelerator
    return {
        "count": kind.count,
        "mixer": mixer,
        "heads": kind.heads,
        "kv_bytes_per_token": kind.kv_bytes_per_token,
        "sequence_s": kind.sequence_s,
        "decode_fraction": kind.decode_flops_per_s / accelerator.bf16_dense_flops_per_s,
        "memory_fraction": kind.decode_bytes_per_s / accelerator.memory_bytes_per_s,
        "prefill_fraction": kind.prefill_flops_per_s / accelerator.bf16_dense_flops_per_s,
        "softmax_tokens": kind.softmax_tokens,
    }


def recurrent_parts(worker: Worker) -> list[Part]:
    """Kinds of recurrent mixers."""
    accelerator = worker.accelerator
    return [
        {
            "count": kind.count,
            "state_elements": kind.state_elements,
            "memory_fraction": kind.decode_bytes_per_s / accelerator.memory_bytes_per_s,
            "prefill_fraction": kind.prefill_flops_per_s / accelerator.bf16_dense_flops_per_s,
        }
        for kind in worker.recurrent
    ]


def expert_parts(worker: Worker) -> list[Part]:
    """Kinds of expert layers."""
    return [
        {
            "count": kind.count,
            "ep": worker.ep,
            "gathering": 1 if worker.dp == 1 else min(worker.ep, worker.dp),
            "experts": kind.experts,
            "top_k": kind.top_k,
            "hidden": kind.hidden,
            "intermediate": kind.intermediate,
            "matrices": kind.matrices,
            "weight_bytes": kind.weight_bytes,
            "peak": kind.peak_flops_per_s,
            "compute_fraction": kind.flops_per_s / kind.peak_flops_per_s,
            "memory_fraction": kind.bytes_per_s / worker.accelerator.memory_bytes_per_s,
            "exponent": kind.exponent,
            "gather_factor": kind.gather_factor,
        }
        for kind in worker.experts
    ]


def reduce_parts(worker: Worker) -> list[Part]:
    """The all-reduce of a step, none on one rank."""
    link = worker.all_reduce
    if link is None:
        return []
    part = {name: float(getattr(link, name)) for name in LINK}
    return [{**part, "count": worker.all_reduces, "tp": worker.tp, "hidden": worker.shape.hidden}]


def exchange_parts(worker: Worker) -> list[Part]:
    """Exchanges of experts' activations between attention ranks."""
    if worker.dp == 1:
        return []
    links = {"gather": worker.all_gather, "scatter": worker.reduce_scatter}
    part: Part = {
        "gathers": float(all(link is not None for link in links.values())),
        "ranks": worker.tp * worker.dp,
        "direct_bytes_per_s": worker.all_to_all_bytes_per_s,
    }
    for way, link in links.items():
        part |= {f"{way}_{name}": float(getattr(link, name)) if link else 1.0 for name in LINK}
    return [{**part, "count": kind.count, "top_k": kind.top_k, "hidden": kind.hidden} for kind in worker.experts]
