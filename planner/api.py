"""The program as a library: read a scenario, size it, evaluate a deployment.

>>> from planner import load_scenario, size  # doctest: +SKIP
>>> size(load_scenario("scenario.yaml")).deployment.accelerators  # doctest: +SKIP
24
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from planner import sizing
from planner.files import scenario as scenario_files
from planner.records import Plan, Scenario


def load_scenario(path: str | Path, catalog_dirs: Sequence[str | Path] = ()) -> Scenario:
    """Read a scenario file and everything it names.

    Raises
    ------
    InputError
        With every fault of the files, each with its line.
    """
    return scenario_files.load_scenario(Path(path), tuple(Path(folder) for folder in catalog_dirs))


def size(scenario: Scenario) -> Plan:
    """Return the cheapest deployment that meets every target and budget; else the nearest miss, marked infeasible.

    Raises
    ------
    FieldError
        A value of the scenario that the model, the hardware or the engine cannot take.
    """
    return sizing.size(scenario)


def evaluate(scenario: Scenario) -> Plan:
    """Return what the scenario's own deployment does.

    Raises
    ------
    FieldError
        There is none, or it cannot run.
    """
    return sizing.evaluate(scenario)
