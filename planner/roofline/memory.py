"""What fills one accelerator of a worker: weights, activations, the engine's reserve and the KV pool."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from planner.engines.memory import Launch, kv_pool_bytes, reserve_bytes
from planner.records import EngineProfile, Experts, Floats, LayerKind, RoleName
from planner.roofline.matrices import rank_matrices
from planner.roofline.worker import Worker
from planner.shapes import ranks
from planner.shapes.formats import component_dtypes, has_latent_attention


@dataclass(frozen=True, slots=True)
class MemoryBudget:
    """Bytes of one accelerator. `kv_bytes` is the pool, 0 when the weights leave no room for one."""

    weights_bytes: float
    activation_bytes: float
    reserve_bytes: float  # context, collective buffers, and what the engine's rule leaves unused
    kv_bytes: float
    capacity_bytes: float
    why_it_does_not_fit: str  # empty when it fits

    @property
    def fits(self) -> bool:
        return not self.why_it_does_not_fit

    def parts(self) -> Mapping[str, float]:
        """Bytes by name; they sum to the capacity of the accelerator when everything fits."""
        return {
            "weights": self.weights_bytes,
            "kv": self.kv_bytes,
            "activations": self.activation_bytes,
            "reserve": self.reserve_bytes,
        }


def memory(
    worker: Worker, engine: EngineProfile, token_budget: int, max_batch: int, role: RoleName = "colocated"
) -> MemoryBudget:
    """Memory of one accelerator under the engine's rule (MODELLING §1.4); `max_batch` is per rank.

    Id: memory.capacity.  memory of the accelerator  (catalog)
    Id: memory.weights.  bytes of the fullest rank: attention over tp, experts over tp * dp, embeddings and head
        padded  (MODELLING §1.1)
    Id: memory.reserve.  driver context, collective buffers, and what the engine's memory rule leaves unused
        (MODELLING §1.4)
    Id: memory.kv.  capacity - weights - activations - reserve - free  (MODELLING §1.4)
    """
    shape, capacity = worker.shape, worker.accelerator.memory_bytes
    weights = float(ranks.weight_bytes_per_rank(shape, worker.weights, worker.tp, worker.pp, worker.ep, worker.dp))
    tokens = max(token_budget, max_batch) if role != "decode" else max_batch
    activations = activation_bytes(worker, tokens, max_batch)
    launch = Launch(
        worker.accelerators, worker.dp, token_budget, max_batch, role, latent_attention=has_latent_attention(shape)
    )
    pool = kv_pool_bytes(engine.memory, capacity, weights, activations, launch)
    reserve = reserve_bytes(engine.memory, worker.accelerators)
    if pool > 0:
        return MemoryBudget(
            weights, activations, capacity - weights - activations - pool, pool, capacity, why_it_does_not_fit=""
        )
    needed = (weights + activations + reserve) / 1e9
    reason = (
        f"{worker.weights} weights of {shape.id} take {weights / 1e9:.1f} GB per accelerator at tp {worker.tp}"
        f"{f', dp {worker.dp}' if worker.dp > 1 else ''}; with {activations / 1e9:.1f} GB of activations and the "
        f"reserve of {engine.id} {needed:.1f} of {capacity / 1e9:.1f} GB on {worker.accelerator.id} are gone and no "
        "room is left for KV"
    )
    return MemoryBudget(weights, activations, reserve, 0.0, capacity, why_it_does_not_fit=reason)


def activation_bytes(worker: Worker, tokens: int, sampled: int) -> float:
    """Peak of the tensors alive in one step on one rank.

    Layers run one after the other and free their tensors, so the peak is the widest single layer, not the sum: the
    residual stream and its normed copy (2 H, whole on every rank), the widest mixer or feed-forward input and output
    (split over tp), all in bf16; plus logits of the sampled tokens in bf16 and fp32 (6 bytes, V / tp).

    Id: memory.activations.  tokens of a step * widest layer + logits of the sampled  (MODELLING §1.4)
    """
    shape = worker.shape
    dtypes = component_dtypes(shape, worker.weights)
    widest = max((matrix.columns + matrix.depth for matrix in rank_matrices(shape, dtypes, worker.tp)), default=0.0)
    routed = max((_routed_elements(worker, kind) for kind in shape.layers), default=0.0)
    per_token = 2.0 * (2.0 * shape.hidden + max(widest, routed))
    return tokens * per_token + sampled * 6.0 * shape.vocabulary / worker.tp


def _routed_elements(worker: Worker, kind: LayerKind) -> float:
    """Elements per token of the rank's routed copies: k / ep inputs of H and gated outputs of F each."""
    block = kind.feed_forward
    if not isinstance(block, Experts):
        return 0.0
    matrices = 3 if block.gated else 2
    share = block.top_k / worker.ep * worker.dp  # a rank computes for the tokens of every attention rank
    moe_tp = worker.tp * worker.dp / worker.ep
    return share * (2.0 * (block.hidden or worker.shape.hidden) + (matrices - 1) * block.intermediate / moe_tp)


def kv_bytes_per_rank_for(worker: Worker, tokens: Floats | float) -> Floats:
    """Bytes of one sequence of `tokens` tokens on each rank that holds it, windows and fixed state included."""
    return ranks.kv_bytes_per_rank(worker.shape, worker.kv_dtype, worker.tp, worker.pp, tokens)


def sequences_that_fit(worker: Worker, budget: MemoryBudget, tokens: Floats | float) -> Floats:
    """Sequences of `tokens` tokens that the pools of all attention ranks of a worker hold."""
    return worker.dp * budget.kv_bytes / kv_bytes_per_rank_for(worker, tokens)


def kv_capacity_tokens(worker: Worker, budget: MemoryBudget, context_tokens: Floats | float) -> Floats:
    """Tokens a worker holds in sequences of `context_tokens` each: with windows and states it depends on length."""
    return np.asarray(sequences_that_fit(worker, budget, context_tokens) * context_tokens)
