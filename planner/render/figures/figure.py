"""A figure: one or several charts under one name, drawn as SVG or in letters, with where its numbers come from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from planner.render.bars import Bars, bars_svg
from planner.render.lines import Lines, lines_svg
from planner.render.svg import stacked
from planner.render.terminal import bars_text, lines_text
from planner.render.text import Pen
from planner.review.inputs import joint_hash
from planner.review.result import pools

Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Picture:
    """A chart that is drawn already."""

    title: str
    svg: str
    letters: Callable[[Pen], list[str]]


Chart = Lines | Bars | Picture


@dataclass(frozen=True, slots=True)
class Figure:
    """What `--plot-kind` names: charts that belong together, one below the other."""

    kind: str
    charts: Sequence[Chart]

    @property
    def title(self) -> str:
        return self.charts[0].title

    def svg(self) -> str:
        return stacked([_svg(chart) for chart in self.charts])

    def text(self, pen: Pen) -> list[str]:
        lines: list[str] = []
        for chart in self.charts:
            lines += [*_text(chart, pen), ""]
        return lines[:-1]


def _svg(chart: Chart) -> str:
    if isinstance(chart, Picture):
        return chart.svg
    return lines_svg(chart) if isinstance(chart, Lines) else bars_svg(chart)


def _text(chart: Chart, pen: Pen) -> list[str]:
    if isinstance(chart, Picture):
        return chart.letters(pen)
    return lines_text(chart, pen) if isinstance(chart, Lines) else bars_text(chart, pen)


def source_line(result: Document) -> str:
    """Where the numbers of a result come from: scenario, program, and the catalog by its checksum."""
    inputs, tool = result["inputs"], result["tool"]
    return f"{tool['name']} {tool['version']}, scenario {inputs['scenario']}, catalog {catalog_hash(inputs)}"


def catalog_hash(inputs: Document) -> str:
    """Of the model, the engine and every accelerator of a result."""
    sums = [inputs["model"]["sha256"], inputs["engine"]["sha256"]]
    return joint_hash([*sums, *(one["sha256"] for one in inputs["accelerators"])])


def catalog_source(document: Document) -> str:
    """The same of a document that names its catalog by a checksum."""
    tool = document["tool"]
    return f"{tool['name']} {tool['version']}, scenario {document['scenario']}, catalog {document['catalog_hash']}"


def subject(result: Document) -> str:
    """What a picture of a result is about: the model, and where it is served."""
    plan = result["plan"]
    names = list(dict.fromkeys(pool["accelerator"] for _, pool in pools(plan)))
    return f"{result['inputs']['model']['id']} on {plan['accelerators']} {' + '.join(names)}, {plan['mode']}"


def time_scale(longest_s: float) -> tuple[str, float]:
    """The unit in which times up to `longest_s` are read best, and how many of it are in a second."""
    if longest_s >= 10.0:
        return "s", 1.0
    return ("ms", 1e3) if longest_s >= 2e-3 else ("us", 1e6)
