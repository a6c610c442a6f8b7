"""`planner kv`: where a plan's prompts find their KV, and when they no longer do."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from planner.cli.money import currency_of, in_currency, said, told
from planner.cli.options import (
    CatalogOption,
    CurrencyOption,
    Format,
    FormatOption,
    OutOption,
    QuietOption,
    VerboseOption,
)
from planner.cli.plots import PlotOption, check_plots

NOTHING_FITS = 1


def kv(
    scenario: Annotated[Path, typer.Argument(metavar="SCENARIO", help="The scenario file, YAML.")],
    shape: FormatOption = Format.table,
    out: OutOption = None,
    plot: PlotOption = None,
    catalog: CatalogOption = None,
    currency: CurrencyOption = "",
    verbose: VerboseOption = 0,
    quiet: QuietOption = 0,
) -> int:
    """Size the places that keep KV, and find the load at which their hits are lost.

    For memory and every tier: capacity, hits, rates needed and there, fetching against computing, what it adds to a
    first token, accelerators and USD per hour saved. How the answer moves with size and load, what cache-aware routing
    is worth, and the memory beside the decode. The workload must say what its prompts share: a trace with block ids,
    sessions, or a prefix_hit_ratio.

    Exit code 0 when the plan holds, 1 when nothing fits, 2 when the input is at fault.
    """
    from planner.cli.streams import tell, write_result
    from planner.errors import FieldError, InputError
    from planner.files.scenario import field_fault, load_scenario
    from planner.files.yamlfile import load

    plots = check_plots(plot, None, ["tiers"], inputs=[scenario], out=out, shape=shape)
    money = currency_of(currency, shape.value)
    try:
        asked = load_scenario(scenario, tuple(catalog or ()))
        from planner.sizing.kv import kv as report_of  # only now: faults of the files come without the formulas

        report = report_of(asked)
    except FieldError as error:
        raise InputError([field_fault(load(scenario), error)]) from error
    from planner.render.kv import render_kv, verdict
    from planner.review.kv import kv_document

    result = kv_document(report)
    figures = []
    if plots.files:
        from planner.render.figures.reuse import kv_figures

        figures = kv_figures(result)
        plots.write(figures, f"planner kv: {result['inputs']['scenario']}")
    if out is not None or quiet < 2:
        shown = in_currency(result, money)
        write_result(said(render_kv(shown, shape.value, verbose=verbose, quiet=quiet), money), out)
    plots.show(figures)
    if out is not None and quiet < 2:
        tell(f"{told(verdict(in_currency(result, money)), money)}  ({out})")
    return NOTHING_FITS if report.plan.verdict == "infeasible" and asked.deployment is None else 0
