"""`planner trace`: what a trace of requests says about load, lengths and reuse."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer

from planner.cli.options import OutOption, QuietOption, quantity
from planner.cli.plots import PlotOption, check_plots

MOST_CAPACITY = 10**15


def trace_show(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="One trace, in one or more files; or a folder of sessions.")
    ],
    capacity_blocks: Annotated[
        str | None,
        typer.Option("--capacity-blocks", metavar="N,N", help="Cache sizes of the hit curve; 20 between else."),
    ] = None,
    eviction: Annotated[
        Literal["lru", "leaf-first"],
        typer.Option(
            "--eviction", help="lru: oldest use first; leaf-first: of a prompt its tail first, as engines do."
        ),
    ] = "lru",
    stagger: Annotated[
        str | None,
        typer.Option("--stagger", metavar="TIME", help='From one session file to the next, e.g. "60 s", the default.'),
    ] = None,
    block_tokens: Annotated[
        int | None, typer.Option("--block-tokens", metavar="N", help="Tokens of a block, where the file does not say.")
    ] = None,
    shape: Annotated[
        Literal["table", "json", "csv", "html"],
        typer.Option("--format", help="table for people, html: a page, json: for programs, csv: hit curve."),
    ] = "table",
    out: OutOption = None,
    plot: PlotOption = None,
    quiet: QuietOption = 0,
) -> int:
    """Describe a trace: rate, burstiness, lengths, and what a prefix cache of each size would find.

    Formats are told apart by their columns: Azure 2023 to 2025, BurstGPT, Vidur and plain CSV, CSV of lengths only,
    Mooncake, RAGPulse and TraceLab JSON lines, agent sessions (a JSON file each, or a folder), ServeGen clients.

    Exit code 0 when it was read, 2 when it is at fault.
    """
    from planner.cli.formats import write
    from planner.errors import InputError
    from planner.files.traces import load_traces
    from planner.records import InputFile
    from planner.render import trace as text
    from planner.render.figures.reuse import trace_figures
    from planner.review.trace import trace_document

    plots = check_plots(plot, None, ["reuse"], inputs=files, out=out, shape=shape)
    capacities = blocks_list(capacity_blocks)
    if block_tokens is not None and block_tokens < 1:
        raise InputError(f"--block-tokens: {block_tokens}; give a whole number of at least 1")
    trace = load_traces(
        files,
        given_block_tokens=block_tokens,
        stagger_s=None if stagger is None else quantity("--stagger", stagger, "seconds"),
    )
    if trace.blocks is None and (capacities is not None or shape == "csv"):
        option = "--format csv" if capacities is None else "--capacity-blocks"
        raise InputError(f"{option}: {files[0]} ({trace.format}) has no block ids, so it has no hit curve")
    names = " ".join(str(path) for path in files)
    document = trace_document(trace, [InputFile(names, trace.sha256)], eviction, capacities)
    figures = plots.draw(trace_figures, document, f"planner trace: {names}")
    formats = {"csv": text.to_csv, "html": text.to_html}
    write(document, shape, out, partial(text.to_text, notes=not quiet), formats, quiet)
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
