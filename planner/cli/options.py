"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

# Formats of a result: `table` is for people, `json` for programs, and a page is `html`.
Format = Literal["table", "json"]
PageFormat = Literal[Format, "html"]
ResultFormat = Literal[Format, "csv", "yaml", "markdown", "html"]
CheckFormat = Literal[ResultFormat, "junit", "sarif", "github"]
FormatOption = Annotated[Format, typer.Option("--format", help="table for people, json for programs.")]
PageFormatOption = Annotated[
    PageFormat, typer.Option("--format", help="table for people, html: a page, json for programs.")
]
ResultFormatOption = Annotated[
    ResultFormat, typer.Option("--format", help="table, markdown and html for people; the rest for programs.")
]
CheckFormatOption = Annotated[
    CheckFormat,
    typer.Option(
        "--format", help="table, markdown and html for people; junit, sarif and github for CI; the rest for programs."
    ),
]
OutOption = Annotated[
    Path | None, typer.Option("--out", metavar="FILE", help="Write the result to FILE, whole or not at all.")
]
CatalogOption = Annotated[
    list[Path] | None,
    typer.Option("--catalog", metavar="DIR", help="Folder of your own hardware and models; may be given again."),
]
CurrencyOption = Annotated[
    str,
    typer.Option(
        "--currency",
        metavar="CODE=USD",
        show_default="USD",
        help="Show people money in it, e.g. EUR=1.09: 1.09 USD each.",
    ),
]
CoverageOption = Annotated[
    float | None,
    typer.Option("--coverage", metavar="SHARE", help="Share of measured runs that intervals hold, 0.5 to 0.99 [0.8]."),
]
VerboseOption = Annotated[
    int,
    typer.Option(
        "-v",
        "--verbose",
        count=True,
        show_default=False,
        help="Every detail, input and assumption with sources; -vv: tracebacks too.",
    ),
]
QuietOption = Annotated[
    int, typer.Option("-q", "--quiet", count=True, show_default=False, help="No notes; -qq: the exit code only.")
]


def quantity(option: str, text: str, kind: str) -> float:
    """The value of an option with a unit, in base units. InputError with what was wanted."""
    from planner.errors import InputError
    from planner.units import parse

    try:
        return parse(text, kind)
    except ValueError as error:
        raise InputError(f"{option}: {error}") from None


def examples(*lines: str) -> str:
    """The end of a help page. The mark in front keeps the lines from being joined."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)
