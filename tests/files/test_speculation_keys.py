"""The `speculation:` section and `expert_imbalance` of a scenario."""

from __future__ import annotations

from pathlib import Path

import jsonschema
import pytest
import yaml

from planner.errors import InputError
from planner.files.scenario import load_scenario
from planner.files.schema import scenario_schema
from planner.records import Scenario, Speculation

TEXT = """\
model: meta-llama/Llama-3.1-70B
hardware: {accelerators: [h100-sxm]}
workload: {requests: 12 /s, input_tokens: 4000, output_tokens: 500}
targets: {ttft: {p99: 800 ms}}
"""


def read(tmp_path: Path, more: str = "") -> Scenario:
    (tmp_path / "s.yaml").write_text(TEXT + more)
    return load_scenario(tmp_path / "s.yaml")


def test_nothing_is_drafted_unless_asked(tmp_path: Path) -> None:
    scenario = read(tmp_path)
    assert scenario.speculation is None
    assert scenario.expert_imbalance_factor == 1.0


def test_drafts_by_number_and_by_rate(tmp_path: Path) -> None:
    given = read(tmp_path, "speculation: {draft_tokens: 3, accepted_tokens: 2.1}\nexpert_imbalance: 1.3\n")
    assert given.speculation == Speculation(3, 2.1, 1)
    assert given.expert_imbalance_factor == 1.3
    rated = read(tmp_path, "speculation: {draft_tokens: 2, acceptance_rate: 0.8, draft_layers: 2}\n")
    assert rated.speculation is not None
    assert rated.speculation.accepted_tokens == pytest.approx(1.44)  # 0.8 + 0.64
    assert rated.speculation.draft_layers == 2
    assert rated.speculation.step_tokens == pytest.approx(2.44)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("speculation: {draft_tokens: 3}", "needs accepted_tokens or acceptance_rate"),
        ("speculation: {draft_tokens: 3, accepted_tokens: 1, acceptance_rate: 0.5}", "one of them"),
        ("speculation: {draft_tokens: 3, accepted_tokens: 3.5}", "it can keep no more"),
        ("speculation: {draft_tokens: 0, accepted_tokens: 0}", "is not a whole number from 1 to 16"),
        ("speculation: {draft_tokens: 1.5, accepted_tokens: 0}", "is not a whole number from 1 to 16"),
        ("speculation: {draft_tokens: 3, acceptance_rate: 70}", "want an acceptance rate from 0 to 1"),
        ("speculation: {draft_token: 3, accepted_tokens: 1}", "unknown key"),
        ("speculation: 3", "want a mapping"),
        ("expert_imbalance: 0.5", "out of range"),
        ("expert_imbalance: 130 %", "want tokens of the fullest expert rank over the mean"),
    ],
)
def test_faults_name_their_line(tmp_path: Path, more: str, message: str) -> None:
    with pytest.raises(InputError) as refused:
        read(tmp_path, more + "\n")
    assert message in str(refused.value)
    assert f"{tmp_path / 's.yaml'}:5" in str(refused.value)


def test_the_schema_knows_both() -> None:
    document = yaml.safe_load(TEXT + "speculation: {draft_tokens: 3, accepted_tokens: 2.1}\nexpert_imbalance: 1.3\n")
    jsonschema.validate(document, scenario_schema())
    document["speculation"]["draft_tokens"] = 0
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, scenario_schema())
