"""Sessions that differ in size: what is assumed, what is stated, and what a law of them keeps."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.errors import InputError
from planner.files.scenario import load_scenario
from planner.files.sessions import USUAL_SIZE_SCV, size_factors
from planner.records import Scenario

SCENARIO = """
model: {model}
engine: vllm
hardware: {{accelerators: [h100-sxm]}}
workload:
  sessions: {{users: 40, turns: {turns}, growth_tokens: 500, output_tokens: 200, think_time: 20 s{more}}}
targets: {{ttft: {{p99: 2 s}}}}
"""


def written(folder: Path, more: str = "", turns: int = 8, model: str = "meta-llama/Llama-3.1-8B") -> Scenario:
    path = folder / "s.yaml"
    path.write_text(SCENARIO.format(more=more, turns=turns, model=model), encoding="utf-8")
    return load_scenario(path)


@given(scv=st.floats(1e-3, 3.0))
def test_sizes_have_the_mean_and_the_scv_asked_for(scv: float) -> None:
    sizes = np.array(size_factors(scv))
    assert sizes.mean() == pytest.approx(1.0, rel=1e-9)
    assert np.square(sizes).mean() - 1.0 == pytest.approx(scv, rel=1e-6)
    assert np.all(np.diff(sizes) > 0.0) and sizes[0] > 0.0


@given(most=st.floats(1.01, 3.0))
def test_no_size_is_beyond_the_context_of_the_model(most: float) -> None:
    sizes = np.array(size_factors(USUAL_SIZE_SCV, most))
    assert sizes.max() <= most and sizes.mean() == pytest.approx(1.0, rel=1e-9)
    assert np.square(sizes).mean() - 1.0 <= USUAL_SIZE_SCV + 1e-9


def test_sessions_differ_unless_told_otherwise(tmp_path: Path) -> None:
    usual, alike, wide = (written(tmp_path, more) for more in ("", ", size_scv: 0", ", size_scv: 1"))
    assert alike.workload.sessions is not None and alike.workload.sessions.size_factors == (1.0,)
    means = [
        float(scenario.workload.lengths.weights @ scenario.workload.lengths.input_tokens)
        for scenario in (usual, alike, wide)
    ]
    assert means == pytest.approx([500.0 + 3.5 * 700.0] * 3, rel=1e-9)  # turns 0..7 of 700 tokens on a first of 500
    assert any("scv of 0.4 (assumed" in note.text for note in usual.notes)
    assert not any("assumed, as recorded" in note.text for scenario in (alike, wide) for note in scenario.notes)


def test_assumed_sizes_end_at_the_context_of_the_model(tmp_path: Path) -> None:
    """131,072 tokens; a mean session of 180 turns ends with 126,500."""
    assert written(tmp_path, turns=180).workload.lengths.input_tokens.max() <= 131_072


@pytest.mark.parametrize("value", ["-1", "3.5", "yes", "40 %", ".nan"])
def test_wrong_sizes_are_refused(tmp_path: Path, value: str) -> None:
    with pytest.raises(InputError, match=r"squared coefficient of variation|not a finite number"):
        written(tmp_path, f", size_scv: {value}")
