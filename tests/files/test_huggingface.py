"""Importing config.json files: every model against published and separately computed sizes; refusals by name."""

from __future__ import annotations

import copy
import csv
import json
import textwrap
from pathlib import Path
from typing import Any

import family_configs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.errors import InputError
from planner.files.huggingface import shape_from_config
from planner.files.models import load_model_file
from planner.records import (
    DenseFeedForward,
    Experts,
    LatentAttention,
    ModelShape,
    RecurrentMixer,
    SoftmaxAttention,
)
from planner.shapes.counts import kv_bytes_per_token, parameters, state_bytes_per_sequence
from planner.shapes.ranks import layer_count

DATA = Path(__file__).parent.parent / "data" / "models"


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


ROWS = _rows()
LLAMA, DEEPSEEK = "meta-llama--Meta-Llama-3.1-70B.json", "deepseek-ai--DeepSeek-V3.json"
QWEN_MOE, GPT_OSS = "Qwen--Qwen3-30B-A3B.json", "openai--gpt-oss-120b.json"


# ------------------------------------------------------------------------------------------------- against the table


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["model_id"])
def test_sizes(row: dict[str, str]) -> None:
    shape = shape_from_config(_config(row["file"]), row["model_id"])
    count = parameters(shape)
    active = count.active
    assert count.total == pytest.approx(float(row["params_total_b_computed"]) * 1e9, rel=0.0025)
    assert active == pytest.approx(float(row["params_active_b_computed"]) * 1e9, rel=0.005)
    assert count.total == pytest.approx(float(row["params_total_b"]) * 1e9, rel=0.02)
    assert kv_bytes_per_token(shape, "bf16") == float(row["kv_bytes_per_token_bf16"])
    assert kv_bytes_per_token(shape, "bf16", True) == float(row["kv_bytes_per_token_bf16_beyond_window"])
    assert state_bytes_per_sequence(shape) == float(row["state_bytes_per_sequence"] or 0)
    assert sum(kind.count for kind in shape.layers) == int(row["layers"])


@pytest.mark.parametrize("case", family_configs.ALL, ids=lambda case: case.id)
def test_other_families(case: family_configs.Case) -> None:
    shape = shape_from_config(case.config, case.id)
    count = parameters(shape)
    assert count.total == pytest.approx(case.parameters * 1e9, rel=case.tolerance)
    if case.active:
        assert count.active == pytest.approx(case.active * 1e9, rel=case.active_tolerance)
    assert kv_bytes_per_token(shape, "bf16") == case.kv
    assert kv_bytes_per_token(shape, "bf16", True) == (case.kv if case.beyond < 0 else case.beyond)
    assert state_bytes_per_sequence(shape) == case.state
    if case.layers:
        assert layer_count(shape) == case.layers


def test_the_name_decides_nothing() -> None:
    for row in ROWS:
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
        (_compressed(8, "float", strategy="block"), "fp8_block"),
        ({"quant_method": "modelopt_fp4", "quant_algo": "NVFP4"}, "nvfp4"),
        ({"quant_method": "modelopt", "quant_algo": "FP8_PB_WO"}, "fp8_block"),
        ({"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "FP8"}}, "fp8"),
        ({"quant_method": "bitsandbytes", "_load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}, "int4"),
        ({"quant_method": "quark", "global_quant_config": {"weight": {"dtype": "fp4"}}}, "mxfp4"),
        ({"quant_method": "torchao", "quant_type": {"default": "Float8DynamicActivation"}}, "fp8"),
        ({"bits": 4, "group_size": 64}, "int4"),
    ],
)  # fmt: skip
def test_checkpoint_formats(quantization: dict[str, Any], expected: str) -> None:
    assert _shape(LLAMA, quantization_config=quantization).checkpoint_format == expected


def test_formats_outside_the_experts() -> None:
    """Experts and the rest in two formats: DeepSeek-V4's own key, groups by target, and lists by module."""
    groups = {
        "group_0": {"targets": ["re:.*experts.*"], "weights": {"num_bits": 4, "type": "int", "group_size": 32}},
        "group_1": {"targets": ["re:.*self_attn.*"], "weights": {"num_bits": 8, "type": "float"}},
    }
    layers = {
        "model.layers.0.mlp.experts.0.up_proj": {"quant_algo": "NVFP4"},
        "model.layers.0.self_attn.q_proj": {"quant_algo": "FP8"},
    }
    cases: list[tuple[dict[str, Any], tuple[str, str]]] = [
        ({"quant_method": "compressed-tensors", "config_groups": groups}, ("int4", "fp8")),
        ({"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION", "quantized_layers": layers}, ("nvfp4", "fp8")),
        ({"quant_method": "awq", "bits": 4}, ("int4", "int4")),
        ({"quant_method": "awq", "bits": 4, "modules_to_not_convert": ["self_attn", "lm_head"]}, ("int4", "")),
    ]
    for declared, expected in cases:
        shape = _shape(QWEN_MOE, quantization_config=declared)
        assert (shape.checkpoint_format, shape.checkpoint_other_format) == expected
    shape = _shape("deepseek-ai--DeepSeek-V4-Flash.json")
    assert (shape.checkpoint_format, shape.checkpoint_other_format) == ("mxfp4", "fp8_block")


def test_compressed_attention() -> None:
    """DeepSeek-V4-Flash: 2 layers with a window only, 21 that pool 4 tokens and choose 512, 20 that pool 128."""
    mixers = {kind.mixer: kind.count for kind in _shape("deepseek-ai--DeepSeek-V4-Flash.json").layers}
    found = {
        (mixer.compression_tokens, mixer.index_top_k, mixer.window_tokens): count
        for mixer, count in mixers.items()
        if isinstance(mixer, LatentAttention) and mixer.direct
    }
    assert found == {(0, 0, 128): 2, (4, 512, 128): 21, (128, 0, 128): 20}


def test_latent_experts_and_gates() -> None:
    kinds = _shape("moonshotai--Kimi-K3.json").layers
    assert {kind.feed_forward.hidden for kind in kinds if isinstance(kind.feed_forward, Experts)} == {3584}
    assert all(kind.mixer.output_gate for kind in kinds if isinstance(kind.mixer, LatentAttention))
    assert all(kind.mixer.full_rank_gate for kind in kinds if isinstance(kind.mixer, RecurrentMixer))


def test_layers_that_read_the_keys_of_others() -> None:
    """Hunyuan-Large: every second layer, without key and value projections of its own."""
    case = next(case for case in family_configs.ALL if case.id == "tencent/Tencent-Hunyuan-Large")
    shape = shape_from_config(case.config, case.id)
    assert shape.borrowed_kv == (False, True)
    plain = shape_from_config({**case.config, "use_cla": False}, case.id)
    # 32 layers x (keys and values) x 6,400 x 8 heads x 80
    assert parameters(plain).total - parameters(shape).total == 32 * 2 * 6400 * 8 * 80


def test_sizes_a_nested_decoder_leaves_to_its_class_are_told() -> None:
    """LLaVA-1.5 states little more than its vocabulary: the rest is what the Llama class takes for granted."""
    text = {"model_type": "llama", "vocab_size": 32064, "max_position_embeddings": 4096, "torch_dtype": "float16"}
    shape = shape_from_config(
        {"architectures": ["LlavaForConditionalGeneration"], "model_type": "llava", "text_config": text}, "llava"
    )
    assert parameters(shape).total == pytest.approx(6.74e9, rel=0.001)
    assert any(note.startswith("hidden_size is left out: 4096, the default") for note in shape.notes)


# ------------------------------------------------------------------------------------------------------------ faults


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_hidden_layers": None}, "num_hidden_layers is missing (nor n_layer, num_layers, n_layers)"),
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
        (
            {"model_type": "new", "hidden_act": "sinus"},
            "cannot tell whether a feed-forward block with sinus has a gate",
        ),
        ({"model_type": "novel", "tie_word_embeddings": None}, "tie_word_embeddings is missing"),
        ({"quantization_config": {"quant_method": "quip"}}, "method 'quip' is not understood"),
        ({"quantization_config": 8}, "quantization_config is not a mapping"),
        ({"torch_dtype": "int3"}, "torch_dtype: int3 is not understood"),
        ({"num_memory_layers": 3}, "may change the shape of the model: num_memory_layers"),
        ({"num_kv_shared_layers": 81}, "num_kv_shared_layers: 81 is not between 0 and 80"),
        ({"attention_window_size": 2048}, "recurrent layers of the Griffin family cannot be counted yet"),
        ({"cross_attention_layers": [3, 80]}, "cross_attention_layers: 80 is not one of the layers 0 to 79"),
        ({"attn_type_list": [0, 2] * 40}, "attn_type_list: want 0 (linear attention) or 1 (softmax attention)"),
        ({"intermediate_size": [28672, 14336]}, "is not a whole number and has not one entry for each of 80 layers"),
        ({"block_configs": [{}]}, "block_configs: want one mapping for each of 80 layers"),
        ({"_class_name": "FluxTransformer2DModel"}, "is a part of a diffusion pipeline"),
        ({"weight_map": {}}, "this is the index of weight files"),
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
    lines = [fault.message for fault in error.value.faults if not fault.message.startswith("to plan it all the same")]
    assert len(lines) <= 2
    assert not any("\n" in line for line in lines)


def test_an_unknown_architecture_is_shown_how_to_describe_it(tmp_path: Path) -> None:
    with pytest.raises(InputError) as error:
        shape_from_config({**_config(LLAMA), "model_type": "novel", "num_memory_layers": 3}, "owner/novel")
    told = error.value.faults[-1].message
    described = textwrap.dedent(told.partition("\n")[2])
    path = tmp_path / "owner--novel.yaml"
    path.write_text(described, encoding="utf-8")
    shape = load_model_file(path)  # what it shows can be read, and holds what was understood
    assert (shape.id, shape.hidden, shape.layers[0].count) == ("owner/novel", 8192, 80)


def test_a_plain_model_is_not_refused_for_what_only_sounds_like_a_size() -> None:
    shape = _shape(LLAMA, router_head_width=3, new_attn_scheme="fancy", softmax_head_size=7)
    assert shape.layers == _shape(LLAMA).layers
    assert shape.notes[-1] == (
        "not read, and taken to leave the shape alone: new_attn_scheme, router_head_width, softmax_head_size"
    )


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


# ----------------------------------------------------------------------------------- wrappers as they are really packed


def _llama(family: str, **more: Any) -> dict[str, Any]:
    sizes = {"hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8}
    rest = {"intermediate_size": 14336, "vocab_size": 128256, "max_position_embeddings": 8192, "hidden_act": "silu"}
    return {"model_type": family, **sizes, **rest, **more}


@pytest.mark.parametrize(
    "config",
    [
        {"architectures": ["InternVLChatModel"], "llm_config": _llama("llama"), "select_layer": -1, "hidden_size": 9},
        {"architectures": ["Mistral3ForConditionalGeneration"], "text_config": _llama("mistral", sliding_window=None)},
        {"architectures": ["DeepseekVLV2ForCausalLM"], "language_config": _llama("deepseek_v2", use_mla=False)},
        {"architectures": ["XForConditionalGeneration"], "thinker_config": {"text_config": _llama("llama")}},
        {"architectures": ["MiniCPMV"], **_llama("minicpmv", attention_bias=False, query_num=64, slice_mode=True)},
        {"architectures": ["Phi4MMForCausalLM"], **_llama("phi4mm", tie_word_embeddings=False, vision_lora={"r": 256})},
    ],
    ids=lambda config: config["architectures"][0],
)
def test_decoders_inside_other_files(config: dict[str, Any]) -> None:
    shape = shape_from_config(config, "x")
    assert parameters(shape).total == pytest.approx(8.03e9, rel=1e-3)
    assert kv_bytes_per_token(shape, "bf16") == 131072


@pytest.mark.parametrize("name", ["CLIPModel", "SiglipModel", "BertForSequenceClassification", "XLMRobertaModel"])
def test_encoders_are_refused(name: str) -> None:
    config = {"architectures": [name], "model_type": "x", "text_config": {"hidden_size": 512}, "vision_config": {}}
    with pytest.raises(InputError, match=f"{name} generates no text token by token"):
        shape_from_config(config, "x")
