"""Draws the pictures of docs/guides/plots.md into docs/guides/plots."""

from __future__ import annotations

from pathlib import Path

from planner import sizing
from planner.files.scenario import load_scenario
from planner.render.figures import result_figures
from planner.review.figures import drawable
from planner.sizing.front import front

ROOT = Path(__file__).resolve().parent.parent
SCENARIO = ROOT / "docs" / "examples" / "heterogeneous.yaml"
TARGET = ROOT / "docs" / "guides" / "plots"
KINDS = ("latency", "load", "roofline", "front")


def pictures() -> dict[str, str]:
    """Each picture by the name of its file."""
    plan = sizing.size(load_scenario(SCENARIO))
    result = drawable(plan, KINDS, front(plan))
    return {f"{figure.kind}.svg": figure.svg() for figure in result_figures(result, KINDS)}


def main() -> None:
    for name, drawn in pictures().items():
        (TARGET / name).write_text(drawn, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
