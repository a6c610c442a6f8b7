"""Options of vLLM (facts: its 0.33.0 release). Attention data parallelism and tensor parallelism are counted apart."""

from __future__ import annotations

import json
from math import ceil
from typing import Any

from planner.export.flags import Flag, flag, switch
from planner.export.launch import Launch, Worker

_KV = {"bf16": "auto", "fp8": "fp8"}
_ONLINE = {"fp8": "fp8", "fp8_block": "fp8_per_block"}  # made from a 16-bit checkpoint while loading
_CONNECTORS = {"nixl": "NixlConnector", "mooncake": "MooncakeConnector", "lmcache": "LMCacheConnectorV1"}
_ROLES = {"prefill": "kv_producer", "decode": "kv_consumer"}
DEFAULT_GRAPH_BATCH = 512  # largest batch that is captured unless asked
DISK_FOLDER = "/var/cache/kv"
SIDE_CHANNEL_PORT, BOOTSTRAP_PORT = 5600, 8998
MIB = 2**20


def parallel_flags(worker: Worker) -> list[Flag]:
    """Tensor and data parallel degrees, which some charts write themselves."""
    return [flag("--tensor-parallel-size", worker.tp, worker.field("tp")), *worker.degrees(dp="--data-parallel-size")]


def engine_flags(launch: Launch, worker: Worker) -> list[Flag]:
    """Everything the plan decides but the model, the port and the degrees of `parallel_flags`."""
    flags = worker.degrees(pp="--pipeline-parallel-size")
    if worker.ep > 1:
        flags.append(switch("--enable-expert-parallel", f"{worker.field('ep')} = {worker.ep}, all ranks of a worker"))
    if worker.max_batch:
        flags.append(flag("--max-num-seqs", worker.max_batch, f"{worker.field('max_batch')} per attention rank"))
    if worker.max_batch and worker.max_batch > DEFAULT_GRAPH_BATCH:
        why = f"{worker.field('max_batch')}: no batch runs without a graph"
        flags.append(flag("--max-cudagraph-capture-size", worker.max_batch, why))
    flags += _scheduling(launch, worker)
    if worker.longest_tokens:
        flags.append(flag("--max-model-len", worker.longest_tokens, "inputs.workload.longest_request_tokens"))
    flags += [
        flag("--kv-cache-dtype", _KV[launch.kv_dtype], "inputs.model.kv_dtype"),
        flag("--gpu-memory-utilization", worker.memory_fraction, "inputs.engine.memory_rule.fraction"),
        flag("--block-size", launch.block_tokens, "inputs.engine.memory_rule.block_tokens"),
    ]
    if launch.weights != launch.checkpoint_format and launch.weights in _ONLINE:
        flags.append(flag("--quantization", _ONLINE[launch.weights], "inputs.model.weight_dtype"))
    offloads = worker.host_bytes > 0
    if offloads and launch.colocated and not worker.disk_bytes:
        gib = f"{worker.host_bytes / worker.dp / 2**30:.1f}"
        flags.append(flag("--kv-offloading-size", gib, "kv.tiers host-dram, of the ranks of an engine [GiB]"))
    elif offloads or not launch.colocated:
        why = "plan.mode, --connector, kv.tiers" if offloads else "plan.mode and --connector"
        flags.append(flag("--kv-transfer-config", kv_transfer(launch, worker), why))
    return flags


def _scheduling(launch: Launch, worker: Worker) -> list[Flag]:
    why = "plan.mode: no prompts here" if worker.role == "decode" else worker.field("token_budget")
    if not launch.whole_prompts:
        return [flag("--max-num-batched-tokens", worker.token_budget, why)]
    budget = max(worker.token_budget, worker.longest_tokens)  # a whole prompt must fit one step
    return [
        switch("--no-enable-chunked-prefill", "plan.mode"),
        flag("--max-num-batched-tokens", budget, "plan.colocated.token_budget, and the longest request"),
    ]


def kv_transfer(launch: Launch, worker: Worker) -> str:
    """What moves and keeps caches of a pool, as JSON: the connector, tiers below the memory, or both."""
    configs: list[dict[str, Any]] = []
    if launch.connector:
        configs.append({"kv_connector": _CONNECTORS[launch.connector], "kv_role": _ROLES[worker.role]})
    if worker.host_bytes:
        configs.append(_offloading(worker))
    if len(configs) == 1:
        return json.dumps(configs[0], separators=(",", ":"))
    several = {
        "kv_connector": "MultiConnector",
        "kv_role": "kv_both",
        "kv_connector_extra_config": {"connectors": configs},
    }
    return json.dumps(several, separators=(",", ":"))


def _offloading(worker: Worker) -> dict[str, Any]:
    """Prefixes in the memory of the host, and on its flash behind that."""
    extra: dict[str, Any] = {"cpu_bytes_to_use": worker.host_bytes // worker.dp}
    if worker.disk_bytes:
        extra |= {"spec_name": "TieringOffloadingSpec", "secondary_tiers": [{"type": "fs", "root_dir": DISK_FOLDER}]}
    return {"kv_connector": "OffloadingConnector", "kv_role": "kv_both", "kv_connector_extra_config": extra}


def environment(launch: Launch, host: str, index: str, worker: Worker) -> list[tuple[str, str, str]]:
    """Variables that a worker needs, as (name, value, why); `host` and `index` are written as the target writes them.

    `index` is the number of the worker on its host, an expression of the shell.
    """
    if launch.connector == "nixl":
        step = index if worker.dp == 1 else f"{index} * {worker.dp}"
        port = f"$(({SIDE_CHANNEL_PORT} + {step}))" if index else str(SIDE_CHANNEL_PORT)
        return [
            ("VLLM_NIXL_SIDE_CHANNEL_HOST", host, "an address that the other pool reaches"),
            ("VLLM_NIXL_SIDE_CHANNEL_PORT", port, "one port for each attention rank"),
        ]
    if launch.connector == "mooncake" and worker.role == "prefill":
        port = f"$(({BOOTSTRAP_PORT} + {index}))" if index else str(BOOTSTRAP_PORT)
        return [("VLLM_MOONCAKE_BOOTSTRAP_PORT", port, "one port for each prefill worker")]
    if launch.connector == "lmcache":
        role = "sender" if worker.role == "prefill" else "receiver"
        return [
            ("LMCACHE_ENABLE_PD", "true", "plan.mode"),
            ("LMCACHE_PD_ROLE", role, "plan.mode"),
            ("LMCACHE_TRANSFER_CHANNEL", "nixl", "how caches travel"),
            ("LMCACHE_PD_BUFFER_DEVICE", "cuda", "staging beside the KV pool"),
            ("LMCACHE_PD_BUFFER_SIZE", str(_staging_bytes(launch, worker)), "KV of the longest request on one card"),
        ]
    return []


def _staging_bytes(launch: Launch, worker: Worker) -> int:
    """KV of the longest request on one accelerator, in whole MiB; both pools split it alike."""
    kv, decode = launch.result["kv"], launch.worker("decode")
    whole = kv["bytes_per_token"] / worker.tp
    per_token = decode.kv_bytes * decode.dp / kv["capacity_tokens"] if kv["capacity_tokens"] else whole
    tokens = worker.longest_tokens or launch.result["inputs"]["model"].get("max_context_tokens") or worker.token_budget
    return int(ceil(tokens * per_token / MIB) * MIB)
