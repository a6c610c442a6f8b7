"""The layers of a Hugging Face config: which sort each is, and the layer kinds they make together.

Everything is decided by the features a config declares (a low-rank latent, a list of layer types, a count of experts),
never by the name of a model.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from planner.files import config_blocks as blocks
from planner.files import config_mixers as mixers
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
PATTERN_LETTERS = {"M": "mamba", "*": "attention", "-": "mlp", "E": "moe"}


@dataclass(frozen=True, slots=True)
class Block:
    """One layer, or one part of it that stands alone; `borrowed_kv`: it reads the keys and values of others."""

    mixer: Mixer | None
    feed_forward: FeedForward
    borrowed_kv: bool = False


@dataclass(slots=True)
class Layers:
    """Every block of a decoder, and what cannot be told block by block."""

    blocks: list[Block]
    declared: int
    side_parameters: int = 0
    reused_parameters: int = 0
    notes: list[str] = field(default_factory=list)

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
    spare = draft_layers(config)
    if config.has("block_configs"):
        found = _configured_blocks(config, hidden, layers, spare)
    elif config.has("zero_expert_num"):
        found = _doubled_blocks(config, hidden, layers)
    else:
        found = _single_blocks(config, hidden, layers)
        found = _blocks(config, hidden, layers, spare) if found is None else found
    config.layer = None
    side = _side_parameters(config, hidden, layers)
    return Layers(found, layers, side, _reused_parameters(config, hidden, found))


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


# ------------------------------------------------------------------------------------------------- layers of one block


def _single_blocks(config: Config, hidden: int, layers: int) -> list[Block] | None:
    """Layers that hold one block each, spelled by letter or word (Nemotron-H); None when this model has none such."""
    pattern = config.per_layer("hybrid_override_pattern", layers)
    words = config.value("layers_block_type")
    if pattern is not None:
        unknown = sorted({str(letter) for letter in pattern} - set(PATTERN_LETTERS))
        if unknown:
            config.fault(f"hybrid_override_pattern: letters {' '.join(unknown)} are not understood; known: M * - E")
            return []
        words = [PATTERN_LETTERS[letter] for letter in pattern]
    elif config.has("hybrid_override_pattern"):
        return []
    elif not isinstance(words, list) or not {"moe", "mlp"} & {str(word) for word in words}:
        return None
    builders: dict[str, Callable[[], Block]] = {
        "mamba": lambda: Block(mixers.mamba(config, hidden), None),
        "linear_attention": lambda: Block(mixers.mamba(config, hidden), None),
        "attention": lambda: Block(mixers.softmax(config, hidden, windowed=False), None),
        "full_attention": lambda: Block(mixers.softmax(config, hidden, windowed=False), None),
        "mlp": lambda: Block(None, blocks.dense(config, hidden)),
        "moe": lambda: Block(None, blocks.experts(config, hidden)),
    }
    unknown = sorted({str(word) for word in words} - set(builders))
    if unknown:
        config.fault(f"layers_block_type: {', '.join(unknown)} not understood; known: {', '.join(builders)}")
        return []
    return [_at(config, layer, builders[word]) for layer, word in enumerate(words[:layers])]


def _at(config: Config, layer: int, build: Callable[[], Block]) -> Block:
    config.layer = layer
    return build()


# -------------------------------------------------------------------------------------------------- layers of two parts


def _blocks(config: Config, hidden: int, layers: int, spare: int) -> list[Block]:
    words, mixer_of = _mixer_reader(config, hidden, layers, spare)
    sparse = blocks.expert_layers(config, layers, spare) if blocks.has_experts(config) else None
    borrowed = _borrowed(config, layers)
    found: list[Block] = []
    for layer, word in enumerate(words):
        config.layer = layer
        block = _feed_forward(config, hidden, sparse, layer, borrowed[layer])
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
    words = config.per_layer("indexer_types", layers, spare) or ["full"] * layers
    unknown = sorted({str(word) for word in words} - {"full", "shared"})
    if unknown:
        config.fault(f"indexer_types: {', '.join(unknown)} not understood; known: full, shared")

    def read(_: int, word: str) -> Mixer:
        mixer = mixers.latent(config, hidden)
        return mixers.without_indexer(mixer) if word == "shared" else mixer

    return [str(word) for word in words], read


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


# ------------------------------------------------------------------------------------------------------ odd structures


def _doubled_blocks(config: Config, hidden: int, layers: int) -> list[Block]:
    """LongCat: a layer attends twice and has two dense blocks, with the experts beside the first."""
    found: list[Block] = []
    config.note("each layer attends twice; its halves are listed as two blocks")
    for layer in range(layers):
        config.layer = layer
        attention = mixers.latent(config, hidden)
        block, expert = blocks.dense(config, hidden), blocks.experts(config, hidden)
        wide = type(expert)(expert.experts, expert.top_k, expert.intermediate, block.intermediate, expert.gated)
        found += [Block(attention, wide), Block(attention, block)]
    return found


def _configured_blocks(config: Config, hidden: int, layers: int, spare: int) -> list[Block]:
    """Layers that searched architectures describe one by one (Nemotron NAS and Puzzle)."""
    listed = config.value("block_configs")
    if not isinstance(listed, list) or len(listed) != layers or not all(isinstance(entry, dict) for entry in listed):
        config.fault(f"block_configs: want one mapping for each of {layers} layers")
        return []
    if not any("attention" in entry or "ffn" in entry for entry in listed):
        config.overrides = dict(enumerate(listed))
        config.value("block_type")
        return _single_blocks(config, hidden, layers) or _blocks(config, hidden, layers, spare)
    found: list[Block] = []
    for layer, entry in enumerate(listed):
        config.layer = layer
        found += _searched_block(config, hidden, entry)
    return found


def _searched_block(config: Config, hidden: int, entry: dict[str, object]) -> list[Block]:
    attention, feed_forward = (Config(_mapping(entry.get(key)), {}) for key in ("attention", "ffn"))
    mixer: Mixer | None = None
    block: FeedForward = None
    extra: list[Block] = []
    if attention.flag("replace_with_linear", default=False):
        extra.append(Block(None, DenseFeedForward(max(hidden // 2, 1), gated=False)))  # one square matrix
    elif not attention.flag("no_op", default=False):
        group = attention.whole("n_heads_in_group", default=1)
        heads = config.whole(*mixers.HEADS)
        kv_heads = attention.whole("num_key_value_heads", default=max(heads // group, 1))
        config.overrides = {config.layer or 0: {"num_key_value_heads": kv_heads}}
        mixer = mixers.softmax(config, hidden, windowed=False)
    if feed_forward.flag("replace_with_linear", default=False):
        extra.append(Block(None, DenseFeedForward(max(hidden // 2, 1), gated=False)))
    elif not feed_forward.flag("no_op", default=False):
        factor = feed_forward.factor("ffn_mult", default=0.0)
        rounded = -(-int(2 * factor * hidden / 3) // 256) * 256  # as the model's own code rounds
        block = DenseFeedForward(feed_forward.whole("intermediate_size", default=rounded or None), blocks.gated(config))
    for inner, name in ((attention, "attention"), (feed_forward, "ffn")):
        inner.value(
            "sparsify", "window_length", "num_sink_tokens", "use_prefill_window_in_sink_attention", "parallel_blocks"
        )
        inner.value("unshifted_sink", "hidden_act", "gated", "llama4", "moe", "mamba", "head_dim")
        mixers.inherit(config, inner, f"block_configs.{name}")
    return [*([Block(mixer, block)] if mixer or block else []), *extra]


def _mapping(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}


def _side_parameters(config: Config, hidden: int, layers: int) -> int:
    """Per-layer embedding tables with their projections, and the small matrices that come with them (Gemma 3n, 4)."""
    width = config.whole("hidden_size_per_layer_input", default=0, smallest=0)
    if not width:
        return 0
    table = config.whole("vocab_size_per_layer_input", "vocab_size") * layers * width
    projections = 3 * hidden * layers * width  # of all tables once, and a gate and a projection in each layer
    streams = config.whole("altup_num_inputs", default=1)
    rank = config.whole("laurel_rank", default=0, smallest=0)
    config.note(f"per-layer embeddings of {table / 1e9:.2f} billion parameters are looked up: held, not active")
    return table + projections + 2 * (streams - 1) * hidden * hidden + 2 * hidden * rank * layers


def _reused_parameters(config: Config, hidden: int, found: list[Block]) -> int:
    """What layers that share one attention block count too often (Zamba2); its wider input and adapters count back."""
    shared = config.whole("num_mem_blocks", default=0, smallest=0)
    uses = sum(block.mixer is not None and block.feed_forward is not None for block in found)
    if not shared or not uses:
        config.value("use_mem_rope")
        return 0
    sample = next(block for block in found if block.mixer is not None and block.feed_forward is not None)
    heads, dim = config.whole(*mixers.HEADS), config.whole("attention_head_dim")
    width = heads * dim
    inner = sample.feed_forward.intermediate if isinstance(sample.feed_forward, DenseFeedForward) else 0
    listed = 4 * hidden * width + 3 * hidden * inner
    held = 3 * width * width + width * hidden + 3 * hidden * inner
    rank = config.whole("adapter_rank", "lora_rank", default=0, smallest=0)
    adapters = rank * (hidden + 2 * inner) + hidden * hidden
    if config.flag("use_shared_attention_adapter", "use_shared_attention_lora", default=False):
        adapters += 3 * rank * 2 * width
    config.value("attention_hidden_size", "use_shared_mlp_adapter", "use_shared_block_lora", "num_query_groups")
    config.note(f"{uses} layers share {shared} attention blocks, held once; each use keeps its own keys and values")
    return uses * (listed - adapters) - shared * held
