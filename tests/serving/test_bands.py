"""What the formulas may be off by, beside the errors of step times: on every statistic, with a mark."""

from __future__ import annotations

import math

import numpy as np
import pytest
import small_scenarios as small

from planner.queueing import central_queue
from planner.queueing.service import ServiceLaw
from planner.records import STATISTICS, Deployment
from planner.serving.bands import GAP_ERRORS, MEAN_WAIT_ERROR, OWN_ERRORS, formula_bands
from planner.serving.predict import predict

DEPLOYMENTS = [small.SPLIT, small.TOGETHER, small.WHOLE]
LATENCIES = ("ttft_s", "itl_s", "tpot_s", "e2e_s")


@pytest.mark.parametrize("deployment", DEPLOYMENTS, ids=lambda item: item.mode)
def test_every_statistic_has_a_band_around_it_and_a_mark(deployment: Deployment) -> None:
    prediction = predict(small.scenario(requests_per_s=10.0), deployment, with_intervals=False)
    assert set(prediction.formula_bands) == set(LATENCIES)
    for metric, bands in prediction.formula_bands.items():
        assert tuple(bands) == STATISTICS
        for name, band in bands.items():
            value = getattr(prediction, metric)[name]
            assert 0.0 <= band.low_s <= value * (1.0 + 1e-9)
            assert band.high_s is None or band.high_s >= value * (1.0 - 1e-9)
            assert band.trust in ("ok", "caution", "no closed form")
            assert (band.trust == "ok") == (not band.reason)


def test_first_tokens_move_as_far_as_the_wait_may_and_gaps_by_their_share() -> None:
    wait = central_queue(2, 1.4, ServiceLaw.gamma(1.0, 3.0))
    values = dict.fromkeys(STATISTICS, 5.0)
    found = formula_bands("colocated-chunked", dict.fromkeys(LATENCIES, values), wait, ("ok", ""))
    low, high = (float(bound) for bound in wait.band(0.99))
    at = float(wait.quantile_s(0.99))
    band = found["ttft_s"]["p99"]
    own_mean, own_quantile = OWN_ERRORS["colocated-chunked"]
    rest = own_quantile * (5.0 - min(at, float(wait.mean_s)))
    reached = (pytest.approx(max(5.0 - (at - low) - rest, 0.0)), pytest.approx(5.0 + high - at + rest))
    assert (band.low_s, band.high_s) == reached
    mean = found["ttft_s"]["mean"]
    assert mean.high_s == pytest.approx(
        5.0 + MEAN_WAIT_ERROR * float(wait.mean_s) + own_mean * (5.0 - float(wait.mean_s))
    )
    gap_mean, gap_quantile = GAP_ERRORS["colocated-chunked"]
    assert found["itl_s"]["mean"].high_s == pytest.approx(5.0 * (1.0 + gap_mean))
    assert found["itl_s"]["p99"].low_s == pytest.approx(5.0 * (1.0 - gap_quantile))


def test_a_saturated_wait_is_bounded_by_nothing() -> None:
    wait = central_queue(np.array([1.0]), np.array([2.0]), ServiceLaw.deterministic(1.0))
    endless = dict.fromkeys(STATISTICS, math.inf)
    found = formula_bands("disaggregated", dict.fromkeys(LATENCIES, endless), wait, ("ok", ""))
    band = found["ttft_s"]["p99"]
    assert (band.low_s, band.high_s, band.trust) == (0.0, None, "no closed form")
    assert "stable with" in band.reason


def test_a_first_token_that_never_waits_still_has_a_band() -> None:
    """Its prefill and the step in progress have laws of their own, which simulations differ from by some percent."""
    wait = central_queue(64, 0.1, ServiceLaw.deterministic(1.0))
    found = formula_bands("disaggregated", dict.fromkeys(LATENCIES, dict.fromkeys(STATISTICS, 2.0)), wait, ("ok", ""))
    band = found["ttft_s"]["p50"]
    assert band.low_s <= 1.9001 and band.high_s is not None and band.high_s >= 2.0999
