"""Step times of many workers at once: rows that differ in worker, batch and engine constants, in a few array passes.

The equations are those of `planner.roofline.operators` and `collectives`; this module only lays the parts of many
workers side by side, so that thousands of measured runs cost as much as one. Tests hold it to `roofline.steps`,
worker by worker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.records import EngineConstants, Floats
from planner.roofline import attention as _attention
from planner.roofline import collectives as _collectives
from planner.roofline import operators as _operators
from planner.roofline.kinds import LatentKind
from planner.roofline.steps import with_drafts
from planner.roofline.worker import Worker
from planner.serving.stacked_parts import (
    LINK,
    Part,
    exchange_parts,
    expert_parts,
    gemm_parts,
    latent_part,
    mixers,
    recurrent_parts,
    reduce_parts,
    softmax_parts,
)

# Annotated for the numbers of one worker; all of them broadcast.
operators: Any = _operators
collectives: Any = _collectives
decode_latent_s: Any = _attention.decode_latent_s
prefill_latent_s: Any = _attention.prefill_latent_s

Integers = NDArray[np.intp]
Constants = Floats  # [rows, constants] in the order of CONSTANTS

CONSTANTS = tuple(field.name for field in fields(EngineConstants))
COLUMN = {name: position for position, name in enumerate(CONSTANTS)}
# The constants that a step time is not a plain sum over; the others are applied to its parts afterwards.
PHYSICAL = ("gemm_memory_factor", "compute_factor", "experts_factor", "decode_attention_factor")
UNIT = EngineConstants(**dict.fromkeys(CONSTANTS, 1.0))  # what the workers of a stack are built with


def as_row(constants: EngineConstants) -> Floats:
    """Constants in the order of `CONSTANTS`, shape [constants]."""
    return np.array([getattr(constants, name) for name in CONSTANTS])


@dataclass(frozen=True, slots=True, eq=False)
class Parts:
    """One step of every row [s], before the constants that only scale sums of it. Every field has shape [rows]."""

    work_s: Floats  # GEMMs, attention, experts and element-wise work
    collectives_s: Floats
    start_up_s: Floats
    kernels: Floats  # small ones, with gaps between them
    sequences: Floats  # decoding on one rank


class _Pairs:
    """Parts of one kind of all rows side by side: part i is of row `row[i]` and has the values `name[i]`."""

    def __init__(self, by_worker: Sequence[list[Part]], of_row: Integers) -> None:
        self.rows = len(of_row)
        first = np.cumsum([0, *(len(found) for found in by_worker)])
        flat = [part for found in by_worker for part in found]
        counts = np.diff(first)[of_row]
        self.row = np.repeat(np.arange(self.rows), counts)
        within = np.arange(len(self.row)) - np.repeat(np.cumsum(counts) - counts, counts)
        position = np.repeat(first[:-1][of_row], counts) + within
        names = (flat or [{}])[0]
        self._groups: dict[tuple[str, ...], list[tuple[tuple[int, ...], Integers]]] = {}
        self._of: dict[str, Floats] = {
            name: np.array([part[name] for part in flat], dtype=float)[position] for name in names
        }

    def __getitem__(self, name: str) -> Floats:
        return self._of[name]

    def __bool__(self) -> bool:
        return bool(len(self.row))

    def total(self, each: Floats) -> Floats:
        return np.asarray(np.bincount(self.row, weights=each * self["count"], minlength=self.rows), dtype=float)

    def groups(self, *names: str) -> Iterator[tuple[tuple[int, ...], Integers]]:
        """Positions of the parts that share the (whole) values of `names`, which an equation takes as numbers."""
        if names not in self._groups:
            keys, inverse = np.unique(np.stack([self[name] for name in names]), axis=1, return_inverse=True)
            self._groups[names] = [
                (tuple(int(value) for value in key), np.flatnonzero(inverse.ravel() == number))
                for number, key in enumerate(keys.T)
            ]
        yield from self._groups[names]


class Stack:
    """The workers of many runs as arrays.

    Parameters
    ----------
    workers : every distinct worker once, built with `UNIT` constants
    of_row : for each row, the position of its worker
    """

    def __init__(self, workers: Sequence[Worker], of_row: Integers) -> None:
        self.rows = len(of_row)

        def each(value: Callable[[Worker], float]) -> Floats:
            return np.array([value(worker) for worker in workers], dtype=float)[of_row]

        def pairs(parts: Callable[[Worker], list[Part]]) -> _Pairs:
            return _Pairs([parts(worker) for worker in workers], of_row)

        self.bytes_per_s = each(lambda w: w.accelerator.memory_bytes_per_s)
        self.flops_per_s = each(lambda w: w.accelerator.bf16_dense_flops_per_s)
        self.units = each(lambda w: w.accelerator.compute_units)
        self.elements_per_token = each(lambda w: w.elements_per_token)
        self.kernels = each(lambda w: w.kernels)
        self.layers = each(lambda w: w.layers)
        self.dp = each(lambda w: w.dp)
        self.verified = each(lambda w: w.verified_tokens)  # tokens of a sequence in a decode step
        self._draft_share = each(lambda w: w.speculation.draft_layers / w.layers if w.speculation else 0.0)
        self._always_s = each(
            lambda w: w.gemms.start_up_s + w.head.start_up_s + sum(k.count * k.start_up_s for k in w.experts)
        )
        self._decode_s = each(lambda w: sum(k.count * k.decode_start_up_s for k in mixers(w)))
        self._prefill_s = each(lambda w: sum(k.count * k.prefill_start_up_s for k in mixers(w)))
        kinds = {kind.mixer: kind for worker in workers for kind in worker.latent}
        latents = list(kinds)
        self._latents = list(kinds.values())
        self._gemms = pairs(lambda w: gemm_parts(w, w.gemms))
        self._head = pairs(lambda w: gemm_parts(w, w.head))
        self._softmax = pairs(softmax_parts)
        self._latent = pairs(lambda w: [latent_part(w, kind, latents.index(kind.mixer)) for kind in w.latent])
        self._recurrent = pairs(recurrent_parts)
        self._experts = pairs(expert_parts)
        self._reduces = pairs(reduce_parts)
        self._exchanges = pairs(exchange_parts)

    def parts(
        self, constants: Constants, batch: Floats, context: Floats, chunk: Floats, prompt: Floats, routed: Floats
    ) -> Parts:
        """One step of every row; arguments [rows] as those of `roofline.steps.step`, `constants` [rows, constants]."""
        by = Named(constants)
        share = np.where(chunk > 0, chunk / np.where(prompt > 0, prompt, 1.0), 0.0)
        verified, routed = with_drafts(batch, routed, self.verified, self.dp)
        work = self._layers_s(by, verified + chunk, routed) + self._gemms_s(by, self._head, verified + share)
        if np.any(batch > 0):
            work = work + self._decode_attention_s(by, batch, context, self.verified)
        if np.any(chunk > 0):
            work = work + self._prefill_attention_s(by, chunk, prompt, share)
        start_up = self._always_s + self._decode_s * (batch > 0) + self._prefill_s * (chunk > 0)
        step = Parts(work, self._collectives_s(verified + chunk, routed), start_up, self.kernels, batch)
        return self._drafting(by, step, batch, context) if np.any(self.verified > 1) else step

    def _drafting(self, by: Named, step: Parts, batch: Floats, context: Floats) -> Parts:
        """The step with the passes that draft its tokens, each by the draft layers and the head (`steps.step`)."""
        passes = (self.verified - 1) * (batch > 0)
        layers, routed = passes * self._draft_share, self.dp * batch
        work = self._layers_s(by, batch, routed) + self._decode_attention_s(by, batch, context, np.ones(self.rows))
        return replace(
            step,
            work_s=step.work_s + layers * work + passes * self._gemms_s(by, self._head, batch),
            collectives_s=step.collectives_s + layers * self._collectives_s(batch, routed),
            start_up_s=step.start_up_s + layers * (self._always_s + self._decode_s),
            kernels=step.kernels + layers * self.kernels,
        )

    def total_s(self, parts: Parts, constants: Constants) -> Floats:
        """Time of a step: its parts, the gaps between kernels and the host [s]."""
        by = Named(constants)
        return (
            parts.work_s
            + by["collective_factor"] * parts.collectives_s
            + by["kernel_gap_s"] * parts.kernels
            + by["start_up_factor"] * parts.start_up_s
            + by["host_step_s"]
            + by["host_sequence_s"] * parts.sequences
        )

    def busy_launches_s(self, constants: Constants) -> Floats:
        """Launches of a step with prefill, which no graph replays: hm (nk + 6 L) (FIDELITY §3)."""
        return Named(constants)["prefill_kernel_s"] * (self.kernels + 6.0 * self.layers)

    # --------------------------------------------------------------------------------------------------- work of a step

    def _layers_s(self, by: Named, tokens: Floats, routed: Floats) -> Floats:
        """Work of all layers but attention."""
        elementwise = operators.elementwise_s(tokens, self.elements_per_token, self.bytes_per_s)
        work: Floats = elementwise + self._gemms_s(by, self._gemms, tokens) + self._experts_s(by, routed)
        return work

    def _gemms_s(self, by: Named, pairs: _Pairs, tokens: Floats) -> Floats:
        row = pairs.row
        compute = _at_most_1(pairs["compute_fraction"] * by["compute_factor"][row]) * pairs["peak"]
        memory = _at_most_1(pairs["memory_fraction"] * by["gemm_memory_factor"][row]) * self.bytes_per_s[row]
        shape = (pairs["columns"], pairs["depth"], pairs["weight_bytes"], pairs["activation_bytes"])
        return pairs.total(operators.gemm_s(tokens[row], *shape, compute, memory, pairs["exponent"]))

    def _decode_attention_s(self, by: Named, batch: Floats, context: Floats, verified: Floats) -> Floats:
        total, factor = np.zeros(self.rows), by["decode_attention_factor"]

        def bandwidth(pairs: _Pairs) -> Floats:
            return _at_most_1(pairs["memory_fraction"] / factor[pairs.row]) * self.bytes_per_s[pairs.row]

        if pairs := self._softmax:
            row = pairs.row
            seen = np.where(pairs["window"] > 0, np.minimum(context[row], pairs["window"]), context[row])
            fixed = (pairs["kv_bytes"], pairs["kv_heads"], pairs["sequence_s"] * factor[row])
            total += pairs.total(operators.decode_attention_s(batch[row], seen, *fixed, bandwidth(pairs)))
        if pairs := self._latent:
            total += pairs.total(self._decode_latent_s(factor, batch, context, verified, bandwidth(pairs)))
        if pairs := self._recurrent:
            time = operators.decode_recurrent_s(batch[pairs.row], pairs["state_elements"], bandwidth(pairs))
            total += pairs.total(time)
        return total

    def _decode_latent_s(
        self, factor: Floats, batch: Floats, context: Floats, verified: Floats, bandwidth: Floats
    ) -> Floats:
        pairs = self._latent
        compute = _at_most_1(pairs["decode_fraction"] / factor[pairs.row]) * self.flops_per_s[pairs.row]
        rates = {
            "heads": pairs["heads"] * verified[pairs.row],  # every verified token meets the cache that is read once
            "sequence_s": pairs["sequence_s"] * factor[pairs.row],
            "decode_flops_per_s": compute,
            "decode_bytes_per_s": bandwidth,
        }
        each = np.zeros(len(pairs.row))
        for (number,), at in pairs.groups("mixer"):
            row = pairs.row[at]
            kind = self._latent_kind(number, at, **rates)
            each[at] = decode_latent_s(kind, batch[row], context[row], self.bytes_per_s[row])
        return each

    def _latent_kind(self, number: int, at: Integers, **rates: Floats) -> LatentKind:
        """The layers of one mixer with arrays in place of the numbers that differ between workers."""
        pairs = self._latent
        names = ("heads", "kv_bytes_per_token", "softmax_tokens")
        values: dict[str, Any] = {name: pairs[name][at] for name in names}
        values |= {name: rate[at] for name, rate in rates.items()}
        return replace(self._latents[number], **values)

    def _prefill_attention_s(self, by: Named, chunk: Floats, prompt: Floats, share: Floats) -> Floats:
        total, factor = np.zeros(self.rows), by["compute_factor"]

        def compute(pairs: _Pairs) -> Floats:
            return _at_most_1(pairs["prefill_fraction"] * factor[pairs.row]) * self.flops_per_s[pairs.row]

        if pairs := self._softmax:
            each, rate = np.zeros(len(pairs.row)), compute(pairs)
            for (window,), at in pairs.groups("window"):
                row = pairs.row[at]
                shape = (pairs["heads"][at], pairs["head_dim"][at], pairs["softmax_tokens"][at], self.units[row])
                each[at] = share[row] * operators.prefill_attention_s(prompt[row], *shape, rate[at], window)
            total += pairs.total(each)
        if pairs := self._latent:
            total += pairs.total(self._prefill_latent_s(prompt, share, compute(pairs)))
        if pairs := self._recurrent:
            time = operators.prefill_recurrent_s(chunk[pairs.row], pairs["state_elements"], compute(pairs))
            total += pairs.total(time)
        return total

    def _prefill_latent_s(self, prompt: Floats, share: Floats, rate: Floats) -> Floats:
        pairs = self._latent
        each = np.zeros(len(pairs.row))
        for (number,), at in pairs.groups("mixer"):
            row = pairs.row[at]
            kind = self._latent_kind(number, at, prefill_flops_per_s=rate)
            each[at] = share[row] * prefill_latent_s(kind, prompt[row], self.units[row])
        return each

    def _experts_s(self, by: Named, routed: Floats) -> Floats:
        pairs, row = self._experts, self._experts.row
        if not pairs:
            return np.zeros(self.rows)
        factor = by["experts_factor"][row]
        compute = _at_most_1(pairs["compute_fraction"] * by["compute_factor"][row] / factor) * pairs["peak"]
        memory = _at_most_1(pairs["memory_fraction"] / factor) * self.bytes_per_s[row]
        seen, ep, top_k = routed[row], pairs["ep"], pairs["top_k"]
        touched = operators.distinct_experts(pairs["experts"], top_k, seen) / ep
        shape = (pairs["hidden"], pairs["intermediate"], pairs["matrices"], pairs["weight_bytes"])
        kernels = operators.experts_s(seen * top_k / ep, touched, *shape, compute, memory, pairs["exponent"])
        gathered = seen / pairs["gathering"]
        routing = operators.routing_s(gathered, top_k, pairs["hidden"], pairs["gather_factor"], self.bytes_per_s[row])
        return pairs.total(kernels + routing)

    def _collectives_s(self, tokens: Floats, routed: Floats) -> Floats:
        total = np.zeros(self.rows)
        if pairs := self._reduces:
            each = np.zeros(len(pairs.row))
            for (tp,), at in pairs.groups("tp"):
                link = (pairs["latency_s"][at], pairs["bytes_per_s"][at], pairs["exponent"][at])
                size = 2.0 * pairs["hidden"][at] * tokens[pairs.row[at]]
                each[at] = collectives.all_reduce_s(size, tp, *link)
            total += pairs.total(each)
        if pairs := self._exchanges:
            total += pairs.total(self._exchange_s(tokens, routed))
        return total

    def _exchange_s(self, tokens: Floats, routed: Floats) -> Floats:
        pairs = self._exchanges
        each = np.zeros(len(pairs.row))
        for (top_k, hidden, count), at in pairs.groups("top_k", "hidden", "ranks"):
            row = pairs.row[at]
            rank_tokens = np.maximum(tokens[row], routed[row] / self.dp[row])
            direct = collectives.all_to_all_s(rank_tokens, top_k, hidden, count, pairs["direct_bytes_per_s"][at])
            size = 2.0 * hidden * routed[row]
            gathered = sum(
                collectives.gather_s(size, count, *(pairs[f"{way}_{name}"][at] for name in LINK))
                for way in ("gather", "scatter")
            )
            each[at] = np.where(pairs["gathers"][at] > 0, np.minimum(direct, gathered), direct)
        return each


class Named:
    """Columns of a [rows, constants] array by name."""

    __slots__ = ("_constants",)

    def __init__(self, constants: Constants) -> None:
        self._constants = constants

    def __getitem__(self, name: str) -> Floats:
        column: Floats = self._constants[:, COLUMN[name]]
        return column


def _at_most_1(fraction: Floats) -> Floats:
    """No achieved rate passes the peak (HOUSE §7)."""
    return np.minimum(fraction, 1.0)
