"""Tables against the roofline they were made from."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import roofline_examples as examples

from planner.records import Speculation
from planner.roofline.steps import decode_s, mixed_s, prefill_step_s
from planner.roofline.worker import Worker
from planner.simulation.steps import TabulatedSteps

BUDGET, BATCH, LONGEST = 2048, 64, 20_000.0
WORKERS = {
    "dense": examples.worker(examples.LLAMA_8B),
    "windows and experts": examples.worker(examples.GPT_OSS_120B, weights="mxfp4"),
    "attention ranks": examples.worker(examples.GPT_OSS_120B, weights="mxfp4", dp=4, ep=4),
    "drafts": replace(examples.worker(examples.GPT_OSS_120B, weights="mxfp4"), speculation=Speculation(3, 2.0)),
}


@pytest.mark.parametrize("worker", WORKERS.values(), ids=WORKERS)
def test_evenly_loaded_ranks_take_the_time_of_the_roofline(worker: Worker) -> None:
    law = TabulatedSteps(worker, BATCH, BUDGET, LONGEST)
    random, dp, factor = np.random.default_rng(0), worker.dp, law.prefill_factor
    for _ in range(60):
        batch, context = int(random.integers(1, BATCH)), float(random.uniform(10.0, LONGEST))
        tokens = float(random.uniform(1.0, BUDGET - batch))
        prompt = float(random.uniform(tokens, LONGEST))
        attention = float(law.attention_s(np.array([prompt]))[0]) * tokens / prompt
        decode = law.decode_line(batch, context)[0]
        before = law.shared_s(batch * dp)
        after = law.shared_s(batch * dp, dp * tokens)
        assert decode + before == pytest.approx(float(decode_s(worker, batch * dp, context).total_s), rel=2e-3)
        mixed = decode + law.added_s(batch, tokens) + attention + (1.0 - factor) * before + factor * after
        exact = mixed_s(worker, batch * dp, context, tokens, prompt, dp * (batch + tokens)).total_s
        assert mixed == pytest.approx(float(exact), rel=2e-3)
        alone = law.prefill_s(tokens) + attention + factor * law.shared_s(0.0, dp * tokens)
        assert alone == pytest.approx(float(prefill_step_s(worker, tokens, prompt, tokens * dp).total_s), rel=2e-3)


def test_a_line_holds_to_the_next_node() -> None:
    law = TabulatedSteps(WORKERS["dense"], BATCH, BUDGET, LONGEST)
    time, slope, room = law.decode_line(32, 5000.0)
    assert slope > 0.0 and room > 1.0
    later, _, _ = law.decode_line(32, 5000.0 + room / 2.0)
    assert later == pytest.approx(time + slope * room / 2.0, rel=1e-12)
