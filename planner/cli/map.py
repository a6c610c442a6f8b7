"""`planner map`: where one pool is the cheaper architecture, and where two are."""

from __future__ import annotations

import enum
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from planner.cli.options import CatalogOption, OutOption, QuietOption
from planner.cli.plots import PlotOption, check_plots
from planner.cli.size import ScenarioArgument

if TYPE_CHECKING:
    from planner.cli.streams import Screen
    from planner.records import Scenario
    from planner.sizing.crossover.map import CrossoverMap

QUIET_S = 1.0  # before progress is told
FACETS = ("model", "accelerator")


class MapFormat(enum.StrEnum):
    """How a map is written."""

    table = "table"
    json = "json"
    csv = "csv"
    html = "html"
    svg = "svg"


def crossover(
    scenario: ScenarioArgument,
    x: Annotated[list[str], typer.Option("--x", metavar="AXIS", help="NAME=low..high[:points], log-spaced.")],
    y: Annotated[list[str], typer.Option("--y", metavar="AXIS", help="The same, for another quantity.")],
    shape: Annotated[
        MapFormat, typer.Option("--format", help="table: a picture of letters; json and csv: cells; html and svg.")
    ] = MapFormat.table,
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
    from planner.cli.streams import write_result
    from planner.review.crossover import crossover_document

    plots = check_plots(plot, None, ["map"], inputs=[scenario], out=out, shape=shape)
    maps, facets = _maps(scenario, _two(x, y), facet, tuple(without or ()), yes, tuple(catalog or ()))
    document = crossover_document(maps, facets)

    def render(screen: Screen) -> str:
        return _rendered(document, shape, screen)

    if plots.files:
        from planner.render.figures.crossover import crossover_figures

        plots.write(crossover_figures(document), f"planner map: {document['scenario']}")
    if out is not None or quiet < 2:
        write_result(render, out)
    return 0


def _two(x: list[str], y: list[str]) -> tuple[str, str]:
    """Each axis once."""
    from planner.errors import Fault, InputError

    if len(x) + len(y) > 2:
        text = f"{len(x) + len(y)} axes; a map has two: give --x and --y once, and cut it with --facet"
        raise InputError([Fault(text)])
    return x[0], y[0]


def _rendered(document: dict[str, Any], shape: MapFormat, screen: Screen) -> str:
    from planner.render import crossover as drawn
    from planner.render.json import to_json

    if shape is MapFormat.json:
        return to_json(document)
    if shape is MapFormat.csv:
        return drawn.to_csv(document)
    if shape is MapFormat.html:
        return drawn.to_html(document)
    if shape is MapFormat.svg:
        return drawn.to_svg(document)
    return drawn.to_text(document, screen.pen)


def _maps(
    path: Path,
    axes: tuple[str, str],
    facet: str | None,
    without: tuple[str, ...],
    yes: bool,
    catalog: tuple[Path, ...],
) -> tuple[list[CrossoverMap], list[dict[str, str]]]:
    """Every map asked for. Raises InputError with what is wrong with the options, then with the file."""
    from planner.errors import FieldError, InputError
    from planner.files.axes import check_size, read_axes
    from planner.files.scenario import field_fault, load_scenario
    from planner.files.yamlfile import load

    x, y = read_axes(*axes)
    key, values = _facet(facet)
    check_size((x, y), max(len(values), 1), yes)
    scenario = load_scenario(path, catalog)
    cuts = [(_cut(scenario, key, value, path, catalog), {key: value}) for value in values] or [(scenario, {})]
    try:
        from planner.sizing.crossover.map import crossover_map

        _check_terms(without)
        told = _progress(len(cuts))
        maps = [crossover_map(cut, x, y, without, told(index)) for index, (cut, _) in enumerate(cuts)]
    except FieldError as error:
        raise InputError([field_fault(load(path), error)]) from error
    return maps, [chosen for _, chosen in cuts]


def _check_terms(without: Sequence[str]) -> None:
    from planner.errors import Fault, InputError
    from planner.files.nearest import did_you_mean
    from planner.sizing.crossover.cells import TERMS

    wrong = [f'--without: "{term}" is no term; {did_you_mean(term, TERMS)}' for term in without if term not in TERMS]
    if wrong:
        raise InputError([Fault(text) for text in wrong])


def _facet(text: str | None) -> tuple[str, list[str]]:
    from planner.errors import Fault, InputError
    from planner.files.nearest import did_you_mean

    if text is None:
        return "", []
    key, equals, written = text.partition("=")
    values = [value.strip() for value in written.split(",") if value.strip()]
    if key not in FACETS:
        raise InputError([Fault(f'--facet: "{key}" is no facet; {did_you_mean(key, FACETS)}')])
    if not equals or not values:
        raise InputError([Fault(f"--facet {key}: want {key}=A,B with at least one value")])
    return key, values


def _cut(scenario: Scenario, key: str, value: str, path: Path, catalog: tuple[Path, ...]) -> Scenario:
    """The scenario with another model or accelerator."""
    from planner.errors import Fault, InputError
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
        raise InputError([Fault(f'--facet accelerator: "{value}" is not known; {near}')]) from None
    return replace(scenario, prefill_accelerators=(accelerator,), decode_accelerators=(accelerator,))


def _progress(count: int) -> Callable[[int], Callable[[int, int], None] | None]:
    """Progress of each map on stderr, on a terminal only and after the first second."""
    started = time.monotonic()

    def of(index: int) -> Callable[[int, int], None] | None:
        def tell(done: int, total: int) -> None:
            if time.monotonic() - started > QUIET_S and (done < total or index + 1 < count):
                sys.stderr.write(f"\r{index * total + done:,} of {count * total:,} cells")
                sys.stderr.flush()
            elif time.monotonic() - started > QUIET_S:
                sys.stderr.write("\r\033[K")

        return tell if sys.stderr.isatty() else None

    return of
