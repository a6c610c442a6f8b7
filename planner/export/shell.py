"""Start scripts of engines on plain hosts: one script for each pool, and one for the router in front."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from importlib.resources import files

from planner.export import sglang, vllm
from planner.export.flags import Flag
from planner.export.launch import Launch, Worker
from planner.records import RoleName

ROUTER_PORT = 8000
PORTS: dict[RoleName, int] = {"prefill": 8100, "decode": 8200, "colocated": 8100}
TITLES = {"vllm": "vLLM", "sglang": "SGLang", "tensorrt-llm": "TensorRT-LLM"}
_OUR_HOST = "$(hostname -I | cut -d' ' -f1)"


def script_name(worker: Worker) -> str:
    return "serve.sh" if worker.role == "colocated" else f"{worker.role}.sh"


def worker_script(launch: Launch, worker: Worker) -> str:
    """The script that starts one worker of a pool; its argument is the number of the worker."""
    command = {"vllm": _vllm, "sglang": _sglang, "tensorrt-llm": _tensorrt}[launch.engine]
    return "\n".join([*_head(launch, worker), "", *_setting(launch, worker), "", *command(launch, worker)]) + "\n"


def _head(launch: Launch, worker: Worker) -> list[str]:
    name, last = script_name(worker), worker.replicas - 1
    nodes = "" if worker.nodes == 1 else f"\n#   over {worker.nodes} nodes: NODE_RANK=R HEAD=ADDRESS on each of them"
    workers = f"{worker.replicas} worker{'s' if worker.replicas > 1 else ''}"
    pool = f"{worker.role.capitalize()} pool of {launch.name}: {workers} of {worker.accelerators} {worker.accelerator}"
    return [
        "#!/usr/bin/env bash",
        f"# {pool}.",
        f"# {TITLES[launch.engine]} {launch.engine_version}. One worker a call: {name} INDEX, from 0 to {last}.{nodes}",
        "# Comments name the field of plan.json that an option carries.",
        "set -euo pipefail",
    ]


def _setting(launch: Launch, worker: Worker) -> list[str]:
    """What differs between hosts and workers. Variables of the environment win."""
    per_node = worker.accelerators_per_node
    lines = [
        f"replicas={worker.replicas}  # {worker.field('replicas')}",
        f"accelerator={shlex.quote(worker.accelerator)}  # {worker.field('accelerator')}",
        f"index=${{1:?usage: {script_name(worker)} INDEX, from 0 to {worker.replicas - 1}}}",
        f"model=${{MODEL:-{shlex.quote(launch.model)}}}  # inputs.model.id",
        f"port=${{PORT:-$(({PORTS[worker.role]} + index))}}",
    ]
    if per_node < worker.node_accelerators:
        step = "index" if per_node == 1 else f"index * {per_node}"
        chosen = "$first" if per_node == 1 else f'$(seq -s, "$first" $((first + {per_node - 1})))'
        lines += [
            f"first=${{FIRST:-$(({step} % {worker.node_accelerators}))}}  # accelerator of the host",
            f"export CUDA_VISIBLE_DEVICES=${{CUDA_VISIBLE_DEVICES:-{chosen}}}",
        ]
    if worker.nodes > 1:
        lines += ["node_rank=${NODE_RANK:?}", "head=${HEAD:?address of node 0}"]
    if launch.engine == "vllm":
        for name, value, why in vllm.environment(launch, _OUR_HOST, "index", worker):
            lines.append(f"export {name}=${{{name}:-{value}}}  # {why}")
    lines.append('echo "worker $index of $replicas on $accelerator, port $port" >&2')
    return lines


def _array(flags: Sequence[Flag]) -> list[str]:
    """Options as a shell array, one a line with its comment."""
    lines = [f"  {_argument(flag)}  # {flag.why}" for flag in flags]
    return ["args=(", *lines, ")"]


def _argument(flag: Flag) -> str:
    return flag.name if flag.value is None else f"{flag.name} {shlex.quote(flag.value)}"


def _vllm(launch: Launch, worker: Worker) -> list[str]:
    flags = [*vllm.parallel_flags(worker), *vllm.engine_flags(launch, worker)]
    return [
        *_array(flags),
        *_vllm_nodes(worker),
        'exec vllm serve "$model" "${args[@]}" --port "$port"',
    ]


def _vllm_nodes(worker: Worker) -> list[str]:
    """How the processes of a worker over several nodes find each other."""
    if worker.nodes == 1:
        return []
    if worker.dp > 1:
        local = worker.dp // worker.nodes
        return [
            "args+=(",
            f"  --data-parallel-size-local {local}  # attention ranks of a node",
            '  --data-parallel-address "$head" --data-parallel-rpc-port 29550',
            ")",
            "if ((node_rank > 0)); then",
            f"  args+=(--headless --data-parallel-start-rank $((node_rank * {local})))",
            "fi",
        ]
    return [
        f'args+=(--nnodes {worker.nodes} --node-rank "$node_rank" --master-addr "$head")',
        "if ((node_rank > 0)); then",
        "  args+=(--headless)",
        "fi",
    ]


def _sglang(launch: Launch, worker: Worker) -> list[str]:
    lines = _array(sglang.engine_flags(launch, worker))
    if worker.role == "prefill":
        lines.append(f"args+=(--disaggregation-bootstrap-port $(({sglang.BOOTSTRAP_PORT} + index)))")
    if worker.nodes > 1:
        lines.append(f'args+=(--nnodes {worker.nodes} --node-rank "$node_rank" --dist-init-addr "$head:20000")')
    start = 'exec python3 -m sglang.launch_server --model-path "$model" "${args[@]}" --host 0.0.0.0 --port "$port"'
    return [*lines, start]


def _tensorrt(launch: Launch, worker: Worker) -> list[str]:
    name = "serve" if worker.role == "colocated" else worker.role
    start = f'trtllm-serve "$model" --config "$(dirname "$0")/{name}.yaml" --host 0.0.0.0 --port "$port"'
    if worker.nodes == 1:
        return [f"exec {start}"]
    return [
        "# the launcher of MPI starts a process for each rank; run it on node 0 with a hostfile of all nodes",
        f'exec mpirun -n {worker.accelerators} --hostfile "${{HOSTFILE:?}}" trtllm-llmapi-launch {start}',
    ]


# --------------------------------------------------------------------------------------------------------------- router


def router_script(launch: Launch) -> str:
    """The script that starts the router in front of the pools."""
    if launch.engine == "tensorrt-llm" and not launch.colocated:
        lines = ['exec trtllm-serve disaggregated -c "$(dirname "$0")/router.yaml"']
    else:
        lines = [*_url_lines(launch), "", *_router_call(launch)]
    title = f"# Router of {launch.name}: clients talk to port {ROUTER_PORT}."
    return "\n".join(["#!/usr/bin/env bash", title, "set -euo pipefail", "", *lines]) + "\n"


def _url_lines(launch: Launch) -> list[str]:
    """Addresses of every worker: those of one host unless the environment lists others."""
    lines = []
    for worker in launch.workers:
        name = f"{worker.role.upper()}_URLS"
        port, last = PORTS[worker.role], worker.replicas - 1
        lines += [
            f"# {name}: addresses of the {worker.replicas} {worker.role} workers, with blanks between them",
            f"if [[ -z ${{{name}:-}} ]]; then",
            f"  {name}=$(for i in $(seq 0 {last}); do printf 'http://127.0.0.1:%d ' $(({port} + i)); done)",
            "fi",
            f'read -ra {worker.role} <<<"${name}"',
        ]
    return lines


def _router_call(launch: Launch) -> list[str]:
    if launch.engine == "sglang" and not launch.colocated:
        return [
            "args=()",
            'for i in "${!prefill[@]}"; do',
            f'  args+=(--prefill "${{prefill[$i]}}" $(({sglang.BOOTSTRAP_PORT} + i)))',
            "done",
            'for url in "${decode[@]}"; do',
            '  args+=(--decode "$url")',
            "done",
            f'exec python3 -m sglang_router.launch_router --pd-disaggregation "${{args[@]}}" --port {ROUTER_PORT}',
        ]
    pools = " ".join(f'--{worker.role} "${{{worker.role}[@]}}"' for worker in launch.workers)
    return [f'exec python3 "$(dirname "$0")/router.py" --port {ROUTER_PORT} {pools}']


def needs_own_router(launch: Launch) -> bool:
    """Whether router.py goes along: engines without a router of their own for this mode."""
    return launch.colocated or launch.engine == "vllm"


def router_program() -> str:
    """The text of router.py: a program of the standard library alone, never run here."""
    return files("planner.export").joinpath("router.py").read_text(encoding="utf-8")
