"""Physics on every result, not only in tests: a prediction past a roofline or a memory floor is refused."""

from __future__ import annotations

import numpy as np

from planner.roofline.guards import check_link, check_memory, check_step, check_ttft, step_floor_s
from planner.serving.outcome import Outcome
from planner.serving.role import Role


def check_outcome(outcome: Outcome, prefill: Role, decode: Role) -> None:
    """Raise PhysicsError when a time lies under its floor, or memory or a link is used past its size."""
    for role in (prefill, decode):
        check_memory(sum(role.memory.parts().values()), role.accelerator.memory_bytes)
    if decode.step_factor >= 1.0:  # the fast end of an interval may pass it: that is what makes it an end
        one, none = np.array([1.0]), np.array([0.0])
        floor_s = step_floor_s(decode.worker, one / decode.dp, one * decode.traffic.context_moments[0], none, none, one)
        check_step(outcome.itl_s["mean"], floor_s)
        check_ttft(outcome.ttft_s["mean"], float(prefill.traffic.input_weights @ prefill.prefill_floor_s))
    if outcome.transfer is not None and np.isfinite(outcome.ttft_s["mean"]):
        check_link(outcome.transfer.utilization, 1.0)
