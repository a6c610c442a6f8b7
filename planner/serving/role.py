"""One worker in one role: its step times, its KV room and the largest batch that fits it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from planner.engines.constants import LOOK_UP_TOKEN_S, serving_constants
from planner.errors import FieldError, raise_every
from planner.queueing.lockstep import Lockstep
from planner.queueing.occupancy import batch_for_memory
from planner.queueing.service import single_server_wait_s, weighted_scv
from planner.records import Accelerator, EngineConstants, Floats, Pool, RoleName, Scenario
from planner.roofline.guards import step_floor_s
from planner.roofline.memory import MemoryBudget, memory
from planner.roofline.steps import PrefillTime, StepTime, decode_s, mixed_s, prefill_s
from planner.roofline.worker import Worker, build_worker
from planner.serving.ranks import prefill_lockstep
from planner.serving.refusals import pool_refusals
from planner.serving.tiers import TierAccess, access, stored_bytes
from planner.serving.traffic import Traffic
from planner.shapes.ranks import kv_bytes_per_rank, sequence_kv_bytes

MEMORY_QUANTILE = 0.999  # share of time the KV pool must hold the batch without preemption (QUEUEING §5)
RESIDENCE_NODES, RESIDENCE_WEIGHTS = np.polynomial.legendre.leggauss(5)

SHORTEST_CLAIM_S = 1e-9  # of a prompt on the engine's time


@dataclass(frozen=True, eq=False)
class Role:
    """A worker bound to its traffic. `step_factor` scales every step time and serves the intervals."""

    name: RoleName
    accelerator: Accelerator
    worker: Worker
    constants: EngineConstants
    memory: MemoryBudget
    traffic: Traffic
    token_budget: int
    step_factor: float
    reserved_output_fraction: float
    engine_max_batch: int  # per rank and batch
    counted_others: float = 1.0  # share of the decoding requests that the router goes by, beside waiting prompts
    decode_reserved_tokens: int = 0  # kept free for each request of a decode pool
    tiers: tuple[TierAccess, ...] = ()  # below its memory; those that the traffic's prompts are fetched from

    @property
    def dp(self) -> int:
        return self.worker.dp

    @property
    def batches(self) -> int:
        """Batches that a worker has on their way at once, one in each pipeline stage: each a server of its own."""
        return self.worker.pp

    @property
    def worker_accelerators(self) -> int:
        return self.worker.accelerators

    @cached_property
    def prefill_time(self) -> PrefillTime:
        """Prefill of each input atom, unscaled; under attention DP as if every rank read a prompt like it."""
        traffic = self.traffic
        return prefill_s(
            self.worker,
            traffic.input_tokens,
            self.token_budget,
            busy_ranks=self.dp,
            cached_tokens=traffic.cached_tokens,
        )

    @cached_property
    def service_s(self) -> Floats:
        """Prefill service time of each input atom; of ranks that step together, on a worker busy on all of them [s]."""
        if self.lockstep is not None:
            return self.lockstep.work_s
        return np.asarray(self.prefill_time.total_s) * self.step_factor

    @cached_property
    def lockstep(self) -> Lockstep | None:
        """Steps of a prefill worker whose attention ranks read a prompt each; none where there is one rank."""
        if self.name != "prefill" or self.dp == 1:
            return None
        traffic = self.traffic
        return prefill_lockstep(
            self.worker,
            (traffic.input_tokens, traffic.cached_tokens, traffic.input_weights),
            self.token_budget,
            self.step_factor,
        )

    @cached_property
    def prefill_floor_s(self) -> Floats:
        """Least time physics allows for the prefill of each input atom [s]."""
        chunks = self.prefill_time.chunks
        traffic = self.traffic
        chunk = traffic.new_tokens / chunks
        none = np.zeros_like(chunk)
        floor = step_floor_s(self.worker, none, none, chunk, traffic.input_tokens, chunk, traffic.cached_tokens)
        return np.asarray(floor * chunks)

    @cached_property
    def own_prefill_s(self) -> Floats:
        """What a request feels of its own prefill: kT S(I), never below physics [s] (FIDELITY §4)."""
        return self.felt_s(self.service_s)

    def felt_s(self, prefill_s: Floats) -> Floats:
        """The same of a prefill time of each input atom."""
        return np.maximum(self.constants.own_prefill_factor * prefill_s, self.prefill_floor_s) + self.look_up_s

    @property
    def look_up_s(self) -> Floats:
        """What the front end spends on chats, and on cached tokens of each input atom; the rest is in the constants."""
        return LOOK_UP_TOKEN_S * self.traffic.cached_tokens + self.traffic.front_end_s

    @cached_property
    def fetched_bytes(self) -> Floats:
        """Bytes that each input atom fetches from each tier, (tiers, atoms): what lies beyond the nearer ones."""
        tokens = self.traffic.fetched_tokens
        near = self.traffic.cached_tokens - tokens.sum(axis=0)
        upto = near + np.cumsum(tokens, axis=0)
        return np.where(tokens > 0.0, stored_bytes(self.worker, upto) - stored_bytes(self.worker, upto - tokens), 0.0)

    def fetch_s(self, replicas: float = np.inf) -> Floats:
        """Time until the cached tokens of each input atom are in memory, with the wait for links of the nodes [s].

        Endless replicas, the default: nobody else fetches.
        """
        total = np.zeros(self.traffic.input_tokens.size)
        for place, size in zip(self.tiers, self.fetched_bytes, strict=True):
            alone_s = place.fetch_s(size)
            total = total + np.where(size > 0.0, alone_s + self.fetch_wait_s(place, size, replicas), 0.0)
        return total

    def fetch_part_s(self, replicas: float) -> dict[str, float]:
        """The part of a mean TTFT that fetching takes, where there are tiers."""
        return {"fetch_s": float(self.traffic.input_weights @ self.fetch_s(replicas))} if self.tiers else {}

    def fetch_load(self, place: TierAccess, size_bytes: Floats, replicas: float) -> float:
        """Share of a node's read rate that fetches of `size_bytes` per input atom take."""
        nodes = max(replicas * self.worker_accelerators / self.accelerator.node_accelerators, 1.0)
        per_s = self.traffic.requests_per_s * float(self.traffic.input_weights @ size_bytes)
        return per_s / nodes / place.node_read_bytes_per_s

    def fetch_wait_s(self, place: TierAccess, size_bytes: Floats, replicas: float) -> float:
        """Mean wait of a fetch for those in front of it at its node."""
        weights = self.traffic.input_weights * (size_bytes > 0.0)
        if not weights.any():
            return 0.0
        weights = weights / weights.sum()
        mean = float(weights @ size_bytes)
        load, scv = self.fetch_load(place, size_bytes, replicas), weighted_scv(size_bytes, weights)
        return float(single_server_wait_s(load, mean / place.node_read_bytes_per_s, scv))

    def decode(self, batch_per_worker: Floats) -> StepTime:
        """One decode step at the residents' mean context, unscaled; arrays over batches of the whole worker."""
        return decode_s(self.worker, batch_per_worker, self.traffic.context_moments[0], self.traffic.context_scv)

    def mixed(self, batch_per_worker: Floats, prefill_tokens: Floats) -> StepTime:
        """One step that decodes and prefills `prefill_tokens` of prompts as long as a prompt token sees."""
        traffic = self.traffic
        share = traffic.input_weights * traffic.new_tokens / traffic.mean_new_tokens
        seen, cached = float(share @ traffic.input_tokens), float(share @ traffic.cached_tokens)
        batch = np.asarray(batch_per_worker, dtype=float)
        context = self.traffic.context_moments[0]
        return mixed_s(self.worker, batch, context, prefill_tokens, seen, cached_tokens=cached)

    @cached_property
    def chunk_work_tokens(self) -> Floats:
        """New tokens of each input atom, weighed by what one adds to a mixed step; the mean is that of the tokens.

        A token of a long prompt attends to more, so long prompts claim more of an engine than their tokens say.
        """
        traffic = self.traffic
        one, full = np.ones_like(traffic.input_tokens), np.full_like(traffic.input_tokens, self.token_budget)
        seen, cached = traffic.input_tokens, traffic.cached_tokens
        step = mixed_s(self.worker, one, traffic.context_moments[0], full, seen, cached_tokens=cached)
        added = np.asarray(step.total_s) - np.asarray(self.decode(np.ones(1)).total_s)
        return self._as_tokens(traffic.new_tokens * added)

    @cached_property
    def whole_work_tokens(self) -> Floats:
        """The same for prompts that are read whole: by what each adds to a step of its own."""
        return self._as_tokens(self.service_s - float(self.decode(np.ones(1)).total_s[0]) * self.step_factor)

    def _as_tokens(self, claimed_s: Floats) -> Floats:
        claimed = np.maximum(claimed_s, SHORTEST_CLAIM_S)
        return np.asarray(claimed * (self.traffic.mean_new_tokens / float(self.traffic.input_weights @ claimed)))

    def decode_curve_s(self, max_batch: int) -> Floats:
        """Step time t(1..max_batch) of the worker [s]."""
        if max_batch > self._longest_curve_s[0].size:
            batches = np.arange(1, max_batch + 1, dtype=float)
            self._longest_curve_s[0] = np.asarray(self.decode(batches).total_s) * self.step_factor
        return self._longest_curve_s[0][:max_batch]

    @cached_property
    def _longest_curve_s(self) -> list[Floats]:
        """The longest curve that was asked for; shorter ones are its beginning."""
        return [np.empty(0)]

    @cached_property
    def resident_bytes_moments(self) -> tuple[float, float, float]:
        """First three moments of the bytes a resident holds on a rank, output-biased (QUEUEING §5) [bytes^j].

        Windows and recurrent state make bytes bend in tokens, so the integral over the stay is a quadrature.
        """
        return self._held_moments((RESIDENCE_NODES + 1.0) / 2.0, RESIDENCE_WEIGHTS / 2.0)

    def _held_moments(self, shares: Floats, weights: Floats) -> tuple[float, float, float]:
        traffic = self.traffic
        tokens = traffic.joint_input_tokens[:, None] + traffic.joint_output_tokens[:, None] * shares
        held = self.kv_bytes_on_rank(tokens)
        biased = traffic.joint_weights * np.maximum(traffic.joint_output_tokens, 1e-9)
        biased = biased / biased.sum()
        first, second, third = (float(biased @ (held**power @ weights)) for power in (1, 2, 3))
        return first, second, third

    def kv_bytes_on_rank(self, tokens: Floats) -> Floats:
        """Bytes that a sequence of `tokens` takes on each rank of its group, of the room of one batch [bytes].

        A stage holds its layers of the sequences of every batch, so each batch has 1 / pp of the room.
        """
        worker = self.worker
        held = kv_bytes_per_rank(worker.shape, worker.kv_dtype, worker.tp, worker.pp, tokens)
        return np.asarray(held) * self.batches

    @cached_property
    def kv_bytes_per_resident_token(self) -> float:
        """Bytes on a rank per token held, at the residents' mean [bytes/token]."""
        return self.resident_bytes_moments[0] / self.traffic.context_moments[0]

    @property
    def kv_capacity_tokens(self) -> float:
        """Tokens the worker's KV pool holds at the residents' mean mix [tokens].

        Id: kv.capacity_tokens.  KV pool of a rank / bytes per token held there, at the residents' mean mix, * dp * pp
            (QUEUEING §5)
        """
        return self.memory.kv_bytes / self.kv_bytes_per_resident_token * self.dp * self.batches

    @cached_property
    def longest_request_bytes(self) -> float:
        """KV of the longest request on each rank that holds it; of its prompt alone in a prefill pool [bytes]."""
        return float(np.ravel(self.kv_bytes_on_rank(np.array([self._longest_tokens])))[0]) / self.batches

    @property
    def _longest_tokens(self) -> float:
        return self.traffic.longest_input_tokens if self.name == "prefill" else self.traffic.longest_tokens

    @property
    def needed_bytes(self) -> float:
        """What an accelerator must hold for one request to run: all but KV, and the longest request's KV [bytes]."""
        fixed = sum(value for part, value in self.memory.parts().items() if part != "kv")
        return fixed + self.longest_request_bytes

    @property
    def why_it_does_not_fit(self) -> str:
        """Why this worker cannot hold the weights and the longest request beside them; empty when it can."""
        if self.memory.why_it_does_not_fit:
            return self.memory.why_it_does_not_fit
        if self.longest_request_bytes <= self.memory.kv_bytes and self.memory_batch >= 1:
            return ""
        left = f"{self.memory.kv_bytes / 1e9:.1f} GB are left per accelerator"
        if self.longest_request_bytes <= self.memory.kv_bytes:
            left += ", too little beside the prompts that are being read"
        return (
            f"the weights fit {self.accelerator.id} at tp {self.worker.tp}, but the longest request of "
            f"{self._longest_tokens:,.0f} tokens takes {self.longest_request_bytes / 1e9:.1f} GB of KV and {left}; use "
            "a larger tp, an 8-bit KV cache or lighter weights"
        )

    @cached_property
    def memory_batch(self) -> int:
        """Largest of a worker's batches whose KV fits `MEMORY_QUANTILE` of the time; 0 when not even one does."""
        pool_bytes = self.memory.kv_bytes
        if self.name == "colocated":
            pool_bytes -= self._prompt_bytes_in_flight()
        if pool_bytes <= 0.0:
            return 0
        if self.reserved_output_fraction >= 1.0:
            per_rank = self._batch_by_reservation(pool_bytes)
        else:
            per_rank = int(batch_for_memory(pool_bytes, self._admitted_bytes_moments(), q=MEMORY_QUANTILE))
        return min(per_rank, self.engine_max_batch) * self.dp

    def _admitted_bytes_moments(self) -> tuple[float, float, float]:
        """Moments of what admission counts for a resident: what it holds, and a decode pool's reserve [bytes^j]."""
        first, second, third = self.resident_bytes_moments
        if self.name != "decode" or not self.decode_reserved_tokens:
            return first, second, third
        extra = float(np.ravel(self.kv_bytes_on_rank(np.array([float(self.decode_reserved_tokens)])))[0])
        return (
            first + extra,
            second + 2.0 * extra * first + extra**2,
            third + 3.0 * extra * second + 3.0 * extra**2 * first + extra**3,
        )

    def _batch_by_reservation(self, pool_bytes: float) -> int:
        """Engines that reserve I + O on admission: (M - E[R^2]/2E[R]) / E_O[R] (QUEUEING §5)."""
        traffic = self.traffic
        reserved = self.kv_bytes_on_rank(traffic.joint_input_tokens + traffic.joint_output_tokens)
        weights = traffic.joint_weights
        mean, square = float(weights @ reserved), float(weights @ reserved**2)
        biased = self._held_moments(np.array([1.0]), np.array([1.0]))[0]
        return max(int((pool_bytes - 0.5 * square / mean) / biased), 0)

    def _prompt_bytes_in_flight(self) -> float:
        traffic = self.traffic
        by_work = traffic.input_weights * traffic.new_tokens
        return float(by_work @ self.kv_bytes_on_rank(traffic.input_tokens) / by_work.sum())

    @cached_property
    def transfer_bytes(self) -> Floats:
        """Bytes that leave the prefill pool for each input atom [bytes]."""
        return np.asarray(sequence_kv_bytes(self.worker.shape, self.worker.kv_dtype, self.traffic.input_tokens))


def build_role(
    scenario: Scenario,
    traffic: Traffic,
    name: RoleName,
    pool: Pool,
    accelerator: Accelerator,
    step_factor: float = 1.0,
) -> Role:
    """Bind a worker shape to a role. Raises FieldError when the model, the memory or the engine cannot run it."""
    engine = scenario.engine
    raise_every(pool_refusals(engine, scenario.model, scenario.weights, scenario.kv_dtype, name, pool, accelerator))
    constants = serving_constants(
        engine,
        name == "colocated",
        model=scenario.model.id,
        accelerator=accelerator.id,
        weights=scenario.weights,
        dp=pool.dp,
    )
    degrees = {"tp": pool.tp, "pp": pool.pp, "ep": pool.ep, "dp": pool.dp}
    try:
        worker = build_worker(
            scenario.model,
            scenario.weights,
            scenario.kv_dtype,
            accelerator,
            engine.id,
            constants,
            **degrees,
            speculation=scenario.speculation if name != "prefill" else None,
            expert_imbalance_factor=scenario.expert_imbalance_factor,
        )
    except FieldError as error:  # which knows the worker, not where the scenario describes it
        of_pool = error.field in degrees or error.field.startswith("accelerator")
        raise FieldError(f"deployment.{name}.{error.field}" if of_pool else error.field, error.message) from error
    budget = pool.token_budget or engine.token_budget
    max_batch_per_rank = -(-(pool.max_batch or engine.max_batch) // (pool.dp * pool.pp))
    return Role(
        name=name,
        accelerator=accelerator,
        worker=worker,
        constants=constants,
        memory=memory(
            worker, engine, token_budget=budget, max_batch=min(max_batch_per_rank, engine.max_batch), role=name
        ),
        traffic=traffic,
        token_budget=budget,
        step_factor=step_factor,
        reserved_output_fraction=engine.reserved_output_fraction,
        engine_max_batch=max(engine.max_batch // pool.pp, 1),
        counted_others=0.0 if scenario.router == "queue-aware" else 1.0,
        decode_reserved_tokens=engine.decode_reserved_tokens,
        tiers=tuple(access(tier, worker, scenario.network_bytes_per_s) for tier in scenario.tiers)
        if traffic.fetched_tokens.size
        else (),
    )
