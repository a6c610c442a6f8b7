"""A scenario's deployment as a simulation: workers from the roofline, requests from the workload, constants on top."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from planner.engines.constants import LOOK_UP_TOKEN_S, serving_constants
from planner.engines.rules import why_not
from planner.errors import FieldError
from planner.records import Accelerator, Deployment, EngineConstants, Floats, Note, Pool, RoleName, Scenario
from planner.roofline.collectives import LINE_FRACTION, SET_UP_S
from planner.roofline.guards import step_floor_s
from planner.roofline.memory import kv_bytes_per_rank_for, memory
from planner.roofline.worker import Worker, build_worker
from planner.shapes.ranks import sequence_kv_bytes
from planner.simulation.estimates import statistics
from planner.simulation.fleet import Fleet, Handover, PoolPlan, Progress, Run
from planner.simulation.incidents import Incident, found_tokens, half_way_s, hosts_of, incident_of
from planner.simulation.ledger import Ledger, open_ledger
from planner.simulation.rank import Policy, Schedule
from planner.simulation.requests import Requests, requests_of
from planner.simulation.result import (
    Latencies,
    Simulation,
    failure_simulation,
    itl_statistics,
    pool_simulation,
    tokens_per_s,
    window,
)
from planner.simulation.router import RouterName
from planner.simulation.speculation import verify_steps
from planner.simulation.steps import TabulatedSteps

DEFAULT_REQUESTS = 20_000
NO_CACHE = (
    "requests are simulated without prefix caches, so users whose hits depend on them cannot be; `planner kv` settles "
    "both, or give `requests` with the share that prompts find as `prefix_hit_ratio`"
)
WARM_STAYS = 3.0  # a step under load takes up to so many times a lone one


@dataclass(frozen=True, slots=True)
class Setting:
    """How to simulate. `requests` 0: the whole trace, or DEFAULT_REQUESTS; `clients` 0: an open loop.

    `router` None is the scenario's: `least-outstanding` joins the shortest queue, `queue-aware` the fewest prompts.

    `arrival_scv` None replays the trace where there is one and is Poisson elsewhere; a number draws renewal arrivals.
    """

    requests: int = 0
    seed: int = 0
    router: RouterName | None = None
    arrival_scv: float | None = None
    clients: int = 0
    fail: str = ""  # what is lost half-way through the measured requests (incidents.events_of)
    fail_workers: int = 1  # or cards, or hosts
    restore: str = ""  # where copies of lost caches stand (copies.copy_rates); empty: they are prefilled again

    def router_for(self, scenario: Scenario) -> RouterName:
        by_scenario: RouterName = "fewest-prompts" if scenario.router == "queue-aware" else "join-shortest-queue"
        return self.router or by_scenario


@dataclass(frozen=True, eq=False)
class _Role:
    """One pool's worker with what a run asks of it."""

    pool: Pool
    worker: Worker
    plan: PoolPlan
    nic_bytes_per_s: float

    @property
    def constants(self) -> EngineConstants:
        return self.worker.constants

    def floor_s(self, prompt_tokens: Floats, cached_tokens: Floats) -> Floats:
        """Least time physics allows for what prompts do not find in a cache [s]."""
        new = prompt_tokens - cached_tokens
        chunks = np.ceil(new / self.plan.schedule.token_budget)
        chunk, none = new / chunks, np.zeros_like(new)
        return np.asarray(step_floor_s(self.worker, none, none, chunk, prompt_tokens, chunk, cached_tokens) * chunks)


def without_caches(scenario: Scenario) -> Scenario:
    """The scenario without prefix caches: a simulation has none, so the prediction beside it must do without too."""
    if scenario.workload.blocks is None:
        return scenario
    note = Note("caution", "simulated without prefix caches, and predicted without them here as well")
    return replace(scenario, workload=replace(scenario.workload, blocks=None), notes=(*scenario.notes, note), tiers=())


def simulate(
    scenario: Scenario, deployment: Deployment, setting: Setting | None = None, progress: Progress | None = None
) -> Simulation:
    """Run the deployment under the scenario's workload at the rate its targets must survive.

    Step times are the planner's, tabulated; waits, batches and gaps come from the run alone. TTFT adds the engine's
    fixed constants, f0 + fr step + kT own prefill + wait + transfer + fN b (HOUSE §7), with the request's own first
    gap as the step and the batch it met.

    Raises
    ------
    FieldError
        The deployment cannot run, or a setting makes no sense.
    """
    setting = setting or Setting()
    _check(setting)
    workload = scenario.workload
    if workload.sessions is not None or workload.lengths.cached_tokens is not None:
        raise FieldError("workload", NO_CACHE)
    random = np.random.default_rng(setting.seed)
    count = setting.requests
    if not count and (scenario.workload.arrivals is None or setting.arrival_scv is not None or setting.clients):
        count = DEFAULT_REQUESTS
    requests = requests_of(scenario.workload, count, setting.arrival_scv, setting.clients, random)
    warm_up = _warm_up(scenario, deployment, setting, requests)
    if warm_up > requests.first:
        random = np.random.default_rng(setting.seed)
        requests = requests_of(scenario.workload, count, setting.arrival_scv, setting.clients, random, warm_up)
    incident = _incident(scenario, deployment, setting, requests)
    if workload.prefix_hit_fraction:
        requests = _with_hits(scenario, deployment, requests, incident, random)
    prefill, decode = _roles(scenario, deployment, requests)
    worker = decode.worker
    first = prefill or decode
    ledger = open_ledger(
        requests,
        first.plan.law.attention_s,
        lambda tokens: np.asarray(kv_bytes_per_rank_for(worker, tokens)),
        scenario.engine.reserved_output_fraction,
        None if scenario.speculation is None else verify_steps(requests.output_tokens, scenario.speculation, random),
    )
    _check_window(requests, setting)
    handover = None if prefill is None else _handover(scenario, prefill, decode, requests)
    cached = np.asarray(ledger.cached_tokens)
    floor_s = first.floor_s(requests.input_tokens.astype(float), cached)
    accounts = _Accounts(first.constants, decode.constants, ledger, floor_s, list(ledger.steps), handover is not None)
    fleet = Fleet(
        requests,
        ledger,
        decode.plan,
        None if prefill is None else prefill.plan,
        handover,
        setting.router_for(scenario),
        random,
        setting.clients,
        accounts.client_s,
        incident,
    )
    return _result(fleet.run(progress), accounts, prefill, decode, setting, incident)


def _check(setting: Setting) -> None:
    if setting.requests < 0:
        raise FieldError("--requests", f"{setting.requests} requests; give a positive number")
    if setting.clients < 0:
        raise FieldError("--clients", f"{setting.clients} clients; give a positive number")
    if setting.arrival_scv is not None and not 0.0 <= setting.arrival_scv < np.inf:
        raise FieldError("--arrival-scv", f"{setting.arrival_scv}; give a number of at least 0 (1: Poisson)")


def _warm_up(scenario: Scenario, deployment: Deployment, setting: Setting, requests: Requests) -> int:
    """Requests that come while one of mean length is decoded, WARM_STAYS times as long as alone; 0 in other runs."""
    workload = scenario.workload
    if setting.clients or (workload.arrivals is not None and setting.arrival_scv is None):
        return 0
    law = _roles(scenario, deployment, requests)[1].plan.law
    step_s = law.decode_line(1, float(requests.input_tokens.mean()))[0] + law.shared_s(1.0)
    stay_s = WARM_STAYS * step_s * float(requests.output_tokens.mean())
    return int(stay_s * workload.requests_per_s * workload.peak_factor)


def _check_window(requests: Requests, setting: Setting) -> None:
    """Refuse open arrivals whose measured part takes no time: shares of time and rates would have no meaning."""
    if setting.clients:
        return
    if not requests.arrival_s[requests.last - 1] > requests.arrival_s[requests.first]:
        count = requests.last - requests.first
        text = f"too few: the {count:,} measured all come at one instant"
        raise FieldError("--requests", text)


def _incident(scenario: Scenario, deployment: Deployment, setting: Setting, requests: Requests) -> Incident | None:
    """What fails half-way through the measured requests."""
    if not setting.fail:
        if setting.restore:
            raise FieldError("--restore", "says where copies of lost caches stand; give --fail too")
        return None
    if setting.clients:
        raise FieldError("--fail", "a failure is simulated under open arrivals only; leave out --clients")
    at_s = half_way_s(requests)
    return incident_of(scenario, deployment, setting.fail, setting.fail_workers, setting.restore, at_s)


def _with_hits(
    scenario: Scenario,
    deployment: Deployment,
    requests: Requests,
    incident: Incident | None,
    random: np.random.Generator,
) -> Requests:
    """The requests with what their prompts find in a cache, before and after a host of prefixes is lost."""
    lost = incident if incident is not None and incident.kind == "cache node" else None
    late = requests.arrival_s >= lost.at_s if lost else np.zeros(requests.count)
    hosts, gone = hosts_of(scenario, deployment), lost.workers if lost else 0
    share = scenario.workload.prefix_hit_fraction
    found = found_tokens(requests.input_tokens.astype(float), share, gone, hosts, late.astype(float), random)
    return replace(requests, cached_tokens=found)


# ------------------------------------------------------------------------------------------------------------ building


def _roles(scenario: Scenario, deployment: Deployment, requests: Requests) -> tuple[_Role | None, _Role]:
    reason = why_not(
        scenario.engine, deployment.mode, deployment.prefill, deployment.decode, scenario.model, scenario.weights
    )
    if reason:
        raise FieldError("deployment", reason)
    longest = float((requests.input_tokens + requests.output_tokens).max())
    if deployment.prefill is None:
        policy: Policy = "chunked" if deployment.mode == "colocated-chunked" else "prefill-first"
        return None, _role(scenario, "colocated", deployment.decode, policy, longest)
    prefill = _role(scenario, "prefill", deployment.prefill, "prefill-first", longest)
    return prefill, _role(scenario, "decode", deployment.decode, "prefill-first", longest)


def _role(scenario: Scenario, name: RoleName, pool: Pool, policy: Policy, longest_tokens: float) -> _Role:
    engine, accelerator = scenario.engine, _accelerator(scenario, name, pool)
    constants = serving_constants(
        engine,
        name == "colocated",
        model=scenario.model.id,
        accelerator=accelerator.id,
        weights=scenario.weights,
        dp=pool.dp,
    )
    degrees = {"tp": pool.tp, "pp": pool.pp, "ep": pool.ep, "dp": pool.dp}
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
    budget = pool.token_budget or engine.token_budget
    batch = min(-(-(pool.max_batch or engine.max_batch * pool.dp) // pool.dp), engine.max_batch)
    batch = -(-batch // pool.pp)
    room = memory(worker, engine, token_budget=budget, max_batch=batch, role=name)
    if not room.fits:
        raise FieldError(f"deployment.{name}", room.why_it_does_not_fit)
    gives_away = name == "prefill"
    per_step = scenario.speculation.step_tokens if scenario.speculation and not gives_away else 1.0
    schedule = Schedule(policy, budget, batch, np.inf if gives_away else room.kv_bytes / pool.pp, gives_away, per_step)
    law = TabulatedSteps(worker, 0 if gives_away else batch, budget, longest_tokens)
    plan = PoolPlan(law, pool.replicas * pool.pp, pool.dp, schedule)  # a batch in each stage: a server of its own
    return _Role(pool, worker, plan, _nic(scenario, accelerator, pool))


def _accelerator(scenario: Scenario, name: str, pool: Pool) -> Accelerator:
    try:
        return scenario.accelerator(pool.accelerator)
    except KeyError:
        reason = f"{pool.accelerator} is not among the scenario's candidates"
        raise FieldError(f"deployment.{name}.accelerator", reason) from None


def _nic(scenario: Scenario, accelerator: Accelerator, pool: Pool) -> float:
    return (scenario.network_bytes_per_s or accelerator.nic_bytes_per_s or 0.0) * pool.worker_accelerators


def _handover(scenario: Scenario, prefill: _Role, decode: _Role, requests: Requests) -> Handover:
    rate = LINE_FRACTION * min(prefill.nic_bytes_per_s / prefill.pool.dp, decode.nic_bytes_per_s / decode.pool.dp)
    if rate <= 0.0:
        raise FieldError("hardware.network", "an accelerator names no NIC; give hardware.network, e.g. 400 Gb/s")
    size = sequence_kv_bytes(scenario.model, scenario.kv_dtype, requests.input_tokens.astype(float))
    layers = sum(kind.count for kind in scenario.model.layers)
    return Handover(np.asarray(size), rate, SET_UP_S, layers)


# ---------------------------------------------------------------------------------------------------------- accounting


@dataclass(frozen=True, eq=False)
class _Accounts:
    """What the engine's constants add to a request's times."""

    prefill: EngineConstants
    decode: EngineConstants
    ledger: Ledger
    floor_s: Floats
    decode_steps: list[int]
    disaggregated: bool

    def client_s(self, request: int) -> float:
        """f0 + fr step + fN b at the request's own mean gap and batch: how much later its client hears of the end."""
        ledger, constants = self.ledger, self.decode
        batch = ledger.batch[request]
        if batch != batch:
            return constants.ttft_fixed_s
        begin_s = (ledger.joined_s if self.disaggregated else ledger.prefilled_s)[request]
        step_s = (ledger.finished_s[request] - begin_s) / self.decode_steps[request]
        return constants.ttft_fixed_s + constants.ttft_steps * step_s + constants.ttft_sequence_s * batch

    def latencies(self, run: Run, mean_itl_s: float, mean_batch: float) -> Latencies:
        """Times of the measured requests that were served; fr steps of the mean gap, fN of the mean batch."""
        constants = self.decode
        late_s = constants.ttft_steps * mean_itl_s + constants.ttft_sequence_s * mean_batch
        fixed_s = constants.ttft_fixed_s + float(np.nan_to_num(late_s))
        ledger, chosen = self.ledger, np.arange(run.requests.first, run.requests.last)
        start, prefilled, finished = (np.asarray(x) for x in (ledger.start_s, ledger.prefilled_s, ledger.finished_s))
        chosen = chosen[np.isfinite(start[chosen])]
        own_s = np.maximum(self.prefill.own_prefill_factor * (prefilled - start), self.floor_s)[chosen]
        own_s += LOOK_UP_TOKEN_S * np.asarray(ledger.cached_tokens)[chosen]
        residual = np.asarray(ledger.residual_s)
        wait_s = (start - run.arrival_s - (0.0 if self.disaggregated else residual))[chosen]
        steps = (run.requests.output_tokens - 1.0)[chosen]
        after_s, begin = self._until_decode(chosen, residual)
        ttft_s = wait_s + own_s + after_s + fixed_s
        stay_s = np.where(steps > 0, finished[chosen] - begin, 0.0)
        tpot_s = np.where(steps > 0, stay_s / np.maximum(steps, 1.0), np.nan)
        return Latencies(run.arrival_s[chosen], wait_s, ttft_s, tpot_s, ttft_s + stay_s)

    def _until_decode(self, chosen: Floats, residual: Floats) -> tuple[Floats, Floats]:
        """Transfer and wait for a slot, without the step in progress; and when decoding begins."""
        ledger = self.ledger
        prefilled = np.asarray(ledger.prefilled_s)[chosen]
        if not self.disaggregated:
            return np.zeros(chosen.size), prefilled
        ready, joined = np.asarray(ledger.ready_s)[chosen], np.asarray(ledger.joined_s)[chosen]
        delay = ready - prefilled + np.maximum(joined - ready - residual[chosen], 0.0)
        return np.nan_to_num(delay), joined


def _result(
    run: Run, accounts: _Accounts, prefill: _Role | None, decode: _Role, setting: Setting, incident: Incident | None
) -> Simulation:
    begin_s, end_s = window(run)
    per_step = decode.plan.schedule.step_tokens
    itl_s = itl_statistics(run.decode, begin_s, end_s)
    second = pool_simulation(run.decode, decode.pool.replicas, decode.pool.pp, begin_s, end_s)
    times = accounts.latencies(run, itl_s["mean"].value, second.mean_batch.value / decode.pool.pp)
    measured = run.requests.last - run.requests.first
    first = None
    if prefill is not None and run.prefill is not None:
        first = pool_simulation(run.prefill, prefill.pool.replicas, prefill.pool.pp, begin_s, end_s)
    return Simulation(
        ttft_s=statistics(times.ttft_s),
        itl_s=itl_s,
        tpot_s=statistics(times.tpot_s[np.isfinite(times.tpot_s)]),
        e2e_s=statistics(times.e2e_s),
        wait_s=statistics(times.wait_s),
        requests_per_s=measured / max(end_s - begin_s, 1e-12),
        output_tokens_per_s=per_step * tokens_per_s(run.decode, begin_s, end_s)
        + measured / max(end_s - begin_s, 1e-12),
        prefill=first,
        decode=second,
        requests=measured,
        refused=run.refused,
        seed=setting.seed,
        failure=None if incident is None else failure_simulation(run, times, begin_s, end_s, incident),
    )
