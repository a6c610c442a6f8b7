"""Figures of whatif, compare, kv, trace, hardware and model: drawn from their documents, with their numbers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import drawn_results
import pytest
import small_scenarios as small

from planner.files.traces import load_trace
from planner.records import InputFile
from planner.render.bars import Bars
from planner.render.figures.catalog import hardware_figures, model_figures
from planner.render.figures.contenders import comparison_figures
from planner.render.figures.figure import Figure
from planner.render.figures.reuse import kv_figures, trace_figures
from planner.render.figures.whatif import whatif_figures
from planner.render.lines import Lines
from planner.render.text import Pen
from planner.review.catalog import hardware_document, model_document
from planner.review.sensitivity import sweep_document
from planner.review.trace import trace_document
from planner.sizing.sensitivity import sweep
from planner.sizing.variables import VARIABLES

MOONCAKE = Path(__file__).parents[2] / "docs" / "examples" / "data" / "mooncake_blocks.jsonl"
CONTENDERS = [
    {
        "contender": name,
        "verdict": verdict,
        "why_not": why,
        "accelerators": 8,
        "usd_per_hour": usd,
        "ttft_s": {"p50": 0.2, "p99": 0.9},
        "itl_s": {"p50": 0.02, "p99": 0.03},
        "intervals": {"ttft_s": {"p99": [0.5, None]}, "itl_s": {"p99": [0.02, 0.04]}},
    }
    for name, verdict, why, usd in (
        ("one < pool", "feasible", None, 12.0),
        ("two", "infeasible", None, 20.0),
        ("none", None, 'an "engine" & a reason that is quite long, so that it must be folded ' * 3, None),
    )
]
COMPARISON: dict[str, Any] = {
    "tool": {"name": "planner", "version": "0"},
    "scenario": "<s>",
    "catalog_hash": "0123456789ab",
    "targets": [{"metric": "ttft", "statistic": "p99", "limit_s": 1.0}],
    "winner": "one < pool",
    "why": "cheaper & better",
    "contenders": CONTENDERS,
}


@cache
def swept() -> dict[str, Any]:
    return sweep_document(sweep(drawn_results.plan(), VARIABLES["load"], [0.5, 1.0, 2.0, 8.0]))


def changed() -> dict[str, Any]:
    """Load from 60 to 130 % of a limit, prompts from 80 % to no bound; prices and failures are no variables."""
    slacks = {"load": (0.4, -0.3), "input": (0.2, None), "price": (0.1, 0.1)}
    cases = [
        {"kind": "price" if name == "price" else "workload", "variable": name, "slack_fraction": slack}
        for name, ends in slacks.items()
        for slack in ends
    ]
    head = {key: COMPARISON[key] for key in ("tool", "scenario", "catalog_hash")}
    return {**head, "base": {"slack_fraction": 0.1}, "cases": cases}


@cache
def traced() -> dict[str, Any]:
    return trace_document(load_trace(MOONCAKE), [InputFile("a <b>.jsonl", "0" * 64)], "lru", None)


def kv_result(**kv: Any) -> dict[str, Any]:
    result = dict(drawn_results.result())
    return result | {"kv": dict(result["kv"]) | kv}


def tiers() -> dict[str, Any]:
    states = {"hit_fractions": [0.1, 0.2], "ttft_mean_s": 0.3}
    return kv_result(
        ceiling_fraction=0.6,
        hit_fraction=0.3,
        tiers=[{"tier": "host-dram", "capacity_bytes": 1e12, "hit_fraction": 0.2}],
        size_curve=[
            {"tier": "host-dram", "capacity_bytes": size, "hit_fraction": hits, "ttft_mean_s": 0.5 - hits / 2.0}
            for size, hits in ((0.0, 0.1), (5e11, 0.2), (1e12, 0.3), (4e12, 0.6))
        ],
        load_curve=[
            {"users": None, "requests_per_s": rate, "warm": states, "cold": states} for rate in (1.0, 10.0, 100.0)
        ],
        cliffs=[{"tier": "host-dram", "lost_at": 20.0}, {"tier": "hbm", "lost_at": None}],
    )


def every() -> list[Figure]:
    return [
        *whatif_figures(swept()),
        *whatif_figures(changed()),
        *comparison_figures(COMPARISON),
        *kv_figures(tiers()),
        *trace_figures(traced()),
        *hardware_figures(hardware_document(small.accelerator("gb200"))),
        *model_figures(model_document(small.model("openai/gpt-oss-120b"), "bf16")),
    ]


@pytest.mark.parametrize("index", range(7))
def test_every_figure_is_well_formed_named_and_sourced(index: int) -> None:
    figure = every()[index]
    whole = ElementTree.fromstring(figure.svg())
    texts = [text.text or "" for text in whole.iter("{http://www.w3.org/2000/svg}text")]
    assert any("planner " in text for text in texts) and any("[" in text for text in texts)
    assert all(element.text for element in whole.iter("{http://www.w3.org/2000/svg}desc"))
    assert "nan" not in figure.svg()
    letters = "\n".join(figure.text(Pen(80, unicode=False)))
    assert letters.isascii() and max(map(len, letters.splitlines())) < 130


def lines_of(figures: Sequence[Figure]) -> list[Lines]:
    return [chart for figure in figures for chart in figure.charts if isinstance(chart, Lines)]


def test_a_sweep_holds_its_points_and_its_knee() -> None:
    ttft = lines_of(whatif_figures(swept()))[0]
    scale = {"ms": 1e3, "s": 1.0}[ttft.y.unit]
    (p99,) = (series for series in ttft.series if series.name == "p99")
    expected = [case["ttft_s"]["p99"] for case in swept()["cases"]]
    assert [y for _, y in p99.points] == pytest.approx([v and v * scale for v in expected])
    knees = [rule.value for rule in ttft.rules if rule.upright]
    assert knees == [swept()["knee"]["value"]]


def test_a_tornado_has_the_widest_change_on_top() -> None:
    (figure,) = whatif_figures(changed())
    (chart,) = figure.charts
    assert isinstance(chart, Bars) and all(bar.limit == 1.0 for bar in chart.bars)
    assert [(bar.name, bar.start, bar.end, bar.text) for bar in chart.bars] == [
        ("input", 0.8, 3.0, "80% .. unbounded"),
        ("load", 0.6, pytest.approx(1.3), "60% .. 130%"),
    ]


def test_a_comparison_colors_the_winner_and_says_why_one_cannot_run() -> None:
    prices = comparison_figures(COMPARISON)[0].charts[0]
    assert isinstance(prices, Bars)
    assert [bar.color for bar in prices.bars] == ["#009e73", "#bdbdbd", "#bdbdbd"]
    assert [bar.end for bar in prices.bars] == [12.0, 20.0, 0.0]
    assert prices.bars[2].text.startswith('an "engine"')


def test_tiers_are_drawn_with_the_size_of_the_plan_and_nothing_without_reuse() -> None:
    hits, ttft, load = lines_of(kv_figures(tiers()))
    assert [x for x, _ in hits.series[0].points] == [0.5, 1.0, 4.0]
    assert (hits.notes[0].x, hits.notes[0].y) == (1.0, 30.0) and hits.rules[0].value == 60.0
    assert ttft.x.unit == "TB" and [rule.value for rule in load.rules] == [20.0]
    assert kv_figures(drawn_results.result()) == []


def test_the_curve_of_a_trace_is_that_of_its_report() -> None:
    (chart,) = lines_of(trace_figures(traced()))
    curve = traced()["reuse"]["curve"]
    assert list(chart.series[0].points) == [(one["capacity_blocks"], 100.0 * one["hit_ratio"]) for one in curve]
    assert trace_figures({**traced(), "reuse": None}) == []


def test_an_accelerator_alone_has_its_roofs() -> None:
    (chart,) = lines_of(hardware_figures(hardware_document(small.accelerator("h200-sxm"))))
    # 989.4 TFLOP/s over 4.8 TB/s = 206 FLOP/byte
    assert {note.text for note in chart.notes} == {"fp8, int8 ridge 412 FLOP/byte", "bf16 ridge 206 FLOP/byte"}
