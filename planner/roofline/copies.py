"""How fast a worker reads caches back from where a copy of them stands."""

from __future__ import annotations

import math

from planner.records import Accelerator
from planner.roofline.collectives import LINE_FRACTION


def copy_rates(
    accelerator: Accelerator, accelerators: int, network_bytes_per_s: float | None, ssd_bytes_per_s: float
) -> dict[str, float]:
    """Bytes per second that a worker of so many accelerators reads, by place: the narrower of medium and network.

    `host-dram`, `local-ssd`, and where there is a network `pool` and `the network` itself, at MODELLING §5's share of
    the line. `network_bytes_per_s` and `ssd_bytes_per_s` are per accelerator; without the first it is the usual NIC's.
    """
    line = LINE_FRACTION * (network_bytes_per_s or accelerator.nic_bytes_per_s or math.inf) * accelerators
    rates = {}
    if accelerator.host_bytes_per_s:
        rates["host-dram"] = min(accelerator.host_bytes_per_s * accelerators, line)
    rates["local-ssd"] = min(ssd_bytes_per_s * accelerators, line)
    if math.isfinite(line):
        rates |= {"pool": line, "the network": line}
    return rates
