"""Which worker shapes and pool sizes are tried, and each pool's laws as columns over all its sizes at once.

A pool's laws are computed once per worker shape and shared by every joint deployment (HOUSE §7, "Search cost").
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from planner.engines.rules import why_not_worker
from planner.errors import FieldError
from planner.records import PROBABILITY, Accelerator, Floats, Pool, RoleName, Scenario, Target
from planner.serving.disaggregated import decode_law, prefill_law, ttft_shift_s
from planner.serving.role import Role, build_role
from planner.serving.traffic import Traffic
from planner.serving.transfer import exposed_s, transfer_rate
from planner.shapes.formats import has_experts
from planner.sizing.cost import worker_usd_per_hour

DENSE_SIZES, LARGEST_POOL = 20, 6.0
LARGEST_STRIDE = 1.15  # more than LARGEST_POOL ** (1 / DENSE_SIZES), the ratio of neighbors among large sizes
MAX_UTILIZATION = (
    0.8  # headroom of each pool: step times are known to about 15 %, and waits explode near 1 (MODELLING §7.1)
)
MAX_WORKER_ACCELERATORS = 64
LARGEST_BATCH = 4096
LATENCY_METRICS = ("itl", "tpot")
EQUAL = 1.02  # a difference that decides nothing


@dataclass(frozen=True, eq=False)
class PrefillColumns:
    """One prefill worker shape at each pool size. `pool.replicas` is a placeholder; `replicas` counts."""

    pool: Pool
    role: Role
    replicas: Floats
    utilization: Floats
    ttft_s: dict[str, Floats]  # statistic -> wait + own prefill + transfer to an equally wide worker


@dataclass(frozen=True, eq=False)
class DecodeColumns:
    """One decode worker shape and batch cap at each pool size."""

    pool: Pool
    role: Role
    replicas: Floats
    utilization: Floats
    latency_s: dict[tuple[str, str], Floats]  # (metric, statistic) of itl and tpot
    mean_itl_s: Floats
    shift_s: Floats  # what the decode pool adds to TTFT
    max_batch: Floats  # the cap at each size: no larger than the batch ever gets


def roles(scenario: Scenario, traffic: Traffic, name: RoleName) -> Iterator[tuple[Pool, Role]]:
    """Every worker of a role that the model, the memory and the engine allow, smallest first."""
    for accelerator in candidates_of(scenario, name):
        found = list(_that_fit(scenario, traffic, name, worker_shapes(scenario, accelerator), accelerator))
        yield from found or _that_fit(scenario, traffic, name, staged_shapes(accelerator), accelerator)


def _that_fit(
    scenario: Scenario, traffic: Traffic, name: RoleName, shapes: Iterable[Pool], accelerator: Accelerator
) -> Iterator[tuple[Pool, Role]]:
    for shape in shapes:
        if why_not_worker(scenario.engine, scenario.model, shape, name, scenario.weights):
            continue
        try:
            role = build_role(scenario, traffic, name, shape, accelerator)
        except FieldError:
            continue
        if not role.why_it_does_not_fit:
            yield shape, role


def candidates_of(scenario: Scenario, name: RoleName) -> tuple[Accelerator, ...]:
    """Accelerators a role may use: a pool that does both phases any, separate pools those with a network."""
    if name == "colocated":
        return tuple({a.id: a for a in (*scenario.prefill_accelerators, *scenario.decode_accelerators)}.values())
    offered = scenario.prefill_accelerators if name == "prefill" else scenario.decode_accelerators
    return tuple(accelerator for accelerator in offered if has_network(scenario, accelerator))


def has_network(scenario: Scenario, accelerator: Accelerator) -> bool:
    """Whether a cache can leave this accelerator: by the scenario's network, or by its own usual NIC."""
    return bool(scenario.network_bytes_per_s or accelerator.nic_bytes_per_s)


def worker_shapes(scenario: Scenario, accelerator: Accelerator) -> Iterator[Pool]:
    """Splits in powers of two: TP inside the scale-up domain, attention DP with experts over all its ranks."""
    sparse = has_experts(scenario.model)
    tp = 1
    while tp <= min(accelerator.scaleup_domain, MAX_WORKER_ACCELERATORS):
        yield Pool(accelerator.id, 1, tp=tp)
        if sparse:
            if tp > 1:
                yield Pool(accelerator.id, 1, tp=tp, ep=tp)
            dp = 2
            while tp * dp <= MAX_WORKER_ACCELERATORS:
                yield Pool(accelerator.id, 1, tp=tp, ep=tp * dp, dp=dp)
                dp *= 2
        tp *= 2


def staged_shapes(accelerator: Accelerator) -> Iterator[Pool]:
    """Pipeline stages as wide as the scale-up domain, for models that no single domain holds; fewest stages first.

    Where a domain holds the model stages are not tried: each adds a wait and none makes a step shorter.
    """
    tp = 2 ** int(np.log2(min(accelerator.scaleup_domain, MAX_WORKER_ACCELERATORS)))
    pp = 2
    while tp * pp <= MAX_WORKER_ACCELERATORS:
        yield Pool(accelerator.id, 1, tp=tp, pp=pp)
        pp *= 2


def pool_sizes(load: float) -> Floats:
    """Pool sizes from the smallest with headroom: every one at first, then a growing stride up to LARGEST_POOL times.

    What a stride skips is won back when the chosen plan is trimmed to the exact size.
    """
    start = max(int(np.ceil(load / MAX_UTILIZATION - 1e-9)), 1)
    dense = start + np.arange(DENSE_SIZES, dtype=float)
    return np.concatenate([dense, np.ceil(dense[-1] * np.geomspace(1.0, LARGEST_POOL, DENSE_SIZES + 1)[1:])])


def prefill_columns(
    scenario: Scenario, traffic: Traffic, targets: Sequence[Target], pool: Pool, role: Role
) -> PrefillColumns:
    """TTFT of one prefill shape, before what the decode pool adds, at every size."""
    load = traffic.requests_per_s * float(traffic.input_weights @ role.service_s) / (role.dp * role.batches)
    law = prefill_law(role, pool_sizes(load))
    after_s = exposed_s(role, transfer_rate(role, role, scenario.network_bytes_per_s)) + role.fetch_s()
    columns = {
        target.statistic: (
            law.total_mean_s(after_s)
            if target.statistic == "mean"
            else law.total_quantile_s(after_s, PROBABILITY[target.statistic])
        )
        for target in targets
        if target.metric == "ttft"
    }
    columns.setdefault("mean", law.total_mean_s(after_s))
    return PrefillColumns(pool, role, law.replicas, law.utilization, columns)


def narrowing_s(scenario: Scenario, prefill: Role, decode: Role) -> float:
    """Extra exposed transfer, of the longest prompt, when the decode worker's NICs are the narrower side [s]."""
    network = scenario.network_bytes_per_s
    own = exposed_s(prefill, transfer_rate(prefill, prefill, network))
    narrow = exposed_s(prefill, transfer_rate(prefill, decode, network))
    return float(np.max(narrow - own))


def decode_columns(
    traffic: Traffic, targets: Sequence[Target], pool: Pool, role: Role, max_batch: int
) -> DecodeColumns:
    """ITL and TPOT of one decode shape and batch cap at every size."""
    step_s = role.decode_curve_s(max_batch)
    steps_per_s = float(traffic.window_requests_per_s.max()) * traffic.mean_steps
    workers_at_batch = steps_per_s * step_s / np.arange(1.0, max_batch + 1.0) / role.batches
    law = decode_law(role, pool_sizes(float(workers_at_batch[-1])), max_batch)
    cap = np.maximum(law.largest_batch, _batch_with_headroom(workers_at_batch, law.replicas))
    latency: dict[tuple[str, str], Floats] = {}
    for target in targets:
        if target.metric in LATENCY_METRICS:
            if target.statistic == "mean":
                values = law.mean_itl_s
            else:
                quantile = law.itl_quantile_s if target.metric == "itl" else law.pace_quantile_s
                values = quantile(PROBABILITY[target.statistic])
            per_output = traffic.step_tokens if target.metric == "tpot" else 1.0
            latency[target.metric, target.statistic] = values / per_output
    return DecodeColumns(
        pool=pool,
        role=role,
        replicas=law.replicas,
        utilization=law.utilization,
        latency_s=latency,
        mean_itl_s=law.mean_itl_s,
        shift_s=ttft_shift_s(role, law.mean_itl_s, law.mean_batch),
        max_batch=np.minimum(_whole_per_rank(cap, role.dp), max_batch) * role.batches,
    )


def _batch_with_headroom(workers_at_batch: Floats, sizes: Floats) -> Floats:
    """Smallest batch cap at each pool size that clears the busiest window with headroom.

    `workers_at_batch[b - 1]` is how many workers the window keeps busy when all their batches have b requests.
    """
    falling = np.minimum.accumulate(workers_at_batch)
    return np.asarray(np.searchsorted(-falling, -MAX_UTILIZATION * sizes) + 1.0)


def _whole_per_rank(batch: Floats, dp: int) -> Floats:
    """The batch of a worker rounded up to the same number on each attention rank, as engines take it."""
    return np.asarray(np.ceil(batch / dp) * dp)


def batch_caps(role: Role, targets: Sequence[Target]) -> tuple[int, ...]:
    """Batch caps worth trying: what memory holds, and the largest batch whose own step meets the gap targets."""
    largest = min(role.memory_batch, LARGEST_BATCH)
    limit_s = tightest_step_s(targets, role.traffic)
    inside = int(np.searchsorted(role.decode_curve_s(largest), limit_s, side="right"))
    inside -= inside % role.dp
    return (largest,) if inside >= largest or inside < 1 else (largest, inside)


def undominated(
    found: Iterable[tuple[Pool, Role]],
    basis: str,
    merits: Callable[[Role], tuple[float, float]],
    limit_s: float = np.inf,
) -> list[tuple[Pool, Role]]:
    """Shapes worth sizing: no other is as fast, as cheap per unit of work and as small, all three.

    `merits` gives (seconds, worker-seconds per unit of work). The size of a worker counts because pools are whole
    numbers of workers. Shapes slower than `limit_s` on their own are left out too, unless all are.
    """
    items = list(found)
    if not items:
        return []
    speed, work = (np.array(column) for column in zip(*(merits(role) for _, role in items), strict=True))
    worker = np.array(
        [worker_usd_per_hour(pool, role.accelerator, basis, role.name != "colocated") for pool, role in items]
    )
    price = work * worker
    lost = np.zeros(len(items), dtype=bool)
    for index in np.lexsort((worker, price, speed)):  # best first, so that of equals one stays
        rivals = ~lost
        rivals[index] = False
        no_worse = (speed <= speed[index] * EQUAL) & (price <= price[index] * EQUAL) & (worker <= worker[index])
        lost[index] = bool((no_worse & rivals).any())
    late = speed > limit_s
    lost |= late if not late.all() else False
    return [item for item, gone in zip(items, lost, strict=True) if not gone]


def tightest_s(targets: Sequence[Target], metrics: Sequence[str]) -> float:
    """The smallest limit on any of the metrics [s]; infinite without one."""
    return min((target.limit_s for target in targets if target.metric in metrics), default=np.inf)


def tightest_step_s(targets: Sequence[Target], traffic: Traffic) -> float:
    """The longest decode step that no target on gaps or time per output forbids [s]."""
    return min(tightest_s(targets, ("itl",)), tightest_s(targets, ("tpot",)) * traffic.step_tokens)
