"""`planner size` and `planner evaluate`: a scenario in, a result document out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from planner.cli.money import currency_of
from planner.cli.options import (
    CatalogOption,
    CoverageOption,
    CurrencyOption,
    OutOption,
    QuietOption,
    ResultFormat,
    ResultFormatOption,
    VerboseOption,
)
from planner.cli.plots import PlotOption, Plots, check_plots, kind_option

if TYPE_CHECKING:
    from planner.errors import FieldError
    from planner.records import EngineProfile, Plan, Scenario
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
    shape: ResultFormatOption = ResultFormat.table,
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
    plots = check_plots(plot, plot_kind, SIZE_KINDS, inputs=[scenario], out=out, shape=shape)
    money = currency_of(currency, shape.value)
    if coverage is not None and confidence is not None:
        raise typer.BadParameter("a confidence says the coverage: give one of them", param_hint="--confidence")
    plan = answer(scenario, tuple(catalog or ()), "size", coverage, confidence)
    points: Sequence[FrontPoint] = ()
    if front or pick is not None or "front" in figure_kinds(plots, shape):
        plan, points = _on_front(plan, pick)
    show(plan, shape, out, verbose, quiet, money, plots, points)
    return NOTHING_FITS if plan.verdict == "infeasible" else 0


def _on_front(plan: Plan, pick: int | None) -> tuple[Plan, Sequence[FrontPoint]]:
    """The plan, or the point that was picked, and the front it lies on."""
    from planner.errors import FieldError, InputError
    from planner.sizing.front import front, picked

    if plan.deployment is None:
        return plan, ()
    points = front(plan)
    try:
        return (plan if pick is None else picked(plan, points, pick)), points
    except FieldError as error:
        raise InputError(f"--{error.field}: {error.message}") from error


def evaluate(
    scenario: ScenarioArgument,
    shape: ResultFormatOption = ResultFormat.table,
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
    money, inputs = currency_of(currency, shape.value), [scenario, *(launch or ())]
    plots = check_plots(plot, plot_kind, EVALUATE_KINDS, inputs=inputs, out=out, shape=shape)
    if launch:
        from planner.cli.running import imported_result

        kinds = figure_kinds(plots, shape)
        result = imported_result(scenario, launch, tuple(catalog or ()), coverage, kinds)
        write(result, shape, out, verbose, quiet, money, plots)
        return 0
    show(answer(scenario, tuple(catalog or ()), "evaluate", coverage), shape, out, verbose, quiet, money, plots)
    return 0


def answer(
    path: Path,
    catalog: tuple[Path, ...],
    question: Literal["size", "evaluate"],
    coverage: float | None = None,
    confidence: float | None = None,
) -> Plan:
    """Read a scenario and compute its plan; a value that computing refuses is named with its line.

    Raises
    ------
    InputError
        Everything that is wrong with the files.
    """
    from planner.files.scenario import load_scenario

    scenario = load_scenario(path, catalog, judge=None if question == "size" else judge)
    if coverage is not None:
        scenario = replace(scenario, engine=covering(scenario.engine, coverage))
    return answered(scenario, path, question, confidence=confidence)


def covering(engine: EngineProfile, coverage: float) -> EngineProfile:
    """The engine with intervals of another coverage. InputError when measured runs cannot tell."""
    from planner.errors import FieldError, InputError
    from planner.serving.intervals import at_coverage

    try:
        return at_coverage(engine, coverage)
    except FieldError as error:
        raise InputError(f"--{error.field}: {error.message}") from error


def answered(
    scenario: Scenario,
    path: Path,
    question: Literal["size", "evaluate"],
    way_out: Callable[[], str] = lambda: "",
    confidence: float | None = None,
) -> Plan:
    """The plan of a scenario that was read from `path`; `way_out` is added to what computing refuses."""
    from planner.errors import FieldError, InputError
    from planner.files.scenario import field_faults
    from planner.files.yamlfile import load

    try:
        from planner import sizing  # only now: faults of the files are told without loading the formulas

        if confidence is not None:
            from planner.sizing.confident import size_with_confidence

            return size_with_confidence(scenario, confidence)
        plan: Plan = sizing.size(scenario) if question == "size" else sizing.evaluate(scenario)
    except FieldError as error:
        if error.field == "confidence":
            raise InputError(f"--confidence: {error.message}") from error
        told = FieldError(error.field, error.message + way_out(), error.others)
        raise InputError(field_faults(load(path), told)) from error
    return plan


def judge(*deployment: Any) -> list[FieldError]:
    """What a given deployment cannot be; a file without one does not pay for loading the formulas."""
    from planner.serving.refusals import refusals

    return refusals(*deployment)


def show(
    plan: Plan,
    shape: ResultFormat,
    out: Path | None,
    verbose: int,
    quiet: int,
    currency: Currency | None,
    plots: Plots,
    points: Sequence[FrontPoint] = (),
) -> None:
    """Write the result document of a plan, and its figures; `points` are the front it lies on."""
    from planner.review.figures import drawable

    write(drawable(plan, figure_kinds(plots, shape), points), shape, out, verbose, quiet, currency, plots)


def figure_kinds(plots: Plots, shape: ResultFormat) -> tuple[str, ...]:
    """Figures whose numbers the result must hold: those asked for, and all on a page."""
    return SIZE_KINDS if shape is ResultFormat.html else plots.kinds


def write(
    result: Mapping[str, Any],
    shape: ResultFormat,
    out: Path | None,
    verbose: int,
    quiet: int,
    currency: Currency | None,
    plots: Plots,
) -> None:
    """Write a result document, and what is drawn of it; figures say USD in any currency."""
    from planner.cli.formats import write_document

    figures = drawn(result, plots)
    write_document(result, shape.value, out, verbose, quiet, currency)
    plots.show(figures)


def drawn(result: Mapping[str, Any], plots: Plots) -> list[Figure]:
    """The figures of a result, those for files written."""
    if not plots.files:
        return []
    from planner.render.figures import result_figures

    figures = result_figures(result, plots.kinds)
    plots.write(figures, f"planner: {result['inputs']['scenario']}")
    return figures
