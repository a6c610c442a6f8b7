"""Speculative decoding and expert imbalance in a plan."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import small_scenarios as small
from roofline_examples import GPT_OSS_120B
from roofline_examples import worker as example_worker

from planner.records import Speculation
from planner.roofline.steps import decode_s, step
from planner.serving.predict import predict

DRAFTS = Speculation(draft_tokens=3, accepted_tokens=2.0)


@pytest.mark.parametrize("deployment", [small.SPLIT, small.TOGETHER, small.WHOLE], ids=lambda item: item.mode)
def test_outputs_come_together(deployment: object) -> None:
    question = small.scenario(requests_per_s=5.0)
    plain = predict(question, deployment, with_intervals=False)  # type: ignore[arg-type]
    drafted = predict(replace(question, speculation=DRAFTS), deployment, with_intervals=False)  # type: ignore[arg-type]
    # a streamed output carries 3 tokens: gaps are longer, time per token shorter
    assert drafted.itl_s["mean"] > plain.itl_s["mean"]
    assert drafted.tpot_s["mean"] == pytest.approx(drafted.itl_s["mean"] / 3.0)
    assert drafted.tpot_s["mean"] < plain.tpot_s["mean"]
    assert drafted.e2e_s["mean"] < plain.e2e_s["mean"]


def test_drafts_that_are_never_accepted_only_cost() -> None:
    question = small.scenario(requests_per_s=5.0)
    wasted = predict(replace(question, speculation=Speculation(3, 0.0)), small.SPLIT, with_intervals=False)
    assert wasted.tpot_s["mean"] > predict(question, small.SPLIT, with_intervals=False).tpot_s["mean"]


def test_a_step_verifies_every_draft_and_reads_weights_and_cache_once() -> None:
    plain = example_worker()
    drafted = replace(plain, speculation=DRAFTS)
    batch = np.array([1.0, 16.0, 256.0])
    before, after = step(plain, batch, 2000.0), step(drafted, batch, 2000.0)
    # the matrices see 4 tokens a sequence, as a batch 4 times as large does
    many = step(plain, 4.0 * batch, 2000.0)
    assert after.weights_and_gemm_s == pytest.approx(many.weights_and_gemm_s)
    assert after.attention_decode_s == pytest.approx(before.attention_decode_s)
    assert np.all(after.draft_s > 0)
    assert np.all(before.draft_s == 0)
    assert np.all(after.total_s < 4.0 * before.total_s)


def test_the_fullest_expert_rank_sets_the_time() -> None:
    even = example_worker(GPT_OSS_120B, "mxfp4", ep=1)
    skewed = replace(even, expert_imbalance_factor=1.5)
    batch = np.array([64.0, 4096.0])
    one, other = decode_s(even, batch, 1000.0), decode_s(skewed, batch, 1000.0)
    assert np.all(other.experts_s > one.experts_s)
    assert np.all(other.experts_s <= 1.5 * one.experts_s)
    assert other.weights_and_gemm_s == pytest.approx(one.weights_and_gemm_s)
