"""`planner init`: a commented scenario to begin from, and the schema that editors check it by."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli.options import CatalogOption

if TYPE_CHECKING:
    from planner.records import Scenario

SCHEMA_NAME = "scenario.schema.json"
_PLAIN = re.compile(r"[A-Za-z0-9./~][\w./~+-]*")

TEMPLATE = """\
# yaml-language-server: $schema={schema}
# One question: what to buy so that this model serves this traffic inside these limits.
#   planner size {name}     the answer
#   planner check {name}    exit code 1 when a limit below is broken, for pipelines

version: 1
model: {model}  # an id of `planner model list`, or the path of a config.json
# weights: fp8              # format to serve the weights in; as the checkpoint is stored otherwise
# kv_cache: fp8             # bf16 otherwise
engine: {engine}  # vllm, sglang, tensorrt-llm or generic

hardware:
  accelerators: [{accelerators}]  # candidates, ids of `planner hardware list`
  # network: 400 Gb/s       # per accelerator; its usual network card otherwise

workload:
  requests: {rate}  # mean rate; a peak is `peak: {{factor: 1.5, duration: 10 min}}`
  input_tokens: {{mean: 2000, p99: 8000}}
  output_tokens: {{mean: 300, p99: 1200}}
  # trace: traffic.csv      # real requests instead of the three lines above

targets:  # any of mean, p50, p90, p95, p99, p99.9
  ttft: {{p99: 5 s}}  # time to the first token
  itl: {{p99: 100 ms}}  # gap between two tokens

# budgets:                  # hard limits, kept by the search and checked by `planner check`
#   accelerators: 64
#   usd_per_hour: 200 USD/h
"""


def init(
    model: Annotated[str, typer.Option("--model", metavar="MODEL", help="Catalog id, or a config.json.")] = (
        "meta-llama/Llama-3.1-8B"
    ),
    accelerator: Annotated[
        list[str] | None,
        typer.Option("--accelerator", metavar="ID", show_default="h100-sxm", help="A candidate; may be given again."),
    ] = None,
    rate: Annotated[str, typer.Option("--rate", metavar="RATE", help="Mean request rate, with a unit.")] = "5 /s",
    engine: Annotated[str, typer.Option("--engine", metavar="ENGINE", help="Serving engine.")] = "vllm",
    out: Annotated[Path, typer.Option("-o", "--out", metavar="FILE", help="Scenario to write.")] = Path(
        "scenario.yaml"
    ),
    force: Annotated[bool, typer.Option("--force", help="Write over a scenario that exists.")] = False,
    catalog: CatalogOption = None,
) -> int:
    """Write a commented scenario that can be sized at once.

    It asks nothing, and says so where nothing fits yet. Beside it goes scenario.schema.json, by which editors complete
    and check it.

    Exit code 2 when the file exists already, or an option names nothing known.
    """
    from planner.cli.streams import tell, write_result
    from planner.errors import Fault, InputError
    from planner.files.scenario import parse_scenario
    from planner.files.schema import scenario_schema
    from planner.render.json import to_json

    if out.exists() and not force:
        raise InputError([Fault("exists already; give --force to write over it, or -o FILE", str(out))])
    schema = out.with_name(SCHEMA_NAME)
    text = TEMPLATE.format(
        schema=SCHEMA_NAME,
        name=out.name,
        model=_scalar(model),
        engine=_scalar(engine),
        accelerators=", ".join(map(_scalar, accelerator or ["h100-sxm"])),
        rate=_scalar(rate) if not re.fullmatch(r"[\w. ]+/\w+", rate) else rate,
    )
    asked = parse_scenario(text.encode("utf-8", "surrogateescape"), out, tuple(catalog or ()))
    write_result(lambda _: text, out)
    write_result(lambda _: to_json(scenario_schema()), schema)
    in_the_way = _in_the_way(asked)
    if in_the_way:
        tell(f"nothing fits yet ({in_the_way}): change its targets, weights or accelerators")
    tell(f"{out} and {schema} written; next: planner size {out}")
    return 0


def _in_the_way(scenario: Scenario) -> str:
    """Why no plan is found for a scenario; empty where one is."""
    from planner import sizing
    from planner.errors import FieldError

    try:
        plan = sizing.size(scenario)
    except FieldError as error:
        return error.message
    return "" if plan.verdict == "feasible" else ", ".join(limit.name for limit in plan.missed or plan.limits)


def _scalar(text: str) -> str:
    """Text as a YAML scalar, quoted where it would read as something else."""
    return text if _PLAIN.fullmatch(text) else json.dumps(text)
