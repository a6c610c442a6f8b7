"""`planner diff`: what changed between two results, or two scenarios, and why."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer

from planner.cli.options import CatalogOption, OutOption, QuietOption, VerboseOption

DIFFERENT = 1


def diff(
    old: Annotated[Path, typer.Argument(metavar="OLD", help="A result, JSON, or a scenario, YAML.")],
    new: Annotated[Path, typer.Argument(metavar="NEW", help="The same, later.")],
    exit_code: Annotated[bool, typer.Option("--exit-code", help="Exit 1 when anything differs, as git does.")] = False,
    shape: Annotated[
        Literal["table", "json", "markdown", "html"],
        typer.Option("--format", help="table for people, json for programs, markdown for a comment, html: a page."),
    ] = "table",
    out: OutOption = None,
    catalog: CatalogOption = None,
    verbose: VerboseOption = 0,
    quiet: QuietOption = 0,
) -> int:
    """Say what changed between two results, and why.

    Inputs come first, then catalog values, then results: improved, regressed, changed, added or removed, with the
    cause where a single input explains it. A scenario is computed first: evaluated when it holds a deployment, else
    sized.

    Exit code 0; with --exit-code 1 when anything differs. 2 when a file cannot be read.
    """
    from planner.cli.formats import write
    from planner.cli.reading import document_of, trusted
    from planner.cli.streams import tell
    from planner.render.diff import diff_markdown, diff_page, diff_text, headline
    from planner.review.diff import diffs_document

    ours, theirs = document_of(old, catalog), document_of(new, catalog)
    with trusted(old, new):
        document = diffs_document(ours, theirs, str(old), str(new))
        table = partial(diff_text, every=verbose > 0, notes=not quiet)
        write(document, shape, out, table, {"markdown": diff_markdown, "html": diff_page}, quiet)
    if out is not None and quiet < 2:
        for one in document.get("diffs", [document]):
            tell(f"{headline(one)}  ({out})")
    return DIFFERENT if exit_code and document["verdict"] != "unchanged" else 0
