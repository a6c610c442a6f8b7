"""Predictions of measured runs as text: a table of errors, a row per run as CSV, or everything as JSON."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from planner.calibration.validate import OK, Errors, Row, groupings, row_errors
from planner.render.csv import csv_text, six_digits
from planner.render.json import to_json
from planner.render.text import Cell, Pen, columns
from planner.render.text import Row as TextRow

COLUMNS = (
    "id", "mode", "ttft_s", "ttft_low_s", "ttft_high_s", "tpot_s", "tpot_low_s", "tpot_high_s", "coverage", "status",
)  # fmt: skip
_NUMBERS = COLUMNS[2:9]
_HEAD = ("", "runs", "mean", "median", "P90", "bias", "inside", "mean", "median", "P90", "bias", "inside")


def to_csv(rows: Sequence[Row]) -> str:
    """One line per run in the order of the file; cells are empty where `status` says why."""
    return csv_text(COLUMNS, (list(map(six_digits, _values(row).values())) for row in rows))


def _values(row: Row) -> dict[str, Any]:
    numbers = {name: _finite(getattr(row, name)) for name in _NUMBERS}
    return {"id": row.measurement.id, "mode": groupings(row)["mode"], **numbers, "status": row.status}


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def to_document(rows: Sequence[Row]) -> str:
    """Rows and error tables as JSON."""
    tables = {
        by: {
            group: {quantity: _as_mapping(found) for quantity, found in both.items()} for group, both in groups.items()
        }
        for by, groups in error_tables(rows).items()
    }
    return to_json({"rows": [{**_values(row), "evidence": row.evidence or None} for row in rows], "errors": tables})


def _as_mapping(errors: Errors) -> dict[str, float]:
    return {name: getattr(errors, name) for name in ("runs", "mean", "median", "p90", "bias", "inside")}


def error_tables(rows: Sequence[Row]) -> dict[str, dict[str, dict[str, Errors]]]:
    """What is grouped -> group -> ttft and tpot -> errors, of rows that can be scored."""
    tables: dict[str, dict[str, list[Row]]] = {}
    for row in rows:
        for by, group in groupings(row).items():
            tables.setdefault(by, {}).setdefault(group, []).append(row)
    found: dict[str, dict[str, dict[str, Errors]]] = {}
    for by, groups in tables.items():
        for group in sorted(groups, key=_natural):
            both = {quantity: row_errors(groups[group], quantity) for quantity in ("tpot", "ttft")}
            if both["tpot"] and both["ttft"]:
                found.setdefault(by, {})[group] = {name: errors for name, errors in both.items() if errors}
    return found


def _natural(text: str) -> list[tuple[int, str]]:
    """Words in order, numbers by value."""
    return [(int(word), "") if word.isdigit() else (0, word) for word in text.split()]


def to_text(rows: Sequence[Row], pen: Pen) -> str:
    """The error table for people, and what was left out of it."""
    lines = []
    for by, groups in error_tables(rows).items():
        head: TextRow = [Cell(text, "dim") for text in (by, *_HEAD[1:])]
        body: list[TextRow] = [[group, *error_cells(both)] for group, both in groups.items()]
        if by == "mode":
            over: TextRow = [Cell(text, "dim") for text in ("", "", "TPOT", "", "", "", "", "TTFT", "", "", "", "")]
            lines += [
                pen.heading("Error of predicted against measured, %"),
                *columns([over, head, *body], "lrrrrrrrrrrr", pen),
            ]
        else:
            lines += columns([head, *body], "lrrrrrrrrrrr", pen)
    return "\n".join([*lines, *_left_out(rows, pen)]) + "\n"


def error_cells(both: dict[str, Errors]) -> list[str]:
    """Runs, then mean, median, P90, bias and share inside the interval in % of TPOT and of TTFT."""
    cells = [f"{both['tpot'].runs:,}"]
    for errors in (both["tpot"], both["ttft"]):
        cells += [f"{100 * errors.mean:.1f}", f"{100 * errors.median:.1f}", f"{100 * errors.p90:.1f}"]
        cells += [f"{100 * errors.bias:+.1f}", f"{100 * errors.inside:.0f}"]
    return cells


def _left_out(rows: Sequence[Row], pen: Pen) -> list[str]:
    refused = Counter(row.status for row in rows if row.status != OK)
    unscored = sum(row.status == OK and not row.scored for row in rows)
    predicted = sum(row.status == OK for row in rows)
    lines = ["", pen.heading(f"{predicted:,} of {len(rows):,} runs predicted")]
    if unscored:
        lines.append(f"  {unscored:,} of them not scored: flagged as ambiguous, or without a measured time")
    lines += [f"  {count:,} not predicted: {reason}" for reason, count in refused.most_common()]
    return lines
