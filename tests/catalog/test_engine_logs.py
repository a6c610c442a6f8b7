"""KV pools as engines log them: within 3 % of what they print, by the rule of their version."""

from __future__ import annotations

import csv
import re
from dataclasses import replace
from pathlib import Path

import pytest

from planner.engines.memory import MIB, Launch, derived_slack_bytes
from planner.errors import InputError
from planner.files.catalog import Catalog
from planner.files.catalog_engines import at_version
from planner.files.models import load_model
from planner.records import ModelShape
from planner.roofline.memory import memory
from planner.roofline.worker import build_worker
from planner.shapes.counts import kv_bytes_per_token
from planner.shapes.ranks import kv_bytes_per_rank

GIB = 2.0**30
CATALOG = Catalog()
VECTORS = Path(__file__).parents[1] / "data" / "engines" / "test_vectors.csv"


def model(name: str) -> ModelShape:
    return load_model(name, Path(), ())


def test_llama_8b_on_an_rtx_4090() -> None:
    # A recorded run of vLLM 0.19.0: 0.9 of the memory, 2,048 tokens a step, 256 sequences; 2,588 blocks of 16 tokens.
    engine = at_version(CATALOG.engine("vllm"), "0.19.0")
    card = CATALOG.accelerator("rtx-4090")
    worker = build_worker(model("meta-llama/Llama-3.1-8B"), "bf16", "bf16", card, "vllm", engine.colocated, 1, 1, 1, 1)
    budget = memory(worker, engine, token_budget=2048, max_batch=256)
    blocks = budget.kv_bytes // (16 * kv_bytes_per_token(worker.shape, "bf16"))
    assert engine.memory.fraction == 0.9 and engine.memory.block_tokens == 16
    assert blocks == pytest.approx(2588, rel=0.03)


def test_gpt_oss_120b_in_a_log_of_vllm() -> None:
    # "5.38 GiB = 78,384 tokens": every layer keeps a page of each token that the window has not passed.
    tokens = 5.38 * GIB / kv_bytes_per_token(model("openai/gpt-oss-120b"), "bf16")
    assert tokens == pytest.approx(78_384, rel=0.03)


def test_gpt_oss_20b_with_and_without_its_windows() -> None:
    # 32 sequences of 8,192 tokens: 6.09 GiB needed, and 12.00 GiB where every layer is kept whole.
    shape = model("openai/gpt-oss-20b")
    needed = 32 * float(kv_bytes_per_rank(shape, "bf16", 1, 1, 8192.0)) / GIB
    whole = 32 * 8192 * kv_bytes_per_token(shape, "bf16") / GIB
    assert needed == pytest.approx(6.09, rel=0.03)
    assert whole == pytest.approx(12.00, rel=0.03)


def test_the_longest_length_that_vllm_offered_instead() -> None:
    # 3.67 GiB for 40,960 tokens of context against 1.46 GiB free: vLLM offered 16,320. 4 KV heads over 2 ranks.
    shape = model("Qwen/Qwen3-235B-A22B")
    per_token = float(kv_bytes_per_rank(shape, "bf16", 2, 1, 1.0))
    assert 40_960 * per_token / GIB == pytest.approx(3.67, rel=0.03)
    assert 1.46 * GIB / per_token == pytest.approx(16_320, rel=0.03)


def sglang_vectors() -> list[tuple[str, float]]:
    with VECTORS.open(encoding="utf-8") as stream:
        rows = [row for row in csv.DictReader(stream) if row["quantity"] == "reserve_mib"]
    return [(row["inputs"], float(row["expected"])) for row in rows]


def vector(inputs: str, quantity: str) -> int:
    with VECTORS.open(encoding="utf-8") as stream:
        rows = [row for row in csv.DictReader(stream) if row["inputs"] == inputs and row["quantity"] == quantity]
    return int(float(rows[0]["expected"]))


@pytest.mark.parametrize(("inputs", "reserve"), sglang_vectors())
def test_the_reserve_that_sglang_derives(inputs: str, reserve: float) -> None:
    told = dict(re.findall(r"(\w+)=(\w+)", inputs))
    ranks, chunk = int(told["tp"]), vector(inputs, "chunked_prefill_size")
    batch = vector(inputs, "decode_graph_max_bs")
    launch = Launch(ranks, 1, chunk, batch, "colocated", latent_attention=told["mla"] == "1")
    found = derived_slack_bytes(int(told["gpu_mem_mib"]) * MIB, launch) / MIB
    assert found == pytest.approx(max(reserve, 10240.0 if int(told["gpu_mem_mib"]) > 61440 else 0.0), rel=0.03)


@pytest.mark.parametrize(
    ("version", "fraction"), [("0.33.0", 0.92), ("0.33.4", 0.92), ("v0.33.0", 0.92), ("0.25.1", 0.9), ("0.19", 0.9)]
)
def test_versions_of_vllm(version: str, fraction: float) -> None:
    found = at_version(CATALOG.engine("vllm"), version)
    assert (found.memory.fraction, found.version) == (fraction, version)


@pytest.mark.parametrize("version", ["0.34", "1.0", "newest", "", "0.1.0", "0.10.2"])
def test_versions_that_nothing_is_known_of(version: str) -> None:
    with pytest.raises(InputError, match=r"known: 0\.33\.0, 0\.21 to 0\.32, 0\.11 to 0\.20$"):
        at_version(CATALOG.engine("vllm"), version)


@pytest.mark.parametrize(
    ("accelerator", "budget", "batch"),
    [("a100-sxm-80", 2048, 256), ("h100-sxm", 8192, 1024), ("l40s", 2048, 256), ("b200", 16384, 1024)],
)
def test_defaults_of_vllm_by_device(accelerator: str, budget: int, batch: int) -> None:
    memory_bytes = CATALOG.accelerator(accelerator).memory_bytes
    defaults = CATALOG.engine("vllm").device_defaults
    chosen = next(
        one for one in defaults if memory_bytes >= one.least_bytes and not accelerator.startswith(one.but_not or ("-",))
    )
    assert (chosen.token_budget, chosen.max_batch) == (budget, batch)


def test_an_older_engine_has_another_pool() -> None:
    engine, card = CATALOG.engine("vllm"), CATALOG.accelerator("h100-sxm")
    worker = build_worker(model("Qwen/Qwen3-32B"), "bf16", "bf16", card, "vllm", engine.colocated, 2, 1, 1, 1)
    now, before = (memory(worker, one, 8192, 256).kv_bytes for one in (engine, at_version(engine, "0.20.1")))
    assert now - before == pytest.approx(0.02 * card.memory_bytes)
    assert replace(engine, version="0.20.1") != at_version(engine, "0.20.1")
