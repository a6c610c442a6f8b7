"""The fit: slopes, priors, and constants found again in runs made with them."""

from __future__ import annotations

import numpy as np
import pytest
from roofline_examples import H100, LLAMA_8B, LLAMA_70B, VLLM

from planner.calibration.fit import Fit, fit, fit_data, log_answer, slopes
from planner.calibration.levels import LEVELS, PRIORS, START, deviation_sd, keys
from planner.calibration.residuals import curve, folds
from planner.records import ClosedLoop, Deployment, ModelShape, Pool
from planner.serving.closed_loop import Colocated, solve
from planner.serving.stacked import COLUMN, CONSTANTS


def run(clients: float, model: ModelShape = LLAMA_70B, tp: int = 4, prompt: float = 1000.0) -> ClosedLoop:
    deployment = Deployment("colocated-chunked", Pool("h100-sxm", 1, tp=tp))
    return ClosedLoop(model, "fp8", "fp8", VLLM, H100, None, deployment, prompt, 500.0, False, clients, "lab")


RUNS = [
    run(clients, model, tp, prompt)
    for model in (LLAMA_8B, LLAMA_70B)
    for tp in (1, 2, 4, 8)
    for prompt in (500.0, 4000.0)
    for clients in (1.0, 8.0, 64.0)
    if model is LLAMA_8B or tp > 1
]


def made_with(theta: np.ndarray) -> np.ndarray:
    return np.asarray(log_answer(solve(Colocated(RUNS), np.exp(np.tile(theta, (len(RUNS), 1))), iterations=12)))


def test_slopes_are_those_of_finite_differences() -> None:
    loop = Colocated(RUNS)
    theta = np.tile(START, (len(RUNS), 1))
    _, slope = slopes(loop, theta)
    for name in ("gemm_memory_factor", "kernel_gap_s", "burst_wait_factor", "prefill_factor", "ttft_fixed_s"):
        moved = [START + sign * 1e-3 * (np.arange(len(CONSTANTS)) == COLUMN[name]) for sign in (1, -1)]
        expected = (made_with(moved[0]) - made_with(moved[1])) / 2e-3
        np.testing.assert_allclose(slope[:, :, COLUMN[name]], expected, atol=0.02)


@pytest.mark.slow
def test_runs_that_agree_with_the_start_move_nothing() -> None:
    times = [tuple(pair) for pair in np.exp(made_with(START))]
    found = fit(fit_data(RUNS, times), np.ones(len(RUNS)))
    assert np.max(np.abs(found.beta)) < 2e-3


def test_a_constant_is_found_again() -> None:
    theta = START.copy()
    theta[COLUMN["kernel_gap_s"]] += 0.5
    times = [tuple(pair) for pair in np.exp(made_with(theta))]
    data = fit_data(RUNS, times)
    found = fit(data, np.ones(len(RUNS)))
    predicted = log_answer(solve(data.loop, np.exp(found.log_constants(RUNS, data.offset))))
    assert np.max(np.abs(predicted - data.measured)[:, 0]) < 0.02
    sums = found.log_constants(RUNS, data.offset)[:, COLUMN["kernel_gap_s"]] - START[COLUMN["kernel_gap_s"]]
    assert np.all(sums > 0.25)  # the rest of it trades with start-up times


def test_one_wild_run_does_not_bend_the_others() -> None:
    times = np.exp(made_with(START))
    times[3] *= 5.0
    found = fit(fit_data(RUNS, [tuple(pair) for pair in times]), np.ones(len(RUNS)))
    predicted = log_answer(solve(Colocated(RUNS), np.exp(found.log_constants(RUNS, np.tile(START, (len(RUNS), 1))))))
    others = np.arange(len(RUNS)) != 3
    assert np.median(np.abs(predicted - made_with(START))[others, 0]) < 0.02


def test_an_unseen_group_adds_nothing() -> None:
    found: Fit = fit(fit_data(RUNS[:6], [(0.01, 0.1)] * 6), np.ones(6))
    assert not np.any(found.of("model", "nobody/nothing"))


def test_priors_are_bounds_in_logs() -> None:
    assert set(PRIORS) == set(CONSTANTS)
    for level in LEVELS:
        assert np.all(deviation_sd(level) >= 0)
    assert np.all(deviation_sd("model") <= deviation_sd("accelerator"))


def test_curves_stay_whole() -> None:
    by_curve: dict[tuple[object, ...], set[int]] = {}
    for one, fold in zip(RUNS, folds(RUNS), strict=True):
        by_curve.setdefault(curve(one), set()).add(fold)
    assert len(by_curve) == 14
    assert all(len(found) == 1 for found in by_curve.values())


def test_groups_of_a_run() -> None:
    found = keys(run(1.0))
    assert found["accelerator"] == "vllm/h100-sxm"
    assert found["spread"] == ""
    assert found["model"] == pytest.approx(LLAMA_70B.id)
