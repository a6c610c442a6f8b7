"""Number formats of weights and KV caches: bytes per element, and which part of a model is stored in which."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from planner.errors import FieldError
from planner.records import Experts, LatentAttention, ModelShape, RecurrentMixer

# Scales included: 128 x 128 blocks carry one 4-byte scale (1 + 4/16384), nvfp4 one byte per 16 elements,
# mxfp4 and int4 one byte and one 16-bit scale per 32 and 64 elements.
BYTES_PER_WEIGHT: Mapping[str, float] = MappingProxyType(
    {
        "bf16": 2.0,
        "fp8": 1.0,
        "fp8_block": 1.0002,
        "nvfp4": 0.5625,
        "mxfp4": 0.53125,
        "int8": 1.0,
        "int4": 0.53125,
    }
)

KV_BYTES_PER_ELEMENT: Mapping[str, float] = MappingProxyType({"bf16": 2.0, "fp8": 1.0})

STATE_BYTES_PER_ELEMENT = 4.0  # recurrent states are kept in fp32 by every engine


@dataclass(frozen=True, slots=True)
class ComponentDtypes:
    """Weight format of each part of a model. Embeddings, routers and norms are bf16 throughout."""

    attention: str
    dense_feed_forward: str
    shared_expert: str
    experts: str
    head: str


def has_experts(shape: ModelShape) -> bool:
    """Whether any layer is a mixture of experts."""
    return any(isinstance(kind.feed_forward, Experts) for kind in shape.layers)


def has_latent_attention(shape: ModelShape) -> bool:
    """Whether any layer keeps one latent of all heads instead of keys and values (MLA): ranks can only copy it."""
    return any(isinstance(kind.mixer, LatentAttention) and kind.mixer.kv_heads == 1 for kind in shape.layers)


def kv_bytes_per_element(kv_dtype: str) -> float:
    """Bytes of one cached element. FieldError ``kv_cache`` for a format that no cache has."""
    try:
        return KV_BYTES_PER_ELEMENT[kv_dtype]
    except KeyError:
        known = ", ".join(KV_BYTES_PER_ELEMENT)
        raise FieldError("kv_cache", f'unknown KV cache format "{kv_dtype}"; known: {known}') from None


def component_dtypes(shape: ModelShape, weights: str) -> ComponentDtypes:
    """Which part of the model is stored in which format when it is served as `weights` (FIDELITY §2).

    The head stays bf16. Published FP8 checkpoints of mixture-of-experts and recurrent models, and those stored so,
    use 128 x 128 blocks. Four-bit formats of mixtures leave attention in bf16, unless the checkpoint is in that format
    and says what the rest is stored in. FieldError ``weights`` for an unknown
    format and for MXFP4 on a model without experts, which nothing publishes or runs.
    """
    if weights not in BYTES_PER_WEIGHT:
        raise FieldError("weights", f'unknown weight format "{weights}"; known: {", ".join(BYTES_PER_WEIGHT)}')
    experts = has_experts(shape)
    if weights == "mxfp4" and not experts:
        raise FieldError("weights", f"mxfp4 is a format for experts, and {shape.id} has none; use fp8, nvfp4 or int4")
    if weights == "fp8" and _stored_in_blocks(shape):
        weights = "fp8_block"
    attention = dense = shared = weights
    if experts and shape.checkpoint_other_format and weights == shape.checkpoint_format:
        attention = dense = shared = shape.checkpoint_other_format
    elif experts and weights == "nvfp4":
        attention = "bf16"
    elif experts and weights in ("mxfp4", "int4"):
        attention = dense = shared = "bf16"
    return ComponentDtypes(attention, dense, shared, weights, head="bf16")


def _stored_in_blocks(shape: ModelShape) -> bool:
    recurrent = any(isinstance(kind.mixer, RecurrentMixer) for kind in shape.layers)
    return shape.checkpoint_format == "fp8_block" or recurrent or has_experts(shape)
