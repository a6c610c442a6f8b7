"""`planner explain`: where a number of a result comes from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from planner.cli.options import CatalogOption, Format, FormatOption, OutOption


def explain(
    result: Annotated[
        Path | None, typer.Argument(metavar="RESULT", help="A result, JSON, or a scenario, YAML, which is computed.")
    ] = None,
    field: Annotated[
        str | None, typer.Argument(metavar="FIELD", help="A number of it, such as ttft.p99 or usd_per_hour.")
    ] = None,
    listing: Annotated[
        bool, typer.Option("--list", help="List the numbers of RESULT with their formulas; all formulas without one.")
    ] = False,
    shape: FormatOption = "table",
    out: OutOption = None,
    catalog: CatalogOption = None,
) -> int:
    """Show where a number comes from.

    The tree goes from the number to formulas, with equation and source, and ends at inputs and catalog values. A
    formula is arithmetic on the numbers below it; a law depends on them.

    Exit code 2 when there is no such number; the nearest names are told.
    """
    from planner.errors import InputError

    if listing:
        return _list(result, shape, out, catalog)
    if result is None or field is None:
        raise InputError("explain wants a RESULT and a FIELD, or --list")
    from planner.cli.formats import write
    from planner.cli.reading import trusted
    from planner.render.explain import explain_text

    found = _one(result, catalog)
    with trusted(result):
        write(_explained(found, field, str(result)), shape, out, explain_text)
    return 0


def _explained(document: dict[str, Any], field: str, name: str) -> dict[str, Any]:
    from planner.errors import Fault, InputError
    from planner.files.nearest import did_you_mean
    from planner.review.explain import UnknownField, explain_document
    from planner.units import shown

    try:
        return explain_document(document, field)
    except UnknownField as error:
        if field in error.known:
            raise InputError([Fault(f"{shown(field)} is not known in this result", name)]) from None
        near = did_you_mean(field, error.known)
        raise InputError([Fault(f"{shown(field)} is no number of this result; {near}", name)]) from None


def _list(result: Path | None, shape: Format, out: Path | None, catalog: list[Path] | None) -> int:
    from planner.cli.formats import write
    from planner.cli.reading import trusted
    from planner.render.explain import fields_text, formulas_text
    from planner.review.explain import listed

    if result is None:
        write(listed(), shape, out, formulas_text)
        return 0
    found = _one(result, catalog)
    with trusted(result):
        write(listed(found), shape, out, fields_text)
    return 0


def _one(path: Path, catalog: list[Path] | None) -> dict[str, Any]:
    from planner.cli.reading import document_of
    from planner.files.results import only_one

    return only_one(document_of(path, catalog), path)
