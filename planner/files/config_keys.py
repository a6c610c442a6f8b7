"""Reading the keys of a Hugging Face config.json: every fault collected, every key remembered.

A config says much that does not matter here (dropout, token ids) and sometimes something that changes the shape of
the model in a way nobody has taught this program. `Config.unread_structure` finds the second sort, so that a new
architecture is refused by name instead of being counted as the nearest old one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

LARGEST_SIZE = 100_000_000

# Words in a key that speak of shape, and endings and keys that contain them without doing so.
_STRUCTURAL_WORDS = """
attention attn block blocks chunk compress conv cross d decoder dim dims encoder expand expert experts ff ffn freq
gate global group groups hash hc head heads hidden hybrid index indexer inner intermediate interval kernel kv latent
layer layers linear local lora mamba memory mixer mla mlp moe mtp nextn offset pattern per period query rank ratio
ratios recurrent routed share shared size sizes sliding sparse ssm state step swa wide window
"""
HARMLESS_ENDINGS = re.compile(
    r"_(eps|epsilon|dropout|pdrop|bias|dtype|act|activation|coef|scale|theta|std|range|id|ids|func|softcapping"
    r"|scaling|scalar|norm|prob|fp32|loss|clip|limit|beta|method|kernels|rope|tuning|multiplier|min|max|floor|alpha)$"
)
_HARMLESS_KEYS = """
_attn_implementation attn_implementation chunk_size chunk_size_feed_forward dim_model_base ep_size full_attn_mod
gate_lower_bound index_share_for_mtp_iteration index_skip_topk_offset index_topk_freq index_topk_pattern
indexer_rope_interleave initial_context_length is_decoder layer_switch mamba_inner_layernorms max_window_layers
mla_use_nope moe_renormalize moe_router_scaling_factor n_group no_rope_layer_interval no_rope_layers num_beam_groups
num_expert_group num_logits_to_keep num_return_sequences order_of_interleaved_layers output_attentions
output_hidden_states output_router_logits parallel_attn partial_rotary_factor qk_head_dim rope_local_base_freq
rotary_dim routed_scaling_factor scale_depth sliding_window_size tie_encoder_decoder time_step_limit time_step_rank
topk_group use_bidirectional_attention use_mtp vocab_size_per_layer_input
"""
STRUCTURAL_WORDS = frozenset(_STRUCTURAL_WORDS.split())
HARMLESS_KEYS = frozenset(_HARMLESS_KEYS.split())
EMPTY: tuple[Any, ...] = (None, False, 0, "", [], {})


class Config:
    """The keys of one decoder. Null means absent, as it does to the libraries that write these files."""

    def __init__(self, values: Mapping[str, Any], defaults: Mapping[str, Any]) -> None:
        self._values = values
        self._defaults = defaults
        self._read: set[str] = set()
        self.faults: list[str] = []
        self.notes: list[str] = []

    def value(self, *names: str) -> Any:
        """The first of `names` that is present and not null; then the family's default of any; else None."""
        self._read.update(names)
        for source in (self._values, self._defaults):
            for name in names:
                if source.get(name) is not None:
                    return source[name]
        return None

    def has(self, *names: str) -> bool:
        """Whether any of `names` is present, or defaulted by the family, and neither null nor empty."""
        return self.value(*names) not in EMPTY

    def whole(self, *names: str, default: int | None = None, smallest: int = 1, largest: int = LARGEST_SIZE) -> int:
        """A whole number. Without a value and a default it is a fault, and 1 stands in so that reading goes on."""
        value = self.value(*names)
        if value is None:
            if default is None:
                others = f" (nor {', '.join(names[1:])})" if names[1:] else ""
                self.faults.append(f"{names[0]} is missing{others}")
                return 1
            return default
        number = self._number(value)
        name = next((name for name in names if self._values.get(name) is not None), names[0])
        if number is None:
            self.faults.append(f"{name}: {_show(value)} is not a whole number")
        elif not smallest <= number <= largest:
            self.faults.append(f"{name}: {_show(value)} is not between {smallest} and {largest:,}")
        else:
            return number
        return 1

    @staticmethod
    def _number(value: Any) -> int | None:
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        return int(value) if value == value and abs(value) != float("inf") and value == int(value) else None

    def flag(self, *names: str, default: bool | None = None) -> bool:
        """A yes or no. Without a value and a default it is a fault."""
        value = self.value(*names)
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

    def per_layer(self, name: str, layers: int) -> Sequence[Any] | None:
        """A list with one entry per layer; None when absent or not a list; a fault when its length is wrong."""
        value = self.value(name)
        if value is None:
            return None
        if not isinstance(value, list | str) or len(value) != layers:
            size = len(value) if isinstance(value, list | str) else _show(value)
            self.faults.append(f"{name} has {size} entries for {layers} layers")
            return None
        return value

    def numbers(self, name: str) -> list[int]:
        """A list of layer numbers, empty when absent."""
        value = self.value(name)
        if value is None:
            return []
        if isinstance(value, list) and all(self._number(entry) is not None for entry in value):
            return [int(entry) for entry in value]
        self.faults.append(f"{name}: {_show(value)} is not a list of layer numbers")
        return []

    def fault(self, message: str) -> None:
        self.faults.append(message)

    def note(self, message: str) -> None:
        self.notes.append(message)

    def unread_structure(self) -> list[str]:
        """Keys that speak of shape, hold something, and were never read."""
        return sorted(
            key
            for key, value in self._values.items()
            if key not in self._read
            and key not in HARMLESS_KEYS
            and not any(value is empty or value == empty for empty in EMPTY)
            and not HARMLESS_ENDINGS.search(key)
            and not STRUCTURAL_WORDS.isdisjoint(key.split("_"))
        )


def _show(value: Any) -> str:
    text = repr(value) if not isinstance(value, str) else f'"{value}"'
    return text if len(text) <= 40 else f"{text[:37]}..."
