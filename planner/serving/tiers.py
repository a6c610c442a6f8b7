"""KV below the accelerator's memory: how fast a prefix comes back, how much room and how many bytes that takes.

A tier holds every prefix that was computed (write-through, the default of serving engines), so what a nearer place
holds is in it as well. A rank stores its own part: where tensor parallelism copies heads or latents, a tier holds the
copies too. Source: MODELLING §5 and §9.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planner.errors import FieldError
from planner.records import Accelerator, Floats, KvTier
from planner.roofline.worker import Worker
from planner.shapes.ranks import kv_bytes_per_rank

SECONDS_PER_DAY = 86_400.0
NETWORK_KINDS = ("pool", "object-store")
NODE_BAYS = 8  # drives or cards of a node that work side by side
MESSAGES_PER_S_MAX = 2e6  # of one card through the queues of an engine; assumed, cards alone do many times that
PREFIX_TOKENS = np.unique(np.round(np.geomspace(1.0, 2.0**20, 121)))  # at which fetching is held against computing


@dataclass(frozen=True, slots=True)
class TierAccess:
    """A tier as one worker reaches it. Rates are achieved ones."""

    tier: KvTier
    request_bytes_per_s: float  # of one fetch
    node_read_bytes_per_s: float  # of all fetches of a node together
    node_write_bytes_per_s: float
    usable: bool = True  # False where no size was given yet

    def fetch_s(self, size_bytes: Floats) -> Floats:
        """Time until a prefix of `size_bytes` is in the accelerator's memory, nobody else fetching."""
        return fetch_s(size_bytes, self.tier.latency_s, self.request_bytes_per_s)


def fetch_s(size_bytes: Floats | float, latency_s: float, bytes_per_s: float) -> Floats:
    """t0 + bytes / rate, exactly 0 for nothing (MODELLING §9)."""
    size = np.asarray(size_bytes, dtype=float)
    return np.where(size > 0.0, latency_s + size / bytes_per_s, 0.0)


def drive_writes_per_day(write_bytes_per_s: float, capacity_bytes: float) -> float:
    """How often a day a drive is written full."""
    return write_bytes_per_s * SECONDS_PER_DAY / capacity_bytes


def break_even_tokens(prefix_tokens: Floats, fetched_s: Floats, recomputed_s: Floats) -> float | None:
    """Shortest prefix that is fetched no slower than it is computed; None where none of those given is.

    Times of ascending prefixes; between two of them both are taken as lines (h* = t0 / (s1 - kappa / beta),
    MODELLING §9).
    """
    gain = np.asarray(recomputed_s, dtype=float) - fetched_s
    first = int(np.argmax(gain >= 0.0))
    if gain[first] < 0.0:
        return None
    if first == 0:
        return float(prefix_tokens[0])
    low, high = gain[first - 1], gain[first]
    share = -low / (high - low)
    return float(prefix_tokens[first - 1] + share * (prefix_tokens[first] - prefix_tokens[first - 1]))


def units(tier: KvTier, capacity_bytes: float) -> int:
    """Drives or cards that hold `capacity_bytes`, at most the bays of a node; 1 where rates are of the node."""
    if not tier.unit_bytes:
        return 1
    return min(max(int(np.ceil(capacity_bytes / tier.unit_bytes - 1e-9)), 1), NODE_BAYS)


def link_bytes_per_s(tier: KvTier, accelerator: Accelerator, network_bytes_per_s: float | None) -> float:
    """Rate at which one accelerator of a busy node reaches the tier [bytes/s]. FieldError where it has no such link."""
    over_network = tier.kind in NETWORK_KINDS
    rate = network_bytes_per_s or accelerator.nic_bytes_per_s if over_network else accelerator.host_bytes_per_s
    if not rate:
        what = "NIC; give hardware.network, e.g. 400 Gb/s" if over_network else "host link to reach it by"
        raise FieldError(f"kv_tiers.{tier.id}", f"{accelerator.id} names no {what}")
    shared = 1 if over_network else tier.accelerators_per_link
    return rate * tier.link_factor / shared


def access(tier: KvTier, worker: Worker, network_bytes_per_s: float | None) -> TierAccess:
    """The tier from one worker: a fetch is spread over the links of the ranks that hold the sequence."""
    accelerator = worker.accelerator
    link = link_bytes_per_s(tier, accelerator, network_bytes_per_s)
    count = units(tier, tier.capacity_bytes or 0.0)
    links = link * accelerator.node_accelerators
    read, write = min(tier.read_bytes_per_s * count, links), min(tier.write_bytes_per_s * count, links)
    nodes = max(worker.tp * worker.pp / accelerator.node_accelerators, 1.0)
    one = min(link * worker.tp * worker.pp, read * nodes)
    return TierAccess(tier, one, read, write, tier.capacity_bytes is not None)


def stored_bytes(worker: Worker, tokens: Floats | float) -> Floats:
    """Bytes a tier keeps of a prefix of `tokens`, the copies of the ranks counted; 0 for nothing."""
    length = np.asarray(tokens, dtype=float)
    each = kv_bytes_per_rank(worker.shape, worker.kv_dtype, worker.tp, worker.pp, length)
    return np.where(length > 0.0, np.asarray(each) * (worker.tp * worker.pp), 0.0)


def nodes_of(accelerators: int, accelerator: Accelerator) -> int:
    """Nodes that so many accelerators fill."""
    return -(-accelerators // accelerator.node_accelerators)
