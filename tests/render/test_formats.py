"""Every format by its bytes, and by what its readers demand of it.

After a wanted change, `python tests/render/test_formats.py` writes the golden files anew.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import hand_gates
import hand_plans
import pytest
import yaml
from pydantic_sarif.model import StaticAnalysisResultsFormatSarifVersion210JsonSchema as SarifLog

from planner.files import yamlfile
from planner.records import Note
from planner.render.csv import CHECK_COLUMNS, to_csv
from planner.render.gate import gate_text
from planner.render.github import MOST_PER_KIND, to_github
from planner.render.html import to_html
from planner.render.junit import to_junit
from planner.render.markdown import MOST_CHARACTERS, to_markdown
from planner.render.sarif import to_sarif
from planner.render.text import Pen
from planner.render.yaml import to_yaml
from planner.review.document import document, gate_document

GOLDEN = Path(__file__).with_name("golden")
EVIL = 'a|b`c*d_e <script>alert("1")</script> & @all #1 $x$ [l](u) \\ é\n::error::x %0A \x07'
FORMATS: Mapping[str, Callable[[], str]] = {
    "gate.txt": lambda: gate_text(hand_gates.gate(), Pen(unicode=False)),
    "gate_60.txt": lambda: gate_text(hand_gates.gate(), Pen(60, unicode=False, table_width=60)),
    "gate.csv": lambda: to_csv(hand_gates.gate()),
    "gate.md": lambda: to_markdown(hand_gates.gate()),
    "gate.html": lambda: to_html(hand_gates.gate()),
    "gate.junit.xml": lambda: to_junit(hand_gates.gate()),
    "gate.sarif": lambda: to_sarif(hand_gates.gate()),
    "gate.github": lambda: to_github(hand_gates.gate()),
    "result.md": lambda: to_markdown(document(hand_plans.DISAGGREGATED)),
    "result.html": lambda: to_html(document(hand_plans.DISAGGREGATED)),
    "result.csv": lambda: to_csv(part_of_a_result()),
    "result.yaml": lambda: to_yaml(part_of_a_result()),
}
PLANS = ("DISAGGREGATED", "COLOCATED", "INFEASIBLE", "NOTHING_FITS")


def part_of_a_result() -> dict[str, Any]:
    """Enough of a result to see how it is laid out, without what grows with every release."""
    result = document(hand_plans.COLOCATED)
    return {name: result[name] for name in ("schema_version", "tool", "verdict", "plan", "limits", "notes", "checks")}


def evil(count: int = 1) -> dict[str, Any]:
    """Scenarios whose every text fights back."""
    plan = hand_gates.plan("INFEASIBLE", EVIL)
    plan = replace(plan, notes=(Note("warning", EVIL),))
    fault = {"path": EVIL, "line": 1, "column": 1, "text": EVIL}
    results = [document(plan) for _ in range(count)]
    return gate_document(results, [{"scenario": EVIL, "faults": [fault] * 2}], False)


@pytest.mark.parametrize("name", FORMATS)
def test_format_is_what_it_was(name: str) -> None:
    assert FORMATS[name]() == (GOLDEN / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("plan", PLANS)
def test_every_format_takes_every_plan(plan: str) -> None:
    result = document(getattr(hand_plans, plan))
    whole = gate_document([result], [], True)
    for render in (to_csv, to_yaml, to_markdown, to_html):
        assert render(result).endswith("\n") and render(whole).endswith("\n")
    for render_gate in (to_junit, to_sarif, to_github):
        assert render_gate(whole).endswith("\n")


@pytest.mark.parametrize("results", [[], [document(hand_plans.COLOCATED)]])
def test_no_scenario_or_no_fault_is_no_special_case(results: list[dict[str, Any]]) -> None:
    whole = gate_document(results, [], False)
    for render in (to_csv, to_yaml, to_markdown, to_html, to_junit, to_sarif, to_github):
        assert render(whole)


# ------------------------------------------------------------------------------------------------------- yaml and csv


@pytest.mark.parametrize("plan", PLANS)
def test_yaml_is_the_json_for_either_reader(plan: str) -> None:
    result = document(getattr(hand_plans, plan))
    text = to_yaml(result)
    assert yaml.safe_load(text) == result  # YAML 1.1
    assert yamlfile.parse(text.encode(), "r.yaml").value == result  # numbers as in YAML 1.2


def test_yaml_quotes_what_a_reader_could_mistake() -> None:
    odd = {"a": "1234e5", "b": "no", "c": "017", "d": "", "e": "12:30", "f": "x: y", "g": "é\n", "h": "null", "i": "=1"}
    assert yaml.safe_load(to_yaml(odd)) == odd
    assert yamlfile.parse(to_yaml(odd).encode(), "r.yaml").value == odd


def test_csv_of_many_has_a_row_per_check_and_per_fault() -> None:
    rows = list(csv.DictReader(io.StringIO(to_csv(hand_gates.gate()))))
    assert tuple(rows[0]) == CHECK_COLUMNS
    assert len(rows) == 5 + 4 + 3 + 2
    assert [row["verdict"] for row in rows[:3]] == ["at risk", "at risk", "fail"]
    assert rows[4]["name"] == "change(usd_per_hour)" and float(rows[4]["delta_fraction"]) == pytest.approx(0.24)
    assert rows[-1]["reason"] == "workload.requests: 12 has no unit" and rows[-1]["line"] == "7"


def test_csv_of_one_has_a_row_per_value() -> None:
    rows = dict(list(csv.reader(io.StringIO(to_csv(document(hand_plans.DISAGGREGATED)))))[1:])
    assert rows["plan.accelerators"] == "52" and rows["prediction.ttft_s.p99"] == "0.71"
    assert rows["prediction.ttft_s.p99_9"] == "" and rows["inputs.deployment_given"] == "false"
    assert rows["limits[0].name"] == "ttft.p99"


# ------------------------------------------------------------------------------------------------------------ markdown


def test_markdown_has_a_hidden_marker_and_the_verdict_first() -> None:
    lines = to_markdown(hand_gates.gate()).splitlines()
    assert lines[0] == "<!-- planner:check -->" and lines[2] == "### planner check: BROKEN"
    assert to_markdown(document(hand_plans.COLOCATED)).startswith("<!-- planner:result -->\n")


@pytest.mark.parametrize("count", [1, 3, 400])
def test_markdown_is_short_enough_and_holds_no_other_markup(count: int) -> None:
    text = to_markdown(evil(count))
    assert len(text) < MOST_CHARACTERS
    outside = re.sub(r"^(?:- |\*\*)`[^`]*`", "", text, flags=re.M)  # what stands in code is shown as it is
    assert set(re.findall(r"</?[a-z][^>]*>", outside)) <= {
        "<details>",
        "</details>",
        "<summary>",
        "</summary>",
    }
    assert text.count("<details>") == text.count("</details>") == text.count("<summary>") > 0
    assert "@" not in outside
    assert ("left out" in text) is (count == 400)


def test_every_row_of_a_markdown_table_has_the_cells_of_its_head() -> None:
    for block in to_markdown(evil()).split("\n\n"):
        rows = [re.sub(r"\\.", "", row) for row in block.splitlines() if row.startswith("|")]
        assert len({row.count("|") for row in rows}) <= 1


def test_markdown_shows_what_changed() -> None:
    text = to_markdown(hand_gates.gate())
    assert "| plans/chat.yaml | USD per hour | 100.00 USD/h | 124.00 USD/h | +24.0% |" in text


# ---------------------------------------------------------------------------------------------------------------- html


class Page(HTMLParser):
    """Checks nesting while it reads, and keeps what pages are judged by."""

    VOID = frozenset({"meta", "br", "link", "img", "hr", "input"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len({name for name, _ in attrs}) == len(attrs), "an attribute stands twice"
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag == "rect", "only shapes of an SVG close themselves"
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.fixture(params=["gate", "evil", *PLANS])
def page_text(request: pytest.FixtureRequest) -> str:
    if request.param == "gate":
        return to_html(hand_gates.gate())
    return to_html(evil(2) if request.param == "evil" else document(getattr(hand_plans, request.param)))


def test_html_is_well_formed_and_needs_nothing_else(page_text: str) -> None:
    page = Page(page_text)
    assert page_text.startswith('<!DOCTYPE html>\n<html lang="en">')
    assert {tag for tag, _ in page.tags} & {"script", "link", "img", "iframe", "object", "embed", "form"} == set()
    for _, attributes in page.tags:
        assert not {name for name in attributes if name.startswith("on") or name in ("src", "style")}
        assert attributes.get("href", "#").startswith("#")  # type: ignore[union-attr]
    assert "url(" not in page_text and "@import" not in page_text


def test_html_has_headings_in_order_and_names_for_pictures(page_text: str) -> None:
    page = Page(page_text)
    levels = [int(tag[1]) for tag, _ in page.tags if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(later <= earlier + 1 for earlier, later in pairwise(levels))
    assert len(page.all("title")) == 1 + len(page.all("svg"))
    assert all(picture["role"] == "img" and picture["aria-label"] for picture in page.all("svg"))
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert {str(link["href"])[1:] for link in page.all("a")} <= set(ids)


def test_html_escapes_everything() -> None:
    text = to_html(evil())
    assert "<script" not in text and "&lt;script&gt;" in text


def test_html_says_the_verdict_first() -> None:
    text = to_html(document(hand_plans.INFEASIBLE))
    assert '<main>\n<h1><span class="verdict fail">INFEASIBLE</span> none of 12,345 candidates' in text
    assert text.index("Checks</h2>") < text.index("Limits") < text.index("Assumptions")


# --------------------------------------------------------------------------------------------------------------- junit

# As Jenkins' xunit plugin and GitLab read it: elements, their attributes, their children.
JUNIT = {
    "testsuites": ({"name", "tests", "failures", "errors", "time"}, {"testsuite"}),
    "testsuite": ({"name", "tests", "failures", "errors", "skipped", "time"}, {"testcase"}),
    "testcase": ({"classname", "name", "time"}, {"failure", "error", "system-out"}),
    "failure": ({"message", "type"}, set()),
    "error": ({"message", "type"}, set()),
    "system-out": (set(), set()),
}


def check_junit(element: ElementTree.Element) -> None:
    attributes, children = JUNIT[element.tag]
    assert set(element.attrib) == attributes
    assert {child.tag for child in element} <= children
    for child in element:
        check_junit(child)


@pytest.mark.parametrize("strict", [False, True])
def test_junit_is_what_its_readers_expect(strict: bool) -> None:
    for whole in (hand_gates.gate(strict), evil()):
        root = ElementTree.fromstring(to_junit(whole))
        check_junit(root)
        for suite in root:
            cases = suite.findall("testcase")
            assert suite.get("tests") == str(len(cases))
            assert suite.get("failures") == str(len(suite.findall("testcase/failure")))
            assert len({case.get("name") for case in cases}) == len(cases)
        for name in ("tests", "failures", "errors"):
            assert root.get(name) == str(sum(int(suite.get(name, "")) for suite in root))


def test_junit_counts_risks_as_failures_where_strict() -> None:
    lax, strict = (ElementTree.fromstring(to_junit(hand_gates.gate(strict))) for strict in (False, True))
    assert (lax.get("failures"), strict.get("failures")) == ("7", "10")
    assert lax.get("errors") == "1"


# --------------------------------------------------------------------------------------------------------------- sarif


def test_sarif_is_of_its_schema() -> None:
    for whole in (hand_gates.gate(), evil(), gate_document([], [], False)):
        SarifLog.model_validate(json.loads(to_sarif(whole)))


def test_sarif_points_at_the_line_of_the_check() -> None:
    run = json.loads(to_sarif(hand_gates.gate(), lambda path: f"deep/{path}"))["runs"][0]
    result = next(one for one in run["results"] if one["ruleId"] == "accelerators")
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": "deep/plans/chat.yaml", "uriBaseId": "%SRCROOT%"}
    assert place["region"] == {"startLine": 12, "startColumn": 5}
    assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == "accelerators"
    assert {one["level"] for one in run["results"]} == {"error", "warning"}
    assert any("tight%20one.yaml" in json.dumps(one["locations"]) for one in run["results"])


def test_sarif_of_a_file_outside_the_repository() -> None:
    run = json.loads(to_sarif(hand_gates.gate(), lambda path: f"/srv/{path}"))["runs"][0]
    found = run["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]
    assert found == {"uri": "file:///srv/plans/chat.yaml"}


def fingerprints(whole: dict[str, Any]) -> list[str]:
    results = json.loads(to_sarif(whole))["runs"][0]["results"]
    return [one["partialFingerprints"]["plannerCheck/v1"] for one in results]


def test_sarif_fingerprints_outlive_moved_lines_and_limits() -> None:
    def build(first_line: int, expression: str) -> dict[str, Any]:
        plan = hand_gates.plan("DISAGGREGATED", "p.yaml", [expression])
        check = replace(plan.scenario.checks[0], line=first_line)
        return gate_document([document(replace(plan, scenario=replace(plan.scenario, checks=(check,))))], [], False)

    assert fingerprints(build(3, "accelerators <= 50")) == fingerprints(build(9, "accelerators <= 40"))
    assert fingerprints(build(3, "accelerators <= 50")) != fingerprints(build(3, "accelerators >= 60"))
    every = fingerprints(hand_gates.gate())
    assert len(every) == len(set(every))


# -------------------------------------------------------------------------------------------------------------- github


def test_github_is_worst_first_with_a_place() -> None:
    lines = to_github(hand_gates.gate()).splitlines()
    kinds = [line.split(" ")[0] for line in lines[:-1]]
    assert kinds == sorted(kinds)  # ::error before ::warning
    assert any(
        line.startswith("::error file=plans/chat.yaml,line=12,col=5,title=fail%3A accelerators::") for line in lines
    )
    assert lines[-1].startswith("BROKEN  ")


def test_github_escapes_and_stays_on_its_lines() -> None:
    text = to_github(evil())
    assert all(line.startswith(("::error file=", "::warning file=", "BROKEN  ")) for line in text.splitlines())
    for line in text.splitlines()[:-1]:
        properties = line.split("::")[1]
        assert re.fullmatch(r"(error|warning) (?:(?:file|line|col|title)=[^,:]*,?)+", properties)


def test_github_shows_ten_of_a_kind_and_counts_the_rest() -> None:
    lines = to_github(evil(20)).splitlines()
    assert sum(line.startswith("::error") for line in lines) == MOST_PER_KIND
    assert sum(line.startswith("::warning") for line in lines) == MOST_PER_KIND
    assert re.search(r"\(\d+ more errors, 10 more warnings not annotated\)$", lines[-1])


if __name__ == "__main__":
    for name, render in FORMATS.items():
        (GOLDEN / name).write_text(render(), encoding="utf-8", newline="\n")
