"""Intervals from held-out errors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from roofline_examples import B200, H100, LLAMA_70B, VLLM

from planner.calibration.residuals import HeldOut
from planner.calibration.spread import engine_intervals, fit_spread, fit_spreads, jackknifed_inside
from planner.records import ClosedLoop, Deployment, Pool

RUNS = 800


def held(widths: dict[str, float], bias: float = 0.0) -> HeldOut:
    """Runs on two accelerators whose errors are normal, of their own width in log."""
    random = np.random.default_rng(1)
    parts = {"h100-sxm": H100, "b200": B200}
    deployment = Deployment("colocated-chunked", Pool("h100-sxm", 1, tp=4))
    run = ClosedLoop(LLAMA_70B, "fp8", "fp8", VLLM, H100, None, deployment, 1000.0, 500.0, False, 16.0)
    runs = [replace(run, accelerator=parts[name]) for name in widths for _ in range(RUNS)]
    errors = [bias + width * random.standard_normal((RUNS, 2)) for width in widths.values()]
    groups = tuple(f"{one.accelerator.id} {number % 20}" for number, one in enumerate(runs))
    zero = np.zeros((len(runs), 2))
    return HeldOut("colocated", tuple(runs), zero, np.concatenate(errors), ("known-cell",) * len(runs), groups)


def test_ends_are_the_quantiles_of_equal_groups() -> None:
    # a standard normal law has .09 of its mass below -1.3408
    spread = fit_spread(held({"h100-sxm": 0.1, "b200": 0.1}), "known-cell")
    assert spread.bounds(("h100-sxm",)) == pytest.approx([-0.134, 0.134, -0.134, 0.134], rel=0.08)


def test_a_group_that_errs_more_is_stretched() -> None:
    spread = fit_spread(held({"h100-sxm": 0.1, "b200": 0.2}), "known-cell")
    near, far = (spread.bounds(("vllm", name, f"vllm {name}")) for name in ("h100-sxm", "b200"))
    assert far == pytest.approx(2.0 * near, rel=0.15)


def test_a_group_that_was_never_seen_stretches_nothing() -> None:
    spread = fit_spread(held({"h100-sxm": 0.1}), "known-cell")
    assert spread.bounds(("mi300x",)) == pytest.approx(spread.bounds(()))


def test_ends_follow_a_bias() -> None:
    low, high, *_ = fit_spread(held({"h100-sxm": 0.1}, bias=0.05), "known-cell").bounds(())
    assert -low < high


def test_less_knowledge_is_never_narrower() -> None:
    found = fit_spreads({"known-cell": held({"h100-sxm": 0.2}), "new-model": held({"h100-sxm": 0.1})})
    assert np.all(found["new-model"].ends >= found["known-cell"].ends)


def test_jackknifed_intervals_hold_their_share() -> None:
    classes = {"new-cell": held({"h100-sxm": 0.1, "b200": 0.2})}
    share = jackknifed_inside(classes, "new-cell").mean(axis=0)
    assert share == pytest.approx([0.83, 0.83], abs=0.02)


def test_what_an_engine_ships() -> None:
    found = engine_intervals({"colocated": {"new-model": held({"h100-sxm": 0.1, "b200": 0.2})}})
    by = found["vllm"]
    assert set(by.factors) == {"colocated/new-model", "colocated/new-accelerator", "colocated/guess"}
    # twice as wide in log where no accelerator like it was measured
    assert by.factors["colocated/guess"].step_high == pytest.approx(by.factors["colocated/new-model"].step_high ** 2)
    assert by.widths["colocated/new-model/b200"].ttft_high > by.widths["colocated/new-model/h100-sxm"].ttft_high
    assert sorted(by.growth) == [0.5, 0.9, 0.95, 0.99]
    assert by.growth[0.5][0] < 1.0 < by.growth[0.9][0] < by.growth[0.99][0]
