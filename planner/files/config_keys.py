"""Reading the keys of a Hugging Face config.json: every fault collected, every key remembered.

A config says much that does not matter here (dropout, token ids) and sometimes something that changes the shape of
the model in a way nobody has taught this program. `Config.unread_structure` finds the second sort, so that a new
architecture is refused by name instead of being counted as the nearest old one; what only sounds like it is noted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

LARGEST_SIZE = 100_000_000

# Words in a key that name a part of a model which changes what is counted, and words that only sound so.
_PARTS = """
block blocks chunk cla compress compressed conv cross decoder encoder expand expert experts expertwise ffn freq hash
hc hybrid index indexer interval inner kv latent layer layers linear local lora mamba memory mixer mla moe mtp nextn
offset per period ple recurrent recurrence routed shared share sliding sparse ssm state swa wide window zero
"""
_SOUNDS = """
attention attn d dim dims ff gate global group groups head heads hidden intermediate kernel mlp pattern query rank ratio
ratios size sizes step width
"""
HARMLESS_ENDINGS = re.compile(
    r"_(eps|epsilon|dropout|pdrop|bias|dtype|act|activation|coef|coeff|scale|theta|std|range|id|ids|func|function"
    r"|softcapping|scaling|scalar|norm|norms|prob|fp32|loss|clip|limit|beta|method|kernels|rope|tuning|multiplier"
    r"|multipliers|min|max|floor|alpha|gamma|weight|temperature|decay|token|tokens|impl|implementation|jitter|noise"
    r"|interleave|interleaved|parameters|lr|bound|type_ids|normalization|layernorm|layernorms|init|capacity|mode|type"
    r"|capacity_factor|before|after|dropping|dropped_token|free|skipped|alibi|routing|limited_greedy|scale_q_lora|scale_kv_lora"
    r"|pattern_scale|drop_tokens|deterministic)$"
)
_HARMLESS_KEYS = """
_attn_implementation attn_implementation block_size block_use_swiglu cache_implementation chunk_size
chunk_size_feed_forward conv_use_xavier_init dim_model_base embd_layer ep_size expert_capacity first_layer_fusion
full_attn_mod fuse_cross_entropy gate_lower_bound index_share_for_mtp_iteration index_skip_topk_offset
index_topk_freq index_topk_pattern indexer_rope_interleave initial_context_length is_decoder kv_cache_scheme
layer_norm_type layer_switch mamba_chunk_size mamba_inner_layernorms mamba_use_mlp max_window_layers mla_use_nope
moe_group_topk moe_permute_fusion moe_renormalize moe_router_scaling_factor moe_router_use_sigmoid
moe_token_dispatcher_type moe_router_enable_expert_bias moe_router_enable_shared_expert moe_layer_use_aux mup_base_width
mtp_use_dedicated_embeddings n_group no_rope_layer_interval no_rope_layers num_beam_groups num_expert_group
num_experts_group num_logits_to_keep num_return_sequences order_of_interleaved_layers output_attentions
output_hidden_states output_router_logits parallel_attn partial_rotary_factor pretraining_sequence_length qk_head_dim
query_pre_attn_scalar rope_interleaved_layers rope_local_base_freq rotary_dim routed_scaling_factor
router_jitter_noise scale_depth scale_emb scale_width seq_classifier_linear shared_expert_gate sliding_window_size
swiglu_limits sparse_disable_index_value tie_encoder_decoder time_step_limit time_step_rank topk_group
use_bidirectional_attention use_kda_fused use_mla use_mtp use_cross_entropy vocab_size_per_layer_input
window_attn_skip_freq
residual_in_fp32 use_mem_rope use_long_context ssm_cfg mamba_ssm_cache_dtype rescale_prenorm_residual
"""
PARTS = frozenset(_PARTS.split())
SOUNDS = frozenset(_SOUNDS.split())
HARMLESS_KEYS = frozenset(_HARMLESS_KEYS.split())
EMPTY: tuple[Any, ...] = (None, False, 0, "", [], {})


class Config:
    """The keys of one decoder. Null means absent, as it does to the libraries that write these files.

    While `layer` is set, a key that holds one value per layer reads as that layer's value; else such a list counts
    only when all its values are the same.
    """

    def __init__(
        self, values: Mapping[str, Any], defaults: Mapping[str, Any], last: Mapping[str, Any] | None = None
    ) -> None:
        self._values = values
        self._defaults = defaults
        self._last = last or {}  # of the config class, taken with a note
        self._read: set[str] = set()
        self.layer: int | None = None
        self.layers = 0
        self.overrides: Mapping[int, Mapping[str, Any]] = {}
        self.faults: list[str] = []
        self.notes: list[str] = []

    def value(self, *names: str) -> Any:
        """The first of `names` that is present and not null; then the family's default of any; else None."""
        self._read.update(names)
        own = self.overrides.get(self.layer, {}) if self.layer is not None else {}
        for source in (own, self._values, self._defaults):
            for name in names:
                if source.get(name) is not None:
                    return source[name]
        for name in names:
            if self._last.get(name) is not None:
                self.note(
                    f"{name} is left out: {self._last[name]}, the default of this family's config class, is taken"
                )
                return self._last[name]
        return None

    def has(self, *names: str) -> bool:
        """Whether any of `names` is present, or defaulted by the family, and neither null nor empty."""
        return self.value(*names) not in EMPTY

    def whole(self, *names: str, default: int | None = None, smallest: int = 1, largest: int = LARGEST_SIZE) -> int:
        """A whole number. Without a value and a default it is a fault, and 1 stands in so that reading goes on."""
        value = self.value(*names)
        if value is None:
            if default is None:
                others = f" (nor {', '.join(names[1:4])})" if names[1:] else ""
                self.faults.append(f"{names[0]} is missing{others}")
                return 1
            return default
        name = next((name for name in names if self._values.get(name) is not None), names[0])
        number = self._number(self._of_layer(value))
        if number is None:
            self.faults.append(f"{name}: {_show(value)} is not a whole number{self._apart(value)}")
        elif not smallest <= number <= largest:
            self.faults.append(f"{name}: {_show(value)} is not between {smallest} and {largest:,}")
        else:
            return number
        return 1

    def _of_layer(self, value: Any) -> Any:
        if not isinstance(value, list) or not value:
            return value
        if self.layer is not None and len(value) >= self.layers > 0:
            return value[self.layer]
        return value[0] if all(entry == value[0] for entry in value) else value

    def _apart(self, value: Any) -> str:
        several = isinstance(value, list) and self.layers and len(value) != self.layers
        return f" and has not one entry for each of {self.layers} layers" if several else ""

    @staticmethod
    def _number(value: Any) -> int | None:
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        return int(value) if value == value and abs(value) != float("inf") and value == int(value) else None

    def factor(self, *names: str, default: float) -> float:
        """A positive number that need not be whole."""
        value = self._of_layer(self.value(*names))
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < LARGEST_SIZE:
            self.faults.append(f"{names[0]}: {_show(value)} is not a positive number")
            return default
        return float(value)

    def flag(self, *names: str, default: bool | None = None) -> bool:
        """A yes or no. Without a value and a default it is a fault."""
        value = self._of_layer(self.value(*names))
        if isinstance(value, bool):
            return value
        if value is not None:
            self.faults.append(f"{names[0]}: {_show(value)} is neither true nor false")
        elif default is None:
            self.faults.append(f"{names[0]} is missing, and this family has no known default")
        return bool(default)

    def text(self, *names: str) -> str:
        """A word, empty when absent."""
        value = self.value(*names)
        if value is None or isinstance(value, str):
            return value or ""
        self.faults.append(f"{names[0]}: {_show(value)} is not text")
        return ""

    def per_layer(self, name: str, layers: int, spare: int = 0) -> Sequence[Any] | None:
        """A list with one entry per layer; None when absent or not a list; a fault when its length is wrong.

        Up to `spare` more entries, for layers that only draft, are allowed and left out.
        """
        value = self.value(name)
        if value is None:
            return None
        if not isinstance(value, list | str) or not layers <= len(value) <= layers + spare:
            size = len(value) if isinstance(value, list | str) else _show(value)
            self.faults.append(f"{name} has {size} entries for {layers} layers")
            return None
        return value[:layers]

    def numbers(self, name: str) -> list[int]:
        """A list of layer numbers, also written as text with commas; empty when absent."""
        value = self.value(name)
        if value is None:
            return []
        if isinstance(value, str) and re.fullmatch(r"[\d, ]*", value):
            return [int(entry) for entry in value.split(",") if entry.strip()]
        if isinstance(value, list) and all(self._number(entry) is not None for entry in value):
            return [int(entry) for entry in value]
        self.faults.append(f"{name}: {_show(value)} is not a list of layer numbers")
        return []

    def mapping(self, name: str) -> Mapping[str, Any]:
        """A mapping, empty when absent."""
        value = self.value(name)
        if value is None or isinstance(value, dict):
            return value or {}
        self.faults.append(f"{name} is not a mapping")
        return {}

    def fault(self, message: str) -> None:
        self.faults.append(message)

    def note(self, message: str) -> None:
        self.notes.append(message)

    def unread_structure(self) -> list[str]:
        """Keys that name a part of the model, hold something, and were never read."""
        return [key for key in self._unread() if not PARTS.isdisjoint(key.lower().split("_")) and self._counts(key)]

    def unread_sizes(self) -> list[str]:
        """Keys that only sound like a size and were never read."""
        parts = set(self.unread_structure())
        return [key for key in self._unread() if key not in parts and not SOUNDS.isdisjoint(key.lower().split("_"))]

    def _counts(self, key: str) -> bool:
        """Whether a value can be a size, a list of layers or a switch: not text, not a fraction."""
        value = self._values[key]
        return not isinstance(value, str) and not (isinstance(value, float) and value != int(value))

    def _unread(self) -> list[str]:
        return sorted(
            key
            for key, value in self._values.items()
            if key not in self._read
            and key not in HARMLESS_KEYS
            and not any(value is empty or value == empty for empty in EMPTY)
            and not HARMLESS_ENDINGS.search(key.lower())
        )


def _show(value: Any) -> str:
    text = repr(value) if not isinstance(value, str) else f'"{value}"'
    return text if len(text) <= 40 else f"{text[:37]}..."
