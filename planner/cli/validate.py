"""`planner validate`: measured runs in, predictions and their error out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from planner.cli.options import CatalogOption, CoverageOption, OutOption
from planner.errors import Fault, InputError

if TYPE_CHECKING:
    from planner.calibration.validate import Finder
    from planner.records import EngineProfile, ModelShape
    from planner.render.text import Pen


ModelsOption = Annotated[
    Path | None,
    typer.Option("--models", metavar="DIR", help="Folder of config.json files named org--name.json."),
]


def validate(
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="Measured runs, CSV, one a row.", show_default=False)
    ] = None,
    result: Annotated[
        Path | None, typer.Option("--result", metavar="BENCH", help="Result of a benchmark tool, held against --plan.")
    ] = None,
    plan: Annotated[
        Path | None, typer.Option("--plan", metavar="RESULT", help="Saved result of what was built, JSON.")
    ] = None,
    shape: Annotated[
        Literal["table", "csv", "json"], typer.Option("--format", help="table of errors; csv or json with every run.")
    ] = "table",
    models: ModelsOption = None,
    coverage: CoverageOption = None,
    out: OutOption = None,
    catalog: CatalogOption = None,
) -> int:
    """Compare predictions with measured runs.

    Every run is a closed loop: so many requests in flight on one deployment. Each is predicted, or said why not.

    With --result and --plan: a benchmark of what was built beside the plan it was built from. Each statistic is inside
    its interval or not; where one is not, the term that explains it best is named: step time, wait, admission or hit
    ratio. The result may also be that of `planner simulate --format json`.

    Exit code 0 when every row or statistic was compared, 2 when a file is at fault.
    """
    if result is not None or plan is not None:
        _against_plan(file, result, plan, shape, out)
        return 0
    if file is None:
        raise InputError("give FILE with measured runs, or --result with --plan")
    from planner.calibration.validate import predict_rows
    from planner.cli.formats import write
    from planner.files.measurements import read_table
    from planner.render.accuracy import to_csv, to_document, to_text

    find = finder(tuple(catalog or ()), models)
    if coverage is not None:
        find = replace(find, engine=_covering(find.engine, coverage))
    write(predict_rows(read_table(file), find), shape, out, to_text, {"json": to_document, "csv": to_csv})
    return 0


def _against_plan(file: Path | None, result: Path | None, plan: Path | None, shape: str, out: Path | None) -> None:
    """Every run of a benchmark's result beside one plan."""
    from planner.calibration.agreement import agreement
    from planner.cli.formats import write
    from planner.files.benchmarks import read_statistics
    from planner.files.results import believed_whole, load_one
    from planner.render.agreement import to_document, to_text
    from planner.render.json import to_json

    if file is not None or result is None or plan is None:
        raise InputError("--result and --plan go together, without FILE")
    if shape == "csv":
        raise InputError("--format csv is for tables of runs; a benchmark is held against a plan as table or json")
    document = load_one(plan)
    runs = read_statistics(result)
    if document["prediction"] is None:
        raise InputError([Fault("has no prediction to compare with", str(plan))])
    with believed_whole(plan):
        coverage = float(document["prediction"]["coverage"])
        found = [
            (run.name, agreement(document, run.seconds, run.requests_per_s, run.input_tokens, run.output_tokens))
            for run in runs
        ]

    def as_json(_: object) -> str:
        return to_json({"plan": str(plan), "runs": [to_document(one, name, coverage) for name, one in found]})

    def as_text(_: object, pen: Pen) -> str:
        return "\n".join(to_text(one, name, str(plan), coverage, pen) for name, one in found)

    write(found, shape, out, as_text, {"json": as_json})


def _covering(engine: Callable[[str], EngineProfile], coverage: float) -> Callable[[str], EngineProfile]:
    from planner.cli.reading import covering

    covering(engine("generic"), coverage)  # a coverage that is none is a fault of its own, of no row
    return lambda name: covering(engine(name), coverage)


def finder(catalog_dirs: tuple[Path, ...], models: Path | None) -> Finder:
    """Looks names up in the folder of configs, then in the catalog."""
    from planner.calibration.validate import Finder
    from planner.files.catalog import Catalog

    hardware = Catalog(catalog_dirs)
    return Finder(_models(catalog_dirs, models), hardware.accelerator, hardware.engine)


def _models(catalog_dirs: tuple[Path, ...], folder: Path | None) -> Callable[[str], ModelShape]:
    from planner.files.models import load_model, load_model_file

    if folder is not None and not folder.is_dir():
        raise InputError([Fault("no such folder", str(folder))])
    known: dict[str, ModelShape] = {}

    def find(name: str) -> ModelShape:
        if name not in known:
            path = folder / f"{name.replace('/', '--')}.json" if folder else None
            if path is not None and path.is_file():
                known[name] = load_model_file(path)
            else:
                known[name] = _from_catalog(name)
        return known[name]

    def _from_catalog(name: str) -> ModelShape:
        try:
            return load_model(name, Path(), catalog_dirs)
        except InputError:
            raise KeyError(name) from None

    return find
