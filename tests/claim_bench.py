"""The case that every claim is computed for, from the shipped catalog."""

from __future__ import annotations

from functools import cache

from small_scenarios import accelerator, engine, model

from planner.sizing.claims.bench import Bench


@cache
def bench() -> Bench:
    return Bench(
        dense=model("meta-llama/Llama-3.1-70B"),
        latent=model("deepseek-ai/DeepSeek-V3"),
        accelerator=accelerator("h100-sxm"),
        large=accelerator("h200-sxm"),
        engine=engine("vllm"),
        network_bytes_per_s=50e9,
    )
