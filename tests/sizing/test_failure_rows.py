"""Every row of the table of failures, lost again in the simulator by the words that the row itself gives."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
import small_scenarios as small

from planner.files.quoted import read_reliability
from planner.records import Deployment, Pool, Scenario
from planner.simulation.result import FailureSimulation
from planner.simulation.simulate import Setting, simulate
from planner.sizing.failures import Failure, failures

RELIABILITY = read_reliability()
SEEDS, REQUESTS = 3, 3000


@dataclass(frozen=True)
class Case:
    deployment: Deployment
    requests_per_s: float
    found_fraction: float = 0.0
    network_bytes_per_s: float = 50e9

    @property
    def question(self) -> Scenario:
        asked = small.scenario(("h100-sxm", "gb200"), requests_per_s=self.requests_per_s)
        workload = replace(asked.workload, prefix_hit_fraction=self.found_fraction)
        return replace(asked, reliability=RELIABILITY, workload=workload, network_bytes_per_s=self.network_bytes_per_s)

    def rows(self) -> tuple[Failure, ...]:
        return failures(self.question, self.deployment, "rent3y")

    def lost(self, row: Failure) -> list[FailureSimulation]:
        event, _, count = row.fail.partition(":")
        found = []
        for seed in range(SEEDS):
            setting = Setting(REQUESTS, seed, fail=event, fail_workers=int(count or 1), restore=row.restore)
            found.append(simulate(self.question, self.deployment, setting).failure)
        return [one for one in found if one is not None]


def disaggregated(name: str, prefill: int, decode: int, tp: int) -> Deployment:
    return Deployment("disaggregated", decode=Pool(name, decode, tp=tp), prefill=Pool(name, prefill, tp=tp))


CASES = {
    "cards of their own": Case(disaggregated("h100-sxm", 5, 5, 1), 20.0),
    "nodes of four workers, prompts half cached": Case(disaggregated("h100-sxm", 6, 6, 2), 16.0, 0.5, 16e9),
    "racks of eighteen workers": Case(disaggregated("gb200", 19, 19, 4), 10.0),
    "one pool": Case(Deployment("colocated-chunked", decode=Pool("h100-sxm", 10, tp=1, token_budget=2048)), 25.0, 0.25),
}
ROWS = [
    pytest.param(name, row, id=f"{name}: {row.name}, {row.route}")
    for name, case in CASES.items()
    for row in case.rows()
]


def mean(found: list[FailureSimulation], name: str) -> float:
    values = [float(getattr(one, name)) for one in found]
    return float(np.nanmean(values)) if np.isfinite(values).any() else 0.0


def after(found: list[FailureSimulation], metric: str) -> float:
    return float(np.nanmean([getattr(one, f"{metric}_after_s")["p99"].value for one in found]))


def test_every_kind_of_row_is_there() -> None:
    names = {row.values[1].name.split(" of ")[0].split(" worker")[0] for row in ROWS}  # type: ignore[attr-defined]
    assert {"decode", "prefill", "colocated", "network card", "cache node", "node", "rack"} <= names
    assert {"recompute", "migrate", "no loss", "copy in host DRAM", "copy on local SSD", "copy in a pool"} == {
        row.values[1].route
        for row in ROWS  # type: ignore[attr-defined]
    }


@pytest.mark.slow
@pytest.mark.parametrize(("name", "row"), ROWS)
def test_a_row_in_simulation(name: str, row: Failure) -> None:
    """What is lost within 35 %, the stall and the queue within a factor of two, latencies after within 25 %."""
    if not row.fail:
        assert row.outcome is None and row.why == "no worker is left"
        return
    assert row.outcome is not None
    found = CASES[name].lost(row)
    lost = mean(found, "lost_requests")
    assert lost == pytest.approx(row.lost_requests, rel=0.35, abs=2.0)
    if row.lost_requests > 2.0:
        last_s = mean(found, "restored_last_s")
        assert 0.5 * row.ttft_added_s < last_s < 2.0 * row.drain_s + 0.3
        stood_s = row.stall_s - (RELIABILITY.detect_s.value if row.route != "migrate" else 0.0)
        assert 0.5 * stood_s < mean(found, "restored_mean_s") < 2.0 * stood_s + 0.1
    assert after(found, "ttft") == pytest.approx(row.outcome.ttft_s["p99"], rel=0.25)
    assert after(found, "itl") == pytest.approx(row.outcome.itl_s["p99"], rel=0.2)


@pytest.mark.slow
@pytest.mark.parametrize("side", ["prefill", "decode"])
def test_a_lost_card_is_felt_by_every_cache_that_crosses_it(side: str) -> None:
    """A network slow enough that the transfer shows, a load at which caches do not wait for each other."""
    pools = {"prefill": 1, "decode": 1}
    case = Case(disaggregated("h100-sxm", pools["prefill"], pools["decode"], 2), 0.5, network_bytes_per_s=1e9)
    row = next(row for row in case.rows() if row.fail == f"{side}-network")
    found = case.lost(row)
    before = float(np.mean([one.ttft_before_s["mean"].value for one in found]))
    now = float(np.mean([one.ttft_after_s["mean"].value for one in found]))
    assert row.outcome is not None
    assert now > 1.3 * before
    assert now == pytest.approx(row.outcome.ttft_s["mean"], rel=0.1)
