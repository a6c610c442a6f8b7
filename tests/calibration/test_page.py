"""docs/accuracy.md is current, and the shipped profiles are what the fit wrote down."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import build_accuracy  # noqa: E402
import fit_engines  # noqa: E402
from catalog_build import engines  # noqa: E402


def test_the_page_is_current() -> None:
    assert build_accuracy.main(["--check"]) == 0, "stale: run `make accuracy`"


def test_the_profiles_are_those_of_the_fit(tmp_path: Path) -> None:
    engines.build(fit_engines.RUNS, tmp_path)
    for path in (tmp_path / "engines").iterdir():
        assert path.read_bytes() == (ROOT / "hardware" / "engines" / path.name).read_bytes(), path.name


@pytest.mark.parametrize(
    ("name", "tpot", "ttft"),
    [
        ("colocated/known-cell", (8.5, 4.9), (25.0, 17.0)),
        ("colocated/new-cell", (12.0, 9.0), (32.0, 26.0)),
        ("colocated/new-model", (12.0, 10.0), (35.0, 30.0)),
        ("disaggregated/known-cell", (13.0, 9.0), (48.0, 40.0)),
    ],
)
def test_held_out_errors(name: str, tpot: tuple[float, float], ttft: tuple[float, float]) -> None:
    values = json.loads(engines.FIT.read_text())["held_out"][name]["all"]
    assert values[1] <= tpot[0]
    assert values[2] <= tpot[1]
    assert values[5] <= ttft[0]
    assert values[6] <= ttft[1]


@pytest.mark.parametrize(
    ("name", "slack"),
    [
        ("colocated/known-cell", 0.0),
        ("disaggregated/known-cell", 0.0),
        # a few cells and models are all there is of an accelerator or an engine
        ("colocated/new-cell", 1.5),
        ("colocated/new-model", 3.0),
        ("disaggregated/new-cell", 6.0),
    ],
)
def test_intervals_hold_held_out_runs_of_every_accelerator_and_engine(name: str, slack: float) -> None:
    classes = json.loads(engines.FIT.read_text())["inside"][name]
    for group, (runs, tpot, ttft) in classes.items():
        if runs >= 100:
            assert 76.0 - slack <= tpot <= 88.0 + slack, group
            assert 76.0 - slack <= ttft <= 88.0 + slack, group


@pytest.mark.slow
def test_the_fit_gives_the_shipped_constants_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["fit_engines.py", "--check"])
    assert fit_engines.main() == 0
