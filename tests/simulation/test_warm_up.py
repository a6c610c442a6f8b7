"""A run measures only once as many requests are in it as will be."""

from __future__ import annotations

import small_scenarios as small

from planner.records import Deployment, Pool
from planner.simulation.simulate import Setting, simulate


def test_the_first_measured_requests_meet_a_full_batch() -> None:
    """Outputs of 2,000 tokens take 14 s: a tenth of 400 requests, 40 at 20/s, would be over after 2 s."""
    lengths = small.fixed_lengths(100.0, 2000.0)
    question = small.scenario(requests_per_s=20.0, lengths=lengths)
    deployment = Deployment("colocated-chunked", Pool("h100-sxm", 2, tp=1))
    few, many = (simulate(question, deployment, Setting(requests=count)) for count in (400, 1600))
    batch = many.decode.mean_batch.value
    assert abs(few.decode.mean_batch.value / batch - 1.0) < 0.06
