"""Catalog entries as figures: the roofline of an accelerator, and the weights of a model by format and split."""

from __future__ import annotations

from planner import __version__
from planner.render.bars import Bar, Bars
from planner.render.figures.figure import Document, Figure
from planner.render.figures.roofline import roofline_chart
from planner.render.lines import Lines, Series
from planner.render.svg import BLUE, ORANGE, Axis
from planner.render.text import value_text

GB = 1e9
FORMATS_SHOWN = 4


def hardware_figures(document: Document) -> list[Figure]:
    """The roofline of an accelerator, with its ridge points."""
    values = {name: item["value"] for name, item in document["values"].items()}
    subtitle = f"{document['vendor']}, {document['status']}; dense peaks, and the bandwidth of its memory"
    return [Figure("roofline", [roofline_chart(document["id"], values, [], subtitle, _source(document))])]


def model_figures(document: Document) -> list[Figure]:
    """Weights of a model in every format, and of one of several accelerators."""
    own = document["checkpoint_format"]
    bars = [
        Bar(name, [(name, size / GB)], value_text(size, "bytes"), color=ORANGE if name == own else BLUE)
        for name, size in document["weight_bytes"].items()
    ]
    subtitle = f"{document['parameters'] / 1e9:,.1f} G parameters; the format of the checkpoint stands out"
    whole = Bars(f"Weights of {document['id']}", "weights", "GB", bars, subtitle=subtitle, source=_source(document))
    ranks = document["weight_bytes_per_rank"]
    return [Figure("weights", [whole, *([_per_rank(document)] if len(ranks) > 1 else [])])]


def _per_rank(document: Document) -> Lines:
    ranks = document["weight_bytes_per_rank"]
    names = list(dict.fromkeys([document["checkpoint_format"], *document["weight_bytes"]]))
    shown = [name for name in names if name in ranks[0]][:FORMATS_SHOWN]
    sizes = [row[name] / GB for row in ranks for name in shown]
    return Lines(
        f"Weights of {document['id']} on one accelerator",
        Axis("tensor parallel degree", "accelerators", ranks[0]["tp"], ranks[-1]["tp"], log=True),
        Axis("weights of one", "GB", 0.7 * min(sizes), 1.4 * max(sizes), log=True),
        [Series(name, [(row["tp"], row[name] / GB) for row in ranks], shape="dot") for name in shown],
        subtitle="what a split over tensor parallel ranks leaves on each, layers that are copied counted",
        source=_source(document),
    )


def _source(document: Document) -> str:
    return f"planner {__version__}, {document['id']}, catalog {document['sha256'][:12]}"
