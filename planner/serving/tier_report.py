"""The places that hold KV, under load: what each hands over, takes in, saves, and adds to a first token."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from planner.records import EngineProfile, Floats, TierState
from planner.roofline.steps import prefill_s
from planner.serving.role import Role
from planner.serving.tiers import (
    MESSAGES_PER_S_MAX,
    NETWORK_KINDS,
    PREFIX_TOKENS,
    TierAccess,
    break_even_tokens,
    drive_writes_per_day,
    nodes_of,
    stored_bytes,
)

PROBABILITIES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
HEADROOM_FRACTION = 0.8  # of a pool's time that work may take: what is saved is saved with its headroom


def tier_states(role: Role, replicas: int, engine: EngineProfile) -> tuple[TierState, ...]:
    """The accelerator's memory and the tiers, as the role that prefills sees them; empty where nothing is cached."""
    if not role.traffic.cached_tokens.any():
        return ()
    saved = _saved_accelerators(role)
    tiers = [
        _tier_state(role, replicas, engine, index, place, saved[index + 1]) for index, place in enumerate(role.tiers)
    ]
    return (_memory_state(role, replicas, saved[0]), *tiers)


def _memory_state(role: Role, replicas: int, saved_accelerators: float) -> TierState:
    traffic, node = role.traffic, role.accelerator.node_accelerators
    read, write = _memory_rates(role, replicas)
    most = role.accelerator.memory_bytes_per_s * min(node, replicas * role.worker_accelerators)
    near = traffic.cached_tokens - traffic.fetched_tokens.sum(axis=0)
    ranks = role.worker.tp * role.worker.pp
    return TierState(
        id="hbm",
        medium=role.accelerator.id,
        capacity_bytes=role.memory.kv_bytes * min(node, replicas * role.worker_accelerators),
        capacity_tokens=role.kv_capacity_tokens * replicas,
        bytes_per_token=role.kv_bytes_per_resident_token * ranks,
        hit_fraction=_share(role, near),
        read_bytes_per_s=read,
        read_bytes_per_s_max=most,
        write_bytes_per_s=write,
        write_bytes_per_s_max=most,
        utilization=(read + write) / most,
        messages_per_s=0.0,
        messages_per_s_max=0.0,
        drive_writes_per_day=None,
        drive_writes_per_day_max=None,
        fetch_s=0.0,
        recompute_s=float(_recomputed_s(role, _mean_found(role, near))),
        break_even_tokens=None,
        added_ttft_s=dict.fromkeys(("mean", *PROBABILITIES), 0.0),
        saved_accelerators=saved_accelerators,
        usd_per_hour=None,
        saved_usd_per_hour=None,
    )


def _memory_rates(role: Role, replicas: int) -> tuple[float, float]:
    """KV that the accelerators of a node read and write [bytes/s].

    Every chunk of a prompt reads what stands before it, and where the role decodes every step reads the context of
    every sequence. Written is what is computed, and what tiers hand over.
    """
    traffic, chunks = role.traffic, np.asarray(role.prefill_time.chunks)
    found = stored_bytes(role.worker, traffic.cached_tokens)
    whole = stored_bytes(role.worker, traffic.input_tokens)
    read = float(traffic.input_weights @ (chunks * (found + whole) / 2.0))
    new = float(traffic.input_weights @ (whole - found))
    if role.name == "colocated":
        read += traffic.mean_steps * role.resident_bytes_moments[0] * role.worker.tp * role.worker.pp
        new = _new_bytes(role)
    write = new + float(np.sum(role.fetched_bytes @ traffic.input_weights))
    nodes = max(replicas * role.worker_accelerators / role.accelerator.node_accelerators, 1.0)
    return traffic.requests_per_s * read / nodes, traffic.requests_per_s * write / nodes


def _tier_state(
    role: Role, replicas: int, engine: EngineProfile, index: int, place: TierAccess, saved_accelerators: float
) -> TierState:
    tier, tokens, size = place.tier, role.traffic.fetched_tokens[index], role.fetched_bytes[index]
    accelerators = replicas * role.worker_accelerators
    nodes = nodes_of(accelerators, role.accelerator)
    capacity_bytes = tier.capacity_bytes or 0.0
    per_token = _per_token(role)
    read = role.fetch_load(place, size, replicas) * place.node_read_bytes_per_s
    write = role.traffic.requests_per_s * _new_bytes(role, answers=engine.tiers_hold == "everything") / nodes
    drives = tier.drive_writes_per_day_max is not None
    network = tier.kind in NETWORK_KINDS
    message_bytes = per_token * engine.memory.block_tokens / (role.worker.layers * role.worker.tp)
    mean_found = _mean_found(role, tokens)
    return TierState(
        id=tier.id,
        medium=tier.medium,
        capacity_bytes=capacity_bytes,
        capacity_tokens=capacity_bytes * (1 if network else nodes) / per_token,
        bytes_per_token=per_token,
        hit_fraction=_share(role, tokens),
        read_bytes_per_s=read,
        read_bytes_per_s_max=place.node_read_bytes_per_s,
        write_bytes_per_s=write,
        write_bytes_per_s_max=place.node_write_bytes_per_s,
        utilization=max(read / place.node_read_bytes_per_s, write / place.node_write_bytes_per_s),
        messages_per_s=(read + write) * nodes / accelerators / message_bytes if network else 0.0,
        messages_per_s_max=MESSAGES_PER_S_MAX if network else 0.0,
        drive_writes_per_day=drive_writes_per_day(write, capacity_bytes) if drives and capacity_bytes else None,
        drive_writes_per_day_max=tier.drive_writes_per_day_max,
        fetch_s=float(place.fetch_s(stored_bytes(role.worker, mean_found))),
        recompute_s=float(_recomputed_s(role, mean_found)),
        break_even_tokens=break_even_tokens(
            PREFIX_TOKENS, place.fetch_s(stored_bytes(role.worker, PREFIX_TOKENS)), _recomputed_s(role, PREFIX_TOKENS)
        ),
        added_ttft_s=_added_s(role, place, size, replicas),
        saved_accelerators=saved_accelerators,
        usd_per_hour=None,
        saved_usd_per_hour=None,
    )


def _share(role: Role, tokens: Floats) -> float:
    """Of all prompt tokens."""
    return float(role.traffic.input_weights @ tokens) / role.traffic.mean_input_tokens


def _mean_found(role: Role, tokens: Floats) -> float:
    """Prefix found, mean over the requests that find one; a whole mean prompt where none does."""
    weights = role.traffic.input_weights * (tokens >= 1.0)
    return float(weights @ tokens / weights.sum()) if weights.any() else role.traffic.mean_input_tokens


def _per_token(role: Role) -> float:
    mean = role.traffic.mean_input_tokens
    return float(stored_bytes(role.worker, mean)) / mean


def _new_bytes(role: Role, *, answers: bool = True) -> float:
    """KV that a mean request makes and writes through: what it did not find, and its answer."""
    traffic = role.traffic
    tokens = traffic.joint_input_tokens + (traffic.joint_output_tokens if answers else 0.0)
    whole = traffic.joint_weights @ stored_bytes(role.worker, tokens)
    return float(whole - traffic.input_weights @ stored_bytes(role.worker, traffic.cached_tokens))


def _recomputed_s(role: Role, tokens: Floats | float) -> Floats:
    """What prefixes add to the prefill of the mean rest of a prompt: S(h + q) - S(h + q | h) [s] (MODELLING §9)."""
    prefix = np.asarray(tokens, dtype=float)
    whole = prefix + max(role.traffic.mean_new_tokens, 1.0)
    both = prefill_s(role.worker, whole, role.token_budget, role.dp).total_s
    rest = prefill_s(role.worker, whole, role.token_budget, role.dp, prefix).total_s
    return np.asarray(both - rest) * role.step_factor


def _saved_accelerators(role: Role) -> list[float]:
    """Accelerators whose prefill work each level saves: S with what nearer levels find, less S with its own hits."""
    traffic = role.traffic
    near = traffic.cached_tokens - traffic.fetched_tokens.sum(axis=0)
    found = np.concatenate(
        (np.zeros((1, near.size)), np.cumsum(np.vstack((near[None], traffic.fetched_tokens)), axis=0))
    )
    times = [
        float(
            traffic.input_weights
            @ prefill_s(role.worker, traffic.input_tokens, role.token_budget, role.dp, cached).total_s
        )
        for cached in found
    ]
    per_s = traffic.requests_per_s * role.step_factor * role.worker.tp / HEADROOM_FRACTION
    return [per_s * (before - after) for before, after in pairwise(times)]


def _added_s(role: Role, place: TierAccess, size_bytes: Floats, replicas: int) -> Mapping[str, float]:
    """Time of a fetch with its wait, over the requests that fetch."""
    chosen = size_bytes > 0.0
    if not chosen.any():
        return dict.fromkeys(("mean", *PROBABILITIES), 0.0)
    times = place.fetch_s(size_bytes[chosen]) + role.fetch_wait_s(place, size_bytes, replicas)
    weights = role.traffic.input_weights[chosen]
    weights = weights / weights.sum()
    order = np.argsort(times)
    summed = np.cumsum(weights[order])
    quantiles = {
        name: float(times[order][min(int(np.searchsorted(summed, q - 1e-12)), times.size - 1)])
        for name, q in PROBABILITIES.items()
    }
    return {"mean": float(weights @ times), **quantiles}


def worst(states: Sequence[TierState]) -> TierState | None:
    """The tier whose rates are used most; None without tiers."""
    return max(states[1:], key=lambda state: state.utilization, default=None)
