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


def _all(defaults: Defaults, families: str) -> dict[str, Defaults]:
    return dict.fromkeys(families.split(), defaults)


# Keys that no config file has, filled in only here:
#   full_every   every so many layers one has full attention, the others a window
#   gated        feed-forward of three matrices; where it is not given, the activation function tells
#   width_factor, width_divisor   feed-forward width as a multiple of the model's, and of the declared width
#   shared_is_dense   a shared expert as wide as a dense layer
#   dense_beside_experts   a dense block runs beside the experts of the same layer
#   only_state_space   every layer is a state-space mixer, without attention and without a feed-forward block
#   linear_kind  what "linear attention" means
FAMILY_DEFAULTS: Mapping[str, Defaults] = {
    **_all(_UNTIED, """
        arctic baichuan bailing_moe bailing_moe_v2 dbrx deci deepseek deepseek_v2 deepseek_v3 deepseek_v32
        deepseek_v4 dots1 exaone glm glm4 glm4_moe glm4_moe_lite glm4v_moe_text glm4v_text glm_moe_dsa gpt_oss
        internlm internlm2 internlm3 kimi_k2 kimi_linear llama longcat_flash mimo_v2_flash minimax_m2 minimax_m3
        minimax_m3_vl_text mllama_text_model nemotron-nas olmo olmo2 olmo3 olmoe seed_oss stablelm step3_text
        step3p5 step3p7
    """),
    **_all(_LIGHTNING, """
        bailing_hybrid bailing_moe_linear bailing_moe_linear_v2 minimax minimax_m1 minimax_text_01
    """),
    **_all(_TIED, """
        cohere ernie4_5 ernie4_5_moe granite granitemoe granitemoeshared grok-1 hunyuan hunyuan_v1_dense
        hunyuan_v1_moe minicpm minicpm3
    """),
    **_all({**_PLAIN, "tie_word_embeddings": True, "attention_bias": True}, """
        gpt2 gpt_bigcode opt
    """),
    **_all(_QWEN2, """
        minicpmo minicpmv qwen2 qwen2_5_omni_text qwen2_5_vl qwen2_5_vl_text qwen2_moe qwen2_vl qwen2_vl_text
    """),
    **_all(_WINDOWED, """
        ministral3 mistral mixtral phi3 phimoe
    """),
    **_all(_QWEN3, """
        qwen3 qwen3_moe qwen3_omni_moe_text qwen3_vl_moe_text qwen3_vl_text
    """),
    **_all(_QWEN_HYBRID, """
        qwen3_next qwen3_5_text qwen3_5_moe_text
    """),
    "apertus": {"tie_word_embeddings": False, "gated": False},
    "bamba": {**_UNTIED, "mamba_d_conv": 4, "mamba_expand": 2},
    "bloom": {**_PLAIN, "tie_word_embeddings": True, "attention_bias": True, "max_position_embeddings": 2048},
    "chatglm": {**_UNTIED, "attention_bias": True},
    "codegen": {**_PLAIN, "tie_word_embeddings": False},
    "cohere2": {**_TIED, "full_every": 4},
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
    "gpt_neox": {**_PLAIN, "tie_word_embeddings": False, "attention_bias": True},
    "gptj": {**_PLAIN, "tie_word_embeddings": False},
    "granitemoehybrid": _GRANITE,
    "jamba": {**_UNTIED, "mamba_expand": 2, "mamba_d_state": 16, "mamba_d_conv": 4},
    "lfm2": {**_TIED, "max_position_embeddings": 128000},
    "lfm2_moe": {**_TIED, "max_position_embeddings": 128000},
    "llama4_text": {**_UNTIED, "shared_is_dense": True, "full_every": 4},
    "mamba": {**_STATE_SPACE, "tie_word_embeddings": True},
    "mamba2": {**_STATE_SPACE, "tie_word_embeddings": False},
    "mpt": {**_PLAIN, "tie_word_embeddings": True},
    "nemotron": {"tie_word_embeddings": False, "gated": False},
    "nemotron_h": {"tie_word_embeddings": False},
    "nemotron_h_puzzle": {"tie_word_embeddings": False},
    "phi": {**_PLAIN, "tie_word_embeddings": False, "attention_bias": True},
    "phi4mm": {**_WINDOWED, "tie_word_embeddings": True},
    "qwen": {**_UNTIED, "attention_bias": True, "width_divisor": 2},
    "smollm3": {**_TIED, "use_sliding_window": False},
    "starcoder2": {**_WINDOWED, "tie_word_embeddings": True, "gated": False, "attention_bias": True},
    "zamba2": {**_TIED, "mamba_d_conv": 4, "mamba_expand": 2},
}  # fmt: skip

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
