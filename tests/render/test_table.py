"""The text report: what it says first, that nothing is cut off, and that it survives any screen."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from planner.records import Plan
from planner.render import table
from planner.render.json import to_json
from planner.render.table import limit_name, verdict_line
from planner.render.text import Pen
from planner.review.document import document

ESCAPE = re.compile(r"\x1b\[[0-9;]*m")


def to_text(result: dict[str, Any], width: int = 100, unicode: bool = True, color: bool = False, **shown: bool) -> str:
    return table.to_text(result, Pen(width, unicode, color), **shown)


def test_answer_comes_first(disaggregated_plan: Plan) -> None:
    first = to_text(document(disaggregated_plan)).splitlines()[0]
    assert (
        first == "FEASIBLE  12 h100-sxm + 40 h200-sxm, 124.00 USD/h (rent3y), 0.21 USD/Mtok input, 1.10 USD/Mtok output"
    )


def test_both_pools_on_one_accelerator_are_bought_together(disaggregated_plan: Plan) -> None:
    result = document(disaggregated_plan)
    result["plan"]["prefill"]["accelerator"] = "h200-sxm"
    assert verdict_line(result).startswith("FEASIBLE  52 h200-sxm, ")


def test_plan_reads_as_people_order_it(disaggregated_plan: Plan) -> None:
    text = to_text(document(disaggregated_plan))
    assert "3 replicas × TP4 = 12 h100-sxm" in text
    assert "5 replicas × TP8 = 40 h200-sxm" in text
    assert "batch 38.4 of at most 128 per replica" in text


def test_target_inside_its_limit_but_not_its_interval_is_at_risk(disaggregated_plan: Plan) -> None:
    # 710 ms against 800 ms, and the interval ends at 710 * 1.3 = 923 ms
    line = next(line for line in to_text(document(disaggregated_plan)).splitlines() if "TTFT p99" in line)
    assert line.split() == [
        "at",
        "risk",
        "TTFT",
        "p99",
        "800",
        "ms",
        "710",
        "ms",
        "568",
        "ms",
        "..",
        "923",
        "ms",
        "+11%",
    ]


def test_infeasible_says_what_is_missed_and_what_is_shown(infeasible_plan: Plan) -> None:
    text = to_text(document(infeasible_plan))
    assert text.startswith("INFEASIBLE  none of 12,345 candidates meets every limit; nearest: 12 h100-sxm")
    assert "Missed by the plan shown here" in text
    assert "no limit was relaxed" in text
    assert re.search(r"MISSED +ITL p99 +30\.0 ms +unbounded", text)


def test_nothing_fits_still_makes_a_report(nothing_fits_plan: Plan) -> None:
    text = to_text(document(nothing_fits_plan))
    assert text.startswith("INFEASIBLE  no candidate can hold the model")
    assert "decode weights memory" in text and "lighter weights" in text


def test_missing_price_is_said(colocated_plan: Plan) -> None:
    text = to_text(document(colocated_plan))
    assert "price unknown" in text.splitlines()[0]
    assert re.search(r"unknown +USD per hour", text)


def test_breakdowns_sum_to_what_they_break_down(disaggregated_plan: Plan) -> None:
    text = to_text(document(disaggregated_plan), detail=True)
    assert "Mean TTFT, where it goes: 310 ms" in text
    assert "One decode step, where it goes: 18.0 ms" in text


@pytest.mark.parametrize("detail", [False, True])
@pytest.mark.parametrize("width", [1, 20, 40, 80, 200])
def test_no_word_is_ever_cut(any_plan: Plan, width: int, detail: bool) -> None:
    def words(columns: int) -> list[str]:
        return sorted(
            re.findall(r"[A-Za-z0-9.\-]+", to_text(document(any_plan), width=columns, unicode=False, detail=detail))
        )

    assert words(width) == words(100)


@pytest.mark.parametrize("detail", [False, True])
def test_ascii_when_asked(any_plan: Plan, detail: bool) -> None:
    assert to_text(document(any_plan), unicode=False, detail=detail).isascii()


def test_unicode_notes_survive_an_ascii_screen(disaggregated_plan: Plan) -> None:
    result = document(disaggregated_plan)
    result["notes"] = [{"level": "info", "text": "ρ ≤ 0.9 … naïve 模型"}]
    text = to_text(result, unicode=False)
    assert "rho <= 0.9 ... na?ve ??" in text


def test_color_only_repeats_the_words(any_plan: Plan) -> None:
    plain = to_text(document(any_plan))
    colored = to_text(document(any_plan), color=True)
    assert ESCAPE.search(colored) and not ESCAPE.search(plain)
    assert [line.rstrip() for line in ESCAPE.sub("", colored).splitlines()] == plain.splitlines()


def test_quiet_and_verbose(disaggregated_plan: Plan) -> None:
    result = document(disaggregated_plan)
    assert "waits grow fast" in to_text(result)
    assert "waits grow fast" not in to_text(result, notes=False)
    assert "NVIDIA H200 datasheet" not in to_text(result)
    verbose = to_text(result, detail=True)
    assert "NVIDIA H200 datasheet" in verbose and "gemm_memory_factor" in verbose and "12" * 32 in verbose


def test_saved_result_prints_the_same_report(any_plan: Plan) -> None:
    result = document(any_plan)
    assert to_text(json.loads(to_json(result)), detail=True) == to_text(result, detail=True)


def test_no_trailing_blanks(any_plan: Plan) -> None:
    text = to_text(document(any_plan), color=True, detail=True)
    assert all(line == line.rstrip() for line in text.splitlines())
    assert text.endswith("\n") and not text.endswith("\n\n")


def test_verdict_line_is_one_plain_line(any_plan: Plan) -> None:
    line = verdict_line(document(any_plan))
    assert line.isascii() and "\n" not in line and not ESCAPE.search(line)


def test_given_deployment_that_misses_is_not_called_a_search(infeasible_plan: Plan) -> None:
    result: dict[str, Any] = document(infeasible_plan)
    result["search"]["candidates"] = 1
    assert verdict_line(result).endswith("misses 1 limit")
    assert "planner evaluate chat.yaml" in to_text(result)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("ttft.p99_9", "TTFT p99.9"),
        ("workers_lost.itl.p99", "ITL p99 with workers lost"),
        ("itl.mean", "ITL mean"),
        ("decode.kv_tokens", "decode KV tokens"),
        ("usd_per_hour", "USD per hour"),
    ],
)
def test_limit_name(name: str, words: str) -> None:
    assert limit_name(name) == words
