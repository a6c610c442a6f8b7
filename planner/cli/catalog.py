"""`planner hardware`, `planner model` and `planner schema`: what the catalog holds, with sources, and adding to it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from planner.cli.options import CatalogOption, FormatOption, quantity
from planner.cli.plots import PlotOption, check_plots

if TYPE_CHECKING:
    from planner.records import ModelShape

FINDINGS = 1
HEADER = "Written by planner model import. Keys: models/README.md"

KvOption = Annotated[str, typer.Option("--kv-dtype", help="Format of the KV cache: bf16 or fp8.")]
ReferenceArgument = Annotated[
    str, typer.Argument(metavar="REF", help="A catalog id, a config.json, or a folder with one.")
]


Sort = Literal["id", "memory", "hbm_bandwidth", "bf16", "fp8", "fp4", "scaleup", "price"]
ModelKind = Literal["dense", "moe", "mla", "sliding", "hybrid"]
SchemaKind = Literal["hardware", "model", "scenario", "result"]

# -------------------------------------------------------------------------------------------------------- accelerators


def hardware_list(
    sort: Annotated[Sort, typer.Option("--sort", help="What to sort by, the best first.")] = "id",
    systems: Annotated[
        bool, typer.Option("--systems", help="List nodes, racks and slices, by id, instead of accelerators.")
    ] = False,
    shape: FormatOption = "table",
    catalog: CatalogOption = None,
) -> int:
    """List the accelerators of the catalog, or the systems they come in."""
    from planner.cli.formats import write
    from planner.files.catalog import Catalog, listing
    from planner.render.catalog import hardware_list_text, system_list_text

    if systems:
        from planner.review.catalog import system_document

        opened = Catalog(tuple(catalog or ()))
        documents = [system_document(opened.system(name)) for name in opened.system_ids()]
        write(documents, shape, None, system_list_text)
        return 0
    entries = sorted(_short(listing(tuple(catalog or ()))), key=lambda entry: _rank(entry, sort))
    write(entries, shape, None, hardware_list_text)
    return 0


def _rank(entry: dict[str, Any], sort: Sort) -> tuple[bool, float, str]:
    """What is not known comes last; of prices the least comes first, of everything else the most."""
    fields = {
        "memory": "memory_bytes",
        "hbm_bandwidth": "memory_bytes_per_s",
        "bf16": "bf16_dense_flops_per_s",
        "fp8": "fp8_dense_flops_per_s",
        "fp4": "fp4_dense_flops_per_s",
        "scaleup": "scaleup_bytes_per_s",
    }
    if sort == "price":
        price = min(entry["usd_per_hour"].values(), default=None)
        return price is None, price or 0.0, entry["id"]
    value = entry[fields[sort]] if sort in fields else 0.0
    return value is None, -(value or 0.0), entry["id"]


def hardware_show(
    name: Annotated[
        str, typer.Argument(metavar="ID", help="An accelerator or system of `planner hardware list`, or an alias.")
    ],
    shape: FormatOption = "table",
    plot: PlotOption = None,
    catalog: CatalogOption = None,
) -> int:
    """Show every value of an accelerator or a system with its unit, source, date and kind."""
    from planner.cli.formats import write
    from planner.errors import InputError
    from planner.files.catalog import Catalog
    from planner.files.nearest import did_you_mean
    from planner.render.catalog import hardware_text, system_text
    from planner.render.figures.catalog import hardware_figures
    from planner.review.catalog import hardware_document, system_document

    plots = check_plots(plot, None, ["roofline"], shape=shape)
    opened = Catalog(tuple(catalog or ()))
    if name in opened.system_ids():
        if plots.files:
            raise InputError(f"--plot: {name} is a system; give one of its accelerators")
        write(system_document(opened.system(name)), shape, None, system_text)
        return 0
    try:
        accelerator = opened.accelerator(name)
    except KeyError:
        near = did_you_mean(name, (*opened.accelerator_ids(), *opened.system_ids()))
        raise InputError(f'unknown accelerator "{name}"; {near}') from None
    document = hardware_document(accelerator)
    figures = plots.draw(hardware_figures, document, f"planner hardware: {document['id']}")
    write(document, shape, None, hardware_text)
    plots.show(figures)
    return 0


def hardware_lint(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH...", help="Catalog folders, or files of one.")],
    shape: FormatOption = "table",
) -> int:
    """Check catalog files.

    Keys and units, a source for every value, and what known hardware contradicts: sparse peaks called dense, GB that
    are GiB, both directions of a link added, the adapters of a whole node, a generation behind the one before it.

    Exit code 0 when nothing is found, 1 when something is, 2 when there is no such file or folder.
    """
    from dataclasses import asdict

    from planner.cli.formats import write
    from planner.files.catalog_lint import lint_all

    found = lint_all(paths)
    write([asdict(fault) for fault in found], shape, None, lambda *_: "".join(f"{fault}\n" for fault in found))
    return FINDINGS if found else 0


# -------------------------------------------------------------------------------------------------------------- models


def model_list(
    kind: Annotated[ModelKind | None, typer.Option("--kind", help="Only models of this kind.")] = None,
    shape: FormatOption = "table",
    catalog: CatalogOption = None,
) -> int:
    """List the models of the catalog."""
    from planner.cli.formats import write
    from planner.files.models import of_kind, summaries
    from planner.render.catalog import model_list_text

    listed = summaries(tuple(catalog or ()))
    entries = _short([summary for summary in listed if kind is None or of_kind(summary, kind)])
    write(entries, shape, None, model_list_text)
    return 0


def model_show(
    reference: ReferenceArgument,
    shape: FormatOption = "table",
    kv_dtype: KvOption = "bf16",
    tokens_for: Annotated[
        str | None,
        typer.Option("--tokens-for", metavar="SIZE", help='Tokens of one sequence that fit, e.g. in "40 GB".'),
    ] = None,
    plot: PlotOption = None,
    catalog: CatalogOption = None,
) -> int:
    """Show what a model takes: parameters, layers, KV bytes per token, weights per format, ways to split it."""
    from planner.cli.formats import write
    from planner.render.catalog import model_text
    from planner.render.figures.catalog import model_figures

    plots = check_plots(plot, None, ["weights"], shape=shape)
    document = _model_document(_load(reference, catalog), kv_dtype, tokens_for)
    figures = plots.draw(model_figures, document, f"planner model: {document['id']}")
    write(document, shape, None, model_text)
    plots.show(figures)
    return 0


def model_import(
    path: Annotated[str, typer.Argument(metavar="PATH", help="A config.json, or a folder with one.")],
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", metavar="FILE", help="Model file to write, named after the model; else stdout."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Write over a file that exists.")] = False,
) -> int:
    """Turn a config.json into a model file of your own catalog, whole or not at all.

    What was understood goes to stderr, with what was not. Exit code 2 when the model cannot be counted.
    """
    from dataclasses import replace
    from datetime import date

    from planner.cli.streams import tell, write_result
    from planner.errors import Fault, InputError
    from planner.files.catalog_write import model_file_text
    from planner.render.catalog import model_text
    from planner.render.text import Pen
    from planner.shapes.counts import listed_counts

    if out is not None and out.suffix not in (".yaml", ".yml"):
        raise InputError([Fault("want a file that ends in .yaml", str(out))])
    if out is not None and out.exists() and not force:
        raise InputError([Fault("exists already; give --force to write over it", str(out))])
    shape = _load(path, None)
    if out is not None:
        shape = replace(shape, id=out.stem.replace("--", "/"))
    text = model_file_text(shape, listed_counts(shape), date.today().isoformat(), HEADER)
    write_result(lambda _: text, out)
    document = _model_document(shape, "bf16", None)
    tell(model_text(document, Pen()).rstrip("\n"))
    if out is not None:
        tell(f"\nwritten to {out}; put it into the models folder of a catalog, or name it as the model")
    return 0


def _load(reference: str, catalog: list[Path] | None) -> ModelShape:
    from planner.files.models import load_model

    return load_model(reference, Path(), tuple(catalog or ()))


def _model_document(shape: ModelShape, kv_dtype: str, tokens_for: str | None) -> dict[str, Any]:
    from planner.errors import FieldError, InputError
    from planner.review.catalog import model_document

    budget = None if tokens_for is None else quantity("--tokens-for", tokens_for, "bytes")
    try:
        return model_document(shape, kv_dtype, budget)
    except FieldError as error:
        where = "--kv-dtype" if error.field == "kv_cache" else error.field
        raise InputError(f"{where}: {error.message}") from error


# -------------------------------------------------------------------------------------------------------------- schema


def schema(
    kind: Annotated[SchemaKind, typer.Argument(metavar="KIND", help="scenario, hardware, model or result.")],
    draft: Annotated[
        Literal["7", "2020-12"], typer.Option("--draft", help="Of JSON Schema; editors read draft 7.")
    ] = "7",
) -> int:
    """Print the JSON Schema of a file, for completion and checks in editors and programs."""
    from planner.cli.streams import write_result
    from planner.files.catalog_schema import as_draft
    from planner.files.catalog_schema import schema as schema_of
    from planner.render.json import to_json

    if kind == "result":
        from planner.review.result_schema import result_schema as of_result

        found = of_result()
    else:
        found = schema_of(kind)
    write_result(lambda _: to_json(as_draft(found, draft)), None)
    return 0


def _short(entries: Sequence[Any]) -> list[dict[str, Any]]:
    """Listing records as plain values, without where their files lie on this machine."""
    from dataclasses import asdict

    return [{name: value for name, value in asdict(entry).items() if name != "path"} for entry in entries]
