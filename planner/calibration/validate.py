"""Predictions of measured runs with the constants as shipped, and how far they are off."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from planner.calibration.fit import log_constants
from planner.engines.constants import Family
from planner.records import (
    Accelerator,
    ClosedLoop,
    EngineProfile,
    Floats,
    IntervalFactors,
    Measurement,
    ModelShape,
)
from planner.serving.admitted import assumed_kv_dtype
from planner.serving.closed_loop import Colocated, Disaggregated, Workers, solve, why_not
from planner.serving.intervals import evidence, factors_for, load_class, model_kind

# Runs that say little about the model: labels that stand for several settings, or hide replicas or a cap.
UNSCORED_FLAGS = frozenset({"ambiguous-label", "suspect-replicas", "unrecorded-cap"})
UNFITTED_FLAGS = UNSCORED_FLAGS
OK = "ok"
Record = TypeVar("Record")


@dataclass(frozen=True, slots=True)
class Row:
    """One run, predicted. Times are not numbers where `status` is not `ok`."""

    measurement: Measurement
    ttft_s: float
    ttft_low_s: float
    ttft_high_s: float
    tpot_s: float
    tpot_low_s: float
    tpot_high_s: float
    coverage: float
    evidence: str
    status: str

    @property
    def scored(self) -> bool:
        """Whether the run was measured, predicted, and is what its labels say."""
        measured = math.isfinite(self.measurement.ttft_s) and math.isfinite(self.measurement.tpot_s)
        return self.status == OK and measured and not UNSCORED_FLAGS & set(self.measurement.flags)


@dataclass(frozen=True, slots=True)
class Finder:
    """Turns the names of a measurement into records; each function raises KeyError for a name it does not know."""

    model: Callable[[str], ModelShape]
    accelerator: Callable[[str], Accelerator]
    engine: Callable[[str], EngineProfile]


def resolve(measurement: Measurement, find: Finder) -> ClosedLoop:
    """The closed loop that was measured. Raises KeyError naming what nothing is known of."""
    deployment = measurement.deployment
    if deployment is None:
        raise KeyError("the deployment is not recorded")
    if measurement.clients <= 0:
        raise KeyError("the number of requests in flight is not recorded")
    prefill = deployment.prefill
    run = ClosedLoop(
        model=_found(find.model, measurement.model, "model"),
        weights=measurement.weights,
        kv_dtype=measurement.kv_dtype,
        engine=_found(find.engine, measurement.engine, "engine"),
        accelerator=_found(find.accelerator, deployment.decode.accelerator, "accelerator"),
        prefill_accelerator=_found(find.accelerator, prefill.accelerator, "accelerator") if prefill else None,
        deployment=deployment,
        input_tokens=measurement.input_tokens,
        output_tokens=measurement.output_tokens,
        equal_lengths=measurement.equal_lengths,
        clients=measurement.clients,
        origin=measurement.origin,
        speculation=measurement.speculation,
    )
    return run if run.kv_dtype else replace(run, kv_dtype=assumed_kv_dtype(run))


def _found(find: Callable[[str], Record], name: str, what: str) -> Record:
    try:
        return find(name)
    except KeyError:
        raise KeyError(f"{what} {name} is not in the catalog") from None


def predict_rows(measurements: Sequence[Measurement], find: Finder) -> list[Row]:
    """Every run with its prediction and interval, or the reason why there is none."""
    status = [OK] * len(measurements)
    runs: dict[int, ClosedLoop] = {}
    made: Workers = {}
    for number, measurement in enumerate(measurements):
        try:
            run = resolve(measurement, find)
        except KeyError as error:
            status[number] = str(error.args[0])
            continue
        reason = why_not(run, made)
        if reason:
            status[number] = reason
        else:
            runs[number] = run
    rows: dict[int, Row] = {}
    for family in ("colocated", "disaggregated"):
        chosen = [number for number, run in runs.items() if (run.deployment.prefill is not None) == (family[0] == "d")]
        if chosen:
            rows |= _predicted(family, chosen, [runs[number] for number in chosen], measurements, made)
    return [
        rows.get(number) or _refused(measurement, status[number]) for number, measurement in enumerate(measurements)
    ]


def _predicted(
    family: Family,
    numbers: Sequence[int],
    runs: Sequence[ClosedLoop],
    measurements: Sequence[Measurement],
    made: Workers,
) -> dict[int, Row]:
    loop = Colocated(runs, made) if family == "colocated" else Disaggregated(runs, made)
    profiles = {run.engine.id: run.engine for run in runs}
    answer = solve(loop, np.exp(log_constants(runs, profiles, family)))
    rows = {}
    for place, (number, run) in enumerate(zip(numbers, runs, strict=True)):
        known = evidence(run.engine, run.model.id, run.accelerator)
        by = factors_for(run.engine, family, known, model_kind(run.model), run.accelerator.id, load_class(run.clients))
        times = (float(answer.ttft_s[place]), float(answer.tpot_s[place]))
        rows[number] = _row(measurements[number], times, by, run.engine.interval_coverage, known)
    return rows


def _row(measurement: Measurement, times: tuple[float, float], by: IntervalFactors, coverage: float, known: str) -> Row:
    ttft, tpot = times
    return Row(
        measurement,
        ttft,
        ttft * by.ttft_low,
        ttft * by.ttft_high,
        tpot,
        tpot * by.step_low,
        tpot * by.step_high,
        coverage,
        known,
        OK,
    )


def _refused(measurement: Measurement, status: str) -> Row:
    return Row(measurement, *(math.nan,) * 6, coverage=math.nan, evidence="", status=status)


# --------------------------------------------------------------------------------------------------------------- errors


@dataclass(frozen=True, slots=True)
class Errors:
    """How far predictions of one quantity are off: |predicted / measured - 1|, and the share inside the interval."""

    runs: int
    mean: float
    median: float
    p90: float
    bias: float  # median of predicted / measured - 1
    inside: float


def errors(predicted: Floats, measured: Floats, low: Floats, high: Floats) -> Errors:
    """Errors of runs [rows], all fractions."""
    ratio = predicted / measured - 1.0
    off = np.abs(ratio)
    inside = (measured >= low) & (measured <= high)
    return Errors(
        len(ratio),
        float(np.mean(off)),
        float(np.median(off)),
        float(np.quantile(off, 0.9)),
        float(np.median(ratio)),
        float(np.mean(inside)),
    )


def row_errors(rows: Iterable[Row], quantity: str) -> Errors | None:
    """Errors of the scored rows; `quantity` is ttft or tpot. None when there are none."""
    scored = [row for row in rows if row.scored]
    if not scored:
        return None
    columns = [
        np.array([getattr(of, name) for of in values])
        for values, name in (
            (scored, f"{quantity}_s"),
            ([row.measurement for row in scored], f"{quantity}_s"),
            (scored, f"{quantity}_low_s"),
            (scored, f"{quantity}_high_s"),
        )
    ]
    return errors(*columns)


def groupings(row: Row) -> Mapping[str, str]:
    """The groups of the error table that a row belongs to, by what they group."""
    measurement = row.measurement
    deployment = measurement.deployment
    mode = "disaggregated" if deployment and deployment.prefill else "aggregated"
    return {
        "mode": mode,
        "accelerator": f"{mode} {deployment.decode.accelerator}" if deployment else mode,
        "engine": f"{mode} {measurement.engine}",
        "model": f"{mode} {measurement.model}",
        "load": f"{mode} {load_name(measurement.clients)}",
    }


def load_name(clients: float) -> str:
    """Requests in flight, as the error table bins them."""
    for most in (4, 16, 64, 128, 1024):
        if clients <= most:
            return f"N <= {most}"
    return "N > 1024"
