"""`planner render`: a saved result in another format, without computing anything."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from planner.cli.options import CheckFormat, CheckFormatOption, OutOption, QuietOption, VerboseOption


def render(
    file: Annotated[Path, typer.Argument(metavar="RESULT", help="A result that --format json wrote.")],
    shape: CheckFormatOption = CheckFormat.table,
    out: OutOption = None,
    verbose: VerboseOption = 0,
    quiet: QuietOption = 0,
) -> int:
    """Write a saved result in another format.

    Reads what size, evaluate and check write with --format json. Nothing is computed again.

    Exit code 0, whatever the verdict; 2 when the file is no result, or one of another schema version.
    """
    from planner.cli.formats import write_document
    from planner.cli.streams import check_out
    from planner.errors import Fault, InputError
    from planner.files.results import REDO, load_result

    check_out(out, [file])
    result = load_result(file)
    try:
        write_document(result, shape.value, out, verbose, quiet)
    except (KeyError, TypeError, IndexError, AttributeError, ValueError) as error:  # a file may say anything inside
        told = f"is no whole result: {type(error).__name__}: {str(error)[:60]}; {REDO}"
        raise InputError([Fault(told, str(file))]) from error
    return 0
