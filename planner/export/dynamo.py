"""Dynamo graph deployments (DynamoGraphDeployment, nvidia.com/v1beta1; facts: the 1.6.1 release)."""

from __future__ import annotations

from typing import Any

from planner.export import pods, sglang, tensorrt, vllm
from planner.export.flags import Flag, flag
from planner.export.launch import Launch, Worker
from planner.export.yamltext import Block, Commented, to_yaml

VERSION = "1.6.1"
FRAMEWORKS = {"vllm": "vllm", "sglang": "sglang", "tensorrt-llm": "trtllm"}
_IMAGES = {"vllm": "vllm-runtime", "sglang": "sglang-runtime", "tensorrt-llm": "tensorrtllm-runtime"}
_REGISTRY = "nvcr.io/nvidia/ai-dynamo"
_SYSTEM_PORT = 9090
_ENGINE_FILES = "/engine"


def manifest(launch: Launch) -> str:
    """The deployment as one manifest."""
    header = [
        f"{launch.name}: plan of {launch.model} for Dynamo {VERSION} on {launch.engine} {launch.engine_version}.",
        "Comments name the field of plan.json that a value carries.",
    ]
    value = {
        "apiVersion": "nvidia.com/v1beta1",
        "kind": "DynamoGraphDeployment",
        "metadata": {"name": launch.name},
        "spec": {
            "backendFramework": FRAMEWORKS[launch.engine],
            "components": [_frontend(launch), *(_component(launch, worker) for worker in launch.workers)],
        },
    }
    return to_yaml(value, header)


def engine_files(launch: Launch) -> str | None:
    """Engine files of TensorRT-LLM as a ConfigMap; None for engines that take options only."""
    if launch.engine != "tensorrt-llm":
        return None
    data = {f"{worker.role}.yaml": Block(to_yaml(tensorrt.engine_file(launch, worker))) for worker in launch.workers}
    value = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": _config_map(launch)},
        "data": data,
    }
    return to_yaml(value, [f"Engine files of {launch.name}; apply before the deployment."])


def _config_map(launch: Launch) -> str:
    return f"{launch.name}-engine"


def _image(launch: Launch) -> str:
    return f"{_REGISTRY}/{_IMAGES[launch.engine]}:{VERSION}"


def _frontend(launch: Launch) -> dict[str, Any]:
    container = {
        "name": "main",
        "image": _image(launch),
        "command": ["python3", "-m", "dynamo.frontend"],
        "args": [Commented("--router-mode=round-robin", "least waits come from even load; plan.prediction")],
        "env": pods.environment(launch),
    }
    return {
        "name": "frontend",
        "type": "frontend",
        "replicas": 1,
        "podTemplate": {"spec": {"containers": [container]}},
    }


def _component(launch: Launch, worker: Worker) -> dict[str, Any]:
    component: dict[str, Any] = {
        "name": worker.role,
        "type": "worker" if worker.role == "colocated" else worker.role,
        "replicas": Commented(worker.replicas, worker.field("replicas")),
        "sharedMemorySize": "16Gi",
    }
    if worker.nodes > 1:
        component["multinode"] = {"nodeCount": Commented(worker.nodes, "accelerators of a worker / those of a node")}
    container = {
        "name": "main",
        "image": _image(launch),
        "command": ["python3", "-m", f"dynamo.{FRAMEWORKS[launch.engine]}"],
        "args": pods.arguments(_flags(launch, worker)),
        "env": pods.environment(launch, _variables(launch, worker)),
        "resources": pods.resources(launch, worker),
        **pods.probes(_SYSTEM_PORT),
    }
    spec: dict[str, Any] = {"nodeSelector": pods.node_selector(worker), "containers": [container]}
    if launch.engine == "tensorrt-llm":
        container["volumeMounts"] = [{"name": "engine", "mountPath": _ENGINE_FILES}]
        spec["volumes"] = [{"name": "engine", "configMap": {"name": _config_map(launch)}}]
    component["podTemplate"] = {"metadata": {"labels": pods.labels(worker)}, "spec": spec}
    return component


def _variables(launch: Launch, worker: Worker) -> list[tuple[str, str, str]]:
    return vllm.environment(launch, pods.POD_IP, "", worker) if launch.engine == "vllm" else []


def _flags(launch: Launch, worker: Worker) -> list[Flag]:
    if launch.engine == "tensorrt-llm":
        mode = "agg" if launch.colocated else worker.role
        return [
            flag("--model-path", launch.model, "inputs.model.id"),
            flag("--disaggregation-mode", mode, "plan.mode"),
            flag("--extra-engine-args", f"{_ENGINE_FILES}/{worker.role}.yaml", "the engine file of this pool"),
        ]
    if launch.engine == "sglang":
        flags = [flag("--model-path", launch.model, "inputs.model.id"), *sglang.engine_flags(launch, worker)]
        if not launch.colocated:
            flags.append(flag("--disaggregation-bootstrap-port", sglang.BOOTSTRAP_PORT, "the same on both pools"))
        return flags
    flags = [flag("--model", launch.model, "inputs.model.id")]
    if not launch.colocated:
        flags.append(flag("--disaggregation-mode", worker.role, "plan.mode"))
    return [*flags, *vllm.parallel_flags(worker), *vllm.engine_flags(launch, worker)]
