"""What mixes tokens in one layer of a Hugging Face config: softmax, latent, compressed or recurrent attention.

Everything is decided by the features a config declares, never by the name of a model. Each function reads the layer
that `config.layer` names.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from planner.files.config_keys import Config
from planner.records import LatentAttention, RecurrentMixer, SoftmaxAttention

HEADS = ("num_attention_heads", "n_head", "num_heads", "n_heads")
KV_HEADS = ("num_key_value_heads", "num_kv_heads", "n_kv_heads", "kv_n_heads", "num_attention_groups")
HEAD_DIM = ("head_dim", "attention_head_dim", "kv_channels", "head_size")
MAMBA_HEADS = ("mamba_num_heads", "mamba_n_heads", "n_mamba_heads")
_BIAS = ("attention_bias", "qkv_bias", "use_qkv_bias", "add_qkv_bias", "bias")


def window_tokens(config: Config) -> int:
    """Tokens a windowed layer sees; 0 when no layer has a window or it never binds."""
    used = config.flag("use_sliding_window", default=True)
    window = config.whole("sliding_window", "attention_chunk_size", default=0, smallest=0)
    context = config.value("max_position_embeddings")
    binds = not isinstance(context, int) or window < context
    return window if used and binds else 0


# ----------------------------------------------------------------------------------------------------------- softmax


def softmax(config: Config, hidden: int, windowed: bool) -> SoftmaxAttention:
    """Multi-head, grouped-query or multi-query attention, in the variant of windowed or of full layers."""
    heads = config.whole(*HEADS)
    kv_heads = _kv_heads(config, heads)
    key_dim = _head_dim(config, hidden, heads)
    value_dim = config.whole("v_head_dim", default=key_dim)
    other = config.mapping("attention_other_setting")
    if windowed and other:  # Step-3.5: the windowed layers' own heads
        inner = Config(other, {})
        heads, kv_heads = inner.whole(*HEADS, default=heads), inner.whole(*KV_HEADS, default=kv_heads)
        key_dim = value_dim = inner.whole(*HEAD_DIM, default=key_dim)
        inherit(config, inner, "attention_other_setting")
    if windowed and config.has("swa_num_key_value_heads"):
        heads = config.whole("swa_num_attention_heads", default=heads)
        kv_heads = config.whole("swa_num_key_value_heads")
        key_dim = config.whole("swa_head_dim", default=key_dim)
        value_dim = config.whole("swa_v_head_dim", default=value_dim)
    if not windowed and config.has("global_head_dim"):
        key_dim = value_dim = config.whole("global_head_dim")
        kv_heads = config.whole("num_global_key_value_heads", default=kv_heads)
        if config.flag("attention_k_eq_v", default=False):
            config.note("global layers may share storage of keys and values (attention_k_eq_v); both are counted")
    if heads % kv_heads:
        config.fault(f"num_key_value_heads: {kv_heads} does not divide {heads} query heads")
    gate = config.flag("attn_output_gate", default=False)
    bias = config.flag(*_BIAS, default=False)
    return SoftmaxAttention(heads, kv_heads, key_dim, value_dim, window_tokens(config) if windowed else 0, gate, bias)


def _head_dim(config: Config, hidden: int, heads: int) -> int:
    if config.has(*HEAD_DIM):
        return config.whole(*HEAD_DIM)
    if hidden > 1 and hidden % heads:  # 1 stands for a width that was at fault itself
        config.fault(f"head_dim is missing, and hidden size {hidden} is no multiple of {heads} heads")
    return max(hidden // heads, 1)


def _kv_heads(config: Config, heads: int) -> int:
    if config.value("multi_query") is not None:  # Falcon: `num_kv_heads` counts only in its newer architecture
        grouped = config.flag("new_decoder_architecture", default=False)
        declared = config.whole("num_kv_heads", default=heads)
        if grouped:
            return declared
        return 1 if config.flag("multi_query") else heads
    if config.value("multi_query_attention") is not None:  # ChatGLM
        groups = config.whole("multi_query_group_num", default=1)
        return groups if config.flag("multi_query_attention") else heads
    if config.text("attn_type") == "multiquery_attention":  # MPT
        return 1
    if config.value(*KV_HEADS) is None:
        config.note(f"no num_key_value_heads: each of {heads} query heads has its own keys and values")
        return heads
    return config.whole(*KV_HEADS)


# ------------------------------------------------------------------------------------------------------------ latent


def latent(config: Config, hidden: int) -> LatentAttention:
    """Multi-head latent attention, with a sparse indexer where one is declared."""
    config.value(*KV_HEADS, *HEAD_DIM, "attention_method")  # there for compatibility, without meaning under a latent
    sparse = config.has("index_topk")
    heads = config.whole(*HEADS)
    even_share = hidden // heads if hidden % heads == 0 else None  # MiniCPM3 leaves v_head_dim out
    return LatentAttention(
        query_heads=heads,
        query_rank=config.whole("q_lora_rank", default=0, smallest=0),
        kv_rank=config.whole("kv_lora_rank"),
        nope_dim=config.whole("qk_nope_head_dim"),
        rope_dim=config.whole("qk_rope_head_dim", smallest=0),
        value_dim=config.whole("v_head_dim", default=even_share),
        index_heads=config.whole("index_n_heads") if sparse else 0,
        index_dim=config.whole("index_head_dim") if sparse else 0,
        index_top_k=config.whole("index_topk") if sparse else 0,
        output_gate=config.flag("mla_use_output_gate", default=False),
    )


def without_indexer(mixer: LatentAttention) -> LatentAttention:
    """A layer that attends to what another layer's indexer chose: no index weights or keys of its own."""
    return replace(mixer, index_heads=0, index_dim=0)


def compressed(config: Config, compression_tokens: int) -> LatentAttention:
    """One key-value vector shared by all heads, pooled over tokens, beside a window of whole ones (DeepSeek-V4).

    A compression of 0 leaves the window only. Layers that pool few tokens choose among them by an indexer; those that
    pool more than an indexer's worth attend to all (`index_topk` applies to the least compression).
    """
    width = config.whole("head_dim")
    rope = config.whole("qk_rope_head_dim", smallest=0)
    ratios = [ratio for ratio in config.numbers("compress_ratios") if ratio]
    indexed = config.has("index_topk") and compression_tokens > 0 and compression_tokens == min(ratios)
    if config.whole(*KV_HEADS, default=1) != 1:
        config.fault("num_key_value_heads: compressed attention of more than one key-value head is not understood")
    return LatentAttention(
        query_heads=config.whole(*HEADS),
        query_rank=config.whole("q_lora_rank", default=0, smallest=0),
        kv_rank=width - rope,
        nope_dim=width - rope,
        rope_dim=rope,
        value_dim=width,
        index_heads=config.whole("index_n_heads") if indexed else 0,
        index_dim=config.whole("index_head_dim") if indexed else 0,
        index_top_k=config.whole("index_topk") if indexed else 0,
        direct=True,
        compression_tokens=compression_tokens,
        window_tokens=config.whole("sliding_window"),
        output_groups=config.whole("o_groups", default=0, smallest=0),
        output_rank=config.whole("o_lora_rank", default=0, smallest=0),
    )


def shared_query(config: Config) -> LatentAttention:
    """Queries through a low rank over few key-value heads (multi-matrix factorization attention, Step-3)."""
    dim, kv_heads = config.whole("head_dim"), config.whole(*KV_HEADS, default=1)
    return LatentAttention(
        query_heads=config.whole(*HEADS),
        query_rank=config.whole("share_q_dim"),
        kv_rank=2 * dim * kv_heads,
        nope_dim=dim,
        rope_dim=0,
        value_dim=dim,
        kv_heads=kv_heads,
        direct=True,
    )


def block_sparse(config: Config, hidden: int, sparse: Mapping[str, object]) -> LatentAttention:
    """Grouped-query attention to blocks that an indexer chooses; every key and value stays cached (MiniMax-M3)."""
    full = softmax(config, hidden, windowed=False)
    inner = Config(sparse, {})
    blocks = inner.whole("sparse_topk_blocks") + inner.whole("sparse_local_block", default=0, smallest=0)
    mixer = LatentAttention(
        query_heads=full.query_heads,
        query_rank=0,
        kv_rank=full.kv_heads * (full.key_dim + full.value_dim),
        nope_dim=full.key_dim,
        rope_dim=0,
        value_dim=full.value_dim,
        index_heads=inner.whole("sparse_num_index_heads"),
        index_dim=inner.whole("sparse_index_dim"),
        index_top_k=blocks * inner.whole("sparse_block_size"),
        kv_heads=full.kv_heads,
        direct=True,
        output_gate=full.output_gate,
    )
    inner.value("sparse_attention_freq", "use_sparse_attention", "sparse_score_type", "sparse_init_block")
    inherit(config, inner, "sparse_attention_config")
    return mixer


def inherit(config: Config, inner: Config, name: str) -> None:
    """Take over what was wrong with the mapping `name` inside `config`."""
    for key in inner.unread_structure():
        config.fault(f"{name}.{key} is not understood, and may change the shape of the model")
    for fault in inner.faults:
        config.fault(f"{name}.{fault}")


# --------------------------------------------------------------------------------------------------------- recurrent


def linear(config: Config, hidden: int) -> RecurrentMixer:
    """A layer of linear attention: gated delta, its channel-wise form (KDA), or lightning attention."""
    kind = config.text("linear_kind")
    if config.has("linear_num_value_heads") or kind != "lightning":
        return RecurrentMixer(
            key_heads=config.whole("linear_num_key_heads"),
            value_heads=config.whole("linear_num_value_heads"),
            key_dim=config.whole("linear_key_head_dim"),
            value_dim=config.whole("linear_value_head_dim"),
            conv_tokens=config.whole("linear_conv_kernel_dim"),
        )
    heads = config.whole(*HEADS)
    dim = _head_dim(config, hidden, heads)
    convolved = config.whole("short_conv_kernel_size", default=0, smallest=0)
    return RecurrentMixer(heads, heads, dim, dim, convolved, "kda" if convolved else "lightning")


def delta_of(inner: Config) -> RecurrentMixer:
    """The delta attention that a `linear_attn_config` describes (Kimi Linear)."""
    heads, dim = inner.whole("num_heads"), inner.whole("head_dim")
    return RecurrentMixer(
        key_heads=heads,
        value_heads=heads,
        key_dim=dim,
        value_dim=dim,
        conv_tokens=inner.whole("short_conv_kernel_size", default=0, smallest=0),
        kind="kda",
        full_rank_gate=inner.flag("use_full_rank_gate", default=False),
    )


def mamba(config: Config, hidden: int) -> RecurrentMixer:
    """A state-space layer: Mamba-2 when it has heads, else Mamba-1."""
    alone = config.flag("only_state_space", default=False)
    if config.has(*MAMBA_HEADS) or (alone and config.has("num_heads")):
        return _mamba2(config, hidden, alone)
    channels = config.whole("mamba_expand", "expand") * hidden
    config.value("intermediate_size" if alone else "mamba_expand")
    step_rank = config.value("mamba_dt_rank", "time_step_rank")
    if step_rank not in (None, "auto", math.ceil(hidden / 16)):
        config.fault(f"mamba_dt_rank: {step_rank!r} is not the usual hidden size / 16 = {math.ceil(hidden / 16)}")
    state, conv = config.whole("mamba_d_state", "state_size"), config.whole("mamba_d_conv", "conv_kernel")
    return RecurrentMixer(1, channels, state, 1, conv, "mamba1")


def _mamba2(config: Config, hidden: int, alone: bool) -> RecurrentMixer:
    """`alone`: the model has no attention, so that plain `num_heads` and `head_dim` are those of the mixer."""
    heads = config.whole(*MAMBA_HEADS, *(("num_heads",) if alone else ()))
    expand = config.whole("expand", "mamba_expand", default=2)
    names = ("mamba_head_dim", "mamba_d_head", "mamba_headdim", *(("head_dim",) if alone else ()))
    automatic = config.value(*names) in (None, "auto")
    inner = config.whole("mamba_d_ssm", default=expand * hidden)
    dim = inner // heads if automatic else config.whole(*names)
    return RecurrentMixer(
        key_heads=config.whole("n_groups", "mamba_n_groups", "mamba_ngroups", default=1),
        value_heads=heads,
        key_dim=config.whole("ssm_state_size", "mamba_d_state", "state_size"),
        value_dim=dim,
        conv_tokens=config.whole("conv_kernel", "mamba_d_conv"),
        kind="mamba2",
    )


def short_convolution(config: Config, hidden: int) -> RecurrentMixer:
    """A gated short convolution, which keeps its last inputs and no state (LFM2)."""
    channels = config.whole("conv_dim", default=hidden)
    return RecurrentMixer(1, channels, 1, 1, config.whole("conv_L_cache"), "short-conv")
