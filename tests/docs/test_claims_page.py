"""docs/claims.md says what the program finds now."""

from __future__ import annotations

from excerpts import ROOT, agree
from small_scenarios import accelerator, engine, model

from planner.render.claims import to_markdown
from planner.sizing.claims import claims
from planner.sizing.claims.bench import Bench


def test_the_page_is_current() -> None:
    bench = Bench(
        dense=model("meta-llama/Llama-3.1-70B"),
        latent=model("deepseek-ai/DeepSeek-V3"),
        accelerator=accelerator("h100-sxm"),
        large=accelerator("h200-sxm"),
        engine=engine("vllm"),
        network_bytes_per_s=50e9,
    )
    page = (ROOT / "docs" / "claims.md").read_text(encoding="utf-8")
    assert agree(page, to_markdown(claims(bench))), "run `make docs`"
