"""`planner evaluate --from`: launch files as a deployment, evaluated under a scenario, beside what `size` would run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from planner.files.launch_import import Imported
    from planner.records import Scenario


def imported_result(
    path: Path,
    launch: Sequence[Path],
    catalog: tuple[Path, ...],
    coverage: float | None = None,
    kinds: Sequence[str] = (),
) -> dict[str, Any]:
    """The result document of what launch files start, with its `imported` part and what `kinds` of figures need.

    Raises InputError when a file is at fault, or what it starts cannot run.
    """
    from planner.cli.reading import covering
    from planner.errors import Fault, FieldError, InputError
    from planner.files.scenario import load_scenario
    from planner.review.figures import drawable
    from planner.review.imported import imported_document

    scenario = load_scenario(path, catalog)
    read = _import(scenario, launch, (*catalog, path.parent / "hardware"))
    if coverage is not None:
        read = replace(read, scenario=replace(read.scenario, engine=covering(read.scenario.engine, coverage)))
    try:
        from planner import sizing

        result = drawable(sizing.evaluate(read.scenario), kinds)
    except FieldError as error:
        raise InputError([Fault(f"{error.field}: {error.message}", ", ".join(map(str, launch)))]) from error
    planned = _planned(scenario, read)
    files = [{"path": str(file), "sha256": _checksum(file)} for file in launch]
    result["imported"] = imported_document(files, read.unread, read.remarks, result, planned)
    return result


def _import(scenario: Scenario, launch: Sequence[Path], catalog: Sequence[Path]) -> Imported:
    from planner.export.pods import products
    from planner.files.catalog import Catalog
    from planner.files.launch_files import read_launch_files
    from planner.files.launch_import import as_scenario

    found = Catalog([folder for folder in catalog if folder.is_dir()])
    return as_scenario(scenario, read_launch_files(launch), launch, found.engine, found.accelerator, products())


def _planned(scenario: Scenario, read: Imported) -> dict[str, Any] | None:
    """What `size` finds for the same scenario on the engine that runs; None where it cannot answer."""
    from planner import sizing
    from planner.errors import FieldError
    from planner.review.document import document

    offered = scenario if scenario.prefill_accelerators else read.scenario
    asked = replace(
        offered,
        engine=read.scenario.engine,
        kv_dtype=read.scenario.kv_dtype,
        weights=read.scenario.weights,
        deployment=None,
    )
    try:
        return document(sizing.size(asked))
    except FieldError:
        return None


def _checksum(path: Path) -> str:
    """Of a file, or of the names and bytes of the files in a folder."""
    from planner.files.reading import read_bytes, sha256

    if not path.is_dir():
        return sha256(read_bytes(path, 5_000_000))
    inside = sorted(file for file in path.iterdir() if file.is_file())
    return sha256(b"".join(file.name.encode() + read_bytes(file, 50_000_000) for file in inside))
