"""`planner calibrate`: a user's own benchmark results in, a catalog overlay out."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli.options import CatalogOption
from planner.cli.validate import ModelsOption, finder

if TYPE_CHECKING:
    from planner.calibration.calibrate import Calibration
    from planner.records import ClosedLoop, Measurement


def calibrate(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Results of a benchmark tool, or our CSV.")],
    deployment: Annotated[
        Path | None,
        typer.Option("--deployment", metavar="SCENARIO", help="Scenario whose model, engine and deployment ran."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", metavar="FILE", help="Overlay to write, ENGINE.yaml; else stdout.")
    ] = None,
    concurrency: Annotated[
        float | None,
        typer.Option(metavar="N", min=0.0, help="Requests in flight, for files that do not hold them."),
    ] = None,
    models: ModelsOption = None,
    catalog: CatalogOption = None,
) -> int:
    """Fit engine constants to your own runs.

    Reads results of vLLM bench, SGLang bench, AIPerf, genai-perf, GuideLLM, inference-perf, trtllm-bench and others,
    which do not say what ran: name it with --deployment. Writes the engine's profile with what your runs add, whole or
    not at all.

    Exit code 0 when constants were fitted, 2 when the runs identify none or a file is at fault.
    """
    from planner.calibration.calibrate import calibrate as fit_runs
    from planner.cli.streams import tell, write_result
    from planner.errors import FieldError, InputError

    folders = tuple(catalog or ())
    runs, measured = _runs(files, deployment, models, folders, concurrency or math.nan)
    try:
        found = fit_runs(runs, measured)
    except FieldError as error:
        raise InputError(error.message) from error
    lines = _told(found, measured)
    text = _overlay(found, runs[0], lines, folders)
    write_result(lambda _: text, out)
    for line in lines:
        tell(line)
    return 0


def _runs(
    files: list[Path], deployment: Path | None, models: Path | None, catalog: tuple[Path, ...], clients: float
) -> tuple[list[ClosedLoop], list[Measurement]]:
    """The usable runs. InputError when there are none, or when they are of several engines, models or accelerators."""
    from planner.calibration.validate import UNFITTED_FLAGS, resolve
    from planner.errors import Fault, InputError
    from planner.files.benchmarks import read_benchmark

    find = finder(catalog, models)
    base = _deployed(deployment, catalog) if deployment else None
    runs, measured, faults = [], [], []
    for path in files:
        for one in read_benchmark(path, clients):
            if UNFITTED_FLAGS & set(one.flags):
                continue
            try:
                runs.append(base(one) if base else resolve(one, find))
                measured.append(one)
            except KeyError as error:
                hint = "" if one.deployment else "; name it with --deployment SCENARIO"
                faults.append(Fault(f"{one.id}: {error.args[0]}{hint}", str(path)))
    faults += [] if runs or faults else [Fault("no run left to fit", str(files[0]))]
    kinds = {(run.model.id, run.weights, run.engine.id, run.accelerator.id, run.deployment.mode) for run in runs}
    if len(kinds) > 1:
        faults.append(Fault(f"holds runs of {len(kinds)} kinds; calibrate one model, engine and accelerator at a time"))
    if faults:
        raise InputError(faults)
    return runs, measured


def _deployed(path: Path, catalog: tuple[Path, ...]) -> Callable[[Measurement], ClosedLoop]:
    """Puts a measurement on the deployment of a scenario."""
    from planner.errors import Fault, InputError
    from planner.files.scenario import load_scenario
    from planner.records import ClosedLoop

    scenario = load_scenario(path, catalog)
    deployment = scenario.deployment
    if deployment is None:
        raise InputError([Fault("has no deployment: say what ran", str(path))])

    def place(one: Measurement) -> ClosedLoop:
        prefill = deployment.prefill
        return ClosedLoop(
            model=scenario.model,
            weights=scenario.weights,
            kv_dtype=scenario.kv_dtype,
            engine=scenario.engine,
            accelerator=scenario.accelerator(deployment.decode.accelerator),
            prefill_accelerator=scenario.accelerator(prefill.accelerator) if prefill else None,
            deployment=deployment,
            input_tokens=one.input_tokens,
            output_tokens=one.output_tokens,
            equal_lengths=one.equal_lengths,
            clients=one.clients,
            speculation=scenario.speculation,
        )

    return place


def _told(found: Calibration, measured: list[Measurement]) -> list[str]:
    """What was used, what moved, and the error before and after."""
    lines = []
    for number, one in enumerate(measured):
        load = f"{one.clients:.3g} in flight, {one.input_tokens:.0f} + {one.output_tokens:.0f} tokens"
        times = [
            f"{name} {1e3 * value:.1f} ms: {_percent(found.before[number, at])} -> {_percent(found.after[number, at])}"
            for at, (name, value) in enumerate((("TPOT", one.tpot_s), ("TTFT", one.ttft_s)))
        ]
        lines.append(f"{one.id}: {load}; error before -> after: {'; '.join(times)}")
    return lines + [
        f"{one.name}: {one.before:.4g} -> {one.after:.4g} (doubt down by {100 * one.gain:.0f} %)" for one in found.moved
    ]


def _percent(ratio: float) -> str:
    return f"{100 * (ratio - 1):+.0f} %" if ratio > 0 else "not measured"


def _overlay(found: Calibration, run: ClosedLoop, lines: list[str], catalog: tuple[Path, ...]) -> str:
    from planner.calibration.calibrate import group_of
    from planner.files.catalog import Catalog
    from planner.files.catalog_write import engine_overlay

    comments = [
        f"Profile of {run.engine.id} fitted to own runs of {run.model.id} on {run.accelerator.id}.",
        f"Use: --catalog with a folder that holds it as engines/{run.engine.id}.yaml",
        *lines,
    ]
    profile = Catalog(catalog).engine_path(run.engine.id)
    cell = (run.model.id, run.accelerator.id)
    return engine_overlay(profile, {group_of(run, found.family): found.deviation}, cell, comments)
