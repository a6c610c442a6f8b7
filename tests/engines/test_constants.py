"""Constants of an engine for one deployment."""

from __future__ import annotations

from dataclasses import replace
from math import exp, sqrt

import pytest
from roofline_examples import VLLM, VLLM_CONSTANTS

from planner.engines.constants import constants_for
from planner.records import EngineConstants

ENGINE = replace(
    VLLM,
    measured_cells=frozenset({("a/model", "h100-sxm"), ("b/model", "b200")}),
    deviations={
        "colocated/accelerator/h100-sxm": {"compute_factor": 0.1},
        "colocated/weights/fp8": {"compute_factor": 0.2, "kernel_gap_s": -0.3},
        "colocated/model/a/model": {"compute_factor": -0.05},
        "colocated/spread": {"host_step_s": 0.4},
        "colocated/common": {"compute_factor": 1.0},
        "disaggregated/weights/fp8": {"compute_factor": 9.0},
    },
)


def of(model: str = "a/model", accelerator: str = "h100-sxm", weights: str = "fp8", dp: int = 1) -> EngineConstants:
    return constants_for(ENGINE, "colocated", model=model, accelerator=accelerator, weights=weights, dp=dp)


def test_a_measured_cell_adds_up_its_groups() -> None:
    found = of()
    assert found.compute_factor == pytest.approx(VLLM_CONSTANTS.compute_factor * exp(0.1 + 0.2 - 0.05))
    assert found.kernel_gap_s == pytest.approx(VLLM_CONSTANTS.kernel_gap_s * exp(-0.3))
    assert found.host_step_s == pytest.approx(VLLM_CONSTANTS.host_step_s)
    assert of(dp=4).host_step_s == pytest.approx(VLLM_CONSTANTS.host_step_s * exp(0.4))


def test_a_new_cell_leans_on_what_is_common() -> None:
    # .7 of (weights .2 and model -.05), .3 of the common fit.
    expected = VLLM_CONSTANTS.compute_factor * exp(0.7 * (0.2 - 0.05) + 0.3)
    assert of(accelerator="b200").compute_factor == pytest.approx(expected)


def test_a_new_model_is_half_its_groups_and_half_what_is_common() -> None:
    expected = VLLM_CONSTANTS.compute_factor * sqrt(exp(0.1 + 0.2) * exp(1.0))
    assert of(model="c/model").compute_factor == pytest.approx(expected)


def test_without_deviations_the_engine_is_itself() -> None:
    assert constants_for(VLLM, "colocated", model="x", accelerator="y", weights="z") is VLLM_CONSTANTS
