"""All files of an export, by name: launch files, the plan itself and a page that says how to use them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from planner.export import dynamo, kserve, llmd, load, shell, tensorrt
from planner.export.launch import Launch
from planner.export.readme import readme
from planner.export.yamltext import to_yaml


@dataclass(frozen=True, slots=True)
class File:
    text: str
    executable: bool = False


@dataclass(frozen=True, slots=True)
class Target:
    """Something launch files can be written for."""

    name: str
    title: str
    engines: tuple[str, ...]  # that it runs; the first is taken where the scenario names none of them
    connectors: tuple[str, ...]  # the first is the default
    version: str = ""  # of the target itself, where it is no engine


TARGETS: Mapping[str, Target] = {
    target.name: target
    for target in (
        Target("vllm", "vLLM scripts", ("vllm",), ("nixl", "mooncake", "lmcache")),
        Target("sglang", "SGLang scripts", ("sglang",), ("mooncake", "nixl")),
        Target("tensorrt-llm", "TensorRT-LLM scripts", ("tensorrt-llm",), ("nixl", "mooncake")),
        Target(
            "dynamo", "Dynamo graph deployment", ("vllm", "sglang", "tensorrt-llm"), ("nixl", "mooncake"),
            dynamo.VERSION,
        ),
        Target("llm-d", "llm-d model service", ("vllm",), ("nixl", "mooncake"), llmd.CHART_VERSION),
        Target("kserve", "KServe LLMInferenceService", ("vllm",), ("nixl", "mooncake"), "v1alpha2"),
    )
}  # fmt: skip


def bundle(launch: Launch, target: Target, result_text: str) -> dict[str, File]:
    """Every file of the export. `result_text` is the result document as it is stored beside them."""
    files = _WRITERS[target.name](launch)
    page = readme(launch, target.name, sorted(files))
    traffic = {} if load.fixed_lengths(launch.result) else {load.LOAD_FILE: File(load.load_file(launch.result))}
    return {**files, **traffic, "plan.json": File(result_text), "README.md": File(page)}


def _scripts(launch: Launch) -> dict[str, File]:
    files = {shell.script_name(worker): File(shell.worker_script(launch, worker), True) for worker in launch.workers}
    files["router.sh"] = File(shell.router_script(launch), True)
    if shell.needs_own_router(launch):
        files["router.py"] = File(shell.router_program(), True)
    return files


def _tensorrt(launch: Launch) -> dict[str, File]:
    files = _scripts(launch)
    for worker in launch.workers:
        name = "serve" if worker.role == "colocated" else worker.role
        header = [f"Engine file of the {worker.role} workers. Comments name the field of plan.json."]
        files[f"{name}.yaml"] = File(to_yaml(tensorrt.engine_file(launch, worker), header))
    if not launch.colocated:
        urls: dict[str, list[str]] = {
            worker.role: [f"127.0.0.1:{shell.PORTS[worker.role] + index}" for index in range(worker.replicas)]
            for worker in launch.workers
        }
        header = ["Orchestrator: put the address of every worker here."]
        files["router.yaml"] = File(to_yaml(tensorrt.server_file(launch, shell.ROUTER_PORT, urls), header))
    return files


def _dynamo(launch: Launch) -> dict[str, File]:
    files = {"dgd.yaml": File(dynamo.manifest(launch))}
    engine_files = dynamo.engine_files(launch)
    if engine_files:
        files["engine-config.yaml"] = File(engine_files)
    return files


_WRITERS: Mapping[str, Callable[[Launch], dict[str, File]]] = {
    "vllm": _scripts,
    "sglang": _scripts,
    "tensorrt-llm": _tensorrt,
    "dynamo": _dynamo,
    "llm-d": lambda launch: {"values.yaml": File(llmd.values(launch))},
    "kserve": lambda launch: {"llminferenceservice.yaml": File(kserve.manifest(launch))},
}
