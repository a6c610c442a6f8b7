"""The table of failures: by hand, and confirmed by a simulation in which a worker is lost."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import small_scenarios as small

from planner import sizing
from planner.files.quoted import read_reliability
from planner.files.scenario import load_scenario
from planner.records import Deployment, Pool, Scenario
from planner.serving.predict import evaluate_at
from planner.serving.traffic import traffic
from planner.simulation.simulate import Setting, simulate
from planner.sizing.changes import with_network
from planner.sizing.failures import Failure, failures
from planner.sizing.resilience import without

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
RELIABILITY = read_reliability()
FLEET = Deployment("disaggregated", decode=Pool("h100-sxm", 4, tp=1), prefill=Pool("h100-sxm", 4, tp=1))
SHARED = Deployment("colocated-chunked", decode=Pool("h100-sxm", 5, tp=1, token_budget=2048))


def question(requests_per_s: float = 40.0) -> Scenario:
    return replace(small.scenario(requests_per_s=requests_per_s), reliability=RELIABILITY)


def events(deployment: Deployment = FLEET, requests_per_s: float = 40.0) -> dict[tuple[str, str], Failure]:
    found = failures(question(requests_per_s), deployment, "rent3y")
    return {(event.name, event.route): event for event in found}


def test_a_lost_decode_worker_by_hand() -> None:
    """Its batch is prefilled again by four prefill workers, of which as much is idle as they are not busy."""
    event = events()["decode worker", "recompute"]
    outcome = evaluate_at(question(), FLEET, traffic(question().workload))
    assert outcome.prefill is not None
    assert event.lost_requests == pytest.approx(outcome.decode.mean_batch)
    assert event.ttft_added_s == pytest.approx(event.work_s / 4.0)
    assert event.drain_s == pytest.approx(event.work_s / (4.0 * (1.0 - outcome.prefill.utilization)))
    after = evaluate_at(question(), without(FLEET, {"decode": 1}), traffic(question().workload))
    assert event.outcome is not None and event.outcome.itl_s == after.itl_s


def test_a_copy_spares_the_prefill_pool() -> None:
    found = events()
    again = found["decode worker", "recompute"]
    for route in ("copy in host DRAM", "copy on local SSD", "copy in a pool"):
        copy = found["decode worker", route]
        assert copy.work_s == 0.0 == copy.ttft_added_s
        assert copy.write_fraction is not None and 0.0 < copy.write_fraction < 0.2
        assert copy.outcome is again.outcome
    assert found["decode worker", "copy in host DRAM"].stall_s < again.stall_s
    assert found["decode worker", "copy on local SSD"].drain_s > found["decode worker", "copy in host DRAM"].drain_s


def test_a_lost_prefill_worker_loses_the_prompt_in_service() -> None:
    event = events()["prefill worker", "recompute"]
    outcome = evaluate_at(question(), FLEET, traffic(question().workload))
    assert outcome.prefill is not None
    assert event.lost_requests == pytest.approx(outcome.prefill.utilization)
    assert event.ttft_added_s == pytest.approx(event.work_s / 3.0)  # three are left


def test_one_network_card_of_one_is_the_worker() -> None:
    found = events()
    assert found["network card of a prefill worker", "recompute"].lost_workers == 1
    wide = Deployment("disaggregated", decode=Pool("h100-sxm", 4, tp=2), prefill=Pool("h100-sxm", 4, tp=2))
    card = events(wide)["network card of a decode worker", "no loss"]
    assert card.lost_workers == 0 and card.outcome is not None


def test_a_node_takes_its_workers() -> None:
    event = events()["node of 4 decode workers", "recompute"]
    assert event.outcome is None and event.why == "no worker is left" and not event.holds
    # 4 workers of one accelerator at 1.30 USD/h
    assert event.spare_usd_per_hour == pytest.approx(4 * small.accelerator("h100-sxm").usd_per_hour["rent3y"])


def test_what_is_not_missed_costs_no_spare() -> None:
    for event in events(requests_per_s=5.0).values():
        if event.holds:
            assert event.spare_usd_per_hour == 0.0


def test_a_shared_pool_prefills_what_it_lost() -> None:
    found = events(SHARED, 20.0)
    event = found["colocated worker", "recompute"]
    assert event.lost_requests > 0.0 and event.ttft_added_s == pytest.approx(event.work_s / 4.0)
    assert ("prefill worker", "recompute") not in found


def test_a_cache_node_matters_where_prompts_are_found_in_one() -> None:
    cached = question()
    cached = replace(cached, workload=replace(cached.workload, prefix_hit_fraction=0.5))
    event = next(e for e in failures(cached, FLEET, "rent3y") if e.name == "cache node")
    outcome = evaluate_at(cached, FLEET, traffic(cached.workload))
    assert event.outcome is not None and event.outcome.ttft_s["p99"] > outcome.ttft_s["p99"]
    assert all(name != "cache node" for name, _ in events())


# ------------------------------------------------------------------------------------------------------- the witness


def simulated(
    deployment: Deployment, pool: str, requests_per_s: float, workers: int = 1, seeds: int = 8, requests: int = 6000
) -> list[dict[str, float]]:
    found = []
    for seed in range(seeds):
        setting = Setting(requests=requests, seed=seed, fail=pool, fail_workers=workers)
        failure = simulate(question(requests_per_s), deployment, setting).failure
        assert failure is not None
        found.append(
            {
                "lost": float(failure.lost_requests),
                "mean_s": failure.restored_mean_s,
                "last_s": failure.restored_last_s,
                "itl_s": failure.itl_after_s["p99"].value,
                "ttft_s": failure.ttft_after_s["p99"].value,
                "most_s": failure.ttft_most_s,
                "before_s": failure.ttft_before_s["p99"].value,
            }
        )
    return found


def mean(found: list[dict[str, float]], name: str) -> float:
    return float(np.nanmean([one[name] for one in found]))


@pytest.mark.slow
@pytest.mark.parametrize("requests_per_s", [30.0, 45.0])
def test_a_decode_worker_lost_in_simulation(requests_per_s: float) -> None:
    event = events(FLEET, requests_per_s)["decode worker", "recompute"]
    found = simulated(FLEET, "decode", requests_per_s)
    assert event.outcome is not None
    assert mean(found, "lost") == pytest.approx(event.lost_requests, rel=0.15)
    # the work of those lost, shared by the pool, bounds when the last decodes again: from below when nothing else
    # comes, from above when the queue is as before
    assert 0.6 * event.ttft_added_s < mean(found, "last_s") < 1.5 * event.drain_s + 0.3
    assert mean(found, "mean_s") == pytest.approx(event.stall_s - RELIABILITY.detect_s.value, rel=0.5)
    assert mean(found, "itl_s") == pytest.approx(event.outcome.itl_s["p99"], rel=0.15)
    assert mean(found, "ttft_s") == pytest.approx(event.outcome.ttft_s["p99"], rel=0.25)


@pytest.mark.slow
def test_a_prefill_worker_lost_in_simulation() -> None:
    event = events(FLEET, 45.0)["prefill worker", "recompute"]
    found = simulated(FLEET, "prefill", 45.0)
    assert event.outcome is not None
    # those in service, and the few that waited behind them
    short = simulated(FLEET, "prefill", 45.0, seeds=60, requests=1000)
    assert 0.7 * event.lost_requests < mean(short, "lost") < 2.0 * event.lost_requests
    assert mean(found, "ttft_s") == pytest.approx(event.outcome.ttft_s["p99"], rel=0.3)
    assert mean(found, "itl_s") == pytest.approx(event.outcome.itl_s["p99"], rel=0.15)


@pytest.mark.slow
def test_a_node_lost_in_simulation() -> None:
    """Two of four decode workers at once."""
    event_fleet = without(FLEET, {"decode": 2})
    outcome = evaluate_at(question(30.0), event_fleet, traffic(question(30.0).workload))
    found = simulated(FLEET, "decode", 30.0, workers=2)
    one = events(FLEET, 30.0)["decode worker", "recompute"]
    assert mean(found, "lost") == pytest.approx(2.0 * one.lost_requests, rel=0.15)
    assert mean(found, "itl_s") == pytest.approx(outcome.itl_s["p99"], rel=0.15)


@pytest.mark.slow
def test_a_shared_worker_lost_in_simulation() -> None:
    event = events(SHARED, 20.0)["colocated worker", "recompute"]
    found = simulated(SHARED, "colocated", 20.0)
    assert event.outcome is not None
    assert mean(found, "lost") == pytest.approx(event.lost_requests, rel=0.25)
    assert mean(found, "itl_s") == pytest.approx(event.outcome.itl_s["p99"], rel=0.2)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["heterogeneous", "gpt-oss-120b", "qwen3-32b-fp8", "llama-3.1-70b-azure", "deepseek-r1-mooncake"]
)
def test_the_table_of_every_example_in_simulation(name: str) -> None:
    """Each row of a lost worker, three runs each: what is lost, until when it decodes again, and what follows."""
    plan = sizing.size(load_scenario(EXAMPLES / f"{name}.yaml"))
    assert plan.deployment is not None and plan.deployment.prefill is not None and plan.money is not None
    question = plan.scenario
    rows = {(e.name, e.route): e for e in failures(question, plan.deployment, plan.money.basis)}
    requests = 0 if question.workload.arrivals is not None else 8000
    for pool, workers in (("prefill", plan.deployment.prefill), ("decode", plan.deployment.decode)):
        if workers.replicas < 2:
            continue
        row = rows[f"{pool} worker", "recompute"]
        runs = [simulate(question, plan.deployment, Setting(requests, seed, fail=pool)).failure for seed in range(3)]
        found = [run for run in runs if run is not None]
        assert row.outcome is not None
        lost = float(np.mean([run.lost_requests for run in found]))
        last_s = float(np.nanmean([run.restored_last_s if run.lost_requests else 0.0 for run in found]))
        ttft_s = float(np.nanmean([run.ttft_after_s["p99"].value for run in found]))
        itl_s = float(np.nanmean([run.itl_after_s["p99"].value for run in found]))
        assert itl_s == pytest.approx(row.outcome.itl_s["p99"], rel=0.15)
        assert not lost or 0.7 * row.ttft_added_s < last_s < row.drain_s + 1.0
        if pool == "decode":
            assert lost == pytest.approx(row.lost_requests, rel=0.5)
        else:  # those that waited there count too
            assert lost < 4.0 * row.lost_requests
        if np.isfinite(row.outcome.ttft_s["p99"]):
            assert ttft_s == pytest.approx(row.outcome.ttft_s["p99"], rel=0.25)
        else:  # it never settles, and the run is as long as the trace
            assert ttft_s > 2.0 * float(np.nanmean([run.ttft_before_s["p99"].value for run in found]))


@pytest.mark.slow
def test_a_slower_network_in_simulation() -> None:
    """Half of the cards of every worker gone."""
    wide = Deployment("disaggregated", decode=Pool("h100-sxm", 3, tp=2), prefill=Pool("h100-sxm", 3, tp=2))
    row = events(wide)["network card of a decode worker", "no loss"]
    slower = with_network(question(), 0.5)
    found = simulate(slower, wide, Setting(requests=8000))
    assert row.outcome is not None
    assert found.ttft_s["p99"].value == pytest.approx(row.outcome.ttft_s["p99"], rel=0.2)


@pytest.mark.slow
def test_a_cold_cache_in_simulation() -> None:
    """One host of one holds every prefix: without it prompts are prefilled in whole."""
    cached = question(30.0)
    cached = replace(cached, workload=replace(cached.workload, prefix_hit_fraction=0.5))
    row = next(e for e in failures(cached, FLEET, "rent3y") if e.name == "cache node")
    found = simulate(question(30.0), FLEET, Setting(requests=8000))
    assert row.outcome is not None
    assert found.ttft_s["p99"].value == pytest.approx(row.outcome.ttft_s["p99"], rel=0.2)


def test_nobody_is_forgotten_in_a_failure() -> None:
    """Every request of a run with a failure is answered in full."""
    for pool, deployment in (("decode", FLEET), ("prefill", FLEET), ("colocated", SHARED)):
        found = simulate(question(20.0), deployment, Setting(requests=600, seed=3, fail=pool))
        assert found.failure is not None and found.failure.lost_requests >= 0
        calm = simulate(question(20.0), deployment, Setting(requests=600, seed=3))
        assert calm.failure is None
        assert found.requests == calm.requests == 600
        assert np.isfinite(found.e2e_s["mean"].value)
        assert found.e2e_s["mean"].value >= calm.e2e_s["mean"].value * 0.98


@pytest.mark.parametrize("router", ["round-robin", "random", "least-work", "fewest-prompts"])
def test_no_router_chooses_a_lost_worker(router: str) -> None:
    setting = Setting(requests=400, seed=1, router=router, fail="decode")  # type: ignore[arg-type]
    found = simulate(question(10.0), FLEET, setting)
    assert np.isfinite(found.e2e_s["p99"].value)
