"""A result as CSV: of many scenarios a row per check, of one a row per value."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from planner.review.result import scenario_name

Document = Mapping[str, Any]

CHECK_COLUMNS = (
    "scenario", "name", "kind", "metric", "statistic", "comparison", "limit", "limit_unit", "value", "low", "high",
    "unit", "reference", "delta", "delta_fraction", "slack_fraction", "verdict", "reason", "path", "line", "column",
)  # fmt: skip


def to_csv(document: Document) -> str:
    """Return rows under a header; an empty cell is null.

    Of one result: `field` is the dotted path of a value of the JSON, `value` the value. Of many: the fields of a check,
    its interval as `low` and `high`; a broken scenario has a row per fault, with the verdict `broken`.
    """
    if "results" in document:
        return csv_text(CHECK_COLUMNS, _checks(document))
    return csv_text(("field", "value"), _leaves("", document))


def csv_text(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Rows under a header; what is None is an empty cell."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(head)
    writer.writerows([_cell(value) for value in row] for row in rows)
    return out.getvalue()


def _cell(value: Any) -> Any:
    """Truth values as JSON writes them."""
    return str(value).lower() if isinstance(value, bool) else value


def six_digits(value: Any) -> Any:
    """A measured or computed number as it stands in a table; other values as they are."""
    return f"{value:.6g}" if isinstance(value, float) else value


def _checks(document: Document) -> Iterator[list[Any]]:
    for result in document["results"]:
        for line in result["checks"]:
            low, high = line["interval"] or (None, None)
            values = {**line, "scenario": scenario_name(result), "low": low, "high": high}
            yield [values[name] for name in CHECK_COLUMNS]
    for broken in document["broken"]:
        for fault in broken["faults"]:
            values = {
                "scenario": broken["scenario"],
                "verdict": "broken",
                "reason": fault["text"],
                **{name: fault[name] or None for name in ("path", "line", "column")},
            }
            yield [values.get(name) for name in CHECK_COLUMNS]


def _leaves(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _leaves(f"{path}.{key}" if path else str(key), item)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _leaves(f"{path}[{index}]", item)
    else:
        yield path, value
