"""Every model that can be imported, as shown and as priced."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path

import numpy as np
import pytest

from planner.files.catalog import Catalog
from planner.files.huggingface import shape_from_config
from planner.records import ModelShape
from planner.review.catalog import model_document
from planner.roofline.guards import step_floor_s
from planner.roofline.steps import decode_s, prefill_s
from planner.roofline.worker import build_worker

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "files"))
import family_configs

DATA = Path(__file__).resolve().parents[1] / "data" / "models"
with (DATA / "models_expected.csv").open(encoding="utf-8", newline="") as stream:
    ROWS = list(csv.DictReader(stream))
FIELDS = (
    "id", "architecture", "attention", "layers", "parameters", "active_parameters", "kv_bytes_per_token",
    "kv_bytes_per_token_beyond_window", "window_tokens", "state_bytes_per_sequence", "weight_bytes",
    "max_context_tokens", "notes",
)  # fmt: skip
ODD = [
    "tencent/Tencent-Hunyuan-Large", "MiniMaxAI/MiniMax-M3", "MiniMaxAI/MiniMax-M1-80k", "google/gemma-3n-E4B-it",
    "LiquidAI/LFM2-1.2B", "stepfun-ai/step3", "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B",
]  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["model_id"])
def test_documents_of_all_configs(row: dict[str, str]) -> None:
    config = json.loads((DATA / row["file"]).read_text(encoding="utf-8"))
    shown = model_document(shape_from_config(config, row["model_id"]), "bf16", 40e9)
    assert [field for field in FIELDS if field not in shown] == []
    assert shown["attention"] == row["attention"]
    assert shown["window_tokens"] == (int(row["window_tokens"]) if row["window_tokens"] else None)
    assert shown["layers"] == int(row["layers"])
    assert shown["parallelism"]["tp"]["allowed"][0] == 1
    assert shown["weight_bytes_per_rank"][0] == {"tp": 1, **shown["weight_bytes"]}


def test_tokens_for_a_budget() -> None:
    # 70,272 B per token; 40 GB hold 569,216 tokens
    deepseek = _shape("deepseek-ai--DeepSeek-V3.json")
    assert model_document(deepseek, "bf16", 40e9)["tokens_for"] == {"bytes": 40e9, "tokens": 569216}
    # a window of 4,096 x 131,072 B is full at 537 MB: then every length fits
    mistral = _shape("mistralai--Mistral-7B-v0.1.json")
    assert model_document(mistral, "bf16", 40e9)["tokens_for"]["tokens"] is None
    assert model_document(mistral, "bf16", 131072e3)["tokens_for"]["tokens"] == 1000
    # the window of gpt-oss holds 128 x 73,728 B; one more token takes 36,864
    gpt_oss = _shape("openai--gpt-oss-120b.json")
    budget = 128 * 73728 + 1000 * 36864
    assert model_document(gpt_oss, "bf16", budget)["tokens_for"]["tokens"] == 1128


def test_reasons_against_a_split() -> None:
    ways = model_document(_shape("Qwen--Qwen2.5-7B.json"), "bf16")["parallelism"]  # 28 heads, no experts
    assert ways["tp"]["allowed"] == [1, 2, 4]
    assert ways["tp"]["refused"][0]["degree"] == 8
    assert ways["tp"]["refused"][0]["reason"].startswith("tp 8 does not divide 28 query heads")
    assert ways["ep"]["allowed"] == ways["dp"]["allowed"] == [1]
    assert ways["pp"]["allowed"] == [1, 2, 4, 8, 16]  # 28 layers
    assert ways["pp"]["refused"][0]["degree"] == 32
    assert "add replicas instead" in ways["dp"]["refused"][0]["reason"]


def test_layer_maps() -> None:
    shown = model_document(_shape("Qwen--Qwen3-Next-80B-A3B-Instruct.json"), "bf16")
    assert shown["layer_map"] == "36 linear-attention + 12 full"
    shown = model_document(_shape("deepseek-ai--DeepSeek-V4-Flash.json"), "bf16")
    assert shown["layer_map"] == "2 window of 128 + 21 compressed 4:1 + 20 compressed 128:1"


@pytest.mark.parametrize(
    "shape",
    [
        *(
            shape_from_config(json.loads((DATA / f"{name}.json").read_text(encoding="utf-8")), name)
            for name in ("deepseek-ai--DeepSeek-V4-Flash", "moonshotai--Kimi-K3")
        ),
        *(shape_from_config(case.config, case.id) for case in family_configs.ALL if case.id in ODD),
    ],
    ids=lambda shape: shape.id,
)
def test_every_feature_is_priced(shape: ModelShape) -> None:
    """Steps on eight B200 are slower than their floor, and longer contexts never faster."""
    catalog = Catalog()
    engine = catalog.engine("vllm")
    tp = max(degree for degree in model_document(shape, "bf16")["parallelism"]["tp"]["allowed"] if degree <= 8)
    worker = build_worker(shape, "fp8", "bf16", catalog.accelerator("b200"), "vllm", engine.colocated, tp=tp)
    context = np.array([100.0, 10_000.0, 30_000.0])
    steps = decode_s(worker, 8.0, context).total_s
    assert np.all(np.diff(steps) >= 0)
    assert np.all(steps >= step_floor_s(worker, 8.0, context) * (1 - 1e-9))
    prompts = prefill_s(worker, np.array([1000.0, 8000.0]), 8192).total_s
    assert 0 < prompts[0] < prompts[1]


def _shape(name: str) -> ModelShape:
    return shape_from_config(json.loads((DATA / name).read_text(encoding="utf-8")), name)
