"""Importing config.json files: every model against published and separately computed sizes; refusals by name."""

from __future__ import annotations

import copy
import csv
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.errors import InputError
from planner.files.huggingface import shape_from_config
from planner.records import (
    DenseFeedForward,
    Experts,
    LatentAttention,
    ModelShape,
    RecurrentMixer,
    SoftmaxAttention,
)
from planner.shapes.counts import kv_bytes_per_token, parameters, state_bytes_per_sequence

DATA = Path(__file__).parent.parent / "data" / "models"
NOT_SUPPORTED = {
    "deepseek-ai/DeepSeek-V4-Flash": ("compress_ratios", "o_lora_rank", "hc_mult"),
    "moonshotai/Kimi-K3": ("routed_expert_hidden_size", "mla_use_output_gate", "use_full_rank_gate", "situ"),
}


def _rows() -> list[dict[str, str]]:
    with (DATA / "models_expected.csv").open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def _config(name: str) -> dict[str, Any]:
    value: dict[str, Any] = json.loads((DATA / name).read_text(encoding="utf-8"))
    return value


def _shape(name: str, **changes: Any) -> ModelShape:
    return shape_from_config({**_config(name), **changes}, name)


def _compressed(bits: int, kind: str, **more: Any) -> dict[str, Any]:
    weights = {"num_bits": bits, "type": kind, **more}
    return {"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": weights}}}


SUPPORTED = [row for row in _rows() if row["model_id"] not in NOT_SUPPORTED]
LLAMA, DEEPSEEK = "meta-llama--Meta-Llama-3.1-70B.json", "deepseek-ai--DeepSeek-V3.json"
QWEN_MOE, GPT_OSS = "Qwen--Qwen3-30B-A3B.json", "openai--gpt-oss-120b.json"


# ------------------------------------------------------------------------------------------------- against the table


@pytest.mark.parametrize("row", SUPPORTED, ids=lambda row: row["model_id"])
def test_sizes(row: dict[str, str]) -> None:
    shape = shape_from_config(_config(row["file"]), row["model_id"])
    count = parameters(shape)
    # gpt-oss publishes its active count with one of its two embedding matrices
    active = count.active - (count.head if shape.architecture == "gpt_oss" else 0)
    assert count.total == pytest.approx(float(row["params_total_b_computed"]) * 1e9, rel=0.01)
    assert active == pytest.approx(float(row["params_active_b_computed"]) * 1e9, rel=0.02)
    assert count.total == pytest.approx(float(row["params_total_b"]) * 1e9, rel=0.02)
    assert kv_bytes_per_token(shape, "bf16") == float(row["kv_bytes_per_token_bf16"])
    assert kv_bytes_per_token(shape, "bf16", True) == float(row["kv_bytes_per_token_bf16_beyond_window"])
    assert state_bytes_per_sequence(shape) == float(row["state_bytes_per_sequence"] or 0)
    assert sum(kind.count for kind in shape.layers) == int(row["layers"])


@pytest.mark.parametrize("model_id", NOT_SUPPORTED)
def test_refused_with_what_is_missing(model_id: str) -> None:
    with pytest.raises(InputError) as error:
        shape_from_config(_config(f"{model_id.replace('/', '--')}.json"), model_id)
    for word in NOT_SUPPORTED[model_id]:
        assert word in str(error.value)


def test_the_name_decides_nothing() -> None:
    for row in SUPPORTED:
        named = shape_from_config(_config(row["file"]), row["model_id"])
        other = shape_from_config(_config(row["file"]), "someone/else")
        assert named.layers == other.layers
        assert named.checkpoint_format == other.checkpoint_format


# ----------------------------------------------------------------------------------------------------- feature by one


def test_deepseek_layers() -> None:
    attention = LatentAttention(128, 1536, 512, 128, 64, 128)
    kinds = [(kind.count, kind.mixer, kind.feed_forward) for kind in _shape(DEEPSEEK).layers]
    assert kinds == [(3, attention, DenseFeedForward(18432)), (58, attention, Experts(256, 8, 2048, 2048))]
    assert _shape(DEEPSEEK).draft_layers == 1


def test_gpt_oss_alternates() -> None:
    shape = _shape(GPT_OSS)
    assert [(kind.count, kind.mixer.window_tokens) for kind in shape.layers] == [(18, 128), (18, 0)]  # type: ignore[union-attr]
    assert shape.checkpoint_format == "mxfp4"


def test_layers_that_share_an_indexer() -> None:
    mixers = [kind.mixer for kind in _shape("zai-org--GLM-5.3.json").layers]
    assert all(isinstance(mixer, LatentAttention) and mixer.index_top_k == 2048 for mixer in mixers)
    assert {mixer.index_heads for mixer in mixers} == {0, 32}  # type: ignore[union-attr]


def test_heads_that_differ_by_layer() -> None:
    full, sliding = SoftmaxAttention(64, 4, 192, 128), SoftmaxAttention(64, 8, 192, 128, 128)
    assert {kind.mixer for kind in _shape("XiaomiMiMo--MiMo-V2-Flash.json").layers} == {full, sliding}


def test_recurrent_layers() -> None:
    mixer = RecurrentMixer(16, 32, 128, 128, 4)
    assert {kind.mixer: kind.count for kind in _shape("Qwen--Qwen3-Next-80B-A3B-Instruct.json").layers}[mixer] == 36


def test_kimi_linear() -> None:
    """Kimi-Linear-48B-A3B as its report gives it: 8,064 B per token and 42 MB of state (MODELLING §1.4)."""
    full = [4, 8, 12, 16, 20, 24, 27]
    config = {
        "architectures": ["KimiLinearForCausalLM"],
        "model_type": "kimi_linear",
        "hidden_size": 2304,
        "intermediate_size": 9216,
        "num_hidden_layers": 27,
        "num_attention_heads": 32,
        "kv_lora_rank": 512,
        "q_lora_rank": None,
        "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64,
        "v_head_dim": 128,
        "mla_use_nope": True,
        "first_k_dense_replace": 1,
        "moe_layer_freq": 1,
        "num_experts": 256,
        "num_experts_per_token": 8,
        "num_shared_experts": 1,
        "moe_intermediate_size": 1024,
        "linear_attn_config": {
            "full_attn_layers": full,
            "kda_layers": [layer for layer in range(1, 28) if layer not in full],
            "head_dim": 128,
            "num_heads": 32,
            "short_conv_kernel_size": 4,
        },
        "hidden_act": "silu",
        "vocab_size": 163840,
        "max_position_embeddings": 1048576,
        "tie_word_embeddings": False,
        "dtype": "bfloat16",
    }
    shape = shape_from_config(config, "moonshotai/Kimi-Linear-48B-A3B-Instruct")
    assert kv_bytes_per_token(shape, "bf16") == 8064
    assert state_bytes_per_sequence(shape) == 20 * 32 * 128 * 128 * 4
    assert parameters(shape).total == pytest.approx(48e9, rel=0.03)


@pytest.mark.parametrize(
    ("changes", "windowed"),
    [
        ({"use_sliding_window": False, "sliding_window": 4096}, 0),
        ({"use_sliding_window": True, "sliding_window": 4096, "max_window_layers": 20}, 8),
        ({"use_sliding_window": True, "sliding_window": 131072}, 0),  # never binds
        ({"sliding_window": None}, 0),
    ],
)
def test_windows_of_qwen2(changes: dict[str, Any], windowed: int) -> None:
    layers = _shape("Qwen--Qwen2.5-7B.json", **changes).layers
    assert sum(kind.count for kind in layers if getattr(kind.mixer, "window_tokens", 0)) == windowed


def test_multi_query_of_falcon() -> None:
    name = "tiiuae--falcon-40b-instruct.json"
    for changes, kv_heads in (({}, 8), ({"new_decoder_architecture": False}, 1)):
        mixer = _shape(name, **changes).layers[0].mixer
        assert isinstance(mixer, SoftmaxAttention)
        assert mixer.kv_heads == kv_heads


@pytest.mark.parametrize(
    ("changes", "dense_layers"),
    [
        ({}, 0),
        ({"mlp_only_layers": [0, 1, 5]}, 3),
        ({"moe_layers": list(range(1, 48, 2))}, 24),
        ({"decoder_sparse_step": 2}, 24),
        ({"first_k_dense_replace": 2}, 2),
        ({"moe_layer_freq": [0] * 10 + [1] * 38}, 10),
        ({"mlp_layer_types": ["dense"] * 4 + ["sparse"] * 44}, 4),
    ],
)
def test_which_layers_have_experts(changes: dict[str, Any], dense_layers: int) -> None:
    layers = _shape(QWEN_MOE, **changes).layers
    assert sum(kind.count for kind in layers if isinstance(kind.feed_forward, DenseFeedForward)) == dense_layers


@pytest.mark.parametrize(
    ("quantization", "expected"),
    [
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8_block"),
        ({"quant_method": "fp8"}, "fp8"),
        ({"quant_method": "fbgemm_fp8"}, "fp8"),
        ({"quant_method": "mxfp4"}, "mxfp4"),
        ({"quant_method": "gptq", "bits": 4}, "int4"),
        ({"quant_method": "awq", "bits": 8}, "int8"),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, "int8"),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "nvfp4"),
        (_compressed(8, "float"), "fp8"),
        (_compressed(8, "float", block_structure=[128, 128]), "fp8_block"),
        (_compressed(4, "int"), "int4"),
        (_compressed(4, "float", group_size=16), "nvfp4"),
        (_compressed(4, "float", group_size=32), "mxfp4"),
    ],
)  # fmt: skip
def test_checkpoint_formats(quantization: dict[str, Any], expected: str) -> None:
    assert _shape(LLAMA, quantization_config=quantization).checkpoint_format == expected


# ------------------------------------------------------------------------------------------------------------ faults


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_hidden_layers": None}, "num_hidden_layers is missing (nor n_layer, num_layers)"),
        ({"hidden_size": -8192}, "hidden_size: -8192 is not between 1 and 1,000,000"),
        ({"hidden_size": "8192"}, 'hidden_size: "8192" is not a whole number'),
        ({"hidden_size": 8192.5}, "hidden_size: 8192.5 is not a whole number"),
        ({"hidden_size": True}, "hidden_size: True is not a whole number"),
        ({"vocab_size": float("inf")}, "vocab_size: inf is not a whole number"),
        ({"num_hidden_layers": 10**12}, "num_hidden_layers: 1000000000000 is not between 1 and 10,000"),
        ({"num_key_value_heads": 7}, "num_key_value_heads: 7 does not divide 64 query heads"),
        ({"num_attention_heads": 60, "num_key_value_heads": 4}, "hidden size 8192 is no multiple of 60 heads"),
        ({"layer_types": ["full_attention"]}, "layer_types has 1 entries for 80 layers"),
        ({"layer_types": ["wavelet"] * 80}, "layer_types: wavelet not understood"),
        ({"sliding_window": 4096}, "nothing says which layers use it"),
        ({"hidden_act": "situ"}, "cannot tell whether a feed-forward block with situ has a gate"),
        ({"model_type": "novel", "tie_word_embeddings": None}, "tie_word_embeddings is missing"),
        ({"quantization_config": {"quant_method": "quip"}}, "method 'quip' is not understood"),
        ({"quantization_config": 8}, "quantization_config is not a mapping"),
        ({"torch_dtype": "int3"}, "torch_dtype: int3 is not understood"),
        ({"num_memory_layers": 3}, "may change the shape of the model: num_memory_layers"),
        ({"num_kv_shared_layers": 20}, "layers that reuse another layer's keys and values cannot be counted yet"),
        ({"attn_type_list": [0, 1] * 40}, "attn_type_list: layers of a kind other than 1"),
        ({"text_config": 3}, "text_config is not a mapping"),
        (
            {"peft_type": "LORA", "base_model_name_or_path": "a/b"},
            'the config of an adapter; give its base model "a/b"',
        ),
        ({"architectures": ["BertModel"]}, "BertModel generates no text token by token"),
        ({"is_encoder_decoder": True}, "has an encoder and a decoder"),
        ({"architectures": None, "model_type": None}, "neither architectures nor model_type"),
    ],
)
def test_one_clear_line(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as error:
        _shape(LLAMA, **changes)
    assert any(message in fault.message for fault in error.value.faults)
    assert len(error.value.faults) <= 2


def test_all_faults_at_once() -> None:
    with pytest.raises(InputError) as error:
        _shape(DEEPSEEK, hidden_size=None, vocab_size="many", kv_lora_rank=-1, num_experts_per_tok=999)
    assert len(error.value.faults) == 4


def test_keys_that_say_nothing_about_shape_are_ignored() -> None:
    extra = {"attention_dropout_rate_theta": 3.0, "my_note": "hello", "layer_norm_eps": 1e-6, "num_extra_layers": None}
    assert _shape(LLAMA, **extra) == _shape(LLAMA)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 10**7) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
CONFIGS = [_config(row["file"]) for row in _rows()]


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_any_damage_is_read_or_refused(data: st.DataObject) -> None:
    config = copy.copy(data.draw(st.sampled_from(CONFIGS)))
    inner = config
    if isinstance(config.get("text_config"), dict):
        inner = config["text_config"] = dict(config["text_config"])
    for key in data.draw(st.lists(st.sampled_from(sorted(inner)), min_size=1, max_size=3, unique=True)):
        inner[key] = data.draw(JSON)
    try:
        shape = shape_from_config(config, "x")
    except InputError as error:
        assert error.faults
    else:
        assert parameters(shape).total > 0
