"""`planner claims`: what is said about disaggregation, put to the test."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from planner.cli.options import CatalogOption, OutOption

DENSE, LATENT = "meta-llama/Llama-3.1-70B", "deepseek-ai/DeepSeek-V3"
ACCELERATOR, LARGE, ENGINE = "h100-sxm", "h200-sxm", "vllm"
NETWORK_BYTES_PER_S = 50e9  # 400 Gb/s per accelerator


def claims(
    name: Annotated[str, typer.Argument(metavar="[NAME]", help="One claim; all of them by default.")] = "",
    shape: Annotated[
        Literal["table", "json", "markdown"],
        typer.Option("--format", help="table for people, json for programs, markdown for docs/claims.md."),
    ] = "table",
    out: OutOption = None,
    catalog: CatalogOption = None,
) -> int:
    """Put the claims about disaggregated serving to the test.

    Each is computed by the model that sizes plans, with a verdict, the cases it spans, and when it would be right.

    Exit code 0 whatever the verdicts, 2 for a claim that does not exist.
    """
    from planner.cli.formats import write
    from planner.errors import InputError
    from planner.files.catalog import Catalog
    from planner.files.models import load_model
    from planner.files.nearest import did_you_mean
    from planner.render.claims import to_document, to_markdown, to_text
    from planner.sizing.claims import CLAIMS
    from planner.sizing.claims import claims as computed
    from planner.sizing.claims.bench import Bench

    if name and name not in CLAIMS:
        raise InputError(f'"{name}" is no claim; {did_you_mean(name, CLAIMS)}')
    folders = tuple(catalog or ())
    opened = Catalog(folders)
    bench = Bench(
        dense=load_model(DENSE, Path(), folders),
        latent=load_model(LATENT, Path(), folders),
        accelerator=opened.accelerator(ACCELERATOR),
        large=opened.accelerator(LARGE),
        engine=opened.engine(ENGINE),
        network_bytes_per_s=NETWORK_BYTES_PER_S,
    )
    write(computed(bench, name), shape, out, to_text, {"json": to_document, "markdown": to_markdown})
    return 0
