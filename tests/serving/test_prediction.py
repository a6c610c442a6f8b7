"""One deployment under load: what saturates, what is refused, what is remarked."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import small_scenarios as small

from planner.errors import FieldError, PhysicsError
from planner.records import Deployment, Pool, Prediction
from planner.serving.guards import check_outcome
from planner.serving.predict import evaluate_at, predict
from planner.serving.role import build_role
from planner.serving.statistics import LEVELS, averaged_over_stay_s, combined, statistics, waiting_atoms
from planner.serving.traffic import traffic

DEPLOYMENTS = [small.SPLIT, small.TOGETHER, small.WHOLE]


def at_share(deployment: Deployment, share: float) -> Prediction:
    question = small.scenario()
    most = predict(question, deployment, with_intervals=False).requests_per_s_max
    busy = replace(question, workload=replace(question.workload, requests_per_s=share * most))
    return predict(busy, deployment)


@pytest.mark.parametrize("deployment", DEPLOYMENTS, ids=lambda item: item.mode)
def test_past_the_highest_rate_nothing_is_bounded_and_the_output_stays(deployment: Deployment) -> None:
    over, near = at_share(deployment, 1.2), at_share(deployment, 0.8)
    assert over.ttft_s["p99"] == np.inf
    assert np.isfinite(near.ttft_s["p99"]) and np.isfinite(near.itl_s["p99"])
    mean_output = small.CHAT.weights @ small.CHAT.output_tokens
    assert over.output_tokens_per_s == pytest.approx(over.requests_per_s_max * mean_output)
    assert any(note.level in ("caution", "warning") for note in over.notes)


def test_the_highest_rate_of_two_pools_by_hand() -> None:
    """The slower of: prefill workers over service; full batches over steps."""
    question = small.scenario()
    load, item = traffic(question.workload), question.prefill_accelerators[0]
    assert small.SPLIT.prefill is not None
    prefill = build_role(question, load, "prefill", small.SPLIT.prefill, item)
    decode = build_role(question, load, "decode", small.SPLIT.decode, item)
    prompts = 3.0 / float(load.input_weights @ prefill.service_s)
    batch = decode.memory_batch
    answers = 2.0 * batch / (load.mean_steps * float(decode.decode_curve_s(batch)[-1]))
    most = predict(question, small.SPLIT, with_intervals=False).requests_per_s_max
    assert most == pytest.approx(min(prompts, answers))


def test_an_idle_deployment_takes_only_its_own_time() -> None:
    """No wait, batches of one: TTFT = kT S + transfer + f0 + fr t(1) + fN b."""
    question = small.scenario(requests_per_s=1e-4, lengths=small.fixed_lengths(2000.0, 200.0))
    prediction = predict(question, small.SPLIT)
    load, item = traffic(question.workload), question.prefill_accelerators[0]
    assert small.SPLIT.prefill is not None
    prefill = build_role(question, load, "prefill", small.SPLIT.prefill, item)
    decode = build_role(question, load, "decode", small.SPLIT.decode, item)
    constants = decode.constants
    step = float(decode.decode_curve_s(1)[0])
    own = constants.own_prefill_factor * float(prefill.service_s[0])
    expected = own + prediction.ttft_parts_s["transfer_s"] + constants.ttft_fixed_s + constants.ttft_steps * step
    assert prediction.ttft_s["mean"] == pytest.approx(expected, rel=1e-3)
    assert prediction.ttft_s["p99"] == pytest.approx(expected, rel=1e-3)
    assert prediction.itl_s["mean"] == pytest.approx(step, rel=1e-3)
    assert prediction.e2e_s["mean"] == pytest.approx(expected + 199.0 * step, rel=1e-3)


def test_an_accelerator_that_is_no_candidate_is_a_fault() -> None:
    stranger = Deployment("colocated-chunked", decode=Pool("b200", 1))
    with pytest.raises(FieldError, match="b200"):
        predict(small.scenario(), stranger)


def test_weights_that_fit_beside_no_request_are_a_fault() -> None:
    """8e9 parameters in bf16 are 16.1 GB of 80; requests of 3 million tokens hold 390 GB."""
    endless = small.scenario(lengths=small.fixed_lengths(3e6, 10.0))
    with pytest.raises(FieldError):
        predict(endless, small.TOGETHER)


def test_a_result_past_physics_is_refused() -> None:
    question = small.scenario()
    load, item = traffic(question.workload), question.prefill_accelerators[0]
    assert small.SPLIT.prefill is not None
    prefill = build_role(question, load, "prefill", small.SPLIT.prefill, item)
    decode = build_role(question, load, "decode", small.SPLIT.decode, item)
    outcome = evaluate_at(question, small.SPLIT, load)
    check_outcome(outcome, prefill, decode)
    # 8e9 parameters x 2 bytes over two times 3.35 TB/s: no step under 2.4 ms
    with pytest.raises(PhysicsError, match="step time"):
        check_outcome(replace(outcome, itl_s={**outcome.itl_s, "mean": 2.0e-3}), prefill, decode)
    with pytest.raises(PhysicsError, match="first token"):
        check_outcome(replace(outcome, ttft_s={**outcome.ttft_s, "mean": 1e-3}), prefill, decode)
    assert outcome.transfer is not None
    with pytest.raises(PhysicsError, match="link"):
        check_outcome(replace(outcome, transfer=replace(outcome.transfer, utilization=1.1)), prefill, decode)


# --------------------------------------------------------------------------------------------------- small formulas


def test_statistics_come_by_name() -> None:
    assert statistics(1.0, 10.0 * LEVELS) == {
        "mean": 1.0,
        "p50": 5.0,
        "p90": 9.0,
        "p95": 9.5,
        "p99": pytest.approx(9.9),
        "p99_9": pytest.approx(9.99),
    }


def test_a_gap_averaged_over_a_stay_varies_less() -> None:
    """sqrt(2/e) = 0.858 of the deviation is left: 20 + 0.858 x 5 ms."""
    assert float(averaged_over_stay_s(0.020, 0.025)) == pytest.approx(0.020 + 0.005 * np.sqrt(2.0 / np.e))


def test_waiting_atoms_are_an_exponential_with_a_mass_at_zero() -> None:
    values, weights = waiting_atoms(0.25, 0.5)
    assert weights.sum() == pytest.approx(1.0) and values[0] == 0.0 and weights[0] == 0.75
    assert values @ weights == pytest.approx(0.5)
    assert waiting_atoms(0.0, 0.5)[0].tolist() == [0.0]


def test_combined_atoms_are_those_of_the_sum() -> None:
    values, weights = combined(np.array([1.0, 2.0]), np.array([0.5, 0.5]), np.array([0.0, 10.0]), np.array([0.9, 0.1]))
    assert dict(zip(values.tolist(), weights.tolist(), strict=True)) == pytest.approx(
        {1.0: 0.45, 11.0: 0.05, 2.0: 0.45, 12.0: 0.05}
    )


def test_no_request_ends_before_its_first_token() -> None:
    """Quantiles of end-to-end times stand on other lengths than those of first tokens: the order is kept."""
    question = small.scenario()
    told = evaluate_at(question, small.TOGETHER, traffic(question.workload))
    rushed = replace(told, read_e2e=lambda: {**told.e2e_s, "p90": 0.5 * told.ttft_s["p90"]})
    assert rushed.e2e_s == {**told.e2e_s, "p90": told.ttft_s["p90"]}
    assert all(told.e2e_s[name] > told.ttft_s[name] for name in told.ttft_s)
