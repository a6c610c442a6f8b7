"""What users name on the command line: scenarios, which are read and computed, and saved results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from planner.errors import FieldError
    from planner.records import EngineProfile, Plan, Scenario

Document = dict[str, Any]

_SCENARIO_ENDINGS = (".yaml", ".yml")
_OPTIONS = ("confidence", "coverage", "pick")  # values that computing refuses under these names are options


# ----------------------------------------------------------------------------------------------------------- scenarios


@contextmanager
def placed(path: Path, way_out: Callable[[], str] = lambda: "") -> Iterator[None]:
    """Within it, what computing refuses is the user's fault: of an option, else of a line of the scenario at `path`.

    `way_out` is added to what is said of the scenario.
    """
    from planner.errors import FieldError, InputError

    try:
        yield
    except FieldError as error:
        option = error.field.removeprefix("--")
        if option != error.field or option in _OPTIONS:
            raise InputError(f"--{option}: {error.message}") from error
        from planner.files.scenario import field_faults
        from planner.files.yamlfile import load

        told = FieldError(error.field, error.message + way_out(), error.others)
        raise InputError(field_faults(load(path), told)) from error


def read_scenario(path: Path, catalog: Sequence[Path] | None) -> Scenario:
    """A scenario, with everything that is wrong with it and with its own deployment told at once."""
    from planner.files.scenario import load_scenario

    return load_scenario(path, tuple(catalog or ()), judge=judge)


def judge(*deployment: Any) -> list[FieldError]:
    """What a given deployment cannot be; a file without one does not pay for loading the formulas."""
    from planner.serving.refusals import refusals

    return refusals(*deployment)


def plan_of(scenario: Scenario, path: Path, way_out: Callable[[], str] = lambda: "") -> Plan:
    """What the deployment of a scenario does, where it has one, else the plan that is found for it."""
    with placed(path, way_out):
        from planner import sizing  # only now: faults of the files are told without loading the formulas

        plan: Plan = sizing.size(scenario) if scenario.deployment is None else sizing.evaluate(scenario)
        return plan


def covering(engine: EngineProfile, coverage: float) -> EngineProfile:
    """The engine with intervals of another coverage. InputError when measured runs cannot tell."""
    from planner.serving.intervals import at_coverage

    with placed(Path()):
        return at_coverage(engine, coverage)


# ------------------------------------------------------------------------------------------- results, or their scenario


def document_of(path: Path, catalog: Sequence[Path] | None) -> list[Document]:
    """The result documents in `path`, or the one that its scenario gives.

    Raises InputError when the file cannot be read as either.
    """
    if path.suffix.lower() in _SCENARIO_ENDINGS:
        return [computed(path, catalog)]
    from planner.files.results import load_result, results_of

    return results_of(load_result(path))


def trusted(*paths: Path) -> AbstractContextManager[None]:
    """Within it, what saved results among `paths` lack is the fault of their files; computed ones are ours."""
    from planner.files.results import believed_whole

    saved = [path for path in paths if path.suffix.lower() not in _SCENARIO_ENDINGS]
    return believed_whole(*saved) if saved else nullcontext()


def computed(path: Path, catalog: Sequence[Path] | None) -> Document:
    """The result of a scenario: of its deployment when it has one, else of what is found for it."""
    from planner.review.document import document

    return document(plan_of(read_scenario(path, catalog), path))
