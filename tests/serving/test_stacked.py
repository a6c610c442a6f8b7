"""Steps of many workers at once are the steps of each worker alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from roofline_examples import B200, DEEPSEEK_R1, GLM_5, GPT_OSS_120B, H100, LLAMA_70B, QWEN35_397B, VLLM_CONSTANTS

from planner.records import Accelerator, ModelShape, Speculation
from planner.roofline import steps
from planner.roofline.worker import Worker, build_worker
from planner.serving.stacked import UNIT, Stack, as_row

CASES: tuple[tuple[ModelShape, str, Accelerator, dict[str, int]], ...] = (
    (LLAMA_70B, "bf16", H100, {"tp": 4}),
    (LLAMA_70B, "fp8", H100, {"tp": 1}),
    (GPT_OSS_120B, "mxfp4", H100, {"tp": 2}),
    (DEEPSEEK_R1, "fp8", H100, {"tp": 8}),
    (DEEPSEEK_R1, "fp8", H100, {"dp": 8, "ep": 8}),
    (GLM_5, "bf16", H100, {"tp": 8}),
    (QWEN35_397B, "bf16", H100, {"tp": 8, "ep": 8}),
    (LLAMA_70B, "bf16", B200, {"tp": 8}),
)


def build(constants: bool, speculation: Speculation | None = None) -> list[Worker]:
    by = VLLM_CONSTANTS if constants else UNIT
    return [build_worker(*case[:2], "bf16", case[2], "vllm", by, **case[3], speculation=speculation) for case in CASES]


@pytest.mark.parametrize("speculation", [None, Speculation(3, 2.0)], ids=["plain", "drafted"])
@pytest.mark.parametrize(
    ("batch", "chunk", "prompt"), [(16.0, 0.0, 0.0), (0.0, 2000.0, 6000.0), (40.0, 1000.0, 1000.0)]
)
def test_the_same_as_one_by_one(batch: float, chunk: float, prompt: float, speculation: Speculation | None) -> None:
    rows = len(CASES)
    # Each worker twice, in another order: rows and workers are told apart.
    of_row = np.array([*range(rows), *reversed(range(rows))])
    stack = Stack(build(constants=False, speculation=speculation), of_row)
    full = [np.full(2 * rows, value) for value in (batch, 3000.0, chunk, prompt)]
    routed = stack.dp * (full[0] + full[2])
    constants = np.tile(as_row(VLLM_CONSTANTS), (2 * rows, 1))
    total = stack.total_s(stack.parts(constants, *full, routed), constants)
    workers = build(constants=True, speculation=speculation)
    alone = np.array([float(steps.step(worker, batch, 3000.0, chunk, prompt).total_s) for worker in workers])
    np.testing.assert_allclose(total, alone[of_row], rtol=1e-12)


def test_constants_differ_by_row() -> None:
    stack = Stack(build(constants=False)[:1], np.array([0, 0]))
    slow = replace(VLLM_CONSTANTS, host_step_s=VLLM_CONSTANTS.host_step_s + 1e-3)
    constants = np.array([as_row(VLLM_CONSTANTS), as_row(slow)])
    one, zero = np.ones(2), np.zeros(2)
    total = stack.total_s(stack.parts(constants, one, 100 * one, zero, zero, one), constants)
    assert total[1] - total[0] == pytest.approx(1e-3)
