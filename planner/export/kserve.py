"""KServe LLMInferenceService manifests (serving.kserve.io/v1alpha2)."""

from __future__ import annotations

from typing import Any

from planner.export import pods, vllm
from planner.export.launch import Launch, Worker
from planner.export.yamltext import Commented, to_yaml

_PORT = 8000


def manifest(launch: Launch) -> str:
    """The service as one manifest. The pool that decodes, or does both phases, stands at the top of `spec`."""
    header = [
        f"{launch.name}: plan of {launch.model} for KServe on vLLM {launch.engine_version}.",
        "Comments name the field of plan.json that a value carries.",
    ]
    main = launch.worker("colocated" if launch.colocated else "decode")
    spec: dict[str, Any] = {
        "model": {"uri": Commented(f"hf://{launch.model}", "inputs.model.id"), "name": launch.model},
        **_pool(launch, main),
    }
    if not launch.colocated:
        spec["prefill"] = _pool(launch, launch.worker("prefill"))
    spec["router"] = {"route": {}, "gateway": {}, "scheduler": {}}
    value = {
        "apiVersion": "serving.kserve.io/v1alpha2",
        "kind": "LLMInferenceService",
        "metadata": {"name": launch.name},
        "spec": spec,
    }
    return to_yaml(value, header)


def _pool(launch: Launch, worker: Worker) -> dict[str, Any]:
    degrees: dict[str, Any] = {"tensor": Commented(worker.tp, worker.field("tp"))}
    if worker.pp > 1:
        degrees["pipeline"] = Commented(worker.pp, worker.field("pp"))
    if worker.dp > 1:
        degrees["data"] = Commented(worker.dp, worker.field("dp"))
        degrees["dataLocal"] = Commented(worker.dp // worker.nodes, f"{worker.field('dp')} of a node")
    if worker.ep > 1:
        degrees["expert"] = Commented(True, f"{worker.field('ep')} = {worker.ep}, all ranks of a worker")
    pool: dict[str, Any] = {
        "replicas": Commented(worker.replicas, worker.field("replicas")),
        "parallelism": degrees,
        "labels": pods.labels(worker),
        "template": _pod(launch, worker),
    }
    if worker.nodes > 1:
        pool["worker"] = _pod(launch, worker)
    return pool


def _pod(launch: Launch, worker: Worker) -> dict[str, Any]:
    flags = [*vllm.parallel_flags(worker), *vllm.engine_flags(launch, worker)]
    container = {
        "name": "main",
        "image": f"vllm/vllm-openai:v{launch.engine_version}",
        "command": ["vllm", "serve", "/mnt/models"],
        "args": [*pods.arguments(flags), f"--served-model-name={launch.model}", f"--port={_PORT}"],
        "env": pods.environment(launch, vllm.environment(launch, pods.POD_IP, "", worker)),
        "resources": pods.resources(launch, worker),
        "volumeMounts": [pods.SHARED_MEMORY_MOUNT],
        **pods.probes(_PORT),
    }
    return {
        "nodeSelector": pods.node_selector(worker),
        "containers": [container],
        "volumes": [pods.SHARED_MEMORY_VOLUME],
    }
