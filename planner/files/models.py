"""Which models there are, and the shape of the one a user names: by catalog id, by file, or from the local cache.

Shipped model files are inside the package in a wheel and beside it in a checkout or an editable install. A user's
catalog folder overrides by id with its `models/` folder, or the one beside it when it is itself called `hardware`.
Nothing here uses the network.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner.errors import Fault, InputError
from planner.files.model_yaml import ModelSummary, read_model, read_summary
from planner.files.nearest import did_you_mean
from planner.files.reading import decode, read_bytes, sha256

if TYPE_CHECKING:
    from planner.records import ModelShape

MOST_CONFIG_BYTES = 10_000_000
_ENDINGS = (".yaml", ".yml")
_WEIGHT_ENDINGS = (".safetensors", ".gguf", ".bin", ".pt", ".pth", ".onnx")
_VARIANT = re.compile(
    r"[-_](instruct|chat|it|base|hf|bf16|thinking|exp|preview|dynamic|block|quantized|w4a16|w8a8|w8a16|int4|int8|[48]bit"
    r"|fp8|fp4|nvfp4|mxfp4|awq|gptq|bnb|g128|qat|turbo|\d{4})$",
    re.IGNORECASE,
)
_INSIDE = re.compile(r"[-_](instruct|chat)(?=[-_])", re.IGNORECASE)
_ENDINGS_OF_IDS = ("", "-instruct", "-it", "-hf", "-base")
# What the name of a variant says its weights are stored in; the first that is found.
_STORED = (
    ("nvfp4", re.compile(r"[-_](nvfp4|fp4)\b", re.IGNORECASE)),
    ("mxfp4", re.compile(r"[-_]mxfp4\b", re.IGNORECASE)),
    ("int8", re.compile(r"[-_](int8|w8a8|8bit)\b", re.IGNORECASE)),
    ("int4", re.compile(r"[-_](awq|gptq[-_]?int4|int4|w4a16|4bit|gptq)\b", re.IGNORECASE)),
    ("fp8", re.compile(r"[-_]fp8\b", re.IGNORECASE)),
)
_OWNERS = {"zhipuai": "zai-org", "thudm": "zai-org", "kimi": "moonshotai", "cohere": "cohereforai"}
# Who publishes other people's models again in another format, under the same names.
_REPACKERS = frozenset(
    ("nvidia", "redhatai", "neuralmagic", "unsloth", "amd", "hugging-quants", "lmstudio-community", "mlx-community",
     "thebloke", "casperhansen", "cognitivecomputations", "quanttrio", "intel")
)  # fmt: skip
_LLAMA_70B, _LLAMA_8B, _QWEN_32B = "meta-llama/llama-3.1-70b", "meta-llama/llama-3.1-8b", "qwen/qwen2.5-32b"
# Models of one shape, context and format: folded name -> folded name in the catalog.
ALIASES: Mapping[str, str] = {
    "meta-llama/llama-3.3-70b-instruct": _LLAMA_70B,
    "meta-llama/llama-3.3-70b": _LLAMA_70B,
    "llama-3.3-70b-instruct": _LLAMA_70B,
    "llama-3.3-70b": _LLAMA_70B,
    "nvidia/llama-3.1-nemotron-70b-instruct-hf": _LLAMA_70B,
    "nousresearch/hermes-3-llama-3.1-70b": _LLAMA_70B,
    "nousresearch/hermes-4-70b": _LLAMA_70B,
    "deepseek-ai/deepseek-r1-distill-llama-70b": _LLAMA_70B,
    "deepseek-ai/deepseek-r1-distill-llama-8b": _LLAMA_8B,
    "nousresearch/hermes-3-llama-3.1-8b": _LLAMA_8B,
    "meta-llama/llama-guard-3-8b": _LLAMA_8B,
    "deepseek-ai/deepseek-r1-distill-qwen-32b": _QWEN_32B,
    "qwen/qwen2.5-coder-32b": _QWEN_32B,
    "qwen/qwq-32b": _QWEN_32B,
    "qwen/qwen2.5-coder-7b": "qwen/qwen2.5-7b",
    "deepseek-ai/deepseek-v3.1": "deepseek-ai/deepseek-v3",
    "deepseek-ai/deepseek-v3.1-terminus": "deepseek-ai/deepseek-v3",
    "deepseek-ai/deepseek-v2-chat": "deepseek-ai/deepseek-v2",
    "microsoft/phi-4-reasoning": "microsoft/phi-4",
}
_PACKAGE = Path(__file__).resolve().parent.parent


def load_model(reference: str, base_dir: Path, catalog_dirs: Sequence[Path] = ()) -> ModelShape:
    """The shape of the model that `reference` names.

    Parameters
    ----------
    reference
        A catalog id; a config.json, a folder that holds one or a model file, relative to `base_dir`; a variant of a
        catalog id, such as its "-Instruct"; or the id of a model in the local Hugging Face cache. The first that fits,
        in this order.
    base_dir
        Folder that relative paths start from.
    catalog_dirs
        The user's catalog folders; the first one that holds an id wins.

    Raises InputError when nothing fits (with the nearest id), or the file that fits cannot be used.
    """
    if not reference.strip():
        raise InputError("names no model; give a catalog id or the path of a config.json")
    paths = model_paths(catalog_dirs)
    name = exact_id(reference, paths)
    if name:
        return read_model(paths[name], paths[name].stem)
    path = _path(reference, base_dir)
    if path is not None:
        return load_model_file(path)
    name = variant_id(reference, paths)
    if name:
        return _variant(read_model(paths[name], paths[name].stem), reference)
    cached = _cached_config(reference)
    if cached is not None:
        return _from_config(cached, reference)
    near = did_you_mean(reference, paths, "known ids")
    raise InputError(
        f'no model "{reference}" in the catalog, as a file or folder in {base_dir}, or in the local Hugging Face '
        f"cache; {near}"
    )


def load_model_file(path: Path) -> ModelShape:
    """The shape in a config.json, a folder that holds one, or a model file. InputError when it cannot be used."""
    if path.is_dir():
        return _from_folder(path)
    if path.suffix in _ENDINGS:
        return read_model(path, path.stem)
    if path.suffix in _WEIGHT_ENDINGS:
        raise InputError([Fault("holds weights; give the config.json beside it, or their folder", str(path))])
    name = path.resolve().parent.name if path.stem == "config" else path.stem
    return _from_config(path, name)


MODEL_KINDS = ("dense", "moe", "mla", "sliding", "hybrid")


def of_kind(summary: ModelSummary, kind: str) -> bool:
    """Whether a listed model is of a kind of `MODEL_KINDS`; a model can be of several."""
    recurrent = any(mixer not in ("softmax", "latent") for mixer in summary.mixers)
    return {
        "dense": not summary.has_experts,
        "moe": summary.has_experts,
        "mla": "latent" in summary.mixers,
        "sliding": summary.has_windows,
        "hybrid": recurrent,
    }[kind]


def summaries(catalog_dirs: Sequence[Path] = ()) -> tuple[ModelSummary, ...]:
    """Every model of the catalog in short, by id. Loads no array library. InputError when a file is malformed."""
    paths = model_paths(catalog_dirs)
    return tuple(read_summary(paths[name], paths[name].stem) for name in sorted(paths))


def model_paths(catalog_dirs: Sequence[Path] = ()) -> dict[str, Path]:
    """The file of each catalog id; a user's file hides the shipped one of the same id."""
    paths = _files(shipped_folder())
    for extra in reversed(catalog_dirs):
        if extra.name == "hardware":
            paths |= _files(extra.parent / "models")
        paths |= _files(extra / "models")
    return paths


def shipped_folder() -> Path:
    """The models that come with the program.

    Raises FileNotFoundError: there are none, so the installation is broken.
    """
    for folder in (_PACKAGE / "models", _PACKAGE.parent / "models"):
        if folder.is_dir():
            return folder
    raise FileNotFoundError(f"no models in {_PACKAGE} or beside it; reinstall the program")


def _files(folder: Path) -> dict[str, Path]:
    if not folder.is_dir():
        return {}
    found = (path for path in sorted(folder.iterdir()) if path.suffix in _ENDINGS)
    return {path.stem.replace("--", "/"): path for path in found}


# ---------------------------------------------------------------------------------------------------------- spelling


def exact_id(reference: str, known: Iterable[str]) -> str:
    """The catalog id that `reference` spells, "" when there is none.

    Case and the prefix "Meta-" do not matter, the owner may be left out, and a model published again under another
    name (`ALIASES`) is found by both.
    """
    folded = {_folded(name): name for name in known}
    wanted = _folded(reference)
    wanted = ALIASES.get(wanted, wanted)
    if wanted in folded:
        return folded[wanted]
    same_name = [name for key, name in folded.items() if key.rpartition("/")[2] == wanted]
    return same_name[0] if len(same_name) == 1 else ""


def variant_id(reference: str, known: Iterable[str]) -> str:
    """The catalog id of a model that `reference` is a variant of, "" when there is none.

    Endings that leave the shape alone are taken off one by one (-Instruct, -hf, -FP8, a release such as -2507), and
    those that the catalog's id may carry are tried; so is the name alone when its owner only packs models again.
    """
    names = list(known)
    wanted = reference.strip()
    owner, _, model = wanted.rpartition("/")
    spellings = [wanted, _INSIDE.sub("", wanted)]
    if owner.casefold() in _REPACKERS:
        spellings += [model, _INSIDE.sub("", model)]
    return next((found for spelling in spellings if (found := _shortened_id(spelling, names))), "")


def _shortened_id(wanted: str, names: list[str]) -> str:
    while True:
        found = next((found for ending in _ENDINGS_OF_IDS if (found := exact_id(wanted + ending, names))), "")
        shorter = _VARIANT.sub("", wanted)
        if found or shorter == wanted:
            return found
        wanted = shorter


def _folded(name: str) -> str:
    owner, slash, model = name.strip().casefold().rpartition("/")
    return f"{_OWNERS.get(owner, owner)}{slash}{model.removeprefix('meta-')}"


def _variant(shape: ModelShape, reference: str) -> ModelShape:
    """The catalog's shape under another name, saying so; stored as the name says."""
    said = next((stored for stored, pattern in _STORED if pattern.search(reference)), "")
    stored = shape.checkpoint_format
    if said and not (said == "fp8" and stored != "bf16"):  # an FP8 checkpoint may be in blocks already
        stored = said
    note = f"{reference} is planned as {shape.id}: {shape.max_context_tokens:,} tokens of context, weights in {stored}"
    return replace(shape, notes=(*shape.notes, note), checkpoint_format=stored)


# ------------------------------------------------------------------------------------------------------------- files


def _path(reference: str, base_dir: Path) -> Path | None:
    """The file or folder that `reference` is, or clearly means to be."""
    try:
        path = base_dir / Path(reference).expanduser()
        if path.exists():
            return path
    except (OSError, RuntimeError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f'"{reference[:60]}" is not a possible file name: {reason}') from None
    looks_like_one = reference.startswith((".", "/", "~")) or path.suffix in (".json", *_ENDINGS, *_WEIGHT_ENDINGS)
    if looks_like_one:
        raise InputError([Fault("no such file or folder", str(path))])
    return None


def _from_folder(folder: Path) -> ModelShape:
    config = folder / "config.json"
    if config.is_file():
        return _from_config(config, folder.resolve().name)
    adapter = folder / "adapter_config.json"
    if adapter.is_file():
        return _from_config(adapter, folder.resolve().name)
    raise InputError([Fault("holds no config.json; give the folder of a Hugging Face model", str(folder))])


def _from_config(path: Path, model_id: str) -> ModelShape:
    from planner.files.huggingface import shape_from_config

    data = read_bytes(path, MOST_CONFIG_BYTES)
    config = _json_mapping(data, str(path))
    try:
        shape = shape_from_config(config, model_id)
    except InputError as error:
        text = decode(data, str(path))
        raise InputError(
            [Fault(found.message, str(path), *_key_place(found, text)) for found in error.faults]
        ) from None
    return replace(shape, source=str(path), sha256=sha256(data))


def _key_place(fault: Fault, text: str) -> tuple[int, int]:
    """Line and column of the first key that a fault names and the file holds; the beginning without one."""
    for word in re.findall(r"\w+", fault.message):
        at = text.find(f'"{word}"')
        if at >= 0:
            return text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
    return 1, 1


def _json_mapping(data: bytes, path: str) -> dict[str, Any]:
    if not data.strip():
        raise InputError([Fault("is empty; want the JSON of a model's config", path, 1, 1)])
    try:
        value = json.loads(decode(data, path))
    except json.JSONDecodeError as error:
        message = f"is not JSON, or cut short: {error.msg}"
        raise InputError([Fault(message, path, error.lineno, error.colno)]) from None
    except (ValueError, RecursionError) as error:
        raise InputError([Fault(f"is not usable JSON: {error}", path, 1, 1)]) from None
    if not isinstance(value, dict):
        raise InputError([Fault("is not a config: its JSON is not an object of keys and values", path, 1, 1)])
    return value


def _cached_config(reference: str) -> Path | None:
    """config.json of `reference` in the local Hugging Face cache: the snapshot of `main`, else the last by name."""
    if not re.fullmatch(r"[\w.-]+(/[\w.-]+)?", reference):
        return None
    try:
        folder = hub_cache() / f"models--{reference.replace('/', '--')}"
        main = folder / "refs" / "main"
        if main.is_file():
            config = folder / "snapshots" / main.read_text(encoding="utf-8").strip() / "config.json"
            if config.is_file():
                return config
        snapshots = sorted((folder / "snapshots").glob("*/config.json"))
    except (OSError, ValueError):
        return None
    return snapshots[-1] if snapshots else None


def hub_cache() -> Path:
    """Folder where Hugging Face tools keep downloaded models, as their environment variables say."""
    if os.environ.get("HF_HUB_CACHE"):
        return Path(os.environ["HF_HUB_CACHE"]).expanduser()
    if os.environ.get("HF_HOME"):
        return Path(os.environ["HF_HOME"]).expanduser() / "hub"
    return Path("~/.cache/huggingface/hub").expanduser()
