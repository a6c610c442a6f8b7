"""What a family of models takes for granted: values its config class fills in when the file leaves a key out.

Taken from the config classes of the `transformers` library (Apache-2.0) and of the model repositories. A family is a
`model_type`; a family that is not listed has no defaults, and a key it leaves out is a fault.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

EVERY_LAYER = 0  # `full_every`: every layer has the window
NO_LIMIT_TOKENS = 1_000_000_000  # the longest context of a model that keeps no context

Defaults = Mapping[str, Any]

_UNTIED: Defaults = {"tie_word_embeddings": False, "gated": True}
_TIED: Defaults = {"tie_word_embeddings": True, "gated": True}
_PLAIN: Defaults = {"gated": False, "width_factor": 4}  # two matrices, four times as wide as the model
_WINDOWED: Defaults = {**_UNTIED, "full_every": EVERY_LAYER}
_GEMMA: Defaults = {**_TIED, "head_dim": 256}
_GEMMA3: Defaults = {
    **_GEMMA,
    "full_every": 6,
    "vocab_size": 262208,
    "max_position_embeddings": 131072,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "sliding_window": 4096,
}
_QWEN2: Defaults = {**_UNTIED, "attention_bias": True, "use_sliding_window": False}
_QWEN3: Defaults = {**_UNTIED, "head_dim": 128, "use_sliding_window": False}
_QWEN_HYBRID: Defaults = {**_UNTIED, "head_dim": 256, "attn_output_gate": True}
_STATE_SPACE: Defaults = {"only_state_space": True, "max_position_embeddings": NO_LIMIT_TOKENS}
_LIGHTNING: Defaults = {**_UNTIED, "linear_kind": "lightning"}
_GRANITE: Defaults = {**_TIED, "mamba_d_conv": 4, "mamba_expand": 2}

# Keys that no config file has, filled in only here:
#   full_every   every so many layers one has full attention, the others a window
#   gated        feed-forward of three matrices; where it is not given, the activation function tells
#   width_factor, width_divisor   feed-forward width as a multiple of the model's, and of the declared width
#   shared_is_dense   a shared expert as wide as a dense layer
#   dense_beside_experts   a dense block runs beside the experts of the same layer
#   only_state_space   every layer is a state-space mixer, without attention and without a feed-forward block
#   linear_kind  what "linear attention" means
FAMILY_DEFAULTS: Mapping[str, Defaults] = {
    "apertus": {"tie_word_embeddings": False, "gated": False},
    "arctic": _UNTIED,
    "baichuan": _UNTIED,
    "bailing_hybrid": _LIGHTNING,
    "bailing_moe": _UNTIED,
    "bailing_moe_linear": _LIGHTNING,
    "bailing_moe_linear_v2": _LIGHTNING,
    "bailing_moe_v2": _UNTIED,
    "bamba": {**_UNTIED, "mamba_d_conv": 4, "mamba_expand": 2},
    "bloom": {**_PLAIN, "tie_word_embeddings": True, "attention_bias": True, "max_position_embeddings": 2048},
    "chatglm": {**_UNTIED, "attention_bias": True},
    "codegen": {**_PLAIN, "tie_word_embeddings": False},
    "cohere": _TIED,
    "cohere2": {**_TIED, "full_every": 4},
    "dbrx": _UNTIED,
    "deci": _UNTIED,
    "deepseek": _UNTIED,
    "deepseek_v2": _UNTIED,
    "deepseek_v3": _UNTIED,
    "deepseek_v32": _UNTIED,
    "deepseek_v4": _UNTIED,
    "dots1": _UNTIED,
    "ernie4_5": _TIED,
    "ernie4_5_moe": _TIED,
    "exaone": _UNTIED,
    "exaone4": {**_UNTIED, "full_every": 4},
    "exaone_moe": {**_UNTIED, "full_every": 4},
    "falcon": {**_PLAIN, "tie_word_embeddings": True, "max_position_embeddings": 2048},
    "falcon_h1": {**_UNTIED, "mamba_d_conv": 4, "mamba_expand": 2, "mamba_beside_attention": True},
    "falcon_mamba": {**_STATE_SPACE, "tie_word_embeddings": True},
    "gemma": _GEMMA,
    "gemma2": {**_GEMMA, "full_every": 2},
    "gemma3_text": _GEMMA3,
    "gemma3n_text": {**_GEMMA, "vocab_size": 262400, "max_position_embeddings": 32768},
    "gemma4_text": {**_TIED, "dense_beside_experts": True},
    "glm": _UNTIED,
    "glm4": _UNTIED,
    "glm4_moe": _UNTIED,
    "glm4_moe_lite": _UNTIED,
    "glm4v_moe_text": _UNTIED,
    "glm4v_text": _UNTIED,
    "glm_moe_dsa": _UNTIED,
    "gpt2": {**_PLAIN, "tie_word_embeddings": True, "attention_bias": True},
    "gpt_bigcode": {**_PLAIN, "tie_word_embeddings": True, "attention_bias": True},
    "gpt_neox": {**_PLAIN, "tie_word_embeddings": False, "attention_bias": True},
    "gpt_oss": _UNTIED,
    "gptj": {**_PLAIN, "tie_word_embeddings": False},
    "granite": _TIED,
    "granitemoe": _TIED,
    "granitemoehybrid": _GRANITE,
    "granitemoeshared": _TIED,
    "grok-1": _TIED,
    "hunyuan": _TIED,
    "hunyuan_v1_dense": _TIED,
    "hunyuan_v1_moe": _TIED,
    "internlm": _UNTIED,
    "internlm2": _UNTIED,
    "internlm3": _UNTIED,
    "jamba": {**_UNTIED, "mamba_expand": 2, "mamba_d_state": 16, "mamba_d_conv": 4},
    "kimi_k2": _UNTIED,
    "kimi_linear": _UNTIED,
    "lfm2": {**_TIED, "max_position_embeddings": 128000},
    "lfm2_moe": {**_TIED, "max_position_embeddings": 128000},
    "llama": _UNTIED,
    "llama4_text": {**_UNTIED, "shared_is_dense": True, "full_every": 4},
    "longcat_flash": _UNTIED,
    "mamba": {**_STATE_SPACE, "tie_word_embeddings": True},
    "mamba2": {**_STATE_SPACE, "tie_word_embeddings": False},
    "mimo_v2_flash": _UNTIED,
    "minicpm": _TIED,
    "minicpm3": _TIED,
    "minicpmo": _QWEN2,
    "minicpmv": _QWEN2,
    "minimax": _LIGHTNING,
    "minimax_m1": _LIGHTNING,
    "minimax_m2": _UNTIED,
    "minimax_m3": _UNTIED,
    "minimax_m3_vl_text": _UNTIED,
    "minimax_text_01": _LIGHTNING,
    "ministral3": _WINDOWED,
    "mistral": _WINDOWED,
    "mixtral": _WINDOWED,
    "mllama_text_model": _UNTIED,
    "mpt": {**_PLAIN, "tie_word_embeddings": True},
    "nemotron": {"tie_word_embeddings": False, "gated": False},
    "nemotron-nas": _UNTIED,
    "nemotron_h": {"tie_word_embeddings": False},
    "nemotron_h_puzzle": {"tie_word_embeddings": False},
    "olmo": _UNTIED,
    "olmo2": _UNTIED,
    "olmo3": _UNTIED,
    "olmoe": _UNTIED,
    "opt": {**_PLAIN, "tie_word_embeddings": True, "attention_bias": True},
    "phi": {**_PLAIN, "tie_word_embeddings": False, "attention_bias": True},
    "phi3": _WINDOWED,
    "phi4mm": {**_WINDOWED, "tie_word_embeddings": True},
    "phimoe": _WINDOWED,
    "qwen": {**_UNTIED, "attention_bias": True, "width_divisor": 2},
    "qwen2": _QWEN2,
    "qwen2_5_omni_text": _QWEN2,
    "qwen2_5_vl": _QWEN2,
    "qwen2_5_vl_text": _QWEN2,
    "qwen2_moe": _QWEN2,
    "qwen2_vl": _QWEN2,
    "qwen2_vl_text": _QWEN2,
    "qwen3": _QWEN3,
    "qwen3_moe": _QWEN3,
    "qwen3_omni_moe_text": _QWEN3,
    "qwen3_vl_moe_text": _QWEN3,
    "qwen3_vl_text": _QWEN3,
    "qwen3_next": _QWEN_HYBRID,
    "qwen3_5_text": _QWEN_HYBRID,
    "qwen3_5_moe_text": _QWEN_HYBRID,
    "seed_oss": _UNTIED,
    "smollm3": {**_TIED, "use_sliding_window": False},
    "stablelm": _UNTIED,
    "starcoder2": {**_WINDOWED, "tie_word_embeddings": True, "gated": False, "attention_bias": True},
    "step3_text": _UNTIED,
    "step3p5": _UNTIED,
    "step3p7": _UNTIED,
    "zamba2": {**_TIED, "mamba_d_conv": 4, "mamba_expand": 2},
}

# The decoder inside a multimodal file often holds only what differs from its config class; sizes it leaves out are
# those of the class, and a note says which were taken.
NESTED_DEFAULTS: Mapping[str, Defaults] = {
    "gemma3_text": {"hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 26},
    "llama": {
        "hidden_size": 4096,
        "intermediate_size": 11008,
        "max_position_embeddings": 2048,
        "num_attention_heads": 32,
        "num_hidden_layers": 32,
        "vocab_size": 32000,
    },
    "mistral": {
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "max_position_embeddings": 131072,
        "num_attention_heads": 32,
        "num_hidden_layers": 32,
        "num_key_value_heads": 8,
        "vocab_size": 32000,
    },
    "qwen2": {
        "hidden_size": 4096,
        "intermediate_size": 22016,
        "max_position_embeddings": 32768,
        "num_attention_heads": 32,
        "num_hidden_layers": 32,
        "num_key_value_heads": 32,
        "vocab_size": 151936,
    },
}
