"""`planner compare`: colocated and disaggregated side by side."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from planner.cli.money import currency_of
from planner.cli.options import CatalogOption, CurrencyOption, OutOption, QuietOption
from planner.cli.plots import PlotOption, check_plots
from planner.cli.size import NOTHING_FITS, ScenarioArgument


def compare(
    scenario: ScenarioArgument,
    shape: Annotated[
        Literal["table", "json", "csv", "markdown", "html"],
        typer.Option("--format", help="table for people; json or csv for programs; markdown or html for pages."),
    ] = "table",
    out: OutOption = None,
    plot: PlotOption = None,
    catalog: CatalogOption = None,
    currency: CurrencyOption = "",
    quiet: QuietOption = 0,
) -> int:
    """Compare colocated and disaggregated serving.

    Sizes one pool with whole prompts, one pool with chunked prefill (token budget searched finely), two pools of one
    accelerator and two pools of different ones, all at the scenario's targets and the same headroom, and says which is
    the cheapest and why.

    Exit code 0 when one meets every limit, 1 when none does, 2 when the input is at fault.
    """
    from planner.cli.formats import write
    from planner.cli.reading import placed
    from planner.files.scenario import load_scenario

    plots = check_plots(plot, None, ["compare"], inputs=[scenario], out=out, shape=shape)
    money = currency_of(currency, shape)
    asked = load_scenario(scenario, tuple(catalog or ()))
    with placed(scenario):
        from planner.sizing.compare import compare as compared  # only now: faults of the files need no formulas

        found = compared(asked)
    from planner.render import comparison as text
    from planner.render.figures.contenders import comparison_figures
    from planner.review.comparison import comparison_document

    document = comparison_document(found)
    figures = plots.draw(comparison_figures, document, f"planner compare: {document['scenario']}")
    formats = {"csv": text.to_csv, "markdown": text.to_markdown, "html": text.to_html}
    write(document, shape, out, text.to_text, formats, quiet, money)
    plots.show(figures)
    return 0 if found.winner else NOTHING_FITS
