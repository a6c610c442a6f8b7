"""The command line: commands, groups and their help pages."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from planner import __version__
from planner.cli import (
    calibrate,
    catalog,
    check,
    claims,
    compare,
    diff,
    explain,
    export,
    init,
    kv,
    map,
    render,
    sessions,
    settings,
    simulate,
    size,
    trace,
    validate,
    whatif,
)
from planner.cli.main import verbosity
from planner.cli.options import examples
from planner.cli.streams import checked_out

SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


def _group(name: str, *shown: str) -> typer.Typer:
    """A group of commands, whose help page shows examples."""
    return typer.Typer(
        name=name,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        no_args_is_help=True,
        context_settings=SETTINGS,
        epilog=examples(*shown),
    )


app = _group(
    "planner",
    "planner size scenario.yaml",
    "planner size scenario.yaml --format json --out result.json",
    "planner hardware show h200-sxm",
)
hardware = _group("hardware", "planner hardware list", "planner hardware show h200-sxm")
model = _group("model", "planner model list", "planner model show meta-llama/Llama-3.1-70B")
traces = _group("trace", "planner trace show traffic.csv", "planner trace show my-sessions --eviction leaf-first")
app.add_typer(hardware, help="Accelerators and systems of the catalog.")
app.add_typer(model, help="Models of the catalog, and config.json files.")
app.add_typer(traces, help="Traces of requests.")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"planner {__version__}")
        raise typer.Exit


@app.callback()
def _planner(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("-V", "--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            metavar="FILE",
            help="Defaults of the project; else $PLANNER_CONFIG, else the nearest planner.yaml.",
        ),
    ] = None,
) -> None:
    """What to buy, and how to split it, so that a language model serves its traffic inside its latency targets."""
    if not {"-h", "--help"} & set(sys.argv):
        settings.apply(context, config, verbosity(sys.argv[1:]) > 0)


def _add(group: typer.Typer, name: str, function: Callable[..., int], *shown: str) -> None:
    """A command, with examples on its help page; all but those that write a folder or two files check their --out."""
    command = function if function in (export.export, init.init) else checked_out(function)
    group.command(name, epilog=examples(*shown), context_settings=SETTINGS)(command)


_add(
    app,
    "size",
    size.size,
    "planner size scenario.yaml",
    "planner size scenario.yaml -v",
    "planner size scenario.yaml --catalog my-hardware --format json --out result.json",
)
_add(
    app,
    "evaluate",
    size.evaluate,
    "planner evaluate scenario.yaml",
    "planner evaluate scenario.yaml --format json",
    "planner evaluate scenario.yaml --from run.sh",
)
_add(
    app,
    "check",
    check.check,
    "planner check scenario.yaml",
    "planner check plans/*.yaml --strict --format junit --out checks.xml",
    "planner check scenario.yaml --baseline main.json --format markdown",
)
_add(
    app,
    "render",
    render.render,
    "planner render result.json",
    "planner render result.json --format html --out result.html",
    "planner render checks.json --format markdown",
)
_add(app, "kv", kv.kv, "planner kv scenario.yaml", "planner kv scenario.yaml --format json --out kv.json")
_add(
    app, "compare", compare.compare, "planner compare scenario.yaml", "planner compare scenario.yaml --format markdown"
)
_add(
    app,
    "map",
    map.crossover,
    "planner map scenario.yaml --x input_tokens=256..131072 --y concurrency=1..1024",
    "planner map scenario.yaml --x itl=10ms..200ms:20 --y rate=1/s..200/s:20 --plot map.svg",
    "planner map scenario.yaml --x rate=1/s..99/s --y ttft=100ms..10s --without transfer --format json",
)
_add(app, "claims", claims.claims, "planner claims", "planner claims chunk-loss --format json")
_add(
    app,
    "simulate",
    simulate.simulate,
    "planner simulate scenario.yaml",
    "planner simulate scenario.yaml --requests 100000 --router round-robin",
    "planner simulate scenario.yaml --format json --seed 7",
)
_add(
    app,
    "whatif",
    whatif.whatif,
    "planner whatif scenario.yaml",
    "planner whatif scenario.yaml --vary load=0.5..2:16",
    "planner whatif scenario.yaml --vary step-time=0.8..1.3 --format json",
)
_add(
    app,
    "validate",
    validate.validate,
    "planner validate runs.csv",
    "planner validate runs.csv --format csv --models my-configs",
    "planner validate --result bench.json --plan plan.json",
)
_add(
    app,
    "calibrate",
    calibrate.calibrate,
    "planner calibrate result.json --deployment scenario.yaml -o my-catalog/engines/vllm.yaml",
)
_add(
    app,
    "export",
    export.export,
    "planner export scenario.yaml --to vllm -o launch",
    "planner export result.json --to dynamo -o launch --force",
    "planner export scenario.yaml --to llm-d --connector mooncake -o launch",
)
_add(
    traces,
    "show",
    trace.trace_show,
    "planner trace show traffic.csv",
    "planner trace show mooncake.jsonl --capacity-blocks 1000,5000 --format json",
    'planner trace show my-sessions --eviction leaf-first --stagger "60 s"',
)
_add(
    traces,
    "sessions",
    sessions.trace_sessions,
    'planner trace sessions --users 200 --turns 20 --growth-tokens 1500 --output-tokens 400 --think "30 s"',
    'planner trace sessions --users 50 --turns 40 --growth-tokens 2000 --output-tokens 300 --think "10 s" '
    '--sub-agents "children=4,every_turns=8,turns=6,shared_tokens=9000,first_tokens=500,growth_tokens=2000,'
    'output_tokens=300,gap=5 s"',
)
_add(
    app,
    "diff",
    diff.diff,
    "planner diff main.json branch.json",
    "planner diff old.yaml new.yaml --exit-code",
    "planner diff main.json branch.json --format markdown --out comment.md",
)
_add(
    app,
    "explain",
    explain.explain,
    "planner explain result.json ttft.p99",
    "planner explain scenario.yaml usd_per_mtok_output",
    "planner explain --list",
)
_add(
    app,
    "init",
    init.init,
    "planner init",
    "planner init --model Qwen/Qwen3-32B --accelerator h200-sxm --rate '20 /s' -o chat.yaml",
)
_add(
    app,
    "schema",
    catalog.schema,
    "planner schema scenario > scenario.schema.json",
    "planner schema hardware > accelerator.schema.json",
    "planner schema result --draft 2020-12",
)
_add(
    hardware,
    "list",
    catalog.hardware_list,
    "planner hardware list",
    "planner hardware list --sort hbm_bandwidth",
    "planner hardware list --systems",
    "planner hardware list --format json",
)
_add(hardware, "show", catalog.hardware_show, "planner hardware show h200-sxm", "planner hardware show gb300-nvl72")
_add(
    hardware,
    "lint",
    catalog.hardware_lint,
    "planner hardware lint my-hardware",
    "planner hardware lint hardware/accelerators/my-card.yaml",
)
_add(model, "list", catalog.model_list, "planner model list", "planner model list --kind moe")
_add(
    model,
    "import",
    catalog.model_import,
    "planner model import ./my-model/config.json",
    "planner model import ./my-model -o my-catalog/models/me--my-model.yaml",
)
_add(
    model,
    "show",
    catalog.model_show,
    "planner model show meta-llama/Llama-3.1-70B",
    "planner model show ./my-model/config.json --kv-dtype fp8 --format json",
    'planner model show openai/gpt-oss-120b --tokens-for "40 GB"',
)
