"""One thing about a question or a plan changed, everything else kept: what sensitivity is made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from planner.records import Accelerator, Arrivals, Deployment, Floats, Pool, Scenario, Workload

LONG_FROM = 0.9  # requests above this quantile are the long ones of the mix
RENEWAL_REQUESTS = 20_000
MOST_FOUND = 0.999  # the last token of a prompt is never in a cache


def with_load(scenario: Scenario, factor: float) -> Scenario:
    """Every request rate times `factor`; a trace is squeezed in time, so that bursts and lulls keep their shape."""
    workload = scenario.workload
    arrivals = workload.arrivals
    if arrivals is not None:
        arrivals = replace(arrivals, time_s=arrivals.time_s / factor, duration_s=arrivals.duration_s / factor)
    return _working(scenario, replace(workload, requests_per_s=workload.requests_per_s * factor, arrivals=arrivals))


def with_lengths(scenario: Scenario, input_factor: float = 1.0, output_factor: float = 1.0) -> Scenario:
    """Every prompt and every output times its factor, in whole tokens of at least 1."""
    return _lengths_changed(
        scenario, lambda tokens, _: scaled(tokens, input_factor), lambda tokens, _: scaled(tokens, output_factor)
    )


def with_long(scenario: Scenario, side: str, factor: float) -> Scenario:
    """The long tenth of the prompts (`side` input) or of the outputs comes `factor` times as often as the rest did."""

    def tilt(tokens: Floats, weights: Floats) -> Floats:
        return tilted(tokens, weights, factor)

    def keep(tokens: Floats, _: Floats) -> Floats:
        return tokens

    return _lengths_changed(scenario, *((tilt, keep) if side == "input" else (keep, tilt)))


def scaled(tokens: Floats, factor: float) -> Floats:
    return tokens if factor == 1.0 else np.maximum(np.rint(tokens * factor), 1.0)


def tilted(tokens: Floats, weights: Floats, factor: float) -> Floats:
    """Lengths, rank by rank, of the law in which what lies above the `LONG_FROM` quantile weighs `factor` times more.

    A request at level u of the old law gets the old length at level v(u): with L = LONG_FROM and the new law's mass
    of short requests s = L / (L + factor (1 - L)), v = u L / s below s and L + (u - s) (1 - L) / (1 - s) above.
    """
    order = np.argsort(tokens, kind="stable")
    mass = weights[order] / weights.sum()
    upper = np.cumsum(mass)
    level = upper - mass / 2.0
    short = LONG_FROM / (LONG_FROM + factor * (1.0 - LONG_FROM))
    moved = np.interp(level, [0.0, short, 1.0], [0.0, LONG_FROM, 1.0])
    at = np.minimum(np.searchsorted(upper, moved * (1.0 - 1e-12)), tokens.size - 1)
    changed = np.empty_like(tokens)
    changed[order] = tokens[order][at]
    return changed


def with_arrival_scv(scenario: Scenario, scv: float) -> Scenario:
    """Renewal arrivals whose gaps have this squared coefficient of variation; 1 is Poisson.

    A synthetic trace: gaps are evenly spaced quantiles of the gap law in an order that is always the same, and lengths
    are dealt in proportion.
    """
    workload = scenario.workload
    if scv == 1.0:
        return _working(scenario, replace(workload, arrivals=None, blocks=None))
    random = np.random.default_rng(0)
    gaps_s = random.permutation(_gap_quantiles(scv, RENEWAL_REQUESTS)) / workload.requests_per_s
    lengths = workload.lengths
    edges = np.cumsum(lengths.weights) / lengths.weights.sum()
    drawn = np.searchsorted(edges, (np.arange(gaps_s.size) + 0.5) / gaps_s.size * (1.0 - 1e-12))
    drawn = random.permutation(np.minimum(drawn, edges.size - 1))
    times_s = np.cumsum(gaps_s)
    cached = None if lengths.cached_tokens is None else lengths.cached_tokens[drawn]
    tokens = (lengths.input_tokens[drawn], lengths.output_tokens[drawn])
    arrivals = Arrivals(times_s, *tokens, float(times_s[-1]), cached)
    return _working(scenario, replace(workload, arrivals=arrivals, blocks=None))


def _gap_quantiles(scv: float, count: int) -> Floats:
    """`count` gaps of mean 1: two exponentials with balanced means above an SCV of 1, a shifted exponential below."""
    levels = (np.arange(count) + 0.5) / count
    exponential = -np.log1p(-levels)
    if scv <= 1.0:  # 1 - s + s E has mean 1 and SCV s^2
        spread = np.sqrt(scv)
        gaps = 1.0 - spread + spread * exponential
    else:  # balanced means: half of the time is spent in each phase
        share = 0.5 * (1.0 + np.sqrt((scv - 1.0) / (scv + 1.0)))
        first = round(share * count)
        gaps = np.concatenate(
            [
                -np.log1p(-(np.arange(first) + 0.5) / first) / (2.0 * share),
                -np.log1p(-(np.arange(count - first) + 0.5) / (count - first)) / (2.0 * (1.0 - share)),
            ]
        )
    return np.asarray(gaps / gaps.mean())


def with_hit_ratio(scenario: Scenario, factor: float) -> Scenario:
    """The prompt tokens found in a cache times `factor`, at most all of them."""
    workload, arrivals = scenario.workload, scenario.workload.arrivals

    def times(cached: Floats | None) -> Floats | None:
        return None if cached is None else cached * factor

    changed = replace(
        workload,
        prefix_hit_fraction=min(workload.prefix_hit_fraction * factor, MOST_FOUND),
        lengths=replace(
            workload.lengths,
            cached_tokens=times(workload.lengths.cached_tokens),
            fetched_tokens=times(workload.lengths.fetched_tokens),
        ),
        arrivals=None if arrivals is None else replace(arrivals, cached_tokens=times(arrivals.cached_tokens)),
    )
    return _working(scenario, changed)


def with_acceptance(scenario: Scenario, factor: float) -> Scenario:
    """The drafted tokens that are kept times `factor`, at most all of them."""
    drafts = scenario.speculation
    if drafts is None:
        return scenario
    kept = min(drafts.accepted_tokens * factor, float(drafts.draft_tokens))
    return replace(scenario, speculation=replace(drafts, accepted_tokens=kept))


def with_network(scenario: Scenario, factor: float) -> Scenario:
    """Every network card at `factor` of its rate."""
    if scenario.network_bytes_per_s is not None:
        return replace(scenario, network_bytes_per_s=scenario.network_bytes_per_s * factor)

    def slowed(accelerator: Accelerator) -> Accelerator:
        rate = accelerator.nic_bytes_per_s
        return replace(accelerator, nic_bytes_per_s=rate * factor if rate else rate)

    return replace(
        scenario,
        prefill_accelerators=tuple(map(slowed, scenario.prefill_accelerators)),
        decode_accelerators=tuple(map(slowed, scenario.decode_accelerators)),
    )


def _working(scenario: Scenario, workload: Workload) -> Scenario:
    return replace(scenario, workload=workload)


_Change = Callable[[Floats, Floats], Floats]


def _lengths_changed(scenario: Scenario, inputs: _Change, outputs: _Change) -> Scenario:
    """Lengths changed in the law and, request by request, in the trace."""
    workload, lengths = scenario.workload, scenario.workload.lengths
    changed = replace(
        lengths,
        input_tokens=inputs(lengths.input_tokens, lengths.weights),
        output_tokens=outputs(lengths.output_tokens, lengths.weights),
    )
    arrivals = workload.arrivals
    if arrivals is not None:
        even = np.ones(arrivals.time_s.size)
        arrivals = replace(
            arrivals,
            input_tokens=inputs(arrivals.input_tokens, even),
            output_tokens=outputs(arrivals.output_tokens, even),
        )
    return _working(scenario, replace(workload, lengths=changed, arrivals=arrivals, blocks=None))


# ---------------------------------------------------------------------------------------------------------------- plan


def with_workers(deployment: Deployment, role: str, more: int) -> Deployment | None:
    """The deployment with `more` (or fewer) workers in one pool; None where none would be left."""
    pool: Pool | None = deployment.prefill if role == "prefill" else deployment.decode
    if pool is None or pool.replicas + more < 1:
        return None
    changed = replace(pool, replicas=pool.replicas + more)
    return replace(deployment, prefill=changed) if role == "prefill" else replace(deployment, decode=changed)


def with_ratio(deployment: Deployment, factor: float) -> Deployment | None:
    """Two pools with workers of one traded for the other, so that prefill per decode is `factor` times as large.

    No more accelerators than before; the split of whole workers that comes nearest. Where there is no other split one
    pool shrinks by that factor, or as a last resort grows. None for one pool.
    """
    prefill, decode = deployment.prefill, deployment.decode
    if prefill is None:
        return None
    second = np.arange(1, max(deployment.accelerators // decode.worker_accelerators, 1) + 1)
    first = (deployment.accelerators - second * decode.worker_accelerators) // prefill.worker_accelerators
    moved = (first >= 1) & ((first > prefill.replicas) if factor > 1.0 else (first < prefill.replicas))
    first, second = first[moved], second[moved]
    if not first.size:
        return _one_pool_changed(deployment, prefill, factor)
    off = np.abs(np.log(first / second * (decode.replicas / prefill.replicas) / factor))
    nearest = int(np.argmin(off))
    return replace(
        deployment,
        prefill=replace(prefill, replicas=int(first[nearest])),
        decode=replace(decode, replicas=int(second[nearest])),
    )


def _one_pool_changed(deployment: Deployment, prefill: Pool, factor: float) -> Deployment:
    """The ratio changed by the size of one pool alone."""
    fewer_decode = round(deployment.decode.replicas / factor)
    if factor > 1.0 and 1 <= fewer_decode < deployment.decode.replicas:
        return replace(deployment, decode=replace(deployment.decode, replicas=fewer_decode))
    scaled_prefill = round(prefill.replicas * factor)
    if scaled_prefill >= 1 and scaled_prefill != prefill.replicas:
        return replace(deployment, prefill=replace(prefill, replicas=scaled_prefill))
    return replace(deployment, decode=replace(deployment.decode, replicas=round(deployment.decode.replicas / factor)))
