"""What engines refuse, and how they size their KV pool."""

from __future__ import annotations

from dataclasses import replace

import pytest
import roofline_examples as ex

from planner.engines.memory import MIB, Launch, derived_slack_bytes, kv_pool_bytes, reserve_bytes
from planner.engines.rules import nearest, why_not, why_not_cache, why_not_mode, why_not_pair, why_not_worker
from planner.records import Deployment, Pool


def pool(tp: int = 1, **keys: int) -> Pool:
    return Pool("h100-sxm", 1, tp, **keys)


def test_runs() -> None:
    assert why_not(ex.VLLM, "disaggregated", pool(4), pool(8), ex.LLAMA_70B) == ""
    assert why_not(ex.SGLANG, "colocated-chunked", None, pool(8), ex.LLAMA_70B) == ""
    assert why_not(ex.TENSORRT, "disaggregated", pool(8), pool(4), ex.LLAMA_70B) == ""


def test_scheduling_modes() -> None:
    whole = replace(ex.VLLM, scheduling="whole-prompt")
    assert "whole prompts only" in why_not_mode(whole, "colocated-chunked")
    assert why_not_mode(whole, "colocated-whole-prompt") == ""
    assert "whole prompts" in why_not(whole, "colocated-chunked", None, pool(4), ex.LLAMA_70B)


@pytest.mark.parametrize(
    ("shape", "keys", "words"),
    [
        (ex.LLAMA_70B, {"tp": 4, "pp": 100}, "80 layers"),
        (ex.LLAMA_70B, {"tp": 3}, "does not divide"),
        (ex.LLAMA_70B, {"dp": 2}, "add replicas"),
        (ex.LLAMA_70B, {"tp": 4, "max_batch": 5000}, "use at most 1024"),
        (ex.LLAMA_70B, {"tp": 4, "max_batch": 512, "token_budget": 512}, "no room for prompts"),
        (ex.DEEPSEEK_R1, {"tp": 8, "ep": 2}, "use ep 1 or 8"),
    ],
)
def test_vllm_refuses(shape: ex.ModelShape, keys: dict[str, int], words: str) -> None:
    assert words in why_not_worker(ex.VLLM, shape, pool(**keys))


def test_attention_dp_of_tensorrt_takes_every_rank() -> None:
    assert "use tp 1" in why_not_worker(ex.TENSORRT, ex.DEEPSEEK_R1, pool(tp=2, dp=4, ep=8))
    assert why_not_worker(ex.TENSORRT, ex.DEEPSEEK_R1, pool(tp=1, dp=8, ep=8)) == ""


def test_stages_of_decode_workers() -> None:
    assert "use pp 1" in why_not_pair(ex.VLLM, ex.LLAMA_70B, pool(4, pp=2), pool(4, pp=2))
    assert why_not_pair(ex.VLLM, ex.LLAMA_70B, pool(4, pp=2), pool(4)) == ""
    assert "use pp 1 or 2" in why_not_pair(ex.SGLANG, ex.LLAMA_70B, pool(4, pp=2), pool(4, pp=4))
    assert why_not_pair(ex.SGLANG, ex.LLAMA_70B, pool(4, pp=2), pool(4, pp=2)) == ""
    assert why_not_pair(ex.TENSORRT, ex.LLAMA_70B, pool(4, pp=2), pool(4, pp=4)) == ""


def test_vllm_pull_connector() -> None:
    assert "multiple of the other" in why_not_pair(ex.SGLANG, ex.QWEN3_32B, pool(4), pool(6))
    # More prefill ranks than key-value heads copy them, and copies cannot be pulled into fewer ranks.
    assert "use prefill tp 8 or less" in why_not_pair(ex.VLLM, ex.LLAMA_70B, pool(16), pool(4))
    assert why_not_pair(ex.VLLM, ex.LLAMA_70B, pool(8), pool(4)) == ""
    assert why_not_pair(ex.VLLM, ex.DEEPSEEK_R1, pool(16), pool(4)) == ""
    assert why_not_pair(ex.VLLM, ex.QWEN35_397B, pool(8), pool(1)) == ""


LAUNCH = Launch(4, 1, 8192, 256, "colocated", latent_attention=False)


def test_three_meanings_of_a_memory_fraction() -> None:
    # 100 GB, 40 GB of weights, 2 GB of activations, 1 + 2 GB of reserve, fraction 0.9.
    def rule(basis: str) -> ex.MemoryRule:
        return ex.MemoryRule(basis, 0.9, 1e9, 2e9, 16)  # type: ignore[arg-type]

    assert reserve_bytes(rule("total"), 4) == 3e9
    assert reserve_bytes(rule("total"), 1) == 1e9
    assert kv_pool_bytes(rule("total"), 100e9, 40e9, 2e9, LAUNCH) == pytest.approx(90e9 - 45e9)
    assert kv_pool_bytes(rule("free-before-load"), 100e9, 40e9, 2e9, LAUNCH) == pytest.approx(97e9 - 40e9 - 9.7e9)
    assert kv_pool_bytes(rule("free-after-load"), 100e9, 40e9, 2e9, LAUNCH) == pytest.approx(0.9 * 55e9)


def test_derived_slack_of_sglang() -> None:
    # 512 + 1.5 x 8,192 + 128 x 4 + 2 x 256 + 8 x 58 = 14,288 MiB colocated; a decode server captures no prefill.
    assert derived_slack_bytes(80e9, LAUNCH) == pytest.approx(14288 * MIB)
    decode = replace(LAUNCH, role="decode")
    assert derived_slack_bytes(80e9, decode) == pytest.approx(10240 * MIB)  # least value on large memory
    assert derived_slack_bytes(24e9, decode) == pytest.approx((512 + 1.5 * 2048 + 512 + 512) * MIB)
    wide = replace(LAUNCH, dp=4, latent_attention=True, role="prefill")
    assert derived_slack_bytes(80e9, wide) == pytest.approx((512 + 12288 + 512 + 1536) * MIB)


A100 = replace(ex.H100, id="a100-sxm-80", fp8_dense_flops_per_s=None)


def with_connector(name: str, **rules: str) -> ex.EngineProfile:
    return replace(ex.VLLM, connectors={name: ex.ConnectorRule(**rules)}, connector=name)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("rules", "prefill", "decode", "runs"),
    [
        ({"tp": "multiple", "prefill_tp_above_decode": "kv-heads"}, 8, 4, True),
        ({"tp": "multiple", "prefill_tp_above_decode": "kv-heads"}, 16, 4, False),
        ({"tp": "multiple", "prefill_tp_above_decode": "latent"}, 8, 4, False),
        ({"tp": "multiple", "prefill_tp_above_decode": "latent"}, 4, 8, True),
        ({"tp": "equal", "prefill_tp_above_decode": "never"}, 4, 8, False),
        ({"tp": "equal", "prefill_tp_above_decode": "never"}, 4, 4, True),
        ({"tp": "any", "prefill_tp_above_decode": "always"}, 16, 4, True),
    ],
)
def test_rules_of_connectors(rules: dict[str, str], prefill: int, decode: int, runs: bool) -> None:
    engine = with_connector("one", **rules)
    assert (why_not_pair(engine, ex.LLAMA_70B, pool(prefill), pool(decode)) == "") is runs


def test_latents_may_go_to_a_smaller_tp() -> None:
    engine = with_connector("one", tp="multiple", prefill_tp_above_decode="latent")
    assert why_not_pair(engine, ex.DEEPSEEK_R1, pool(16), pool(4)) == ""


def test_eight_bit_caches_need_their_units() -> None:
    latent, always = (replace(ex.VLLM, kv8_needs_fp8_units=needs) for needs in ("latent", "always"))
    assert why_not_cache(latent, ex.LLAMA_70B, "fp8", A100) == ""
    assert "latents in fp8" in why_not_cache(latent, ex.DEEPSEEK_R1, "fp8", A100)
    assert "keys and values in fp8" in why_not_cache(always, ex.LLAMA_70B, "fp8", A100)
    for engine in (latent, always):
        assert why_not_cache(engine, ex.DEEPSEEK_R1, "fp8", ex.H100) == ""
        assert why_not_cache(engine, ex.DEEPSEEK_R1, "bf16", A100) == ""


def test_layers_that_an_engine_lacks() -> None:
    engine = replace(ex.TENSORRT, refused_mixers=frozenset({"gated-delta"}))
    assert "has no gated-delta layers" in why_not_cache(engine, ex.QWEN35_397B, "bf16", ex.H100)
    assert why_not_cache(engine, ex.LLAMA_70B, "bf16", ex.H100) == ""


def test_a_decode_step_holds_its_batch() -> None:
    assert "use at least 64" in why_not_worker(ex.VLLM, ex.LLAMA_70B, pool(4, max_batch=64, token_budget=32), "decode")
    assert why_not_worker(ex.VLLM, ex.LLAMA_70B, pool(4, max_batch=64, token_budget=64), "decode") == ""


def test_the_nearest_deployment_runs_and_keeps_its_size() -> None:
    engine = with_connector("one", tp="multiple", prefill_tp_above_decode="latent")
    given = Deployment("disaggregated", replace(pool(2, max_batch=64), replicas=4), replace(pool(8), replicas=2))
    assert why_not(engine, given.mode, given.prefill, given.decode, ex.LLAMA_70B)
    first = next(nearest(engine, ex.LLAMA_70B, given))
    assert why_not(engine, first.mode, first.prefill, first.decode, ex.LLAMA_70B) == ""
    assert first.prefill is not None and first.prefill.tp <= first.decode.tp
    assert [one.accelerators for one in first.pools] == [16, 8]


def test_what_runs_is_nearest_to_itself() -> None:
    given = Deployment("disaggregated", pool(8, max_batch=64), pool(4))
    assert next(nearest(ex.VLLM, ex.LLAMA_70B, given)) == given
