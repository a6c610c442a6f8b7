"""The Python interface: results show themselves as the document, as flat rows and as a page."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import drawn_results
import hand_plans
import pytest
import small_scenarios

import planner
from planner.api import PlanResult, SimulationResult, TraceResult, _fields
from planner.errors import FieldError
from planner.records import Deployment, Plan, Pool
from planner.review.document import document

ROOT = Path(__file__).parents[2]
NAMES = ("DISAGGREGATED", "COLOCATED", "INFEASIBLE", "NOTHING_FITS")


@pytest.fixture(params=NAMES)
def result(request: pytest.FixtureRequest) -> PlanResult:
    return PlanResult(**_fields(getattr(hand_plans, request.param)))


@pytest.fixture(scope="module")
def simulation() -> SimulationResult:
    scenario = small_scenarios.scenario(deployment=small_scenarios.SPLIT, requests_per_s=5.0)
    return planner.simulate(scenario, requests=60, seed=3)  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def trace() -> TraceResult:
    return planner.load_trace(ROOT / "docs" / "examples" / "data" / "mooncake_blocks.jsonl")  # type: ignore[no-any-return]


def test_a_result_is_the_record_and_its_document(result: PlanResult) -> None:
    assert isinstance(result, Plan)
    plain = Plan(**_fields(result))
    assert result.to_dict() == document(plain)
    json.dumps(result.to_dict(), allow_nan=False)


def test_rows_are_flat_and_have_the_same_names(result: PlanResult) -> None:
    rows = result.to_records()
    assert len(rows) == 1 + len(result.alternatives)
    assert len({tuple(row) for row in rows}) == 1
    assert [row["chosen"] for row in rows] == [True, *(False for _ in result.alternatives)]
    assert all(value is None or isinstance(value, bool | int | float | str) for row in rows for value in row.values())
    json.dumps(rows, allow_nan=False)


def test_rows_hold_the_values_of_the_document() -> None:
    plan = PlanResult(**_fields(hand_plans.DISAGGREGATED))
    said, row = plan.to_dict(), plan.to_records()[0]
    assert row["prefill.tp"] == said["plan"]["prefill"]["tp"]
    assert row["ttft_s.p99"] == said["prediction"]["ttft_s"]["p99"]
    assert row["usd_per_hour"] == said["plan"]["usd_per_hour"] and row["feasible"] is True
    assert row["colocated.tp"] is None and row["why_it_lost"] is None


def test_the_first_row_is_there_when_nothing_fits() -> None:
    row = PlanResult(**_fields(hand_plans.NOTHING_FITS)).to_records()[0]
    assert row["feasible"] is False and row["mode"] is None and row["ttft_s.p99"] is None


def test_one_line_says_the_answer(result: PlanResult) -> None:
    assert repr(result).startswith(result.verdict.upper()) and "\n" not in repr(result)


class _Balanced(HTMLParser):
    VOID = frozenset({"br"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        assert tag == "rect"

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def test_the_fragment_is_closed_and_its_style_stays_inside(result: PlanResult) -> None:
    html = result._repr_html_()
    seen = _Balanced()
    seen.feed(html)
    assert seen.open == [] and html.startswith('<div class="planner-result">')
    assert not re.search(r"<(html|head|body|script|link|img)\b", html)
    style = html[html.index("<style>") + 7 : html.index("</style>")].strip()
    assert style.startswith(".planner-result {") and style.count("{") == style.count("}")
    depths = [
        style[: found.start()].count("{") - style[: found.start()].count("}") for found in re.finditer("{", style)
    ]
    assert depths[0] == 0 and min(depths[1:]) == 1  # every rule is nested in ours


def test_names_of_the_reader_are_escaped() -> None:
    from dataclasses import replace

    evil = replace(hand_plans.DISAGGREGATED.scenario, name='<b>"x"</b>')
    html = PlanResult(**_fields(replace(hand_plans.DISAGGREGATED, scenario=evil)))._repr_html_()
    assert "<b>" not in html


def test_a_simulation_shows_itself(simulation: SimulationResult) -> None:
    rows = simulation.to_records()
    assert len(rows) == len({row["name"] for row in rows}) == 24
    by_name = {row["name"]: row for row in rows}
    assert by_name["itl_s.mean"]["simulated"] == simulation.itl_s["mean"].value
    assert by_name["itl_s.mean"]["predicted"] == simulation.plan.prediction.itl_s["mean"]  # type: ignore[union-attr]
    verdict = repr(simulation).splitlines()[0].partition("  ")[0]
    assert verdict in simulation._repr_html_()
    json.dumps(simulation.to_dict(), allow_nan=False)


def test_a_trace_shows_itself(trace: TraceResult) -> None:
    rows = trace.to_records()
    assert rows and list(rows[0])[:3] == ["capacity_blocks", "capacity_tokens", "hit_ratio"]
    assert all(0.0 <= row["hit_ratio"] <= trace.to_dict()["reuse"]["ceiling"] for row in rows)
    assert trace.to_dict()["files"][0]["sha256"] == trace.sha256
    assert repr(trace).startswith("Mooncake trace") and "Mooncake trace" in trace._repr_html_()


def test_a_trace_without_blocks_has_no_rows() -> None:
    trace = planner.load_trace(str(ROOT / "docs" / "examples" / "data" / "azure_conversation.csv"))
    assert trace.to_records() == []


def test_a_given_deployment_is_evaluated() -> None:
    scenario = small_scenarios.scenario(deployment=small_scenarios.SPLIT)
    own, other = planner.evaluate(scenario), planner.evaluate(scenario, small_scenarios.TOGETHER)
    assert own.deployment == small_scenarios.SPLIT and other.deployment == small_scenarios.TOGETHER
    assert not math.isclose(own.prediction.itl_s["mean"], other.prediction.itl_s["mean"])


def test_nothing_to_evaluate_is_said() -> None:
    with pytest.raises(FieldError):
        planner.evaluate(small_scenarios.scenario())


@pytest.mark.parametrize("rate", [0.0, -1.0, math.nan, math.inf])
def test_a_rate_that_no_file_could_hold_is_refused(rate: float) -> None:
    scenario = small_scenarios.scenario(deployment=small_scenarios.SPLIT, requests_per_s=rate)
    for ask in (planner.size, planner.evaluate, planner.simulate):
        with pytest.raises(FieldError, match="above zero"):
            ask(scenario)


def test_an_accelerator_that_the_scenario_lacks_is_named() -> None:
    other = Deployment("colocated-chunked", decode=Pool("b200", 1))
    with pytest.raises(FieldError, match="b200 is none of"):
        planner.evaluate(small_scenarios.scenario(), other)


def test_the_package_lists_its_functions_and_loads_none() -> None:
    code = "import planner, sys; print(dir(planner)); print('planner.api' in sys.modules, 'numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    names, loaded = done.stdout.splitlines()
    assert all(f"'{name}'" in names for name in planner._API) and loaded == "False False"
    with pytest.raises(AttributeError, match="no attribute 'sizes'"):
        _ = planner.sizes


def test_the_stub_names_what_the_package_has() -> None:
    stub = (ROOT / "planner" / "__init__.pyi").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^from planner.api import (\w+) as \1$", stub, re.MULTILINE)) == sorted(planner._API)


def test_a_trace_with_blocks_is_simulated_and_predicted_without_caches() -> None:
    scenario = planner.load_scenario(ROOT / "docs" / "examples" / "kv-mooncake.yaml")
    found = planner.simulate(scenario, requests=20)
    assert found.plan.scenario.workload.blocks is None
    assert any("without prefix caches" in note["text"] for note in found.plan.to_dict()["notes"])


def test_a_plan_gives_its_pictures_by_kind() -> None:
    plan = PlanResult(**_fields(drawn_results.plan()))
    drawn = plan.pictures("memory", "latency")
    assert list(drawn) == ["latency", "memory"] and all(text.startswith("<svg ") for text in drawn.values())
    with pytest.raises(ValueError, match=r"no picture is called memroy; known: latency, load, .*front"):
        plan.pictures("memroy")
    assert PlanResult(**_fields(hand_plans.NOTHING_FITS)).pictures() == {}
