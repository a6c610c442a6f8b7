"""The page that goes along with launch files: how to start, check and load-test them, and what to expect."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from planner.export import load, pods, shell
from planner.export.launch import Document, Launch, Worker

_MILLISECOND = 1e3
_STATISTICS = ("p50", "p99")
_METRICS = (("ttft_s", "TTFT"), ("itl_s", "ITL"), ("tpot_s", "TPOT"), ("e2e_s", "E2E"))
_SCRIPT_TARGETS = ("vllm", "sglang", "tensorrt-llm")
_COLUMNS = 92  # of a command before it goes on in the next line


def readme(launch: Launch, target: str, files: Sequence[str]) -> str:
    """The page as Markdown."""
    parts = [
        _plan(launch),
        _needs(launch),
        _start(launch, target, files),
        _check(launch, target),
        _test(launch, target),
    ]
    return "\n".join(line for part in parts for line in part) + "\n"


def _plan(launch: Launch) -> Iterator[str]:
    result = launch.result
    yield f"# {launch.name}"
    yield ""
    yield f"Launch files of a plan for {launch.model}, made by planner {result['tool']['version']}."
    yield f"Options are those of {shell.TITLES[launch.engine]} {launch.engine_version}; each names the field of"
    yield "`plan.json`, the result of the planner, that it carries."
    yield ""
    yield "| pool | workers | accelerators of a worker | batch per attention rank | tokens per step |"
    yield "|---|---|---|---|---|"
    for worker in launch.workers:
        degrees = ", ".join(
            f"{name.upper()} {value}"
            for name, value in (("tp", worker.tp), ("pp", worker.pp), ("ep", worker.ep), ("dp", worker.dp))
            if value > 1 or name == "tp"
        )
        batch = worker.max_batch or "engine's default"
        yield (
            f"| {worker.role} | {worker.replicas} | {worker.accelerators} {worker.accelerator} ({degrees}) | {batch} | "
            f"{worker.token_budget:,} |"
        )
    yield ""
    yield f"In all {result['plan']['accelerators']} accelerators for {result['inputs']['workload']['description']}."


def _needs(launch: Launch) -> Iterator[str]:
    yield ""
    yield "## Before"
    yield ""
    yield f"- {launch.engine} {launch.engine_version} on every host; others may lack an option or change a default."
    for tier in launch.tiers_elsewhere:
        yield f"- The plan counts on the KV tier {tier}, a service of its own that these files do not start."
    if any(worker.disk_bytes for worker in launch.workers):
        yield "- A folder /var/cache/kv on local flash, which must exist where the workers run."
    if launch.connector:
        yield f"- Caches travel over {launch.connector}: the network cards of both pools must reach each other."
    converted = launch.weights != launch.checkpoint_format
    online = launch.engine in ("vllm", "sglang") and launch.weights in ("fp8", "fp8_block")
    if converted and online:
        yield (
            f"- Weights are made {launch.weights} while loading. A checkpoint stored so loads faster and needs less "
            "memory meanwhile."
        )
    elif converted:
        yield (
            f"- The plan counts on weights in {launch.weights} and {launch.model} is stored in "
            f"{launch.checkpoint_format}: put the name of a checkpoint in {launch.weights} in its place."
        )
    yield f"- Gated models: the hub's token in the environment, or in the secret `{pods.SECRET}`; no file holds it."


def _start(launch: Launch, target: str, files: Sequence[str]) -> Iterator[str]:
    yield ""
    yield "## Start"
    yield ""
    if target in _SCRIPT_TARGETS:
        yield from _start_scripts(launch)
        return
    yield "```sh"
    yield f'kubectl create secret generic {pods.SECRET} --from-literal={pods.MODEL_HUB_VARIABLE}="$HF_TOKEN"'
    if target == "llm-d":
        yield f"helm install {launch.name} llm-d-modelservice/llm-d-modelservice --values values.yaml"
    else:
        yield from (f"kubectl apply -f {name}" for name in sorted(files, key=lambda name: name != "engine-config.yaml"))
    yield "```"
    yield ""
    yield f"Pods ask for `{pods.NIC_RESOURCE}` cards where caches or ranks cross nodes: use your cluster's name."
    if target == "llm-d":
        yield "The gateway and its inference pool are installed apart, with the router chart of llm-d."


def _start_scripts(launch: Launch) -> Iterator[str]:
    yield "One call a worker, on any host with its accelerators; then the router:"
    yield ""
    yield "```sh"
    for worker in launch.workers:
        name = shell.script_name(worker)
        yield f'for i in $(seq 0 {worker.replicas - 1}); do ./{name} "$i" & done   # {_where(worker)}'
    yield "./router.sh"
    yield "```"
    yield ""
    yield "`PORT`, `FIRST` (accelerator of the host) and `MODEL` override what a script chooses. With several hosts,"
    names = " and ".join(f"`{worker.role.upper()}_URLS`" for worker in launch.workers)
    where = "router.yaml" if launch.engine == "tensorrt-llm" and not launch.colocated else names
    yield f"list their addresses in {where} for the router."
    if launch.connector == "lmcache":
        yield "LMCache brings a proxy of its own for two pools: start that one in place of `router.sh`."


def _where(worker: Worker) -> str:
    if worker.nodes > 1:
        return f"each over {worker.nodes} nodes: NODE_RANK and HEAD"
    per_node = worker.node_accelerators // worker.accelerators
    return f"{per_node} fit a host of {worker.node_accelerators}" if per_node > 1 else "one a host"


def _url(target: str) -> str:
    return "http://127.0.0.1:8000" if target in _SCRIPT_TARGETS else "http://$GATEWAY"


def _check(launch: Launch, target: str) -> Iterator[str]:
    request = f'{{"model": "{launch.model}", "prompt": "Hello", "max_tokens": 8}}'
    yield ""
    yield "## Check"
    yield ""
    yield "```sh"
    yield f"curl -sf {_url(target)}/health"
    yield f"curl -sf {_url(target)}/v1/completions -H 'content-type: application/json' -d {shlex.quote(request)}"
    yield "```"
    yield ""
    capacity, role = launch.result["kv"]["capacity_tokens"], launch.workers[-1].role
    dp = launch.workers[-1].dp
    if capacity:
        yield f"The plan counts on a KV cache of {capacity / dp:,.0f} tokens in each {role} worker" + (
            f"'s attention rank ({dp} a worker)" if dp > 1 else ""
        )
        yield "at its mix of requests. The engine logs what it made: much less means that other programs hold memory."


def _test(launch: Launch, target: str) -> Iterator[str]:
    result = launch.result
    arguments, output = load.command(launch, _url(target))
    yield ""
    yield "## Load test"
    yield ""
    yield "```sh"
    yield from _wrapped(arguments)
    yield f"planner validate --result {output} --plan plan.json"
    yield "```"
    yield ""
    if not load.fixed_lengths(result):
        yield f"`{load.LOAD_FILE}` holds {load.requests(result):,} requests: Poisson arrivals at the plan's rate,"
        yield "lognormal lengths of its mean and 99th percentile; bursts of a recorded trace are not in it."
        yield ""
    workload = result["inputs"]["workload"]
    hits = sum(row.get("hit_fraction") or 0.0 for row in result["kv"]["tiers"])
    if hits:
        yield f"The plan finds {hits:.0%} of prompt tokens in caches; prompts of this test share nothing, so first"
        yield "tokens take longer than below. Send your own prompts to see them."
        yield ""
    yield f"Expected at {workload['requests_per_s']:g} requests/s, milliseconds, with the interval that holds"
    yield f"{100 * result['prediction']['coverage']:.0f} % of measured runs:"
    yield ""
    yield "| | P50 | P99 |"
    yield "|---|---|---|"
    for key, title in _METRICS:
        yield f"| {title} | {' | '.join(_expected(result, key, statistic) for statistic in _STATISTICS)} |"
    yield ""
    yield f"The plan carries {result['prediction']['requests_per_s_max']:.3g} requests/s at most."


def _expected(result: Document, key: str, statistic: str) -> str:
    prediction = result["prediction"]
    value = prediction[key].get(statistic)
    if value is None:
        return "not bounded"
    interval = prediction["intervals"].get(key, {}).get(statistic)
    if not interval:
        return _ms(value)
    high = "not bounded" if interval[1] is None else _ms(interval[1])
    return f"{_ms(value)} ({_ms(interval[0])} to {high})"


def _ms(seconds: float) -> str:
    value = seconds * _MILLISECOND
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _wrapped(arguments: Sequence[str]) -> Iterator[str]:
    """A command over several lines; an option stays with its value."""
    words: list[str] = []
    for argument in arguments:
        quoted = argument if argument.startswith("http://$") else shlex.quote(argument)
        if words and not argument.startswith("-") and words[-1].startswith("--") and " " not in words[-1]:
            words[-1] += f" {quoted}"
        else:
            words.append(quoted)
    line = words[0]
    for word in words[1:]:
        if len(line) + len(word) > _COLUMNS:
            yield f"{line} \\"
            line = f"  {word}"
        else:
            line += f" {word}"
    yield line
