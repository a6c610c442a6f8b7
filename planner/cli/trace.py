"""`planner trace`: what a trace of requests says about load, lengths and reuse."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli.options import OutOption, QuietOption
from planner.cli.plots import PlotOption, check_plots

if TYPE_CHECKING:
    from planner.cli.streams import Screen

MOST_CAPACITY = 10**15


class TraceFormat(enum.StrEnum):
    """How a trace's description is written."""

    table = "table"
    json = "json"
    csv = "csv"
    html = "html"


class EvictionOrder(enum.StrEnum):
    """Which block leaves a full cache."""

    lru = "lru"
    leaf_first = "leaf-first"


def trace_show(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="One trace, in one or more files; or a folder of sessions.")
    ],
    capacity_blocks: Annotated[
        str | None,
        typer.Option("--capacity-blocks", metavar="N,N", help="Cache sizes of the hit curve; 20 between else."),
    ] = None,
    eviction: Annotated[
        EvictionOrder,
        typer.Option(
            "--eviction", help="lru: oldest use first; leaf-first: of a prompt its tail first, as engines do."
        ),
    ] = EvictionOrder.lru,
    stagger: Annotated[
        str | None,
        typer.Option("--stagger", metavar="TIME", help='From one session file to the next, e.g. "60 s", the default.'),
    ] = None,
    block_tokens: Annotated[
        int | None, typer.Option("--block-tokens", metavar="N", help="Tokens of a block, where the file does not say.")
    ] = None,
    shape: Annotated[
        TraceFormat,
        typer.Option("--format", help="table for people, html: a page, json: for programs, csv: hit curve."),
    ] = TraceFormat.table,
    out: OutOption = None,
    plot: PlotOption = None,
    quiet: QuietOption = 0,
) -> int:
    """Describe a trace: rate, burstiness, lengths, and what a prefix cache of each size would find.

    Formats are told apart by their columns: Azure 2023 to 2025, BurstGPT, Vidur and plain CSV, CSV of lengths only,
    Mooncake, RAGPulse and TraceLab JSON lines, agent sessions (a JSON file each, or a folder), ServeGen clients.

    Exit code 0 when it was read, 2 when it is at fault.
    """
    from planner.cli.streams import write_result
    from planner.errors import InputError
    from planner.files.traces import load_traces
    from planner.records import InputFile
    from planner.review.trace import trace_document

    plots = check_plots(plot, None, ["reuse"], inputs=files, out=out, shape=shape)
    capacities = blocks_list(capacity_blocks)
    if block_tokens is not None and block_tokens < 1:
        raise InputError(f"--block-tokens: {block_tokens}; give a whole number of at least 1")
    trace = load_traces(files, given_block_tokens=block_tokens, stagger_s=_stagger_s(stagger))
    if trace.blocks is None and (capacities is not None or shape is TraceFormat.csv):
        option = "--format csv" if capacities is None else "--capacity-blocks"
        raise InputError(f"{option}: {files[0]} ({trace.format}) has no block ids, so it has no hit curve")
    names = " ".join(str(path) for path in files)
    document = trace_document(trace, [InputFile(names, trace.sha256)], eviction.value, capacities)

    def render(screen: Screen) -> str:
        from planner.render import trace as text
        from planner.render.json import to_json

        if shape is TraceFormat.json:
            return to_json(document)
        if shape is TraceFormat.csv:
            return text.to_csv(document)
        if shape is TraceFormat.html:
            return text.to_html(document)
        return text.to_text(document, screen.pen, notes=not quiet)

    figures = []
    if plots.files:
        from planner.render.figures.reuse import trace_figures

        figures = trace_figures(document)
        plots.write(figures, f"planner trace: {names}")
    if quiet < 2:
        write_result(render, out)
    plots.show(figures)
    return 0


def blocks_list(text: str | None) -> list[int] | None:
    if text is None:
        return None
    from planner.errors import Fault, InputError
    from planner.units import shown

    capacities, faults = [], []
    for part in text.split(","):
        try:
            blocks = int(part)
        except ValueError:
            blocks = 0
        if 1 <= blocks <= MOST_CAPACITY:
            capacities.append(blocks)
        else:
            faults.append(Fault(f"--capacity-blocks: {shown(part)}; give whole numbers such as 1000,5000"))
    if faults:
        raise InputError(faults)
    return capacities


def _stagger_s(text: str | None) -> float | None:
    if text is None:
        return None
    from planner.errors import InputError
    from planner.units import parse

    try:
        return parse(text, "seconds")
    except ValueError as error:
        raise InputError(f"--stagger: {error}") from None
