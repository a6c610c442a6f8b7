"""Every kind of quantity that a scenario holds has a range: tiers and power among them."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.errors import InputError
from planner.files.scenario import load_scenario

SCENARIO = """\
model: meta-llama/Llama-3.1-8B
hardware: {accelerators: [h100-sxm]}
workload: {requests: 1 /s, input_tokens: 1000, output_tokens: 100}
targets: {ttft: {p99: 2 s}}
"""


@pytest.mark.parametrize("line", ["budgets: {watts: 40 kW}", "kv_tiers: {host-dram: 1 TB}"])
def test_a_usual_size_is_read(line: str, tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(SCENARIO + line + "\n", encoding="utf-8")
    assert load_scenario(path).model.id == "meta-llama/Llama-3.1-8B"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("budgets: {watts: 0.1 W}", "want at least 1 W"),
        ("budgets: {watts: 2000000 MW}", "want at most 1,000,000 MW"),
        ("kv_tiers: {host-dram: 0 kB}", "is not above zero"),
    ],
)
def test_an_odd_size_is_named(line: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(SCENARIO + line + "\n", encoding="utf-8")
    with pytest.raises(InputError, match=said):
        load_scenario(path)
