"""The keys of accelerator and model files: what their readers take, and what the schemas printed for editors say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

LARGEST_SIZE = 100_000_000
LARGEST_CONTEXT = 1_000_000_000
MOST_LAYERS = 10_000


@dataclass(frozen=True, slots=True)
class Key:
    """One key of a file. `kind` is a kind of `planner.units`, or whole (a number over 0), flag, text."""

    name: str
    kind: str
    about: str
    required: bool = False
    example: str = ""
    field: str = ""  # of the record, where it is called otherwise
    choices: tuple[str, ...] = ()
    largest: int = LARGEST_SIZE


# -------------------------------------------------------------------------------------------------------- accelerators

STATUSES = ("shipping", "announced")
ORIGINS = ("datasheet", "vendor", "measured", "third-party", "announced", "estimate", "user")
ACCELERATOR_QUANTITIES = (
    Key("memory", "bytes", "Memory that weights and caches can use; GB is decimal", True, "141 GB", "memory_bytes"),
    Key("memory_rate", "bytes_per_s", "Peak memory rate", True, "4.8 TB/s", "memory_bytes_per_s"),
    Key("bf16_dense", "flops_per_s", "Dense bf16 peak", True, "989.4 TFLOP/s", "bf16_dense_flops_per_s"),
    Key("fp8_dense", "flops_per_s", "Dense fp8 peak; left out: none", False, "1978.9 TFLOP/s", "fp8_dense_flops_per_s"),
    Key("fp4_dense", "flops_per_s", "Dense fp4 peak; left out: none", False, "10 PFLOP/s", "fp4_dense_flops_per_s"),
    Key("int8_dense", "flops_per_s", "Dense int8 peak; left out: none", False, "1979 TOP/s", "int8_dense_flops_per_s"),
    Key("bf16_sparse", "flops_per_s", "Peak with 2:4 sparsity", False, "1979 TFLOP/s", "bf16_sparse_flops_per_s"),
    Key("fp8_sparse", "flops_per_s", "Peak with 2:4 sparsity", False, "3958 TFLOP/s", "fp8_sparse_flops_per_s"),
    Key("fp4_sparse", "flops_per_s", "Peak with 2:4 sparsity", False, "20 PFLOP/s", "fp4_sparse_flops_per_s"),
    Key("scaleup_rate", "bytes_per_s", "To the other accelerators of the scale-up domain, one way", False, "450 GB/s",
        "scaleup_bytes_per_s"),
    Key("host_rate", "bytes_per_s", "To the host, one way", False, "63 GB/s", "host_bytes_per_s"),
    Key("nic_rate", "bytes_per_s", "Network share of one accelerator, one way", False, "400 Gb/s", "nic_bytes_per_s"),
    Key("tdp", "watts", "Board power", False, "700 W", "tdp_watts"),
    Key("all_in_power", "watts", "Facility power with host, network and cooling share", False, "1.73 kW",
        "all_in_watts"),
    Key("purchase", "usd", "Price of one", False, "33500 USD", "purchase_usd"),
)  # fmt: skip
ACCELERATOR_COUNTS = (
    Key("scaleup_domain", "count", "Accelerators that share the scale-up fabric", False, "8", "scaleup_domain"),
    Key("node_accelerators", "count", "Accelerators of one host", False, "8", "node_accelerators"),
    Key("compute_units", "count", "Multiprocessors or their like", False, "132", "compute_units"),
)
ACCELERATOR_TEXTS = (
    Key("kind", "text", "What this file is", choices=("accelerator",)),
    Key("id", "text", "Name of the file without its ending", example="my-card"),
    Key("vendor", "text", "Who makes it", example="nvidia"),
    Key("status", "text", "Whether it can be bought", choices=STATUSES),
    Key("memory_type", "text", "Sort of memory", example="HBM3e"),
    Key("scaleup_name", "text", "Name of the scale-up fabric", example="NVLink4"),
    Key("efficiency_like", "text", "Id whose measured efficiencies to borrow", example="h100-sxm"),
    Key("notes", "text", "Anything else"),
)

# -------------------------------------------------------------------------------------------------------------- models

FORMATS = ("bf16", "fp8", "fp8_block", "nvfp4", "mxfp4", "int8", "int4")
RECURRENT = ("gated-delta", "kda", "mamba1", "mamba2", "lightning", "short-conv")


def _whole(name: str, about: str, required: bool = False, largest: int = LARGEST_SIZE) -> Key:
    return Key(name, "whole", about, required, "128", name, largest=largest)


def _flag(name: str, about: str) -> Key:
    return Key(name, "flag", about, field=name)


MODEL_KEYS = (
    Key("kind", "text", "What this file is", choices=("model",)),
    Key("id", "text", "Hugging Face id; the file is called the same with -- for /", example="owner/model"),
    Key("architecture", "text", "model_type of its config", True, "llama"),
    Key("source", "text", "Where the sizes are from", True, "config.json of meta-llama/Llama-3.1-70B"),
    Key("retrieved", "text", "The day they were read", example="2026-08-22"),
    Key("checkpoint_format", "text", "How the weights are stored", choices=FORMATS),
    Key("checkpoint_other_format", "text", "How what is no routed expert is stored", choices=FORMATS),
    Key("notes", "text", "Anything else"),
    _whole("hidden", "Width of the model", True),
    _whole("vocabulary", "Rows of the embedding", True),
    _whole("max_context_tokens", "Longest context", True, LARGEST_CONTEXT),
    _whole("draft_layers", "Multi-token-prediction layers in the checkpoint, not counted"),
    _whole(
        "declared_layers", "Layers by the makers' count, where `layers` lists parts of them apart", False, MOST_LAYERS
    ),
    _whole("side_parameters", "Per-layer embedding tables and the like, outside the layers", False, 10**13),
    _whole("reused_parameters", "What layers that share weights count too often", False, 10**13),
    _whole("encoder_parameters", "Image and sound encoders, counted apart", False, 10**13),
    _flag("tied_embeddings", "The head shares the embedding"),
)
LAYER_KEYS = (
    _whole("count", "How many such layers", True, MOST_LAYERS),
    _flag("borrowed_kv", "Attends to keys and values of earlier layers and keeps none itself"),
)
SOFTMAX_KEYS = (
    _whole("query_heads", "Query heads", True),
    _whole("kv_heads", "Key-value heads", True),
    _whole("key_dim", "Width of a key", True),
    _whole("value_dim", "Width of a value", True),
    _whole("window_tokens", "Tokens it sees; left out: all"),
    _flag("output_gate", "Output is gated by a projection of its own"),
    _flag("bias", "Projections have biases"),
)
LATENT_KEYS = (
    _whole("query_heads", "Query heads", True),
    _whole("query_rank", "Rank of the query projection; left out: full"),
    _whole("kv_rank", "Width of the cached vector without its rotary part", True),
    _whole("nope_dim", "Part of a query head without rotary embedding", True),
    _whole("rope_dim", "Part with rotary embedding"),
    _whole("value_dim", "Width of a value", True),
    _whole("index_heads", "Heads of the sparse indexer"),
    _whole("index_dim", "Width of an index key"),
    _whole("index_top_k", "Cached vectors that the indexer chooses"),
    _whole("kv_heads", "Heads that the cached vector is made of; left out: one, which ranks copy"),
    _flag("direct", "Queries meet the cached vector as it is"),
    _flag("output_gate", "Output is gated by a projection of its own"),
    _whole("compression_tokens", "Tokens that share one cached vector"),
    _whole("window_tokens", "Newest tokens kept whole beside them"),
    _whole("output_groups", "Groups of a low-rank output projection"),
    _whole("output_rank", "Rank of each"),
)
RECURRENT_KEYS = (
    _whole("key_heads", "Key heads (groups)", True),
    _whole("value_heads", "Value heads", True),
    _whole("key_dim", "Width of a key: rows of a head's state", True),
    _whole("value_dim", "Width of a value: columns of a head's state", True),
    _whole("conv_tokens", "Tokens of the short convolution"),
    _flag("full_rank_gate", "kda: the output gate has full rank"),
)
MIXER_KEYS: Mapping[str, tuple[Key, ...]] = {
    "softmax": SOFTMAX_KEYS,
    "latent": LATENT_KEYS,
    **dict.fromkeys(RECURRENT, RECURRENT_KEYS),
}
DENSE_KEYS = (
    _whole("intermediate", "Width of the block", True),
    _flag("plain", "Two matrices instead of a gated three"),
)
EXPERT_KEYS = (
    _whole("experts", "Routed experts", True),
    _whole("top_k", "Experts of each token", True),
    _whole("intermediate", "Width of one expert", True),
    _whole("shared_intermediate", "Width of everything that runs beside the routed experts, summed"),
    _whole("hidden", "Width the experts work in, when narrower than the model"),
    _flag("plain", "Two matrices instead of a gated three"),
)
FEED_FORWARD_KEYS: Mapping[str, tuple[Key, ...]] = {"dense": DENSE_KEYS, "experts": EXPERT_KEYS}
COUNT_KEYS = ("parameters", "active_parameters", "kv_bytes_per_token", "state_bytes_per_sequence")
