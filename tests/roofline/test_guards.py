"""Checks that stop an impossible result."""

from __future__ import annotations

import numpy as np
import pytest
import roofline_examples as ex

from planner.errors import PhysicsError
from planner.roofline import guards


def test_floor_of_one_sequence_is_one_read_of_the_weights() -> None:
    # 70B bf16: (70.55 - 1.05) x 2 GB over 3.35 TB/s = 41.5 ms; the embedding is only looked up.
    assert float(guards.step_floor_s(ex.worker(), 1.0, 1.0)) == pytest.approx(41.5e-3, rel=0.002)


def test_floor_of_a_long_prompt_is_its_flops() -> None:
    # 2 x 68.45e9 x 32,768 + attention 4 x 64 x 128 x 80 x 32,768^2 / 2 = 5.89e15 FLOPs over 989.4 TFLOP/s.
    assert float(guards.step_floor_s(ex.worker(), 0.0, 0.0, 32768.0, 32768.0)) == pytest.approx(5.96, rel=0.01)


def test_checks_pass_at_the_limit_and_fail_beyond() -> None:
    guards.check_step(np.array([1.0, 2.0]), np.array([1.0, 1.5]))
    guards.check_ttft(0.2, 0.1)
    guards.check_memory(80e9, 80e9)
    guards.check_link(1.0, 1.0)
    with pytest.raises(PhysicsError, match=r"step time 1 s lies below its roofline floor, 1\.5 s"):
        guards.check_step(np.array([2.0, 1.0]), 1.5)
    with pytest.raises(PhysicsError, match="first token"):
        guards.check_ttft(0.05, 0.1)
    with pytest.raises(PhysicsError, match="memory"):
        guards.check_memory(81e9, 80e9)
    with pytest.raises(PhysicsError, match="link"):
        guards.check_link(1.1, 1.0)


def test_not_a_number_is_stopped_too() -> None:
    with pytest.raises(PhysicsError):
        guards.check_step(float("nan"), 1.0)
