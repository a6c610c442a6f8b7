"""`planner hardware` and `planner model`: what the catalog holds, with sources."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from planner.cli.options import CatalogOption, Format, FormatOption

if TYPE_CHECKING:
    from planner.render.text import Pen


def hardware_list(shape: FormatOption = Format.table, catalog: CatalogOption = None) -> int:
    """List the accelerators of the catalog."""
    from planner.files.catalog import listing
    from planner.render.catalog import hardware_list_text

    entries = _short(listing(tuple(catalog or ())))
    _write(shape, entries, lambda pen: hardware_list_text(entries, pen))
    return 0


def hardware_show(
    name: Annotated[str, typer.Argument(metavar="ID", help="An accelerator of `planner hardware list`, or an alias.")],
    shape: FormatOption = Format.table,
    catalog: CatalogOption = None,
) -> int:
    """Show every value of an accelerator with its unit, source, date and kind, and its efficiencies."""
    from planner.errors import InputError
    from planner.files.catalog import Catalog
    from planner.files.nearest import did_you_mean
    from planner.render.catalog import hardware_text
    from planner.review.catalog import hardware_document

    opened = Catalog(tuple(catalog or ()))
    try:
        accelerator = opened.accelerator(name)
    except KeyError:
        near = did_you_mean(name, opened.accelerator_ids())
        raise InputError(f'unknown accelerator "{name}"; {near}') from None
    document = hardware_document(accelerator)
    _write(shape, document, lambda pen: hardware_text(document, pen))
    return 0


def model_list(shape: FormatOption = Format.table, catalog: CatalogOption = None) -> int:
    """List the models of the catalog."""
    from planner.files.models import summaries
    from planner.render.catalog import model_list_text

    entries = _short(summaries(tuple(catalog or ())))
    _write(shape, entries, lambda pen: model_list_text(entries, pen))
    return 0


def model_show(
    reference: Annotated[str, typer.Argument(metavar="REF", help="A catalog id, a config.json, or a folder with one.")],
    shape: FormatOption = Format.table,
    kv_dtype: Annotated[str, typer.Option("--kv-dtype", help="Format of the KV cache: bf16 or fp8.")] = "bf16",
    catalog: CatalogOption = None,
) -> int:
    """Show what a model takes: parameters, layers, KV bytes per token, weights per format, ways to split it."""
    from planner.errors import FieldError, InputError
    from planner.files.models import load_model
    from planner.render.catalog import model_text
    from planner.review.catalog import model_document

    try:
        document = model_document(load_model(reference, Path.cwd(), tuple(catalog or ())), kv_dtype)
    except FieldError as error:
        where = "--kv-dtype" if error.field == "kv_cache" else error.field
        raise InputError(f"{where}: {error.message}") from error
    _write(shape, document, lambda pen: model_text(document, pen))
    return 0


def _short(entries: Sequence[Any]) -> list[dict[str, Any]]:
    """Listing records as plain values, without where their files lie on this machine."""
    from dataclasses import asdict

    return [{name: value for name, value in asdict(entry).items() if name != "path"} for entry in entries]


def _write(shape: Format, values: Any, text: Callable[[Pen], str]) -> None:
    from planner.cli.streams import write_result
    from planner.render.json import to_json
    from planner.render.text import Pen

    if shape is Format.json:
        write_result(lambda _: to_json(values), None)
    else:
        write_result(lambda seen: text(Pen(seen.width, seen.unicode, seen.color)), None)
