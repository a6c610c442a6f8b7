"""The quantitative claims of the argument for disaggregation, each computed and judged.

A claim states a range. What the model finds is a range too, over the cases the claim is about; the verdict follows from
how the two lie. The main case is Llama-3.1-70B in bf16 on H100, four to a worker, as the claims have it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from planner.engines.constants import serving_constants
from planner.queueing.routing import join_shortest_queue
from planner.queueing.service import ServiceLaw
from planner.records import Accelerator, EngineProfile, Floats, Lengths, ModelShape, Scenario, Target, Workload
from planner.roofline.collectives import LINE_FRACTION
from planner.roofline.steps import decode_s, mixed_s, prefill_s
from planner.roofline.worker import Worker, build_worker
from planner.shapes.counts import decode_flops, kv_bytes, kv_bytes_per_token, prefill_flops
from planner.shapes.ranks import weight_bytes_per_rank
from planner.sizing.cost import price_basis
from planner.sizing.crossover.ends import leads
from planner.sizing.crossover.evaluate import evaluate_cells
from planner.sizing.crossover.map import cells_over

PROMPTS = np.array([512.0, 2048.0, 8192.0, 32768.0])
LONG = 32768.0
ALL = 1e9  # a token budget that takes any prompt whole


@dataclass(frozen=True, slots=True, eq=False)
class Bench:
    """What the claims are about."""

    dense: ModelShape  # 70B, grouped-query attention
    latent: ModelShape  # DeepSeek-V3: latent attention and experts
    accelerator: Accelerator  # H100
    large: Accelerator  # H200, eight of which hold the latent model
    engine: EngineProfile
    network_bytes_per_s: float

    def worker(self, tp: int, weights: str = "bf16") -> Worker:
        return self._built(self.dense, self.accelerator, tp, 1, weights)

    def experts_worker(self) -> Worker:
        return self._built(self.latent, self.large, 8, 8, self.latent.checkpoint_format)

    def _built(self, model: ModelShape, on: Accelerator, tp: int, ep: int, weights: str) -> Worker:
        constants = serving_constants(self.engine, True, model=model.id, accelerator=on.id, weights=weights, dp=1)
        return build_worker(model, weights, "bf16", on, self.engine.id, constants, tp=tp, pp=1, ep=ep, dp=1)

    def scenario(self, input_tokens: float, output_tokens: float, targets: tuple[Target, ...], rate: float) -> Scenario:
        lengths = Lengths(np.array([input_tokens]), np.array([output_tokens]), np.ones(1))
        return Scenario(
            name="claims",
            model=self.dense,
            weights="bf16",
            kv_dtype="bf16",
            engine=self.engine,
            prefill_accelerators=(self.accelerator,),
            decode_accelerators=(self.accelerator,),
            network_bytes_per_s=self.network_bytes_per_s,
            workload=Workload(rate, lengths),
            targets=targets,
            budgets=(),
            deployment=None,
        )


@dataclass(frozen=True, slots=True)
class Claim:
    """One claim: what is said, what the model finds, and when the claim would be right."""

    name: str
    text: str
    unit: str
    said: tuple[float, float]
    found: tuple[float, float]
    verdict: str
    cases: str  # what the found range spans
    right_when: str


def verdict(said: tuple[float, float], found: tuple[float, float]) -> str:
    """right: the model finds no more than was said; partly: the ranges meet; else how far off the nearest ends are."""
    if said[0] <= found[0] and found[1] <= said[1]:
        return "right"
    if found[0] <= said[1] and said[0] <= found[1]:
        return "partly right"
    if found[0] > said[1]:
        return f"too low by {found[0] / max(said[1], 1e-12):.1f} times or more"
    return f"too high by {said[0] / max(found[1], 1e-12):.1f} times or more"


def claims(bench: Bench, only: str = "") -> tuple[Claim, ...]:
    """Every claim in order, or the one named `only`."""
    return tuple(_made(name, compute(bench)) for name, compute in CLAIMS.items() if not only or name == only)


@dataclass(frozen=True, slots=True)
class _Finding:
    text: str
    unit: str
    said: tuple[float, float]
    found: tuple[float, float]
    cases: str
    right_when: str


def _made(name: str, one: _Finding) -> Claim:
    ordered = (min(one.found), max(one.found))
    said = verdict(one.said, ordered)
    return Claim(name, one.text, one.unit, one.said, ordered, said, one.cases, one.right_when)


def _seconds(value: object) -> float:
    return float(np.ravel(np.asarray(value, dtype=float))[0])


# ---------------------------------------------------------------------------------------------------------- intensity


def _linear_intensity(worker: Worker, tokens: float) -> float:
    """FLOP per byte of all GEMMs of a step: 2 m n k over weights, inputs and outputs."""
    gemms = worker.gemms
    flops = float(np.sum(gemms.count * 2.0 * tokens * gemms.columns * gemms.depth))
    moved = gemms.weight_bytes * gemms.columns * gemms.depth + tokens * (
        gemms.activation_bytes * gemms.depth + 2.0 * gemms.columns
    )
    return flops / float(np.sum(gemms.count * moved))


def prefill_intensity(bench: Bench) -> _Finding:
    worker = bench.worker(4)
    found = [_linear_intensity(worker, tokens) for tokens in PROMPTS]
    small = next(tokens for tokens in range(64, 4096) if _linear_intensity(worker, tokens) >= 250.0)
    return _Finding(
        "prefill has an arithmetic intensity of 100 to 250",
        "FLOP/byte",
        (100.0, 250.0),
        (found[0], found[-1]),
        "GEMMs of prompts of 512 to 32,768 tokens",
        f"for batches of no more than {small} tokens, which is what a small chunk is",
    )


def decode_intensity(bench: Bench) -> _Finding:
    def of(batch: float, context: float) -> float:
        weights = float(weight_bytes_per_rank(bench.dense, "bf16", 1, 1, 1, 1))
        moved = weights + batch * float(kv_bytes(bench.dense, "bf16", context))
        return batch * float(decode_flops(bench.dense, context)) / moved

    small = [of(1.0, 2048.0), of(4.0, 2048.0)]
    return _Finding(
        "decode has an arithmetic intensity of 0.5 to 4",
        "FLOP/byte",
        (0.5, 4.0),
        (small[0], of(128.0, 4096.0)),
        "whole step, a batch of 1 at 2,048 tokens to one of 128 at 4,096",
        f"up to a batch of 4 ({small[1]:.1f}); a batch is what a server is for",
    )


def prefill_mfu(bench: Bench) -> _Finding:
    def of(tp: int, tokens: float) -> float:
        time = _seconds(prefill_s(bench.worker(tp), tokens, ALL).total_s)
        return float(prefill_flops(bench.dense, tokens)) / (time * tp * bench.accelerator.bf16_dense_flops_per_s)

    found = [of(4, tokens) for tokens in PROMPTS]
    return _Finding(
        "prefill reaches 65 to 80 % of peak FLOP/s",
        "%",
        (65.0, 80.0),
        (100.0 * min(found), 100.0 * max(found)),
        "whole prefill of 512 to 32,768 tokens, tp 4",
        f"for single GEMMs, and at tp 1, where no all-reduce is exposed ({100 * of(1, 8192.0):.0f} % at 8,192 tokens)",
    )


# ------------------------------------------------------------------------------------------------------- interference


def unchunked_spike(bench: Bench) -> _Finding:
    worker = bench.worker(4)
    quiet = _seconds(decode_s(worker, 32.0, 2048.0).total_s)
    hit = [1e3 * (quiet + _seconds(prefill_s(worker, tokens, ALL).total_s)) for tokens in (2048.0, 32768.0)]
    chunk = 1e3 * _seconds(mixed_s(worker, 32.0, 2048.0, 480.0, 8192.0).total_s)
    lengths = np.geomspace(512.0, 32768.0, 200)
    gaps = 1e3 * (quiet + np.asarray(prefill_s(worker, lengths, ALL).total_s))
    inside = lengths[(gaps >= 400.0) & (gaps <= 600.0)]
    return _Finding(
        "a prefill beside it takes ITL from 15-20 ms to 400-600 ms",
        "ms",
        (400.0, 600.0),
        (hit[0], hit[1]),
        f"whole prompts of 2,048 to 32,768 tokens; undisturbed {1e3 * quiet:.0f} ms",
        f"without chunking, for prompts of {inside[0]:,.0f} to {inside[-1]:,.0f} tokens; "
        f"with chunks of 512 it is {chunk:.0f} ms",
    )


def number_of_chunks(bench: Bench) -> _Finding:
    count = float(prefill_s(bench.worker(4), LONG, 512.0).chunks)
    return _Finding("a 32K prompt is 64 chunks of 512", "chunks", (64.0, 64.0), (count, count), "arithmetic", "always")


def _loss(worker: Worker, tokens: float, chunk: float) -> float:
    """Share of the throughput of a lone prefill that chunks cost."""
    return 1.0 - _seconds(prefill_s(worker, tokens, ALL).total_s) / _seconds(prefill_s(worker, tokens, chunk).total_s)


def chunk_loss(bench: Bench) -> _Finding:
    dense = {tp: 100.0 * _loss(bench.worker(tp), LONG, 512.0) for tp in (2, 4, 8)}
    experts = 100.0 * _loss(bench.experts_worker(), LONG, 512.0)
    return _Finding(
        "chunks of 512 lose 35 to 50 % of a 32K prefill",
        "%",
        (35.0, 50.0),
        (dense[2], dense[8]),
        f"dense at tp 2, 4 and 8: {dense[2]:.0f}, {dense[4]:.0f} and {dense[8]:.0f} %; it is known to a factor of two",
        f"beyond tp 8, where launches and all-reduces of each chunk are exposed; "
        f"for experts, which every chunk reads again, it is {experts:.0f} %",
    )


def jitter(bench: Bench) -> _Finding:
    worker = bench.worker(4)
    quiet = _seconds(decode_s(worker, 32.0, 2048.0).total_s)
    ratios = [_seconds(mixed_s(worker, 32.0, 2048.0, c - 32.0, 8192.0).total_s) / quiet for c in (64.0, 2048.0)]
    return _Finding(
        "decode is never free of jitter when interleaved with prefill: a mixed step is longer",
        "times",
        (1.01, 100.0),
        (ratios[0], ratios[1]),
        "a step with a chunk of 64 to 2,048 tokens over one without, 32 sequences",
        "always in kind; how much is a choice of the chunk, and P99 ITL is a mixed step once 1 % of steps are mixed",
    )


# -------------------------------------------------------------------------------------------------------- parallelism


def all_reduce_share(bench: Bench) -> _Finding:
    def share(tp: int) -> float:
        step = decode_s(bench.worker(tp), 32.0, 2048.0)
        return 100.0 * _seconds(step.collectives_s) / _seconds(step.total_s)

    times = [1e3 * _seconds(decode_s(bench.worker(tp), 1.0, 1024.0).total_s) for tp in (2, 4, 8)]
    return _Finding(
        "decode at high TP is dominated by all-reduce (over half of a step)",
        "%",
        (50.0, 100.0),
        (share(4), share(8)),
        "share of a decode step of 32 sequences, tp 4 and 8 over NVLink",
        "where a worker spans nodes; inside one, steps still get shorter: "
        + ", ".join(f"{time:.0f}" for time in times)
        + " ms at tp 2, 4, 8",
    )


def tensor_parallel_by_role(bench: Bench) -> _Finding:
    targets = (Target("ttft", "p99", 2.0), Target("itl", "p99", 0.025))
    scenario = bench.scenario(4096.0, 512.0, targets, 40.0)
    cells = cells_over(scenario, {"rate": np.array([40.0])})
    plan = evaluate_cells(cells, price_basis((bench.accelerator,)))["disaggregated"].deployments[0]
    ratio = plan.prefill.tp / plan.decode.tp if plan is not None and plan.prefill is not None else 0.0
    names = f"prefill tp {plan.prefill.tp}, decode tp {plan.decode.tp}" if plan and plan.prefill else "no plan"
    return _Finding(
        "prefill wants high TP and decode low TP (prefill TP over decode TP above 1)",
        "times",
        (2.0, 8.0),
        (ratio, ratio),
        f"cheapest pools for 4,096 + 512 tokens, ITL P99 25 ms, TTFT P99 2 s: {names}",
        "where TTFT is tight and gaps are loose; tight gaps ask for high TP in the decode pool",
    )


# ------------------------------------------------------------------------------------------------------------ targets


def both_targets(bench: Bench) -> _Finding:
    """Highest prefill load with a TTFT P99 of 200 ms for 2K prompts, by pool size."""
    worker, constants = bench.worker(4), bench.worker(4).constants
    own = _seconds(prefill_s(worker, 2048.0, ALL).total_s)
    fixed = constants.own_prefill_factor * own + constants.ttft_fixed_s
    loads = np.linspace(0.01, 0.95, 95)

    def most(servers: int) -> float:
        wait = join_shortest_queue(np.full(loads.size, servers), loads * servers / own, ServiceLaw.deterministic(own))
        fits = wait.quantile_s(0.99) + fixed <= 0.2
        return 100.0 * float(loads[fits].max()) if fits.any() else 0.0

    found = {servers: most(servers) for servers in (1, 4, 16)}
    step = 1e3 * _seconds(decode_s(worker, 16.0, 2048.0).total_s)
    return _Finding(
        "P99 ITL under 20 ms and TTFT under 200 ms hold under heavy load (over half busy)",
        "%",
        (50.0, 100.0),
        (found[1], found[16]),
        f"prefill load for 2,048-token prompts at tp 4, 1 to 16 workers (4: {found[4]:.0f} %); "
        f"decode of 16 sequences takes {step:.0f} ms",
        "for short prompts in large pools; a prompt whose own prefill takes 200 ms never makes it",
    )


def wrong_ratio(bench: Bench) -> _Finding:
    """Waste of pools off by two: x / (1 + x) or (1 - x) / (2 - x) of the capacity (MODELLING §11)."""
    shares = []
    for prompt, output in ((512.0, 512.0), (4096.0, 512.0), (8192.0, 128.0)):
        targets = (Target("ttft", "p99", 4.0), Target("itl", "p99", 0.05))
        cells = cells_over(bench.scenario(prompt, output, targets, 100.0), {"rate": np.array([100.0])})
        plan = evaluate_cells(cells, price_basis((bench.accelerator,)))["disaggregated"].deployments[0]
        if plan is not None and plan.prefill is not None:
            shares.append(plan.prefill.accelerators / plan.accelerators)
    waste = [100.0 * value for x in shares for value in (x / (1.0 + x), (1.0 - x) / (2.0 - x))]
    loss = 100.0 * _loss(bench.worker(4), 8192.0, 1024.0)
    return _Finding(
        "a ratio of pools that is wrong by 2 wastes more than head-of-line blocking",
        "%",
        (loss, 100.0),
        (min(waste), max(waste)),
        f"waste of capacity at prefill shares of {min(shares):.2f} to {max(shares):.2f}; "
        f"chunks of 1,024 cost {loss:.0f} % of an 8K prefill",
        "for dense models at chunks of 1,024 and more; never above 50 %, and small chunks or experts can cost more",
    )


# ----------------------------------------------------------------------------------------------------------- KV cache


def cache_cliff(bench: Bench) -> _Finding:
    """The cliff is where the sessions' contexts fill the cache, so it moves in proportion to it (MODELLING §9)."""
    whole = [70.0 / (1.0 - cut) for cut in (0.36, 0.44)]
    return _Finding(
        "a KV budget cut by 36 to 44 % puts the cliff near 70 sessions",
        "sessions",
        (65.0, 75.0),
        (whole[0] * 0.64, whole[1] * 0.56),
        f"consistent with a cliff at {whole[0]:.0f} to {whole[1]:.0f} sessions at the full budget",
        "when all sessions hold about the same context, as agents in turn do; the source is not public",
    )


def burst_by_moving(bench: Bench) -> _Finding:
    nic = LINE_FRACTION * bench.network_bytes_per_s
    times = [float(kv_bytes(bench.dense, "bf16", tokens)) / nic for tokens in (4096.0, 100_000.0)]
    many = 100.0 * times[1] / 8.0
    return _Finding(
        "moving KV absorbs a burst of sub-agents more cheaply than headroom (under 100 ms each)",
        "ms",
        (0.0, 100.0),
        (1e3 * times[0], 1e3 * times[1]),
        "one context of 4,096 to 100,000 tokens over one NIC of 400 Gb/s",
        f"for short contexts; 100 agents of 100,000 tokens over 8 NICs take {many:.0f} s, and need room where they go",
    )


def rdma(bench: Bench) -> _Finding:
    """KV that a busy prefill worker makes, against a NIC: kappa times prompt tokens per second."""
    tokens_per_s = 2048.0 / _seconds(prefill_s(bench.worker(4), 2048.0, ALL).total_s)
    made = tokens_per_s * kv_bytes_per_token(bench.dense, "bf16") / 1e9
    long = (
        LONG / _seconds(prefill_s(bench.worker(4), LONG, ALL).total_s) * kv_bytes_per_token(bench.dense, "bf16") / 1e9
    )
    slow = 12.5 * LINE_FRACTION
    return _Finding(
        "disaggregation needs RDMA (more than a 100 Gb/s NIC without it carries)",
        "GB/s",
        (slow, 1000.0),
        (long, made),
        f"KV that one busy prefill worker of tp 4 makes; a 100 Gb/s NIC carries about {slow:.1f} GB/s",
        f"once a NIC serves {slow / made:.1f} such workers or more, and for TTFT, which feels the latency of each hop",
    )


def crossover(bench: Bench) -> _Finding:
    """ITL bound at which one pool becomes the cheaper one, without a TTFT bound (MODELLING §8)."""
    bounds = np.geomspace(0.02, 0.4, 25)
    found = []
    for prompt in PROMPTS:
        targets = (Target("itl", "p99", 0.05),)
        scenario = bench.scenario(float(prompt), 256.0, targets, float(400.0 * 512.0 / prompt))
        cells = cells_over(scenario, {"itl": bounds}, frozenset({"integers"}))
        lead = leads(cells, price_basis((bench.accelerator,)))
        found.append(1e3 * _crossing(bounds, lead))
    return _Finding(
        "one pool becomes the cheaper architecture at a P99 ITL bound of 35 ms (512 tokens) to 100 ms (32K tokens)",
        "ms",
        (35.0, 100.0),
        (min(found), max(found)),
        "P99 ITL bound at 512, 2,048, 8,192 and 32,768 prompt tokens: " + ", ".join(f"{bound:.0f}" for bound in found),
        "looser bounds favor one pool, tighter ones two; the map shows it for any model and hardware",
    )


def _crossing(bounds: Floats, lead: Floats) -> float:
    """The last bound at which two pools lead, log-linear to the next."""
    ahead = np.flatnonzero(lead > 0.0)
    if ahead.size == 0:
        return float(bounds[0])
    index = int(ahead[-1])
    if index + 1 >= bounds.size or not np.isfinite(lead[index]):
        return float(bounds[index])
    share = lead[index] / (lead[index] - lead[index + 1])
    return float(bounds[index] * (bounds[index + 1] / bounds[index]) ** share)


CLAIMS: Mapping[str, Callable[[Bench], _Finding]] = {
    "prefill-intensity": prefill_intensity,
    "decode-intensity": decode_intensity,
    "prefill-mfu": prefill_mfu,
    "unchunked-spike": unchunked_spike,
    "chunks-of-a-prompt": number_of_chunks,
    "chunk-loss": chunk_loss,
    "jitter": jitter,
    "all-reduce-share": all_reduce_share,
    "tp-by-role": tensor_parallel_by_role,
    "both-targets": both_targets,
    "wrong-ratio": wrong_ratio,
    "cache-cliff": cache_cliff,
    "burst-by-moving": burst_by_moving,
    "rdma": rdma,
    "crossover": crossover,
}
