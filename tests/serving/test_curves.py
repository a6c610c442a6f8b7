"""Distributions are the laws of the percentiles; operators are those of the deployment."""

from __future__ import annotations

import numpy as np
import pytest
import small_scenarios as small

from planner.records import PROBABILITY, Deployment
from planner.serving.curves import distributions, role_work
from planner.serving.predict import predict

DEPLOYMENTS = (small.SPLIT, small.TOGETHER, small.WHOLE)


@pytest.mark.parametrize("deployment", DEPLOYMENTS, ids=lambda one: one.mode)
def test_distributions_pass_through_every_percentile(deployment: Deployment) -> None:
    question = small.scenario()
    prediction = predict(question, deployment, with_intervals=False)
    found = distributions(question, deployment)
    assert set(found) == {"ttft_s", "itl_s"}
    for name, curve in found.items():
        statistics = getattr(prediction, name)
        for statistic, q in PROBABILITY.items():
            at = int(np.argmin(np.abs(curve.share_over - (1.0 - q))))
            assert curve.value_s[at] == statistics[statistic]
        assert np.all(np.diff(curve.share_over) < 0.0) and np.all(np.diff(curve.value_s) >= -1e-12)


def test_what_never_settles_has_no_distribution() -> None:
    assert distributions(small.scenario(requests_per_s=1e4), small.TOGETHER) == {}


def test_operators_are_those_of_each_pool() -> None:
    found = role_work(small.scenario(), small.SPLIT, 30.0)
    assert [(one.pool, one.accelerator, one.phase) for one in found] == [
        ("prefill", "h100-sxm", "prefill"),
        ("decode", "h100-sxm", "decode"),
    ]
    together = role_work(small.scenario(), small.TOGETHER, 30.0)
    assert [(one.pool, one.phase) for one in together] == [("colocated", "prefill"), ("colocated", "decode")]
    assert all(
        {one.name for one in role.operators} == {"matrices", "head", "attention"} for role in (*found, *together)
    )
