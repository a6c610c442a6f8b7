"""`planner check` as a table, and its answer in one line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.render.checks import cells, interval_text, limit_text, measured_text, slack_text, subject
from planner.render.inputs import inputs_section
from planner.render.table import plan_words
from planner.render.text import Cell, Pen, Row, columns, percent_text, wrapped
from planner.review.result import scenario_name

Document = Mapping[str, Any]

TONES = {"pass": "good", "at risk": "close", "fail": "bad", "broken": "bad"}
WORDS = {"pass": "pass", "at risk": "at risk", "fail": "FAIL", "broken": "BROKEN"}


def headline(result: Document) -> str:
    """The answer of a gate in one line, without marks."""
    counted = result["summary"]
    scenarios = _count_of(counted["scenarios"], "scenario")
    checks = [f"{counted['checks_pass']} of {_count_of(counted['checks'], 'check')} pass"]
    for name, word in (("at_risk", "at risk"), ("fail", "fail")):
        if counted[f"checks_{name}"]:
            checks.append(f"{counted[f'checks_{name}']:,} {word}")
    broken = counted["scenarios_broken"]
    return f"{', '.join(checks)}; {f'{broken:,} of {scenarios} cannot be read' if broken else scenarios}"


def _count_of(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' if number != 1 else ''}"


def verdict_word(result: Document) -> str:
    return WORDS[result["verdict"]].upper()


def gate_line(result: Document) -> str:
    """Verdict and headline."""
    return f"{verdict_word(result)}  {headline(result)}"


def gate_text(result: Document, pen: Pen, *, notes: bool = True, inputs: bool = False) -> str:
    """`planner check` for people: the verdict, then a block per scenario with a line per check."""
    verdict, tone = verdict_word(result), TONES[result["verdict"]]
    first, *more = wrapped(f"{verdict}  {headline(result)}", pen.table_width)
    lines = [pen.paint(verdict, tone) + pen.heading(first.removeprefix(verdict)), *map(pen.heading, more)]
    for one in result["results"]:
        lines += ["", *_scenario(one, pen, notes)]
        lines += ["", *inputs_section(one, pen)] if inputs else []
    for broken in result["broken"]:
        lines += ["", f"{pen.paint(WORDS['broken'], 'bad')}  {pen.heading(broken['scenario'])}"]
        lines += [f"  {text}" for fault in broken["faults"] for text in wrapped(fault_text(fault), pen.width - 2)]
    return pen.finish(lines)


def fault_text(fault: Document) -> str:
    where = ":".join(str(part) for part in (fault["path"], fault["line"], fault["column"]) if part)
    return f"{where}: {fault['text']}" if where else str(fault["text"])


def _scenario(result: Document, pen: Pen, notes: bool) -> list[str]:
    word = pen.paint(WORDS[result["gate"]], TONES[result["gate"]])
    lines = [f"{word}  {pen.heading(scenario_name(result))}"]
    lines += [f"  {text}" for text in wrapped(plan_words(result), pen.width - 2)]
    lines += check_lines(result, pen)
    if notes:
        lines += [
            f"  {text}"
            for note in result["notes"]
            if note["level"] == "warning"
            for text in wrapped(f"warning: {note['text']}", pen.width - 2)
        ]
    return lines


def check_lines(result: Document, pen: Pen) -> list[str]:
    """Every check of one result: as a table where the screen is wide enough, else in two lines each."""
    widest = max(map(len, columns(_rows(result), "llrrrr", Pen())))
    return _table(result, pen) if widest <= pen.table_width else _stacked(result, pen)


def _rows(result: Document) -> list[Row]:
    prediction = result["prediction"]
    coverage = f"{percent_text(prediction['coverage'])} interval" if prediction else ""
    head: Row = [Cell(text, "dim") for text in ("", "", "limit", "value", coverage, "slack")]
    rows: list[Row] = [
        [Cell(WORDS[line["verdict"]], TONES[line["verdict"]]), *cells(line)] for line in result["checks"]
    ]
    return [head, *rows]


def _table(result: Document, pen: Pen) -> list[str]:
    head, *rows = columns(_rows(result), "llrrrr", pen)
    lines = [head]
    for text, line in zip(rows, result["checks"], strict=True):
        lines += [text, *_below(line["reason"] or "", pen)]
    return lines


def _stacked(result: Document, pen: Pen) -> list[str]:
    lines = []
    for line in result["checks"]:
        verdict = pen.paint(WORDS[line["verdict"]].ljust(7), TONES[line["verdict"]])
        said = [f"limit {limit_text(line)}", interval_text(line), f"slack {slack_text(line)}", line["reason"] or ""]
        lines.append(f"  {verdict}  {subject(line)}: {measured_text(line)}")
        lines += _below("; ".join(text for text in said if text), pen)
    return lines


def _below(text: str, pen: Pen) -> list[str]:
    """Prose under a check, past its verdict."""
    return [f"           {more}" for more in wrapped(text, max(pen.width - 11, 32))]
