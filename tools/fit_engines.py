"""Fit the constants of the engine profiles to measured runs, cross-validate them, and write both down.

    python tools/fit_engines.py            # tools/catalog_build/engine_fit.json and hardware/engines, about 5 minutes
    python tools/fit_engines.py --check    # exit 1 when the constants would change, without cross-validation

The same runs give the same bytes: nothing is drawn at random but the folds, whose seed is fixed, and every number is
rounded to four digits.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import astuple
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

import numpy as np  # noqa: E402
from catalog_build import engines  # noqa: E402

from planner.calibration.fit import Data, EngineFit, fit_data, fit_engines  # noqa: E402
from planner.calibration.residuals import HeldOut, folds, held_out  # noqa: E402
from planner.calibration.spread import EngineIntervals, engine_intervals, jackknifed_inside  # noqa: E402
from planner.calibration.validate import UNFITTED_FLAGS, errors, resolve  # noqa: E402
from planner.cli.validate import finder  # noqa: E402
from planner.files.measurements import read_table  # noqa: E402
from planner.records import ClosedLoop, Floats, IntervalFactors  # noqa: E402
from planner.serving.stacked import CONSTANTS  # noqa: E402

RUNS = ROOT / "tests" / "data" / "measured" / "serving.csv"
OUT = engines.FIT


def load(path: Path, disaggregated: bool) -> tuple[Data, Floats]:
    """The runs of one family as data for a fit, and which of them count."""
    find = finder((), None)
    chosen = [run for run in read_table(path) if (run.deployment.prefill is not None) == disaggregated]
    runs = tuple(resolve(measurement, find) for measurement in chosen)
    use = np.array([0.0 if UNFITTED_FLAGS & set(measurement.flags) else 1.0 for measurement in chosen])
    return fit_data(runs, [(measurement.tpot_s, measurement.ttft_s) for measurement in chosen]), use


def constants(fitted: EngineFit) -> dict[str, Any]:
    """Base constants by engine and family, log deviations by engine and group, and the cells they come from."""
    base: dict[str, Any] = {}
    for (family, engine), values in sorted(fitted.base.items()):
        numbers = {name: rounded(float(np.exp(value))) for name, value in zip(CONSTANTS, values, strict=True)}
        base.setdefault(engine, {})[family] = numbers
    deviations: dict[str, Any] = {}
    for (family, engine, name), values in sorted(fitted.deviations.items()):
        deviations.setdefault(engine, {})[f"{family}/{name}"] = [round(float(value), 3) + 0.0 for value in values]
    cells: dict[str, list[list[str]]] = {}
    for engine, model, accelerator in sorted(fitted.cells):
        cells.setdefault(engine, []).append([model, accelerator])
    return {"constants": base, "deviations": deviations, "cells": cells}


def rounded(value: float) -> float:
    return float(f"{value:.4g}")


def intervals_of(found: EngineIntervals) -> dict[str, Any]:
    """Factors by class, widths by class and group, and growth by coverage."""

    def numbers(by_key: Mapping[str, IntervalFactors]) -> dict[str, list[float]]:
        return {key: [rounded(value) for value in astuple(by)] for key, by in sorted(by_key.items())}

    return {
        "factors": numbers(found.factors),
        "widths": numbers(found.widths),
        "growth": {str(key): [round(value, 3) for value in both] for key, both in sorted(found.growth.items())},
    }


def held_out_runs(colocated: tuple[Data, Floats], disaggregated: tuple[Data, Floats]) -> dict[str, dict[str, HeldOut]]:
    """Every way of leaving runs out, by family and by the class of evidence that it imitates."""
    data, use = colocated
    apart, use_apart = disaggregated
    models = [run.model.id for run in data.runs]
    cells = [f"{run.model.id} {run.accelerator.id}" for run in data.runs]
    accelerators = [run.accelerator.id for run in apart.runs]
    return {
        "colocated": {
            "known-cell": held_out("colocated", data, use, folds(data.runs)),
            "new-cell": held_out("colocated", data, use, cells),
            "new-model": held_out("colocated", data, use, models),
        },
        "disaggregated": {
            "known-cell": held_out("disaggregated", apart, use_apart, folds(apart.runs), data, use),
            "new-cell": held_out("disaggregated", apart, use_apart, accelerators, data, use),
        },
    }


def accuracy(held: HeldOut) -> dict[str, Any]:
    """Errors in % of everything held out, and by engine, accelerator, model and load."""
    groups: dict[str, list[int]] = {"all": list(range(len(held.runs)))}
    for row, run in enumerate(held.runs):
        for name in _groups(run):
            groups.setdefault(name, []).append(row)
    return {name: [len(rows), *_errors(held, rows)] for name, rows in groups.items()}


def coverage(held: HeldOut, inside: Floats) -> dict[str, list[float]]:
    """Runs, and share in % of those `inside` an interval, by accelerator and engine."""
    groups: dict[str, list[int]] = {"all": list(range(len(held.runs)))}
    for row, run in enumerate(held.runs):
        for group in (run.accelerator.id, run.engine.id, f"{run.engine.id} on {run.accelerator.id}"):
            groups.setdefault(group, []).append(row)
    return {
        group: [len(rows), *(round(100.0 * float(share), 1) for share in inside[rows].mean(axis=0))]
        for group, rows in groups.items()
    }


def _groups(run: ClosedLoop) -> Sequence[str]:
    load = next((f"N <= {most}" for most in (8, 64, 1024) if run.clients <= most), "N > 1024")
    return run.engine.id, run.accelerator.id, run.model.id, load


def _errors(held: HeldOut, rows: list[int]) -> list[float]:
    found = []
    for target in range(2):
        predicted, measured = (np.exp(values[rows, target]) for values in (held.predicted, held.measured))
        off = errors(predicted, measured, predicted, predicted)
        found += [round(100 * value, 1) for value in (off.mean, off.median, off.p90, off.bias)]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare constants with those written down")
    arguments = parser.parse_args()
    colocated, disaggregated = load(RUNS, disaggregated=False), load(RUNS, disaggregated=True)
    found = constants(fit_engines(*colocated, *disaggregated))
    if arguments.check:
        shipped = json.loads(OUT.read_text())
        return int(any(found[key] != shipped[key] for key in found))
    held = held_out_runs(colocated, disaggregated)
    inside = {
        f"{family}/{known}": coverage(one, jackknifed_inside(classes, known))
        for family, classes in held.items()
        for known, one in classes.items()
    }
    table = {f"{family}/{known}": accuracy(one) for family, classes in held.items() for known, one in classes.items()}
    held["disaggregated"]["new-model"] = held["disaggregated"]["new-cell"]
    intervals = {engine: intervals_of(found) for engine, found in sorted(engine_intervals(held).items())}
    text = json.dumps({**found, "intervals": intervals, "held_out": table, "inside": inside}, indent=1, sort_keys=True)
    OUT.write_text(text + "\n", encoding="utf-8")
    engines.build(RUNS, ROOT / "hardware")
    return 0


if __name__ == "__main__":
    sys.exit(main())
