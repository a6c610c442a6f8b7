"""Whether catalog files are believable: readable, sourced, and inside what physics and known hardware allow."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from planner.errors import Fault, InputError
from planner.files.catalog import CATALOG_FOLDERS, Catalog
from planner.files.catalog_links import Link
from planner.files.catalog_tables import ACCELERATOR_COUNTS, ACCELERATOR_QUANTITIES, ORIGINS
from planner.files.models import model_paths
from planner.files.yamlfile import Document, load
from planner.records import Accelerator

# Sizes on boxes, in GB that are GiB: a decimal reading loses 7 %.
BOX_SIZES = frozenset({16, 24, 32, 40, 48, 64, 80, 94, 96, 128, 141, 144, 180, 188, 192, 256, 288, 432})
MOST_NIC_BYTES_PER_S = 200e9  # 1.6 Tb/s, the fastest adapter of one accelerator
MOST_FP8_RATIO = {"shipping": 2.05, "announced": 5.0}  # of bf16; announced parts trade bf16 away
# What any accelerator lies between, in base units.
RANGES = {
    "memory": (1e9, 2e12),
    "memory_rate": (2e10, 1e14),
    "bf16_dense": (1e12, 1e17),
    "scaleup_rate": (1e9, 1e13),
    "host_rate": (1e9, 2e12),
    "nic_rate": (5e8, 1e12),
    "tdp": (20.0, 10_000.0),
    "all_in_power": (20.0, 50_000.0),
    "purchase": (100.0, 1e6),
}
# Each at least as good as the one before it in memory, memory rate and bf16 peak.
GENERATIONS = (
    ("a100-sxm-40", "a100-sxm-80", "h100-sxm", "h200-sxm", "b200", "b300"),
    ("gb200", "gb300", "rubin-vr200"),
    ("mi300x", "mi325x", "mi355x", "mi455x"),
    ("tpu-v5e", "tpu-v6e", "tpu-v7-ironwood"),
)
_GROWING = (
    ("memory", "memory_bytes"),
    ("memory_rate", "memory_bytes_per_s"),
    ("bf16_dense", "bf16_dense_flops_per_s"),
)
_DATE = re.compile(r"\d{4}-\d{2}(-\d{2})?")
_DECIMAL = re.compile(r"\s*([\d.]+)\s*GB\s*")


@dataclass(frozen=True, slots=True)
class _Linted:
    """One accelerator file and what it says."""

    document: Document
    accelerator: Accelerator

    def fault(self, key: str, message: str) -> Fault:
        return self.document.fault((key,), message)

    def values(self) -> Iterator[tuple[str, float]]:
        """Keys of quantities that the file gives, in base units."""
        for key in ACCELERATOR_QUANTITIES:
            number = getattr(self.accelerator, key.field)
            if number is not None and key.name in self.document.value:
                yield key.name, number


def lint(folder: Path) -> tuple[Fault, ...]:
    """Everything wrong or doubtful in a catalog folder, in file order. Empty when it is sound.

    Faults of reading (keys, units, shapes of model files), values without a source, peaks, sizes and rates that known
    hardware contradicts, and a generation that falls behind the one before it.

    Raises InputError when there is no such folder.
    """
    catalog = Catalog((folder,))
    found = [fault for fault in catalog.faults() if _inside(fault.path, folder)]
    for path in sorted(set(model_paths((folder,)).values())):
        if _inside(str(path), folder):
            found += _faults_of_model(path)
    known = [link for link in _readable(catalog.links) or () if link.link_class == "scale-up"]
    linted = {name: item for name in catalog.accelerator_ids() if (item := _linted(catalog, name))}
    for item in linted.values():
        if _inside(item.document.path, folder):
            found += _doubts(item, known)
    found += [fault for fault in _generations(linted) if _inside(fault.path, folder)]
    return tuple(sorted(dict.fromkeys(found), key=lambda fault: (fault.path, fault.line, fault.column)))


def lint_all(paths: Sequence[Path]) -> tuple[Fault, ...]:
    """As `lint`, of several folders or files; a file is judged among those of its catalog.

    Raises InputError with every path that does not exist.
    """
    missing = [Fault("no such file or folder", str(path)) for path in paths if not path.exists()]
    if missing:
        raise InputError(missing)
    folders = {path: path if path.is_dir() else _catalog_of(path) for path in paths}
    found: dict[Fault, None] = {}
    for folder in dict.fromkeys(folders.values()):
        asked = [path for path, its in folders.items() if its == folder]
        found |= dict.fromkeys(fault for fault in lint(folder) if any(_inside(fault.path, path) for path in asked))
    return tuple(found)


def _catalog_of(path: Path) -> Path:
    """The folder whose layout a catalog file is part of."""
    folder = path.absolute().parent
    return folder.parent if folder.name in (*CATALOG_FOLDERS, "models") else folder


def _inside(path: str, folder: Path) -> bool:
    return Path(path).resolve().is_relative_to(folder.resolve())


def _readable(read: Callable[[], Any]) -> Any:
    try:
        return read()
    except InputError:
        return None


def _faults_of_model(path: Path) -> tuple[Fault, ...]:
    from planner.files.model_yaml import read_model

    try:
        read_model(path, path.stem)
    except InputError as error:
        return error.faults
    return ()


def _linted(catalog: Catalog, name: str) -> _Linted | None:
    accelerator = _readable(lambda: catalog.accelerator(name))
    return _Linted(load(catalog.accelerator_path(name)), accelerator) if accelerator is not None else None


def _doubts(item: _Linted, links: Sequence[Link]) -> Iterator[Fault]:
    yield from _sources(item)
    yield from _ranges(item)
    yield from _peaks(item)
    yield from _memory(item)
    yield from _links(item, links)
    yield from _power(item)


def _sources(item: _Linted) -> Iterator[Fault]:
    given = item.document.value
    names = [key.name for key in (*ACCELERATOR_QUANTITIES, *ACCELERATOR_COUNTS) if key.name in given]
    bare = [name for name in names if not isinstance(given[name], dict) or not given[name].get("source")]
    if bare:
        yield item.fault(
            bare[0], f"no source is given for {', '.join(bare)}; write {{value: ..., source: ..., kind: ...}}"
        )
    for name in names:
        value = given[name]
        if not isinstance(value, dict):
            continue
        if value.get("kind") is not None and value["kind"] not in ORIGINS:
            yield item.document.fault((name, "kind"), f'"{value["kind"]}" is none of {", ".join(ORIGINS)}')
        if value.get("retrieved") is not None and not _DATE.fullmatch(str(value["retrieved"])):
            yield item.document.fault((name, "retrieved"), f'"{value["retrieved"]}" is no date; want e.g. 2026-08-22')


def _ranges(item: _Linted) -> Iterator[Fault]:
    for name, number in item.values():
        least, most = RANGES.get(name, (0.0, float("inf")))
        if not least <= number <= most:
            yield item.fault(name, f"{number:.3g} in base units lies outside {least:g} to {most:g}: wrong unit?")
    for basis, price in item.accelerator.usd_per_hour.items():
        if not 0.01 <= price <= 500:
            yield item.document.fault(("prices", basis), f"{price:g} USD per hour is no price of one accelerator")


def _peaks(item: _Linted) -> Iterator[Fault]:
    part = item.accelerator
    bf16, fp8, fp4 = part.bf16_dense_flops_per_s, part.fp8_dense_flops_per_s, part.fp4_dense_flops_per_s
    for name in ("bf16", "fp8", "fp4"):
        dense, sparse = getattr(part, f"{name}_dense_flops_per_s"), getattr(part, f"{name}_sparse_flops_per_s")
        if dense and sparse and dense > sparse / 2 * 1.02:
            message = (
                f"is more than half of {name}_sparse: 2:4 sparsity doubles a dense peak, so one of them is the other"
            )
            yield item.fault(f"{name}_dense", message)
    if fp8 and fp8 > bf16 * MOST_FP8_RATIO[part.status]:
        yield item.fault("fp8_dense", f"is {fp8 / bf16:.2f} times bf16_dense; matrix units double it at most: sparse?")
    if fp8 and fp8 < bf16 * 0.98:
        yield item.fault("fp8_dense", "is below bf16_dense; leave it out when there are no 8-bit units")
    if fp4 and fp8 and not 0.98 <= fp4 / fp8 <= 4.05:
        yield item.fault("fp4_dense", f"is {fp4 / fp8:.2f} times fp8_dense; known parts have 1 to 4")
    intensity = bf16 / part.memory_bytes_per_s
    if not 20 <= intensity <= 1500:
        yield item.fault("bf16_dense", f"is {intensity:.0f} FLOP per byte of memory rate; known parts have 30 to 600")


def _memory(item: _Linted) -> Iterator[Fault]:
    value = item.document.value.get("memory")
    origin = value.get("kind") if isinstance(value, dict) else None
    text = str(value.get("value") if isinstance(value, dict) else value)
    match = _DECIMAL.fullmatch(text)
    if match and float(match[1]) in BOX_SIZES and origin != "measured":
        size = float(match[1])
        message = (
            f"{size:g} GB reads as {size:g}e9 bytes, but what the box calls {size:g} GB is usually {size:g} GiB "
            f"({size * 1.073741824:.1f}e9); write GiB, or what the driver reports in bytes"
        )
        yield item.fault("memory", message)


def _links(item: _Linted, links: Sequence[Link]) -> Iterator[Fault]:
    part = item.accelerator
    name = _folded(part.scaleup_name)
    rates = [link.bytes_per_s or 0.0 for link in links if name and name.startswith(_folded(link.id.split("-")[0]))]
    if part.scaleup_bytes_per_s and rates and part.scaleup_bytes_per_s > 1.2 * max(rates):
        message = (
            f"{part.scaleup_bytes_per_s / 1e9:g} GB/s is more than {part.scaleup_name} carries one way "
            f"({max(rates) / 1e9:g} GB/s): both directions added?"
        )
        yield item.fault("scaleup_rate", message)
    if part.nic_bytes_per_s and part.nic_bytes_per_s > MOST_NIC_BYTES_PER_S:
        share = part.nic_bytes_per_s / part.node_accelerators * 8e-9
        message = f"is more than one accelerator's adapter carries: of the whole node? A share of it is {share:g} Gb/s"
        yield item.fault("nic_rate", message)
    if part.node_accelerators > max(part.scaleup_domain, 16):
        yield item.fault("node_accelerators", f"{part.node_accelerators} accelerators in one host: the whole rack?")


def _folded(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.casefold())


def _power(item: _Linted) -> Iterator[Fault]:
    part = item.accelerator
    if part.tdp_watts and part.all_in_watts and part.all_in_watts < part.tdp_watts:
        yield item.fault("all_in_power", "is below tdp, which it contains")


def _generations(linted: dict[str, _Linted]) -> Iterator[Fault]:
    for chain in GENERATIONS:
        present = [linted[name] for name in chain if name in linted]
        for before, after in pairwise(present):
            for key, field in _GROWING:
                old, new = getattr(before.accelerator, field), getattr(after.accelerator, field)
                if new < old * 0.999:
                    message = f"is below that of {before.accelerator.id}, the generation before ({new:.4g} < {old:.4g})"
                    yield after.fault(key, message)
