"""The `kv_tiers:` section to records: places below the accelerator's memory that keep KV, nearest first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from planner.errors import Fault
from planner.files.catalog import Catalog
from planner.files.catalog_links import StorageTier
from planner.files.nearest import did_you_mean
from planner.files.schema import TierKeys
from planner.files.yamlfile import Document
from planner.records import TIER_KINDS, Accelerator, KvTier, TierKind
from planner.units import format_bytes, shown

HOURS_3_YEARS = 3 * 8766.0  # over which a purchase is spread, as the three-year rent of accelerators
HOURS_PER_MONTH = 730.5
PCIE_FACTOR = 0.79  # 50 of 63 GB/s one way by an engine's own copies (PUBLISHED §6, vLLM offload)
C2C_FACTOR = 0.83  # 375 of 450 GB/s on Grace
DRAM_FACTOR = 0.82  # 250.9 of 307.2 GB/s, where no achieved rate is known
RATED_WRITES_PER_DAY = 1.0  # of the read-intensive class of data-center drives; not verified per model

_FETCH_START_S = {"host-dram": 0.5e-3, "cxl": 0.5e-3, "local-ssd": 1e-3, "pool": 0.45e-3, "object-store": 0.0}
_GRACE = ("gh200", "gb200", "gb300")


class _Slots(NamedTuple):
    """What a node has room for."""

    parts: int  # that work side by side, each with its own rate; 0: rates are of the node already
    bytes_max: float


# 2 sockets of 16 slots for 256 GB; 4 cards; 8 bays for 30.72 TB. A pool or a store is as large as one pays for.
_SLOTS: Mapping[str, _Slots] = {
    "host-dram": _Slots(2, 2 * 16 * 256e9),
    "cxl": _Slots(4, 4 * 512e9),
    "local-ssd": _Slots(8, 8 * 30.72e12),
    "pool": _Slots(0, 1e18),
    "object-store": _Slots(0, 1e18),
}
_MEDIA: Mapping[str, str] = {
    "host-dram": "host-dram-ddr5-4800-x8-channels",
    "cxl": "cxl-2.0-type-3-pcie5-x16",
    "local-ssd": "nvme-pcie5-micron-9550-samsung-pm1743-class",
    "pool": "network-pool-mooncake-transfer-engine-8-x-400-gb-roce",
    "object-store": "object-store-s3-express-one-zone",
}
_KIND_OF_TIER: Mapping[str, TierKind] = {
    "host-dram": "host-dram",
    "host-dram-grace": "host-dram",
    "host-dram-vera": "host-dram",
    "cxl": "cxl",
    "nvme-pcie4": "local-ssd",
    "nvme-pcie5": "local-ssd",
    "nvme-pcie6": "local-ssd",
    "network-pool": "pool",
    "parallel-fs": "object-store",
    "object-store": "object-store",
}


class TierReader:
    """Reads one section; `faults` fills as it goes. `host` is the accelerator whose node the tiers are in."""

    def __init__(
        self, document: Document, keys: Mapping[str, TierKeys], catalog: Catalog, host: Accelerator | None
    ) -> None:
        self.document = document
        self.keys = keys
        self.host = host
        self.known = {tier.id: tier for tier in catalog.storage()}
        self.faults: list[Fault] = []

    def read(self) -> tuple[KvTier, ...]:
        """The tiers that are sound, nearest first."""
        found: dict[TierKind, KvTier] = {}
        for name, keys in self.keys.items():
            tier = self._tier(name, keys)
            if tier is None:
                continue
            if tier.kind in found:
                self._fault(f'"{name}" and "{found[tier.kind].id}" are both {tier.kind}; keep one', name)
            found[tier.kind] = tier
        return tuple(found[kind] for kind in TIER_KINDS if kind in found)

    def _fault(self, message: str, *path: str) -> None:
        self.faults.append(self.document.fault(("kv_tiers", *path), message))

    def _tier(self, name: str, keys: TierKeys) -> KvTier | None:
        medium = self._medium(name, keys)
        if medium is None or self.host is None:
            return None
        kind = _KIND_OF_TIER.get(medium.tier)
        if kind is None or (name in TIER_KINDS and kind != name):
            self._fault(f"{medium.id} is {medium.tier}; want a medium for {name}", name)
            return None
        tier = self._built(name, kind, medium, keys, self.host)
        if tier and tier.capacity_bytes and tier.capacity_bytes > tier.capacity_bytes_max * (1 + 1e-9):
            most, size = format_bytes(tier.capacity_bytes_max), format_bytes(tier.capacity_bytes)
            self._fault(f"{size} is more than the slots of a node hold; want at most {most} of {medium.medium}", name)
            return None
        return tier

    def _medium(self, name: str, keys: TierKeys) -> StorageTier | None:
        wanted = keys.medium or (_host_medium(self.host) if name == "host-dram" else _MEDIA.get(name, name))
        if wanted in self.known:
            return self.known[wanted]
        known = did_you_mean(wanted, (*TIER_KINDS, *self.known))
        self._fault(f"{shown(wanted)} is not a known tier; {known}", name, *(["medium"] if keys.medium else []))
        return None

    def _built(
        self, name: str, kind: TierKind, medium: StorageTier, keys: TierKeys, host: Accelerator
    ) -> KvTier | None:
        cpus, grace = _processors(host, medium)
        slots = _Slots(cpus, cpus * (medium.capacity_bytes or 0.0)) if grace else _SLOTS[kind]
        parts = 1 if kind == "local-ssd" else max(slots.parts, 1)
        rates = self._rates(name, kind, medium, keys)
        if rates is None:
            return None
        whole = kind == "local-ssd" or kind == "cxl"
        return KvTier(
            id=name,
            kind=kind,
            medium=medium.medium,
            capacity_bytes=None if keys.size == "auto" else float(keys.size),
            capacity_bytes_max=slots.bytes_max,
            unit_bytes=(medium.capacity_bytes or 0.0) if whole else 0.0,
            read_bytes_per_s=rates[0] * (1 if whole else parts),
            write_bytes_per_s=rates[1] * (1 if whole else parts),
            latency_s=_FETCH_START_S[kind] + (medium.latency_s or 0.0),
            gb_usd_per_hour=None if grace else _usd_per_hour(medium),
            drive_writes_per_day_max=RATED_WRITES_PER_DAY if kind == "local-ssd" else None,
            link_factor=_link_factor(kind, medium, grace),
            accelerators_per_link=max(host.node_accelerators // cpus, 1) if grace else 1,
            provenance=medium.provenance,
        )

    def _rates(self, name: str, kind: TierKind, medium: StorageTier, keys: TierKeys) -> tuple[float, float] | None:
        """Read and write rate reached, of one part; None after a fault."""
        factor = DRAM_FACTOR if kind == "host-dram" else 1.0
        read = keys.read_rate or medium.achieved_read_bytes_per_s or _scaled(medium.read_bytes_per_s, factor)
        write = keys.write_rate or medium.achieved_write_bytes_per_s or _scaled(medium.write_bytes_per_s, factor)
        if read and not write:
            write = read
        if not read or not write:
            text = f"{medium.id} has no read rate in the catalog; write {{size: …, read_rate: 5 GB/s}}"
            self._fault(text, name)
            return None
        return read, write


def _scaled(rate: float | None, factor: float) -> float | None:
    return None if rate is None else rate * factor


def _host_medium(host: Accelerator | None) -> str:
    if host is not None and host.id.startswith(_GRACE):
        return "host-dram-grace-lpddr5x-on-grace"
    if host is not None and host.id.startswith("rubin"):
        return "host-dram-vera-lpddr5x-on-vera"
    return _MEDIA["host-dram"]


def _processors(host: Accelerator, medium: StorageTier) -> tuple[int, bool]:
    """Processors of a node whose memory is soldered on, and whether it is: one for two accelerators, or for one."""
    soldered = medium.tier in ("host-dram-grace", "host-dram-vera")
    return (max(host.node_accelerators // 2, 1), True) if soldered else (1, False)


def _link_factor(kind: TierKind, medium: StorageTier, grace: bool) -> float:
    if kind in ("pool", "object-store"):
        line, reached = medium.read_bytes_per_s, medium.achieved_read_bytes_per_s
        return reached / line if line and reached else 1.0
    return C2C_FACTOR if grace else PCIE_FACTOR


def _usd_per_hour(medium: StorageTier) -> float | None:
    """Price of a GB for an hour; a purchase is spread over three years."""
    if medium.usd_per_gb is None:
        return None
    return medium.usd_per_gb / (HOURS_PER_MONTH if "month" in medium.price_basis else HOURS_3_YEARS)


def first_host(prefill: Sequence[Accelerator], decode: Sequence[Accelerator]) -> Accelerator | None:
    """The accelerator whose node the tiers are in: the first candidate."""
    return next(iter((*prefill, *decode)), None)
