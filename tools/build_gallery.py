"""Draws docs/gallery: one map for each scenario there and each of its accelerators."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from planner.files.axes import read_axes
from planner.files.scenario import load_scenario
from planner.render.crossover import to_svg
from planner.review.crossover import crossover_document
from planner.sizing.crossover.map import crossover_map

GALLERY = Path(__file__).resolve().parent.parent / "docs" / "gallery"
AXES = ("input_tokens=256..131072:36", "concurrency=1..1024:30")

HEAD = """# Gallery

Drawn by `make gallery`; do not edit. One pool or two, over the length of prompts and the requests in flight: which is
cheaper at TTFT P99 8 s and ITL P99 50 ms, with outputs of 500 tokens. A closed loop, as benchmarks run. Each picture is
what this prints:

    planner map docs/gallery/llama-3.1-70b.yaml --facet accelerator=h100-sxm \\
        --x input_tokens=256..131072:36 --y concurrency=1..1024:30 --format svg

Gray cells are ties: eight of ten measured ratios between the two modes lie within a factor 1.25 of the predicted ones.
[The guide](../guides/compare.md) says how to read a map, [claims.md](../claims.md) what the model makes of what is said
about disaggregation.
"""


def pictures() -> Iterator[tuple[str, str]]:
    """(file name, SVG) of every picture."""
    x, y = read_axes(*AXES)
    for path in sorted(GALLERY.glob("*.yaml")):
        scenario = load_scenario(path)
        for accelerator in scenario.decode_accelerators:
            cut = replace(scenario, prefill_accelerators=(accelerator,), decode_accelerators=(accelerator,))
            yield f"{path.stem}-{accelerator.id}.svg", to_svg(crossover_document([crossover_map(cut, x, y)]))


def page(names: list[str]) -> str:
    """The page that shows them all."""
    return HEAD + "".join(f"\n![{name.removesuffix('.svg')}]({name})\n" for name in names)


def main() -> None:
    names = []
    for name, svg in pictures():
        (GALLERY / name).write_text(svg, encoding="utf-8")
        names.append(name)
        sys.stderr.write(f"{name}\n")
    (GALLERY / "README.md").write_text(page(names), encoding="utf-8")


if __name__ == "__main__":
    main()
