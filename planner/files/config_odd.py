"""Decoders whose layers are not an attention and a feed-forward block each: single blocks, doubled, searched, shared.

What cannot be told block by block (tables beside the layers, weights that layers share) is counted here too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from planner.files import config_blocks as blocks
from planner.files import config_mixers as mixers
from planner.files.config_blocks import Block
from planner.files.config_keys import Config
from planner.records import DenseFeedForward, Experts, FeedForward, Mixer

PATTERN_LETTERS = {"M": "mamba", "*": "attention", "-": "mlp", "E": "moe"}


def state_space_blocks(config: Config, hidden: int, layers: int) -> list[Block]:
    """Layers of one state-space mixer each and nothing else (Mamba, Mamba-2); empty when the model attends."""
    if not config.flag("only_state_space", default=False):
        return []
    config.note("states of fixed size in place of a KV cache; the file states no longest context, and none is assumed")
    return [Block(mixers.mamba(config, hidden), None)] * layers


def single_blocks(config: Config, hidden: int, layers: int) -> list[Block] | None:
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


def doubled_blocks(config: Config, hidden: int, layers: int) -> list[Block]:
    """LongCat: a layer attends twice and has two dense blocks, with the experts beside the first."""
    found: list[Block] = []
    config.note("each layer attends twice; its halves are listed as two blocks")
    for layer in range(layers):
        config.layer = layer
        attention = mixers.latent(config, hidden)
        block, expert = blocks.dense(config, hidden), blocks.experts(config, hidden)
        wide = Experts(expert.experts, expert.top_k, expert.intermediate, block.intermediate, expert.gated)
        found += [Block(attention, wide), Block(attention, block)]
    return found


def searched_blocks(config: Config, hidden: int, listed: list[dict[str, Any]]) -> list[Block]:
    """Layers that a searched architecture describes one by one, each with sizes of its own (Nemotron NAS)."""
    found: list[Block] = []
    for layer, entry in enumerate(listed):
        config.layer = layer
        found += _searched_block(config, hidden, entry)
    return found


def _square(hidden: int) -> Block:
    """One matrix in place of a block: written as the two halves of a plain one."""
    return Block(None, DenseFeedForward(max(hidden // 2, 1), gated=False))


def _searched_block(config: Config, hidden: int, entry: dict[str, object]) -> list[Block]:
    attention, feed_forward = (Config(_mapping(entry.get(key)), {}) for key in ("attention", "ffn"))
    mixer: Mixer | None = None
    block: FeedForward = None
    extra: list[Block] = []
    if attention.flag("replace_with_linear", default=False):
        extra.append(_square(hidden))
    elif not attention.flag("no_op", default=False):
        group = attention.whole("n_heads_in_group", default=1)
        heads = config.whole(*mixers.HEADS)
        kv_heads = attention.whole("num_key_value_heads", default=max(heads // group, 1))
        config.overrides = {config.layer or 0: {"num_key_value_heads": kv_heads}}
        mixer = mixers.softmax(config, hidden, windowed=False)
    if feed_forward.flag("replace_with_linear", default=False):
        extra.append(_square(hidden))
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


def side_parameters(config: Config, hidden: int, layers: int) -> int:
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


def image_layers(config: Config, layers: int) -> frozenset[int]:
    """Layers that attend to the tokens of images instead of text (Llama 3.2 Vision)."""
    listed = frozenset(config.numbers("cross_attention_layers"))
    if listed and not listed <= set(range(layers)):
        config.fault(f"cross_attention_layers: {max(listed)} is not one of the layers 0 to {layers - 1}")
    return listed


def image_layer_parameters(config: Config, hidden: int, layers: int) -> int:
    """What layers that attend to images hold: text passes them by, so they are held and not active."""
    count = len(image_layers(config, layers))
    if not count:
        return 0
    mixer = mixers.softmax(config, hidden, windowed=False)
    block = blocks.dense(config, hidden)
    rows = mixer.query_heads * (mixer.key_dim + mixer.value_dim) + mixer.kv_heads * (mixer.key_dim + mixer.value_dim)
    held = hidden * (rows + (3 if block.gated else 2) * block.intermediate)
    kv_bytes = 2 * count * mixer.kv_heads * (mixer.key_dim + mixer.value_dim)
    config.note(
        f"{count} layers attend to images and text passes them by: held, not active; each image token cached takes "
        f"{kv_bytes:,} bytes in bf16 besides"
    )
    return count * held


def reused_parameters(config: Config, hidden: int, found: list[Block]) -> int:
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
    config.value(
        "attention_hidden_size",
        "hybrid_layer_ids",
        "use_shared_mlp_adapter",
        "use_shared_block_lora",
        "num_query_groups",
    )
    config.note(f"{uses} layers share {shared} attention blocks, held once; each use keeps its own keys and values")
    return uses * (listed - adapters) - shared * held
