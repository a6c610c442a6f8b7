"""`planner simulate`: a deployment token step by token step, next to what the closed forms predict."""

from __future__ import annotations

import enum
import math
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from planner.cli.options import CatalogOption, Format, FormatOption, OutOption
from planner.cli.size import NOTHING_FITS, ScenarioArgument

if TYPE_CHECKING:
    from planner.records import Plan, Pool, PoolState, Scenario
    from planner.render.text import Pen, Row
    from planner.simulation.estimates import Estimate
    from planner.simulation.result import FailureSimulation, PoolSimulation, Simulation
    from planner.simulation.simulate import Setting

SCHEMA_VERSION = 1
MOST_REQUESTS = 5_000_000
SILENT_S = 1.0  # before progress is shown
SHOWN = ("mean", "p50", "p90", "p99")

Document = dict[str, Any]


class RouterChoice(enum.StrEnum):
    """How the front end spreads requests."""

    join_shortest_queue = "join-shortest-queue"
    fewest_prompts = "fewest-prompts"
    least_work = "least-work"
    round_robin = "round-robin"
    random = "random"


def simulate(
    scenario: ScenarioArgument,
    requests: Annotated[
        int | None,
        typer.Option(
            "--requests",
            min=1,
            max=MOST_REQUESTS,
            show_default="the trace once, else 20000",
            help="Requests to measure, after a warm-up of a tenth.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="The same seed gives the same bytes.")] = 0,
    router: Annotated[
        RouterChoice | None,
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
        int, typer.Option("--clients", min=0, help="A closed loop of so many clients; 0: an open loop.")
    ] = 0,
    fail: Annotated[
        str,
        typer.Option(
            "--fail",
            metavar="POOL[:N]",
            help="Lose a worker (or N) of prefill, decode or colocated half-way through.",
        ),
    ] = "",
    shape: FormatOption = Format.table,
    out: OutOption = None,
    catalog: CatalogOption = None,
) -> int:
    """Simulate a deployment token step by token step.

    It is the `deployment:` of the scenario, or the plan that `planner size` finds. Step times are the planner's own;
    waits, batches and gaps come from the simulation alone, so it is a witness of the formulas.

    Exit code 0 when every target holds in the simulation, 1 when one does not or nothing fits, 2 when the input is at
    fault.
    """
    from planner.cli.streams import check_out, tell, write_result
    from planner.render.json import to_json
    from planner.simulation.simulate import Setting

    check_out(out, [scenario])
    _check(arrival_scv, clients)
    setting = Setting(requests or 0, seed, router.value if router else None, arrival_scv, clients, *_lost(fail))
    plan, found = _run(scenario, tuple(catalog or ()), setting)
    if found is None:
        tell("nothing to simulate: no candidate can hold the model (planner size says why)")
        return NOTHING_FITS
    result = document(plan, found, setting)
    if shape is Format.json:
        write_result(lambda _: to_json(result), out)
    else:
        write_result(lambda seen: to_text(result, seen.pen), out)
    if out is not None:
        tell(f"{_verdict(result)}  ({out})")
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


def _run(path: Path, catalog: tuple[Path, ...], setting: Setting) -> tuple[Plan, Simulation | None]:
    """The scenario's plan and its simulation; None when there is no deployment."""
    from planner.cli.size import judge
    from planner.errors import FieldError, InputError
    from planner.files.scenario import field_faults, load_scenario
    from planner.files.yamlfile import load

    try:
        scenario = _without_blocks(load_scenario(path, catalog, judge=judge))
        from planner import sizing
        from planner.simulation.simulate import simulate as run

        plan: Plan = sizing.evaluate(scenario) if scenario.deployment is not None else sizing.size(scenario)
        if plan.deployment is None:
            return plan, None
        return plan, run(scenario, plan.deployment, setting, _progress())
    except FieldError as error:
        raise InputError(field_faults(load(path), error)) from error


def _without_blocks(scenario: Scenario) -> Scenario:
    """The simulator has no prefix cache, so the prediction beside it must do without one."""
    if scenario.workload.blocks is None:
        return scenario
    from dataclasses import replace

    from planner.records import Note

    note = Note("caution", "simulated without prefix caches, and predicted without them here as well")
    return replace(scenario, workload=replace(scenario.workload, blocks=None), notes=(*scenario.notes, note), tiers=())


def _progress() -> Callable[[int, int], None] | None:
    """One line on a terminal that is rewritten, after a second; nothing elsewhere."""
    if not sys.stderr.isatty():
        return None
    from time import monotonic

    begun = monotonic()

    def show(done: int, count: int) -> None:
        if monotonic() - begun > SILENT_S:
            sys.stderr.write(f"\rsimulated {done:,} of {count:,} requests" if done < count else "\r\x1b[K")
            sys.stderr.flush()

    return show


# ------------------------------------------------------------------------------------------------------------ document


def document(plan: Plan, found: Simulation, setting: Setting) -> Document:
    """Predicted beside simulated as plain values in base units; null where nothing bounds or measures a number."""
    from planner import __version__
    from planner.records import METRICS, STATISTICS

    prediction, deployment = plan.prediction, plan.deployment
    if prediction is None or deployment is None:
        raise ValueError("plan has no deployment to compare with")
    statistics = {
        f"{metric}_s": {
            name: _compared(
                math.nan if setting.clients else getattr(prediction, f"{metric}_s")[name],
                found.statistic(metric, name),
            )
            for name in STATISTICS
        }
        for metric in METRICS
    }
    targets = [
        {
            "name": f"{target.metric}.{target.statistic}",
            "limit_s": target.limit_s,
            **statistics[f"{target.metric}_s"][target.statistic],
            "holds": found.statistic(target.metric, target.statistic).value <= target.limit_s,
        }
        for target in plan.scenario.targets
    ]
    decode = "decode" if deployment.prefill is not None else "colocated"
    pools = {decode: _pool(deployment.decode, prediction.decode, found.decode)}
    if deployment.prefill is not None and prediction.prefill is not None and found.prefill is not None:
        pools = {"prefill": _pool(deployment.prefill, prediction.prefill, found.prefill)} | pools
    return {
        "schema_version": SCHEMA_VERSION,
        "tool": {"name": "planner", "version": __version__},
        "name": plan.scenario.name,
        "mode": deployment.mode,
        "setting": {
            "requests": found.requests,
            "seed": setting.seed,
            "router": setting.router_for(plan.scenario),
            "arrivals": _arrivals(plan, setting),
            "arrival_scv": setting.arrival_scv,
            "clients": setting.clients,
        },
        "holds": all(target["holds"] for target in targets) and not found.refused,
        "targets": targets,
        "statistics": statistics,
        "wait_s": {name: _estimate(found.wait_s[name]) for name in STATISTICS},
        "pools": pools,
        "requests_per_s": found.requests_per_s,
        "output_tokens_per_s": found.output_tokens_per_s,
        "refused_requests": found.refused,
        "failure": _failure(found.failure, setting) if found.failure else None,
        "confidence": 0.95,
    }


def _failure(found: FailureSimulation, setting: Setting) -> Document:
    """Before, during and after a lost worker."""
    return {
        "pool": setting.fail,
        "lost_workers": setting.fail_workers,
        "at_s": found.at_s,
        "lost_requests": found.lost_requests,
        "restored_mean_s": _number(found.restored_mean_s),
        "restored_last_s": _number(found.restored_last_s),
        "ttft_most_s": _number(found.ttft_most_s),
        "before": {"ttft_s": _values(found.ttft_before_s), "itl_s": _values(found.itl_before_s)},
        "after": {"ttft_s": _values(found.ttft_after_s), "itl_s": _values(found.itl_after_s)},
    }


def _values(found: Mapping[str, Estimate]) -> Document:
    return {name: _number(estimate.value) for name, estimate in found.items()}


def _arrivals(plan: Plan, setting: Setting) -> str:
    if setting.clients:
        return "closed loop"
    if setting.arrival_scv is None and plan.scenario.workload.arrivals is not None:
        return "trace"
    return "poisson" if setting.arrival_scv in (None, 1.0) else "renewal"


def _compared(predicted: float, simulated: Estimate) -> Document:
    known = math.isfinite(predicted) and math.isfinite(simulated.value) and simulated.value > 0.0
    return {
        "predicted": _number(predicted),
        **_estimate(simulated),
        "difference_fraction": predicted / simulated.value - 1.0 if known else None,
    }


def _estimate(simulated: Estimate) -> Document:
    return {"simulated": _number(simulated.value), "low": _number(simulated.low), "high": _number(simulated.high)}


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _pool(pool: Pool, predicted: PoolState, simulated: PoolSimulation) -> Document:
    return {
        "accelerator": pool.accelerator,
        "replicas": pool.replicas,
        "accelerators": pool.accelerators,
        "tp": pool.tp,
        "pp": pool.pp,
        "ep": pool.ep,
        "dp": pool.dp,
        "busy_fraction": _number(simulated.utilization.value),
        "mean_batch": _compared(predicted.mean_batch, simulated.mean_batch),
        "kv_tokens": {
            "mean": _compared(predicted.kv_mean_tokens, simulated.kv_tokens["mean"]),
            "p99": _compared(predicted.kv_p99_tokens, simulated.kv_tokens["p99"]),
        },
        "preemptions": simulated.preemptions,
    }


# ---------------------------------------------------------------------------------------------------------------- text


def to_text(result: Mapping[str, Any], pen: Pen) -> str:
    """The comparison as a report."""
    sections = [
        [_verdict(result), *_setting(result)],
        _targets(result, pen),
        _statistics(result, pen),
        _pools(result, pen),
        _lost_section(result, pen),
    ]
    lines = [line for section in sections if section for line in (*section, "")]
    return pen.finish(lines[:-1])


def _verdict(result: Mapping[str, Any]) -> str:
    missed = [target["name"] for target in result["targets"] if not target["holds"]]
    if not missed and not result["holds"]:
        missed = [f"{result['refused_requests']:,} requests refused"]
    if missed:
        return f"MISSED IN SIMULATION  {', '.join(missed)}"
    return "HOLDS IN SIMULATION" if result["targets"] else "SIMULATED, no targets"


def _setting(result: Mapping[str, Any]) -> list[str]:
    given = result["setting"]
    arrivals = {"closed loop": f"closed loop of {given['clients']} clients", "renewal": f"SCV {given['arrival_scv']}"}
    parts = [
        f"{result['name']}: {given['requests']:,} requests measured",
        f"arrivals: {arrivals.get(given['arrivals'], given['arrivals'])}",
        f"router: {given['router']}",
        f"seed {given['seed']}",
    ]
    refused = result["refused_requests"]
    more = [f"{refused:,} requests were refused: no worker's cache can hold them"] if refused else []
    return [", ".join(parts), *more]


def _lost_section(result: Mapping[str, Any], pen: Pen) -> list[str]:
    from planner.render.text import columns, seconds_text

    found = result["failure"]
    if found is None:
        return []
    rows: list[Row] = [["", "TTFT p50", "TTFT p99", "ITL p50", "ITL p99"]]
    for when in ("before", "after"):
        values = [found[when][metric][name] for metric in ("ttft_s", "itl_s") for name in ("p50", "p99")]
        rows.append([when, *(seconds_text(value, "-") for value in values)])
    text = (
        f"  {found['lost_requests']} requests lost their cache or their place; they decode again after "
        f"{seconds_text(found['restored_mean_s'], '-')} in the mean, {seconds_text(found['restored_last_s'], '-')} at "
        f"most; meanwhile the longest first token takes {seconds_text(found['ttft_most_s'], '-')}"
    )
    title = f"{found['lost_workers']} {found['pool']} lost at {seconds_text(found['at_s'])}"
    return [pen.heading(title), text, *columns(rows, "lrrrr", pen)]


def _row(name: str, item: Mapping[str, Any], clients: int) -> list[str]:
    """`predicted` is for an open loop: a closed one has none."""
    from planner.render.text import percent_text, seconds_text

    low, high = item["low"], item["high"]
    known = low is not None and high is not None
    interval = f"{seconds_text(low)} .. {seconds_text(high)}" if known else "run too short"
    difference = percent_text(item["difference_fraction"], sign=True)
    predicted = "-" if clients else seconds_text(item["predicted"])
    return [name, predicted, seconds_text(item["simulated"], "-"), interval, difference]


def _targets(result: Mapping[str, Any], pen: Pen) -> list[str]:
    from planner.render.text import Cell, columns, name_text, seconds_text

    rows: list[Row] = [["", "", "limit", "predicted", "simulated", "95% confidence", "difference"]]
    for target in result["targets"]:
        metric, _, statistic = target["name"].partition(".")
        status = Cell("holds", "good") if target["holds"] else Cell("MISSED", "bad")
        name, *values = _row(f"{name_text(metric)} {name_text(statistic)}", target, result["setting"]["clients"])
        rows.append([status, name, seconds_text(target["limit_s"]), *values])
    return [pen.heading("Targets"), *columns(rows, "llrrrrr", pen)] if result["targets"] else []


def _statistics(result: Mapping[str, Any], pen: Pen) -> list[str]:
    from planner.render.text import columns, name_text

    clients = result["setting"]["clients"]
    rows: list[Row] = [["", "predicted", "simulated", "95% confidence", "difference"]]
    for metric, named in result["statistics"].items():
        rows += [_row(f"{name_text(metric)} {name}", named[name], clients) for name in SHOWN]
    return [pen.heading("Latency"), *columns(rows, "lrrrr", pen)]


def _pools(result: Mapping[str, Any], pen: Pen) -> list[str]:
    from planner.render.breakdown import pool_text
    from planner.render.text import percent_text
    from planner.units import format_count

    lines = [pen.heading("Pools, per replica")]
    for name, pool in result["pools"].items():
        batch, held = pool["mean_batch"], pool["kv_tokens"]["p99"]
        lines.append(f"  {name}  {pool_text(pool, pen)}")
        lines.append(
            f"    busy {percent_text(pool['busy_fraction'])}, batch {batch['simulated']:.1f} (predicted "
            f"{batch['predicted']:.1f}), KV p99 {format_count(round(held['simulated'] or 0.0))} tokens (predicted "
            f"{format_count(round(held['predicted'] or 0.0))}), {format_count(pool['preemptions'])} preemptions"
        )
    tokens = format_count(round(result["output_tokens_per_s"]))
    rates = f"{result['requests_per_s']:.3g} requests/s, {tokens} output tokens/s"
    return [*lines, f"  {rates}"]
