"""How a checkpoint stores its weights, from the `quantization_config` of its config.json."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from planner.files.config_keys import Config

STORED_AS = {
    "bfloat16": "bf16", "float16": "bf16", "float32": "bf16", "half": "bf16", "bf16": "bf16", "fp16": "bf16",
    "float8_e4m3fn": "fp8", "fp8": "fp8",
}  # fmt: skip
_MODELOPT = {
    "FP8": "fp8", "FP8_PB_WO": "fp8_block", "FP8_PER_CHANNEL_PER_TOKEN": "fp8", "NVFP4": "nvfp4", "NVFP4_AWQ": "nvfp4",
    "W4A8_AWQ": "int4", "W4A16_AWQ": "int4", "INT4_AWQ": "int4", "W8A8_SQ_PER_CHANNEL": "int8", "MXFP4": "mxfp4",
    "W4A16_NVFP4": "nvfp4", "W4A8_MXFP4_FP8": "mxfp4",
}  # fmt: skip
_METHODS = {
    "mxfp4": "mxfp4", "nvfp4": "nvfp4", "fbgemm_fp8": "fp8", "ptpc_fp8": "fp8", "w8a8_fp8": "fp8", "mxfp8": "fp8_block",
    "experts_int8": "int8", "w8a8_int8": "int8", "smoothquant": "int8",
}  # fmt: skip
_INTEGER = ("gptq", "awq", "auto-round", "auto_round", "gptq_marlin", "awq_marlin", "gptqmodel", "hqq", "inc", "intel")
_QUARK = {"fp4": "mxfp4", "fp8_e4m3": "fp8", "int8": "int8", "int4": "int4", "uint4": "int4"}
_LEFT_ALONE = ("ignore", "ignored_layers", "modules_to_not_convert", "exclude_modules", "exclude", "dynamic")


@dataclass(frozen=True, slots=True)
class Stored:
    """Formats of a checkpoint: of most weights (the routed experts, where there are any), and of the rest.

    `other` is empty where the file does not set it apart.
    """

    weights: str
    other: str = ""


def checkpoint_format(config: Config) -> Stored:
    """The formats that a config declares; what is not understood is a fault left in `config`."""
    declared = config.value("quantization_config", "compression_config", "quantization")
    if declared is None:
        return Stored(_plain_format(config))
    if not isinstance(declared, dict):
        config.fault("quantization_config is not a mapping")
        return Stored("bf16")
    found = _quantized(declared)
    if found is None:
        method = declared.get("quant_method")
        config.fault(f"quantization_config: method {method!r} is not understood{_width(declared)}")
        return Stored("bf16")
    expert_dtype = config.text("expert_dtype")
    if expert_dtype in ("fp4", "mxfp4"):
        return Stored("mxfp4", found.weights)
    return found


def _plain_format(config: Config) -> str:
    stored = config.text("torch_dtype", "dtype") or "bfloat16"
    stored = stored.removeprefix("torch.")
    if stored not in STORED_AS:
        config.fault(f"torch_dtype: {stored} is not understood; known: {', '.join(STORED_AS)}")
    return STORED_AS.get(stored, "bf16")


def _width(declared: Mapping[str, Any]) -> str:
    bits = declared.get("bits") or declared.get("w_bit")
    return f": weights of {bits} bits, and 4 or 8 are priced" if bits else ""


def _quantized(declared: Mapping[str, Any]) -> Stored | None:
    method = str(declared.get("quant_method") or "").lower()
    inner = declared.get("quantization")  # the layout of hf_quant_config.json
    if not method and isinstance(inner, dict):
        return _modelopt(inner)
    if method == "fp8":
        return Stored("fp8_block" if declared.get("weight_block_size") else "fp8")
    if method in _METHODS:
        return Stored(_METHODS[method])
    if method in _INTEGER or (not method and "bits" in declared):
        return _integer(declared)
    if method == "bitsandbytes":
        return _bits_and_bytes(declared)
    if method.startswith("modelopt"):
        return _modelopt(inner if isinstance(inner, dict) else declared)
    if method in ("compressed-tensors", "compressed_tensors"):
        return _compressed_tensors(declared)
    if method == "quark":
        return _quark(declared)
    if method == "torchao":
        return _torchao(declared)
    return None


def _integer(declared: Mapping[str, Any]) -> Stored | None:
    bits = declared.get("bits") or declared.get("w_bit") or declared.get("nbits")
    weights = _integer_format(bits)
    if not weights:
        return None
    untouched = _mentions(declared, ("attn", "attention"))
    return Stored(weights, "" if weights == "int8" or untouched else weights)


def _integer_format(bits: Any) -> str:
    return "int4" if bits == 4 else "int8" if bits == 8 else ""


def _mentions(declared: Mapping[str, Any], words: Iterable[str]) -> bool:
    """Whether what the file leaves in its old format includes modules of these names."""
    kept = [entry for key in _LEFT_ALONE for entry in _entries(declared.get(key))]
    return any(word in entry for entry in kept for word in words)


def _entries(value: Any) -> list[str]:
    return [str(entry) for entry in value] if isinstance(value, list | dict) else []


def _bits_and_bytes(declared: Mapping[str, Any]) -> Stored | None:
    if declared.get("load_in_4bit") or declared.get("_load_in_4bit"):
        return Stored("int4", "int4")
    if declared.get("load_in_8bit") or declared.get("_load_in_8bit"):
        return Stored("int8")
    return None


def _modelopt(declared: Mapping[str, Any]) -> Stored | None:
    algorithm = str(declared.get("quant_algo") or "").upper()
    if algorithm in _MODELOPT:
        return Stored(_MODELOPT[algorithm])
    by_module = declared.get("quantized_layers")
    if algorithm == "MIXED_PRECISION" and isinstance(by_module, dict):
        found = [
            (str(name), _MODELOPT.get(str(entry.get("quant_algo")).upper(), ""))
            for name, entry in by_module.items()
            if isinstance(entry, dict)
        ]
        return _mixed(found)
    return _compressed_tensors(declared) if declared.get("config_groups") else None


def _mixed(found: list[tuple[str, str]]) -> Stored | None:
    """One format of the routed experts and one of the rest, from names of modules and their formats."""
    if not found or any(not weights for _, weights in found):
        return None
    experts = {weights for name, weights in found if "expert" in name and "shared" not in name}
    rest = {weights for name, weights in found if "expert" not in name or "shared" in name}
    if len(experts) == 1 and len(rest) <= 1:
        return Stored(experts.pop(), rest.pop() if rest else "")
    return Stored(rest.pop()) if not experts and len(rest) == 1 else None


def _compressed_tensors(declared: Mapping[str, Any]) -> Stored | None:
    groups = declared.get("config_groups")
    if not isinstance(groups, dict):
        return None
    found = [(_targets(group), _group_format(group, str(declared.get("format") or ""))) for group in groups.values()]
    formats = {weights for _, weights in found}
    if "" in formats or not found:
        return None
    if len(formats) == 1:
        return Stored(formats.pop())
    return _mixed(found)


def _targets(group: Any) -> str:
    return " ".join(_entries(group.get("targets"))) if isinstance(group, dict) else ""


def _group_format(group: Any, packing: str) -> str:
    weights = group.get("weights") if isinstance(group, dict) else None
    if not isinstance(weights, dict):
        return ""
    packed = str(group.get("format") or packing)
    bits, kind = weights.get("num_bits"), weights.get("type")
    if (bits, kind) == (4, "float"):
        return "mxfp4" if packed.startswith("mxfp4") or weights.get("group_size") == 32 else "nvfp4"
    if (bits, kind) == (8, "float"):
        return "fp8_block" if weights.get("block_structure") or weights.get("strategy") == "block" else "fp8"
    return _integer_format(bits) if kind == "int" else ""


def _quark(declared: Mapping[str, Any]) -> Stored | None:
    whole = declared.get("global_quant_config")
    weights = whole.get("weight") if isinstance(whole, dict) else None
    dtype = weights.get("dtype") if isinstance(weights, dict) else None
    found = _QUARK.get(str(dtype))
    return Stored(found) if found else None


def _torchao(declared: Mapping[str, Any]) -> Stored | None:
    text = str(declared.get("quant_type")).lower()
    for word, weights in (("float8", "fp8"), ("int4", "int4"), ("int8", "int8")):
        if word in text:
            return Stored(weights)
    return None
