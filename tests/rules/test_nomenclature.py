"""Every name that a result or a catalog entry prints stands in docs/nomenclature.md, with a unit and a meaning."""

from __future__ import annotations

import re
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import drawn_results
import hand_plans
import pytest
import small_scenarios as small
from small_scenarios import boxes_of, scenario

from planner import sizing
from planner.files.axes import read_axes
from planner.files.catalog import Catalog
from planner.files.models import load_model, summaries
from planner.files.quoted import read_reliability
from planner.files.traces import load_trace
from planner.records import Availability
from planner.reuse import Session, SubAgents, session_reuse
from planner.review.catalog import hardware_document, model_document
from planner.review.comparison import comparison_document
from planner.review.crossover import crossover_document
from planner.review.diff import diff_document
from planner.review.document import document, gate_document
from planner.review.explain import explain_document
from planner.review.sensitivity import sensitivity_document, sweep_document
from planner.review.sessions import sessions_document
from planner.review.simulation import simulation_document
from planner.review.trace import trace_document
from planner.simulation.simulate import Setting, simulate
from planner.sizing.compare import compare
from planner.sizing.crossover.map import crossover_map
from planner.sizing.sensitivity import sensitivity, sweep
from planner.sizing.variables import VARIABLES

ROOT = Path(__file__).parents[2]
ROW = re.compile(r"^\| `([a-z0-9_]+)` \| ([^|]+) \| ([^|]+) \|$")
MODELS = ("deepseek-ai/DeepSeek-V3", "openai/gpt-oss-120b", "Qwen/Qwen3-Next-80B-A3B-Instruct")

# Keys that are data, not names: prices by basis carry the basis after a dot.
DATA = re.compile(r"usd_per_hour\.|rent3y|cloud_low|cloud_high|own_")


def listed() -> dict[str, tuple[str, str]]:
    rows = map(ROW.match, (ROOT / "docs" / "nomenclature.md").read_text(encoding="utf-8").splitlines())
    return {row[1]: (row[2].strip(), row[3].strip()) for row in rows if row}


def names(value: Any) -> set[str]:
    if isinstance(value, dict):
        return {*value, *(name for item in value.values() for name in names(item))}
    if isinstance(value, list | tuple):
        return {name for item in value for name in names(item)}
    return set()


def missing(value: Any) -> set[str]:
    return {name for name in names(value) - listed().keys() if not DATA.match(name)}


@pytest.mark.parametrize("plan", ["DISAGGREGATED", "COLOCATED", "INFEASIBLE", "NOTHING_FITS"])
def test_result_names_are_listed(plan: str) -> None:
    assert missing(document(getattr(hand_plans, plan))) == set()


def test_names_of_figures_are_listed() -> None:
    assert missing(drawn_results.figures()) == set()


def test_names_of_many_results_are_listed() -> None:
    results = [document(hand_plans.DISAGGREGATED, document(hand_plans.COLOCATED))]
    fault = {"path": "b.yaml", "line": 1, "column": 1, "text": "is empty"}
    assert missing(gate_document(results, [{"scenario": "b.yaml", "faults": [fault]}], False)) == set()


def test_sensitivity_names_are_listed() -> None:
    asked = Availability(1, None, "worker")
    question = replace(small.scenario(), reliability=read_reliability(), availability=asked, deployment=small.SPLIT)
    plan = sizing.evaluate(question)
    assert missing(document(plan)) == set()
    swept = sweep(plan, VARIABLES["load"], [0.5, 5.0])
    assert missing([sensitivity_document(sensitivity(plan)), sweep_document(swept)]) == set()


def test_names_of_differences_and_explanations_are_listed() -> None:
    old, new = document(hand_plans.DISAGGREGATED), document(hand_plans.INFEASIBLE)
    old["inputs"]["engine"]["sha256"] = "0" * 64
    diff = {**diff_document(old, new), "counts": {}, "diffs": []}
    trees = [explain_document(new, name) for name in ("usd_per_hour", "ttft.p99")]
    assert missing([diff, trees]) == set()


def test_comparison_names_are_listed() -> None:
    assert missing(comparison_document(compare(scenario(accelerators=(boxes_of(2), boxes_of(2, "h200-sxm")))))) == set()


def test_map_names_are_listed() -> None:
    axes = read_axes("input_tokens=500..4000:2", "itl=10ms..50ms:2")
    found = crossover_map(scenario(accelerators=(boxes_of(2),)), *axes)
    assert missing(crossover_document([found])) == set()
    assert missing(crossover_document([found], [{"model": "x"}])) == set()


def test_hardware_names_are_listed() -> None:
    catalog = Catalog()
    assert missing([hardware_document(catalog.accelerator(name)) for name in catalog.accelerator_ids()]) == set()
    assert missing([asdict(entry) for entry in catalog.listing()]) == set()


def test_model_names_are_listed() -> None:
    assert missing([model_document(load_model(name, ROOT), "bf16") for name in MODELS]) == set()
    assert missing([asdict(entry) for entry in summaries()]) == set()


@pytest.mark.parametrize("lost", ["", "decode"])
def test_simulation_names_are_listed(lost: str) -> None:
    asked = scenario(deployment=small.SPLIT, requests_per_s=5.0)
    setting = Setting(requests=40, fail=lost)
    found = simulate(asked, small.SPLIT, setting)
    assert missing(simulation_document(sizing.evaluate(asked), found, setting)) == set()


def test_trace_names_are_listed() -> None:
    data = ROOT / "docs" / "examples" / "data"
    for path in (data / "mooncake_blocks.jsonl", data / "azure_conversation.csv"):
        assert missing(trace_document(load_trace(path), [], "lru", None)) == set()


def test_session_names_are_listed() -> None:
    children = SubAgents(4, 8, 9000, 500, 6, 2000, 300, 5)
    session = Session(50, 40, 8000, 1000, 2000, 300, 10, sub_agents=children)
    assert missing(sessions_document(session_reuse(session, 16), None)) == set()


def test_units_agree_with_suffixes() -> None:
    """A name that ends with a unit states that unit."""
    suffixes = {
        "_bytes_per_s": "bytes/s",
        "_flops_per_s": "FLOP/s",
        "_tokens_per_s": "tokens/s",
        "requests_per_s": "requests/s",
        "_bytes": "bytes",
        "_watts": "W",
        "_fraction": "1",
        "_factor": "1",
        "_tokens": "tokens",
        "_usd": "USD",
        "usd_per_hour": "USD/h",
        "usd_per_mtok": "USD/Mtok",
    }
    for name, (unit, _) in listed().items():
        wanted = next((unit for suffix, unit in suffixes.items() if name.endswith(suffix)), None)
        if wanted is None and name.endswith("_s") and "_per_" not in name:
            wanted = "s"
        assert wanted in (None, unit), f"{name} is in {unit}, its name says {wanted}"


def test_no_name_is_listed_twice() -> None:
    text = (ROOT / "docs" / "nomenclature.md").read_text(encoding="utf-8")
    found = [row[1] for row in map(ROW.match, text.splitlines()) if row]
    assert len(found) == len(set(found))
