"""What feeds forward in one layer of a Hugging Face config: a dense block, or experts and what runs beside them.

Each function reads the layer that `config.layer` names.
"""

from __future__ import annotations

from dataclasses import dataclass

from planner.files.config_keys import Config
from planner.records import DenseFeedForward, Experts, FeedForward, Mixer

GATED_ACTIVATIONS = frozenset(
    {"silu", "swish", "swiglu", "swigluoai", "gelu_pytorch_tanh", "geglu", "gegelu", "situ", "swiglu_oai"}
)
PLAIN_ACTIVATIONS = frozenset({"relu", "relu2", "gelu_new", "gelu_fast", "xielu"})
EXPERT_COUNTS = ("n_routed_experts", "num_experts", "num_local_experts", "moe_num_experts", "num_routed_experts")
WIDTHS = (
    "intermediate_size", "n_inner", "ffn_hidden_size", "ffn_dim", "ff_intermediate_size", "block_ff_dim", "d_ff",
    "hidden_dim",
)  # fmt: skip
_DENSE_WIDTHS = ("intermediate_size_mlp", "dense_intermediate_size")
_TOP_KS = (
    "num_experts_per_tok", "num_experts_per_token", "experts_per_token", "top_k_experts", "moe_top_k", "moe_topk",
    "moe_k",
)  # fmt: skip
_EXPERT_WIDTHS = ("moe_intermediate_size", "expert_ffn_hidden_size", "expert_intermediate_size", *WIDTHS)
_SHARED_WIDTHS = (
    "shared_expert_intermediate_size", "moe_shared_expert_intermediate_size", "share_expert_dim",
    "shared_intermediate_size",
)  # fmt: skip
_SHARED_COUNTS = ("n_shared_experts", "num_shared_experts", "num_shared_expert", "moe_num_shared_experts")


@dataclass(frozen=True, slots=True)
class Block:
    """One layer, or one part of it that stands alone; `borrowed_kv`: it reads the keys and values of others."""

    mixer: Mixer | None
    feed_forward: FeedForward
    borrowed_kv: bool = False


def has_experts(config: Config) -> bool:
    """Whether any layer is a mixture of experts."""
    several = config.has(*EXPERT_COUNTS) and config.value(*EXPERT_COUNTS) != 1
    return several and config.value("enable_moe_block") is not False


def expert_layers(config: Config, layers: int, spare: int) -> list[bool]:
    """Which layers have experts: every rule the config states must agree."""
    first = config.whole("first_k_dense_replace", "num_dense_layers", "moe_layer_start_index", default=0, smallest=0)
    last = config.value("moe_layer_end_index")
    end = last if isinstance(last, int) and last >= 0 else layers
    every = config.value("moe_layer_freq")
    flags = config.per_layer("moe_layer_freq", layers, spare) if isinstance(every, list) else None
    frequency = 1 if flags is not None else config.whole("moe_layer_freq", "moe_layer_frequency", default=1)
    step = config.whole("decoder_sparse_step", "interleave_moe_layer_step", "moe_layer_interval", default=1)
    period = config.whole("expert_layer_period", default=1)
    offset = config.whole("expert_layer_offset", default=0, smallest=0)
    words = config.per_layer("mlp_layer_types", layers, spare)
    dense_only = set(config.numbers("mlp_only_layers"))
    listed = config.numbers("moe_layers") or config.numbers("moe_layers_enum")
    expert_only = set(listed) or set(range(layers))
    return [
        first <= layer <= end
        and layer % frequency == 0
        and (layer + 1) % step == 0
        and layer % period == offset % period
        and layer in expert_only - dense_only
        and (flags is None or bool(flags[layer]))
        and (words is None or words[layer] != "dense")
        for layer in range(layers)
    ]


def gated(config: Config) -> bool:
    """Whether a feed-forward block has three matrices, by the family or by its activation function."""
    known = config.value("gated")
    names = ("mlp_hidden_act", "hidden_act", "hidden_activation", "activation_function", "ffn_act_fn", "hidden_act_moe")
    activation = config.value(*names)
    if isinstance(activation, dict):
        activation = activation.get("name")
    if isinstance(known, bool):
        return known
    if activation is not None and not isinstance(activation, str):
        config.fault(f"hidden_act: {str(activation)[:40]} is not text")
    elif not activation:
        config.fault("hidden_act is missing, which tells whether a feed-forward block has a gate")
    elif activation not in GATED_ACTIVATIONS | PLAIN_ACTIVATIONS:
        config.fault(f"hidden_act: cannot tell whether a feed-forward block with {activation} has a gate")
    return str(activation) not in PLAIN_ACTIVATIONS


def dense(config: Config, hidden: int, beside_experts: bool = False) -> DenseFeedForward:
    """The dense block of a layer; where other layers have experts its width may have a key of its own."""
    names: tuple[str, ...] = (*_DENSE_WIDTHS, *WIDTHS) if beside_experts else WIDTHS
    if not beside_experts and not has_experts(config) and config.has("shared_intermediate_size"):
        names = ("shared_intermediate_size",)  # Granite without experts keeps only its shared block
    factor = config.factor("width_factor", "expansion_ratio", "ffn_mult", default=0.0)
    width = config.whole(*names, default=int(factor * hidden) or None)
    width //= config.whole("width_divisor", default=1)
    factor, multiple = (
        config.factor("block_ffn_dim_multiplier", default=1.0),
        config.whole("block_multiple_of", default=256),
    )
    config.value("block_dim", "block_ff_dim", "block_mlp_init_scale")
    if config.flag("block_auto_adjust_ff_dim", default=False):  # LFM2
        width = -(-int(factor * int(2 * width / 3)) // multiple) * multiple
    return DenseFeedForward(width, gated(config))


def experts(config: Config, hidden: int) -> Experts:
    """The experts of a layer, and everything that runs beside them as one shared width."""
    count = config.whole(*EXPERT_COUNTS)
    top_k = _top_k(config, count)
    width = config.whole(*_EXPERT_WIDTHS)
    latent = config.whole("routed_expert_hidden_size", "moe_latent_size", default=0, smallest=0)
    shared = _shared_width(config, hidden, width)
    return Experts(count, top_k, width, shared, gated(config), 0 if latent == hidden else latent)


def _top_k(config: Config, count: int) -> int:
    top_k = config.whole(*_TOP_KS)
    idle = config.whole("zero_expert_num", default=0, smallest=0)
    if idle:  # LongCat: some of the chosen experts do nothing
        mean = max(round(top_k * count / (count + idle)), 1)
        config.note(f"of {top_k} chosen experts {idle} in {count + idle} do nothing: {mean} are counted as active")
        return mean
    if top_k > count:
        config.fault(f"num_experts_per_tok: {top_k} is more than {count} experts")
    return top_k


def _shared_width(config: Config, hidden: int, expert_width: int) -> int:
    """Width of everything that runs beside the routed experts, summed."""
    width = config.whole(*_SHARED_WIDTHS, default=0, smallest=0)
    shared_experts = config.whole(*_SHARED_COUNTS, default=0, smallest=0)
    config.value("use_mixed_mlp_moe")
    if not width:
        width = shared_experts * expert_width
    if config.flag("dense_beside_experts", "shared_is_dense", "residual_moe", default=False):
        width += dense(config, hidden).intermediate
    if config.flag("parallel_attn_mlp_res", "use_residual", default=False):  # Arctic: as wide as the model
        width += hidden
    return width
