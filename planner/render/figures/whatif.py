"""What changes do to a plan: a curve over one variable with its knee, or a bar for each change."""

from __future__ import annotations

from planner.render.bars import Bar, Bars
from planner.render.figures.figure import Document, Figure, catalog_source, time_scale
from planner.render.figures.latency import SHOWN, TITLES, has_values
from planner.render.lines import Lines, Note, Rule, Series
from planner.render.sensitivity import spans_of
from planner.render.svg import BLUE, INK, RED, Axis
from planner.render.table import limit_name
from planner.render.text import name_text, percent_text, seconds_text

MOST_SHOWN = 3.0  # limits, up to which a bar is drawn
MOST_OVER = 8.0  # of the plan's own value, that a curve is followed to


def whatif_figures(document: Document) -> list[Figure]:
    """The one figure of `planner whatif`: its sweep, or its tornado."""
    if "knee" not in document:
        return [Figure("tornado", [_tornado(document)])]
    cases = (document["base"], *document["cases"])
    charts = [_curve(document, name) for name in TITLES if has_values(cases, name)]
    return [Figure("curve", charts)] if charts else []


def _curve(document: Document, name: str) -> Lines:
    cases = [case for case in document["cases"] if case[name]]
    limits = {one["statistic"]: one["limit_s"] for one in document["targets"] if f"{one['metric']}_s" == name}
    shown = list(dict.fromkeys([*SHOWN, *limits]))
    own = {key: document["base"][name].get(key) for key in shown}
    known = [case[name][key] for case in cases for key in shown if case[name].get(key)]
    values = [value for value in (*known, *own.values()) if value]
    near = [*(value for value in own.values() if value), *limits.values()] or values
    most = min(max(values), MOST_OVER * max([*near, min(values)]))
    low, high = 0.8 * min(values), 1.25 * max([most, *limits.values()])
    unit, scale = time_scale(high)
    told = {key: f"target {name_text(key)} {seconds_text(limit)}" for key, limit in limits.items()}
    rules = [Rule(limit * scale, told[key], color=INK) for key, limit in limits.items()]
    if document["knee"] is not None:
        knee = document["knee"]
        tightest = f", then {limit_name(knee['tightest'])}" if knee["tightest"] else ""
        rules.append(Rule(knee["value"], f"knee {knee['value']:.3g}{tightest}", upright=True))
    at = [case["value"] for case in document["cases"]]
    series = [
        Series(name_text(key), [(case["value"], (case[name].get(key) or 0.0) * scale or None) for case in cases])
        for key in shown
    ]
    key = list(limits)[-1] if limits else "p99"
    neutral, value = document["base"]["value"], own.get(key)
    notes = [Note(neutral, value * scale, f"plan {name_text(key)} {seconds_text(value)}")] if value else []
    return Lines(
        f"{TITLES[name]} against {document['variable']}",
        Axis(document["meaning"], "", min(at), max(at)),
        Axis(name_text(name), unit, low * scale, high * scale, log=True),
        series,
        rules=rules,
        notes=notes,
        subtitle=f"{document['base']['plan']['mode']}, {document['base']['plan']['accelerators']} accelerators",
        source=catalog_source(document),
    )


def _tornado(document: Document) -> Bars:
    """Per variable, how much of its tightest limit the plan uses at both ends; the widest first."""
    bars = []
    for name, (low, high) in spans_of(document).items():
        start, end = min(max(low, 0.0), MOST_SHOWN), min(high, MOST_SHOWN)
        text = f"{percent_text(low)} .. {percent_text(high) if high < float('inf') else 'unbounded'}"
        color = RED if high > 1.0 else BLUE
        bars.append(Bar(name, [(name, max(end - start, 0.005))], text, start, color, limit=1.0))
    return Bars(
        "How much of its tightest limit the plan uses",
        "value over limit",
        "1",
        bars,
        subtitle="one thing changed at a time, from its low to its high end; red passes the limit",
        source=catalog_source(document),
    )
