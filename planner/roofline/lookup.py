"""Fitted constants of one engine on one accelerator, turned into the rates of a worker's operators."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from planner.errors import FieldError
from planner.records import (
    Accelerator,
    EngineConstants,
    Experts,
    Floats,
    LatentAttention,
    OperatorFit,
    RecurrentMixer,
    SoftmaxAttention,
)
from planner.roofline.efficiency import (
    achieved,
    activation_bytes,
    choose,
    clip_experts,
    clip_gemm,
    clip_latent,
    compute_dtype,
    peak_flops_per_s,
)
from planner.roofline.kinds import ExpertsKind, Gemms, LatentKind, Link, RecurrentKind, SoftmaxKind
from planner.roofline.matrices import Matrix, merged, rank_heads
from planner.shapes.counts import absorbed_width, latent_elements
from planner.shapes.formats import BYTES_PER_WEIGHT, kv_bytes_per_element

# Scans and state updates of recurrent mixers where nothing was measured (middle of the measured accelerators).
_RECURRENT_GUESS = OperatorFit(
    "recurrent", "bf16", "any", start_up_s=4e-6, compute_fraction=0.02, memory_fraction=0.85, trust="low"
)
_TRUST = {"high": 2, "medium": 1}


@dataclass(slots=True)
class Lookup:
    """Chooses fits for one worker and remembers how far the least trusted one can be trusted."""

    accelerator: Accelerator
    engine_id: str
    constants: EngineConstants
    kv_dtype: str
    used: list[OperatorFit] = field(default_factory=list)

    @property
    def trust(self) -> str:
        """Trust of the worst fit used: high, medium or low."""
        level = min(_TRUST.get(fit.trust, 0) for fit in self.used)
        return ("low", "medium", "high")[level]

    def fit(self, operator: str, dtype: str, *, head_dim: int = 0, ranks: int = 0, kv_dtype: str = "") -> OperatorFit:
        found = choose(
            self.accelerator.fits, operator, dtype, self.engine_id, kv_dtype=kv_dtype, head_dim=head_dim, ranks=ranks
        )
        self.used.append(found)
        return found

    def _has(self, operator: str) -> bool:
        return any(fit.operator == operator for fit in self.accelerator.fits)

    def _compute(self, fit: OperatorFit, kernel: str, multiplier: float) -> float:
        return achieved(fit.compute_fraction, multiplier, peak_flops_per_s(self.accelerator, kernel))

    def _bandwidth(self, fit: OperatorFit, multiplier: float) -> float:
        return achieved(fit.memory_fraction, multiplier, self.accelerator.memory_bytes_per_s)

    def gemms(self, matrices: list[Matrix]) -> Gemms:
        unique = merged(matrices)
        dtypes = [matrix.dtype for matrix in unique]
        kernels = {dtype: compute_dtype(self.accelerator, dtype) for dtype in dtypes}
        fits = {dtype: clip_gemm(self.fit("gemm", kernel)) for dtype, kernel in kernels.items()}
        compute, memory = self.constants.compute_factor, self.constants.gemm_memory_factor
        return Gemms(
            columns=_array(matrix.columns for matrix in unique),
            depth=_array(matrix.depth for matrix in unique),
            count=_array(matrix.count for matrix in unique),
            weight_bytes=_array(BYTES_PER_WEIGHT[dtype] for dtype in dtypes),
            activation_bytes=_array(activation_bytes(kernels[dtype]) for dtype in dtypes),
            flops_per_s=_array(self._compute(fits[dtype], kernels[dtype], compute) for dtype in dtypes),
            bytes_per_s=_array(self._bandwidth(fits[dtype], memory) for dtype in dtypes),
            peak_flops_per_s=_array(peak_flops_per_s(self.accelerator, kernels[dtype]) for dtype in dtypes),
            exponent=_array(fits[dtype].exponent for dtype in dtypes),
            start_up_s=sum(matrix.count * fits[matrix.dtype].start_up_s for matrix in unique),
        )

    def softmax(self, count: int, mixer: SoftmaxAttention, tp: int) -> SoftmaxKind:
        # Kernels with one query head per KV head are fitted apart, on fewer accelerators.
        whole = mixer.kv_heads == mixer.query_heads and self._has("decode_attention_mha")
        operator = "decode_attention_mha" if whole else "decode_attention"
        decode = self.fit(operator, "bf16", head_dim=mixer.key_dim, kv_dtype=self.kv_dtype)
        prefill = self.fit("prefill_attention", "bf16", head_dim=mixer.key_dim, kv_dtype=self.kv_dtype)
        kv_heads = rank_heads(mixer.kv_heads, tp)
        factor = self.constants.decode_attention_factor
        return SoftmaxKind(
            count=count,
            heads=rank_heads(mixer.query_heads, tp),
            kv_heads=kv_heads,
            head_dim=(mixer.key_dim + mixer.value_dim) / 2,
            window_tokens=mixer.window_tokens,
            kv_bytes_per_token=kv_heads * (mixer.key_dim + mixer.value_dim) * kv_bytes_per_element(self.kv_dtype),
            sequence_s=decode.sequence_s * factor,
            decode_bytes_per_s=self._bandwidth(decode, 1.0 / factor),
            decode_start_up_s=decode.start_up_s,
            prefill_flops_per_s=self._compute(prefill, "bf16", self.constants.compute_factor),
            softmax_tokens=prefill.softmax_tokens,
            prefill_start_up_s=prefill.start_up_s,
        )

    def latent(self, count: int, mixer: LatentAttention, tp: int) -> LatentKind:
        # Kernels of 8-bit latents were measured on few engines: the bf16 rows serve both (FIDELITY §2).
        decode = clip_latent(self.fit("decode_mla", "bf16", kv_dtype="bf16"))
        prefill = clip_latent(self.fit("prefill_mla", "bf16", kv_dtype="bf16"))
        factor = self.constants.decode_attention_factor
        return LatentKind(
            count=count,
            heads=rank_heads(mixer.query_heads, tp),
            expanded_width=mixer.nope_dim + mixer.rope_dim + mixer.value_dim,
            absorbed_width=absorbed_width(mixer),
            kv_bytes_per_token=float(latent_elements(mixer, tp)) * kv_bytes_per_element(self.kv_dtype),
            top_k=mixer.index_top_k,
            index_dim=mixer.index_dim,
            sequence_s=decode.sequence_s * factor,
            decode_flops_per_s=self._compute(decode, "bf16", 1.0 / factor),
            decode_bytes_per_s=self._bandwidth(decode, 1.0 / factor),
            decode_start_up_s=decode.start_up_s,
            prefill_flops_per_s=self._compute(prefill, "bf16", self.constants.compute_factor),
            softmax_tokens=prefill.softmax_tokens,
            prefill_start_up_s=prefill.start_up_s,
            mixer=mixer,
        )

    def recurrent(self, count: int, mixer: RecurrentMixer, tp: int) -> RecurrentKind:
        elements = rank_heads(mixer.value_heads, tp) * mixer.key_dim * mixer.value_dim
        decode, prefill = self._recurrent_fit("recurrent_decode"), self._recurrent_fit("recurrent_prefill")
        return RecurrentKind(
            count=count,
            state_elements=0 if mixer.kind == "short-conv" else elements,
            decode_bytes_per_s=self._bandwidth(decode, 1.0 / self.constants.decode_attention_factor),
            decode_start_up_s=decode.start_up_s,
            prefill_flops_per_s=self._compute(prefill, "bf16", self.constants.compute_factor),
            prefill_start_up_s=prefill.start_up_s,
        )

    def _recurrent_fit(self, operator: str) -> OperatorFit:
        if self._has(operator):
            return self.fit(operator, "bf16")
        self.used.append(_RECURRENT_GUESS)
        return _RECURRENT_GUESS

    def experts(self, count: int, block: Experts, dtype: str, moe_tp: float, hidden: int) -> ExpertsKind:
        kernel = compute_dtype(self.accelerator, dtype)
        fit = clip_experts(self.fit("experts", kernel))
        factor = self.constants.experts_factor
        return ExpertsKind(
            count=count,
            experts=block.experts,
            top_k=block.top_k,
            intermediate=block.intermediate / moe_tp,
            matrices=3 if block.gated else 2,
            weight_bytes=BYTES_PER_WEIGHT[dtype],
            flops_per_s=self._compute(fit, kernel, self.constants.compute_factor / factor),
            bytes_per_s=self._bandwidth(fit, 1.0 / factor),
            peak_flops_per_s=peak_flops_per_s(self.accelerator, kernel),
            exponent=fit.exponent,
            gather_factor=fit.gather_factor,
            start_up_s=fit.start_up_s,
            hidden=block.hidden or hidden,
        )

    def link(self, operator: str, ranks: int) -> Link:
        rate = self.accelerator.scaleup_bytes_per_s or self.accelerator.host_bytes_per_s
        if not rate:
            raise FieldError("tp", f"{self.accelerator.id} has no link to share a model over {ranks} of them")
        fit = self.fit(operator, "bf16", ranks=ranks)
        return Link(fit.latency_s, fit.link_fraction * rate, fit.exponent)


def _array(values: Iterable[float]) -> Floats:
    return np.array(list(values), dtype=float)
