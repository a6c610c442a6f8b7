"""Launch files people run, read as the pools they start: shell scripts and Kubernetes manifests of several kinds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from planner.errors import Fault, InputError
from planner.files import yamlfile
from planner.files.launch_options import READERS, Told, read_options, tensorrt
from planner.files.reading import decode, read_bytes
from planner.files.shell_commands import Script, Word, read_script

MOST_BYTES = 5_000_000
ACCELERATOR_LABEL = "planner/accelerator"
ROLE_LABEL = "llm-d.ai/role"
_SCRIPT_ENDINGS = (".sh", ".bash", "")
_YAML_ENDINGS = (".yaml", ".yml")
_ASIDE = ("plan.json", "load.jsonl", "README.md", "router.py", "router.sh", "router.yaml")  # of an export, no pools
_ROLES = {"prefill": "prefill", "decode": "decode", "worker": "", "colocated": "", "agg": ""}
_VARIABLES = ("replicas", "REPLICAS")
_ENGINE_OPTIONS = ("--config", "--extra-llm-api-options", "--extra-engine-args", "--extra_llm_api_options")

# Words that a command of an engine begins with, wherever in the line they stand.
_STARTS: tuple[tuple[tuple[str, ...], str], ...] = (
    (("vllm", "serve"), "vllm"),
    (("-m", "vllm.entrypoints.openai.api_server"), "vllm"),
    (("-m", "vllm.entrypoints.cli.main", "serve"), "vllm"),
    (("-m", "dynamo.vllm"), "vllm"),
    (("-m", "sglang.launch_server"), "sglang"),
    (("sglang", "serve"), "sglang"),
    (("-m", "dynamo.sglang"), "sglang"),
    (("-m", "dynamo.trtllm"), "tensorrt-llm"),
    (("trtllm-serve", "serve"), "tensorrt-llm"),
    (("trtllm-serve",), "tensorrt-llm"),
)
_NOT_WORKERS = ("disaggregated", "bench", "mm_embedding_serve")
_IMAGES = (("vllm-openai", "vllm"), ("lmsysorg/sglang", "sglang"))


@dataclass(frozen=True, slots=True)
class Running:
    """One pool as a file starts it."""

    told: Told
    replicas: int
    accelerator: str = ""  # id, or the product label of nodes
    per_node: int = 0  # accelerators that a pod asks for; 0: not said
    nodes: int = 1
    counted: bool = True  # whether the file says how many replicas there are


def read_launch_files(paths: Sequence[Path]) -> list[Running]:
    """The pools that files, or folders of files, start.

    Raises InputError when a file cannot be read, is no script or manifest, or none starts an engine.
    """
    files = [file for path in paths for file in _files(path)]
    engine_files = {file: text for file in files if (text := _engine_file(file)) is not None}
    found = [pool for file in files if file not in engine_files for pool in _read(file)]
    if not found:
        named = ", ".join(str(path) for path in paths)
        known = "vLLM, SGLang, TensorRT-LLM or Dynamo"
        raise InputError([Fault(f"starts no engine: no command of {known} was found", named)])
    return found


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    known = (*_SCRIPT_ENDINGS[:2], *_YAML_ENDINGS)
    inside = sorted(file for file in path.iterdir() if file.suffix in known and file.name not in _ASIDE)
    if not inside:
        raise InputError([Fault("holds no script and no manifest", str(path))])
    return inside


def _read(path: Path) -> Iterator[Running]:
    text = decode(read_bytes(path, MOST_BYTES), str(path))
    if path.suffix in _YAML_ENDINGS:
        yield from _of_manifests(list(_documents(text, path)), path)
    elif path.suffix in _SCRIPT_ENDINGS:
        yield from _of_script(read_script(text), path)
    else:
        raise InputError([Fault("is neither a shell script (.sh) nor a manifest (.yaml)", str(path))])


def _engine_file(path: Path) -> dict[str, Any] | None:
    """An engine file of TensorRT-LLM, which starts nothing by itself."""
    if path.suffix not in _YAML_ENDINGS or not path.is_file():
        return None
    values = list(_documents(decode(read_bytes(path, MOST_BYTES), str(path)), path))
    one = values[0] if len(values) == 1 else {}
    is_one = isinstance(one, dict) and "kind" not in one and {"kv_cache_config", "tensor_parallel_size"} & one.keys()
    return one if is_one else None


def _documents(text: str, path: Path) -> Iterator[Any]:
    """Every document of a YAML file; lines of faults count from the top of the file."""
    blank = 0
    for part in _split(text):
        if part.strip():
            yield yamlfile.parse(("\n" * blank + part).encode(), str(path)).value
        blank += part.count("\n") + 1


def _split(text: str) -> Iterator[str]:
    part: list[str] = []
    for line in text.split("\n"):
        if line.rstrip() == "---":
            yield "\n".join(part)
            part = []
        else:
            part.append(line)
    yield "\n".join(part)


# --------------------------------------------------------------------------------------------------------------- script


def _of_script(script: Script, path: Path) -> Iterator[Running]:
    """Pools of a script: commands that say the same are workers of one pool."""
    pools: dict[Told, int] = {}
    for command in script.commands:
        told = told_by(command, path.parent)
        if told is not None:
            told = told if told.role else replace(told, role=_ROLES.get(path.stem, ""))
            pools[told] = pools.get(told, 0) + 1
    said = next((script.variables[name] for name in _VARIABLES if script.variables.get(name)), None)
    accelerator = script.variables.get("accelerator") or script.variables.get("ACCELERATOR") or ""
    for told, count in pools.items():
        replicas = int(said) if said and said.isdigit() and len(pools) == 1 else count
        counted = bool(said) or count > 1
        yield Running(told, replicas * told.copies, accelerator=accelerator, counted=counted)


def told_by(command: Sequence[Word], folder: Path, engine_files: Mapping[str, Any] | None = None) -> Told | None:
    """What a command says, None when it starts no engine."""
    start = _start(command)
    if start is None:
        return None
    engine, rest = start
    options = read_options(rest)
    if engine != "tensorrt-llm":
        return READERS[engine](options)
    return tensorrt(options, _config(options.values, folder, engine_files or {}))


def _start(command: Sequence[Word]) -> tuple[str, Sequence[Word]] | None:
    texts = [word.text for word in command]
    for pattern, engine in _STARTS:
        for at in range(len(texts) - len(pattern) + 1):
            if _same(texts[at : at + len(pattern)], pattern):
                rest = command[at + len(pattern) :]
                return None if rest and rest[0].text in _NOT_WORKERS else (engine, rest)
    for at, text in enumerate(texts):
        for image, engine in _IMAGES:
            if text and image in text and "docker" in (texts[0] or ""):
                return engine, command[at + 1 :]
    return None


def _same(texts: Sequence[str | None], pattern: Sequence[str]) -> bool:
    """Whether words are those of a pattern, programs by the last part of their path."""
    return all(
        text is not None and (text == wanted or ("." not in wanted and text.rpartition("/")[2] == wanted))
        for text, wanted in zip(texts, pattern, strict=True)
    )


def _config(values: Mapping[str, Word | None], folder: Path, inline: Mapping[str, Any]) -> Mapping[str, Any]:
    """The engine file that a command names: of a ConfigMap, or beside the script by its last name."""
    word = next((values[name] for name in _ENGINE_OPTIONS if values.get(name) is not None), None)
    name = word.known_end.rpartition("/")[2] if word is not None else ""
    if name in inline:
        return inline[name]  # type: ignore[no-any-return]
    path = folder / name
    return (_engine_file(path) or {}) if name and path.is_file() else {}


# ------------------------------------------------------------------------------------------------------------ manifests


def _of_manifests(values: list[Any], path: Path) -> Iterator[Running]:
    """Pools of the documents of one file; ConfigMaps beside it hold engine files."""
    maps = _engine_maps([*values, *_beside(path)])
    for value in values:
        if isinstance(value, dict):
            for pool in _of_manifest(value):
                yield from _running(pool, path.parent, maps)


def _beside(path: Path) -> Iterator[Any]:
    config = path.parent / "engine-config.yaml"
    if config.is_file() and config != path:
        yield from _documents(decode(read_bytes(config, MOST_BYTES), str(config)), config)


def _engine_maps(values: Sequence[Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for value in values:
        if isinstance(value, dict) and value.get("kind") == "ConfigMap":
            for name, text in _mapping(value, "data").items():
                if isinstance(text, str) and name.endswith(_YAML_ENDINGS):
                    found[name] = yamlfile.parse(text.encode(), name).value
    return found


@dataclass(frozen=True, slots=True)
class _Pool:
    """A pool of a manifest before its command is read."""

    role: str
    replicas: int
    pod: Mapping[str, Any]  # spec of its pods
    labels: Mapping[str, Any]
    nodes: int = 1
    degrees: Mapping[str, Any] | None = None  # parallel degrees that a chart or operator writes into the command
    command: tuple[str, ...] = ()  # what a chart puts in front of the arguments


def _of_manifest(value: Mapping[str, Any]) -> Iterator[_Pool]:
    kind, spec = value.get("kind"), _mapping(value, "spec")
    if kind in ("Deployment", "StatefulSet"):
        template = _mapping(spec, "template")
        yield _Pool(_role_of(template), _integer(spec, "replicas"), _mapping(template, "spec"), _labels(template))
    elif kind == "LeaderWorkerSet":
        yield _leader_worker(spec)
    elif kind == "DisaggregatedSet":
        for role in _list(spec, "roles"):
            pool = _leader_worker(_mapping(role, "spec") or role)
            yield replace(pool, role=str(role.get("name", pool.role)))
    elif kind == "DynamoGraphDeployment":
        yield from _dynamo(spec)
    elif kind == "LLMInferenceService":
        yield _kserve(spec, "decode" if "prefill" in spec else "")
        if "prefill" in spec:
            yield _kserve(_mapping(spec, "prefill"), "prefill")
    elif "kind" not in value and ("decode" in value or "prefill" in value):
        yield from _llmd(value)


def _leader_worker(spec: Mapping[str, Any]) -> _Pool:
    template = _mapping(spec, "leaderWorkerTemplate")
    pod = _mapping(template, "leaderTemplate") or _mapping(template, "workerTemplate")
    nodes = _integer(template, "size")
    return _Pool(_role_of(pod), _integer(spec, "replicas"), _mapping(pod, "spec"), _labels(pod), nodes)


def _dynamo(spec: Mapping[str, Any]) -> Iterator[_Pool]:
    """Components of v1beta1, services of v1alpha1; frontends, planners and routers start no engine."""
    for component in _list(spec, "components"):
        template, role = _mapping(component, "podTemplate"), str(component.get("type", ""))
        if role in _ROLES:
            nodes = _integer(_mapping(component, "multinode"), "nodeCount")
            replicas = _integer(component, "replicas")
            yield _Pool(_ROLES[role], replicas, _mapping(template, "spec"), _labels(template), nodes)
    for service in _mapping(spec, "services").values():
        if isinstance(service, dict) and service.get("componentType") in (None, "worker", "prefill", "decode"):
            pod = dict(_mapping(service, "extraPodSpec"))
            pod["containers"] = [{**_mapping(pod, "mainContainer"), "resources": _mapping(service, "resources")}]
            role = str(service.get("subComponentType") or service.get("componentType") or "")
            nodes = _integer(_mapping(service, "multinode"), "nodeCount")
            yield _Pool(_ROLES.get(role, ""), _integer(service, "replicas"), pod, {}, nodes)


def _kserve(spec: Mapping[str, Any], role: str) -> _Pool:
    degrees = dict(_mapping(spec, "parallelism"))
    local = _integer(degrees, "dataLocal") if "dataLocal" in degrees else 0
    nodes = max(_integer(degrees, "data") // local, 1) if local else 1
    pod = _mapping(spec, "template")
    return _Pool(role, _integer(spec, "replicas"), pod, _mapping(spec, "labels"), nodes, degrees, ("vllm", "serve"))


def _llmd(value: Mapping[str, Any]) -> Iterator[_Pool]:
    """Roles of the model service chart, which writes model and degrees into the command itself."""
    roles = [name for name in ("prefill", "decode") if _mapping(value, name) and value[name].get("create") is not False]
    model = str(_mapping(value, "modelArtifacts").get("name", ""))
    for name in roles:
        spec = _mapping(value, name)
        role = name if "prefill" in roles else ""
        degrees = _mapping(spec, "parallelism")
        nodes = _integer(degrees, "workers")
        command = ("vllm", "serve", model)
        yield _Pool(role, _integer(spec, "replicas"), spec, {}, nodes, degrees, command)


def _running(pool: _Pool, folder: Path, engine_files: Mapping[str, Any]) -> Iterator[Running]:
    """The engine among the containers of a pool; init containers and sidecars start none."""
    for container in _list(pool.pod, "containers"):
        told = _told_by_container(container, pool, folder, engine_files)
        if told is None:
            continue
        limits = _mapping(_mapping(container, "resources"), "limits")
        per_node = next((_whole(count) for name, count in limits.items() if _is_accelerator(name)), 0)
        yield Running(
            told=replace(told, role=pool.role or told.role),
            replicas=pool.replicas * told.copies,
            accelerator=_accelerator(pool),
            per_node=per_node or _whole(limits.get("gpu")),
            nodes=pool.nodes,
        )
        return


def _told_by_container(
    container: Mapping[str, Any], pool: _Pool, folder: Path, engine_files: Mapping[str, Any]
) -> Told | None:
    command = [text for text in _list(container, "command") if isinstance(text, str)]
    arguments = [text for text in _list(container, "args") if isinstance(text, str)]
    if command[-1:] in (["-c"], ["-lc"], ["-ec"]):
        script = read_script("\n".join(arguments))
        found = (told_by(line, folder, engine_files) for line in script.commands)
        told = next((one for one in found if one is not None), None)
    else:
        words = [Word([text]) for text in (*(command or pool.command), *arguments)]
        told = told_by(words, folder, engine_files)
        if told is None and command == []:
            image = str(container.get("image", ""))
            engine = next((engine for part, engine in _IMAGES if part in image), "")
            told = READERS[engine](read_options(words)) if engine else None
    return _with_degrees(told, pool.degrees) if told is not None and pool.degrees is not None else told


def _with_degrees(told: Told, degrees: Mapping[str, Any]) -> Told:
    """Degrees that the chart adds to the command where the command does not give them."""
    tp = told.tp or _integer(degrees, "tensor")
    dp = told.dp or _integer(degrees, "data")
    spread = told.ep is not None or degrees.get("expert") is True
    pp = told.pp or (_integer(degrees, "pipeline") if "pipeline" in degrees else None)
    return replace(told, tp=tp, dp=dp, pp=pp, ep=tp * dp if spread else None)


def _accelerator(pool: _Pool) -> str:
    """The accelerator by our own label, else the product that the node selector asks for."""
    selector = _mapping(pool.pod, "nodeSelector")
    own = pool.labels.get(ACCELERATOR_LABEL) or selector.get(ACCELERATOR_LABEL)
    product = next((value for name, value in selector.items() if ".product" in name or "accelerator" in name), "")
    return str(own or product)


def _is_accelerator(name: str) -> bool:
    return name.endswith(("/gpu", "/gaudi", "/tpu", "/neuron", "/Ascend910"))


def _role_of(template: Mapping[str, Any]) -> str:
    return _ROLES.get(str(_labels(template).get(ROLE_LABEL, "")), "")


def _labels(template: Mapping[str, Any]) -> Mapping[str, Any]:
    return _mapping(_mapping(template, "metadata"), "labels")


def _mapping(value: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = value.get(key)
    return found if isinstance(found, dict) else {}


def _list(value: Mapping[str, Any], key: str) -> list[Any]:
    found = value.get(key)
    if not isinstance(found, list):
        return []
    return [item for item in found if isinstance(item, dict)] if key in ("containers", "components", "roles") else found


def _integer(value: Mapping[str, Any], key: str) -> int:
    """A count of a manifest; 1 where it is not given."""
    found = value.get(key, 1)
    return found if isinstance(found, int) and not isinstance(found, bool) and found > 0 else 1


def _whole(value: Any) -> int:
    text = str(value)
    return int(text) if text.isdigit() else 0
