"""Figures of results: the numbers of the report, escaped titles, units, and words for who cannot see them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import drawn_results
import hand_plans
import pytest
import small_scenarios as small

from planner import sizing
from planner.records import Deployment, Plan
from planner.render.bars import Bars
from planner.render.figures import RESULT_FIGURES, result_figures
from planner.render.figures.figure import Figure, catalog_hash
from planner.render.figures.page import figures_page
from planner.render.lines import Lines
from planner.render.table import to_text, verdict_line
from planner.render.text import Pen
from planner.review.document import document
from planner.review.figures import drawable, load_factors

GOLDEN = Path(__file__).with_name("golden") / "ttft.svg"
SVG = "{http://www.w3.org/2000/svg}"
EVIL = "<b>\"x\" & 'y'</b>"
PLANS = (hand_plans.DISAGGREGATED, hand_plans.COLOCATED, hand_plans.INFEASIBLE, hand_plans.NOTHING_FITS)


def result_of(plan: Plan = hand_plans.DISAGGREGATED) -> Mapping[str, Any]:
    return document(plan)


def figure(kind: str, plan: Plan = hand_plans.DISAGGREGATED) -> Figure:
    return result_figures(result_of(plan), [kind])[0]


def bars(kind: str) -> Bars:
    (chart,) = figure(kind).charts
    assert isinstance(chart, Bars)
    return chart


@pytest.mark.parametrize("plan", PLANS)
def test_every_figure_of_every_result_is_drawn_or_left_out(plan: Plan) -> None:
    for one in result_figures(result_of(plan)):
        root = ElementTree.fromstring(one.svg())
        assert all(text.text for text in root.iter(f"{SVG}title"))
        assert all(text.text for text in root.iter(f"{SVG}desc"))
        assert "nan" not in one.svg() and "inf" not in one.svg().replace("infeasible", "")
        assert one.text(Pen(80, unicode=False))


@pytest.mark.parametrize("deployment", [small.SPLIT, small.TOGETHER, small.WHOLE], ids=lambda one: one.mode)
def test_what_never_settles_is_left_out(deployment: Deployment) -> None:
    """Two pools keep a law of gaps, with full batches; one pool has no latency at all."""
    plan = sizing.evaluate(small.scenario(requests_per_s=1e4, deployment=deployment))
    found = {one.kind: one for one in result_figures(drawable(plan, ("latency", "load", "roofline")))}
    assert {"load", "roofline", "memory", "step"} <= set(found)
    assert ("latency" in found) == (deployment.prefill is not None)
    for one in found.values():
        ElementTree.fromstring(one.svg())


def test_nothing_is_drawn_where_nothing_fits() -> None:
    assert result_figures(result_of(hand_plans.NOTHING_FITS)) == []


def test_memory_is_what_the_report_says() -> None:
    result = result_of()
    for bar in bars("memory").bars:
        parts = result["memory_per_accelerator"][bar.name]
        assert bar.end == pytest.approx(parts["capacity_bytes"] / 1e9, rel=1e-6)
        assert dict(bar.parts)["weights"] == parts["weights_bytes"] / 1e9


@pytest.mark.parametrize(("kind", "field"), [("ttft", "ttft_parts_s"), ("step", "decode_step_parts_s")])
def test_waterfalls_end_at_the_sum_of_their_parts(kind: str, field: str) -> None:
    parts = result_of()["prediction"][field]
    chart = bars(kind)
    assert chart.unit == "ms" and chart.bars[-1].name == "total"
    assert chart.bars[-1].end == pytest.approx(1e3 * sum(parts.values()), rel=1e-3)
    for one, other in zip(chart.bars, chart.bars[1:-1], strict=False):
        assert other.start == one.end
    assert sum(bar.color == "#e69f00" for bar in chart.bars) == 1  # the largest


@pytest.fixture(scope="module")
def computed() -> Mapping[str, Any]:
    """A result with all its figures."""
    return drawn_results.result()


def lines(result: Mapping[str, Any], kind: str) -> list[Lines]:
    (found,) = result_figures(result, [kind])
    return [chart for chart in found.charts if isinstance(chart, Lines)]


def test_distributions_pass_through_the_percentiles_of_the_report(computed: Mapping[str, Any]) -> None:
    charts = lines(computed, "latency")
    for name, chart in zip(("ttft_s", "itl_s"), charts, strict=True):
        (curve,) = chart.series
        scale = {"ms": 1e3, "s": 1.0}[chart.x.unit]
        known = {round(y or 0.0, 6): x / scale for x, y in curve.points}
        for statistic, over in (("p50", 50.0), ("p90", 10.0), ("p99", 1.0), ("p99_9", 0.1)):
            assert known[over] == pytest.approx(computed["prediction"][name][statistic])
        limits = [target for target in computed["inputs"]["targets"] if f"{target['metric']}_s" == name]
        assert [zone.x / scale for zone in chart.zones] == pytest.approx([target["limit_s"] for target in limits])
        interval = computed["prediction"]["intervals"][name]["p99"]
        (span,) = (span for span in chart.spans if span.y == 1.0)
        assert (span.low, span.high) == pytest.approx((scale * interval[0], scale * interval[1]))
        assert "%" in chart.y.title and chart.x.unit in chart.x.title


def test_the_curve_of_loads_holds_the_plan_and_the_knee_of_whatif(computed: Mapping[str, Any]) -> None:
    found = computed["figures"]["load"]
    here = next(point for point in found["points"] if point["requests_per_s"] == found["requests_per_s"])
    assert here["ttft_s"]["p99"] == pytest.approx(computed["prediction"]["ttft_s"]["p99"])
    first, second = lines(computed, "load")
    assert "requests/s" in first.x.title
    marked = {note.text: note.y for note in first.notes}
    assert marked[first.notes[0].text] == pytest.approx(computed["prediction"]["ttft_s"]["p99"] * 1e3, rel=1e-9)
    knees = [rule.value for rule in second.rules if rule.upright]
    assert knees == ([found["knee_requests_per_s"]] if found["knee_requests_per_s"] else [])
    holding = [point["requests_per_s"] for point in found["points"] if point["holds"]]
    assert not knees or max(holding) <= knees[0] * 1.01


def test_loads_reach_from_little_to_saturation() -> None:
    assert load_factors(2.0)[0] == 0.2 and 1.0 in load_factors(2.0) and load_factors(2.0)[-1] == pytest.approx(1.97)
    assert load_factors(0.5)[-1] == 0.5 and len(load_factors(0.5)) == 12


def test_operators_lie_where_their_numbers_say(computed: Mapping[str, Any]) -> None:
    (chart,) = lines(computed, "roofline")
    marks = [point for series in chart.series if not series.joined for point in series.points]
    expected = [
        (one["flops"] / one["moved_bytes"], one["flops"] / one["time_s"] / 1e12)
        for one in computed["figures"]["operators"]
    ]
    assert sorted(marks) == sorted(expected)
    # ridge point of bf16 on an H100: 989.4 TFLOP/s over 3.35 TB/s = 295 FLOP/byte
    assert any(note.text.endswith("bf16 ridge 295 FLOP/byte") for note in chart.notes)
    assert (chart.x.unit, chart.y.unit) == ("FLOP/byte", "TFLOP/s")


def test_the_front_is_drawn_by_number_at_its_prices(computed: Mapping[str, Any]) -> None:
    found = computed["figures"]["front"]
    itl, ttft = lines(computed, "front")
    for chart, name in ((itl, "itl_s"), (ttft, "ttft_s")):
        scale = {"ms": 1e3, "s": 1.0}[chart.y.unit]
        numbered = {note.text: (note.x, note.y) for note in chart.notes}
        expected = {str(one["number"]): (one["usd_per_hour"], scale * one[name]["p99"]) for one in found}
        assert numbered == expected and chart.x.unit == "USD/h"
        (plan,) = (series.points for series in chart.series if series.name == "the plan")
        (own,) = (one for one in found if one["is_plan"])
        assert list(plan) == [expected[str(own["number"])]]
        stairs = [y for _, y in chart.series[0].points if y is not None]
        assert stairs == sorted(stairs, reverse=True)


@pytest.mark.parametrize("kind", list(RESULT_FIGURES))
def test_titles_are_escaped_and_the_source_is_named(kind: str) -> None:
    scenario = replace(hand_plans.SCENARIO, name=EVIL)
    model = replace(scenario.model, id=EVIL)
    plan = replace(hand_plans.DISAGGREGATED, scenario=replace(scenario, model=model))
    found = result_figures(document(plan), [kind])
    for one in found:
        assert EVIL not in one.svg() and "<b>" not in one.svg()
        texts = " ".join(text.text or "" for text in ElementTree.fromstring(one.svg()).iter(f"{SVG}text"))
        assert "planner " in texts and "catalog " in texts
        assert "<b>" not in figures_page(EVIL, [one], "0")


def test_a_small_figure_by_its_bytes() -> None:
    """After a wanted change, `PYTHONPATH=..:. python render/test_figures.py` in tests/ writes it anew."""
    assert figure("ttft").svg() == GOLDEN.read_text(encoding="utf-8")


def test_the_catalog_hash_moves_with_any_value() -> None:
    inputs = result_of()["inputs"]
    changed = {**inputs, "engine": {**inputs["engine"], "sha256": "f" * 64}}
    assert re.fullmatch("[0-9a-f]{12}", catalog_hash(inputs)) and catalog_hash(changed) != catalog_hash(inputs)


def test_a_picked_point_that_misses_is_not_called_the_nearest_of_all() -> None:
    result = document(replace(hand_plans.INFEASIBLE, picked=2))
    assert result["search"]["picked"] == 2 and "nearest" not in result["nearest_miss"]["policy"]
    assert verdict_line(result).endswith(", misses 1 limit") and "none of" not in verdict_line(result)
    assert "--pick 2" in to_text(result, Pen())


def test_a_page_fetches_nothing_and_names_its_figures() -> None:
    found = result_figures(result_of())
    text = figures_page("planner: a", found, "0")
    assert "http:" not in text.replace("http://www.w3.org/2000/svg", "") and "<script" not in text
    assert re.findall('<figure id="([a-z]+)">', text) == [one.kind for one in found]
    ids = re.findall(r' id="([^"]*)"', text)
    assert len(ids) == len(set(ids))


def test_a_picture_as_png() -> None:
    pytest.importorskip("matplotlib")
    from planner.render.png import to_png

    drawn = to_png(figure("memory").svg())
    assert drawn.startswith(b"\x89PNG") and drawn == to_png(figure("memory").svg())


if __name__ == "__main__":
    GOLDEN.write_text(figure("ttft").svg(), encoding="utf-8", newline="\n")
