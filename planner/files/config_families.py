"""What a family of models takes for granted: values its config class fills in when the file leaves a key out.

Taken from the config classes of the `transformers` library (Apache-2.0). A family is a `model_type`; a family that is
not listed has no defaults, and a key it leaves out is a fault.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

EVERY_LAYER = 0  # `full_every`: every layer has the window

_UNTIED: Mapping[str, Any] = {"tie_word_embeddings": False}
_TIED: Mapping[str, Any] = {"tie_word_embeddings": True}
_WINDOWED: Mapping[str, Any] = {**_UNTIED, "full_every": EVERY_LAYER}
_GEMMA: Mapping[str, Any] = {**_TIED, "gated": True, "head_dim": 256}
_GEMMA3: Mapping[str, Any] = {
    **_GEMMA,
    "full_every": 6,
    "vocab_size": 262208,
    "max_position_embeddings": 131072,
}

# Keys that no config file has, filled in only here:
#   full_every   every so many layers one has full attention, the others a window
#   gated        feed-forward of three matrices
#   shared_is_dense   a shared expert as wide as a dense layer
#   dense_beside_experts   a dense block runs beside the experts of the same layer
FAMILY_DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "baichuan": _UNTIED,
    "cohere": _TIED,
    "cohere2": {**_TIED, "full_every": 4},
    "deepseek_v2": _UNTIED,
    "deepseek_v3": _UNTIED,
    "deepseek_v32": _UNTIED,
    "falcon": {
        **_TIED,
        "gated": False,
        "width_factor": 4,
        "max_position_embeddings": 2048,
    },
    "gemma": _GEMMA,
    "gemma2": {**_GEMMA, "full_every": 2},
    "gemma3_text": _GEMMA3,
    "gemma4_text": {**_TIED, "gated": True, "dense_beside_experts": True},
    "glm4_moe": _UNTIED,
    "glm_moe_dsa": _UNTIED,
    "gpt2": {**_TIED, "gated": False, "width_factor": 4, "attention_bias": True},
    "gpt_neox": {**_UNTIED, "gated": False, "attention_bias": True},
    "gpt_oss": _UNTIED,
    "internlm2": _UNTIED,
    "jamba": {**_UNTIED, "mamba_expand": 2, "mamba_d_state": 16, "mamba_d_conv": 4},
    "kimi_k2": _UNTIED,
    "kimi_linear": _UNTIED,
    "llama": _UNTIED,
    "llama4_text": {**_UNTIED, "shared_is_dense": True, "full_every": 4},
    "mimo_v2_flash": _UNTIED,
    "minicpm3": _TIED,
    "minimax_m2": _UNTIED,
    "ministral3": _WINDOWED,
    "mistral": _WINDOWED,
    "mixtral": _WINDOWED,
    "nemotron_h": _UNTIED,
    "olmo3": _UNTIED,
    "phi3": _WINDOWED,
    "qwen2": {**_UNTIED, "attention_bias": True, "use_sliding_window": False},
    "qwen2_moe": {**_UNTIED, "attention_bias": True, "use_sliding_window": False},
    "qwen3": {**_UNTIED, "head_dim": 128, "use_sliding_window": False},
    "qwen3_moe": {**_UNTIED, "head_dim": 128, "use_sliding_window": False},
    "qwen3_next": {**_UNTIED, "head_dim": 256, "attn_output_gate": True},
    "qwen3_5_text": {**_UNTIED, "head_dim": 256, "attn_output_gate": True},
    "qwen3_5_moe_text": {**_UNTIED, "head_dim": 256, "attn_output_gate": True},
    "starcoder2": {**_WINDOWED, "tie_word_embeddings": True, "gated": False, "attention_bias": True},
    "step3p7": _UNTIED,
}
