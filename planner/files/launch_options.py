"""Options of an engine's command line, and what they say of a worker. Values are read and never shown."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from planner.errors import Fault, InputError
from planner.files.shell_commands import Word

_OPTION = re.compile(r"--?[A-Za-z][A-Za-z0-9._-]*")
_SHORT = {
    "-tp": "--tensor-parallel-size",
    "-pp": "--pipeline-parallel-size",
    "-dp": "--data-parallel-size",
    "-q": "--quantization",
}
_SWITCHES = frozenset(
    {
        "--enable-expert-parallel", "--enable-dp-attention", "--no-enable-chunked-prefill", "--enable-chunked-prefill",
        "--trust-remote-code", "--headless", "--enforce-eager", "--disable-radix-cache", "--enable-mixed-chunk",
        "--enable-hierarchical-cache",
    }
)  # fmt: skip
# Options that say nothing of what a plan decides.
_ASIDE = frozenset(
    {
        "--host", "--port", "--api-key", "--served-model-name", "--trust-remote-code", "--uvicorn-log-level",
        "--node-rank", "--nnodes", "--master-addr", "--headless", "--dist-init-addr", "--data-parallel-address",
        "--data-parallel-rpc-port", "--data-parallel-size-local", "--data-parallel-start-rank", "--tokenizer",
        "--disaggregation-bootstrap-port", "--disaggregation-transfer-backend", "--max-cudagraph-capture-size",
        "--kv-offloading-size", "--enable-hierarchical-cache", "--hicache-size", "--hicache-storage-backend",
        "--cuda-graph-max-bs-decode", "--download-dir", "--disable-log-requests", "--backend", "--log-level",
    }
)  # fmt: skip


@dataclass(slots=True)
class Options:
    """Options of one command: values by name, and the places that could not be read."""

    values: dict[str, Word | None] = field(default_factory=dict)
    positional: list[Word] = field(default_factory=list)

    def text(self, *names: str) -> str | None:
        """The value of the first option of these that is there and known."""
        for name in names:
            word = self.values.get(name)
            if word is not None and word.text is not None:
                return word.text
        return None

    def given(self, *names: str) -> bool:
        return any(name in self.values for name in names)


def read_options(words: Sequence[Word]) -> Options:
    """Options of a command line as `--name value` and `--name=value`; underscores in names are read as hyphens."""
    found, at = Options(), 0
    while at < len(words):
        word = words[at]
        start = word.pieces[0] if word.text is None and word.pieces else word.text
        name, equals, value = (_joined_start(word) if word.text is None else start or "").partition("=")
        at += 1
        if not _OPTION.fullmatch(name):
            found.positional.append(word)
            continue
        name = _SHORT.get(name, "--" + name.lstrip("-").replace("_", "-") if name.startswith("--") else name)
        if equals:
            found.values[name] = Word([value]) if word.text is not None else Word([None])
        elif name not in _SWITCHES and at < len(words) and not _is_option(words[at]):
            found.values[name] = words[at]
            at += 1
        else:
            found.values[name] = None
    return found


def _joined_start(word: Word) -> str:
    """The known beginning of a word that is not known whole."""
    text = ""
    for piece in word.pieces:
        if piece is None:
            break
        text += piece
    return text


def _is_option(word: Word) -> bool:
    return bool(_OPTION.match(_joined_start(word))) and not re.fullmatch(r"-\d+", _joined_start(word))


@dataclass(frozen=True, slots=True)
class Told:
    """What one command says of a worker. None: it says nothing. `ranks` counts every accelerator of a stage."""

    engine: str
    role: str = ""  # prefill | decode | "" where the command does not say
    model: str = ""
    tp: int | None = None
    pp: int | None = None
    ep: int | None = None
    dp: int | None = None
    copies: int = 1  # whole replicas behind one entry point
    max_batch: int | None = None  # per attention rank
    token_budget: int | None = None  # per attention rank
    whole_prompts: bool = False
    kv_dtype: str = ""
    weights: str = ""
    memory_fraction: float | None = None
    block_tokens: int | None = None
    longest_tokens: int | None = None
    reserved_tokens: int | None = None
    connector: str = ""
    unread: tuple[str, ...] = ()  # names of options that were not understood, or whose value a shell computes


class Values:
    """Reads typed values from options and keeps the names of those that are not what they must be."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.used: set[str] = set(_ASIDE)
        self.bad: list[str] = []

    def text(self, *names: str) -> str | None:
        self.used.update(names)
        for name in names:
            word = self.options.values.get(name)
            if word is not None and word.text is None:
                self.bad.append(name)
        return self.options.text(*names)

    def _given(self, names: Sequence[str]) -> str:
        return next(name for name in names if name in self.options.values)

    def number(self, *names: str) -> float | None:
        text = self.text(*names)
        if text is None:
            return None
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if math.isfinite(value):
            return value
        self.bad.append(self._given(names))
        return None

    def count(self, *names: str) -> int | None:
        value = self.number(*names)
        if value is None:
            return None
        if value != int(value) or not 0 < value < 1e9:
            self.bad.append(self._given(names))
            return None
        return int(value)

    def degree(self, *names: str) -> int | None:
        """A degree of parallelism: without it nothing can be said of a worker, so that a wrong one is a fault."""
        found, text = self.count(*names), self.text(*names)
        if found is None and text is not None:
            raise InputError([Fault(f"{self._given(names)}: the value is no whole number of at least 1")])
        return found

    def fraction(self, *names: str) -> float | None:
        value = self.number(*names)
        if value is None or 0.0 < value <= 1.0:
            return value
        self.bad.append(self._given(names))
        return None

    def mapping(self, name: str) -> dict[str, Any]:
        """A JSON object; empty where it is none."""
        text = self.text(name)
        try:
            value = json.loads(text or "{}")
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, dict):
            return value
        self.bad.append(name)
        return {}

    def switch(self, *names: str) -> bool:
        self.used.update(names)
        return self.options.given(*names)

    def choice(self, meanings: Mapping[str, str], *names: str) -> str:
        """The meaning of a known value, "" without one; another value is not understood."""
        text = self.text(*names)
        if text is None:
            return ""
        if text not in meanings:
            self.bad.append(self._given(names))
            return ""
        return meanings[text]

    def unread(self) -> tuple[str, ...]:
        rest = [name for name in self.options.values if name not in self.used]
        return tuple(dict.fromkeys([*self.bad, *rest]))


_WEIGHTS = {
    "fp8": "fp8", "fp8_per_tensor": "fp8", "fp8_per_block": "fp8_block", "modelopt_fp4": "nvfp4", "mxfp4": "mxfp4",
    "awq": "int4", "gptq": "int4", "awq_marlin": "int4", "gptq_marlin": "int4", "w8a8_int8": "int8", "w8a8_fp8": "fp8",
}  # fmt: skip
_KV = {
    "auto": "", "bf16": "bf16", "bfloat16": "bf16", "fp8": "fp8", "fp8_e4m3": "fp8", "fp8_e5m2": "fp8",
}  # fmt: skip
_CONNECTORS = {
    "NixlConnector": "nixl", "NixlPullConnector": "nixl", "NixlPushConnector": "nixl", "MooncakeConnector": "mooncake",
    "LMCacheConnectorV1": "lmcache",
}  # fmt: skip
_BACKENDS = {"nixl": "nixl", "default": "nixl", "mooncake": "mooncake"}
_KV_ROLES = {"kv_producer": "prefill", "kv_consumer": "decode"}
_MODES = {"prefill": "prefill", "decode": "decode", "null": "", "agg": "", "context": "prefill", "generation": "decode"}


def vllm(options: Options) -> Told:
    """A command of vLLM, or of Dynamo around it."""
    read = Values(options)
    tp, dp = read.degree("--tensor-parallel-size", "--tp"), read.degree("--data-parallel-size", "--dp")
    spread = read.switch("--enable-expert-parallel")
    transfer = _first_connector(read.mapping("--kv-transfer-config"))
    role = read.choice(_MODES, "--disaggregation-mode") or _KV_ROLES.get(str(transfer.get("kv_role")), "")
    model = read.text("--model") or _first(options)
    return Told(
        engine="vllm",
        role=role,
        model=model,
        tp=tp,
        pp=read.degree("--pipeline-parallel-size"),
        ep=(tp or 1) * (dp or 1) if spread else None,
        dp=dp,
        max_batch=read.count("--max-num-seqs"),
        token_budget=read.count("--max-num-batched-tokens"),
        whole_prompts=read.switch("--no-enable-chunked-prefill"),
        kv_dtype=read.choice(_KV, "--kv-cache-dtype"),
        weights=read.choice(_WEIGHTS, "--quantization"),
        memory_fraction=read.fraction("--gpu-memory-utilization"),
        block_tokens=read.count("--block-size"),
        longest_tokens=read.count("--max-model-len"),
        connector=_CONNECTORS.get(str(transfer.get("kv_connector")), ""),
        unread=read.unread(),
    )


def sglang(options: Options) -> Told:
    """A command of SGLang, or of Dynamo around it: its tp counts every rank, so it is divided by attention ranks."""
    read = Values(options)
    ranks = read.degree("--tp-size", "--tensor-parallel-size", "--tp") or 1
    plain = read.degree("--dp-size", "--data-parallel-size", "--dp")
    old = read.switch("--enable-dp-attention")
    dp = read.degree("--attn-dp-size") or (plain if old else None) or 1
    if ranks % dp:
        read.bad.append("--attn-dp-size" if options.given("--attn-dp-size") else "--dp-size")
        dp = 1
    running, chunk = read.count("--max-running-requests"), read.number("--chunked-prefill-size")
    whole = chunk is not None and chunk < 0
    return Told(
        engine="sglang",
        role=read.choice(_MODES, "--disaggregation-mode"),
        model=read.text("--model-path", "--model") or _first(options),
        tp=ranks // dp,
        pp=read.degree("--pp-size", "--pipeline-parallel-size"),
        ep=read.degree("--ep-size", "--expert-parallel-size"),
        dp=dp,
        copies=plain if plain and not old else 1,
        max_batch=-(-running // dp) if running else None,
        token_budget=int(chunk) // dp if chunk is not None and not whole else None,
        whole_prompts=whole,
        kv_dtype=read.choice(_KV, "--kv-cache-dtype"),
        weights=read.choice(_WEIGHTS, "--quantization"),
        memory_fraction=read.fraction("--mem-fraction-static"),
        block_tokens=read.count("--page-size"),
        longest_tokens=read.count("--context-length"),
        reserved_tokens=read.count("--num-reserved-decode-tokens"),
        connector=read.choice(_BACKENDS, "--disaggregation-transfer-backend"),
        unread=read.unread(),
    )


def tensorrt(options: Options, engine_file: Mapping[str, Any]) -> Told:
    """A command of TensorRT-LLM with its engine file; the file wins over the command line."""
    read = Values(options)
    for name in ("--config", "--extra-llm-api-options", "--extra-engine-args", "--hostfile"):
        read.used.add(name)
    cache = engine_file.get("kv_cache_config") or {}
    ranks = _count(engine_file, "tensor_parallel_size") or read.degree("--tp-size") or 1
    spread = engine_file.get("enable_attention_dp") is True
    transfer = engine_file.get("cache_transceiver_config") or {}
    mode = read.choice(_MODES, "--disaggregation-mode", "--server-role")
    if not mode and transfer:
        mode = "prefill" if engine_file.get("disable_overlap_scheduler") is True else "decode"
    longest = _count(engine_file, "max_seq_len") or read.count("--max-seq-len")
    return Told(
        engine="tensorrt-llm",
        role=mode,
        model=read.text("--model-path", "--model") or _first(options),
        tp=1 if spread else ranks,
        pp=_count(engine_file, "pipeline_parallel_size") or read.degree("--pp-size"),
        ep=_count(engine_file, "moe_expert_parallel_size") or read.degree("--ep-size"),
        dp=ranks if spread else 1,
        max_batch=_count(engine_file, "max_batch_size") or read.count("--max-batch-size"),
        token_budget=_count(engine_file, "max_num_tokens") or read.count("--max-num-tokens"),
        whole_prompts=engine_file.get("enable_chunked_prefill") is not True and not mode,
        kv_dtype=_KV.get(str(cache.get("dtype", "auto")), ""),
        memory_fraction=_number(cache, "free_gpu_memory_fraction")
        or read.fraction("--free-gpu-memory-fraction", "--kv-cache-free-gpu-memory-fraction"),
        block_tokens=_count(cache, "tokens_per_block"),
        longest_tokens=longest,
        connector=_BACKENDS.get(str(transfer.get("backend", "")).lower(), ""),
        unread=(*read.unread(), *(key for key in engine_file if key not in _ENGINE_KEYS)),
    )


_ENGINE_KEYS = frozenset(
    {
        "backend", "tensor_parallel_size", "pipeline_parallel_size", "moe_expert_parallel_size",
        "moe_tensor_parallel_size", "enable_attention_dp", "max_batch_size", "max_num_tokens", "max_seq_len",
        "enable_chunked_prefill", "kv_cache_config", "cuda_graph_config", "disable_overlap_scheduler",
        "cache_transceiver_config",
    }
)  # fmt: skip

READERS: Mapping[str, Callable[[Options], Told]] = {"vllm": vllm, "sglang": sglang}


def _first_connector(transfer: Mapping[str, Any]) -> Mapping[str, Any]:
    """Of several connectors the one that moves caches between pools."""
    extra = transfer.get("kv_connector_extra_config")
    several = extra.get("connectors") if isinstance(extra, dict) else None
    found = [one for one in several if isinstance(one, dict)] if isinstance(several, list) else []
    return next((one for one in found if one.get("kv_connector") in _CONNECTORS), transfer)


def _first(options: Options) -> str:
    """The model as the first bare word."""
    return (options.positional[0].text or "") if options.positional else ""


def _count(values: Mapping[str, Any], key: str) -> int | None:
    value = values.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _number(values: Mapping[str, Any], key: str) -> float | None:
    value = values.get(key)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and value > 0 else None
