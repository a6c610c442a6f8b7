"""How long an answer takes, measured by `make bench` only."""

from __future__ import annotations

from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import planner

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("example", sorted(path.name for path in EXAMPLES.glob("*.yaml")))
def test_sizing_an_example(benchmark: BenchmarkFixture, example: str) -> None:
    scenario = planner.load_scenario(EXAMPLES / example)
    assert benchmark.pedantic(planner.size, (scenario,), rounds=1).verdict in {"feasible", "infeasible"}
