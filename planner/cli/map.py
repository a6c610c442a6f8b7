"""`planner map`: where one pool is the cheaper architecture, and where two are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from planner.cli.options import CatalogOption, OutOption, QuietOption
from planner.cli.plots import PlotOption, check_plots
from planner.cli.size import ScenarioArgument

if TYPE_CHECKING:
    from planner.records import Scenario
    from planner.sizing.crossover.map import CrossoverMap

FACETS = ("model", "accelerator")


def crossover(
    scenario: ScenarioArgument,
    x: Annotated[list[str], typer.Option("--x", metavar="AXIS", help="NAME=low..high[:points], log-spaced.")],
    y: Annotated[list[str], typer.Option("--y", metavar="AXIS", help="The same, for another quantity.")],
    shape: Annotated[
        Literal["table", "json", "csv", "html", "svg"],
        typer.Option("--format", help="table: a picture of letters; json and csv: cells; html and svg."),
    ] = "table",
    plot: PlotOption = None,
    facet: Annotated[
        str | None, typer.Option("--facet", metavar="KEY=A,B", help="One map each: model=ID,ID or accelerator=ID,ID.")
    ] = None,
    without: Annotated[
        list[str] | None, typer.Option("--without", metavar="TERM", help="Leave a term out; may be given again.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Compute more than 1,000,000 cells.")] = False,
    out: OutOption = None,
    catalog: CatalogOption = None,
    quiet: QuietOption = 0,
) -> int:
    """Draw the map of colocated against disaggregated serving.

    Two quantities vary: input_tokens, output_tokens, rate, concurrency, itl, ttft, network,
    prefix_hit_ratio, price_ratio. A cell says
    which architecture is cheapest at the scenario's targets, by how much, what holds it, and whether the lead is within
    the error of the prediction. Lengths keep the shape of the scenario's law; concurrency makes the load a closed loop.

    Terms of --without: transfer, chunking, mixed-steps, collectives, queueing, integers, headroom, cache-locality,
    kv-room.

    Exit code 0, also where nothing fits anywhere; 2 when the input is at fault.
    """
    from planner.cli.formats import write
    from planner.render import crossover as drawn
    from planner.render.figures.crossover import crossover_figures
    from planner.review.crossover import crossover_document

    plots = check_plots(plot, None, ["map"], inputs=[scenario], out=out, shape=shape)
    maps, facets = _maps(scenario, _two(x, y), facet, tuple(without or ()), yes, tuple(catalog or ()))
    document = crossover_document(maps, facets)
    plots.draw(crossover_figures, document, f"planner map: {document['scenario']}")
    formats = {"csv": drawn.to_csv, "html": drawn.to_html, "svg": drawn.to_svg}
    write(document, shape, out, drawn.to_text, formats, quiet)
    return 0


def _two(x: list[str], y: list[str]) -> tuple[str, str]:
    """Each axis once."""
    from planner.errors import InputError

    if len(x) + len(y) > 2:
        text = f"{len(x) + len(y)} axes; a map has two: give --x and --y once, and cut it with --facet"
        raise InputError(text)
    return x[0], y[0]


def _maps(
    path: Path,
    axes: tuple[str, str],
    facet: str | None,
    without: tuple[str, ...],
    yes: bool,
    catalog: tuple[Path, ...],
) -> tuple[list[CrossoverMap], list[dict[str, str]]]:
    """Every map asked for. Raises InputError with what is wrong with the options, then with the file."""
    from planner.cli.reading import placed
    from planner.cli.streams import progress
    from planner.files.axes import check_size, read_axes
    from planner.files.scenario import load_scenario

    x, y = read_axes(*axes)
    key, values = _facet(facet)
    check_size((x, y), max(len(values), 1), yes)
    scenario = load_scenario(path, catalog)
    cuts = [(_cut(scenario, key, value, path, catalog), {key: value}) for value in values] or [(scenario, {})]
    with placed(path):
        from planner.sizing.crossover.map import crossover_map

        _check_terms(without)
        told = progress("{:,} of {:,} cells")
        maps = [
            crossover_map(cut, x, y, without, told and _of_all(told, index, len(cuts)))
            for index, (cut, _) in enumerate(cuts)
        ]
    return maps, [chosen for _, chosen in cuts]


def _of_all(told: Callable[[int, int], None], index: int, count: int) -> Callable[[int, int], None]:
    """Progress of one map as that of all of equal size."""
    return lambda done, cells: told(index * cells + done, count * cells)


def _check_terms(without: Sequence[str]) -> None:
    from planner.errors import Fault, InputError
    from planner.files.nearest import did_you_mean
    from planner.sizing.crossover.cells import TERMS

    wrong = [f'--without: "{term}" is no term; {did_you_mean(term, TERMS)}' for term in without if term not in TERMS]
    if wrong:
        raise InputError([Fault(text) for text in wrong])


def _facet(text: str | None) -> tuple[str, list[str]]:
    from planner.errors import InputError
    from planner.files.nearest import did_you_mean

    if text is None:
        return "", []
    key, equals, written = text.partition("=")
    values = [value.strip() for value in written.split(",") if value.strip()]
    if key not in FACETS:
        raise InputError(f'--facet: "{key}" is no facet; {did_you_mean(key, FACETS)}')
    if not equals or not values:
        raise InputError(f"--facet {key}: want {key}=A,B with at least one value")
    return key, values


def _cut(scenario: Scenario, key: str, value: str, path: Path, catalog: tuple[Path, ...]) -> Scenario:
    """The scenario with another model or accelerator."""
    from planner.errors import InputError
    from planner.files.catalog import Catalog
    from planner.files.models import load_model
    from planner.files.nearest import did_you_mean

    beside = path.parent / "hardware"
    folders = [*catalog, beside] if beside.is_dir() else list(catalog)
    if key == "model":
        model = load_model(value, path.parent, folders)
        return replace(scenario, model=model, weights=model.checkpoint_format)
    opened = Catalog(folders)
    try:
        accelerator = opened.accelerator(value)
    except KeyError:
        near = did_you_mean(value, opened.accelerator_ids())
        raise InputError(f'--facet accelerator: "{value}" is not known; {near}') from None
    return replace(scenario, prefill_accelerators=(accelerator,), decode_accelerators=(accelerator,))
