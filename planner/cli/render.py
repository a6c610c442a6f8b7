"""`planner render`: a saved result in another format, without computing anything."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from planner.cli.money import currency_of
from planner.cli.options import CheckFormatOption, CurrencyOption, OutOption, QuietOption, VerboseOption
from planner.cli.plots import PlotOption, Plots, check_plots
from planner.cli.size import SIZE_KINDS, SizeKindOption


def render(
    file: Annotated[Path, typer.Argument(metavar="RESULT", help="A result that --format json wrote.")],
    shape: CheckFormatOption = "table",
    out: OutOption = None,
    plot: PlotOption = None,
    plot_kind: SizeKindOption = None,
    currency: CurrencyOption = "",
    verbose: VerboseOption = 0,
    quiet: QuietOption = 0,
) -> int:
    """Write a saved result in another format, or draw it.

    Reads what size, evaluate and check write with --format json. Nothing is computed again: figures that need more
    than the result holds are left out.

    Exit code 0, whatever the verdict; 2 when the file is no result, or one of another schema version.
    """
    from planner.cli.formats import write_document
    from planner.cli.size import drawn
    from planner.files.results import believed_whole, load_result

    plots = check_plots(plot, plot_kind, SIZE_KINDS, inputs=[file], out=out, shape=shape)
    money = currency_of(currency, shape)
    result = load_result(file)
    with believed_whole(file):
        figures = drawn(one_of(result, plots), plots)
        write_document(result, shape, out, verbose, quiet, money)
        plots.show(figures)
    return 0


def one_of(result: Mapping[str, Any], plots: Plots) -> Mapping[str, Any]:
    """The result that can be drawn: a file of several has no one figure."""
    from planner.errors import InputError

    if plots.files and "results" in result and len(result["results"]) != 1:
        raise InputError(f"--plot: the file holds {len(result['results'])} results; draw one of them at a time")
    one: Mapping[str, Any] = result["results"][0] if plots.files and "results" in result else result
    return one
