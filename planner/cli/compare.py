"""`planner compare`: colocated and disaggregated side by side."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli.money import currency_of, in_currency, said
from planner.cli.options import CatalogOption, CurrencyOption, OutOption, QuietOption
from planner.cli.plots import PlotOption, check_plots
from planner.cli.size import NOTHING_FITS, ScenarioArgument

if TYPE_CHECKING:
    from planner.cli.streams import Screen
    from planner.sizing.compare import Comparison


class CompareFormat(enum.StrEnum):
    """How a comparison is written."""

    table = "table"
    json = "json"
    csv = "csv"
    markdown = "markdown"


def compare(
    scenario: ScenarioArgument,
    shape: Annotated[
        CompareFormat, typer.Option("--format", help="table for people; json or csv for programs; markdown for pages.")
    ] = CompareFormat.table,
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
    from planner.cli.streams import write_result
    from planner.review.comparison import comparison_document

    plots = check_plots(plot, None, ["compare"], inputs=[scenario], out=out, shape=shape)
    money = currency_of(currency, shape.value)
    found = _compared(scenario, tuple(catalog or ()))
    document = comparison_document(found)
    shown = in_currency(document, money)

    def render(screen: Screen) -> str:
        from planner.render import comparison as text
        from planner.render.json import to_json

        if shape is CompareFormat.json:
            return to_json(shown)
        if shape is CompareFormat.csv:
            return text.to_csv(shown)
        if shape is CompareFormat.markdown:
            return text.to_markdown(shown)
        return text.to_text(shown, screen.pen)

    figures = []
    if plots.files:
        from planner.render.figures.contenders import comparison_figures

        figures = comparison_figures(document)
        plots.write(figures, f"planner compare: {document['scenario']}")
    if out is not None or quiet < 2:
        write_result(said(render, money), out)
    plots.show(figures)
    return 0 if found.winner else NOTHING_FITS


def _compared(path: Path, catalog: tuple[Path, ...]) -> Comparison:
    from planner.errors import FieldError, InputError
    from planner.files.scenario import field_fault, load_scenario
    from planner.files.yamlfile import load

    try:
        read = load_scenario(path, catalog)
        from planner.sizing.compare import compare  # only now: faults of the files need no formulas

        return compare(read)
    except FieldError as error:
        raise InputError([field_fault(load(path), error)]) from error
