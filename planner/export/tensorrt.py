"""The engine file of TensorRT-LLM (facts: its main branch between 1.3.0rc27 and 1.4.0rc4)."""

from __future__ import annotations

from typing import Any

from planner.export.launch import Launch, Worker
from planner.export.yamltext import Commented

_BACKENDS = {"nixl": "NIXL", "mooncake": "MOONCAKE"}


def engine_file(launch: Launch, worker: Worker) -> dict[str, Any]:
    """The YAML of one pool's workers, each value with the field it carries."""
    values: dict[str, Any] = {"backend": "pytorch", **_parallel(worker)}
    if worker.max_batch:
        values["max_batch_size"] = Commented(worker.max_batch, f"{worker.field('max_batch')} per attention rank")
    prompts = worker.role != "decode"
    budget = max(worker.token_budget, worker.longest_tokens) if launch.whole_prompts else worker.token_budget
    values["max_num_tokens"] = Commented(budget, worker.field("token_budget") if prompts else "plan.mode")
    if worker.longest_tokens:
        values["max_seq_len"] = Commented(worker.longest_tokens, "inputs.workload.longest_request_tokens")
    values["enable_chunked_prefill"] = Commented(prompts and not launch.whole_prompts, "plan.mode; off by default")
    values["kv_cache_config"] = {
        "dtype": Commented("fp8" if launch.kv_dtype == "fp8" else "auto", "inputs.model.kv_dtype"),
        "free_gpu_memory_fraction": Commented(
            worker.memory_fraction, "inputs.engine.memory_rule.fraction, of the rest"
        ),
        "tokens_per_block": Commented(launch.block_tokens, "inputs.engine.memory_rule.block_tokens"),
    }
    ranks = worker.tp * worker.dp * worker.pp
    if worker.host_bytes:
        host = Commented(worker.host_bytes // ranks, "kv.tiers host-dram, of one rank")
        values["kv_cache_config"]["host_cache_size"] = host
    if worker.disk_bytes:
        disk = Commented(worker.disk_bytes // ranks, "kv.tiers local-ssd, of one rank")
        values["kv_cache_config"] |= {"disk_cache_size": disk, "disk_cache_path": "/var/cache/kv"}
    if worker.max_batch:
        values["cuda_graph_config"] = {
            "max_batch_size": Commented(worker.max_batch, f"{worker.field('max_batch')}: no batch without a graph"),
            "enable_padding": True,
        }
    if worker.role == "prefill":
        values["disable_overlap_scheduler"] = Commented(True, "plan.mode: context servers")
    if not launch.colocated:
        values["cache_transceiver_config"] = _transceiver(launch)
    return values


def _parallel(worker: Worker) -> dict[str, Any]:
    ranks = worker.tp * worker.dp
    values: dict[str, Any] = {
        "tensor_parallel_size": Commented(ranks, f"{worker.field('tp')} x dp: all ranks of a stage"),
    }
    if worker.pp > 1:
        values["pipeline_parallel_size"] = Commented(worker.pp, worker.field("pp"))
    if worker.dp > 1:
        values["enable_attention_dp"] = Commented(True, f"{worker.field('dp')} = {worker.dp}, every rank")
    if worker.ep > 1:
        values["moe_expert_parallel_size"] = Commented(worker.ep, worker.field("ep"))
        values["moe_tensor_parallel_size"] = Commented(ranks // worker.ep, "tp x dp / ep")
    return values


def _transceiver(launch: Launch) -> dict[str, Any]:
    block = launch.block_tokens
    longest = launch.worker("prefill").longest_tokens
    return {
        "backend": Commented(_BACKENDS[launch.connector or "nixl"], "--connector"),
        "max_tokens_in_buffer": Commented(-(-longest // block) * block, "inputs.workload.longest_input_tokens"),
    }


def server_file(launch: Launch, port: int, urls: dict[str, list[str]]) -> dict[str, Any]:
    """The file of the orchestrator in front of context and generation servers."""
    return {
        "hostname": "0.0.0.0",
        "port": port,
        "backend": "pytorch",
        "context_servers": {
            "num_instances": Commented(launch.worker("prefill").replicas, "plan.prefill.replicas"),
            "urls": urls["prefill"],
        },
        "generation_servers": {
            "num_instances": Commented(launch.worker("decode").replicas, "plan.decode.replicas"),
            "urls": urls["decode"],
        },
    }
