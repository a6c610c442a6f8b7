"""From a scenario or a saved result to the files of an export, and the directory they are written to as a whole."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner.errors import Fault, InputError, PlannerError

if TYPE_CHECKING:
    from planner.export.bundle import File, Target
    from planner.records import Deployment, EngineProfile, Scenario

MOST_RESULT_BYTES = 50_000_000


class Refused(PlannerError):
    """There is no plan to write, or none that the engine runs; says why and what to do."""


def planned(
    source: Path, target: Target, connector: str, version: str, catalog: tuple[Path, ...]
) -> tuple[dict[str, File], list[str]]:
    """The files of an export, and what a reader should know of how they came about.

    Raises
    ------
    Refused
        Nothing fits, or the engine or its connector cannot run the plan.
    InputError
        The scenario, the result or an option is at fault.
    """
    from planner.export.bundle import bundle
    from planner.export.launch import launch
    from planner.files.results import believed_whole
    from planner.render.json import to_json

    connector = _connector(target, connector)
    if source.suffix == ".json":
        document, told = _of_result(source, target, connector, version, catalog)
    else:
        document, told = _of_scenario(source, target, connector, version, catalog)
    with believed_whole(source):
        _refuse_infeasible(document)
        made = launch(document, connector)  # type: ignore[arg-type]  # one of the target's connectors
        files = bundle(made, target, to_json(document))
    if source.suffix == ".json":
        _refuse_unrunnable(document, source, target, connector, catalog)
    return files, told


def _connector(target: Target, asked: str) -> str:
    if asked and asked not in target.connectors:
        raise InputError(f"--connector {asked}: {target.name} moves caches with {' or '.join(target.connectors)}")
    return asked or target.connectors[0]


# ------------------------------------------------------------------------------------------------------------- scenario


def _of_scenario(
    path: Path, target: Target, connector: str, version: str, catalog: tuple[Path, ...]
) -> tuple[dict[str, Any], list[str]]:
    """The result document of a scenario's own deployment, else of the plan that is found; for the target's engine."""
    from planner.cli.reading import plan_of
    from planner.files.scenario import load_scenario
    from planner.review.document import document

    scenario = load_scenario(path, catalog)
    if not version and scenario.engine.id in target.engines:
        version = scenario.engine.version
    engine = _engine(target, scenario.engine.id, version, connector, (*catalog, path.parent / "hardware"))
    changed, told = replace(scenario, engine=engine), []
    if engine.id != scenario.engine.id:
        left = ", without its own deployment" if scenario.deployment else ""
        told.append(f"the scenario names {scenario.engine.id}; planned again for {engine.id} {engine.version}{left}")
        changed = replace(changed, deployment=None)
    return document(plan_of(changed, path, _nearest_of(changed))), told


def _engine(target: Target, named: str, version: str, connector: str, catalog: tuple[Path, ...]) -> EngineProfile:
    """The engine that the target runs: the one named, or its first; at a version whose options are known."""
    from planner.files.catalog import Catalog
    from planner.files.catalog_engines import at_version

    found = Catalog([folder for folder in catalog if folder.is_dir()]).engine(
        named if named in target.engines else target.engines[0]
    )
    if version:
        chosen = at_version(found, version)
        if chosen.memory != found.memory:
            known = f"options are known for {found.version} only; plan for it, and start an engine of that version"
            raise InputError(f"{found.id} {version}: {known}")
        found = chosen
    rule = f"{connector}/{target.name}"
    return replace(found, connector=rule if rule in found.connectors else connector)


def _nearest_of(scenario: Scenario) -> Callable[[], str]:
    """What a refusal of the scenario's own deployment ends with: the nearest one that runs."""
    from planner import sizing
    from planner.engines.rules import nearest
    from planner.errors import FieldError

    def say() -> str:
        if scenario.deployment is None:
            return ""
        for number, other in enumerate(nearest(scenario.engine, scenario.model, scenario.deployment, scenario.weights)):
            if number >= _MOST_TRIED:
                break
            try:
                sizing.evaluate(replace(scenario, deployment=other))
            except FieldError:
                continue
            return f"; nearest that runs: {described(other)}"
        return ""

    return say


_MOST_TRIED = 40


def described(deployment: Deployment) -> str:
    """A deployment in the words of the report."""
    return ", ".join(
        f"{name} {pool.replicas} x "
        + " ".join(f"{key} {getattr(pool, key)}" for key in ("tp", "ep", "dp") if getattr(pool, key) > 1 or key == "tp")
        for name, pool in deployment.named_pools.items()
    )


# --------------------------------------------------------------------------------------------------------------- result


def _of_result(
    path: Path, target: Target, connector: str, version: str, catalog: tuple[Path, ...]
) -> tuple[dict[str, Any], list[str]]:
    """A saved result, for the engine it was made for; for another one its scenario is planned again."""
    from planner.files.results import believed_whole, load_one

    document = load_one(path)
    with believed_whole(path):
        engine_id, made_version = (str(document["inputs"]["engine"][name]) for name in ("id", "version"))
        if engine_id in target.engines and version in ("", made_version):
            return document, []
        scenario = _scenario_of(document, path)
    again, told = _of_scenario(scenario, target, connector, version, catalog)
    return again, [f"{path} was made for {engine_id} {made_version}; {scenario} is planned again", *told]


def _scenario_of(document: Mapping[str, Any], path: Path) -> Path:
    """The scenario file that a result came from, unchanged since."""
    from planner.files.reading import read_bytes, sha256

    named = document["inputs"]["files"][0]
    for folder in (Path(), path.parent):
        found = folder / str(named["path"])
        if found.is_file() and sha256(read_bytes(found, MOST_RESULT_BYTES)) == named["sha256"]:
            return found
    raise InputError([Fault(f"needs its scenario for another engine: give {named['path']} in its place", str(path))])


def _refuse_unrunnable(
    document: Mapping[str, Any], path: Path, target: Target, connector: str, catalog: tuple[Path, ...]
) -> None:
    """Rules may be stricter than when a result was made, and the target's connector may be another one."""
    from planner.engines.rules import nearest, why_not
    from planner.files.models import load_model

    deployment = deployment_of(document)
    if deployment is None:
        return
    model, engine_id = document["inputs"]["model"], document["inputs"]["engine"]["id"]
    engine = _engine(target, engine_id, "", connector, catalog)
    try:
        shape = load_model(model["id"], Path(), catalog)
    except InputError as error:
        raise InputError([Fault(f"inputs.model.id: {error}", str(path))]) from None
    weights = model["weight_dtype"]
    reason = why_not(engine, deployment.mode, deployment.prefill, deployment.decode, shape, weights)
    if reason:
        other = next(nearest(engine, shape, deployment, weights), None)
        raise Refused(reason + (f"; nearest that runs: {described(other)}" if other else ""))


def deployment_of(document: Mapping[str, Any]) -> Deployment | None:
    """The deployment of a result document; None when it has none."""
    from planner.records import Deployment, Pool
    from planner.review.result import pools as pools_of

    plan = document["plan"]
    if not plan:
        return None
    counts = [field.name for field in fields(Pool) if field.name != "accelerator"]
    pools = {
        name: Pool(pool["accelerator"], **{key: pool.get(key) or 0 for key in counts}) for name, pool in pools_of(plan)
    }
    return Deployment(plan["mode"], pools.get("decode") or pools["colocated"], pools.get("prefill"))


def _refuse_infeasible(document: Mapping[str, Any]) -> None:
    if document["verdict"] == "feasible" and document["plan"]:
        return
    missed = (document.get("nearest_miss") or {}).get("missed", [])
    what = "; ".join(f"{limit['name']} {limit['value']:.4g} > {limit['limit']:.4g} {limit['unit']}" for limit in missed)
    raise Refused(
        f"nothing to export: the result is infeasible ({what or 'no candidate holds the model'}); relax what is missed "
        "or offer more hardware, until `planner size` exits 0"
    )


# ------------------------------------------------------------------------------------------------------------ directory


def write_directory(out: Path, files: Mapping[str, File], force: bool) -> None:
    """Write all files into a new directory, or none; with `force` an existing directory is replaced.

    Raises InputError when the directory exists, or cannot be written.
    """
    if out.exists() and not force:
        raise InputError([Fault("exists already; give another directory, or --force to replace it", str(out))])
    if out.exists() and not _ours(out):
        raise InputError([Fault("is no directory of an export (no plan.json in it), so --force keeps it", str(out))])
    temporary = out.with_name(f".{out.name}.{os.getpid()}.tmp")
    old = out.with_name(f".{out.name}.{os.getpid()}.old")
    try:
        temporary.mkdir(parents=True)
        for name, file in files.items():
            path = temporary / name
            path.write_text(file.text, encoding="utf-8", newline="\n")
            path.chmod(0o755 if file.executable else 0o644)
        if out.exists():
            out.replace(old)
        temporary.replace(out)
    except OSError as error:
        raise InputError([Fault(f"cannot be written: {error.strerror or error}", str(out))]) from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        if old.exists():
            if out.exists():
                shutil.rmtree(old, ignore_errors=True)
            else:
                old.replace(out)


def _ours(out: Path) -> bool:
    """Whether a directory is empty or an export: nothing else is ever replaced."""
    return out.is_dir() and ((out / "plan.json").is_file() or not any(out.iterdir()))
