"""The quantitative claims of the argument for disaggregation, each computed and judged.

A claim states a range. What the model finds is a range too, over the cases the claim is about; the verdict follows from
how the two lie. The main case is Llama-3.1-70B in bf16 on H100, four to a worker, as the claims have it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from planner.sizing.claims.bench import Bench, Claim, Finding, verdict
from planner.sizing.claims.caches import burst_by_moving, cache_cliff, rdma
from planner.sizing.claims.crossing import crossover
from planner.sizing.claims.intensity import decode_intensity, prefill_intensity, prefill_mfu
from planner.sizing.claims.interference import chunk_loss, jitter, number_of_chunks, unchunked_spike
from planner.sizing.claims.parallelism import all_reduce_share, tensor_parallel_by_role
from planner.sizing.claims.targets import both_targets, wrong_ratio

CLAIMS: Mapping[str, Callable[[Bench], Finding]] = {
    "prefill-intensity": prefill_intensity,
    "decode-intensity": decode_intensity,
    "prefill-mfu": prefill_mfu,
    "unchunked-spike": unchunked_spike,
    "chunks-of-a-prompt": number_of_chunks,
    "chunk-loss": chunk_loss,
    "jitter": jitter,
    "all-reduce-share": all_reduce_share,
    "tp-by-role": tensor_parallel_by_role,
    "both-targets": both_targets,
    "wrong-ratio": wrong_ratio,
    "cache-cliff": cache_cliff,
    "burst-by-moving": burst_by_moving,
    "rdma": rdma,
    "crossover": crossover,
}


def claims(bench: Bench, only: str = "") -> tuple[Claim, ...]:
    """Every claim in order, or the one named `only`."""
    return tuple(_made(name, compute(bench)) for name, compute in CLAIMS.items() if not only or name == only)


def _made(name: str, one: Finding) -> Claim:
    ordered = (min(one.found), max(one.found))
    said = verdict(one.said, ordered)
    return Claim(name, one.text, one.unit, one.said, ordered, said, one.cases, one.right_when)
