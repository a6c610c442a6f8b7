"""The program as a library: read a scenario, size it, evaluate or simulate a deployment.

>>> from planner import load_scenario, size  # doctest: +SKIP
>>> size(load_scenario("scenario.yaml")).deployment.accelerators  # doctest: +SKIP
24
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from planner import sizing
from planner.errors import FieldError
from planner.files import scenario as scenario_files
from planner.records import Deployment, Plan, Scenario
from planner.simulation.result import Simulation
from planner.simulation.simulate import Setting
from planner.simulation.simulate import simulate as run


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


def simulate(scenario: Scenario, deployment: Deployment | None = None, requests: int = 0, seed: int = 0) -> Simulation:
    """Simulate a deployment token step by token step: by default the scenario's own, else the one that `size` finds.

    `requests` 0 runs the trace once, or a default number of Poisson arrivals. The same seed gives the same result.

    Raises
    ------
    FieldError
        The deployment cannot run, or nothing fits.
    """
    chosen = deployment or scenario.deployment or size(scenario).deployment
    if chosen is None:
        raise FieldError("hardware.accelerators", "no candidate can hold the model, so there is nothing to simulate")
    return run(scenario, chosen, Setting(requests=requests, seed=seed))
