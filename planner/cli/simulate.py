"""`planner simulate`: a deployment token step by token step, next to what the closed forms predict."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from planner.cli.options import CatalogOption, OutOption, PageFormatOption
from planner.cli.size import NOTHING_FITS, ScenarioArgument

if TYPE_CHECKING:
    from planner.records import Plan
    from planner.simulation.result import Simulation
    from planner.simulation.simulate import Setting

MOST_REQUESTS = 5_000_000
MOST_CLIENTS = 1_000_000


RouterName = Literal["join-shortest-queue", "fewest-prompts", "least-work", "round-robin", "random"]


def simulate(
    scenario: ScenarioArgument,
    requests: Annotated[
        int | None,
        typer.Option(
            "--requests",
            min=1,
            max=MOST_REQUESTS,
            show_default="the trace once, else 20000",
            help="Requests to measure, after a warm-up of a tenth, longer where outputs are long. Two at least "
            "where they come one by one: one alone spans no time.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="The same seed gives the same bytes.")] = 0,
    router: Annotated[
        RouterName | None,
        typer.Option("--router", show_default="the scenario's", help="What the front end goes by."),
    ] = None,
    arrival_scv: Annotated[
        float | None,
        typer.Option(
            "--arrival-scv",
            min=0.0,
            show_default="the trace, else 1: Poisson",
            help="Renewal arrivals of this squared coefficient of variation.",
        ),
    ] = None,
    clients: Annotated[
        int,
        typer.Option("--clients", min=0, max=MOST_CLIENTS, help="A closed loop of so many clients; 0: an open loop."),
    ] = 0,
    fail: Annotated[
        str,
        typer.Option(
            "--fail",
            metavar="PART[:N]",
            help="Lose one (or N) half-way through: a worker of prefill, decode or colocated; decode-drain moves a "
            "worker's requests off; prefill-network and decode-network lose a network card; cache a host of prefixes.",
        ),
    ] = "",
    restore: Annotated[
        Literal["host-dram", "local-ssd", "pool"] | None,
        typer.Option("--restore", help="Where copies of lost caches stand; else they are prefilled again."),
    ] = None,
    shape: PageFormatOption = "table",
    out: OutOption = None,
    catalog: CatalogOption = None,
) -> int:
    """Simulate a deployment token step by token step.

    It is the `deployment:` of the scenario, or the plan that `planner size` finds. Step times are the planner's own;
    waits, batches and gaps come from the simulation alone, so it is a witness of the formulas.

    Exit code 0 when every target holds in the simulation, 1 when one does not or nothing fits, 2 when the input is at
    fault.
    """
    from planner.cli.formats import write
    from planner.cli.streams import tell
    from planner.render.simulation import to_html, to_text, verdict_line
    from planner.review.simulation import simulation_document
    from planner.simulation.simulate import Setting

    _check(arrival_scv, clients)
    setting = Setting(requests or 0, seed, router, arrival_scv, clients, *_lost(fail), restore or "")
    plan, found = _run(scenario, catalog, setting)
    if found is None:
        tell("nothing to simulate: no candidate can hold the model (planner size says why)")
        return NOTHING_FITS
    result = simulation_document(plan, found, setting)
    write(result, shape, out, to_text, {"html": to_html})
    if out is not None:
        tell(f"{verdict_line(result)}  ({out})")
    return 0 if result["holds"] else NOTHING_FITS


def _check(arrival_scv: float | None, clients: int) -> None:
    from planner.errors import InputError

    if arrival_scv is not None and not math.isfinite(arrival_scv):
        raise InputError(f"--arrival-scv: {arrival_scv}; give a finite number of at least 0 (1: Poisson)")
    if arrival_scv is not None and clients:
        raise InputError("--arrival-scv and --clients: in a closed loop clients decide when requests come; give one")


def _lost(text: str) -> tuple[str, int]:
    """Pool and number of the workers that fail."""
    from planner.errors import InputError
    from planner.units import shown

    pool, colon, count = text.partition(":")
    if colon and not (count.isascii() and count.isdigit()):
        raise InputError(f"--fail: {shown(text)}; want a pool, or a pool and how many workers, e.g. decode:2")
    return pool, int(count) if colon else 1


def _run(path: Path, catalog: list[Path] | None, setting: Setting) -> tuple[Plan, Simulation | None]:
    """The scenario's plan and its simulation; None when there is no deployment."""
    from planner.cli.reading import placed, plan_of, read_scenario
    from planner.cli.streams import progress

    scenario = read_scenario(path, catalog)
    with placed(path):
        from planner.simulation.simulate import simulate as run
        from planner.simulation.simulate import without_caches

        scenario = without_caches(scenario)
        plan = plan_of(scenario, path)
        if plan.deployment is None:
            return plan, None
        return plan, run(scenario, plan.deployment, setting, progress("simulated {:,} of {:,} requests"))
