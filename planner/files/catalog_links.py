"""Links and tiers of storage of the catalog: what their files hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from planner.files.catalog_fields import Fields, finish
from planner.files.yamlfile import Document

if TYPE_CHECKING:
    from planner.records import Provenance


@dataclass(frozen=True, slots=True)
class Link:
    """One interconnect. Rates are one way, over `scope`: a device, a port or a node."""

    id: str
    link_class: str  # scale-up | host | nic | switch | scale-out
    scope: str
    bytes_per_s: float | None
    achieved_bytes_per_s: float | None
    achieved_fraction: float | None
    latency_s: float | None
    domain: int | None
    provenance: Mapping[str, Provenance] = field(default_factory=dict)
    notes: str = ""


@dataclass(frozen=True, slots=True)
class StorageTier:
    """One kind of memory or storage below the accelerator's own. Rates and capacity are over `scope`."""

    id: str
    tier: str
    medium: str
    scope: str
    read_bytes_per_s: float | None
    write_bytes_per_s: float | None
    achieved_read_bytes_per_s: float | None
    achieved_write_bytes_per_s: float | None
    latency_s: float | None
    capacity_bytes: float | None
    usd_per_gb: float | None
    price_basis: str
    provenance: Mapping[str, Provenance] = field(default_factory=dict)
    notes: str = ""


def read_link(document: Document, stem: str) -> Link:
    """The link of a file whose name is `stem`. Raises InputError with every fault of it."""
    fields = Fields(document, [])
    fields.text("kind", choices=("link",))
    link = Link(
        id=fields.require_id(stem),
        link_class=fields.text("class", example="scale-up"),
        scope=fields.text("scope"),
        bytes_per_s=fields.quantity("rate", "bytes_per_s", "bytes_per_s"),
        achieved_bytes_per_s=fields.quantity("achieved_rate", "bytes_per_s", "achieved_bytes_per_s"),
        achieved_fraction=fields.quantity("achieved_fraction", "ratio"),
        latency_s=fields.quantity("latency", "seconds", "latency_s"),
        domain=fields.count("domain"),
        provenance=fields.provenance,
        notes=fields.text("notes"),
    )
    fields.refuse_unknown()
    finish(fields.faults)
    return link


def read_tier(document: Document, stem: str) -> StorageTier:
    """The tier of a file whose name is `stem`. Raises InputError with every fault of it."""
    fields = Fields(document, [])
    fields.text("kind", choices=("storage",))
    tier = StorageTier(
        id=fields.require_id(stem),
        tier=fields.text("tier", example="host-dram"),
        medium=fields.text("medium"),
        scope=fields.text("scope"),
        read_bytes_per_s=fields.quantity("read_rate", "bytes_per_s", "read_bytes_per_s"),
        write_bytes_per_s=fields.quantity("write_rate", "bytes_per_s", "write_bytes_per_s"),
        achieved_read_bytes_per_s=fields.quantity("achieved_read_rate", "bytes_per_s", "achieved_read_bytes_per_s"),
        achieved_write_bytes_per_s=fields.quantity("achieved_write_rate", "bytes_per_s", "achieved_write_bytes_per_s"),
        latency_s=fields.quantity("latency", "seconds", "latency_s"),
        capacity_bytes=fields.quantity("capacity", "bytes", "capacity_bytes"),
        usd_per_gb=fields.quantity("price_per_gb", "usd", "usd_per_gb"),
        price_basis=fields.text("price_basis"),
        provenance=fields.provenance,
        notes=fields.text("notes"),
    )
    fields.refuse_unknown()
    finish(fields.faults)
    return tier
