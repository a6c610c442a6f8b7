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
    from planner.files.results import believed_whole, load_result

    check_out(out, [file])
    result = load_result(file)
    with believed_whole(file):
        write_document(result, shape.value, out, verbose, quiet)
    return 0
