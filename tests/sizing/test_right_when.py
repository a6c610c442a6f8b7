"""When a claim would be right is computed, and it is: applied, the claim holds there and not beyond."""

from __future__ import annotations

import re

import numpy as np
from claim_bench import bench

from planner.roofline.collectives import LINE_FRACTION
from planner.roofline.steps import prefill_s
from planner.shapes.counts import decode_flops, kv_bytes
from planner.shapes.ranks import weight_bytes_per_rank
from planner.sizing.claims import claims
from planner.sizing.claims.bench import ALL, lost_fraction


def first_number(name: str, before: str) -> float:
    text = claims(bench(), name)[0].right_when
    found = re.search(before + r"\D*?([\d,]*\d)", text)
    assert found is not None, text
    return float(found[1].replace(",", ""))


def test_batches_of_low_intensity() -> None:
    def intensity(batch: float) -> float:
        weights = float(weight_bytes_per_rank(bench().dense, "bf16", 1, 1, 1, 1))
        moved = weights + batch * float(kv_bytes(bench().dense, "bf16", 2048.0))
        return batch * float(decode_flops(bench().dense, 2048.0)) / moved

    most = first_number("decode-intensity", "a batch of")
    assert intensity(most) <= 4.0 < intensity(most + 1.0)


def test_contexts_that_move_in_a_tenth_of_a_second() -> None:
    tokens = first_number("burst-by-moving", "no more than")
    time_s = float(kv_bytes(bench().dense, "bf16", tokens)) / (LINE_FRACTION * 50e9)
    assert abs(time_s - 0.1) < 1e-3


def test_chunks_that_cost_less_than_a_wrong_ratio() -> None:
    chunk, waste = first_number("wrong-ratio", "chunks of"), claims(bench(), "wrong-ratio")[0].found[0]
    assert 100.0 * lost_fraction(bench().worker(4), 8192.0, chunk) <= waste
    assert 100.0 * lost_fraction(bench().worker(4), 8192.0, chunk - 64.0) > waste


def test_prompts_that_take_the_whole_target() -> None:
    worker, tokens = bench().worker(4), first_number("both-targets", "one of")
    constants = worker.constants
    own_s = [float(prefill_s(worker, length, ALL).total_s) for length in (tokens - 64.0, tokens)]
    first_s = constants.own_prefill_factor * np.array(own_s) + constants.ttft_fixed_s
    assert first_s[0] < 0.2 <= first_s[1]
