"""The layers of a Hugging Face config: what mixes tokens and what feeds forward, layer by layer.

Everything is decided by the features a config declares (a low-rank latent, a list of layer types, a count of experts),
never by the name of a model.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable

from planner.files.config_families import EVERY_LAYER
from planner.files.config_keys import Config
from planner.records import (
    DenseFeedForward,
    Experts,
    FeedForward,
    LatentAttention,
    LayerKind,
    Mixer,
    RecurrentMixer,
    SoftmaxAttention,
)

MOST_LAYERS = 10_000
FULL, WINDOW, LINEAR, MAMBA = "full", "window", "linear", "mamba"
LAYER_WORDS = {
    "full_attention": FULL,
    "attention": FULL,
    "sliding_attention": WINDOW,
    "chunked_attention": WINDOW,
    "linear_attention": LINEAR,
}
GATED_ACTIVATIONS = frozenset({"silu", "swish", "swiglu", "gelu_pytorch_tanh", "geglu"})
PLAIN_ACTIVATIONS = frozenset({"relu", "relu2", "gelu_new", "gelu_fast"})
EXPERT_COUNTS = ("n_routed_experts", "num_experts", "num_local_experts")


def read_layers(config: Config, hidden: int) -> tuple[LayerKind, ...]:
    """The layer kinds of a decoder, in order of first appearance. Faults are left in `config`."""
    layers = config.whole("num_hidden_layers", "n_layer", "num_layers", largest=MOST_LAYERS)
    if config.has("hybrid_override_pattern"):
        pairs = _pattern_layers(config, hidden, layers)
    else:
        mixers = _mixers(config, hidden, layers)
        feed_forwards = _feed_forwards(config, hidden, layers)
        pairs = list(zip(mixers, feed_forwards, strict=False))
    return tuple(LayerKind(count, mixer, block) for (mixer, block), count in Counter(pairs).items())


def _pattern_layers(config: Config, hidden: int, layers: int) -> list[tuple[Mixer | None, FeedForward]]:
    """Layers that hold one block each, spelled by letter: M Mamba-2, * attention, - dense, E experts (Nemotron-H)."""
    pattern = config.per_layer("hybrid_override_pattern", layers) or ""
    builders: dict[str, Callable[[], tuple[Mixer | None, FeedForward]]] = {
        "M": lambda: (_mamba2(config), None),
        "*": lambda: (_softmax(config, hidden, FULL), None),
        "-": lambda: (None, _dense(config, hidden)),
        "E": lambda: (None, _experts(config, hidden)),
    }
    unknown = sorted({str(letter) for letter in pattern} - set(builders))
    if unknown:
        config.fault(f"hybrid_override_pattern: letters {' '.join(unknown)} are not understood; known: M * - E")
        return []
    built = {letter: builders[letter]() for letter in sorted(set(pattern))}
    return [built[letter] for letter in pattern]


# ------------------------------------------------------------------------------------------------------------ mixers


def _mixers(config: Config, hidden: int, layers: int) -> list[Mixer]:
    if config.has("kv_lora_rank"):
        return _latent_mixers(config, hidden, layers)
    kinds = _layer_kinds(config, layers)
    builders: dict[str, Callable[[], Mixer]] = {
        FULL: lambda: _softmax(config, hidden, FULL),
        WINDOW: lambda: _softmax(config, hidden, WINDOW),
        LINEAR: lambda: _gated_delta(config),
        MAMBA: lambda: _mamba1(config, hidden),
    }
    built = {kind: builders[kind]() for kind in sorted(set(kinds))}
    return [built[kind] for kind in kinds]


def _layer_kinds(config: Config, layers: int) -> list[str]:
    """full, window, linear or mamba for each layer, from whichever way the config says it."""
    words = config.per_layer("layer_types", layers)
    if words is not None:
        unknown = sorted({str(word) for word in words} - set(LAYER_WORDS))
        if unknown:
            config.fault(f"layer_types: {', '.join(unknown)} not understood; known: {', '.join(LAYER_WORDS)}")
            return [FULL] * layers
        kinds = [LAYER_WORDS[word] for word in words]
        config.value("full_attention_interval", "sliding_window_pattern", "_sliding_window_pattern")
        return kinds if _window(config) else [FULL if kind == WINDOW else kind for kind in kinds]
    if any(kind != 1 for kind in config.numbers("attn_type_list")):
        config.fault("attn_type_list: layers of a kind other than 1 (softmax attention) cannot be counted yet")
    flags = config.per_layer("hybrid_layer_pattern", layers)
    if flags is not None:
        return [WINDOW if flag else FULL for flag in flags]
    if config.has("full_attention_interval") and config.has("linear_num_value_heads"):
        return _every(config.whole("full_attention_interval"), layers, LINEAR)
    if config.has("attn_layer_period"):
        period, offset = config.whole("attn_layer_period"), config.whole("attn_layer_offset", default=0, smallest=0)
        return [FULL if layer % period == offset else MAMBA for layer in range(layers)]
    return _window_kinds(config, layers)


def _window_kinds(config: Config, layers: int) -> list[str]:
    if not _window(config):
        return [FULL] * layers
    if config.value("full_every", "sliding_window_pattern", "_sliding_window_pattern", "use_sliding_window") is None:
        config.fault("sliding_window is set, but nothing says which layers use it (layer_types)")
        return [FULL] * layers
    if config.flag("use_sliding_window", default=False):  # Qwen2: the first layers keep the whole context
        first = config.whole("max_window_layers", smallest=0)
        return [WINDOW if layer >= first else FULL for layer in range(layers)]
    every = config.whole("sliding_window_pattern", "_sliding_window_pattern", "full_every", smallest=EVERY_LAYER)
    return _every(every, layers, WINDOW)


def _every(interval: int, layers: int, other: str) -> list[str]:
    return [FULL if interval and (layer + 1) % interval == 0 else other for layer in range(layers)]


def _window(config: Config) -> int:
    """Tokens a windowed layer sees; 0 when no layer has a window or it never binds."""
    used = config.flag("use_sliding_window", default=True)
    window = config.whole("sliding_window", "attention_chunk_size", default=0, smallest=0)
    context = config.value("max_position_embeddings")
    binds = not isinstance(context, int) or window < context
    return window if used and binds else 0


def _softmax(config: Config, hidden: int, kind: str) -> SoftmaxAttention:
    heads = config.whole("num_attention_heads", "n_head", "num_heads")
    kv_heads = _kv_heads(config, heads)
    key_dim = config.whole("head_dim", "attention_head_dim", default=max(hidden // heads, 1))
    if hidden % heads and not config.has("head_dim", "attention_head_dim"):
        config.fault(f"head_dim is missing, and hidden size {hidden} is no multiple of {heads} heads")
    value_dim = config.whole("v_head_dim", default=key_dim)
    if kind == WINDOW and config.has("swa_num_key_value_heads"):
        heads = config.whole("swa_num_attention_heads", default=heads)
        kv_heads = config.whole("swa_num_key_value_heads")
        key_dim = config.whole("swa_head_dim", default=key_dim)
        value_dim = config.whole("swa_v_head_dim", default=value_dim)
    if kind == FULL and config.has("global_head_dim"):
        key_dim = value_dim = config.whole("global_head_dim")
        kv_heads = config.whole("num_global_key_value_heads", default=kv_heads)
        if config.flag("attention_k_eq_v", default=False):
            config.note("global layers may share storage of keys and values (attention_k_eq_v); both are counted")
    if heads % kv_heads:
        config.fault(f"num_key_value_heads: {kv_heads} does not divide {heads} query heads")
    gate = config.flag("attn_output_gate", default=False)
    bias = config.flag("attention_bias", "qkv_bias", "bias", default=False)
    return SoftmaxAttention(heads, kv_heads, key_dim, value_dim, _window(config) if kind == WINDOW else 0, gate, bias)


def _kv_heads(config: Config, heads: int) -> int:
    if config.value("multi_query") is not None:  # Falcon: `num_kv_heads` counts only in its newer architecture
        grouped = config.flag("new_decoder_architecture", default=False)
        declared = config.whole("num_kv_heads", default=heads)
        if grouped:
            return declared
        return 1 if config.flag("multi_query") else heads
    if config.value("num_key_value_heads", "num_kv_heads") is None:
        config.note(f"no num_key_value_heads: each of {heads} query heads has its own keys and values")
        return heads
    return config.whole("num_key_value_heads", "num_kv_heads")


def _latent_mixers(config: Config, hidden: int, layers: int) -> list[Mixer]:
    config.value("num_key_value_heads", "head_dim")  # present for compatibility, without meaning under a latent
    sparse = config.has("index_topk")
    own_index = LatentAttention(
        query_heads=config.whole("num_attention_heads"),
        query_rank=config.whole("q_lora_rank", default=0, smallest=0),
        kv_rank=config.whole("kv_lora_rank"),
        nope_dim=config.whole("qk_nope_head_dim"),
        rope_dim=config.whole("qk_rope_head_dim"),
        value_dim=config.whole("v_head_dim", default=_minicpm_value_dim(config, hidden)),
        index_heads=config.whole("index_n_heads") if sparse else 0,
        index_dim=config.whole("index_head_dim") if sparse else 0,
        index_top_k=config.whole("index_topk") if sparse else 0,
    )
    linear = config.value("linear_attn_config")
    if linear is not None:
        return _kimi_mixers(config, linear, own_index, layers)
    shared = config.per_layer("indexer_types", layers) if sparse else None
    if shared is None:
        return [own_index] * layers
    # A layer that shares an indexer attends to the tokens another layer chose: no index weights or keys of its own.
    borrowed = _without_index(own_index)
    unknown = sorted({str(word) for word in shared} - {"full", "shared"})
    if unknown:
        config.fault(f"indexer_types: {', '.join(unknown)} not understood; known: full, shared")
    return [own_index if word == "full" else borrowed for word in shared]


def _minicpm_value_dim(config: Config, hidden: int) -> int | None:
    """Without `v_head_dim`, values are as wide as an even share of the hidden size."""
    heads = config.value("num_attention_heads")
    return hidden // heads if isinstance(heads, int) and heads > 0 and hidden % heads == 0 else None


def _without_index(mixer: LatentAttention) -> LatentAttention:
    return LatentAttention(
        mixer.query_heads,
        mixer.query_rank,
        mixer.kv_rank,
        mixer.nope_dim,
        mixer.rope_dim,
        mixer.value_dim,
        index_top_k=mixer.index_top_k,
    )


def _kimi_mixers(config: Config, linear: object, latent: LatentAttention, layers: int) -> list[Mixer]:
    """Kimi Linear: numbered layers (from 1) are either delta attention or latent attention."""
    if not isinstance(linear, dict):
        config.fault("linear_attn_config is not a mapping")
        return [latent] * layers
    inner = Config(linear, {})
    full, delta = set(inner.numbers("full_attn_layers")), set(inner.numbers("kda_layers"))
    heads, dim = inner.whole("num_heads"), inner.whole("head_dim")
    mixer = RecurrentMixer(heads, heads, dim, dim, inner.whole("short_conv_kernel_size", default=0, smallest=0), "kda")
    for key in inner.unread_structure():
        config.fault(f"linear_attn_config.{key} is not understood, and may change the shape of the model")
    for fault in inner.faults:
        config.fault(f"linear_attn_config.{fault}")
    if full | delta != set(range(1, layers + 1)) or full & delta:
        config.fault(f"linear_attn_config: full_attn_layers and kda_layers do not cover layers 1 to {layers} once each")
    return [mixer if layer in delta else latent for layer in range(1, layers + 1)]


def _gated_delta(config: Config) -> RecurrentMixer:
    return RecurrentMixer(
        key_heads=config.whole("linear_num_key_heads"),
        value_heads=config.whole("linear_num_value_heads"),
        key_dim=config.whole("linear_key_head_dim"),
        value_dim=config.whole("linear_value_head_dim"),
        conv_tokens=config.whole("linear_conv_kernel_dim"),
    )


def _mamba1(config: Config, hidden: int) -> RecurrentMixer:
    channels = config.whole("mamba_expand") * hidden
    step_rank = config.value("mamba_dt_rank")
    if step_rank not in (None, "auto", math.ceil(hidden / 16)):
        config.fault(f"mamba_dt_rank: {step_rank!r} is not the usual hidden size / 16 = {math.ceil(hidden / 16)}")
    return RecurrentMixer(1, channels, config.whole("mamba_d_state"), 1, config.whole("mamba_d_conv"), "mamba1")


def _mamba2(config: Config) -> RecurrentMixer:
    config.value("expand")  # the inner width is heads x head width
    return RecurrentMixer(
        key_heads=config.whole("n_groups", "mamba_n_groups"),
        value_heads=config.whole("mamba_num_heads"),
        key_dim=config.whole("ssm_state_size"),
        value_dim=config.whole("mamba_head_dim"),
        conv_tokens=config.whole("conv_kernel"),
        kind="mamba2",
    )


# ------------------------------------------------------------------------------------------------------ feed-forward


def _feed_forwards(config: Config, hidden: int, layers: int) -> list[FeedForward]:
    if not config.has(*EXPERT_COUNTS) or config.value("enable_moe_block") is False:
        config.value("mlp_only_layers", "decoder_sparse_step")
        return [_dense(config, hidden)] * layers
    sparse = _expert_layers(config, layers)
    experts = _experts(config, hidden)
    config.value("intermediate_size_mlp")  # says nothing where every layer has experts
    dense = _dense(config, hidden, "intermediate_size_mlp") if not all(sparse) else None
    return [experts if is_sparse else dense for is_sparse in sparse]


def _expert_layers(config: Config, layers: int) -> list[bool]:
    """Which layers have experts: every rule the config states must agree."""
    sparse = [True] * layers
    first = config.whole("first_k_dense_replace", default=0, smallest=0)
    every = config.value("moe_layer_freq")
    flags = config.per_layer("moe_layer_freq", layers) if isinstance(every, list) else None
    frequency = 1 if flags is not None else config.whole("moe_layer_freq", default=1)
    step = config.whole("decoder_sparse_step", "interleave_moe_layer_step", default=1)
    period = config.whole("expert_layer_period", default=1)
    offset = config.whole("expert_layer_offset", default=0, smallest=0)
    words = config.per_layer("mlp_layer_types", layers)
    dense_only = set(config.numbers("mlp_only_layers"))
    expert_only = set(config.numbers("moe_layers")) or set(range(layers))
    for layer in range(layers):
        sparse[layer] = (
            layer >= first
            and layer % frequency == 0
            and (layer + 1) % step == 0
            and layer % period == offset % period
            and layer in expert_only - dense_only
            and (flags is None or bool(flags[layer]))
            and (words is None or words[layer] != "dense")
        )
    return sparse


def _gated(config: Config) -> bool:
    known = config.value("gated")
    activation = config.text("mlp_hidden_act", "hidden_act", "hidden_activation", "activation_function")
    if isinstance(known, bool):
        return known
    if activation in PLAIN_ACTIVATIONS:
        return False
    if activation and activation not in GATED_ACTIVATIONS:
        config.fault(f"hidden_act: cannot tell whether a feed-forward block with {activation} has a gate")
    return True


def _dense(config: Config, hidden: int, *names: str) -> DenseFeedForward:
    factor = config.whole("width_factor", default=0, smallest=0)
    width = config.whole(*names, "intermediate_size", "n_inner", "ffn_hidden_size", default=factor * hidden or None)
    return DenseFeedForward(width, _gated(config))


def _experts(config: Config, hidden: int) -> Experts:
    experts = config.whole(*EXPERT_COUNTS)
    top_k = config.whole("num_experts_per_tok", "num_experts_per_token", "experts_per_token", "top_k_experts")
    width = config.whole("moe_intermediate_size", "intermediate_size")
    if top_k > experts:
        config.fault(f"num_experts_per_tok: {top_k} is more than {experts} experts")
    return Experts(experts, top_k, width, _shared_width(config, hidden, width), _gated(config))


def _shared_width(config: Config, hidden: int, expert_width: int) -> int:
    """Width of everything that runs beside the routed experts, summed."""
    width = config.whole(
        "shared_expert_intermediate_size",
        "moe_shared_expert_intermediate_size",
        "share_expert_dim",
        "shared_intermediate_size",
        default=0,
        smallest=0,
    )
    shared_experts = config.whole("n_shared_experts", "num_shared_experts", default=0, smallest=0)
    if not width:
        width = shared_experts * expert_width
    if config.flag("dense_beside_experts", "shared_is_dense", default=False):
        width += _dense(config, hidden).intermediate
    return width
