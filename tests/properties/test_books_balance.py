"""Pools balance, counts add up, intervals hold their point, the same question gives the same bytes (HOUSE §5)."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from math import inf

import numpy as np
import pytest
import small_scenarios as small
from hypothesis import given, settings
from hypothesis import strategies as st

from planner import sizing
from planner.records import STATISTICS, Deployment, Lengths, Plan, Pool, Prediction, Scenario, Workload
from planner.render.json import to_json
from planner.review.document import document
from planner.serving.predict import evaluate_at, predict
from planner.serving.role import build_role
from planner.serving.traffic import traffic
from planner.sizing.candidates import MAX_UTILIZATION

some = settings(max_examples=15, deadline=None, derandomize=True)
lengths = st.builds(
    lambda prompt, answer, spread: Lengths(
        np.array([prompt, prompt * spread]), np.array([answer * spread, answer]), np.array([0.7, 0.3])
    ),
    st.floats(50.0, 8000.0),
    st.floats(20.0, 800.0),
    st.floats(1.1, 4.0),
)


def under(question: Scenario, load: Lengths, requests_per_s: float) -> Scenario:
    return replace(question, workload=Workload(requests_per_s, load))


@some
@given(load=lengths, share=st.floats(0.05, 0.9), tp=st.sampled_from([1, 2, 4]), replicas=st.integers(1, 6))
def test_a_decode_pool_obeys_littles_law(load: Lengths, share: float, tp: int, replicas: int) -> None:
    """Requests in service = rate x steps x gap: mean batch = rate / replicas x E[O - 1] x mean ITL, within 2 %."""
    given_pools = Deployment(
        "disaggregated", decode=Pool("h100-sxm", replicas, tp=tp, max_batch=200), prefill=Pool("h100-sxm", 200, tp=1)
    )
    most = predict(under(small.scenario(), load, 1.0), given_pools, with_intervals=False).requests_per_s_max
    question = under(small.scenario(), load, share * most)
    prediction = predict(question, given_pools, with_intervals=False)
    steps = float(load.weights @ (load.output_tokens - 1.0))
    in_service = share * most * steps * prediction.itl_s["mean"]
    waiting = share * most * prediction.ttft_parts_s["admission_s"]
    assert prediction.decode.mean_batch * replicas == pytest.approx(in_service, rel=0.02)
    assert waiting >= 0.0
    assert prediction.output_tokens_per_s == pytest.approx(share * most * float(load.weights @ load.output_tokens))


@some
@given(load=lengths, share=st.floats(0.05, 0.95), replicas=st.integers(1, 6))
def test_busy_prefill_servers_are_rate_times_service(load: Lengths, share: float, replicas: int) -> None:
    given_pools = Deployment(
        "disaggregated", decode=Pool("h100-sxm", 64, tp=1), prefill=Pool("h100-sxm", replicas, tp=2)
    )
    first = under(small.scenario(), load, 1.0)
    assert given_pools.prefill is not None
    role = build_role(first, traffic(first.workload), "prefill", given_pools.prefill, first.prefill_accelerators[0])
    mean_s = float(role.traffic.input_weights @ role.service_s)
    rate = share * replicas / mean_s
    outcome = evaluate_at(under(first, load, rate), given_pools, traffic(Workload(rate, load)))
    assert outcome.prefill is not None
    assert outcome.prefill.utilization * replicas == pytest.approx(rate * mean_s, rel=1e-9)


@some
@given(load=lengths, share=st.floats(0.05, 0.6), mode=st.sampled_from([small.TOGETHER, small.WHOLE]))
def test_a_shared_pool_obeys_littles_law(load: Lengths, share: float, mode: Deployment) -> None:
    most = predict(under(small.scenario(), load, 1.0), mode, with_intervals=False).requests_per_s_max
    prediction = predict(under(small.scenario(), load, share * most), mode, with_intervals=False)
    in_service = share * most * float(load.weights @ (load.output_tokens - 1.0)) * prediction.itl_s["mean"]
    assert prediction.decode.mean_batch * mode.decode.replicas == pytest.approx(in_service, rel=0.02)


@some
@given(load=lengths, share=st.floats(0.05, 1.3), which=st.sampled_from([small.SPLIT, small.TOGETHER, small.WHOLE]))
def test_an_interval_holds_its_point_and_statistics_are_in_order(
    load: Lengths, share: float, which: Deployment
) -> None:
    most = predict(under(small.scenario(), load, 1.0), which, with_intervals=False).requests_per_s_max
    prediction = predict(under(small.scenario(), load, share * most), which)
    for metric in ("ttft_s", "itl_s", "tpot_s", "e2e_s"):
        values = getattr(prediction, metric)
        for statistic in STATISTICS:
            low, high = prediction.intervals[metric][statistic]
            assert low <= values[statistic] <= (inf if high is None else high)
            assert high is not None or share > 0.5
        ordered = [values[name] for name in ("p50", "p90", "p95", "p99", "p99_9")]
        assert all(a <= b * (1.0 + 1e-9) for a, b in pairwise(ordered)), (metric, ordered)
    assert 0.0 < prediction.coverage < 1.0
    if np.isfinite(prediction.ttft_s["mean"]):
        assert sum(prediction.ttft_parts_s.values()) == pytest.approx(prediction.ttft_s["mean"], rel=1e-6)
    if which is not small.SPLIT and np.isfinite(prediction.itl_s["mean"]):
        # the law of a shared engine is linear about its batch, the parts are those of the roofline itself
        assert sum(prediction.step_parts_s.values()) == pytest.approx(prediction.itl_s["mean"], rel=5e-3)


@some
@given(sizes=st.lists(st.tuples(st.integers(1, 90), *[st.sampled_from([1, 2, 4, 8])] * 3), min_size=1, max_size=2))
def test_accelerators_are_counted_by_one_function(sizes: list[tuple[int, int, int, int]]) -> None:
    pools = [Pool("h100-sxm", n, tp=tp, pp=pp, dp=dp) for n, tp, pp, dp in sizes]
    deployment = Deployment("disaggregated", *pools)
    assert deployment.accelerators == sum(n * tp * pp * dp for n, tp, pp, dp in sizes)


# ------------------------------------------------------------------------------------------------------ sized plans


def small_plans() -> list[Scenario]:
    box = small.boxes_of(2)
    return [
        small.scenario((box,), requests_per_s=60.0),
        small.scenario((box,), requests_per_s=250.0, engine_id="sglang"),
        small.scenario((box,), requests_per_s=90.0, lengths=small.fixed_lengths(6000.0, 60.0)),
        small.scenario(
            (box,), requests_per_s=40.0, lengths=small.fixed_lengths(200.0, 900.0), engine_id="tensorrt-llm"
        ),
    ]


@pytest.fixture(scope="module", params=range(4))
def sized(request: pytest.FixtureRequest) -> Plan:
    return sizing.size(small_plans()[request.param])


def chosen(plan: Plan) -> tuple[Deployment, Prediction]:
    assert plan.deployment is not None and plan.prediction is not None
    return plan.deployment, plan.prediction


def test_a_sized_plan_evaluated_again_says_the_same(sized: Plan) -> None:
    deployment, prediction = chosen(sized)
    again = sizing.evaluate(replace(sized.scenario, deployment=deployment))
    assert again.prediction == prediction
    assert again.money == sized.money
    assert again.limits == sized.limits
    assert again.verdict == sized.verdict == "feasible"


def test_a_sized_plan_keeps_its_headroom(sized: Plan) -> None:
    _, prediction = chosen(sized)
    states = [state for state in (prediction.prefill, prediction.decode) if state is not None]
    assert max(state.utilization for state in states) <= MAX_UTILIZATION


def test_no_worker_of_a_sized_plan_is_spare(sized: Plan) -> None:
    """One replica fewer in either pool breaks a target or the headroom."""
    deployment, _ = chosen(sized)
    load = traffic(sized.scenario.workload)
    for name in ("prefill", "decode"):
        pool = getattr(deployment, name)
        if pool is None or pool.replicas == 1:
            continue
        fewer = replace(deployment, **{name: replace(pool, replicas=pool.replicas - 1)})
        outcome = evaluate_at(sized.scenario, fewer, load)
        states = [state for state in (outcome.prefill, outcome.decode) if state is not None]
        late = [t for t in sized.scenario.targets if outcome.statistic(t.metric, t.statistic) > t.limit_s]
        assert late or max(state.utilization for state in states) > MAX_UTILIZATION, fewer


def test_the_same_question_gives_the_same_bytes(sized: Plan) -> None:
    again = sizing.size(sized.scenario)
    assert to_json(document(again)) == to_json(document(sized))


def test_no_alternative_that_holds_is_cheaper(sized: Plan) -> None:
    assert sized.money is not None and sized.money.usd_per_hour is not None
    for other in sized.alternatives:
        assert other.why_it_lost
        if other.feasible:
            assert other.usd_per_hour is not None and other.usd_per_hour >= sized.money.usd_per_hour * (1.0 - 1e-9)
            for target in sized.scenario.targets:
                assert getattr(other.prediction, f"{target.metric}_s")[target.statistic] <= target.limit_s


def test_pools_use_their_own_accelerators() -> None:
    """Candidates for prefill only and for decode only are never swapped; one pool for both may take either."""
    box, other = small.boxes_of(2), small.boxes_of(2, "h200-sxm")
    question = replace(small.scenario((box,), requests_per_s=150.0), decode_accelerators=(other,))
    plan = sizing.size(question)
    every = [chosen(plan)[0], *(item.deployment for item in plan.alternatives)]
    split = [item for item in every if item.prefill is not None]
    assert split
    for deployment in split:
        assert deployment.prefill is not None and deployment.prefill.accelerator == box.id
        assert deployment.decode.accelerator == other.id
    # and a step of the decode pool is that of its own accelerator
    load = traffic(question.workload)
    prediction = predict(question, split[0], load)
    role = build_role(question, load, "decode", split[0].decode, other)
    step = role.decode(np.array([prediction.decode.mean_batch])).total_s[0]
    assert sum(prediction.step_parts_s.values()) == pytest.approx(float(step), rel=1e-9)
