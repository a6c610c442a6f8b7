"""How TTFT and ITL are spread, and how they move with load, held to the targets of the scenario."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from planner.render.figures.figure import Document, Figure, source_line, subject, time_scale
from planner.render.lines import Lines, Note, Rule, Series, Span, Zone
from planner.render.svg import INK, Axis
from planner.render.table import limit_name
from planner.render.text import name_text, percent_text, seconds_text

FRACTION_OVER = {"p50": 0.5, "p90": 0.1, "p95": 0.05, "p99": 0.01, "p99_9": 0.001}
OF = {"ttft_s": "requests", "itl_s": "tokens"}
TITLES = {"ttft_s": "Time to first token", "itl_s": "Inter-token latency"}
SHOWN = ("p50", "p90", "p99")
MOST_OVER = 8.0  # of the largest value at the lightest load, that a chart of loads shows
Points = Sequence[tuple[float, float | None]]


def latency(result: Document) -> Figure:
    """The share of requests, or of tokens, that takes longer than a time, with targets and intervals."""
    curves = result["figures"]["distributions"]
    known = [name for name in OF if any(one["value_s"] is not None for one in curves.get(name, ()))]
    return Figure("latency", [_distribution(result, name, curves[name]) for name in known])


def _distribution(result: Document, name: str, curve: Sequence[Mapping[str, float | None]]) -> Lines:
    prediction = result["prediction"]
    intervals: Mapping[str, Any] = prediction["intervals"].get(name, {})
    known = {key: over for key, over in FRACTION_OVER.items() if prediction[name].get(key) is not None}
    limits = [(target["statistic"], target["limit_s"]) for target in _targets(result, name)]
    ends = [value for key in known for value in intervals.get(key, ()) if value is not None]
    values = [one["value_s"] for one in curve if one["value_s"] is not None]
    unit, scale = time_scale(max(values))
    low, high = min([*values, *ends]), max([*values, *ends, *(limit for _, limit in limits)])
    axis = Axis(name_text(name), unit, 0.9 * low * scale, 1.15 * high * scale, log=True)
    points = [(one["value_s"] * scale, 100.0 * (one["fraction_over"] or 0.0)) for one in curve if one["value_s"]]
    spans = [
        Span(bounds[0] * scale, None if bounds[1] is None else bounds[1] * scale, 100.0 * known[key])
        for key in known
        if (bounds := intervals.get(key))
    ]
    notes = [
        Note(prediction[name][key] * scale, 100.0 * known[key], f"{name_text(key)} {seconds_text(value)}")
        for key in known
        if (value := prediction[name][key]) is not None
    ]
    zones = [
        Zone(limit * scale, 100.0 * FRACTION_OVER[key], f"target {name_text(key)} {seconds_text(limit)}")
        for key, limit in limits
        if key in FRACTION_OVER
    ]
    means = [Rule(limit * scale, f"target mean {seconds_text(limit)}", True) for key, limit in limits if key == "mean"]
    return Lines(
        f"{TITLES[name]}: how many {OF[name]} take longer",
        axis,
        Axis(f"{OF[name]} that take longer", "%", 0.09, 100.0, log=True),
        [Series(name_text(name), points)],
        zones=zones,
        rules=means,
        spans=spans,
        span_name=f"{percent_text(prediction['coverage'])} interval",
        notes=notes,
        subtitle=subject(result),
        source=source_line(result),
    )


def load(result: Document) -> Figure:
    """TTFT and ITL against load, with the load of the plan and the one at which it breaks."""
    found = result["figures"]["load"]
    return Figure("load", [_against_load(result, name, found) for name in OF if has_values(found["points"], name)])


def has_values(points: Sequence[Document], name: str) -> bool:
    """Whether any point has a statistic that is shown of a latency."""
    return any(point[name].get(key) for point in points for key in SHOWN)


def _against_load(result: Document, name: str, found: Document) -> Lines:
    limits = {target["statistic"]: target["limit_s"] for target in _targets(result, name)}
    shown = list(dict.fromkeys([*SHOWN, *limits]))
    rates = [point["requests_per_s"] for point in found["points"]]
    curves = {key: [point[name].get(key) for point in found["points"]] for key in shown}
    values = [value for curve in curves.values() for value in curve if value]
    first = max((curve[0] for curve in curves.values() if curve[0]), default=max(values))
    most = min(max(values), MOST_OVER * max([first, *limits.values()]))
    low, high = 0.8 * min(values), 1.25 * max([most, *limits.values()])
    unit, scale = time_scale(high)
    told = {key: f"target {name_text(key)} {seconds_text(limit)}" for key, limit in limits.items()}
    rules = [Rule(limit * scale, told[key], color=INK) for key, limit in limits.items()]
    knee = found["knee_requests_per_s"]
    if knee is not None:
        tightest = f", then {limit_name(found['tightest'])}" if found["tightest"] else ""
        rules.append(Rule(knee, f"knee {knee:.3g}/s{tightest}", upright=True))
    here = found["requests_per_s"]
    plan = result["prediction"][name]
    notes = [
        Note(here, plan[key] * scale, f"plan {name_text(key)} {seconds_text(plan[key])}")
        for key in (list(limits)[-1:] or ["p99"])
        if plan.get(key) is not None
    ]
    return Lines(
        f"{TITLES[name]} against load",
        Axis("load", "requests/s", 0.0, 1.02 * max([*rates, here])),
        Axis(name_text(name), unit, low * scale, high * scale, log=True),
        [
            Series(name_text(key), [(rate, v * scale if v else None) for rate, v in zip(rates, curve, strict=True)])
            for key, curve in curves.items()
        ],
        rules=rules,
        notes=notes,
        subtitle=f"{subject(result)}; a line ends where nothing settles",
        source=source_line(result),
    )


def _targets(result: Document, name: str) -> list[Mapping[str, Any]]:
    return [target for target in result["inputs"]["targets"] if f"{target['metric']}_s" == name]
