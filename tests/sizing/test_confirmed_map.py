"""Cells of the map against token-step simulation, as `make confirm` does for docs/simulated-cells.md."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import confirm_map  # noqa: E402


@pytest.mark.slow
def test_thirty_cells_by_simulation() -> None:
    """Thirty questions spread over models, lengths, loads and targets: what simulated plans carry gives the winner of
    the map, ties apart, what it saves within 10 points in nine of ten, and the costs within 10 % in four of five where
    TTFT leaves room for a wait."""
    found = list(confirm_map.confirmed(confirm_map.CELLS))
    assert all(one.same_winner or one.tie for one in found)
    roomy = np.array([one.off_fraction for one in found if not one.edge])
    assert roomy.size >= 20 and np.mean(roomy <= 0.1) >= 0.8 and roomy.max() <= 0.3
    assert np.median([one.off_fraction for one in found]) <= 0.05
    assert np.mean([one.off_points <= 10.0 for one in found]) >= 0.9


def test_the_page_has_every_cell() -> None:
    lines = (ROOT / "docs" / "simulated-cells.md").read_text(encoding="utf-8").splitlines()
    assert sum(line.startswith("| ") for line in lines) == confirm_map.CELLS + 1
    assert any(line.startswith("The same winner in") for line in lines)
