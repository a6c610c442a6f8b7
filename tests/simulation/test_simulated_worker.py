"""What a worker keeps whatever it is sent: requests, tokens, cache and time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from linear_runs import LinearSteps

from planner.simulation.fleet import Fleet, Handover, PoolPlan, Run
from planner.simulation.ledger import open_ledger
from planner.simulation.rank import Policy, Schedule
from planner.simulation.requests import Requests
from planner.simulation.router import ROUTERS, RouterName

LAW = LinearSteps(0.01, 1e-4, 1e-8, 4e-5)


def fleet_run(
    policy: Policy = "chunked",
    seed: int = 0,
    ranks: int = 1,
    replicas: int = 2,
    kv_tokens: float = np.inf,
    max_batch: int = 64,
    reserved: float = 0.0,
    router: RouterName = "join-shortest-queue",
    clients: int = 0,
    disaggregated: bool = False,
    count: int = 300,
    rate: float = 20.0,
) -> Run:
    random = np.random.default_rng(seed)
    arrivals = np.zeros(0) if clients else np.cumsum(random.exponential(1.0 / rate, count))
    inputs = np.maximum(random.gamma(1.0, 600.0, count), 1.0).astype(np.int64)
    outputs = np.maximum(random.gamma(1.0, 60.0, count), 1.0).astype(np.int64)
    requests = Requests(arrivals, inputs, outputs, count // 10, count - 5)
    ledger = open_ledger(requests, LAW.attention_s, lambda x: x, reserved)
    decode = PoolPlan(LAW, replicas, ranks, Schedule(policy, 512, max_batch, kv_tokens))
    prefill, handover = None, None
    if disaggregated:
        prefill = PoolPlan(LAW, 2, ranks, Schedule("prefill-first", 512, 1, np.inf, gives_away=True))
        handover = Handover(inputs.astype(float), 1e6, 0.005, 10)
    return Fleet(requests, ledger, decode, prefill, handover, router, random, clients).run()


@settings(max_examples=25, deadline=None)
@given(
    policy=st.sampled_from(("chunked", "prefill-first")),
    seed=st.integers(0, 1000),
    ranks=st.sampled_from((1, 3)),
    kv_tokens=st.sampled_from((np.inf, 12_000.0, 7_000.0)),
    max_batch=st.sampled_from((4, 64)),
    reserved=st.sampled_from((0.0, 0.5, 1.0)),
    router=st.sampled_from(ROUTERS),
    clients=st.sampled_from((0, 17)),
    disaggregated=st.booleans(),
)
def test_conservation(
    policy: Policy,
    seed: int,
    ranks: int,
    kv_tokens: float,
    max_batch: int,
    reserved: float,
    router: RouterName,
    clients: int,
    disaggregated: bool,
) -> None:
    """Every request finishes once, its tokens are given out once, and no rank ever holds more than it can."""
    policy = "prefill-first" if disaggregated else policy
    run = fleet_run(policy, seed, ranks, 2, kv_tokens, max_batch, reserved, router, clients, disaggregated)
    ledger, requests = run.ledger, run.requests
    finished, start = np.asarray(ledger.finished_s), np.asarray(ledger.start_s)
    served = np.isfinite(start)
    assert np.isfinite(finished).all() and (finished >= run.arrival_s).all()
    assert int((~served).sum()) == run.refused
    assert set(np.asarray(ledger.steps)[served]) <= {
        0,
        *(requests.output_tokens[served & (requests.output_tokens == 1)]),
    }
    steps = requests.output_tokens[served] - 1
    assert run.decode.tokens == steps.sum()
    assert run.decode.gap_table()[:, 2].sum() == steps.sum()
    assert run.decode.most_kv_bytes <= kv_tokens * (1.0 + 1e-9)
    assert (start[served] >= run.arrival_s[served] - 1e-9).all()
    assert (np.asarray(ledger.prefilled_s)[served] > start[served]).all()


def test_a_small_cache_preempts_and_a_large_one_does_not() -> None:
    assert fleet_run(kv_tokens=6_000.0, rate=60.0).decode.preemptions > 0
    assert fleet_run(kv_tokens=np.inf, rate=60.0).decode.preemptions == 0
    assert fleet_run(kv_tokens=6_000.0, rate=60.0, reserved=1.0).decode.preemptions == 0


def test_gaps_add_up_to_stays() -> None:
    """Without preemption the sum of all gaps is the sum of all decode times."""
    for policy in ("chunked", "prefill-first"):
        run = fleet_run(policy)  # type: ignore[arg-type]
        table = run.decode.gap_table()
        stay = np.nansum(np.asarray(run.ledger.finished_s) - np.asarray(run.ledger.prefilled_s))
        assert table[:, 1] @ table[:, 2] == pytest.approx(stay, rel=1e-9)


def test_gaps_of_preempted_requests_hold_their_absence() -> None:
    run = fleet_run(kv_tokens=6_000.0, rate=60.0)
    table = run.decode.gap_table()
    stay = np.nansum(np.asarray(run.ledger.finished_s) - np.asarray(run.ledger.prefilled_s))
    assert table[:, 1] @ table[:, 2] == pytest.approx(stay, rel=1e-6)


def test_one_request_alone() -> None:
    """600 tokens in chunks of 512 and 88, then 3 decode steps at contexts 600, 601 and 602."""
    requests = Requests(np.array([1.0]), np.array([600]), np.array([4]), 0, 1)
    ledger = open_ledger(requests, LAW.attention_s, lambda x: x, 0.0)
    plan = PoolPlan(LAW, 1, 1, Schedule("chunked", 512, 8, np.inf))
    Fleet(requests, ledger, plan, None, None, "random", np.random.default_rng(0)).run()
    prefill = 2 * 0.01 + 600 * 4e-5
    assert ledger.prefilled_s[0] - ledger.start_s[0] == pytest.approx(prefill)
    decode = 3 * (0.01 + 1e-4) + 1e-8 * (600 + 601 + 602)
    assert ledger.finished_s[0] - ledger.prefilled_s[0] == pytest.approx(decode)


def test_ranks_step_together() -> None:
    """A prompt on one rank holds up the decodes of the other."""
    requests = Requests(np.array([0.0, 0.5]), np.array([1, 10_000]), np.array([200, 1]), 0, 2)
    ledger = open_ledger(requests, LAW.attention_s, lambda x: x, 0.0)
    plan = PoolPlan(LAW, 1, 2, Schedule("prefill-first", 10**6, 8, np.inf))
    run = Fleet(requests, ledger, plan, None, None, "join-shortest-queue", np.random.default_rng(0)).run()
    assert run.decode.gap_table()[:, 1].max() > 10_000 * 4e-5


@pytest.mark.parametrize("disaggregated", [False, True])
def test_the_same_seed_gives_the_same_run(disaggregated: bool) -> None:
    one, same, other = (fleet_run("prefill-first", seed, disaggregated=disaggregated) for seed in (4, 4, 5))
    assert one.decode.gaps.tobytes() == same.decode.gaps.tobytes()
    assert one.ledger.finished_s == same.ledger.finished_s
    assert one.decode.gaps.tobytes() != other.decode.gaps.tobytes()


def test_links_carry_one_cache_at_a_time() -> None:
    run = fleet_run("prefill-first", replicas=1, disaggregated=True)
    ready, sizes = np.asarray(run.ledger.ready_s), run.requests.input_tokens
    moved = np.isfinite(ready)
    order = np.argsort(ready[moved])
    assert (np.diff(ready[moved][order]) >= sizes[moved][order][1:] / 1e6 - 1e-9).all()
