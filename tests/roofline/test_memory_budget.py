"""Memory of one accelerator against start-up logs of engines."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import roofline_examples as ex

from planner.records import MemoryRule
from planner.roofline.memory import (
    MemoryBudget,
    activation_bytes,
    kv_bytes_per_rank_for,
    kv_capacity_tokens,
    memory,
    sequences_that_fit,
)

GIB = 2.0**30


def test_latent_cache_of_a_logged_engine() -> None:
    # DeepSeek-R1 FP4, FP8 KV, TP 4 on B200, vLLM 0.19 at 0.9: 62.24 GiB = 1,901,888 tokens on every rank
    # (InferenceX agentic runs). 61 layers x 576 bytes = 35,136 B a token.
    built = ex.worker(ex.DEEPSEEK_R1, "nvfp4", "fp8", ex.B200, tp=4)
    budget = memory(built, ex.VLLM, token_budget=8192, max_batch=1024)
    assert budget.kv_bytes / GIB == pytest.approx(62.24, rel=0.03)
    assert float(kv_capacity_tokens(built, budget, 1000.0)) == pytest.approx(1_901_888, rel=0.03)


def test_grouped_cache_of_a_logged_engine() -> None:
    # Llama-3.3-70B FP4, FP8 KV, one accelerator of B200 size: 119.35 GiB = 782,160 tokens of 163,840 B.
    built = ex.worker(ex.LLAMA_70B, "nvfp4", "fp8", ex.B200)
    budget = memory(built, ex.VLLM, token_budget=8192, max_batch=1024)
    assert budget.kv_bytes / GIB == pytest.approx(119.35, rel=0.03)
    assert float(kv_capacity_tokens(built, budget, 1000.0)) == pytest.approx(782_160, rel=0.03)


def test_cache_of_a_published_router_benchmark() -> None:
    # Qwen3-32B TP 2 on H100: 307,328 KV tokens per pod (PUBLISHED, llm-d routing).
    built = ex.worker(ex.QWEN3_32B, tp=2)
    budget = memory(built, ex.VLLM, token_budget=8192, max_batch=1024)
    assert float(kv_capacity_tokens(built, budget, 1000.0)) == pytest.approx(307_328, rel=0.03)


@pytest.mark.parametrize("engine", [ex.VLLM, ex.SGLANG, ex.TENSORRT], ids=lambda engine: engine.id)
@pytest.mark.parametrize("role", ["prefill", "decode", "colocated"])
def test_parts_fill_the_accelerator(engine: ex.EngineProfile, role: str) -> None:
    budget = memory(ex.worker(tp=4), engine, 8192, 256, role)  # type: ignore[arg-type]
    assert budget.fits
    assert sum(budget.parts().values()) == pytest.approx(ex.H100.memory_bytes)
    assert all(part > 0 for part in budget.parts().values())


def test_weights_that_do_not_fit_say_so() -> None:
    budget = memory(ex.worker(tp=1), ex.VLLM, 8192, 256)
    assert not budget.fits
    assert budget.kv_bytes == 0.0
    assert "141.1 GB per accelerator at tp 1" in budget.why_it_does_not_fit
    assert "of 85.9 GB on h100-sxm" in budget.why_it_does_not_fit


def test_no_pool_is_larger_than_what_is_left() -> None:
    everything = replace(ex.VLLM, memory=MemoryRule("total", 1.5, 0.0, 0.0, 16))
    budget = memory(ex.worker(tp=4), everything, 8192, 256)
    assert sum(budget.parts().values()) <= ex.H100.memory_bytes * (1 + 1e-12)


def test_activations_grow_with_the_token_budget_and_shrink_with_tp() -> None:
    small, large = (activation_bytes(ex.worker(tp=4), tokens, 256) for tokens in (2048, 8192))
    assert small < large < activation_bytes(ex.worker(tp=1), 8192, 256)
    # 70B, 8,192 tokens, TP 4: 2 (2 x 8,192 + 14,336 + 8,192) bytes a token and 6 x 32,064 bytes a logit row.
    assert large == pytest.approx(8192 * 2 * (2 * 8192 + 14336 + 8192) + 256 * 6 * 32064)


def test_full_windows_cost_no_more() -> None:
    built = ex.worker(ex.GPT_OSS_120B, "mxfp4")
    short, long = (float(kv_bytes_per_rank_for(built, tokens)) for tokens in (128.0, 1128.0))
    assert short == 128 * 73728  # PEERS: 73,728 B in vLLM's log until windows are full
    assert long - short == 1000 * 36864
    budget = memory(built, ex.VLLM, 8192, 256)
    counts = sequences_that_fit(built, budget, np.array([1000.0, 10_000.0]))
    assert counts[0] > counts[1] > counts[0] / 10


def test_attention_ranks_add_their_pools() -> None:
    built = ex.worker(ex.DEEPSEEK_R1, "fp8", accelerator=ex.H200, dp=16, ep=16)
    budget: MemoryBudget = memory(built, ex.VLLM, 8192, 256)
    one = budget.kv_bytes / float(kv_bytes_per_rank_for(built, 4000.0))
    assert float(sequences_that_fit(built, budget, 4000.0)) == pytest.approx(16 * one)
