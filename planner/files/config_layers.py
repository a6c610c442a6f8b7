"""The layers of a Hugging Face config: which sort each is, and the layer kinds they make together.

Everything is decided by the features a config declares (a low-rank latent, a list of layer types, a count of experts),
never by the name of a model.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from planner.files import config_blocks as blocks
from planner.files import config_mixers as mixers
from planner.files import config_odd as odd
from planner.files.config_blocks import Block
from planner.files.config_families import EVERY_LAYER
from planner.files.config_keys import Config
from planner.records import DenseFeedForward, FeedForward, LayerKind, Mixer

MOST_LAYERS = 10_000
FULL, WINDOW, LINEAR, MAMBA, CONV, BOTH = "full", "window", "linear", "mamba", "conv", "both"
LAYER_WORDS = {
    "full_attention": FULL, "attention": FULL, "global": FULL, "global_attention": FULL, "sliding_attention": WINDOW,
    "chunked_attention": WINDOW, "local": WINDOW, "local_attention": WINDOW, "linear_attention": LINEAR,
    "lightning_attention": LINEAR, "mamba": MAMBA, "mamba2": MAMBA, "conv": CONV, "hybrid": BOTH,
}  # fmt: skip


@dataclass(slots=True)
class Layers:
    """Every block of a decoder, and what cannot be told block by block."""

    blocks: list[Block]
    declared: int
    side_parameters: int = 0
    reused_parameters: int = 0

    def kinds(self) -> tuple[LayerKind, ...]:
        """Equal blocks counted together, in order of first appearance."""
        counted = Counter(self.blocks)
        return tuple(LayerKind(count, block.mixer, block.feed_forward) for block, count in counted.items())

    def borrowed(self) -> tuple[bool, ...]:
        """Per kind, whether it has no keys and values of its own; empty when each has."""
        flags = tuple(block.borrowed_kv for block in Counter(self.blocks))
        return flags if any(flags) else ()


def read_layers(config: Config, hidden: int) -> Layers:
    """The layers of a decoder. Faults are left in `config`."""
    layers = _layer_count(config)
    config.layers = layers
    found = _read_blocks(config, hidden, layers, draft_layers(config))
    config.layer = None
    side = odd.side_parameters(config, hidden, layers) + odd.image_layer_parameters(config, hidden, layers)
    return Layers(found, layers, side, odd.reused_parameters(config, hidden, found))


def _read_blocks(config: Config, hidden: int, layers: int, spare: int) -> list[Block]:
    if config.has("zero_expert_num"):
        return odd.doubled_blocks(config, hidden, layers)
    listed = config.value("block_configs") or []
    if listed:
        if (
            not isinstance(listed, list)
            or len(listed) != layers
            or not all(isinstance(entry, dict) for entry in listed)
        ):
            config.fault(f"block_configs: want one mapping for each of {layers} layers")
            return []
        if any("attention" in entry or "ffn" in entry for entry in listed):
            return odd.searched_blocks(config, hidden, listed)
        config.overrides = dict(enumerate(listed))  # Puzzle: sizes that differ by layer
        config.value("block_type")
    single = odd.state_space_blocks(config, hidden, layers) or odd.single_blocks(config, hidden, layers)
    return _blocks(config, hidden, layers, spare) if single is None else single


def _layer_count(config: Config) -> int:
    listed = config.value("layers_block_type") or config.value("hybrid_override_pattern") or ()
    number = len(listed) if isinstance(listed, list | str) and listed else None
    return config.whole("num_hidden_layers", "n_layer", "num_layers", "n_layers", default=number, largest=MOST_LAYERS)


def draft_layers(config: Config) -> int:
    """Multi-token-prediction layers of the checkpoint."""
    declared = config.whole(
        "num_nextn_predict_layers", "mtp_num_hidden_layers", "mtp_num_layers", default=0, smallest=0
    )
    modules = config.whole("num_mtp_modules", default=0, smallest=0)
    config.value("mtp_hybrid_override_pattern", "mtp_layers_block_type")
    return declared or modules * config.whole("mtp_transformer_layers", default=0, smallest=0)


# -------------------------------------------------------------------------------------------------- layers of two parts


def _blocks(config: Config, hidden: int, layers: int, spare: int) -> list[Block]:
    words, mixer_of = _mixer_reader(config, hidden, layers, spare)
    sparse = blocks.expert_layers(config, layers, spare) if blocks.has_experts(config) else None
    borrowed = _borrowed(config, layers)
    passed_by = odd.image_layers(config, layers)
    found: list[Block] = []
    for layer, word in enumerate(words):
        if layer in passed_by:
            continue
        config.layer = layer
        block = _feed_forward(config, hidden, sparse, layer, borrowed[layer])
        if word == MAMBA and BOTH in words:  # Zamba2: only the shared blocks feed forward
            block = None
        if word == BOTH:
            found += _beside(config, hidden, block)
        else:
            found.append(Block(mixer_of(layer, word), block, borrowed[layer]))
    if sparse is None or all(sparse):  # keys that say nothing here
        config.value("mlp_only_layers", "decoder_sparse_step", "intermediate_size_mlp", "moe_intermediate_size")
    return found


def _feed_forward(config: Config, hidden: int, sparse: list[bool] | None, layer: int, borrows: bool) -> FeedForward:
    if sparse is not None and sparse[layer]:
        return blocks.experts(config, hidden)
    block = blocks.dense(config, hidden, beside_experts=sparse is not None)
    double = config.flag("use_double_wide_mlp", default=False) and borrows
    return DenseFeedForward(2 * block.intermediate, block.gated) if double else block


def _beside(config: Config, hidden: int, block: FeedForward) -> list[Block]:
    """Attention and a recurrent mixer of the same layer, as two blocks, of which the second feeds forward."""
    return [
        Block(mixers.mamba(config, hidden), None),
        Block(mixers.softmax(config, hidden, windowed=False), block),
    ]


def _borrowed(config: Config, layers: int) -> list[bool]:
    """Which layers read the keys and values of another: the last so many, or all but one of every so many."""
    last = config.whole("num_kv_shared_layers", default=0, smallest=0, largest=layers)
    factor = config.whole("cla_share_factor", default=1)
    if not config.flag("use_cla", default=False):
        factor = 1
    return [layer >= layers - last or layer % factor != 0 for layer in range(layers)]


MixerOf = Callable[[int, str], Mixer]


def _mixer_reader(config: Config, hidden: int, layers: int, spare: int) -> tuple[list[str], MixerOf]:
    """A word for each layer, and what turns a layer and its word into a mixer."""
    if config.has("compress_ratios"):
        ratios = config.per_layer("compress_ratios", layers, max(spare, 1)) or [0] * layers
        if not all(isinstance(ratio, int) and ratio >= 0 for ratio in ratios):
            config.fault("compress_ratios: not a list of whole numbers")
            ratios = [0] * layers
        return [FULL] * layers, lambda layer, _: mixers.compressed(config, ratios[layer])
    if config.has("kv_lora_rank"):
        return _latent_reader(config, hidden, layers, spare)
    if config.has("share_q_dim"):
        return [FULL] * layers, lambda *_: mixers.shared_query(config)
    sparse = config.mapping("sparse_attention_config")
    if sparse.get("sparse_topk_blocks") and sparse.get("use_sparse_attention", True):
        return [FULL] * layers, _block_sparse_reader(config, hidden, layers)
    builders: dict[str, Callable[[], Mixer]] = {
        FULL: lambda: mixers.softmax(config, hidden, windowed=False),
        WINDOW: lambda: mixers.softmax(config, hidden, windowed=True),
        LINEAR: lambda: mixers.linear(config, hidden),
        MAMBA: lambda: mixers.mamba(config, hidden),
        CONV: lambda: mixers.short_convolution(config, hidden),
    }
    return _layer_words(config, layers, spare), lambda _, word: builders[word]()


def _block_sparse_reader(config: Config, hidden: int, layers: int) -> MixerOf:
    sparse = config.mapping("sparse_attention_config")
    chosen = sparse.get("sparse_attention_freq")
    if not isinstance(chosen, list) or len(chosen) < layers:
        config.fault(f"sparse_attention_config.sparse_attention_freq: want one entry for each of {layers} layers")
        chosen = [1] * layers

    def read(layer: int, _: str) -> Mixer:
        if chosen[layer]:
            return mixers.block_sparse(config, hidden, sparse)
        return mixers.softmax(config, hidden, windowed=False)

    return read


def _latent_reader(config: Config, hidden: int, layers: int, spare: int) -> tuple[list[str], MixerOf]:
    linear = config.value("linear_attn_config")
    if isinstance(linear, dict):
        return _delta_reader(config, hidden, Config(linear, {}), layers)
    if linear is not None:
        config.fault("linear_attn_config is not a mapping")
    if config.has("layer_group_size"):
        words = _grouped(config, layers)
        return words, lambda _, word: mixers.linear(config, hidden) if word == LINEAR else mixers.latent(config, hidden)
    words = [str(word) for word in config.per_layer("indexer_types", layers, spare) or ["full"] * layers]
    unknown = sorted(set(words) - {"full", "shared"})
    if unknown:
        config.fault(f"indexer_types: {', '.join(unknown)} not understood; known: full, shared")

    def read(_: int, word: str) -> Mixer:
        mixer = mixers.latent(config, hidden)
        return mixers.without_indexer(mixer) if word == "shared" else mixer

    return words, read


def _delta_reader(config: Config, hidden: int, inner: Config, layers: int) -> tuple[list[str], MixerOf]:
    """Kimi Linear: numbered layers (from 1) are either delta attention or latent attention."""
    full, delta = set(inner.numbers("full_attn_layers")), set(inner.numbers("kda_layers"))
    mixer = mixers.delta_of(inner)
    mixers.inherit(config, inner, "linear_attn_config")
    if full | delta != set(range(1, layers + 1)) or full & delta:
        config.fault(f"linear_attn_config: full_attn_layers and kda_layers do not cover layers 1 to {layers} once each")
    words = [LINEAR if layer in delta else FULL for layer in range(1, layers + 1)]
    return words, lambda _, word: mixer if word == LINEAR else mixers.latent(config, hidden)


# ---------------------------------------------------------------------------------------------------- which sort is it


def _layer_words(config: Config, layers: int, spare: int) -> list[str]:
    """The sort of each layer, from whichever way the config says it."""
    for key in ("layer_types", "layers_block_type"):
        words = config.per_layer(key, layers, spare)
        if words is not None:
            return _known_words(config, key, words, layers)
    kinds = config.numbers("attn_type_list")
    if kinds:
        unknown = sorted(set(kinds) - {0, 1})
        if unknown or len(kinds) < layers:
            config.fault("attn_type_list: want 0 (linear attention) or 1 (softmax attention) for each layer")
            return [FULL] * layers
        return [LINEAR if kind == 0 else FULL for kind in kinds[:layers]]
    flags = config.per_layer("hybrid_layer_pattern", layers, spare)
    if flags is not None:
        return [WINDOW if flag else FULL for flag in flags]
    if config.has("layer_group_size"):
        return _grouped(config, layers)
    if config.has("full_attention_interval") and config.has("linear_num_value_heads"):
        return _every(config.whole("full_attention_interval"), layers, LINEAR)
    return _mamba_words(config, layers) or _window_words(config, layers)


def _known_words(config: Config, key: str, words: Sequence[object], layers: int) -> list[str]:
    unknown = sorted({str(word) for word in words} - set(LAYER_WORDS))
    if unknown:
        config.fault(f"{key}: {', '.join(unknown)} not understood; known: {', '.join(LAYER_WORDS)}")
        return [FULL] * layers
    kinds = [LAYER_WORDS[str(word)] for word in words]
    config.value("full_attention_interval", "sliding_window_pattern", "_sliding_window_pattern", "hybrid_layer_ids")
    config.value("full_attn_idxs", "attn_layer_period", "attn_layer_offset", "attn_layer_indices")
    return kinds if mixers.window_tokens(config) else [FULL if kind == WINDOW else kind for kind in kinds]


def _mamba_words(config: Config, layers: int) -> list[str]:
    if config.flag("mamba_beside_attention", default=False):
        config.note("each layer runs attention and a state-space mixer side by side; they are listed as two blocks")
        return [BOTH] * layers
    if config.has("attn_layer_indices"):
        attention = set(config.numbers("attn_layer_indices"))
        return [FULL if layer in attention else MAMBA for layer in range(layers)]
    if config.has("full_attn_idxs") and config.has("conv_L_cache"):
        attention = set(config.numbers("full_attn_idxs"))
        return [FULL if layer in attention else CONV for layer in range(layers)]
    if config.has("attn_layer_period"):
        period, offset = config.whole("attn_layer_period"), config.whole("attn_layer_offset", default=0, smallest=0)
        return [FULL if layer % period == offset else MAMBA for layer in range(layers)]
    return []


def _window_words(config: Config, layers: int) -> list[str]:
    if not mixers.window_tokens(config):
        config.value("sliding_window_pattern", "_sliding_window_pattern")
        return [FULL] * layers
    if config.value("full_every", "sliding_window_pattern", "_sliding_window_pattern", "use_sliding_window") is None:
        config.fault("sliding_window is set, but nothing says which layers use it (layer_types)")
        return [FULL] * layers
    letters = config.value("sliding_window_pattern")
    if isinstance(letters, str) and letters and set(letters) <= {"L", "G"}:  # EXAONE 4: LLLG
        return [WINDOW if letters[layer % len(letters)] == "L" else FULL for layer in range(layers)]
    if config.flag("use_sliding_window", default=False):  # Qwen2: the first layers keep the whole context
        first = config.whole("max_window_layers", smallest=0)
        return [WINDOW if layer >= first else FULL for layer in range(layers)]
    every = config.whole("sliding_window_pattern", "_sliding_window_pattern", "full_every", smallest=EVERY_LAYER)
    return _every(every, layers, WINDOW)


def _every(interval: int, layers: int, other: str) -> list[str]:
    return [FULL if interval and (layer + 1) % interval == 0 else other for layer in range(layers)]


def _grouped(config: Config, layers: int) -> list[str]:
    """The last layer of each group, and every layer after the last whole group, has full attention (Ling)."""
    size = config.whole("layer_group_size")
    whole = layers // size * size
    return [FULL if (layer + 1) % size == 0 or layer >= whole else LINEAR for layer in range(layers)]
