"""`planner export`: a plan in, launch files of a serving engine or a cluster out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from planner.cli.options import CatalogOption, QuietOption

NOTHING_FITS = 1


TargetName = Literal["vllm", "sglang", "tensorrt-llm", "dynamo", "llm-d", "kserve"]


def export(
    source: Annotated[Path, typer.Argument(metavar="SCENARIO|RESULT.json", help="A scenario, or a saved result.")],
    to: Annotated[TargetName, typer.Option("--to", help="What the files are for.")],
    out: Annotated[Path, typer.Option("-o", "--out", metavar="DIR", help="New directory for the files.")],
    force: Annotated[bool, typer.Option("--force", help="Replace the directory if there is one.")] = False,
    engine_version: Annotated[
        str, typer.Option("--engine-version", metavar="V", help="Version of the engine; else the catalog's.")
    ] = "",
    connector: Annotated[
        Literal["nixl", "mooncake", "lmcache"] | None,
        typer.Option("--connector", help="What moves caches; else the target's usual one."),
    ] = None,
    catalog: CatalogOption = None,
    quiet: QuietOption = 0,
) -> int:
    """Write launch files of a plan.

    Of a scenario the plan is its own `deployment:`, else what `planner size` finds. Where the target runs another
    engine than the scenario names, the plan is made again for that one.

    Exit code 0 when the files are written, 1 when nothing fits or the engine cannot run the plan, 2 when the input is
    at fault.
    """
    from planner.cli.exporting import Refused, planned, write_directory
    from planner.cli.streams import tell
    from planner.export.bundle import TARGETS

    target = TARGETS[to]
    try:
        files, told = planned(source, target, connector or "", engine_version, tuple(catalog or ()))
    except Refused as refusal:
        tell(str(refusal))
        return NOTHING_FITS
    write_directory(out, files, force)
    if quiet < 2:
        for line in told:
            tell(line)
        tell(f"{len(files)} files for {target.title} in {out}; start with {out / 'README.md'}")
    return 0
