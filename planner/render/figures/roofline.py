"""The roofline of an accelerator, alone or with the operators of a plan on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from planner.render.figures.figure import Document, Figure, source_line, subject
from planner.render.lines import Lines, Note, Series
from planner.render.svg import BLUE, INK, RED, Axis
from planner.render.text import percent_text

PEAKS = {name: f"{name}_dense_flops_per_s" for name in ("fp4", "fp8", "int8", "bf16")}
SHAPES = {"prefill": ("dot", BLUE), "decode": ("square", RED)}
TERA = 1e12
LEAST_NAMED = 0.005  # share of a step
LEAST_PX, MOST_PX = 5.0, 13.0  # radius of a mark, by the share of its step's time
Work = Sequence[Mapping[str, float]]


def roofline(result: Document) -> Figure:
    """What the operators of a prefill chunk and of a decode step reach, on each accelerator that runs them."""
    operators = result["figures"]["operators"]
    offered = {one["id"]: one["values"] for one in result["inputs"]["accelerators"]}
    charts = []
    for accelerator in dict.fromkeys(one["accelerator"] for one in operators):
        known = {name: item["value"] for name, item in offered[accelerator].items()}
        own = [one for one in operators if one["accelerator"] == accelerator]
        charts.append(roofline_chart(accelerator, known, own, subject(result), source_line(result)))
    return Figure("roofline", charts)


def roofline_chart(
    accelerator: str, values: Mapping[str, float | None], operators: Sequence[Document], subtitle: str, source: str
) -> Lines:
    """Roofs by memory and by number format, their ridge points, and operators by the time they take."""
    memory = values["memory_bytes_per_s"] or 0.0
    peaks: dict[str, float] = {}
    for name, field in PEAKS.items():
        peak = values.get(field)
        if peak and peak not in peaks.values():
            peaks[name] = peak
        elif peak:  # two formats at one rate share a roof
            other = next(known for known, value in peaks.items() if value == peak)
            peaks = {f"{known}, {name}" if known == other else known: value for known, value in peaks.items()}
    ridges = {name: peak / memory for name, peak in peaks.items()}
    points = [(one["flops_per_byte"], one["flops_per_s"] / TERA) for one in operators]
    x = Axis(
        "arithmetic intensity",
        "FLOP/byte",
        min([0.5 * x for x, _ in points] + [min(ridges.values()) / 300.0]),
        max([2.0 * x for x, _ in points] + [max(ridges.values()) * 10.0]),
        log=True,
    )
    top = max(peaks.values()) / TERA
    y = Axis("rate of one accelerator", "TFLOP/s", min([0.4 * y for _, y in points] + [top / 300.0]), 2.5 * top, True)
    roofs = [
        Series(f"{name} peak", [(ridges[name], peak / TERA), (x.high, peak / TERA)], color=INK, dash=dash)
        for (name, peak), dash in zip(peaks.items(), ("", "10 5", "3 4", "12 4 3 4"), strict=False)
    ]
    highest = max(ridges.values())
    slope = [(x.low, x.low * memory / TERA), (highest, highest * memory / TERA)]
    roofs.insert(0, Series("memory bandwidth", slope, color="#767676", dash=""))
    notes = [
        Note(ridge, peaks[name] / TERA, f"{name} ridge {ridge:.0f} FLOP/byte", shape="diamond")
        for name, ridge in ridges.items()
    ]
    return Lines(
        f"Roofline of {accelerator}",
        x,
        y,
        [*roofs, *_marks(operators, points)],
        notes=[*notes, *_names(operators, points)],
        subtitle=subtitle,
        source=source,
    )


def _marks(operators: Sequence[Document], points: Sequence[tuple[float, float]]) -> list[Series]:
    """A series for each phase; a mark is larger the more of its step an operator takes."""
    found = []
    for phase, (shape, color) in SHAPES.items():
        own = [index for index, one in enumerate(operators) if one["phase"] == phase]
        whole = sum(operators[index]["time_s"] for index in own)
        radii = [LEAST_PX + (MOST_PX - LEAST_PX) * float((operators[index]["time_s"] / whole) ** 0.5) for index in own]
        if own:
            name = f"{phase}: larger marks take longer"
            found.append(Series(name, [points[index] for index in own], color, "", shape, False, radii))
    return found


def _names(operators: Sequence[Document], points: Sequence[tuple[float, float]]) -> list[Note]:
    """Each operator by name, at the mark that takes the longest of those that share it."""
    notes = []
    for phase, name in dict.fromkeys((one["phase"], one["name"]) for one in operators):
        own = [index for index, one in enumerate(operators) if (one["phase"], one["name"]) == (phase, name)]
        whole = sum(one["time_s"] for one in operators if one["phase"] == phase)
        longest = max(own, key=lambda index: operators[index]["time_s"])
        share = sum(operators[index]["time_s"] for index in own) / whole
        if share >= LEAST_NAMED:
            notes.append(Note(*points[longest], f"{phase} {name} {percent_text(share)}", shape=""))
    return notes
