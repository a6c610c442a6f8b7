"""The shipped constants against measured runs, and that wrong formulas do not pass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from planner.calibration.validate import OK, Finder, Row, predict_rows, row_errors
from planner.cli.validate import finder
from planner.files.measurements import read_table
from planner.records import Accelerator, Floats
from planner.roofline import operators
from planner.serving.closed_loop import Colocated, Point

RUNS = read_table(Path(__file__).parents[1] / "data" / "measured" / "serving.csv")
AGGREGATED = tuple(run for run in RUNS if run.deployment and run.deployment.prefill is None)
FIND = finder((), None)


def faults(rows: list[Row]) -> list[str]:
    """What is worse than it is with the right formulas, by more than a few percent of itself."""
    tpot, ttft = row_errors(rows, "tpot"), row_errors(rows, "ttft")
    assert tpot
    assert ttft
    limits = {
        "TPOT mean": (tpot.mean, 0.0605),
        "TPOT median": (tpot.median, 0.036),
        "TPOT bias": (abs(tpot.bias), 0.02),
        "TTFT mean": (ttft.mean, 0.18),
        "TTFT bias": (abs(ttft.bias), 0.04),
    }
    return [name for name, (value, limit) in limits.items() if value > limit]


def test_the_accuracy_gate_is_green() -> None:
    assert faults(predict_rows(AGGREGATED, FIND)) == []


def test_every_run_is_predicted() -> None:
    rows = predict_rows(RUNS, FIND)
    assert [row.status for row in rows] == [OK] * 1763
    apart = [row for row in rows if row.measurement.deployment and row.measurement.deployment.prefill]
    tpot = row_errors(apart, "tpot")
    assert tpot
    assert (tpot.runs, tpot.mean < 0.07, tpot.inside > 0.76) == (172, True, True)


def test_intervals_hold_the_runs_they_came_from() -> None:
    # Fitted to the same runs, so more than the 80 % that held-out runs have (docs/accuracy.md).
    rows = predict_rows(AGGREGATED, FIND)
    for quantity in ("tpot", "ttft"):
        errors = row_errors(rows, quantity)
        assert errors
        assert 0.8 < errors.inside < 0.96
    assert all(row.tpot_low_s <= row.tpot_s <= row.tpot_high_s for row in rows)


# ----------------------------------------------------------------------------------------------------- wrong formulas


def every_expert(experts: Floats, top_k: Floats, tokens: Floats) -> Floats:
    return np.asarray(experts) + 0.0 * np.asarray(tokens)


def full_square(new: Floats, cached: Floats, window: int = 0) -> Floats:
    return np.asarray(new, dtype=float) ** 2


def test_reading_every_expert_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operators, "distinct_experts", every_expert)
    assert "TPOT mean" in faults(predict_rows(AGGREGATED, FIND))


def test_attention_over_the_full_square_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operators, "attended_pairs", full_square)
    assert "TPOT mean" in faults(predict_rows(AGGREGATED, FIND))


def test_decoding_untouched_by_prefill_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    right: Callable[[Colocated, Floats, Floats], Point] = Colocated.point
    monkeypatch.setattr(
        Colocated, "point", lambda loop, by, batch: replace(right(loop, by, batch), busy_steps=np.zeros(loop.rows))
    )
    assert "TPOT mean" in faults(predict_rows(AGGREGATED, FIND))


def test_binary_teras_are_caught() -> None:
    def binary(name: str) -> Accelerator:
        part, factor = FIND.accelerator(name), 2**40 / 1e12
        peaks = {
            field: value * factor
            for field in (
                "memory_bytes_per_s", "bf16_dense_flops_per_s", "fp8_dense_flops_per_s", "fp4_dense_flops_per_s",
            )
            if (value := getattr(part, field)) is not None
        }  # fmt: skip
        return replace(part, **peaks)

    assert "TPOT bias" in faults(predict_rows(AGGREGATED, Finder(FIND.model, binary, FIND.engine)))
