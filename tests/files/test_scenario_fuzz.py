"""Whatever is in a scenario file, reading it gives a scenario or faults, never another error."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from planner.errors import InputError
from planner.files.scenario import load_scenario
from planner.files.schema import BudgetKeys, DeploymentKeys, PoolKeys, ScenarioKeys, WorkloadKeys

MODELS = (ScenarioKeys, WorkloadKeys, BudgetKeys, DeploymentKeys, PoolKeys)
LEAVES = {"ttft", "itl", "p99", "p99.9", "mean", "scv", "factor", "duration", "path"}
KEYS = sorted({key for model in MODELS for key in model.model_fields} | LEAVES)
QUANTITIES = ["12 /s", "800 ms", "400 Gb/s", "2 USD/h", "1.2 USD/Mtok"]
NUMBERS = ["12", "1e12", "-1", "0", ".nan", "1.5"]
WORDS = ["h100-sxm", "colocated", "disaggregated", "meta-llama/Llama-3.1-70B", "true", "null", '""', "..", "*x", "&x 1"]
SCALARS = QUANTITIES + NUMBERS + WORDS

flow = st.recursive(
    st.sampled_from(SCALARS),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(items)}]"),
        st.dictionaries(st.sampled_from(KEYS), inner, max_size=4).map(
            lambda items: "{" + ", ".join(f"{key}: {value}" for key, value in items.items()) + "}"
        ),
    ),
    max_leaves=8,
)
GOOD = {
    "model": "meta-llama/Llama-3.1-70B",
    "hardware": "{accelerators: [h100-sxm]}",
    "workload": "{requests: 12 /s, input_tokens: 4000, output_tokens: 500}",
    "targets": "{ttft: {p99: 800 ms}}",
}
quiet = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz") / "s.yaml"


def check(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    try:
        scenario = load_scenario(path)
    except InputError as error:
        assert error.faults
        assert all(fault.message for fault in error.faults)
    else:
        assert scenario.targets


@quiet
@given(content=st.binary(max_size=300))
def test_any_bytes(path: Path, content: bytes) -> None:
    check(path, content)


@quiet
@given(content=st.text(max_size=200))
def test_any_text(path: Path, content: str) -> None:
    check(path, content.encode("utf-8", "surrogatepass"))


@quiet
@given(sections=st.dictionaries(st.sampled_from(list(ScenarioKeys.model_fields)), flow, max_size=6))
def test_any_values_under_known_keys(path: Path, sections: dict[str, str]) -> None:
    check(path, "\n".join(f"{key}: {value}" for key, value in sections.items()).encode())


@quiet
@given(changed=st.dictionaries(st.sampled_from(list(ScenarioKeys.model_fields)), flow, min_size=1, max_size=2))
def test_a_good_file_with_one_or_two_bad_sections(path: Path, changed: dict[str, str]) -> None:
    check(path, "\n".join(f"{key}: {value}" for key, value in {**GOOD, **changed}.items()).encode())
