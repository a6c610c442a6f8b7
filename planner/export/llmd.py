"""Values of the llm-d model service chart (facts: llm-d-modelservice 0.4.12)."""

from __future__ import annotations

from typing import Any

from planner.export import pods, vllm
from planner.export.launch import Launch, Worker
from planner.export.yamltext import Commented, to_yaml

CHART_VERSION = "0.4.12"
ENGINE_PORT, SIDECAR_PORT = 8200, 8000
_CONNECTORS = {"nixl": "nixlv2", "mooncake": "mooncake"}


def values(launch: Launch) -> str:
    """The chart's values."""
    header = [
        f"{launch.name}: plan of {launch.model} for llm-d-modelservice {CHART_VERSION}, vLLM {launch.engine_version}.",
        "The chart adds the model, the port and the tensor and data parallel sizes to each command.",
        "Comments name the field of plan.json that a value carries.",
    ]
    proxy: dict[str, Any] = {"enabled": not launch.colocated}
    if launch.connector:
        proxy |= {"connector": _CONNECTORS[launch.connector], "targetPort": ENGINE_PORT}
    value: dict[str, Any] = {
        "fullnameOverride": launch.name,
        "multinode": any(worker.nodes > 1 for worker in launch.workers),
        "modelArtifacts": {
            "uri": Commented(f"hf://{launch.model}", "inputs.model.id"),
            "name": launch.model,
            "authSecretName": pods.SECRET,
            "labels": {"llm-d.ai/inference-serving": "true"},
        },
        "routing": {"servicePort": SIDECAR_PORT, "proxy": proxy},
    }
    for worker in launch.workers:
        value["decode" if worker.role == "colocated" else worker.role] = _role(launch, worker)
    if launch.colocated:
        value["prefill"] = {"create": Commented(False, "plan.mode")}
    return to_yaml(value, header)


def _role(launch: Launch, worker: Worker) -> dict[str, Any]:
    port = ENGINE_PORT if worker.role == "decode" else SIDECAR_PORT
    degrees: dict[str, Any] = {
        "tensor": Commented(worker.tp, worker.field("tp")),
        "data": Commented(worker.dp, worker.field("dp")),
    }
    if worker.nodes > 1:
        degrees["dataLocal"] = Commented(max(worker.dp // worker.nodes, 1), f"{worker.field('dp')} of a node")
        degrees["workers"] = Commented(worker.nodes, "accelerators of a worker / those of a node")
    extra = [
        *vllm.environment(launch, pods.POD_IP, "", worker),
        ("VLLM_HTTP_TIMEOUT_KEEP_ALIVE", "120", "longer than the 90 s of the router's sidecar"),
    ]
    container = {
        "name": "vllm",
        "image": f"vllm/vllm-openai:v{launch.engine_version}",
        "modelCommand": "vllmServe",
        "args": pods.arguments(vllm.engine_flags(launch, worker)),
        "env": pods.environment(launch, extra),
        "ports": [{"containerPort": port, "name": "vllm", "protocol": "TCP"}],
        "resources": pods.resources(launch, worker),
        "volumeMounts": [pods.SHARED_MEMORY_MOUNT],
        "mountModelVolume": True,
        **pods.probes("vllm"),
    }
    return {
        "create": True,
        "replicas": Commented(worker.replicas, worker.field("replicas")),
        "parallelism": degrees,
        "nodeSelector": pods.node_selector(worker),
        "containers": [container],
        "volumes": [pods.SHARED_MEMORY_VOLUME],
    }
