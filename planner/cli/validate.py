"""`planner validate`: measured runs in, predictions and their error out."""

from __future__ import annotations

import enum
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli.options import CatalogOption, OutOption

if TYPE_CHECKING:
    from planner.calibration.validate import Finder
    from planner.cli.streams import Screen
    from planner.records import ModelShape


class RowFormat(enum.StrEnum):
    """How predictions are written."""

    table = "table"
    csv = "csv"
    json = "json"


ModelsOption = Annotated[
    Path | None,
    typer.Option("--models", metavar="DIR", help="Folder of config.json files named org--name.json."),
]


def validate(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Measured runs, CSV, one a row.")],
    shape: Annotated[
        RowFormat, typer.Option("--format", help="table of errors; csv or json with every run.")
    ] = RowFormat.table,
    models: ModelsOption = None,
    out: OutOption = None,
    catalog: CatalogOption = None,
) -> int:
    """Compare predictions with measured runs.

    Every run is a closed loop: so many requests in flight on one deployment. Each is predicted, or said why not.

    Exit code 0 when every row was handled, 2 when the file is at fault.
    """
    from planner.calibration.validate import predict_rows
    from planner.cli.streams import write_result
    from planner.files.measurements import read_table

    rows = predict_rows(read_table(file), finder(tuple(catalog or ()), models))

    def render(screen: Screen) -> str:
        from planner.render import accuracy

        if shape is RowFormat.csv:
            return accuracy.to_csv(rows)
        if shape is RowFormat.json:
            return accuracy.to_document(rows)
        return accuracy.to_text(rows, screen.pen)

    write_result(render, out)
    return 0


def finder(catalog_dirs: tuple[Path, ...], models: Path | None) -> Finder:
    """Looks names up in the folder of configs, then in the catalog."""
    from planner.calibration.validate import Finder
    from planner.files.catalog import Catalog

    hardware = Catalog(catalog_dirs)
    return Finder(_models(catalog_dirs, models), hardware.accelerator, hardware.engine)


def _models(catalog_dirs: tuple[Path, ...], folder: Path | None) -> Callable[[str], ModelShape]:
    from planner.errors import Fault, InputError
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
