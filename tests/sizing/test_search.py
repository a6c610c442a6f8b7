"""What is proposed can be started, and the cheapest of what can be started is proposed."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, product

import pytest
import small_scenarios as small

from planner import sizing
from planner.engines.rules import why_not
from planner.records import Deployment, Plan, Pool, Scenario, Target
from planner.serving.outcome import Outcome
from planner.serving.predict import evaluate_at
from planner.serving.traffic import Traffic, traffic
from planner.sizing.candidates import MAX_UTILIZATION, pool_sizes

QUESTIONS = {
    "vllm": small.scenario((small.boxes_of(2),), requests_per_s=60.0),
    "sglang": small.scenario((small.boxes_of(4),), engine_id="sglang", requests_per_s=100.0),
    "tensorrt-llm": small.scenario((small.boxes_of(2),), engine_id="tensorrt-llm", requests_per_s=60.0),
    "experts": small.scenario(
        (small.boxes_of(4, "h200-sxm"),),
        "openai/gpt-oss-20b",
        weights="mxfp4",
        requests_per_s=100.0,
        targets=(Target("ttft", "p99", 1.0), Target("tpot", "mean", 0.02)),
    ),
}


@pytest.fixture(scope="module", params=sorted(QUESTIONS))
def plan(request: pytest.FixtureRequest) -> Plan:
    return sizing.size(QUESTIONS[request.param])


def test_every_deployment_shown_can_be_started(plan: Plan) -> None:
    question = plan.scenario
    assert plan.verdict == "feasible" and plan.deployment is not None
    for deployment in (plan.deployment, *(other.deployment for other in plan.alternatives)):
        reason = why_not(
            question.engine, deployment.mode, deployment.prefill, deployment.decode, question.model, question.weights
        )
        assert reason == "", deployment
        for pool in deployment.pools:
            assert pool.tp <= question.accelerator(pool.accelerator).scaleup_domain
            assert pool.max_batch <= question.engine.max_batch * pool.dp
            assert pool.replicas >= 1


def test_many_candidates_are_judged_and_other_modes_are_shown(plan: Plan) -> None:
    assert plan.candidates > 1000
    modes = [other.deployment.mode for other in plan.alternatives]
    assert plan.deployment is not None
    assert set(modes) | {plan.deployment.mode} == {
        "disaggregated",
        "colocated-chunked",
        "colocated-whole-prompt",
    }


def _holds(question: Scenario, load: Traffic, deployment: Deployment) -> bool:
    outcome: Outcome = evaluate_at(question, deployment, load)
    busiest = max(state.utilization for state in (outcome.prefill, outcome.decode) if state is not None)
    late = any(outcome.statistic(t.metric, t.statistic) > t.limit_s for t in question.targets)
    return busiest <= MAX_UTILIZATION and not late


def test_no_deployment_of_a_full_enumeration_is_cheaper() -> None:
    """Every pair of pools up to the size of the answer, tp 1 and 2, with three batch caps; and one pool for both."""
    question = QUESTIONS["vllm"]
    plan, load = sizing.size(question), traffic(question.workload)
    assert plan.deployment is not None
    answer = plan.deployment.accelerators
    name = question.prefill_accelerators[0].id
    cheaper: list[Deployment] = []
    for tp_in, tp_out in product((1, 2), repeat=2):
        for m, k in product(range(1, answer), repeat=2):
            if m * tp_in + k * tp_out < answer:
                for cap in (64, 128, 256):
                    decode = Pool(name, k, tp=tp_out, max_batch=cap)
                    cheaper.append(Deployment("disaggregated", decode=decode, prefill=Pool(name, m, tp=tp_in)))
    cheaper += [
        Deployment("colocated-chunked", decode=Pool(name, n, tp=tp, token_budget=budget))
        for tp, budget in product((1, 2), (256, 512, 1024, 2048))
        for n in range(1, (answer - 1) // tp + 1)
    ]
    assert cheaper
    assert [each for each in cheaper if _holds(question, load, each)] == []


def test_pool_sizes_start_with_headroom_and_leave_no_gap_at_first() -> None:
    """A load of 3.9 busy workers needs ceil(3.9 / 0.8) = 5."""
    sizes = pool_sizes(3.9)
    assert sizes[0] == 5.0
    assert list(sizes[:20]) == [float(n) for n in range(5, 25)]
    assert all(b > a for a, b in pairwise(sizes))
    assert sizes[-1] >= 100.0


def test_a_deployment_in_the_file_does_not_steer_the_search() -> None:
    question = QUESTIONS["vllm"]
    given = sizing.size(replace(question, deployment=small.TOGETHER))
    assert given.deployment == sizing.size(question).deployment


def test_a_card_without_a_nic_is_sized_in_one_pool_and_says_so() -> None:
    question = replace(
        small.scenario(("rtx-4090", small.boxes_of(1)), weights="fp8", requests_per_s=4.0), network_bytes_per_s=None
    )
    plan = sizing.size(question)
    split = [item.deployment for item in plan.alternatives if item.deployment.prefill is not None]
    assert plan.deployment is not None and plan.deployment.prefill is None
    assert all(pool.accelerator == "h100-sxm" for deployment in split for pool in deployment.pools)
    assert any("rtx-4090 names no NIC: separate pools were not tried there" in note.text for note in plan.notes)
    wired = sizing.size(replace(question, network_bytes_per_s=12.5e9))
    assert not any("names no NIC" in note.text for note in wired.notes)
