"""Options of SGLang (facts: its 0.5.23 release). Its tp counts every rank of a worker, attention data parallel too."""

from __future__ import annotations

from planner.export.flags import Flag, flag, switch
from planner.export.launch import Launch, Worker

_KV = {"bf16": "auto", "fp8": "fp8_e4m3"}
_ONLINE = {"fp8": "fp8"}
BOOTSTRAP_PORT = 8998


def engine_flags(launch: Launch, worker: Worker) -> list[Flag]:
    """Everything the plan decides but the model and the port."""
    ranks = worker.tp * worker.dp
    flags = [
        flag("--tp-size", ranks, f"{worker.field('tp')} x dp: sglang counts all ranks"),
        *worker.degrees(pp="--pp-size", dp="--attn-dp-size", ep="--ep-size"),
    ]
    if worker.max_batch:
        total = worker.max_batch * worker.dp
        flags += [
            flag("--max-running-requests", total, f"{worker.field('max_batch')}, all attention ranks together"),
            flag("--cuda-graph-max-bs-decode", worker.max_batch, f"{worker.field('max_batch')} per attention rank"),
        ]
    flags.append(_chunk(launch, worker))
    if worker.longest_tokens:
        flags.append(flag("--context-length", worker.longest_tokens, "inputs.workload.longest_request_tokens"))
    flags += [
        flag("--kv-cache-dtype", _KV[launch.kv_dtype], "inputs.model.kv_dtype"),
        flag("--mem-fraction-static", worker.memory_fraction, f"memory_per_accelerator.{worker.role}: weights and kv"),
        flag("--page-size", launch.block_tokens, "inputs.engine.memory_rule.block_tokens"),
    ]
    if launch.weights != launch.checkpoint_format and launch.weights in _ONLINE:
        flags.append(flag("--quantization", _ONLINE[launch.weights], "inputs.model.weight_dtype"))
    if worker.host_bytes:
        gb = max(worker.host_bytes // (ranks * worker.pp) // 10**9, 1)
        flags += [
            switch("--enable-hierarchical-cache", "kv.tiers"),
            flag("--hicache-size", gb, "kv.tiers host-dram, of one rank [GB]"),
        ]
    if worker.host_bytes and worker.disk_bytes:
        flags.append(flag("--hicache-storage-backend", "file", "kv.tiers local-ssd"))
    reserved = launch.result["inputs"]["engine"].get("decode_reserved_tokens")
    if worker.role == "decode" and reserved:
        flags.append(flag("--num-reserved-decode-tokens", reserved, "inputs.engine.decode_reserved_tokens"))
    return flags + transfer_flags(launch, worker)


def _chunk(launch: Launch, worker: Worker) -> Flag:
    """Prompt tokens of a step, which sglang divides by the attention ranks."""
    name, chunk = "--chunked-prefill-size", worker.token_budget * worker.dp
    if launch.whole_prompts:
        return flag(name, -1, "plan.mode: whole prompts")
    return flag(name, chunk, "plan.mode: no prompts here" if worker.role == "decode" else worker.field("token_budget"))


def transfer_flags(launch: Launch, worker: Worker) -> list[Flag]:
    """The role of a pool and how caches reach it."""
    if launch.colocated:
        return []
    return [
        flag("--disaggregation-mode", worker.role, "plan.mode"),
        flag("--disaggregation-transfer-backend", launch.connector, "--connector"),
    ]
