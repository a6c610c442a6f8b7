"""The program as a library: read a scenario or a trace, size it, evaluate or simulate a deployment.

>>> from planner import load_scenario, size  # doctest: +SKIP
>>> plan = size(load_scenario("scenario.yaml"))  # doctest: +SKIP
>>> plan.deployment.accelerators, plan.prediction.ttft_s["p99"]  # doctest: +SKIP
(24, 0.61)

A result is the record that the program itself computes with, and it can show itself: `to_dict()` is the document of
`--format json`, `to_records()` are flat rows for a table of any library, and a notebook displays it as a page. Names
are those of docs/nomenclature.md; docs/python.md has the whole interface.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, fields, replace
from pathlib import Path
from typing import Any

from planner import sizing
from planner.errors import FieldError
from planner.files import scenario as scenario_files
from planner.files import traces as trace_files
from planner.records import Deployment, InputFile, Plan, Scenario, Trace
from planner.simulation.result import Simulation
from planner.simulation.simulate import Setting, without_caches
from planner.simulation.simulate import simulate as run

Document = dict[str, Any]
Row = dict[str, Any]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PlanResult(Plan):
    """The answer to a scenario: every field of a `Plan`, and how it shows itself."""

    def to_dict(self) -> Document:
        """The document of `planner size --format json`."""
        from planner.review.document import document

        return document(self)

    def to_records(self) -> list[Row]:
        """One flat row for the plan and one for each alternative, all with the same names."""
        from planner.review.rows import plan_rows

        return plan_rows(self.to_dict())

    def __repr__(self) -> str:
        from planner.render.table import verdict_line

        return verdict_line(self.to_dict())

    def _repr_html_(self) -> str:
        from planner.render.html import to_html_fragment

        return to_html_fragment(self.to_dict())

    def pictures(self, *kinds: str) -> dict[str, str]:
        """SVG by kind: what `planner size --plot` draws; every kind where none is named. ValueError for others."""
        from planner.render.figures import RESULT_FIGURES, result_figures
        from planner.review.figures import drawable
        from planner.sizing.front import front

        wanted = kinds or tuple(RESULT_FIGURES)
        unknown = [kind for kind in wanted if kind not in RESULT_FIGURES]
        if unknown:
            raise ValueError(f"no picture is called {', '.join(unknown)}; known: {', '.join(RESULT_FIGURES)}")
        points = front(self) if "front" in wanted else ()
        figures = result_figures(drawable(self, wanted, points), wanted)
        return {figure.kind: figure.svg() for figure in figures}


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SimulationResult(Simulation):
    """What a simulation found, beside what the closed forms predict for the same deployment."""

    _: KW_ONLY
    plan: PlanResult
    setting: Setting

    def to_dict(self) -> Document:
        """The document of `planner simulate --format json`."""
        from planner.review.simulation import simulation_document

        return simulation_document(self.plan, self, self.setting)

    def to_records(self) -> list[Row]:
        """One flat row for every statistic of every latency: predicted, simulated, confidence, difference."""
        from planner.review.rows import simulation_rows

        return simulation_rows(self.to_dict())

    def __repr__(self) -> str:
        from planner.render.simulation import to_text
        from planner.render.text import Pen

        return to_text(self.to_dict(), Pen()).rstrip("\n")

    def _repr_html_(self) -> str:
        from planner.render.simulation import to_html_fragment

        return to_html_fragment(self.to_dict())


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TraceResult(Trace):
    """A trace that was read: arrivals, lengths and prompt blocks, and how it shows itself."""

    paths: tuple[str, ...] = ()

    def to_dict(self) -> Document:
        """The document of `planner trace show --format json`."""
        from planner.review.trace import trace_document

        return trace_document(self, [InputFile(" ".join(self.paths), self.sha256)], "lru", None)

    def to_records(self) -> list[Row]:
        """One flat row for every cache size of the hit curve; none where the trace has no block ids."""
        from planner.review.rows import trace_rows

        return trace_rows(self.to_dict())

    def __repr__(self) -> str:
        from planner.render.text import Pen
        from planner.render.trace import to_text

        return to_text(self.to_dict(), Pen()).rstrip("\n")

    def _repr_html_(self) -> str:
        from planner.render.trace import to_html_fragment

        return to_html_fragment(self.to_dict())


def load_scenario(path: str | Path, catalog_dirs: Sequence[str | Path] = ()) -> Scenario:
    """Read a scenario file and everything it names.

    Raises
    ------
    InputError
        With every fault of the files, each with its line.
    """
    return scenario_files.load_scenario(Path(path), tuple(Path(folder) for folder in catalog_dirs))


def load_trace(path: str | Path, *more: str | Path) -> TraceResult:
    """Read one trace, in one or more files of a known format, or a folder of sessions.

    Raises
    ------
    InputError
        With every fault of the files, each with its line.
    """
    paths = [Path(one) for one in (path, *more)]
    return TraceResult(**_fields(trace_files.load_traces(paths)), paths=tuple(map(str, paths)))


def size(scenario: Scenario) -> PlanResult:
    """Return the cheapest deployment that meets every target and budget; else the nearest miss, marked infeasible.

    Raises
    ------
    FieldError
        A value of the scenario that the model, the hardware or the engine cannot take.
    """
    return PlanResult(**_fields(sizing.size(_checked(scenario))))


def evaluate(scenario: Scenario, deployment: Deployment | None = None) -> PlanResult:
    """Return what a deployment does under the scenario's traffic: by default the scenario's own.

    Raises
    ------
    FieldError
        There is none, or it cannot run.
    """
    asked = scenario if deployment is None else replace(scenario, deployment=deployment)
    return PlanResult(**_fields(sizing.evaluate(_checked(asked))))


def simulate(
    scenario: Scenario, deployment: Deployment | None = None, requests: int = 0, seed: int = 0
) -> SimulationResult:
    """Simulate a deployment token step by token step: by default the scenario's own, else the one that `size` finds.

    `requests` 0 runs the trace once, or a default number of Poisson arrivals. The same seed gives the same result.

    Raises
    ------
    FieldError
        The deployment cannot run, or nothing fits.
    """
    asked = without_caches(scenario)
    given = deployment or asked.deployment
    plan = evaluate(asked, given) if given is not None else size(asked)
    if plan.deployment is None:
        raise FieldError("hardware.accelerators", "no candidate can hold the model, so there is nothing to simulate")
    setting = Setting(requests=requests, seed=seed)
    return SimulationResult(**_fields(run(asked, plan.deployment, setting)), plan=plan, setting=setting)


def _checked(scenario: Scenario) -> Scenario:
    """The scenario, where what a program may have replaced in it still is what a file could hold."""
    rate = scenario.workload.requests_per_s
    if not (math.isfinite(rate) and rate > 0.0):
        raise FieldError("workload.requests", f"{rate} requests/s; give a finite rate above zero")
    known = {one.id for one in (*scenario.prefill_accelerators, *scenario.decode_accelerators)}
    for pool in scenario.deployment.pools if scenario.deployment else ():
        if pool.accelerator not in known:
            names = ", ".join(sorted(known))
            raise FieldError("deployment", f"{pool.accelerator} is none of the scenario's accelerators: {names}")
    return scenario


def _fields(record: Plan | Simulation | Trace) -> dict[str, Any]:
    """The fields of a record, none of them copied."""
    return {field.name: getattr(record, field.name) for field in fields(record)}
