"""`planner size` and `planner evaluate`: a scenario in, a result document out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from planner.cli.money import currency_of
from planner.cli.options import (
    CatalogOption,
    CoverageOption,
    CurrencyOption,
    OutOption,
    QuietOption,
    ResultFormatOption,
    VerboseOption,
)
from planner.cli.plots import PlotOption, Plots, check_plots, kind_option

if TYPE_CHECKING:
    from planner.records import Plan, Scenario
    from planner.render.figures.figure import Figure
    from planner.review.currency import Currency
    from planner.sizing.front import FrontPoint

NOTHING_FITS = 1

EVALUATE_KINDS = ("latency", "load", "roofline", "memory", "ttft", "step", "cost")
SIZE_KINDS = (*EVALUATE_KINDS, "front")
SizeKindOption = Annotated[list[str] | None, kind_option(SIZE_KINDS)]
EvaluateKindOption = Annotated[list[str] | None, kind_option(EVALUATE_KINDS)]
ScenarioArgument = Annotated[Path, typer.Argument(metavar="SCENARIO", help="The scenario file, YAML.")]


def size(
    scenario: ScenarioArgument,
    shape: ResultFormatOption = "table",
    out: OutOption = None,
    coverage: CoverageOption = None,
    confidence: Annotated[
        float | None,
        typer.Option(metavar="SHARE", help="Buy enough that targets hold at the upper end of intervals, e.g. 0.9."),
    ] = None,
    plot: PlotOption = None,
    plot_kind: SizeKindOption = None,
    front: Annotated[
        bool, typer.Option("--front", help="Also list by number what tighter and looser latency costs.")
    ] = False,
    pick: Annotated[
        int | None, typer.Option("--pick", metavar="N", help="Return point N of that list as the plan.")
    ] = None,
    catalog: CatalogOption = None,
    currency: CurrencyOption = "",
    verbose: VerboseOption = 0,
    quiet: QuietOption = 0,
) -> int:
    """Find what to buy.

    The answer is the cheapest deployment that meets every target and budget of a scenario. With --confidence 0.9 each
    target holds with that confidence, given how far predictions were off.

    Exit code 0 when one does, 1 when nothing fits (the nearest miss is printed), 2 when the input is at fault.
    """
    from planner.cli.reading import placed
    from planner.files.scenario import load_scenario
    from planner.review.figures import drawable

    plots = check_plots(plot, plot_kind, SIZE_KINDS, inputs=[scenario], out=out, shape=shape)
    money = currency_of(currency, shape)
    if coverage is not None and confidence is not None:
        raise typer.BadParameter("a confidence says the coverage: give one of them", param_hint="--confidence")
    asked = _covered(load_scenario(scenario, tuple(catalog or ())), coverage)
    kinds = figure_kinds(plots, shape)
    points: Sequence[FrontPoint] = ()
    with placed(scenario):
        plan = _sized(asked, confidence)
        if front or pick is not None or "front" in kinds:
            plan, points = _on_front(plan, pick)
    write(drawable(plan, kinds, points), shape, out, verbose, quiet, money, plots)
    return NOTHING_FITS if plan.verdict == "infeasible" else 0


def _sized(scenario: Scenario, confidence: float | None) -> Plan:
    from planner import sizing  # only now: faults of the files are told without loading the formulas

    if confidence is None:
        return sizing.size(scenario)
    from planner.sizing.confident import size_with_confidence

    return size_with_confidence(scenario, confidence)


def _on_front(plan: Plan, pick: int | None) -> tuple[Plan, Sequence[FrontPoint]]:
    """The plan, or the point that was picked, and the front it lies on."""
    from planner.sizing.front import front, picked

    if plan.deployment is None:
        return plan, ()
    points = front(plan)
    return (plan if pick is None else picked(plan, points, pick)), points


def evaluate(
    scenario: ScenarioArgument,
    shape: ResultFormatOption = "table",
    out: OutOption = None,
    coverage: CoverageOption = None,
    catalog: CatalogOption = None,
    launch: Annotated[
        list[Path] | None,
        typer.Option("--from", metavar="FILE", help="Script, manifest or folder of what runs; may be given again."),
    ] = None,
    plot: PlotOption = None,
    plot_kind: EvaluateKindOption = None,
    currency: CurrencyOption = "",
    verbose: VerboseOption = 0,
    quiet: QuietOption = 0,
) -> int:
    """Predict what a given deployment does.

    It is the `deployment:` that the scenario holds, under the scenario's traffic. With --from it is what launch files
    start: command lines of vLLM, SGLang and TensorRT-LLM, Deployments, LeaderWorkerSets, Dynamo graph deployments,
    llm-d values and LLMInferenceServices. They are read, never run.

    Exit code 0 also when targets are missed (the report says so), 2 when the deployment cannot run.
    """
    money, inputs = currency_of(currency, shape), [scenario, *(launch or ())]
    plots = check_plots(plot, plot_kind, EVALUATE_KINDS, inputs=inputs, out=out, shape=shape)
    kinds = figure_kinds(plots, shape)
    if launch:
        from planner.cli.running import imported_result

        result = imported_result(scenario, launch, tuple(catalog or ()), coverage, kinds)
    else:
        from planner.cli.reading import placed, read_scenario

        asked = _covered(read_scenario(scenario, catalog), coverage)
        with placed(scenario):
            from planner import sizing
            from planner.review.figures import drawable

            result = drawable(sizing.evaluate(asked), kinds)
    write(result, shape, out, verbose, quiet, money, plots)
    return 0


def _covered(scenario: Scenario, coverage: float | None) -> Scenario:
    from planner.cli.reading import covering

    return scenario if coverage is None else replace(scenario, engine=covering(scenario.engine, coverage))


def figure_kinds(plots: Plots, shape: str) -> tuple[str, ...]:
    """Figures whose numbers the result must hold: those asked for, and all on a page."""
    return SIZE_KINDS if shape == "html" else plots.kinds


def write(
    result: Mapping[str, Any],
    shape: str,
    out: Path | None,
    verbose: int,
    quiet: int,
    currency: Currency | None,
    plots: Plots,
) -> None:
    """Write a result document, and what is drawn of it; figures say USD in any currency."""
    from planner.cli.formats import write_document

    figures = drawn(result, plots)
    write_document(result, shape, out, verbose, quiet, currency)
    plots.show(figures)


def drawn(result: Mapping[str, Any], plots: Plots) -> list[Figure]:
    """The figures of a result, those for files written; none without a `--plot`."""
    if not plots.files:
        return []
    from planner.render.figures import result_figures

    return plots.draw(partial(result_figures, kinds=plots.kinds), result, f"planner: {result['inputs']['scenario']}")
