"""Systems of the catalog: nodes, racks and slices, and what one of their accelerators gets of fabric and network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from planner.files.catalog_fields import Fields, finish
from planner.files.nearest import did_you_mean
from planner.files.yamlfile import Document

if TYPE_CHECKING:
    from planner.records import Accelerator, Provenance

LEVELS = ("node", "rack", "slice")


@dataclass(frozen=True, slots=True)
class System:
    """Accelerators as they are sold: in a node, in a rack that shares one fabric, or as a slice of a torus.

    Sizes are of the whole system. `nic`, `scaleup`, `host_memory` and `ssd` are ids of the catalog; empty: not known.
    """

    id: str
    level: str  # node | rack | slice
    status: str  # shipping | announced
    accelerator: str
    accelerators: int
    hosts: int
    scaleup: str
    scaleup_domain: int
    nic: str
    nics: int
    nic_bytes_per_s: float | None  # network share of one accelerator, one way
    host_memory: str
    host_memory_sockets: int
    host_memory_bytes: float | None
    ssd: str
    ssd_bytes: float | None
    power_watts: float | None
    provenance: Mapping[str, Provenance] = field(default_factory=dict)
    notes: str = ""
    sha256: str = ""

    @property
    def node_accelerators(self) -> int:
        """Accelerators of one host."""
        return self.accelerators // self.hosts


@dataclass(frozen=True, slots=True)
class Parts:
    """What the files of a catalog call the parts a system may name."""

    accelerators: Sequence[str]
    nic_bytes_per_s: Mapping[str, float | None]  # per link of the catalog
    storage: Sequence[str]


def read_system(document: Document, stem: str, parts: Parts) -> System:
    """The system of `document`.

    Raises InputError with every fault of the file: an unknown part, hosts that do not divide the accelerators.
    """
    fields = Fields(document, [])
    fields.text("kind", choices=("system",))
    accelerators = fields.count("accelerators", "accelerators", "8") or 1
    hosts = fields.count("hosts", "hosts") or 1
    if accelerators % hosts:
        fields.fault(("hosts",), f"{hosts} hosts do not divide {accelerators} accelerators")
    nic = _named(fields, "nic", parts.nic_bytes_per_s)
    nics = fields.count("nics", "nics", "8" if nic else "") or 0
    rate = parts.nic_bytes_per_s.get(nic)
    system = System(
        id=fields.require_id(stem),
        level=fields.text("level", "node", LEVELS),
        status=fields.text("status", "shipping", ("shipping", "announced")),
        accelerator=_named(fields, "accelerator", parts.accelerators, "h200-sxm"),
        accelerators=accelerators,
        hosts=hosts,
        scaleup=_named(fields, "scaleup", parts.nic_bytes_per_s),
        scaleup_domain=fields.count("scaleup_domain") or 1,
        nic=nic,
        nics=nics,
        nic_bytes_per_s=rate * nics / accelerators if rate else None,
        host_memory=_named(fields, "host_memory", parts.storage),
        host_memory_sockets=fields.count("host_memory_sockets") or 0,
        host_memory_bytes=fields.quantity("host_memory_capacity", "bytes", "host_memory_bytes"),
        ssd=_named(fields, "ssd", parts.storage),
        ssd_bytes=fields.quantity("ssd_capacity", "bytes", "ssd_bytes"),
        power_watts=fields.quantity("power", "watts", "power_watts"),
        provenance=fields.provenance,
        notes=fields.text("notes"),
        sha256=document.sha256,
    )
    fields.refuse_unknown()
    finish(fields.faults)
    share = {"nic_bytes_per_s": system.provenance["nics"]} if "nics" in system.provenance else {}
    return replace(system, provenance={**system.provenance, **share})


def inside(system: System, accelerator: Accelerator) -> Accelerator:
    """`accelerator` with the fabric and the network share that it has in `system`."""
    count = {"scaleup_domain": "accelerators", "nic_bytes_per_s": "nics", "node_accelerators": "accelerators"}
    origins = {name: system.provenance[key] for name, key in count.items() if key in system.provenance}
    return replace(
        accelerator,
        status="announced" if system.status == "announced" else accelerator.status,
        scaleup_domain=system.scaleup_domain,
        node_accelerators=system.node_accelerators,
        nic_bytes_per_s=system.nic_bytes_per_s or accelerator.nic_bytes_per_s,
        provenance={**accelerator.provenance, **origins},
        notes="; ".join(filter(None, (f"in {system.id}", accelerator.notes))),
    )


def _named(fields: Fields, key: str, ids: Sequence[str] | Mapping[str, object], example: str = "") -> str:
    """The id under `key`, which must be one of `ids` when it is given."""
    name = fields.text(key, example=example)
    if name and name not in ids:
        fields.fault((key,), f'"{name}" is not in the catalog; {did_you_mean(name, tuple(ids), "ids are")}')
        return ""
    return name
