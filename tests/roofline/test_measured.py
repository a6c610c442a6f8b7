"""Step times composed into a closed loop against measured serving runs."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from closed_loop import read, tpot_s
from numpy.typing import NDArray

SAMPLE = Path(__file__).parents[1] / "data" / "measured" / "serving_sample.csv"


@pytest.fixture(scope="module")
def errors() -> NDArray[np.float64]:
    """Predicted over measured TPOT, less one."""
    with SAMPLE.open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    return np.array([tpot_s(read(row)) / (float(row["tpot_ms"]) * 1e-3) - 1.0 for row in rows])


def test_tpot_error(errors: NDArray[np.float64]) -> None:
    # Engine constants only, no deviation per accelerator, format or model. Over all 1,509 aggregated runs the same
    # code has 8.6 % median and 11.5 % mean; leaving out whole models in the fit costs 10.1 and 13.4 % (FIDELITY §7).
    assert len(errors) >= 60
    assert np.median(np.abs(errors)) < 0.12
    assert np.mean(np.abs(errors)) < 0.15


def test_tpot_is_unbiased(errors: NDArray[np.float64]) -> None:
    assert abs(np.median(errors)) < 0.06
