"""Where a deployment settles under a rate or under users, by means alone: quick enough to be asked a thousand times.

The latencies of a plan come from `serving.predict`. This is for fixed points, in which hits, waits and residency chase
each other, and for loads at which nothing is stationary but the users, who wait (MODELLING §7.6, §9).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import erfc, exp, pi, sqrt

import numpy as np

from planner.errors import FieldError
from planner.queueing.service import single_server_wait_s, weighted_scv
from planner.records import Deployment, Floats, Scenario, Workload
from planner.roofline.collectives import SET_UP_S
from planner.roofline.steps import busy_launches_s, prefill_step_s
from planner.serving.predict import bound_roles
from planner.serving.reuse import with_hits
from planner.serving.role import Role
from planner.serving.traffic import Traffic, scenario_traffic, with_found
from planner.serving.transfer import transfer_rate

BUSIEST = 0.999  # of a station that never idles: its queue is what the users make it
SHORTEST_S = 1e-12  # of work
SHARED_ROUNDS = 3  # for how many prompts begin in one step
SMALL_BATCHES = np.linspace(0.02, 0.98, 25)


@dataclass(frozen=True, slots=True)
class Flow:
    """A settled deployment; rates are of all of it, `batch` of one worker that decodes."""

    requests_per_s: float
    asked_per_s: float  # that the users would send if none had to wait
    batch: float
    slots_batch: float  # sequences a worker's KV has room for
    wait_s: float  # before prefill begins: for a prefill server, or for room
    own_s: float  # prefill of a request as it feels it, fetch and hand-over included
    run_s: float  # from there to the last token
    itl_s: float
    ttft_s: float
    prefill_utilization: float
    saturated: bool  # more is asked than settles: users wait, and a rate cannot be carried

    @property
    def e2e_s(self) -> float:
        return self.wait_s + self.own_s + self.run_s


@dataclass(frozen=True, slots=True, eq=False)
class _Points:
    """The stations at each batch: what a request meets, if that is the batch. Arrays of one shape."""

    requests_per_s: Floats
    wait_s: Floats
    own_s: Floats
    run_s: Floats
    itl_s: Floats
    prefill_utilization: Floats


@dataclass(frozen=True, eq=False)
class Plant:
    """A deployment without its load. `prefill` and `decode` are one role when colocated."""

    scenario: Scenario
    deployment: Deployment
    prefill: Role
    decode: Role

    @property
    def colocated(self) -> bool:
        return self.deployment.prefill is None

    @property
    def cache_role(self) -> Role:
        """The role whose memory keeps prefixes."""
        return self.prefill

    @property
    def cache_replicas(self) -> int:
        return (self.deployment.prefill or self.deployment.decode).replicas

    @cached_property
    def slots_batch(self) -> float:
        """Sequences of the residents' mean context that a decode worker's KV holds, within the engine's cap.

        The next prompt waits until all of it fits, so half of one, biased by size, is empty: E[R^2] / 2 E[R]
        (QUEUEING §5).
        """
        role, load = self.decode, self.decode.traffic
        prompts = role.kv_bytes_on_rank(load.joint_input_tokens)
        empty = float(load.joint_weights @ prompts**2 / (2.0 * load.joint_weights @ prompts))
        room = (role.memory.kv_bytes - empty) / role.resident_bytes_moments[0] * role.dp
        cap = float(self.deployment.decode.max_batch or self.decode.engine_max_batch * self.decode.dp)
        return min(max(room, 1.0), cap)

    @cached_property
    def batches(self) -> Floats:
        whole = np.arange(1.0, np.floor(self.slots_batch) + 1.0)
        return np.unique(np.concatenate([SMALL_BATCHES, whole, [self.slots_batch]]))

    @cached_property
    def step_s(self) -> Floats:
        """Decode step at each of `batches`."""
        return np.asarray(self.decode.decode(np.maximum(self.batches, 1.0)).total_s)

    def loaded(self, workload: Workload) -> Loaded:
        """The plant with what a workload's prompts find in its caches."""
        load = with_found(self.decode.traffic, workload)
        return Loaded(self, load, replace(self.prefill, traffic=load), replace(self.decode, traffic=load))


@dataclass(frozen=True, eq=False)
class Loaded:
    """A plant and what prompts find there."""

    plant: Plant
    load: Traffic
    prefill: Role
    decode: Role

    def at_rate(self, requests_per_s: float) -> Flow:
        """Open loop: requests come at their own pace."""
        points = self._points
        rates = points.requests_per_s
        if requests_per_s >= rates[-1]:
            last = float(self.plant.batches.size - 1)
            return self._flow(last, requests_per_s, requests_per_s, np.inf, saturated=True)
        at = float(np.interp(requests_per_s, rates, np.arange(rates.size)))
        return self._flow(at, requests_per_s, requests_per_s, None, saturated=False)

    def with_users(self, users: float, pause_s: float, requests_per_turn: float, turn_factor: float = 1.0) -> Flow:
        """Closed loop: each user takes a turn, waits for its answer, and pauses; children of turns come on top.

        `turn_factor` : answer of a turn over that of a mean request, children counted.
        """
        points = self._points
        free_s = points.own_s + turn_factor * points.run_s + pause_s
        cycle_s = points.wait_s + free_s
        needed = np.maximum.accumulate(points.requests_per_s / requests_per_turn * cycle_s)
        if users >= needed[-1]:
            last = float(needed.size - 1)
            turns_per_s = points.requests_per_s[-1] / requests_per_turn
            waiting_s = users / turns_per_s - pause_s - points.own_s[-1] - turn_factor * points.run_s[-1]
            asked = users * requests_per_turn / float(free_s[-1])
            flow = self._flow(last, float(points.requests_per_s[-1]), asked, float(waiting_s), saturated=True)
            return self._unsteady(flow, users * requests_per_turn, pause_s)
        at = float(np.interp(users, needed, np.arange(needed.size)))
        below = min(users / float(needed[0]), 1.0)  # of the least batch that is tabled
        rate = below * float(np.interp(at, np.arange(needed.size), points.requests_per_s))
        asked = users * requests_per_turn / float(np.interp(at, np.arange(needed.size), free_s))
        flow = self._flow(at, rate, asked, None, saturated=False)
        return self._unsteady(flow, users * requests_per_turn, pause_s)

    def _unsteady(self, flow: Flow, requests: float, pause_s: float) -> Flow:
        """The flow with the waits for room that come from numbers and contexts that vary around their means.

        The requests that want room are taken as normal around their mean m, with the variance of users who are there
        or in thought, and of the contexts that fill a worker: E[(n - B)+] = s (phi(d) + d Phi(d)), d = (m - B) / s.
        What that is above (m - B)+ is added to the wait, and by Little's law taken from the rate.
        """
        workers = self.plant.deployment.decode.replicas
        there_s = flow.run_s + (flow.own_s if self.plant.colocated else 0.0) + (flow.wait_s if flow.saturated else 0.0)
        mean, slots = flow.requests_per_s * there_s / workers, self.plant.slots_batch
        thinking = flow.requests_per_s * pause_s / workers
        variance = mean * thinking / max(mean + thinking, 1e-12) + slots * self.load.context_scv
        deviation = sqrt(max(variance, 1e-12))
        over = (mean - slots) / deviation
        waiting = deviation * (exp(-(over**2) / 2.0) / sqrt(2.0 * pi) + over * 0.5 * erfc(-over / sqrt(2.0)))
        extra_s = (waiting - max(mean - slots, 0.0)) * workers / flow.requests_per_s
        if extra_s <= 0.0:
            return flow
        cycle_s = requests / flow.requests_per_s
        slower = cycle_s / (cycle_s + extra_s)
        return replace(
            flow,
            requests_per_s=flow.requests_per_s * slower,
            batch=flow.batch * slower,
            wait_s=flow.wait_s + extra_s,
            ttft_s=flow.ttft_s + extra_s,
        )

    def _flow(
        self, at: float, requests_per_s: float, asked_per_s: float, wait_s: float | None, saturated: bool
    ) -> Flow:
        points, index = self._points, np.arange(self.plant.batches.size)

        def value(values: Floats) -> float:
            return float(np.interp(at, index, values))

        batch, wait = value(self.plant.batches), value(points.wait_s) if wait_s is None else wait_s
        constants = self.decode.constants
        felt = self._felt_s(value(points.own_s), value(points.itl_s), batch)
        return Flow(
            requests_per_s=requests_per_s,
            asked_per_s=asked_per_s,
            batch=batch,
            slots_batch=self.plant.slots_batch,
            wait_s=wait,
            own_s=value(points.own_s),
            run_s=value(points.run_s),
            itl_s=value(points.itl_s),
            ttft_s=wait + felt + constants.ttft_fixed_s,
            prefill_utilization=value(points.prefill_utilization),
            saturated=saturated,
        )

    def _felt_s(self, own_s: float, itl_s: float, batch: float) -> float:
        constants = self.decode.constants
        return own_s + constants.ttft_steps * itl_s + constants.ttft_sequence_s * batch

    @cached_property
    def _points(self) -> _Points:
        return self._together() if self.plant.colocated else self._apart()

    @cached_property
    def _fetch(self) -> tuple[float, float]:
        """Mean time of a fetch, and requests per second at which the links of all nodes are full."""
        role, weights = self.prefill, self.load.input_weights
        alone_s = float(weights @ role.fetch_s())
        replicas = float(self.plant.cache_replicas)
        shares = [
            role.fetch_load(place, size, replicas) / self.load.requests_per_s
            for place, size in zip(role.tiers, role.fetched_bytes, strict=True)
        ]
        return alone_s, 1.0 / max(max(shares, default=0.0), 1e-12)

    def _together(self) -> _Points:
        """One pool: prompt tokens stretch the steps of the batch (QUEUEING §4.2, by means)."""
        plant, load, replicas = self.plant, self.load, float(self.plant.cache_replicas)
        fetch_s, most = self._fetch
        step_s, alone_s = plant.step_s, self.prefill.service_s
        whole = plant.deployment.mode == "colocated-whole-prompt"
        chunks = np.ceil(load.new_tokens / np.maximum(self.decode.token_budget - plant.batches, 1.0)[:, None])
        chunks = np.zeros_like(step_s) if whole else chunks @ load.input_weights
        work_s = np.full_like(step_s, float(load.input_weights @ alone_s)) if whole else self._mixed_work_s(chunks)
        launch_s = np.minimum(0.0 if whole else busy_launches_s(self.decode.worker), work_s)
        launched = np.ones_like(step_s)  # of the steps that prompts begin in, for each prompt
        for _ in range(SHARED_ROUNDS):
            each_s = work_s - launch_s * (1.0 - launched)
            own_s = chunks * step_s + each_s
            total = own_s + load.mean_steps * step_s + plant.batches * each_s
            # b = y (own + steps t / (1 - y work)): the smaller root, written so that nothing cancels
            root = np.sqrt(np.maximum(total**2 - 4.0 * own_s * each_s * plant.batches, 0.0))
            rate = np.minimum(2.0 * plant.batches / (total + root), BUSIEST * np.minimum(1.0 / each_s, most / replicas))
            busy = rate * each_s
            begun = np.maximum(rate * step_s / (1.0 - busy), 1e-12)
            launched = -np.expm1(-begun) / begun
        look_up_s = float(load.input_weights @ self.prefill.look_up_s)
        return _Points(
            requests_per_s=np.maximum.accumulate(rate * replicas),
            wait_s=single_server_wait_s(busy, each_s, weighted_scv(alone_s, load.input_weights)),
            own_s=self.prefill.constants.own_prefill_factor * own_s + fetch_s + look_up_s,
            run_s=load.mean_steps * step_s / (1.0 - busy),
            itl_s=step_s / (1.0 - busy),
            prefill_utilization=busy,
        )

    def _mixed_work_s(self, chunks: Floats) -> Floats:
        """What the chunks of a prompt add to the steps of a batch: their time alone, less what a step has anyway.

        The share is that of a mean chunk in a mixed step (FIDELITY §3), launches that no graph replays included.
        """
        load, role = self.load, self.decode
        chunk = load.mean_new_tokens / chunks
        of = load.input_weights * load.new_tokens / load.mean_new_tokens
        seen, cached = float(of @ load.input_tokens), float(of @ load.cached_tokens)
        added = np.asarray(role.mixed(np.maximum(self.plant.batches, 1.0), chunk).total_s) - self.plant.step_s
        alone = np.asarray(prefill_step_s(role.worker, chunk, seen, cached_tokens=cached).total_s)
        return np.maximum(float(load.input_weights @ self.prefill.service_s) * added / alone, SHORTEST_S)

    def _apart(self) -> _Points:
        """Two pools: prefill servers in front (Sakasegawa's form of M/G/k), batches behind."""
        plant, load, pool = self.plant, self.load, self.plant.deployment.decode
        fetch_s, most = self._fetch
        weights, service_s = load.input_weights, self.prefill.service_s
        mean_s, servers = float(weights @ service_s), float(plant.cache_replicas * self.prefill.dp)
        run_s = load.mean_steps * plant.step_s
        rate = np.minimum(plant.batches / run_s * pool.replicas, BUSIEST * min(servers / mean_s, most))
        busy = rate * mean_s / servers
        scv = float(weighted_scv(service_s, weights))
        queue = busy ** np.sqrt(2.0 * (servers + 1.0)) / (servers * (1.0 - busy))
        link = transfer_rate(self.prefill, self.decode, plant.scenario.network_bytes_per_s)
        moved_s = float(weights @ self.prefill.transfer_bytes) / link + SET_UP_S
        return _Points(
            requests_per_s=np.maximum.accumulate(rate),
            wait_s=queue * (1.0 + scv) / 2.0 * mean_s,
            own_s=np.full_like(run_s, float(weights @ self.prefill.own_prefill_s) + fetch_s + moved_s),
            run_s=run_s,
            itl_s=plant.step_s,
            prefill_utilization=busy,
        )


def plant_of(scenario: Scenario, deployment: Deployment) -> Plant:
    """Raises FieldError when the deployment cannot run, or has pipeline stages, which this flow does not know."""
    if any(pool.pp > 1 for pool in deployment.pools):
        raise FieldError("deployment", "caches of workers with pipeline stages are not followed; use pp 1")
    nothing = with_hits(scenario.workload, [0.0] * (1 + len(scenario.tiers)), scenario.engine)
    prefill, decode = bound_roles(scenario, deployment, scenario_traffic(replace(scenario, workload=nothing)))
    return Plant(scenario, deployment, prefill, decode)
