"""Time of one engine step, of one prompt and of one decode step on one worker (FIDELITY §2-4).

`decode_batch` and `prefill_tokens` of `step` are per rank (a rank is one attention-data-parallel group of tp
accelerators); experts and their all-to-all see the tokens of every rank. All arguments broadcast.

With pipeline stages a step is the way of one batch through all of them. A worker of p stages has p batches on their
way, one in each: it serves like p engines that share its weights and its KV memory (MODELLING §3, pipeline decode).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from statistics import NormalDist

import numpy as np

from planner.records import Floats
from planner.roofline import collectives, operators
from planner.roofline.attention import (
    decode_latent_s,
    decode_softmax_s,
    expanded_s,
    prefill_latent_s,
    prefill_softmax_s,
)
from planner.roofline.guards import step_floor_s
from planner.roofline.kinds import ExpertsKind, Gemms, LatentKind, Link, RecurrentKind, SoftmaxKind
from planner.roofline.worker import Worker

Numbers = float | Floats


@dataclass(frozen=True, slots=True, eq=False)
class StepTime:
    """One step by named part [s]; the parts sum to `total_s`. All parts have the broadcast shape of the arguments."""

    weights_and_gemm_s: Floats
    attention_decode_s: Floats
    attention_prefill_s: Floats
    experts_s: Floats
    collectives_s: Floats
    launch_s: Floats  # start-up of kernels and the gaps between them
    host_s: Floats
    draft_s: Floats  # passes that draft the tokens a step verifies
    floor_s: Floats  # what lifts the sum to the physical floor; 0 unless the constants claim the impossible

    @property
    def total_s(self) -> Floats:
        return np.asarray(sum(self.parts_s.values()))

    @property
    def parts_s(self) -> Mapping[str, Floats]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def scaled(self, factor: Numbers) -> StepTime:
        return StepTime(*(part * factor for part in self.parts_s.values()))

    def plus(self, other: StepTime) -> StepTime:
        return StepTime(*(getattr(self, name) + part for name, part in other.parts_s.items()))


@dataclass(frozen=True, slots=True, eq=False)
class PrefillTime:
    """Own service time of prompts on an otherwise idle worker: `chunks` steps whose parts are summed in `parts`."""

    parts: StepTime
    chunks: Floats

    @property
    def total_s(self) -> Floats:
        return self.parts.total_s


def step(
    worker: Worker,
    decode_batch: Numbers,
    context_tokens: Numbers,
    prefill_tokens: Numbers = 0.0,
    prompt_tokens: Numbers = 0.0,
    expert_tokens: Numbers | None = None,
    cached_tokens: Numbers = 0.0,
) -> StepTime:
    """One engine step (FIDELITY §2).

    Parameters
    ----------
    decode_batch, context_tokens : sequences decoding on one rank and the mean tokens each has in its cache
    prefill_tokens, prompt_tokens : prefill tokens of the step on one rank, and the length of the prompts they belong
        to: a step of p tokens does p / I of the attention of a whole prompt of I tokens
    expert_tokens : tokens of all ranks together; every rank like this one when not given
    cached_tokens : of each prompt found in a cache and not prefilled; fewer than `prompt_tokens`

    Id: step.host.  host_step_s + host_sequence_s * sequences  (FIDELITY §2)
    Id: step.floor.  what lifts the sum to bytes / peak bandwidth and FLOPs / peak rate; 0 in sound fits  (HOUSE §5,
        never past physics)
    """
    if expert_tokens is None:
        expert_tokens = worker.dp * (np.asarray(decode_batch, dtype=float) + prefill_tokens)
    batch, context, chunk, prompt, routed, cached = np.broadcast_arrays(
        *(
            np.asarray(x, dtype=float)
            for x in (decode_batch, context_tokens, prefill_tokens, prompt_tokens, expert_tokens, cached_tokens)
        )
    )
    new = prompt - cached
    share = np.where(chunk > 0, chunk / np.where(new > 0, new, 1.0), 0.0)
    floor_routed = routed
    verified, routed = with_drafts(batch, routed, worker.verified_tokens, worker.dp)
    tokens = verified + chunk
    parts = {
        "weights_and_gemm_s": _linear_s(worker, tokens, verified + share),
        "attention_decode_s": _decode_attention_s(worker, batch, context),
        "attention_prefill_s": _prefill_attention_s(worker, chunk, prompt, cached, share),
        "experts_s": _experts_s(worker, routed),
        "collectives_s": _collectives_s(worker, tokens, routed),
        "launch_s": _launch_s(worker, batch, chunk),
        "host_s": worker.constants.host_step_s + worker.constants.host_sequence_s * batch,
        "draft_s": _draft_s(worker, batch, context),
    }
    if worker.pp > 1:
        parts = {name: worker.stage_factor * part for name, part in parts.items()}
    floor = step_floor_s(worker, batch, context, chunk, prompt, floor_routed, cached)
    return StepTime(**parts, floor_s=np.maximum(floor - sum(parts.values()), 0.0))


def with_drafts(batch: Floats, expert_tokens: Floats, verified_tokens: Numbers, dp: Numbers) -> tuple[Floats, Floats]:
    """Tokens that decoding sequences have in a step, `verified_tokens` each, and those of all ranks for the experts.

    `expert_tokens` is what experts see where nothing is drafted.
    """
    drafted = (verified_tokens - 1) * batch
    return batch + drafted, expert_tokens + np.minimum(dp * drafted, (verified_tokens - 1) * expert_tokens)


def _draft_s(worker: Worker, batch: Floats, context: Floats) -> Floats:
    """Drafting one token after the other: each pass runs the draft layers and the head on one token a sequence."""
    speculation = worker.speculation
    if speculation is None:
        return np.zeros(batch.shape)
    plain = replace(worker, speculation=None)
    share = speculation.draft_layers / worker.layers
    layers = (
        _linear_s(plain, batch, np.zeros(batch.shape))
        - _gemms_s(plain.head, np.zeros(batch.shape))
        + _decode_attention_s(plain, batch, context)
        + _experts_s(plain, worker.dp * batch)
        + _collectives_s(plain, batch, worker.dp * batch)
        + _launch_s(plain, batch, np.zeros(batch.shape))
    )
    passes = speculation.draft_tokens * (batch > 0)
    return np.asarray(passes * (share * layers + _gemms_s(plain.head, batch)))


def _linear_s(worker: Worker, tokens: Floats, sampled: Floats) -> Floats:
    """Matrix products, the head for sampled tokens only, and element-wise passes [s].

    Id: step.gemm.  sum over the matrices of pn(2 m n k / P, bytes / W), and element-wise passes  (FIDELITY §2, G1)
    """
    elementwise = operators.elementwise_s(tokens, worker.elements_per_token, worker.accelerator.memory_bytes_per_s)
    return _gemms_s(worker.gemms, tokens) + _gemms_s(worker.head, sampled) + elementwise


def _gemms_s(gemms: Gemms, tokens: Floats) -> Floats:
    each = operators.gemm_s(
        tokens[..., None],
        gemms.columns,
        gemms.depth,
        gemms.weight_bytes,
        gemms.activation_bytes,
        gemms.flops_per_s,
        gemms.bytes_per_s,
        gemms.exponent,
    )
    total: Floats = each @ gemms.count
    return total


def _decode_attention_s(worker: Worker, batch: Floats, context: Floats) -> Floats:
    total = np.zeros(batch.shape)
    for softmax in worker.softmax:
        total = total + softmax.count * decode_softmax_s(softmax, batch, context)
    for latent in worker.latent:
        bandwidth = worker.accelerator.memory_bytes_per_s
        if worker.speculation:  # every verified token meets the cache that is read once
            latent = replace(latent, heads=latent.heads * worker.verified_tokens)
        total = total + latent.count * decode_latent_s(latent, batch, context, bandwidth)
    for kind in worker.recurrent:
        time = operators.decode_recurrent_s(batch, kind.state_elements, kind.decode_bytes_per_s)
        total = total + kind.count * time
    return total


def _prefill_attention_s(worker: Worker, chunk: Floats, prompt: Floats, cached: Floats, share: Floats) -> Floats:
    total = np.zeros(chunk.shape)
    if not np.any(chunk > 0):
        return total
    units = worker.accelerator.compute_units
    for kind in worker.softmax:
        total = total + kind.count * share * prefill_softmax_s(kind, prompt, units, cached)
    for latent in worker.latent:
        total = total + latent.count * share * prefill_latent_s(latent, prompt, units, cached)
        total = total + latent.count * (chunk > 0) * expanded_s(latent, cached)
    for recurrent in worker.recurrent:
        scan = operators.prefill_recurrent_s(chunk, recurrent.state_elements, recurrent.prefill_flops_per_s)
        total = total + recurrent.count * scan
    return total


def _experts_s(worker: Worker, routed: Floats) -> Floats:
    total = np.zeros(routed.shape)
    for kind in worker.experts:
        total = total + kind.count * (expert_gemms_s(worker, kind, routed) + _routing_s(worker, kind, routed))
    return total


def expert_gemms_s(worker: Worker, kind: ExpertsKind, routed_tokens: Floats) -> Floats:
    """Matrix products of one layer of experts over `routed_tokens` of all ranks."""
    return operators.experts_s(
        *expert_pairs(worker, kind, routed_tokens),
        kind.hidden,
        kind.intermediate,
        kind.matrices,
        kind.weight_bytes,
        kind.flops_per_s,
        kind.bytes_per_s,
        kind.exponent,
    )


def expert_pairs(worker: Worker, kind: ExpertsKind, routed_tokens: Floats) -> tuple[Floats, Floats]:
    """Token-expert pairs of the fullest rank, and different experts touched on one."""
    pairs = worker.expert_imbalance_factor * routed_tokens * kind.top_k / worker.ep
    return pairs, operators.distinct_experts(kind.experts, kind.top_k, routed_tokens) / worker.ep


def _routing_s(worker: Worker, kind: ExpertsKind, routed: Floats) -> Floats:
    gathered = routed if worker.dp == 1 else routed / min(worker.ep, worker.dp)
    bandwidth = worker.accelerator.memory_bytes_per_s
    return operators.routing_s(gathered, kind.top_k, kind.hidden, kind.gather_factor, bandwidth)


def _collectives_s(worker: Worker, tokens: Floats, routed: Floats) -> Floats:
    total = np.zeros(tokens.shape)
    if worker.all_reduce is not None:
        link, hidden = worker.all_reduce, worker.shape.hidden
        one = collectives.all_reduce_s(
            2.0 * hidden * tokens, worker.tp, link.latency_s, link.bytes_per_s, link.exponent
        )
        total = total + worker.all_reduces * one
    if worker.dp > 1:
        for kind in worker.experts:
            total = total + kind.count * _exchange_s(worker, kind, tokens, routed)
    total = total + collectives.hops_s(tokens, worker.shape.hidden, worker.pp, worker.hop_bytes_per_s)
    return worker.constants.collective_factor * total


def _exchange_s(worker: Worker, kind: ExpertsKind, tokens: Floats, routed: Floats) -> Floats:
    """Experts' activations between attention ranks: the cheaper of all-to-all and gathering every token."""
    count, hidden = worker.tp * worker.dp, kind.hidden
    rank_tokens = np.maximum(tokens, routed / worker.dp)
    fullest = worker.expert_imbalance_factor * rank_tokens
    direct = collectives.all_to_all_s(fullest, kind.top_k, hidden, count, worker.all_to_all_bytes_per_s)
    if worker.all_gather is None or worker.reduce_scatter is None:
        return direct
    size = 2.0 * hidden * routed
    gathered = _gather_s(worker.all_gather, size, count) + _gather_s(worker.reduce_scatter, size, count)
    return np.minimum(direct, gathered)


def _gather_s(link: Link, size_bytes: Floats, ranks: int) -> Floats:
    return collectives.gather_s(size_bytes, ranks, link.latency_s, link.bytes_per_s, link.exponent)


def _launch_s(worker: Worker, batch: Floats, chunk: Floats) -> Floats:
    """Start-up of kernels and the gaps between them [s].

    Id: step.launch.  kernel_gap_s * kernels + start_up_factor * start-up of every operator  (FIDELITY §2)
    """
    always = worker.gemms.start_up_s + worker.head.start_up_s
    always += sum(kind.count * kind.start_up_s for kind in worker.experts)
    mixers: tuple[SoftmaxKind | LatentKind | RecurrentKind, ...] = (*worker.softmax, *worker.latent, *worker.recurrent)
    decode = sum(kind.count * kind.decode_start_up_s for kind in mixers)
    prefill = sum(kind.count * kind.prefill_start_up_s for kind in mixers)
    start_up = always + decode * (batch > 0) + prefill * (chunk > 0)
    constants = worker.constants
    return constants.kernel_gap_s * worker.kernels + constants.start_up_factor * start_up


# ----------------------------------------------------------------------------------------------------------- prefill


def prefill_step_s(
    worker: Worker,
    prefill_tokens: Numbers,
    prompt_tokens: Numbers,
    expert_tokens: Numbers | None = None,
    cached_tokens: Numbers = 0.0,
) -> StepTime:
    """One step that only prefills, on one rank: gp step(0, p) + hm (nk + 6 L) (FIDELITY §3, prefill first)."""
    if expert_tokens is None:
        expert_tokens = prefill_tokens
    alone = step(worker, 0.0, 0.0, prefill_tokens, prompt_tokens, expert_tokens, cached_tokens)
    floor = step_floor_s(worker, 0.0, 0.0, prefill_tokens, prompt_tokens, expert_tokens, cached_tokens)
    return _as_busy_step(worker, alone.scaled(worker.constants.prefill_factor), prefill_tokens, floor)


def busy_launches_s(worker: Worker) -> float:
    """Launches of a step with prefill, which no graph replays: hm (nk + 6 L) (FIDELITY §3)."""
    return worker.constants.prefill_kernel_s * (worker.kernels + 6.0 * worker.layers)


def _as_busy_step(worker: Worker, time: StepTime, prefill_tokens: Numbers, floor_s: Floats) -> StepTime:
    """Add the launches of a step that no graph replays, and keep a factor below 1 from passing the floor."""
    launches = busy_launches_s(worker) * (np.asarray(prefill_tokens) > 0)
    busy = StepTime(**{**time.parts_s, "launch_s": time.launch_s + launches})
    return StepTime(**{**busy.parts_s, "floor_s": busy.floor_s + np.maximum(floor_s - busy.total_s, 0.0)})


def prefill_s(
    worker: Worker,
    prompt_tokens: Numbers,
    token_budget: Numbers,
    busy_ranks: Numbers = 1.0,
    cached_tokens: Numbers = 0.0,
) -> PrefillTime:
    """Service time S(I) of one prompt on an otherwise idle worker (FIDELITY §4, S1).

    ceil(I / C) equal chunks of one step each; the attention of the whole prompt is counted once.
    `busy_ranks` > 1: that many attention ranks prefill a prompt each at the same time and share the experts.
    `cached_tokens` < I of each prompt are in the cache: S(I | h), the rest attends to them (MODELLING §9).
    """
    prompt = np.asarray(prompt_tokens, dtype=float)
    new = prompt - cached_tokens
    chunks = np.maximum(np.ceil(new / np.asarray(token_budget)), 1.0)
    chunk = new / chunks
    one = prefill_step_s(worker, chunk, prompt, chunk * busy_ranks, cached_tokens)
    return PrefillTime(one.scaled(chunks), chunks)


# ------------------------------------------------------------------------------------------------- decode and mixed


def decode_s(
    worker: Worker, batch_per_worker: Numbers, context_tokens: Numbers, context_scv: Numbers = 0.0
) -> StepTime:
    """One decode step of a worker with `batch_per_worker` sequences over all its ranks.

    With attention data parallelism the step lasts as long as its fullest rank: sequences are spread evenly (a rank
    holds at least one when the worker has one), and the fullest rank's cache exceeds the mean by the expected maximum
    of dp normal draws, with `context_scv` the squared coefficient of variation of a sequence's context
    (MODELLING §3).
    """
    batch = np.asarray(batch_per_worker, dtype=float)
    return step(worker, *fullest_rank(worker, batch, context_tokens, context_scv), expert_tokens=batch)


def fullest_rank(worker: Worker, batch: Floats, context: Numbers, context_scv: Numbers) -> tuple[Floats, Floats]:
    """Sequences and mean context of the rank that every other rank waits for."""
    rank_batch = np.maximum(batch / worker.dp, np.minimum(batch, 1.0))
    spread = expected_maximum(worker.dp) * np.sqrt(context_scv / np.maximum(rank_batch, 1.0))
    return rank_batch, context * (1.0 + spread)


def expected_maximum(draws: int) -> float:
    """Mean of the largest of `draws` standard normal draws (Blom 1958), below its bound sqrt(2 ln draws)."""
    return NormalDist().inv_cdf((draws - 0.375) / (draws + 0.25)) if draws > 1 else 0.0


def mixed_s(
    worker: Worker,
    batch_per_worker: Numbers,
    context_tokens: Numbers,
    prefill_tokens: Numbers,
    prompt_tokens: Numbers,
    expert_tokens: Numbers | None = None,
    context_scv: Numbers = 0.0,
    cached_tokens: Numbers = 0.0,
) -> StepTime:
    """One step that decodes `batch_per_worker` sequences and prefills `prefill_tokens` tokens on one rank.

    td + gp (step(b, p) - td) + hm (nk + 6 L), td the same step without the prefill (FIDELITY §3, mixed engines).
    `expert_tokens` of all ranks defaults to the whole batch and the prefill of one rank; the decoding rank is the
    fullest one, as in `decode_s`.
    """
    batch = np.asarray(batch_per_worker, dtype=float)
    if expert_tokens is None:
        expert_tokens = batch + prefill_tokens
    rank = fullest_rank(worker, batch, context_tokens, context_scv)
    plain = step(worker, *rank, expert_tokens=batch)
    both = step(worker, *rank, prefill_tokens, prompt_tokens, expert_tokens, cached_tokens)
    floor = step_floor_s(worker, *rank, prefill_tokens, prompt_tokens, expert_tokens, cached_tokens)
    factor = worker.constants.prefill_factor
    return _as_busy_step(worker, plain.scaled(1.0 - factor).plus(both.scaled(factor)), prefill_tokens, floor)
