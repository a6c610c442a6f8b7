"""A file that a user names where a result is wanted: a saved result is read, a scenario is computed."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

Document = dict[str, Any]

_SCENARIO_ENDINGS = (".yaml", ".yml")


def document_of(path: Path, catalog: tuple[Path, ...]) -> list[Document]:
    """The result documents in `path`, or the one that its scenario gives.

    Raises
    ------
    InputError
        The file cannot be read as either.
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


def computed(path: Path, catalog: tuple[Path, ...]) -> Document:
    """The result of a scenario: of its deployment when it has one, else of what is found for it."""
    from planner.cli.size import answered, judge
    from planner.files.scenario import load_scenario
    from planner.review.document import document

    scenario = load_scenario(path, catalog, judge=judge)
    return document(answered(scenario, path, "size" if scenario.deployment is None else "evaluate"))
