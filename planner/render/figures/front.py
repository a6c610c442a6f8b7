"""What tighter or looser latency costs: deployments by price and P99, each with the number that `--pick` takes."""

from __future__ import annotations

from collections.abc import Sequence

from planner.render.figures.figure import Document, Figure, source_line, subject, time_scale
from planner.render.lines import Lines, Note, Rule, Series
from planner.render.svg import BLUE, ORANGE, RED, Axis
from planner.render.text import name_text, seconds_text

WIDE = 6.0  # dearest over cheapest, from which prices are on a log axis
METRICS = ("itl_s", "ttft_s")


def front(result: Document) -> Figure:
    """P99 of ITL and of TTFT against price."""
    return Figure("front", [_against_price(result, name) for name in METRICS])


def _against_price(result: Document, name: str) -> Lines:
    found = result["figures"]["front"]
    label, unit = ("price", "USD/h") if found[0]["usd_per_hour"] is not None else ("accelerators", "")
    field = "usd_per_hour" if unit else "accelerators"
    limits = [
        target["limit_s"]
        for target in result["inputs"]["targets"]
        if f"{target['metric']}_s" == name and target["statistic"] == "p99"
    ]
    prices, values = [point[field] for point in found], [point[name]["p99"] for point in found]
    time_unit, scale = time_scale(max([*values, *limits]))
    log = max(prices) > WIDE * min(prices)
    x = Axis(label, unit, 0.85 * min(prices) if log else 0.0, 1.12 * max(prices), log)
    y = Axis(
        f"{name_text(name)} p99", time_unit, 0.7 * scale * min(values), 1.4 * scale * max([*values, *limits]), True
    )
    points = [(price, value * scale) for price, value in zip(prices, values, strict=True)]
    rules = [Rule(limit * scale, f"target p99 {seconds_text(limit)}") for limit in limits]
    return Lines(
        f"What {name_text(name)} costs: each point is a deployment",
        x,
        y,
        [Series("cheapest for its latency", _stairs(points), color="#767676", dash=""), *_marks(found, points)],
        rules=rules,
        notes=[Note(*at, str(one["number"]), shape="") for one, at in zip(found, points, strict=True)],
        subtitle=f"{subject(result)}; planner size --pick N returns point N",
        source=source_line(result),
    )


def _marks(found: Sequence[Document], points: Sequence[tuple[float, float]]) -> list[Series]:
    """Points that keep every limit, those that do not, and on top of them the plan."""
    kinds = (
        ("keeps every limit", BLUE, "dot", [one["holds"] and not one["is_plan"] for one in found]),
        ("misses a limit", ORANGE, "triangle", [not one["holds"] and not one["is_plan"] for one in found]),
        ("the plan", RED, "diamond", [one["is_plan"] for one in found]),
    )
    return [
        Series(text, [point for point, shown in zip(points, own, strict=True) if shown], color, "", shape, False)
        for text, color, shape, own in kinds
        if any(own)
    ]


def _stairs(points: Sequence[tuple[float, float]]) -> list[tuple[float, float | None]]:
    """The lowest latency that each price buys, as steps."""
    steps: list[tuple[float, float | None]] = []
    least = float("inf")
    for price, value in sorted(points):
        if value < least:
            steps += [(price, least)] if steps else []
            steps.append((price, value))
            least = value
    return steps
