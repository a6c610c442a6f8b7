"""FLOPs and bytes of a step's operators: hand values, sums, and no mark above its roof."""

from __future__ import annotations

import pytest
import roofline_examples as ex
import small_scenarios as small
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.roofline import operators, steps
from planner.roofline.work import OperatorWork, decode_work, prefill_work
from planner.roofline.worker import Worker, build_worker

MODELS = (
    "meta-llama/Llama-3.1-8B",
    "openai/gpt-oss-120b",
    "deepseek-ai/DeepSeek-V3",
    "Qwen/Qwen3-Next-80B-A3B-Instruct",
)


def worker_of(name: str) -> Worker:
    engine = small.engine("vllm")
    shape, card = small.model(name), small.accelerator("h200-sxm")
    tp = 1 if "8B" in name else 8
    return build_worker(shape, "bf16", "bf16", card, engine.id, engine.colocated, tp)


WORKERS = {name: worker_of(name) for name in MODELS}


def total(found: tuple[OperatorWork, ...], name: str, value: str) -> float:
    return float(sum(getattr(one, value) for one in found if one.name == name))


def test_one_sequence_reads_every_weight_once() -> None:
    # 70B bf16: 69.5 G weights without the embedding are 139.0 GB, plus what little one token brings along.
    found = decode_work(ex.worker(), 1.0, 1.0)
    moved = total(found, "matrices", "moved_bytes") + total(found, "head", "moved_bytes")
    assert moved == pytest.approx(139.0e9, rel=0.002)
    # two FLOPs a weight and token: one FLOP a byte of bf16
    flops = total(found, "matrices", "flops") + total(found, "head", "flops")
    assert flops == pytest.approx(moved, rel=0.01)


def test_attention_of_grouped_queries_has_the_intensity_of_its_group() -> None:
    # 64 query heads over 8 KV heads, bf16: 4 h D s FLOPs over 2 x 2 x 8 D s bytes = 64 / 8 = 8 FLOP/byte
    (attention,) = (one for one in decode_work(ex.worker(), 16.0, 4000.0) if one.name == "attention")
    assert attention.flops_per_byte == pytest.approx(8.0)
    # 80 layers x 4 x 64 x 128 x 4,000 x 16
    assert attention.flops == pytest.approx(80 * 4 * 64 * 128 * 4000 * 16)


def test_a_prompt_has_its_flops() -> None:
    # as the floor of a long prompt: 2 x 68.45e9 x 32,768 and attention 4 x 64 x 128 x 80 x 32,768^2 / 2
    found = prefill_work(ex.worker(), 32768.0, 32768)
    assert total(found, "matrices", "flops") == pytest.approx(2 * 68.45e9 * 32768, rel=0.001)
    assert total(found, "attention", "flops") == pytest.approx(4 * 64 * 128 * 80 * 32768**2 / 2, rel=0.001)


@pytest.mark.parametrize("name", MODELS)
def test_times_are_those_of_the_step(name: str) -> None:
    """Matrices and the head are all of their part but element-wise work; experts are all but routing."""
    worker = WORKERS[name]
    memory, factor = worker.accelerator.memory_bytes_per_s, worker.constants.prefill_factor
    found, step = decode_work(worker, 32.0, 3000.0), steps.decode_s(worker, 32.0, 3000.0)
    rest = float(operators.elementwise_s(32.0, worker.elements_per_token, memory))
    assert _sum(found, "matrices", "head") + rest == pytest.approx(float(step.weights_and_gemm_s))
    assert _sum(found, "attention", "recurrent") == pytest.approx(float(step.attention_decode_s))
    assert _sum(found, "experts") <= float(step.experts_s) * (1.0 + 1e-9)
    chunk, own = prefill_work(worker, 2000.0, 8192), steps.prefill_s(worker, 2000.0, 8192)
    assert _sum(chunk, "attention", "recurrent") == pytest.approx(float(own.parts.attention_prefill_s))
    rest = factor * float(operators.elementwise_s(2000.0, worker.elements_per_token, memory))
    assert _sum(chunk, "matrices", "head") + rest == pytest.approx(float(own.parts.weights_and_gemm_s))


def _sum(found: tuple[OperatorWork, ...], *names: str) -> float:
    return sum(total(found, name, "time_s") for name in names)


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(MODELS), st.floats(1.0, 300.0), st.floats(2.0, 30_000.0))
def test_no_mark_lies_above_its_roof(name: str, batch: float, tokens: float) -> None:
    worker = WORKERS[name]
    card = worker.accelerator
    for one in (*decode_work(worker, batch, tokens), *prefill_work(worker, tokens, 8192)):
        roof = min(card.bf16_dense_flops_per_s, one.flops_per_byte * card.memory_bytes_per_s)
        assert one.flops_per_s <= roof * (1.0 + 1e-9), one
        assert one.flops > 0.0 and one.moved_bytes > 0.0 and one.time_s > 0.0
