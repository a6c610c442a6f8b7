"""A scenario file to a `Scenario`: every name looked up, every fault of the file reported at once with its place."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from planner.errors import Fault, FieldError, InputError
from planner.files import yamlfile
from planner.files.catalog import Catalog
from planner.files.catalog_engines import at_version
from planner.files.checks import CheckReader, budgets_of, place_of
from planner.files.deployment import DeploymentReader
from planner.files.models import load_model
from planner.files.nearest import did_you_mean
from planner.files.quoted import given, read_cost_sheet, read_own_costs, read_reliability
from planner.files.reading import read_bytes, sha256
from planner.files.schema_faults import validate
from planner.files.tiers import TierReader, first_host
from planner.files.workload import WorkloadReader, beyond_context_fraction
from planner.files.yamlfile import Document, FieldPath
from planner.records import (
    Accelerator,
    Availability,
    Costs,
    Deployment,
    EngineProfile,
    Experts,
    InputFile,
    KvTier,
    Mode,
    ModelShape,
    Note,
    Pool,
    Reliability,
    Scenario,
    Speculation,
    Workload,
)
from planner.units import format_fraction, shown

_BASES = {"on-demand": "cloud_low", "3-year": "rent3y"}  # in words, and as the catalog calls them
_NOTED_FRACTION = 1e-3  # of requests past the model's context, from which a note says so


Opener = Callable[[Sequence[Path]], Catalog]
Judge = Callable[
    [EngineProfile, ModelShape, str, str, Mode, Mapping[Any, tuple[Pool, Accelerator]], float | None],
    Sequence[FieldError],
]


def load_scenario(
    path: Path,
    catalog_dirs: Sequence[Path] = (),
    open_catalog: Opener = Catalog,
    judge: Judge | None = None,
) -> Scenario:
    """Read a scenario file and everything it names.

    Parameters
    ----------
    path : Path
        The YAML file. Paths in it are relative to its folder; a `hardware` folder beside it is searched as well.
    catalog_dirs : sequence of Path
        Folders of accelerators, engines and models that win over the shipped ones.
    open_catalog : callable
        From such folders to a catalog; one that remembers reads each file once for many scenarios.
    judge : callable
        Says what the given deployment cannot be (`planner.serving.refusals`), so that it is reported with the rest.

    Raises InputError with every fault of the file, its trace and its model, each with file, line and column.
    """
    return _read(yamlfile.load(path, keep_faults=True), path, catalog_dirs, open_catalog, judge)


def parse_scenario(data: bytes, path: Path, catalog_dirs: Sequence[Path] = ()) -> Scenario:
    """As `load_scenario`, from bytes that are to stand at `path`."""
    return _read(yamlfile.parse(data, str(path), keep_faults=True), path, catalog_dirs, Catalog, None)


def _read(
    document: Document, path: Path, catalog_dirs: Sequence[Path], open_catalog: Opener, judge: Judge | None
) -> Scenario:
    beside = path.parent / "hardware"
    dirs = (*catalog_dirs, beside) if beside.is_dir() else tuple(catalog_dirs)
    return _Reader(document, path, dirs, open_catalog).scenario(judge)


def field_faults(document: Document, error: FieldError) -> list[Fault]:
    """The places in the file of the values that a computing room refused, from top to bottom."""
    faults = [field_fault(document, one) for one in error.every]
    return sorted(faults, key=lambda fault: (fault.line, fault.column))


def field_fault(document: Document, error: FieldError) -> Fault:
    """The place in the file of a value that a computing room refused, such as ``deployment.decode.tp``."""
    parts: list[str | int] = [int(part) if part.isdigit() else part for part in re.findall(r"[^.\[\]]+", error.field)]
    parts = [part.replace("p99_9", "p99.9") if isinstance(part, str) else part for part in parts]
    deployment = document.value.get("deployment") if isinstance(document.value, dict) else None
    if parts[:2] == ["deployment", "decode"] and isinstance(deployment, dict) and "colocated" in deployment:
        parts[1] = "colocated"  # the one pool of a colocated deployment
    if len(parts) > 1 and parts[0] in ("targets", "budgets"):
        return document.fault(place_of(document, tuple(parts)), error.message)
    fault = document.fault(tuple(parts), error.message.removeprefix(f"{parts[-1]} ") if parts else error.message)
    if parts and isinstance(deployment, dict) and parts[0] not in document.value:  # such as hardware.network
        line, column = document.mark(("deployment",))
        fault = replace(fault, line=line, column=column)
    return fault


class _Reader:
    """One file on its way to a record. Sections are read independently, so that one fault hides no other."""

    def __init__(self, document: Document, path: Path, dirs: Sequence[Path], open_catalog: Opener) -> None:
        self.document = document
        self.path = path
        self.keys, self.broken, self.faults = validate(document)
        self.notes: list[Note] = []
        self.inputs = [InputFile(str(path), document.sha256)]
        self.catalog = open_catalog(dirs)
        self.dirs = dirs
        self.prefill: tuple[Accelerator, ...] = ()
        self.decode: tuple[Accelerator, ...] = ()
        self.pools: dict[str, tuple[Pool, Accelerator]] = {}

    def scenario(self, judge: Judge | None) -> Scenario:
        model, engine = self._model(), self._engine()
        self.prefill, self.decode = self._candidates()
        workload = self._workload(model)
        limits = CheckReader(self.document, self.keys, self.broken)
        checks, targets = limits.read(), limits.targets(workload)
        self.faults += limits.faults
        self.notes += limits.notes
        deployment = self._deployment()
        tiers = self._tiers()
        speculation = self._speculation()
        if judge and model and engine:
            self._judge(judge, model, engine)
        if model:
            self._check_format(model)
        if model and workload:
            self._check_context(model, workload)
        self._check_availability()
        costs = self._costs()
        if self.faults or model is None or engine is None or workload is None:
            raise InputError(sorted(dict.fromkeys(self.faults), key=self._place))
        return Scenario(
            name=self.path.stem,
            model=model,
            weights=self.keys.weights or model.checkpoint_format,
            kv_dtype=self.keys.kv_cache,
            router=self.keys.router,
            engine=engine,
            prefill_accelerators=self.prefill,
            decode_accelerators=self.decode,
            network_bytes_per_s=self.keys.hardware.network if self.keys.hardware else None,
            workload=workload,
            targets=targets,
            budgets=budgets_of(checks),
            deployment=deployment,
            inputs=tuple(self.inputs),
            notes=tuple(self.notes),
            checks=checks,
            reliability=self._reliability(),
            availability=self._availability(),
            costs=costs,
            tiers=tiers,
            speculation=speculation,
            expert_imbalance_factor=self.keys.expert_imbalance,
        )

    def _tiers(self) -> tuple[KvTier, ...]:
        """Tiers below the accelerator's memory, in the node of the first candidate."""
        if self.keys.kv_tiers is None:
            return ()
        reader = TierReader(self.document, self.keys.kv_tiers, self.catalog, first_host(self.prefill, self.decode))
        tiers = reader.read()
        self.faults += reader.faults
        return tiers

    def _fault(self, path: FieldPath, message: str) -> None:
        self.faults.append(self.document.fault(path, message))

    def _place(self, fault: Fault) -> tuple[bool, str, int, int]:
        """Order of faults: this file first, then the files it names, top to bottom."""
        return fault.path != str(self.path), fault.path, fault.line, fault.column

    def _needs(self, key: str, example: str) -> None:
        """A fault for a required key that is neither there nor already reported."""
        if not {(), (key,)} & self.broken:
            self._fault((), f"needs the key {key}, e.g. {example}")

    def _broken_in(self, section: str) -> bool:
        return any(path[:1] == (section,) for path in self.broken)

    def _speculation(self) -> Speculation | None:
        if self.keys.speculation is None:
            return None
        try:
            return self.keys.speculation.record()
        except ValueError as error:
            self._fault(("speculation",), str(error))
            return None

    # ------------------------------------------------------------------------------------------------------- names

    def _model(self) -> ModelShape | None:
        if self.keys.model is None:
            self._needs("model", "model: meta-llama/Llama-3.1-70B")
            return None
        try:
            return load_model(self.keys.model, self.path.parent, self.dirs)
        except InputError as error:
            self._adopt(error, ("model",))
            return None

    def _engine(self) -> EngineProfile | None:
        if {(), ("engine",), ("engine_version",)} & self.broken:
            return None
        try:
            found = self.catalog.engine(self.keys.engine)
            return at_version(found, self.keys.engine_version) if self.keys.engine_version else found
        except KeyError:
            known = did_you_mean(self.keys.engine, self.catalog.engine_ids())
            self._fault(("engine",), f'"{self.keys.engine}" is not a known engine; {known}')
        except InputError as error:
            self._adopt(error, ("engine_version",) if self.keys.engine_version else ("engine",))
        return None

    def _accelerator(self, name: str, path: FieldPath) -> Accelerator | None:
        try:
            return self.catalog.accelerator(name)
        except KeyError:
            known = did_you_mean(name, (*self.catalog.accelerator_ids(), *self.catalog.system_ids()))
            self._fault(path, f'"{name}" is not a known accelerator; {known}')
        except InputError as error:
            self._adopt(error, path)
        return None

    def _adopt(self, error: InputError, path: FieldPath) -> None:
        """Faults of another file keep their place; those without a line get the place that names the file."""
        for fault in error.faults:
            if fault.line:
                self.faults.append(fault)
            else:
                self._fault(path, f"{fault.path}: {fault.message}" if fault.path else fault.message)

    # ---------------------------------------------------------------------------------------------------- hardware

    def _candidates(self) -> tuple[tuple[Accelerator, ...], tuple[Accelerator, ...]]:
        """Accelerators to consider for prefill and for decode."""
        keys = self.keys.hardware
        if keys is None:
            if self.keys.deployment is None and ("deployment",) not in self.broken:
                self._needs("hardware", "hardware: {accelerators: [h100-sxm]}")
            return (), ()
        listed = keys.accelerators is not None or (keys.prefill is not None and keys.decode is not None)
        if not listed and not self._broken_in("hardware"):
            self._fault(("hardware",), "needs accelerators: with at least one id, e.g. [h100-sxm, h200-sxm]")
        both = self._listed("accelerators", keys.accelerators)
        prefill = both if keys.prefill is None else self._listed("prefill", keys.prefill)
        decode = both if keys.decode is None else self._listed("decode", keys.decode)
        return prefill, decode

    def _listed(self, key: str, names: list[Any] | None) -> tuple[Accelerator, ...]:
        found: dict[str, Accelerator] = {}
        for index, name in enumerate(names or ()):
            place = ("hardware", key, index)
            if place in self.broken:
                continue
            if not isinstance(name, str):
                self._fault(place, f"{shown(name)} is not a name; want the id of an accelerator")
                continue
            accelerator = self._accelerator(name, place)
            if accelerator and accelerator.id in found:
                self._fault(place, f'"{name}" is listed twice')
            elif accelerator:
                found[accelerator.id] = accelerator
        return tuple(found.values())

    # ----------------------------------------------------------------------------------------- workload and targets

    def _workload(self, model: ModelShape | None) -> Workload | None:
        if self.keys.workload is None:
            self._needs("workload", "workload: {requests: 12 /s, input_tokens: 4000, output_tokens: 500}")
            return None
        most_tokens = model.max_context_tokens if model else 0
        reader = WorkloadReader(self.document, self.keys.workload, self.path.parent, self.broken, most_tokens)
        workload = reader.read()
        self.faults += reader.faults
        self.notes += reader.notes
        self.inputs += reader.inputs
        return workload

    def _check_format(self, model: ModelShape) -> None:
        experts = any(isinstance(kind.feed_forward, Experts) for kind in model.layers)
        if self.keys.weights == "mxfp4" and not experts:
            text = f'"mxfp4" is a format for experts, and {model.id} has none; want fp8, nvfp4 or int4'
            self._fault(("weights",), text)

    def _check_context(self, model: ModelShape, workload: Workload) -> None:
        if not model.max_context_tokens:
            return
        beyond = beyond_context_fraction(workload.lengths, model.max_context_tokens)
        text = f"exceed the {model.max_context_tokens:,} tokens of context of {model.id}"
        if beyond > 0.5:
            self._fault(("workload",), f"{format_fraction(beyond)} of the requests {text}")
        elif beyond >= _NOTED_FRACTION:
            self.notes.append(
                Note("caution", f"{format_fraction(beyond)} of the requests {text}; sized as if it held them")
            )

    def _reliability(self) -> Reliability:
        """Failure rates of the catalog, with what the file says itself."""
        found, keys = read_reliability(), self.keys.availability
        if keys is not None and keys.mtbf is not None:
            found = replace(found, accelerator_mtbf_s=given(keys.mtbf, self.path))
        if keys is not None and keys.repair is not None:
            found = replace(found, hard_repair_s=given(keys.repair, self.path))
        return found

    def _availability(self) -> Availability | None:
        keys = self.keys.availability
        if keys is None or (keys.spare is None and keys.target is None):
            return None
        return Availability(keys.spare, keys.target, keys.domain)

    def _costs(self) -> Costs:
        """Prices by the file's own sheet where it names one. Owning is priced from the shipped sheet otherwise."""
        keys = self.keys.cost
        if keys is None:
            return Costs()
        found = Costs(own=read_own_costs())
        if keys.sheet is not None:
            path = self.path.parent / keys.sheet
            try:
                found = read_cost_sheet(path, self._accelerator_id)
                self.inputs.append(InputFile(keys.sheet, sha256(read_bytes(path, yamlfile.MOST_BYTES))))
            except InputError as error:
                self._adopt(error, ("cost", "sheet"))
        basis = _BASES.get(keys.basis or "", keys.basis or "")
        if not basis and keys.sheet is not None:
            basis = "sheet" if found.rent_usd_per_hour else "own"
        if basis == "sheet" and not found.rent_usd_per_hour and not self.faults:
            self._fault(("cost", "basis"), "wants a sheet with rent: {h100-sxm: 2.10 USD/h}")
        return replace(found, basis=basis, duty_fraction=keys.duty)

    def _accelerator_id(self, name: str) -> str | None:
        try:
            return self.catalog.accelerator_path(name).stem
        except KeyError:
            return None

    def _check_availability(self) -> None:
        keys = self.keys.availability
        if keys is None or self._broken_in("availability"):
            return
        if (keys.spare is None) == (keys.target is None):
            self._fault(("availability",), "wants either spare: 1 or target: 99.9 %")

    # -------------------------------------------------------------------------------------------------- deployment

    def _deployment(self) -> Deployment | None:
        """The given deployment. Without `hardware:` its accelerators are the only candidates."""
        if self.keys.deployment is None:
            return None
        reader = DeploymentReader(
            self.document, self.keys.deployment, self._accelerator, self.prefill, self.decode, self.broken
        )
        deployment = reader.read()
        self.pools = {name: (pool, reader.accelerators[name]) for name, pool in reader.pools.items()}
        self.faults += reader.faults
        if deployment and self.keys.hardware is None:
            last = reader.accelerators["decode" if deployment.prefill else "colocated"]
            self.decode = (last,)
            self.prefill = (reader.accelerators.get("prefill", last),)
        return deployment

    def _judge(self, judge: Judge, model: ModelShape, engine: EngineProfile) -> None:
        """What the pools that could be read cannot be, where nothing else is said about the same place."""
        if not self.pools or self.keys.deployment is None:
            return
        network = self.keys.hardware.network if self.keys.hardware else None
        if ("hardware", "network") in self.broken:
            network = 1.0  # it was given, so nobody is told that it is missing
        weights = self.keys.weights or model.checkpoint_format
        said = {(fault.line, fault.column) for fault in self.faults}
        errors = judge(engine, model, weights, self.keys.kv_cache, self.keys.deployment.mode, self.pools, network)
        faults = [field_fault(self.document, error) for error in errors]
        self.faults += [fault for fault in faults if (fault.line, fault.column) not in said]
