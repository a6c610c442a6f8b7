"""Image and sound encoders beside a decoder: about how many parameters they hold, counted apart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

ENCODERS = (
    "vision_config",
    "vit_config",
    "vision_tower_config",
    "audio_config",
    "sound_config",
    "audio_encoder_config",
)
_WIDTHS = ("embed_dim", "vt_hidden_size", "hidden_size", "d_model", "width")
_DEPTHS = ("num_hidden_layers", "vt_num_hidden_layers", "depth", "encoder_layers", "layers", "conf_num_hidden_layers")
_INNER = ("intermediate_size", "vt_intermediate_size", "encoder_ffn_dim")


def encoder_parameters(config: Mapping[str, Any]) -> tuple[int, list[str]]:
    """Parameters of the encoders' layers, and what to say of them. Patch embeddings and projectors are left out."""
    total, notes = 0, []
    for name in ENCODERS:
        encoder = config.get(name)
        if not isinstance(encoder, dict) or not encoder:
            continue
        count = _parameters(encoder)
        if count is None:
            notes.append(f"{name}: sizes are not understood; the encoder is not counted")
        else:
            total += count
    if total:
        gigabytes = 2 * total / 1e9
        notes.append(
            f"encoders of about {total / 1e9:.2f} billion parameters ({gigabytes:.2f} GB in bf16) are counted apart; "
            "each patch or frame costs two FLOPs per parameter of them before the prefill"
        )
    return total, notes


def _parameters(encoder: Mapping[str, Any]) -> int | None:
    width, depth = _first(encoder, _WIDTHS), _first(encoder, _DEPTHS)
    if not width or not depth:
        return None
    ratio = encoder.get("mlp_ratio")
    inner = _first(encoder, _INNER) or int(width * (ratio if isinstance(ratio, int | float) else 4))
    gate = encoder.get("hidden_act") in ("silu", "swiglu")
    return depth * (4 * width * width + (3 if gate else 2) * width * inner)


def _first(encoder: Mapping[str, Any], names: tuple[str, ...]) -> int:
    for name in names:
        value = encoder.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 1_000_000:
            return value
    return 0
