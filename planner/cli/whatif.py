"""`planner whatif`: a plan with one thing changed at a time."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any

import typer

from planner.cli.money import currency_of
from planner.cli.options import CatalogOption, CurrencyOption, OutOption, PageFormatOption
from planner.cli.plots import PlotOption, check_plots
from planner.cli.size import NOTHING_FITS, ScenarioArgument

if TYPE_CHECKING:
    from planner.records import Plan
    from planner.sizing.variables import Variable

MOST_POINTS = 500
_RANGE = re.compile(r"\s*([^=]+?)\s*=\s*([^:]+?)\s*\.\.\s*([^:]+?)\s*(?::\s*(\S+)\s*)?")
_FORM = "want NAME=LOW..HIGH:POINTS, e.g. load=0.5..2:16"


def whatif(
    scenario: ScenarioArgument,
    vary: Annotated[
        str | None,
        typer.Option("--vary", metavar="NAME=LOW..HIGH:POINTS", help="One variable over a range, with its knee."),
    ] = None,
    shape: PageFormatOption = "table",
    out: OutOption = None,
    plot: PlotOption = None,
    catalog: CatalogOption = None,
    currency: CurrencyOption = "",
) -> int:
    """Change one thing at a time and see whether the plan still holds.

    The plan is the `deployment:` of the scenario, or what `planner size` finds. It stays as it is while load,
    lengths, step times, prices, workers or their ratio change; what would make it hold again is said beside it.

    Exit code 0 when the plan holds unchanged, 1 when it does not or nothing fits, 2 when the input is at fault.
    """
    from planner.cli.formats import write
    from planner.cli.reading import plan_of, read_scenario
    from planner.cli.streams import tell
    from planner.render.figures.whatif import whatif_figures
    from planner.render.sensitivity import to_html, to_text, verdict_line

    kind = "tornado" if vary is None else "curve"
    plots = check_plots(plot, None, [kind], inputs=[scenario], out=out, shape=shape)
    money = currency_of(currency, shape)
    chosen = _vary(vary) if vary is not None else None
    plan = plan_of(read_scenario(scenario, catalog), scenario)
    if plan.deployment is None:
        tell("nothing to change: no candidate can hold the model (planner size says why)")
        return NOTHING_FITS
    result = _document(plan, chosen)
    figures = plots.draw(whatif_figures, result, f"planner whatif: {result['scenario']}")
    write(result, shape, out, to_text, {"html": to_html}, currency=money)
    plots.show(figures)
    if out is not None:
        tell(f"{verdict_line(result)}  ({out})")
    return 0 if result["base"]["holds"] else NOTHING_FITS


def _document(plan: Plan, chosen: tuple[Variable, list[float]] | None) -> dict[str, Any]:
    from planner.review.sensitivity import sensitivity_document, sweep_document
    from planner.sizing.sensitivity import sensitivity, sweep

    if chosen is None:
        return sensitivity_document(sensitivity(plan))
    return sweep_document(sweep(plan, *chosen))


def _vary(text: str) -> tuple[Variable, list[float]]:
    """The variable and its values; InputError with what was wanted."""
    import numpy as np

    from planner.errors import InputError
    from planner.files.nearest import did_you_mean
    from planner.sizing.variables import VARIABLES
    from planner.units import shown

    match = _RANGE.fullmatch(text)
    if match is None:
        raise InputError(f"--vary: {shown(text)} is not a range; {_FORM}")
    name = re.sub(r"[-_]", " ", match[1]).casefold()
    named = {variable.casefold(): variable for variable in VARIABLES}
    if name not in named:
        raise InputError(f"--vary: {shown(match[1])} is not a variable; {did_you_mean(match[1], list(VARIABLES))}")
    variable = VARIABLES[named[name]]
    low, high = (_number(part, variable) for part in (match[2], match[3]))
    if low >= high:
        raise InputError(f"--vary: {low:g} is not below {high:g}; {_FORM}")
    points = match[4] or "16"
    if not points.isascii() or not points.isdigit() or not 2 <= int(points) <= MOST_POINTS:
        raise InputError(f"--vary: {shown(points)} points; want a whole number from 2 to {MOST_POINTS}")
    return variable, [float(value) for value in np.linspace(low, high, int(points))]


def _number(text: str, variable: Variable) -> float:
    from planner.errors import InputError
    from planner.units import shown

    try:
        value = float(text)
    except ValueError:
        raise InputError(f"--vary: {shown(text)} is not a number; {_FORM}") from None
    if not variable.low <= value <= variable.high:
        raise InputError(
            f"--vary: {variable.name} {shown(text)} is out of range; want {variable.meaning}, "
            f"from {variable.low:g} to {variable.high:g}"
        )
    return value
