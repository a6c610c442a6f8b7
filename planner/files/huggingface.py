"""A Hugging Face config.json -> the shape of the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from planner.errors import Fault, InputError
from planner.files.config_families import FAMILY_DEFAULTS, NESTED_DEFAULTS
from planner.files.config_formats import checkpoint_format
from planner.files.config_keys import Config
from planner.files.config_layers import draft_layers, read_layers
from planner.records import ModelShape

LARGEST_HIDDEN = 1_000_000
LARGEST_CONTEXT = 1_000_000_000
WRAPPERS = ("thinker_config", "text_config", "llm_config", "language_config", "text_model_config", "language_model")
FLATTENED = ("attn_config", "ffn_config")  # DBRX and MPT
FROM_WRAPPER = ("tie_word_embeddings", "quantization_config", "torch_dtype", "dtype", "vocab_size", "expert_dtype")
DECODER_ENDINGS = ("ForCausalLM", "LMHeadModel", "ForConditionalGeneration", "ForImageTextToText", "ChatModel")
DECODER_NAMES = (
    "ChatGLMModel", "BloomModel", "GPTNeoXModel", "MiniCPMV", "MiniCPMO", "Qwen2_5OmniModel", "NVLM_D",
    "NemotronH_Nano_VL_V2", "Llama_Nemotron_Nano_VL",
)  # fmt: skip
HIDDEN = ("hidden_size", "n_embd", "d_model", "n_embed", "dim")
CONTEXT = (
    "max_position_embeddings", "n_positions", "max_sequence_length", "seq_length", "model_max_length", "max_seq_len",
    "max_seq_length", "n_ctx",
)  # fmt: skip
# Features with a known meaning that the record of a shape cannot hold.
NOT_COUNTED = {
    "attention_window_size": "recurrent layers of the Griffin family",
    "engram_layers": "layers that look tokens up in a memory of n-grams",
}

# Features that change the counts by less than a thousandth: said, not counted.
NOTED = {
    "hc_mult": "residual streams mixed between layers (hyper-connections): their small matrices are not counted",
    "num_hash_layers": "first layers route tokens by a hash, not by a router: routers are counted all the same",
    "attn_res_block_size": "attention across the outputs of earlier layers: its small matrices are not counted",
    "vision_lora": "adapters for images are not counted",
    "speech_lora": "adapters for sound are not counted",
    "altup_active_idx": "parallel residual streams: counted with the per-layer embeddings",
}

# Encoders of images and sound, and what their sizes are called.
ENCODERS = (
    "vision_config", "vit_config", "vision_tower_config", "audio_config", "sound_config", "audio_encoder_config",
)  # fmt: skip
_ENCODER_WIDTHS = ("embed_dim", "vt_hidden_size", "hidden_size", "d_model", "width")
_ENCODER_DEPTHS = (
    "num_hidden_layers", "vt_num_hidden_layers", "depth", "encoder_layers", "layers", "conf_num_hidden_layers",
)  # fmt: skip
_ENCODER_INNER = ("intermediate_size", "vt_intermediate_size", "encoder_ffn_dim")

BY_HAND = """\
to plan it all the same, describe it by hand and give that file in place of the config (keys: models/README.md):
    id: {id}                  # = the name of the file, {stem}.yaml
    architecture: {family}
    source: where the sizes are from
    hidden: {hidden}
    vocabulary: {vocabulary}
    tied_embeddings: false
    max_context_tokens: {context}
    layers:
      - count: {layers}
        mixer: {{kind: softmax, query_heads: {heads}, kv_heads: {kv_heads}, key_dim: {dim}, value_dim: {dim}}}
        feed_forward: {{kind: dense, intermediate: {width}}}"""


def shape_from_config(config: Mapping[str, Any], model_id: str) -> ModelShape:
    """The shape a config.json declares.

    Parameters
    ----------
    config
        The file's content, with a `text_config` inside or not.
    model_id
        What to call the model; it decides nothing else.

    Raises InputError: every reason why the file does not describe a decoder that can be counted: missing or impossible
    sizes, an adapter, an encoder, features that are not understood; for those with a file to describe the model by
    hand. Nothing is filled in silently: what a family's config class takes for granted is listed in `config_families`.
    """
    _refuse_other_files(config)
    levels = _levels(config)
    values, nested = _decoder_values(levels), len(levels) > 1
    family = str(values.get("model_type") or config.get("model_type") or "")
    keys = Config(values, FAMILY_DEFAULTS.get(family, {}), NESTED_DEFAULTS.get(family) if nested else None)
    hidden = keys.whole(*HIDDEN, largest=LARGEST_HIDDEN)
    layers = read_layers(keys, hidden)
    encoders, encoder_notes = _encoder_parameters({key: value for level in levels for key, value in level.items()})
    stored = checkpoint_format(keys)
    kinds = layers.kinds()
    shape = ModelShape(
        id=model_id,
        architecture=family or _architectures(config)[0],
        hidden=hidden,
        vocabulary=keys.whole("vocab_size", "padded_vocab_size"),
        layers=kinds,
        tied_embeddings=keys.flag("tie_word_embeddings", "tie_embedding"),
        max_context_tokens=keys.whole(*CONTEXT, largest=LARGEST_CONTEXT),
        checkpoint_format=stored.weights,
        draft_layers=draft_layers(keys),
        declared_layers=layers.declared if layers.declared != sum(kind.count for kind in kinds) else 0,
        borrowed_kv=layers.borrowed(),
        side_parameters=layers.side_parameters,
        reused_parameters=layers.reused_parameters,
        encoder_parameters=encoders,
        checkpoint_other_format=stored.other,
    )
    for key, meaning in NOTED.items():
        if keys.has(key):
            keys.note(f"{key}: {meaning}")
    keys.value("hc_sinkhorn_iters", "altup_lr_multiplier")
    _raise_faults(keys, values, shape)
    return _with_notes(shape, keys, encoder_notes)


def _with_notes(shape: ModelShape, keys: Config, more: list[str]) -> ModelShape:
    unread = keys.unread_sizes()
    if unread:
        more = [*more, f"not read, and taken to leave the shape alone: {', '.join(unread)}"]
    return replace(shape, notes=tuple(dict.fromkeys([*keys.notes, *more])))


def _refuse_other_files(config: Mapping[str, Any]) -> None:
    if "peft_type" in config or "base_model_name_or_path" in config:
        base = config.get("base_model_name_or_path")
        named = f' "{base}"' if isinstance(base, str) and base else ""
        raise InputError(f"this is the config of an adapter; give its base model{named}")
    if "_class_name" in config or "_diffusers_version" in config:
        name = config.get("_class_name")
        raise InputError(f"{name or 'this'} is a part of a diffusion pipeline; only decoders of text are planned")
    if "weight_map" in config:
        raise InputError("this is the index of weight files; give the config.json beside it")
    names = _architectures(config)
    if config.get("is_encoder_decoder") is True:
        raise InputError(f"{', '.join(names) or 'this model'} has an encoder and a decoder; only decoders are planned")
    if names and not any(name.endswith(DECODER_ENDINGS) or name in DECODER_NAMES for name in names):
        raise InputError(f"{', '.join(names)} generates no text token by token; only decoders are planned")
    if not names and not config.get("model_type"):
        raise InputError("this is not the config.json of a model: it has neither architectures nor model_type")


def _architectures(config: Mapping[str, Any]) -> list[str]:
    names = config.get("architectures")
    return [str(name) for name in names] if isinstance(names, list) else []


def _levels(config: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The file and the parts of it that describe the decoder, from the outermost inwards."""
    levels = [config]
    while len(levels) <= len(WRAPPERS):
        name = next((name for name in WRAPPERS if levels[-1].get(name) is not None), None)
        if name is None:
            break
        inner = levels[-1][name]
        if not isinstance(inner, dict):
            raise InputError(f"{name} is not a mapping")
        levels.append(inner)
    return levels


def _decoder_values(levels: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The keys of the text decoder: those of the innermost level, and a few that may stand outside of it."""
    values = {key: level[key] for level in levels[:-1] for key in FROM_WRAPPER if level.get(key) is not None}
    values |= {key: value for key, value in levels[-1].items() if value is not None or len(levels) == 1}
    for name in FLATTENED:
        inner = values.get(name)
        if isinstance(inner, dict):
            values = {**{key: value for key, value in inner.items() if key != "model_type"}, **values}
            values.pop(name, None)
    return values


def _raise_faults(keys: Config, values: Mapping[str, Any], shape: ModelShape) -> None:
    unread = keys.unread_structure()
    odd = [f"{key}: {NOT_COUNTED[key]} cannot be counted yet" for key in unread if key in NOT_COUNTED]
    others = [key for key in unread if key not in NOT_COUNTED]
    if others:
        odd.append(f"not understood, and may change the shape of the model: {', '.join(others)}")
    faults = [*odd, *dict.fromkeys(keys.faults)]
    if not faults:
        return
    strange = odd or shape.architecture not in FAMILY_DEFAULTS or any(_unknown_part(fault) for fault in faults)
    raise InputError([Fault(fault) for fault in (*faults, *([_by_hand(shape, values)] if strange else []))])


def _unknown_part(fault: str) -> bool:
    return "understood" in fault and not fault.startswith(("quantization_config", "torch_dtype"))


def _by_hand(shape: ModelShape, values: Mapping[str, Any]) -> str:
    """The least model file, with the sizes that could be read."""
    from planner.records import DenseFeedForward, Experts, SoftmaxAttention

    kind = shape.layers[0] if shape.layers else None
    mixer = kind.mixer if kind and isinstance(kind.mixer, SoftmaxAttention) else SoftmaxAttention(32, 8, 128, 128)
    block = kind.feed_forward if kind else None
    width = block.intermediate if isinstance(block, DenseFeedForward | Experts) else 4 * shape.hidden
    return BY_HAND.format(
        id=shape.id,
        stem=shape.id.replace("/", "--"),
        family=shape.architecture,
        hidden=shape.hidden,
        vocabulary=shape.vocabulary,
        context=shape.max_context_tokens,
        layers=values.get("num_hidden_layers") or 1,
        heads=mixer.query_heads,
        kv_heads=mixer.kv_heads,
        dim=mixer.key_dim,
        width=width,
    )


# ------------------------------------------------------------------------------------------------------------ encoders


def _encoder_parameters(config: Mapping[str, Any]) -> tuple[int, list[str]]:
    """Parameters of the encoders' layers, and what to say of them. Patch embeddings and projectors are left out."""
    total, notes = 0, []
    for name in ENCODERS:
        encoder = config.get(name)
        if not isinstance(encoder, dict) or not encoder:
            continue
        count = _parameters_of(encoder)
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


def _parameters_of(encoder: Mapping[str, Any]) -> int | None:
    width, depth = _first(encoder, _ENCODER_WIDTHS), _first(encoder, _ENCODER_DEPTHS)
    if not width or not depth:
        return None
    ratio = encoder.get("mlp_ratio")
    inner = _first(encoder, _ENCODER_INNER) or int(width * (ratio if isinstance(ratio, int | float) else 4))
    gate = encoder.get("hidden_act") in ("silu", "swiglu")
    return depth * (4 * width * width + (3 if gate else 2) * width * inner)


def _first(encoder: Mapping[str, Any], names: tuple[str, ...]) -> int:
    for name in names:
        value = encoder.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 1_000_000:
            return value
    return 0
