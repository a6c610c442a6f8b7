"""A Hugging Face config.json -> the shape of the model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.errors import Fault, InputError
from planner.files.config_families import FAMILY_DEFAULTS
from planner.files.config_keys import Config
from planner.files.config_layers import read_layers
from planner.records import ModelShape

LARGEST_HIDDEN = 1_000_000
LARGEST_CONTEXT = 1_000_000_000
WRAPPERS = ("text_config", "llm_config", "language_config")
FROM_WRAPPER = ("tie_word_embeddings", "quantization_config", "torch_dtype", "dtype", "vocab_size")
DECODER_ENDINGS = ("ForCausalLM", "LMHeadModel", "ForConditionalGeneration", "ForImageTextToText")
# Features with a known meaning that the record of a shape cannot hold.
NOT_COUNTED = {
    "num_kv_shared_layers": "layers that reuse another layer's keys and values",
    "hidden_size_per_layer_input": "per-layer input embeddings",
    "use_double_wide_mlp": "feed-forward blocks of two widths",
    "compress_ratios": "keys and values compressed along the sequence",
    "mla_use_output_gate": "an output gate on latent attention",
    "routed_expert_hidden_size": "experts that work in a latent narrower than the hidden size",
    "attn_res_block_size": "attention across layers",
}
STORED_AS = {"bfloat16": "bf16", "float16": "bf16", "float32": "bf16"}


def shape_from_config(config: Mapping[str, Any], model_id: str) -> ModelShape:
    """The shape a config.json declares.

    Parameters
    ----------
    config
        The file's content, with a `text_config` inside or not.
    model_id
        What to call the model; it decides nothing else.

    Raises
    ------
    InputError
        Every reason why the file does not describe a decoder that can be counted: missing or impossible sizes, an
        adapter, an encoder, features that are not understood. Nothing is filled in silently: what a family's config
        class takes for granted is listed in `config_families`.
    """
    _refuse_other_files(config)
    values = _decoder_values(config)
    family = str(values.get("model_type") or config.get("model_type") or "")
    keys = Config(values, FAMILY_DEFAULTS.get(family, {}))
    hidden = keys.whole("hidden_size", "n_embd", "d_model", largest=LARGEST_HIDDEN)
    layers = read_layers(keys, hidden)
    context = keys.whole(
        "max_position_embeddings", "n_positions", "max_sequence_length", "seq_length", "model_max_length",
        largest=LARGEST_CONTEXT,
    )  # fmt: skip
    shape = ModelShape(
        id=model_id,
        architecture=family or _architectures(config)[0],
        hidden=hidden,
        vocabulary=keys.whole("vocab_size", "padded_vocab_size"),
        layers=layers,
        tied_embeddings=keys.flag("tie_word_embeddings"),
        max_context_tokens=context,
        checkpoint_format=_checkpoint_format(keys),
        draft_layers=_draft_layers(keys),
        notes=tuple(dict.fromkeys(keys.notes)),
    )
    faults = [*_not_understood(keys, values), *dict.fromkeys(keys.faults)]
    if faults:
        raise InputError([Fault(fault) for fault in faults])
    return shape


def _refuse_other_files(config: Mapping[str, Any]) -> None:
    if "peft_type" in config or "base_model_name_or_path" in config:
        base = config.get("base_model_name_or_path")
        named = f' "{base}"' if isinstance(base, str) and base else ""
        raise InputError(f"this is the config of an adapter; give its base model{named}")
    names = _architectures(config)
    if config.get("is_encoder_decoder") is True:
        raise InputError(f"{', '.join(names) or 'this model'} has an encoder and a decoder; only decoders are planned")
    if names and not any(name.endswith(DECODER_ENDINGS) for name in names):
        raise InputError(f"{', '.join(names)} generates no text token by token; only decoders are planned")
    if not names and not config.get("model_type"):
        raise InputError("this is not the config.json of a model: it has neither architectures nor model_type")


def _architectures(config: Mapping[str, Any]) -> list[str]:
    names = config.get("architectures")
    return [str(name) for name in names] if isinstance(names, list) else []


def _decoder_values(config: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of the text decoder: those of the file, or of the part of it that describes the decoder."""
    for name in WRAPPERS:
        inner = config.get(name)
        if isinstance(inner, dict):
            outer = {key: config[key] for key in FROM_WRAPPER if config.get(key) is not None}
            return {**outer, **{key: value for key, value in inner.items() if value is not None}}
        if inner is not None:
            raise InputError(f"{name} is not a mapping")
    return dict(config)


def _not_understood(keys: Config, values: Mapping[str, Any]) -> list[str]:
    unread = keys.unread_structure()
    named = [key for key in unread if key in NOT_COUNTED]
    faults = [f"{key}: {NOT_COUNTED[key]} cannot be counted yet" for key in named]
    others = [key for key in unread if key not in NOT_COUNTED]
    if others:
        faults.append(f"not understood, and may change the shape of the model: {', '.join(others)}")
    return faults


def _draft_layers(keys: Config) -> int:
    declared = keys.whole("num_nextn_predict_layers", "mtp_num_hidden_layers", default=0, smallest=0)
    modules = keys.whole("num_mtp_modules", default=0, smallest=0)
    return declared or modules * keys.whole("mtp_transformer_layers", default=0, smallest=0)


# ------------------------------------------------------------------------------------------------- checkpoint format


def _checkpoint_format(keys: Config) -> str:
    quantization = keys.value("quantization_config")
    if quantization is None:
        stored = keys.text("torch_dtype", "dtype") or "bfloat16"
        if stored not in STORED_AS:
            keys.fault(f"torch_dtype: {stored} is not understood; known: {', '.join(STORED_AS)}")
        return STORED_AS.get(stored, "bf16")
    if not isinstance(quantization, dict):
        keys.fault("quantization_config is not a mapping")
        return "bf16"
    found = _quantized_format(quantization)
    if not found:
        keys.fault(f"quantization_config: method {quantization.get('quant_method')!r} is not understood")
    return found or "bf16"


def _quantized_format(quantization: Mapping[str, Any]) -> str:
    """The weight format of a quantization_config; empty when it is not understood."""
    method = str(quantization.get("quant_method") or "").lower()
    if method == "fp8":
        return "fp8_block" if quantization.get("weight_block_size") else "fp8"
    if method in ("mxfp4", "fbgemm_fp8"):
        return "mxfp4" if method == "mxfp4" else "fp8"
    if method in ("gptq", "awq", "auto-round"):
        return _integer_format(quantization.get("bits") or quantization.get("w_bit"))
    if method == "bitsandbytes":
        return "int4" if quantization.get("load_in_4bit") else "int8" if quantization.get("load_in_8bit") else ""
    if method in ("modelopt", "modelopt_fp4"):
        return {"FP8": "fp8", "NVFP4": "nvfp4"}.get(str(quantization.get("quant_algo")), "")
    if method == "compressed-tensors":
        return _compressed_tensors_format(quantization)
    return ""


def _compressed_tensors_format(quantization: Mapping[str, Any]) -> str:
    groups = quantization.get("config_groups")
    found = {_group_format(group) for group in groups.values()} if isinstance(groups, dict) else set()
    return found.pop() if len(found) == 1 else ""


def _group_format(group: Any) -> str:
    weights = group.get("weights") if isinstance(group, dict) else None
    if not isinstance(weights, dict):
        return ""
    packed = str(group.get("format") or "")
    bits, kind = weights.get("num_bits"), weights.get("type")
    if (bits, kind) == (4, "float"):
        return "mxfp4" if packed.startswith("mxfp4") or weights.get("group_size") == 32 else "nvfp4"
    if (bits, kind) == (8, "float"):
        return "fp8_block" if weights.get("block_structure") else "fp8"
    return _integer_format(bits) if kind == "int" else ""


def _integer_format(bits: Any) -> str:
    return "int4" if bits == 4 else "int8" if bits == 8 else ""
