"""KV cache moving from the prefill pool to the decode pool (MODELLING §5)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planner.errors import FieldError
from planner.queueing.service import single_server_wait_s, weighted_scv
from planner.records import Floats
from planner.roofline.collectives import LINE_FRACTION, SET_UP_S, exposed_transfer_s
from planner.serving.role import Role


@dataclass(frozen=True, eq=False)
class Transfer:
    """One request's hand-over, per input atom, and the load it puts on the NICs."""

    bytes_per_request: float
    bytes_per_s: float  # achieved by one request between two workers
    exposed_s: Floats  # per input atom, after the layer-wise overlap
    mean_duration_s: float  # the whole move, hidden part included: how long decode-side memory is held early
    utilization: float
    queue_s: float  # mean wait for the NICs


def transfer_rate(prefill: Role, decode: Role, network_bytes_per_s: float | None) -> float:
    """Achieved bytes/s of one request: the narrower side's NICs, of the one attention rank that holds its cache.

    Id: transfer.rate.  0.7 of the line rate of the narrower worker's network cards, of one attention rank  (MODELLING
        §5)
    """
    return LINE_FRACTION * min(
        _nic_bytes_per_s(prefill, network_bytes_per_s) / prefill.dp,
        _nic_bytes_per_s(decode, network_bytes_per_s) / decode.dp,
    )


def exposed_s(prefill: Role, bytes_per_s: float) -> Floats:
    """What each input atom's TTFT feels of its transfer when layers are pushed as they finish [s].

    Id: transfer.exposed.  what a layer-wise push leaves visible after the prefill, and its set-up  (MODELLING §5)
    """
    layers = sum(kind.count for kind in prefill.worker.shape.layers)
    return np.asarray(exposed_transfer_s(prefill.transfer_bytes, bytes_per_s, prefill.service_s, layers)) + SET_UP_S


def transfer(
    prefill: Role, decode: Role, prefill_replicas: int, decode_replicas: int, network_bytes_per_s: float | None
) -> Transfer:
    """The hand-over of a whole deployment: NICs as an M/G/1 on the busier side (MODELLING §5).

    Id: transfer.bytes_per_request.  KV bytes per token * mean prompt tokens, where no layer has a window or a state
        (MODELLING §5)
    Id: transfer.utilization.  requests/s * bytes per request / line rate of the busier side  (MODELLING §5)
    """
    rate = transfer_rate(prefill, decode, network_bytes_per_s)
    traffic = prefill.traffic
    mean_bytes = float(traffic.input_weights @ prefill.transfer_bytes)
    scv = weighted_scv(prefill.transfer_bytes, traffic.input_weights) if mean_bytes else 0.0
    line = LINE_FRACTION * min(
        prefill_replicas * _nic_bytes_per_s(prefill, network_bytes_per_s),
        decode_replicas * _nic_bytes_per_s(decode, network_bytes_per_s),
    )
    load = traffic.requests_per_s * mean_bytes / line
    mean_s = mean_bytes / rate
    queue_s = float(single_server_wait_s(load, mean_s, scv))
    return Transfer(mean_bytes, rate, exposed_s(prefill, rate), mean_s + SET_UP_S, load, queue_s)


def _nic_bytes_per_s(role: Role, network_bytes_per_s: float | None) -> float:
    per_accelerator = network_bytes_per_s or role.accelerator.nic_bytes_per_s
    if not per_accelerator:
        raise FieldError(
            "hardware.network", f"{role.accelerator.id} names no NIC; give hardware.network, e.g. 400 Gb/s"
        )
    return per_accelerator * role.worker_accelerators
