"""What every operator of a step computes and moves on one rank: its place in a roofline, with the time it takes.

FLOPs and bytes are those that the step is priced by and guarded with. Times are those of the step, start-up left out;
where an operator is priced by its FLOPs alone, at least what its bytes take.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from planner.records import Floats
from planner.roofline import operators
from planner.roofline.attention import decode_latent_s, decode_softmax_s, prefill_latent_s, prefill_softmax_s
from planner.roofline.guards import latent_bytes, latent_flops, recurrent_bytes, softmax_bytes, softmax_flops
from planner.roofline.kinds import Gemms, LatentKind, SoftmaxKind
from planner.roofline.steps import expert_gemms_s, expert_pairs, fullest_rank
from planner.roofline.worker import Worker
from planner.shapes.counts import latent_entries

ACTIVATION_BYTES = 2.0  # queries and outputs of attention are bf16


@dataclass(frozen=True, slots=True)
class OperatorWork:
    """One operator of one step, over all layers that have it: matrices, head, attention, experts, recurrent."""

    name: str
    flops: float
    moved_bytes: float
    time_s: float

    @property
    def flops_per_byte(self) -> float:
        return self.flops / self.moved_bytes

    @property
    def flops_per_s(self) -> float:
        return self.flops / self.time_s


def decode_work(
    worker: Worker, worker_batch: float, context_tokens: float, context_scv: float = 0.0
) -> tuple[OperatorWork, ...]:
    """Operators of one decode step, as `steps.decode_s` takes it; recurrent states read and written once a token."""
    whole = np.asarray(worker_batch, dtype=float)
    batch, context = fullest_rank(worker, whole, context_tokens, context_scv)
    tokens = worker.verified_tokens * batch
    routed = whole + np.minimum(worker.dp * (tokens - batch), (worker.verified_tokens - 1) * whole)
    found = [*_gemms(worker.gemms, tokens, "matrices"), *_gemms(worker.head, tokens, "head")]
    for softmax in worker.softmax:
        flops = worker.verified_tokens * batch * softmax_flops(softmax, 1.0, context - 1.0)
        moved, time_s = batch * softmax_bytes(softmax, context), decode_softmax_s(softmax, batch, context)
        found.append(_of("attention", softmax.count, flops, moved, time_s))
    for latent in worker.latent:
        latent = replace(latent, heads=latent.heads * worker.verified_tokens)
        seen = (latent_entries(latent.mixer, context), latent.heads, latent.absorbed_width, latent.kv_bytes_per_token)
        flops, moved = operators.decode_mla_work(batch, *seen)
        time_s = decode_latent_s(latent, batch, context, worker.accelerator.memory_bytes_per_s)
        found.append(_of("attention", latent.count, flops, moved, time_s))
    for state in worker.recurrent:
        if state.state_elements:
            time_s = operators.decode_recurrent_s(batch, state.state_elements, state.decode_bytes_per_s)
            flops = 4.0 * batch * state.state_elements
            found.append(_of("recurrent", state.count, flops, 2.0 * batch * recurrent_bytes(state), time_s))
    return (*found, *_experts(worker, routed))


def prefill_work(
    worker: Worker, prompt_tokens: float, token_budget: int, busy_ranks: int = 1, cached_tokens: float = 0.0
) -> tuple[OperatorWork, ...]:
    """Operators of one of the equal chunks of a prompt, as `steps.prefill_s` takes it.

    Attention is the chunk's share of that of the whole prompt; it reads the cache, and its queries and outputs pass.
    """
    new = np.asarray(prompt_tokens - cached_tokens, dtype=float)
    chunks = np.maximum(np.ceil(new / token_budget), 1.0)
    chunk, share, factor = new / chunks, 1.0 / chunks, worker.constants.prefill_factor
    found = [*_gemms(worker.gemms, chunk, "matrices"), *_gemms(worker.head, share, "head")]
    units = worker.accelerator.compute_units
    for softmax in worker.softmax:
        flops = softmax_flops(softmax, new, cached_tokens)
        moved = softmax_bytes(softmax, new + cached_tokens) + _passed(softmax, new)
        time_s = prefill_softmax_s(softmax, new + cached_tokens, units, cached_tokens)
        found.append(_of("attention", softmax.count, share * flops, share * moved, share * time_s))
    for latent in worker.latent:
        flops = latent_flops(latent, new, cached_tokens)
        moved = latent_bytes(latent, new + cached_tokens) + _passed(latent, new)
        time_s = prefill_latent_s(latent, new + cached_tokens, units, cached_tokens)
        found.append(_of("attention", latent.count, share * flops, share * moved, share * time_s))
    for state in worker.recurrent:
        if state.state_elements:
            time_s = operators.prefill_recurrent_s(chunk, state.state_elements, state.prefill_flops_per_s)
            flops = 4.0 * chunk * state.state_elements
            found.append(_of("recurrent", state.count, flops, np.asarray(2.0 * recurrent_bytes(state)), time_s))
    found += _experts(worker, chunk * busy_ranks)
    least_s = 1.0 / worker.accelerator.memory_bytes_per_s
    return tuple(replace(one, time_s=max(factor * one.time_s, one.moved_bytes * least_s)) for one in found)


def _passed(kind: SoftmaxKind | LatentKind, new: Floats) -> Floats:
    """Bytes of the queries that a layer of attention reads and of the outputs it writes."""
    width = 2.0 * kind.head_dim if isinstance(kind, SoftmaxKind) else kind.expanded_width
    return np.asarray(ACTIVATION_BYTES * kind.heads * width * new)


def _gemms(gemms: Gemms, tokens: Floats, name: str) -> Iterator[OperatorWork]:
    """A point for each shape of matrix."""
    sizes = (tokens[..., None], gemms.columns, gemms.depth, gemms.weight_bytes, gemms.activation_bytes)
    flops, moved = map(np.asarray, operators.gemm_work(*sizes))
    time_s = operators.gemm_s(*sizes, gemms.flops_per_s, gemms.bytes_per_s, gemms.exponent)
    for index, count in enumerate(gemms.count):
        yield _of(name, float(count), flops[..., index], moved[..., index], time_s[..., index])


def _experts(worker: Worker, routed: Floats) -> Iterator[OperatorWork]:
    for kind in worker.experts:
        sizes = (kind.hidden, kind.intermediate, kind.matrices, kind.weight_bytes)
        flops, moved = operators.experts_work(*expert_pairs(worker, kind, routed), *sizes)
        yield _of("experts", kind.count, flops, moved, expert_gemms_s(worker, kind, routed))


def _of(name: str, count: float, flops: Floats, moved: Floats, time_s: Floats) -> OperatorWork:
    return OperatorWork(name, float(count * flops), float(count * moved), float(count * time_s))
