"""The catalog of accelerators, links, storage tiers and engines: which files there are, and reading one by its id.

Shipped files are inside the package in a wheel and beside it in a checkout or an editable install. Folders that a user
adds are searched first and override by id; they mirror the shipped layout or hold accelerator files directly.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from planner.errors import Fault, InputError
from planner.files.catalog_fields import Fields, finish
from planner.files.catalog_links import Link, StorageTier, read_link, read_tier
from planner.files.nearest import did_you_mean
from planner.files.yamlfile import Document, load

if TYPE_CHECKING:
    from planner.files.systems import System
    from planner.records import Accelerator, EngineProfile, OperatorFit

Record = TypeVar("Record")

ENGINE_ALIASES: Mapping[str, str] = {
    "trtllm": "tensorrt-llm", "trt-llm": "tensorrt-llm", "tensorrtllm": "tensorrt-llm", "tensorrt": "tensorrt-llm",
    "sgl": "sglang",
}  # fmt: skip

ACCELERATOR_ALIASES: Mapping[str, str] = {
    "a100": "a100-sxm-80", "a100-80": "a100-sxm-80", "a100-80gb": "a100-sxm-80", "a100-sxm": "a100-sxm-80",
    "a100-sxm4-80gb": "a100-sxm-80", "a100-40": "a100-sxm-40", "a100-40gb": "a100-sxm-40",
    "a100-sxm4-40gb": "a100-sxm-40", "a100-pcie": "a100-pcie-80", "h100": "h100-sxm", "h100-80gb": "h100-sxm",
    "h100-sxm5": "h100-sxm", "h100-80gb-hbm3": "h100-sxm", "h200": "h200-sxm", "h200-141gb": "h200-sxm",
    "h200-sxm5": "h200-sxm", "gh200": "gh200-144", "b200-sxm": "b200", "b300-sxm": "b300", "gb200-nvl72": "gb200",
    "gb300-nvl72": "gb300", "rubin": "rubin-vr200", "vr200": "rubin-vr200", "vr200-nvl72": "rubin-vr200",
    "rtx4090": "rtx-4090", "4090": "rtx-4090", "rtx5090": "rtx-5090", "5090": "rtx-5090",
    "rtx-pro-6000-blackwell": "rtx-pro-6000", "rtx6000-pro": "rtx-pro-6000", "mi250": "mi250x", "mi300": "mi300x",
    "mi325": "mi325x", "mi355": "mi355x", "mi455": "mi455x", "mi450": "mi455x", "gaudi-3": "gaudi3", "b60": "intel-b60",
    "v5e": "tpu-v5e", "v5p": "tpu-v5p", "v6e": "tpu-v6e", "trillium": "tpu-v6e", "tpu-v7": "tpu-v7-ironwood",
    "ironwood": "tpu-v7-ironwood", "trn2": "trainium2", "inf2": "inferentia2", "910b": "ascend-910b",
    "910c": "ascend-910c",
}  # fmt: skip

_FOLDERS = {
    "accelerator": "accelerators", "efficiency": "efficiency", "engine": "engines", "link": "links",
    "storage": "storage", "system": "systems",
}  # fmt: skip
CATALOG_FOLDERS = tuple(_FOLDERS.values())
_ENDINGS = (".yaml", ".yml")
_KIND_LINE = re.compile(rb"^kind:\s*[\"']?([a-z]+)", re.MULTILINE)
_PACKAGE = Path(__file__).resolve().parent.parent


def engine_id(name: str) -> str:
    """The engine's id for any usual spelling of it; an unknown name comes back as it is, in lower case."""
    folded = _folded(name)
    return ENGINE_ALIASES.get(folded, folded)


def accelerator_id(name: str) -> str:
    """The accelerator's id for any usual spelling of it; an unknown name comes back as it is, in lower case."""
    folded = _folded(name).removeprefix("nvidia-").removeprefix("amd-instinct-").removeprefix("amd-")
    return ACCELERATOR_ALIASES.get(folded, folded)


def _folded(name: str) -> str:
    return re.sub(r"[\s_]+", "-", name.strip().casefold())


@dataclass(frozen=True, slots=True)
class Listed:
    """An accelerator as a listing shows it."""

    id: str
    vendor: str
    status: str
    memory_bytes: float
    memory_bytes_per_s: float
    bf16_dense_flops_per_s: float
    fp8_dense_flops_per_s: float | None
    fp4_dense_flops_per_s: float | None
    scaleup_name: str
    scaleup_bytes_per_s: float | None
    scaleup_domain: int | None
    usd_per_hour: Mapping[str, float]
    efficiency_like: str
    path: str


class Catalog:
    """Reads catalog files on demand, each at most once.

    Parameters
    ----------
    extra_dirs : sequence of Path
        Folders, or single YAML files, of the user; the first one that holds an id wins over the shipped file.

    Raises InputError when an extra folder does not exist.
    """

    def __init__(self, extra_dirs: Sequence[Path] = ()) -> None:
        missing = [Fault("no such file or folder", str(path)) for path in extra_dirs if not path.exists()]
        finish(missing)
        shipped = shipped_folder()
        self._paths: dict[str, dict[str, Path]] = {kind: _files(shipped / name) for kind, name in _FOLDERS.items()}
        for extra in reversed(extra_dirs):
            for kind, found in _user_files(extra).items():
                self._paths[kind] |= found
        self._read: dict[tuple[str, str], object] = {}

    def accelerator_ids(self) -> tuple[str, ...]:
        return self._ids("accelerator")

    def engine_ids(self) -> tuple[str, ...]:
        return self._ids("engine")

    def fitted_ids(self) -> tuple[str, ...]:
        """Ids that have operator fits of their own."""
        return self._ids("efficiency")

    def accelerator(self, name: str) -> Accelerator:
        """The accelerator of an id or alias with its operator fits, or its sibling's.

        The id of a system stands for the accelerator in it, with the fabric and network share it has there.

        Raises
        ------
        KeyError
            No file of that name.
        InputError
            The file, or the efficiency file it needs, is malformed.
        """
        if name in self._paths["system"]:
            from planner.files.systems import inside

            system = self.system(name)
            found = inside(system, self.accelerator(system.accelerator))
            return replace(found, sha256=_joined([found.sha256, system.sha256]))
        return self._once("accelerator", self._known("accelerator", name, accelerator_id), self._accelerator)

    def accelerator_path(self, name: str) -> Path:
        """The file of an id or alias. Raises KeyError when there is none."""
        return self._paths["accelerator"][self._known("accelerator", name, accelerator_id)]

    def engine(self, name: str) -> EngineProfile:
        """The engine profile of an id or alias. Raises KeyError or InputError as `accelerator` does."""
        from planner.files.catalog_profiles import read_engine

        return self._once("engine", self._known("engine", name, engine_id), self._reader("engine", read_engine))

    def system_ids(self) -> tuple[str, ...]:
        return self._ids("system")

    def system(self, name: str) -> System:
        """The node, rack or slice of an id. Raises KeyError or InputError as `accelerator` does."""
        from planner.files.systems import Parts, read_system

        rates = {link.id: link.bytes_per_s for link in self.links()}
        parts = Parts(self.accelerator_ids(), rates, self._ids("storage"))
        reader = self._reader("system", lambda document, stem: read_system(document, stem, parts))
        return self._once("system", self._known("system", name, str), reader)

    def engine_path(self, name: str) -> Path:
        """The file of an engine's id or alias. Raises KeyError when there is none."""
        return self._paths["engine"][self._known("engine", name, engine_id)]

    def links(self) -> tuple[Link, ...]:
        return tuple(self._link(name) for name in self._ids("link"))

    def storage(self) -> tuple[StorageTier, ...]:
        return tuple(self._tier(name) for name in self._ids("storage"))

    def listing(self) -> tuple[Listed, ...]:
        """Every accelerator in short, read without its fits."""
        return tuple(self._once("listed", name, lambda name: self._listed(name)) for name in self._ids("accelerator"))

    def faults(self) -> tuple[Fault, ...]:
        """Every fault of every file, for linting."""
        reads: list[Callable[[], object]] = [
            *(partial(self.accelerator, name) for name in self.accelerator_ids()),
            *(partial(self._fits, name) for name in self.fitted_ids()),
            *(partial(self.engine, name) for name in self.engine_ids()),
            *(partial(self._link, name) for name in self._ids("link")),
            *(partial(self._tier, name) for name in self._ids("storage")),
            *(partial(self.system, name) for name in self.system_ids()),
        ]
        found: dict[Fault, None] = {}
        for read in reads:
            found |= _faults_of(read)
        return tuple(found)

    def _ids(self, kind: str) -> tuple[str, ...]:
        return tuple(sorted(self._paths[kind]))

    def _known(self, kind: str, name: str, canonical: Callable[[str], str]) -> str:
        if name in self._paths[kind]:
            return name
        found = canonical(name)
        if found not in self._paths[kind]:
            raise KeyError(name)
        return found

    def _once(self, kind: str, name: str, read: Callable[[str], Record]) -> Record:
        key = (kind, name)
        if key not in self._read:
            self._read[key] = read(name)
        return self._read[key]  # type: ignore[return-value]

    def _reader(self, kind: str, read: Callable[[Document, str], Record]) -> Callable[[str], Record]:
        return lambda name: read(load(self._paths[kind][name]), name)

    def _link(self, name: str) -> Link:
        return self._once("link", name, self._reader("link", read_link))

    def _tier(self, name: str) -> StorageTier:
        return self._once("storage", name, self._reader("storage", read_tier))

    def _accelerator(self, name: str) -> Accelerator:
        from planner.files.catalog_records import DEFAULT_SIBLING, read_accelerator, with_fits

        document = load(self._paths["accelerator"][name])
        accelerator, asked = read_accelerator(document, name)
        hashes = [document.sha256]
        own: tuple[OperatorFit, ...] = ()
        if name in self._paths["efficiency"]:
            own, sha256 = self._fits(name)
            hashes.append(sha256)
        if own and not asked:
            return replace(with_fits(accelerator, own, (), ""), sha256=_joined(hashes))
        sibling = accelerator_id(asked) if asked else DEFAULT_SIBLING
        if sibling not in self._paths["efficiency"]:
            near = did_you_mean(sibling, self.fitted_ids(), "ids with fits are")
            raise InputError([document.fault(("efficiency_like",), f'no operator fits of "{asked}"; {near}')])
        borrowed, sha256 = self._fits(sibling)
        return replace(with_fits(accelerator, own, borrowed, sibling), sha256=_joined([*hashes, sha256]))

    def _fits(self, name: str) -> tuple[tuple[OperatorFit, ...], str]:
        from planner.files.catalog_records import read_fits

        def read(name: str) -> tuple[tuple[OperatorFit, ...], str]:
            document = load(self._paths["efficiency"][name])
            return read_fits(document, name), document.sha256

        return self._once("efficiency", name, read)

    def _listed(self, name: str) -> Listed:
        path = self._paths["accelerator"][name]
        fields = Fields(load(path), [])
        prices = fields.inner("prices")
        asked = fields.text("efficiency_like") or "h100-sxm"
        listed = Listed(
            id=name,
            vendor=fields.text("vendor"),
            status=fields.text("status", "shipping"),
            memory_bytes=fields.quantity("memory", "bytes", example="141 GB") or 0.0,
            memory_bytes_per_s=fields.quantity("memory_rate", "bytes_per_s", example="4.8 TB/s") or 0.0,
            bf16_dense_flops_per_s=fields.quantity("bf16_dense", "flops_per_s", example="989.4 TFLOP/s") or 0.0,
            fp8_dense_flops_per_s=fields.quantity("fp8_dense", "flops_per_s"),
            fp4_dense_flops_per_s=fields.quantity("fp4_dense", "flops_per_s"),
            scaleup_name=fields.text("scaleup_name"),
            scaleup_bytes_per_s=fields.quantity("scaleup_rate", "bytes_per_s"),
            scaleup_domain=fields.count("scaleup_domain"),
            usd_per_hour={basis: prices.quantity(basis, "usd_per_hour") or 0.0 for basis in prices.values}
            if prices
            else {},
            efficiency_like="" if name in self._paths["efficiency"] else asked,
            path=str(path),
        )
        finish(fields.faults)
        return listed


def listing(extra_dirs: Sequence[Path] = ()) -> tuple[Listed, ...]:
    """Every accelerator in short, by id. Loads no array library. Raises InputError when a file is malformed."""
    return Catalog(extra_dirs).listing()


def shipped_folder() -> Path:
    """The catalog that comes with the program: inside the package in a wheel, else beside it.

    Raises FileNotFoundError when neither exists, so the installation is broken.
    """
    for folder in (_PACKAGE / "hardware", _PACKAGE.parent / "hardware"):
        if (folder / "accelerators").is_dir():
            return folder
    raise FileNotFoundError(f"no hardware catalog in {_PACKAGE} or beside it; reinstall the program")


def _files(folder: Path) -> dict[str, Path]:
    if not folder.is_dir():
        return {}
    return {path.stem: path for path in sorted(folder.iterdir()) if path.suffix in _ENDINGS}


def _user_files(extra: Path) -> dict[str, dict[str, Path]]:
    """Files of a user's folder by kind and id: in folders named as the shipped ones, and flat by their `kind:`."""
    if not extra.is_dir():
        return {_kind_of(extra): {extra.stem: extra}}
    found = {kind: _files(extra / name) for kind, name in _FOLDERS.items()}
    for name, path in _files(extra).items():
        found[_kind_of(path)][name] = path
    return found


def _kind_of(path: Path) -> str:
    """The kind that a flat file names at the start of a line, accelerator when it names none we know."""
    try:
        match = _KIND_LINE.search(path.read_bytes())
    except OSError:
        return "accelerator"
    kind = match[1].decode() if match else "accelerator"
    return kind if kind in _FOLDERS else "accelerator"


def _joined(hashes: Sequence[str]) -> str:
    """One hash of every file that a record was read from."""
    return hashlib.sha256("".join(hashes).encode()).hexdigest()


def _faults_of(read: Callable[[], object]) -> dict[Fault, None]:
    try:
        read()
    except InputError as error:
        return dict.fromkeys(error.faults)
    return {}
