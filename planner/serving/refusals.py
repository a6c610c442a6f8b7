"""What a given deployment cannot be, told from its pools alone: everything at once, before any step is timed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from planner.engines.rules import why_not_cache, why_not_mode, why_not_pair, worker_obstacles
from planner.errors import FieldError
from planner.records import Accelerator, EngineProfile, Mode, ModelShape, Pool, RoleName
from planner.roofline.worker import outside_domain

LOCKSTEP = (
    "a pool that reads prompts whole in front of its decodes is not priced with attention data parallelism: use dp 1, "
    "an engine that reads prompts in chunks, or separate pools"
)
STAGED_RANKS = (
    "attention data parallelism with pipeline stages is not priced in a pool that prefills and decodes; use pp 1"
)


def pool_refusals(
    engine: EngineProfile,
    model: ModelShape,
    weights: str,
    kv_dtype: str,
    name: RoleName,
    pool: Pool,
    accelerator: Accelerator,
) -> Iterator[FieldError]:
    """Every key of one pool that the model, the engine or the accelerator cannot take."""
    cache = why_not_cache(engine, model, kv_dtype, accelerator)
    if cache:
        yield FieldError(f"deployment.{name}.accelerator", cache)
    reasons = dict(worker_obstacles(engine, model, pool, name, weights))
    if name == "colocated" and pool.dp > 1 and pool.pp > 1:
        reasons.setdefault("dp", STAGED_RANKS)
    outside = outside_domain(accelerator, pool.tp)
    if outside:
        reasons.setdefault("tp", outside)
    yield from (FieldError(f"deployment.{name}.{key}", reason) for key, reason in reasons.items())


def refusals(
    engine: EngineProfile,
    model: ModelShape,
    weights: str,
    kv_dtype: str,
    mode: Mode,
    pools: Mapping[RoleName, tuple[Pool, Accelerator]],
    network_bytes_per_s: float | None,
) -> list[FieldError]:
    """Everything that keeps these pools from running together; empty when nothing does.

    `pools` may lack one, when that was refused already.
    """
    found: list[FieldError] = []
    reason = why_not_mode(engine, mode)
    if reason:
        found.append(FieldError("deployment.mode", reason))
    for name, (pool, accelerator) in pools.items():
        found += pool_refusals(engine, model, weights, kv_dtype, name, pool, accelerator)
    if mode == "colocated-whole-prompt" and any(pool.dp > 1 for pool, _ in pools.values()):
        found.append(FieldError("deployment.colocated.dp", LOCKSTEP))
    if mode != "disaggregated":
        return found
    lone = dict.fromkeys(item.id for _, item in pools.values() if not (network_bytes_per_s or item.nic_bytes_per_s))
    if lone:
        text = (
            f"{' and '.join(lone)} {'names' if len(lone) == 1 else 'name'} no NIC; give hardware.network, e.g. 400 Gb/s"
        )
        found.append(FieldError("hardware.network", text))
    if not found and len(pools) == 2:
        reason = why_not_pair(engine, model, pools["prefill"][0], pools["decode"][0])
        found += [FieldError("deployment.prefill", reason)] if reason else []
    return found
