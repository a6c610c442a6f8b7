"""Finding a model: by id, spelling, file, folder or local cache, and saying so clearly when there is none."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import family_configs
import pytest

from planner.errors import InputError
from planner.files import models
from planner.files.catalog_write import model_file_text
from planner.files.huggingface import shape_from_config
from planner.files.models import load_model, load_model_file, model_paths, of_kind, summaries
from planner.records import Experts, LatentAttention, ModelShape
from planner.shapes.counts import kv_bytes_per_token, listed_counts, parameters, state_bytes_per_sequence

HEADER = "Written by tools/build_models.py from the model's config.json. Keys: models/README.md"
ROOT = Path(__file__).parent.parent.parent
DATA = ROOT / "tests" / "data" / "models"
LLAMA = "meta-llama/Llama-3.1-70B"


@pytest.fixture(autouse=True)
def _empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HF_HUB_CACHE", raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def build_models() -> ModuleType:
    spec = importlib.util.spec_from_file_location("build_models", ROOT / "tools" / "build_models.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _faults(load: Callable[[], ModelShape]) -> list[str]:
    with pytest.raises(InputError) as error:
        load()
    return [str(fault) for fault in error.value.faults]


# ----------------------------------------------------------------------------------------------------------- catalog


def test_the_catalog_is_what_the_builder_writes(build_models: ModuleType) -> None:
    published = build_models.read_published(DATA / "models_expected.csv")
    shapes = [build_models.catalog_shape(path, published[path.name]) for path in sorted(DATA.glob("*.json"))]
    written = {
        f"{shape.id.replace('/', '--')}.yaml": model_file_text(shape, listed_counts(shape), "2026-08-22", HEADER)
        for shape in shapes
    }
    shipped = {path.name: path.read_text(encoding="utf-8") for path in models.shipped_folder().glob("*.yaml")}
    assert written == shipped
    assert len(shipped) == 54


def test_the_catalog_reads_back_as_the_config(build_models: ModuleType) -> None:
    published = build_models.read_published(DATA / "models_expected.csv")
    by_id = {models._folded(name): name for name in model_paths()}
    for path in sorted(DATA.glob("*.json")):
        name = by_id.get(models._folded(path.stem.replace("--", "/")))
        if name is None:
            continue
        imported = build_models.catalog_shape(path, published[path.name])
        read = load_model(name, ROOT)
        assert (read.layers, read.hidden, read.vocabulary) == (imported.layers, imported.hidden, imported.vocabulary)
        assert read.tied_embeddings == imported.tied_embeddings
        assert (read.max_context_tokens, read.checkpoint_format) == (
            imported.max_context_tokens,
            imported.checkpoint_format,
        )
        assert (read.draft_layers, read.source) == (imported.draft_layers, imported.source)


@pytest.mark.parametrize("case", family_configs.ALL, ids=lambda case: case.id)
def test_every_feature_is_written_and_read_back(case: family_configs.Case, tmp_path: Path) -> None:
    shape = replace(shape_from_config(case.config, case.id), source="by hand: a test", notes=())
    path = _write(
        tmp_path / f"{case.id.replace('/', '--')}.yaml",
        model_file_text(shape, listed_counts(shape), "2026-08-22", HEADER),
    )
    assert replace(load_model_file(path), sha256="") == shape


def test_listed_counts_are_the_computed_ones() -> None:
    listed = summaries()
    assert [summary.id for summary in listed] == sorted(model_paths())
    for summary in listed:
        shape = load_model(summary.id, ROOT)
        count = parameters(shape)
        assert (summary.parameters, summary.active_parameters) == (count.total, count.active)
        assert (summary.kv_bytes_per_token or 0) == kv_bytes_per_token(shape, "bf16")
        assert (summary.state_bytes_per_sequence or 0) == state_bytes_per_sequence(shape)
        assert summary.layers == sum(kind.count for kind in shape.layers)
        assert summary.has_experts == any(isinstance(kind.feed_forward, Experts) for kind in shape.layers)
        latent = any(isinstance(kind.mixer, LatentAttention) for kind in shape.layers)
        assert ("latent" in summary.mixers) == latent


def test_listing_loads_no_array_library() -> None:
    code = "import sys; from planner.files.models import summaries; summaries(); print('numpy' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"


# ---------------------------------------------------------------------------------------------------------- spelling


@pytest.mark.parametrize(
    ("reference", "model_id", "stored"),
    [
        (LLAMA, LLAMA, "bf16"),
        ("meta-llama/Meta-Llama-3.1-70B", LLAMA, "bf16"),
        ("meta-llama/Meta-Llama-3.1-70B-Instruct", LLAMA, "bf16"),
        ("Llama-3.1-70B", LLAMA, "bf16"),
        ("meta-llama/Llama-3.3-70B-Instruct", LLAMA, "bf16"),
        ("meta-llama/Llama-2-70b-chat-hf", "meta-llama/Llama-2-70b-hf", "bf16"),
        ("zhipuai/GLM-5", "zai-org/GLM-5", "bf16"),
        ("qwen/qwen3-32b", "Qwen/Qwen3-32B", "bf16"),
        ("Qwen/Qwen3-32B-FP8", "Qwen/Qwen3-32B", "fp8"),
        ("Qwen/Qwen3-235B-A22B-Instruct-2507-FP8", "Qwen/Qwen3-235B-A22B", "fp8"),
        ("deepseek-ai/DeepSeek-R1-0528", "deepseek-ai/DeepSeek-R1", "fp8_block"),
        ("google/gemma-3-27b", "google/gemma-3-27b-it", "bf16"),
        ("gpt-oss-120b", "openai/gpt-oss-120b", "mxfp4"),
        ("mistralai/Mixtral-8x7B-Instruct-v0.1", "mistralai/Mixtral-8x7B-v0.1", "bf16"),
        ("RedHatAI/Meta-Llama-3.1-70B-Instruct-FP8-dynamic", LLAMA, "fp8"),
        ("nvidia/DeepSeek-R1-0528-NVFP4", "deepseek-ai/DeepSeek-R1", "nvfp4"),
        ("Qwen/Qwen2.5-72B-Instruct-AWQ", "Qwen/Qwen2.5-72B", "int4"),
        ("Qwen/Qwen2.5-72B-Instruct-GPTQ-Int8", "Qwen/Qwen2.5-72B", "int8"),
        ("deepseek-ai/DeepSeek-V3.1-Terminus", "deepseek-ai/DeepSeek-V3", "fp8_block"),
        ("deepseek-ai/DeepSeek-V3-0324", "deepseek-ai/DeepSeek-V3", "fp8_block"),
        ("deepseek-ai/DeepSeek-V3.2-Exp", "deepseek-ai/DeepSeek-V3.2", "fp8_block"),
        ("deepseek-ai/DeepSeek-R1-Distill-Llama-70B", LLAMA, "bf16"),
        ("Qwen/Qwen2.5-Coder-32B-Instruct", "Qwen/Qwen2.5-32B", "bf16"),
        ("moonshotai/Kimi-K2-Instruct-0905", "moonshotai/Kimi-K2-Instruct", "fp8_block"),
    ],
)
def test_spellings(reference: str, model_id: str, stored: str) -> None:
    shape = load_model(reference, ROOT)
    assert (shape.id, shape.checkpoint_format) == (model_id, stored)


def test_kinds_of_models() -> None:
    listed = {kind: {summary.id for summary in summaries() if of_kind(summary, kind)} for kind in models.MODEL_KINDS}
    assert listed["dense"] | listed["moe"] == set(model_paths())
    assert not listed["dense"] & listed["moe"]
    assert {"deepseek-ai/DeepSeek-V3", "moonshotai/Kimi-K3", "openbmb/MiniCPM3-4B"} <= listed["mla"]
    assert {"openai/gpt-oss-120b", "google/gemma-3-27b-it"} <= listed["sliding"]
    assert LLAMA not in listed["sliding"] | listed["mla"] | listed["hybrid"]
    assert {"Qwen/Qwen3.5-27B", "ai21labs/AI21-Jamba-1.5-Mini", "moonshotai/Kimi-K3"} <= listed["hybrid"]


def test_a_variant_is_noted() -> None:
    assert load_model("Qwen/Qwen3-8B-FP8", ROOT).notes[-1] == (
        "Qwen/Qwen3-8B-FP8 is planned as Qwen/Qwen3-8B: 40,960 tokens of context, weights in fp8"
    )
    assert load_model("meta-llama/Meta-Llama-3.1-70B", ROOT).notes == ()


def test_names_of_the_catalog_are_unambiguous() -> None:
    assert max(Counter(models._folded(name) for name in model_paths()).values()) == 1


def test_unknown_models_get_the_nearest() -> None:
    (fault,) = _faults(lambda: load_model("meta-lama/Lama-3.1-70B", ROOT))
    assert 'no model "meta-lama/Lama-3.1-70B"' in fault
    assert 'did you mean "meta-llama/Llama-3.1-70B"?' in fault
    assert _faults(lambda: load_model("  ", ROOT)) == ["names no model; give a catalog id or the path of a config.json"]
    assert "is not a possible file name" in _faults(lambda: load_model("x" * 5000, ROOT))[0]


# ------------------------------------------------------------------------------------------------------------- files


def _write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("reference", ["mine/config.json", "mine", "./mine", "elsewhere.json"])
def test_config_files_and_folders(reference: str, tmp_path: Path) -> None:
    text = (DATA / "deepseek-ai--DeepSeek-V3.json").read_text(encoding="utf-8")
    _write(tmp_path / "mine" / "config.json", text)
    _write(tmp_path / "elsewhere.json", text)
    shape = load_model(reference, tmp_path)
    assert shape.id == ("elsewhere" if reference == "elsewhere.json" else "mine")
    assert shape.layers == load_model("deepseek-ai/DeepSeek-V3", tmp_path).layers
    assert shape.source.endswith(".json")
    assert len(shape.sha256) == 64


def test_the_infinity_of_an_original_config_is_read(tmp_path: Path) -> None:
    text = (DATA / "nvidia--Nemotron-H-56B-Base-8K.json").read_text(encoding="utf-8")
    assert "Infinity" in text
    assert load_model("config.json", _write(tmp_path / "config.json", text).parent).hidden == 8192


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("config.json", '{\n  "hidden_size": 8192,\n', "config.json:3:1: is not JSON, or cut short"),
        ("config.json", "", "config.json:1:1: is empty"),
        ("config.json", "[1, 2]", "config.json:1:1: is not a config"),
        ("config.json", '{"hidden_size": Infinity, "model_type": "llama"}', "hidden_size: inf is not a whole number"),
        ("config.json", '{"a": ' * 100_000, "is not"),
        ("config.json", '{"hidden_size": ' + "9" * 5000 + "}", "is not usable JSON"),
        ("model-00001-of-00002.safetensors", "x", "holds weights; give the config.json beside it"),
        ("model.gguf", "x", "holds weights"),
        ("notes.txt/readme.md", "x", "holds no config.json"),
        ("lora/adapter_config.json", '{"peft_type": "LORA", "base_model_name_or_path": "a/b"}', 'base model "a/b"'),
        ("tokenizer.json", '{"version": "1.0"}', "this is not the config.json of a model"),
    ],
)
def test_one_clear_line(name: str, text: str, message: str, tmp_path: Path) -> None:
    path = _write(tmp_path / name, text)
    reference = path if path.suffix != ".md" and "lora" not in name else path.parent
    faults = _faults(lambda: load_model(str(reference), tmp_path))
    assert any(message in fault for fault in faults)
    assert all("\n" not in fault and str(reference) in fault for fault in faults)


def test_huge_binary_and_missing_files(tmp_path: Path) -> None:
    huge = tmp_path / "config.json"
    with huge.open("wb") as stream:
        stream.truncate(200_000_000)
    assert _faults(lambda: load_model("config.json", tmp_path)) == [f"{huge}: is larger than 10 MB"]
    (tmp_path / "b.json").write_bytes(b"\0\1\2")
    assert _faults(lambda: load_model("b.json", tmp_path)) == [
        f"{tmp_path / 'b.json'}:1:1: is a binary file; want UTF-8 text"
    ]
    assert _faults(lambda: load_model("./none", tmp_path)) == [f"{tmp_path / 'none'}: no such file or folder"]


# ----------------------------------------------------------------------------------------------- a user's own catalog

OWN = """\
id: meta-llama/Llama-3.1-70B
architecture: llama
source: ours
hidden: 1024
vocabulary: 32000
max_context_tokens: 4096
layers:
  - count: 2
    mixer: {kind: softmax, query_heads: 8, kv_heads: 2, key_dim: 128, value_dim: 128}
    feed_forward: {kind: dense, intermediate: 4096}
"""


@pytest.mark.parametrize(("folder", "given"), [("models", "."), ("models", "hardware")])
def test_own_files_win(folder: str, given: str, tmp_path: Path) -> None:
    _write(tmp_path / folder / "meta-llama--Llama-3.1-70B.yaml", OWN)
    (tmp_path / "hardware").mkdir()
    shape = load_model("meta-llama/Llama-3.1-70B-Instruct", ROOT, [tmp_path / given])
    assert (shape.hidden, shape.source) == (1024, "ours")
    assert len(model_paths([tmp_path / given])) == len(model_paths())


def test_an_own_file_can_be_named_by_path(tmp_path: Path) -> None:
    _write(tmp_path / "a--b.yaml", OWN.replace("meta-llama/Llama-3.1-70B", "a/b"))
    assert load_model("a--b.yaml", tmp_path).id == "a/b"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("hidden: 1024", "hidden: 10.5", "m.yaml:4:1: hidden: 10.5"),
        ("hidden: 1024", "hiden: 1024", 'hiden: unknown key; did you mean "hidden"?'),
        ("hidden: 1024", "hidden: 999999999999", "is more than 100,000,000"),
        ("query_heads: 8, ", "", "layers[0].mixer.query_heads: is missing"),
        ("kv_heads: 2", "kv_heads: 3", "m.yaml:9:44: layers[0].mixer.kv_heads: 3 does not divide 8 query heads"),
        ("kind: softmax", "kind: wavelet", '"wavelet" is not possible'),
        ("kind: dense, intermediate: 4096", "kind: experts, experts: 2, top_k: 4, intermediate: 8", "4 is more than 2"),
        ("id: meta-llama/Llama-3.1-70B", "id: other", "rename the file to other.yaml"),
        ("  - count: 2", "  - count: 0", "must be more than 0"),
    ],
)
def test_faults_of_own_files_have_a_place(old: str, new: str, message: str, tmp_path: Path) -> None:
    text = OWN.replace("id: meta-llama/Llama-3.1-70B", "id: m")
    path = _write(tmp_path / "m.yaml", text.replace(old.replace("meta-llama/Llama-3.1-70B", "m"), new))
    faults = _faults(lambda: load_model("m.yaml", tmp_path))
    assert any(message in fault for fault in faults), faults
    assert all(fault.startswith(f"{path}:") for fault in faults)


# ------------------------------------------------------------------------------------------------------- local cache


def _cache(tmp_path: Path, snapshot: str, hidden: int) -> Path:
    config = json.loads((DATA / "meta-llama--Llama-3.2-1B.json").read_text(encoding="utf-8")) | {"hidden_size": hidden}
    folder = tmp_path / "cache" / "hub" / "models--acme--Own-1B"
    _write(folder / "snapshots" / snapshot / "config.json", json.dumps(config))
    return folder


def test_the_local_cache_is_read(tmp_path: Path) -> None:
    _cache(tmp_path, "aaa", 2048)
    shape = load_model("acme/Own-1B", tmp_path)
    assert (shape.id, shape.hidden) == ("acme/Own-1B", 2048)


def test_the_cache_of_the_main_branch_wins(tmp_path: Path) -> None:
    _cache(tmp_path, "zzz", 2048)
    folder = _cache(tmp_path, "bbb", 4096)
    assert load_model("acme/Own-1B", tmp_path).hidden == 2048
    _write(folder / "refs" / "main", "bbb\n")
    assert load_model("acme/Own-1B", tmp_path).hidden == 4096
